#!/usr/bin/env python3
"""What rql says of a key that is no lock, a pattern, a refusal, a command that is not there, a word too many."""
import os
import pwd
import re
import shlex
import subprocess

from harness import PROGRAM, Proxy, check_equal, check_in, environment, main

NAMES = "naïve", "日本", "a/b"
RUBY = "rql:acq:1/2/3/4/0123456789abcdef"
RUBY_HOST = "rql:hst:1/2/4/0123456789abcdef"


def test_a_pattern_matches_characters(server, rql):
    """Whatever the locale says; what is no UTF-8 is matched by bytes."""
    for name in (*NAMES, b"\xff"):
        server.ask("HSET", b"rql:lock:" + (name.encode() if isinstance(name, str) else name), "acq_id", "x")
    for glob, names in (("na?ve", "naïve"), ("na[ïi]ve", "naïve"), ("na[!a-z]ve", "naïve"), ("??", "日本"), ("a?b", "a/b"),
                        ("?", "\\xff")):
        for locale in "C", "C.UTF-8":
            check_equal(rql("ls", glob, LC_ALL=locale).out, names + "\n", glob)
    check_equal(rql("clear", "na?ve", "--force").code, 0)
    assert not server.is_locked("naïve") and server.is_locked("日本")


def test_a_bad_pattern_is_wrong_usage(server, rql):
    server.ask("HSET", "rql:lock:[x", "acq_id", "x")
    for glob in "[", "[x", "a[]", "[!]", "[[:alpha:]", "[[:alpha]", "a\\", "[a\\]":
        for words in (["who"], ["ls"], ["clear", "--force"]):
            result = rql(words[0], glob, *words[1:])
            check_equal((result.code, result.out, result.err.count("\n")), (64, "", 1), glob)
            check_in("bad pattern", result.err)
    for glob in "\\[x", "[[]x", "[[x]*", "*[]x]":
        check_equal(rql("ls", glob).out, "[x\n", glob)
    for glob in "[]]", "[!]]", "[[:alpha:]]", "[[.a.]]", "]", "[\\]]":
        check_equal(rql("ls", glob).code, 0, glob)


def test_a_key_of_another_type_is_a_fault_of_both(server, rql):
    server.ask("SET", "rql:lock:x", "1")
    server.ask("SET", "rql:lock_queue:x", "1")
    for command, what in ("info", "lock"), ("queue", "queue"):
        for form in [], ["--json"]:
            result = rql(command, "x", *form)
            check_equal((result.code, result.err), (69, f"rql: x: its key is not a {what}: wrong type\n"))
        check_equal(result.json()["status"], "wrong type")


def test_what_is_no_lock_is_not_unlocked(server, rql):
    server.ask("SET", "rql:lock:x", "1")
    server.ask("ZADD", "rql:lock_queue:x", "1", "rql:acq:1/2/3/4/0123456789abcdef")
    for form in [], ["--json"]:
        result = rql("unlock", "x", "--force", *form)
        check_equal((result.code, result.out, result.err.count("\n")), (69, "", 1))
        check_in("rql:lock:x", result.err)
        check_in("WRONGTYPE", result.err)
    for change in "-1m", "1m":
        result = rql("extend", "x", "--add", change, "--force")
        check_equal((result.code, result.out, result.err.count("\n")), (69, "", 1))
    check_equal((server.ask("GET", "rql:lock:x"), server.ask("PTTL", "rql:lock:x")), ("1", -1))
    check_equal(server.queue_length("x"), 1)


def test_a_refusal_names_the_holder(_server, rql):
    rql("lock", "a", "--ttl", "1m")
    result = rql("lock", "a", "--try", "--json")
    check_equal((result.code, result.json()), (1, None))
    holder = rql("info", "a").out.split("holder")[1].splitlines()[0].strip()
    check_in("rql[", holder)
    for words in (["lock", "a", "--try"], ["lock", "a", "-nE7"], ["run", "a", "--try", "--", "echo"],
                  ["run", "a", "-w", "100ms", "--conflict-exit-code=7", "--", "echo"],
                  ["series", "b{a}", "a", "--try", "--", "echo"]):
        result = rql(*words)
        code = 7 if "7" in str(words) else 1
        check_equal((result.code, result.out, result.err.count("\n")), (code, "", 1), words)
        check_in(": not acquired", result.err)
        check_in(f"; held by {holder}\n", result.err)
        assert "rql:acq" not in result.err and "rql:hst" not in result.err, result.err


