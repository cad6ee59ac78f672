#!/usr/bin/env python3
"""What rql says of a key that is no lock, a pattern, a refusal, a command that is not there, a word too many."""
import os
import pwd
import subprocess

from harness import PROGRAM, check_equal, check_in, environment, main

NAMES = "naïve", "日本", "a/b"


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
            check_equal((result.code, result.err), (69, f"rql: x: its key is no {what}: wrong type\n"))
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
    holder = rql("info", "a").out.split("holder")[1].splitlines()[0].strip()
    check_in("rql[", holder)
    for words in (["lock", "a", "--try"], ["run", "a", "--try", "--", "true"],
                  ["series", "b{a}", "a", "--try", "--", "true"]):
        result = rql(*words)
        check_equal((result.code, result.err.count("\n")), (1, 1), words)
        check_in(f"; held by {holder}\n", result.err)
        assert "rql:acq" not in result.err and "rql:hst" not in result.err, result.err


def test_a_command_that_is_not_there_is_said_to_be_not_found(_server, rql):
    for command, said in (("nosuchcmd", "nosuchcmd: command not found"), ("/no/such", "/no/such: No such file or directory"),
                          ("echo $RQL_LOCK", "echo $RQL_LOCK: command not found; a line for a shell is written sh -c '...'"),
                          ("/bin/echo a", "/bin/echo a: command not found; a line for a shell is written sh -c '...'")):
        result = rql("run", "n", "--", command)
        check_equal((result.code, result.err), (127, f"rql: {said}\n"))


def test_the_rest_of_a_ttl_is_shown(_server, rql):
    rql("lock", "a", "--ttl", "1m")
    out = rql("extend", "a", "--add", "1h", "--force").out
    assert out in ("ttl: 1h00m left\n", "ttl: 1h01m left\n"), out
    check_equal(rql("extend", "a", "--add", "-2h", "--force").out, "ttl: ended\n")


def test_words_behind_help_are_heeded(_server, rql):
    for words in (["help", "run", "more"], ["help", "options", "more"], ["help", "--roff", "run", "more"],
                  ["help", "--completion", "bash", "more"], ["--help", "run", "more"]):
        result = rql(*words)
        check_equal((result.code, result.out), (64, ""), words)
        check_in("one too many: more", result.err)
    check_equal(rql("--help", "run").out, rql("help", "run").out)
    check_equal(rql("--help").out, rql("help").out)
    check_in("unknown command rnu (did you mean run?)", rql("--help", "rnu").err)


def test_other_words_and_places_are_guessed(_server, rql):
    for word, guess in (("release", "unlock"), ("acquire", "lock"), ("hosts", "swarm info"), ("version", "--version")):
        result = rql(word)
        check_equal((result.code, result.out), (64, ""))
        check_in(f"unknown command {word} (did you mean {guess}?)", result.err)
    check_in("--json belongs behind the command", rql("--json", "ls").err)
    check_in("unknown flag --jsno;", rql("--jsno", "ls").err)


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
