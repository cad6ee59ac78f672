#!/usr/bin/env python3
"""The shell lines of README.md run as they are written there."""
import os
import re
import subprocess
import sys
import tempfile

from harness import PATIENCE_S, PROGRAM, Program, check_equal, environment, main

README = os.path.join(os.path.dirname(__file__), "..", "..", "README.md")


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
    def test(server, _rql):
        with tempfile.TemporaryDirectory(prefix="rql-readme-") as folder:
            os.symlink(PROGRAM, folder + "/rql")
            for script in re.findall(r"\./[\w.-]+", line):
                write_script(folder + "/" + script)
            variables = environment(server.url)
            variables["PATH"] = folder + ":" + variables["PATH"]
            done = subprocess.run(["sh", "-c", line], cwd=folder, env=variables, text=True,
                                  capture_output=True, timeout=PATIENCE_S, check=False)
        check_equal((done.returncode, done.stderr), (0, ""), line)

    test.__name__ = re.sub(r"\W+", "_", line).strip("_")
    return test


def rights():
    """The commands of each line of the answer about rights, in its order."""
    with open(README, encoding="utf-8") as file:
        answer = re.search(r"Which rights does a user need\?(.*?)reported at connect", file.read(), re.S)
    points = re.split(r"^\* ", answer.group(1), flags=re.M)[1:]
    return [re.sub(r"`rql \w+`", "", point).split("`")[1::2] for point in points]


def rights_of_the_answer_suffice(server, rql):
    locks, looks, sweeps, force = [" ".join(words).split() for words in rights()]
    for user, commands, lines in (
            ("lock", locks, ["run a -- true", "series a b -- true", "lock a --try --ttl 1m",
                             "extend a --add 1s --force"]),
            ("look", locks + looks, ["info a", "ls", "ls -l", "ls -q -l", "ls -k", "who"]),
            ("sweep", locks + looks + sweeps,
             ["stats", "swarm status", "swarm info", "swarm probe", "swarm zombies", "swarm flush", "dead",
              "clear-of --host h --acquirer a --force", "clear --dry-run"]),
            ("force", locks + force, ["unlock a --force"]),
            ("sweep", locks + looks + sweeps, ["clear --force"])):
        server.call("ACL", "SETUSER", user, "reset", "on", ">pw", "~rql:*", "&rql:wake:*",
                    *("+" + command for command in commands))
        own = Program(f"unix://{user}:pw@{server.path}")
        for line in lines:
            result = own(*line.split())
            check_equal((result.code, result.err), (0, ""), f"{user}: rql {line}")


if __name__ == "__main__":
    sys.exit(main([runs(line) for line in example_lines()] + [rights_of_the_answer_suffice]))