def test_a_command_that_is_not_there_or_may_not_run_is_said_to_be_so(server, rql):
    for command in "/etc/passwd", "/":
        check_equal(rql("run", "n", "--", command).code, 126)
    for command, said in (("nosuchcmd", "nosuchcmd: command not found"), ("/no/such", "/no/such: No such file or directory"),
                          ("echo $RQL_LOCK", "echo $RQL_LOCK: command not found; give a line for a shell with -c"),
                          ("/bin/echo a", "/bin/echo a: command not found; give a line for a shell with -c")):
        result = rql("run", "n", "--", command)
        check_equal((result.code, result.err), (127, f"rql: {said}\n"))
    assert not server.is_locked("n")


def test_the_rest_of_a_ttl_is_shown(_server, rql):
    rql("lock", "a", "--ttl", "1m")
    out = rql("extend", "a", "--add", "1h", "--force").out
    assert out in ("ttl: 1h00m left\n", "ttl: 1h01m left\n"), out
    check_equal(rql("extend", "a", "--add", "-2h", "--force").out, "ttl: ended\n")


class Meanwhile(Proxy):
    """Takes the lock for a Ruby before it hands on the reading that comes after the change."""

    def __init__(self, server, acquirer):
        self.server, self.acquirer, self.n_readings = server, acquirer, 0
        super().__init__(server.path)

    def hand_on(self, link, sink, data):
        if sink is link.far and b"HGETALL" in data:
            self.n_readings += 1
            if self.n_readings == 2:
                hold(self.server, self.acquirer, "1795254269.5")
        return super().hand_on(link, sink, data)


def hold(server, acquirer, ts):
    server.ask("HSET", "rql:lock:a", "acq_id", acquirer, "hst_id", RUBY_HOST, "ts", ts, "ini_ttl", "60000")
    server.ask("PEXPIRE", "rql:lock:a", "60000")


def test_the_ttl_of_the_next_holder_is_not_shown_for_the_lock_that_was_ended(server, rql):
    """Also if the next holder is the one that had the lock before."""
    for acquirer in RUBY, RUBY.replace("/4/", "/5/"):
        hold(server, RUBY, "1795254268.5")
        with Meanwhile(server, acquirer) as proxy:
            result = rql("extend", "a", "--add", "-2h", "--force", RQL_URL=proxy.url)
        check_equal((result.code, result.out, result.err), (0, "ttl: ended; the lock has been acquired again\n", ""))


