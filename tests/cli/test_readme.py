#!/usr/bin/env python3
"""The shell lines of README.md run as they are written there."""
import json
import os
import re
import shlex
import subprocess
import tempfile
import time

from harness import (PATIENCE_S, PROGRAM, Program, add, check_equal, environment, finish, is_cluster, leave_out_in_cluster,
                     main, start_waiting, wait_until)

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
README = os.path.join(ROOT, "README.md")
DEPLOYMENTS = os.path.join(ROOT, "include/rql/deployments.md")
LUA = os.path.join(ROOT, "lua")
LOCKING = "acquire acquire_series decrease extend force_extend leave release".split()
SENT_TO_LOCK = set("eval evalsha ping publish subscribe hello".split())
IN_CLUSTER = "spublish ssubscribe sunsubscribe cluster|slots".split()
URL = "redis://localhost"  # of the lines that name a server
RUBY = "rql:acq:1/2/3/4/0123456789abcdef"
# What the library asks for, and does without.
WITH_GRACE = {"info", "script|exists", "client|info", "client|kill", "client|tracking", "client|caching", "memory|usage",
              "__redis__:invalidate"}


def example_lines():
    """The lines of all sh blocks that call the program, without their remarks."""
    with open(README, encoding="utf-8") as file:
        blocks = re.findall(r"^```sh\n(.*?)^```$", file.read(), re.M | re.S)
    lines = [line.split(" #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("rql ")]


def write_script(path):
    """Stands for the user's command: succeeds only while a lock is held."""
    with open(path, "w", encoding="ascii") as file:
        file.write('#!/bin/sh\n[ -n "$RQL_LOCK" ]\n')
    os.chmod(path, 0o755)


def runs(line):
    def test(server, rql):
        if line.startswith("rql series"):
            leave_out_in_cluster("a series of names without a {tag}")
        if line.startswith("rql history"):
            check_equal(rql("run", "a", "--", "true", RQL_HISTORY="long").code, 0)
        if line.startswith("rql drain"):
            entry = {"host": line.split()[2], "pid": 1, "at_us": time.time_ns() // 1000}
            server.ask("HSET", "rql:clients", "0" * 32, json.dumps(entry, separators=(",", ":")))
        with tempfile.TemporaryDirectory(prefix="rql-readme-") as folder:
            os.symlink(PROGRAM, folder + "/rql")
            for script in re.findall(r"\./[\w.-]+", line):
                write_script(folder + "/" + script)
            variables = environment(server.url)
            variables["PATH"] = folder + ":" + variables["PATH"]
            if URL in line or line.startswith("rql doctor"):  # which looks at no server that is not named
                del variables["RQL_URL"]
            done = subprocess.run(["sh", "-c", line.replace(URL, shlex.quote(server.url))], cwd=folder, env=variables, text=True,
                                  capture_output=True, timeout=PATIENCE_S, check=False)
        # A machine that is busy with others is warned of by the doctor.
        is_warned = line.startswith("rql doctor") and "\nWARN" in done.stdout
        check_equal((done.returncode, done.stderr), (int(is_warned), ""), line)

    return test


def rights():
    """The commands of each line of the list of rights, in its order."""
    with open(DEPLOYMENTS, encoding="utf-8") as file:
        answer = re.search(r"^## Rights$(.*?)reported at connect", file.read(), re.M | re.S)
    points = re.split(r"^\* ", answer.group(1), flags=re.M)[1:]
    return [" ".join(re.sub(r"`rql \w+`", "", point).split("`")[1::2]).split() for point in points]


def commands_of(script):
    """What a script calls, with what it includes."""
    with open(os.path.join(LUA, script + ".lua"), encoding="utf-8") as file:
        text = file.read()
    return {command.lower() for command in re.findall(r'\bp?call\("([A-Z]+)"', text)}.union(
        *(commands_of(name) for name in re.findall(r"@include (\w+)", text)))


def test_rights_of_the_answer_are_those_of_the_scripts(_server, _rql):
    locks, looks, sweeps, _, history, _ = rights()
    called = set().union(*(commands_of(script) for script in LOCKING))
    check_equal(set(locks), called | SENT_TO_LOCK, "to lock")
    scripts = [name[:-4] for name in os.listdir(LUA) if name.endswith(".lua")]
    called = set().union(*(commands_of(script) for script in scripts))
    check_equal(called - {*locks, *looks, *sweeps, *history, "memory"}, set(), "to sweep, and for a history")


def make_user(server, user, commands):
    server.ask("ACL", "SETUSER", user, "reset", "on", ">pw", "~rql:*", "&rql:wake:*",
                *("+" + command for command in [*commands, *(IN_CLUSTER if is_cluster() else ())]))
    server.ask("ACL", "LOG", "RESET")
    return Program(server.url_with(f"{user}:pw@"))


def check_refused_nothing(server, user):
    """Some refusals change what is done, and no answer tells of them."""
    refused = {dict(zip(entry[::2], entry[1::2]))["object"] for entry in server.ask("ACL", "LOG")}
    check_equal(refused - WITH_GRACE, set(), f"refused to {user}")


def test_rights_of_the_answer_suffice(server, _rql):
    locks, looks, sweeps, force, *_ = rights()
    for user, commands, lines in (
            ("lock", locks, ["run a -- true", "series a b{a} -- true", "lock a --try --ttl 1m",
                             "extend a --add 1s --force"]),
            ("look", locks + looks, ["info a", "ls", "ls -l", "ls -q -l", "ls -k", "who"]),
            ("sweep", locks + looks + sweeps,
             ["stats", "swarm status", "hosts", "swarm zombies", "swarm flush", "dead --force",
              "clear-of --host h --acquirer a --force", "clear --dry-run"]),
            ("force", locks + force, ["unlock a --force"]),
            ("sweep", locks + looks + sweeps, ["clear --force"])):
        own = make_user(server, user, commands)
        server.ask("ZADD", "rql:lock_queue:q", 1, RUBY)
        for line in lines:
            result = own(*line.split())
            check_equal((result.code, result.err), (0, ""), f"{user}: rql {line}")
        check_refused_nothing(server, user)


def transcript():
    """Each command of README's picture of a terminal, with the lines that it prints."""
    with open(README, encoding="utf-8") as file:
        block = re.search(r"^```console\n(.*?)^```$", file.read(), re.M | re.S)[1]
    return [part.split("\n", 1) for part in re.split(r"^\$ ", block, flags=re.M)[1:]]


def shape(text):
    """Without what is another at each run: clients, times, the server, and the blanks of columns."""
    for what, word in ((r"\S+ rql\[\d+\]", "CLIENT"), (r"\b[\d.]+(ms|s|m\d+s)\b", "TIME"), (r"[\d.]+ ms away", "AWAY"),
                       (r"^server  .*, up", "server up"), (r"\n +", " "), (r"  +", "  ")):
        text = re.sub(what, word, text, flags=re.M)
    return text.strip()


def test_readmes_terminal_shows_what_the_program_prints(server, rql):
    if is_cluster():
        leave_out_in_cluster("the doctor says of one server what README shows")
    (holds, _), (waits, _), *rest = transcript()
    with tempfile.TemporaryDirectory(prefix="rql-readme-") as folder:
        for name in ("backup.sh", "report.sh", "digest.sh", "other.sh"):
            with open(f"{folder}/{name}", "w", encoding="ascii") as file:
                file.write("#!/bin/sh\nexec sleep 60\n")
            os.chmod(f"{folder}/{name}", 0o755)
        words = [shlex.split(line.removesuffix("&").replace("./", folder + "/"))[1:] for line in (holds, waits)]
        rql.start(*words[0])
        wait_until(lambda: server.is_locked("nightly"), "the first one has the lock")
        rql.start(*words[1])
        server.await_queue(["nightly"], 1)
        for command, printed in rest:
            words = shlex.split(command.replace(" " + URL, "").replace("./", folder + "/"))[1:]
            done = subprocess.run([PROGRAM, *words], env=environment(server.url), text=True, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if "\nWARN" not in done.stdout:  # a machine that is busy with others is warned of by the doctor
                check_equal(shape(done.stdout), shape(printed), command)
            assert max(map(len, (done.stdout + printed).splitlines())) <= 80, command


def test_rights_to_lock_suffice_in_a_queue_that_was_emptied(server, rql):
    own = make_user(server, "lock", rights()[0])
    secret = rql("lock", "a", "--ttl", "1m", "--json").json()["secret"]
    check_equal(own("extend", "a", "--add", "1m", "--secret", secret).code, 0)
    waiter = start_waiting(server, own, "run", "a", "--", "true")
    server.ask("DEL", "rql:lock_queue:a")
    check_equal(own("unlock", "a", "--secret", secret).code, 0)
    check_equal(finish(waiter).code, 0)
    check_refused_nothing(server, "lock")


def test_rights_to_lock_suffice_behind_a_series_and_a_ruby(server, rql):
    own = make_user(server, "lock", rights()[0])
    secrets = [rql("lock", name, "--ttl", "1m", "--json").json()["secret"] for name in ("a", "b{a}")]
    series = start_waiting(server, own, "series", "a", "b{a}", "--", "true")
    server.ask("ZADD", "rql:lock_queue:a", time.time(), RUBY)
    waiter = start_waiting(server, own, "run", "a", "--", "true")
    check_equal(own("unlock", "a", "--secret", secrets[0]).code, 0)
    check_equal(finish(waiter).code, 0)
    check_equal(own("unlock", "b{a}", "--secret", secrets[1]).code, 0)
    check_equal(finish(series).code, 0)
    check_refused_nothing(server, "lock")


if __name__ == "__main__":
    for shell_line in example_lines():
        add(re.sub(r"\W+", " ", shell_line).strip(), runs(shell_line))
    main()
