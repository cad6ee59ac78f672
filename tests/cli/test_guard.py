#!/usr/bin/env python3
"""`rql run` as a process among others: its descriptors."""
import os
import subprocess
import sys

from harness import PROGRAM, TIMEOUT_S, check_equal, environment, main

RUN = ("run", "a", "--", "true")


def run_without(rql, closed, words):
    """Runs rql while these descriptors are closed. Returns its exit code."""
    def close_them():
        for fd in closed:
            os.close(fd)

    done = subprocess.run([PROGRAM, *words], env=environment(rql.url), timeout=TIMEOUT_S, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          preexec_fn=close_them)
    return done.returncode


def closed_descriptors_do_no_harm(server, rql):
    for closed in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        for words in (RUN, ("--log-lock-try", "true", "run", "a", "--log", "text", "--", "true"),
                      ("series", "a", "b{a}", "--log", "json", "--", "true")):
            check_equal(run_without(rql, closed, words), 0, f"{closed} closed, {words}")
            check_equal([server.is_locked(name) for name in ("a", "b{a}")], [False, False], f"{closed} closed, {words}")


def a_result_without_stdout_is_a_failure(server, rql):
    for closed in ((1,), (0, 1), (0, 1, 2)):
        for words in (("ls", "--json"), ("ping", "--json"), ("--version",), ("help",), ("lock", "a", "--ttl", "1ms")):
            check_equal(run_without(rql, closed, words), 74, f"{closed} closed, {words}")


def a_command_that_writes_to_a_closed_stdout_fails_too(server, rql):
    check_equal(run_without(rql, (1,), ("run", "a", "--", "sh", "-c", "echo x || exit 9")), 9)


if __name__ == "__main__":
    sys.exit(main([
        closed_descriptors_do_no_harm,
        a_result_without_stdout_is_a_failure,
        a_command_that_writes_to_a_closed_stdout_fails_too,
    ]))