# (what is said, command lines that are wrong)
NO_DURATION = "is not a duration: write it with its unit, such as 500ms, 0.5s or 1h30m"
WRONG_USAGE = (
    ("", """
info | info a b | info a -- | run a | run a -- | run -- true | run a true | ls -x | lock a --try=yes | lock a --meta x
lock a --meta =x | lock a --meta acq_id=x | lock a -E 256 | lock a -E -1 | lock '' | ls a b | info a --jso
ls --retry-count some | ls --url ftp://x | ls --keys --long | help x | ping unix:///a unix:///b
lock a --ttl | lock a --ttl 0 | lock a --ttl forever | lock a --ttl 99999999999999999999s
lock a --ttl 9223372036854775807d
unlock a | unlock a --secret short | unlock a --force --secret 00000000000000000000000000000000
extend a --force | extend a --add 5s | extend a --secret 00000000000000000000000000000000
extend a --add 5s --secret short | extend a --add 5s --force --secret 00000000000000000000000000000000
clear | clear --force --dry-run | clear a b --force | clear-of --host h --acquirer a | clear-of --host h --force
clear-of --acquirer a --force | clear-of --acquirer '' --host h --force
dead --older-than 5 | dead --older-than -5s | dead --older-than 99999d | dead
stats --json --openmetrics | stats --out f | stats --json --out f | stats --classes f | stats --openmetrics --every 1s
stats --openmetrics --out f --every 999ms | doctor --max-keys many | doctor --max-keys 100000001"""),
    ("see rql bench --help", """
bench --for 999ms | bench --for 5m1s | bench --threads 0 | bench --threads 257 | bench --threads 8,8
bench --threads 8,1 | bench --threads 1,2,3,4,5 | bench --threads 1, | bench --threads '' | bench --threads two
bench --openmetrics | bench unix:///a unix:///b"""),
    (NO_DURATION, """
lock a --ttl 0.5 | lock a --ttl 5 | lock a --ttl 5x | lock a --ttl 0.0001s | lock a --ttl 30m1h | lock a --ttl 1h1h
lock a --ttl 1.5h30m | lock a --ttl 1.s | lock a --ttl .5s | bench --for 10"""),
    ("one too many: more", """
help run more | help options more | help --roff run more | help --completion bash more | --help run more
hosts more"""),
    ("one too many: -m", "info -- -n -m"),
    ("at -m", "run -- -n -m -- true"),
    ("which lock?", "run -- -- true"),
    ("which command?", "run -- -n | series -- true | series a b"),
    ("which action?", "swarm"),
    ("nothing can follow --", "info -- -n -- -- | stats -- -n"),
    ("--try does not go with --wait", """
lock a --try --wait 1s | run a -w0 -n -- true | series a --wait=forever --try -- true"""),
    ("--gem does not go with --sorted", "series --gem a b --sorted -- true"),
    ("--kill-after has to be shorter than --max-hold", "run a --max-hold 2s --kill-after 2s -- true"),
    ("--kill-after has to be shorter than --ttl", "run a --no-auto-extend --ttl 2s --kill-after 2s -- true"),
    ("--max-hold 0", "run a --max-hold 0 -- true"),
    ("run: log lines are written as text or json, not as xml", "run a --log xml -- true"),
    ("a: occurs twice in one series", "series a b{a} a -- true"),
    ("too many names at 64", f"series {' '.join(map(str, range(65)))} -- true"),
    ("unknown flag --nope", "series a --nope -- true"),
    ("queue: unknown flag --nonsense; see rql queue --help", "queue a --nonsense=1"),
    # What follows may be a secret, and is not repeated.
    ("unknown flag --secrt (did you mean --secret?)", "unlock a --secrt=hush"),
    ("unknown flag --secr (did you mean --secret?)", "unlock a --secr hush"),
    ("unknown flag -x;", "unlock a -xhush"),
    ("unknown command rnu (did you mean run?); see rql ", "rnu | --help rnu"),
    ("unknown command serise (did you mean series?); see rql ", "help serise"),
    ("unknown command release (did you mean unlock?)", "release"),
    ("unknown command acquire (did you mean lock?)", "acquire"),
    ("unknown command version (did you mean --version?)", "version"),
    ("unknown action dance", "swarm dance"),
    ("swarm: unknown action statsu (did you mean status?); see rql ", "swarm statsu"),
    ("ls: unknown flag --quues (did you mean --queues?); see rql ", "ls --quues"),
    ("ls: unknown flag --retry_cuont (did you mean --retry-count?); see rql ", "ls --retry_cuont=3"),
    ("--long belongs behind the command", "--long ls"),
    ("unknown flag --xyzzy;", "--xyzzy ls"),
    # Nothing is like these.
    ("unknown command nonsense; see rql ", "nonsense"),
    ("unknown flag --nonsense; see rql ", "--nonsense | ls --nonsense"),
    ("unknown action nonsense; see rql ", "swarm nonsense"),
)


def test_wrong_usage_is_one_line_and_64(server, rql):
    """And nothing is done."""
    server.ask("HSET", "rql:lock:a", "acq_id", "a", "hst_id", "h")
    lines = [(said, shlex.split(line)) for said, some in WRONG_USAGE for line in re.split(r"[|\n]", some.strip())]
    for said, words in [*lines, ("", ["lock", "a\nb"]), ("", ["lock", "x" * 513]),
                        (NO_DURATION, ["lock", "a", "--ttl", "-5s"])]:
        result = rql(*words)
        check_equal((result.code, result.out, result.err[:5], result.err.count("\n")), (64, "", "rql: ", 1), words)
        check_in(said, result.err)
        assert "hush" not in result.err, result.err
    check_equal(server.ask("KEYS", "*"), ["rql:lock:a"])


def account():
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid {os.geteuid()}"


def test_a_user_has_a_name(server, _rql):
    """Without $USER, as in cron, services and containers."""
    for variables, user in (({"USER": "ann"}, "ann"), ({"LOGNAME": "bob"}, "bob"), ({"USER": "", "LOGNAME": ""}, None),
                            ({}, None)):
        env = {key: value for key, value in environment(server.url).items() if key not in ("USER", "LOGNAME")}
        server.ask("DEL", "rql:lock:a", "rql:clients")
        subprocess.run([PROGRAM, "lock", "a", "--ttl", "1m"], env={**env, **variables}, check=True, capture_output=True)
        text = "".join(server.ask("HVALS", "rql:clients"))
        check_in(f'"user":"{user or account()}"', text)


if __name__ == "__main__":
    main()
