#!/usr/bin/env python3
"""`rql run` as a process among others: its descriptors."""
import os
import subprocess
import sys

from harness import PROGRAM, TIMEOUT_S, Server, check_equal, check_in, environment, finish, main, wait_until

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


def a_nested_run_is_refused_at_once(server, rql):
    plain = Server()
    try:
        for outer in (("run", "a"), ("series", "b{a}", "a")):
            for inner in (("run", "a", "--", "true"), ("lock", "a"), ("series", "c{a}", "a", "--", "true")):
                result = rql(*outer, "--", PROGRAM, *inner, "-E", "9") if inner[0] == "lock" else \
                    rql(*outer, "--", PROGRAM, *inner[:-2], "-E", "9", *inner[-2:])
                check_equal(result.code, 9, f"{outer} {inner} {result.err}")
                check_in("rql: a: not acquired: this command already runs under the lock", result.err)
        check_equal(rql("run", "a", "--", PROGRAM, "run", "b", "--", "true").code, 0)
        check_equal(rql("run", "a", "--", PROGRAM, "--url", plain.url, "run", "a", "--", "true").code, 0)
    finally:
        plain.stop()


def a_daemon_that_outlives_its_lock_waits_as_usual(server, rql):
    variables = rql("run", "a", "--", "sh", "-c", 'echo "$RQL_LOCK $RQL_TOKEN"').out.split()
    inherited = dict(zip(("RQL_LOCK", "RQL_TOKEN"), variables))
    check_equal(rql("run", "a", "--", "true", **inherited).code, 0)
    secret = rql("lock", "a", "--ttl", "1m", "--json").json()["secret"]
    process = rql.start("run", "a", "--", "echo", "ran", **inherited)
    wait_until(lambda: server.queue_length("a") == 1, "it waits")
    check_equal(rql("unlock", "a", "--secret", secret).code, 0)
    check_equal(finish(process).out, "ran\n")


if __name__ == "__main__":
    sys.exit(main([
        closed_descriptors_do_no_harm,
        a_result_without_stdout_is_a_failure,
        a_command_that_writes_to_a_closed_stdout_fails_too,
        a_nested_run_is_refused_at_once,
        a_daemon_that_outlives_its_lock_waits_as_usual,
    ]))
