#!/usr/bin/env python3
"""rql series: a command under several locks."""
import contextlib
import os
import socket
import tempfile
import time

from harness import PROGRAM, check_equal, check_in, finish, main, start_waiting, wait_until

RESERVED_S = 2  # how long a free lock is kept for a series before another is let past
A, B, C, D = "a", "b{a}", "c{a}", "d{a}"  # where there are partitions, of one


@contextlib.contextmanager
def started(rql, words, script, *more):
    """rql with a script that begins when the locks are held and goes on with the end of the block."""
    with tempfile.TemporaryDirectory() as folder:
        fifo = folder + "/go"
        os.mkfifo(fifo)
        process = rql.start(*words, "--", "sh", "-c", f"read line < {fifo}; {script}", *more)
        with open(fifo, "w", encoding="ascii") as go:
            yield process
            go.write("\n")


def test_command_runs_under_all_locks_and_releases_them(server, rql):
    with started(rql, ("series", B, A, C, "--meta", "k=v"), "exit 7") as process:
        for name in (A, B, C):
            assert server.is_locked(name)
            check_equal(server.ask("HGET", "rql:lock:" + name, "k"), "v")
    check_equal(finish(process).code, 7)
    assert not any(server.is_locked(name) for name in (A, B, C))


def test_command_sees_names_and_tokens_in_the_given_order(server, rql):
    result = rql("series", B, "with blank{a}", A, "--", "sh", "-c",
                 'echo "$RQL_LOCK"; echo "$RQL_TOKEN"')
    lines = result.out.splitlines()
    check_equal(lines[:3], [B, "with blank{a}", A])
    tokens = [int(line) for line in lines[3:]]
    assert tokens[2] < tokens[0] < tokens[1] < 2 ** 53  # taken in canonical order
    result = rql("series", "--sorted", B, A, "--", "printenv", "RQL_TOKEN").out.split()
    assert tokens[1] < int(result[1]) < int(result[0])  # of one server
    gem = rql("series", "--gem", B, A, "--", "printenv", "RQL_TOKEN").out.split()
    assert int(result[0]) < int(gem[0]) < int(gem[1])


def test_nothing_is_taken_when_one_is_held(server, rql):
    rql("lock", B, "--ttl", "1m")
    for flags in ([], ["--gem"]):
        result = rql("series", A, B, C, "--try", "-E", "9", *flags, "--", "echo", "ran")
        check_equal((result.code, result.out), (9, ""))
        whole = "" if flags else " (of a series of 3)"
        check_in(f"rql: {B}{whole}: not acquired: it is held; held by {socket.gethostname()} rql[", result.err)
        assert not server.is_locked(A) and not server.is_locked(C)
        check_equal([server.queue_length(name) for name in (A, B, C)], [0, 0, 0])


def test_opposite_orders_do_not_deadlock(server, rql):
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/n"
        with open(path, "w", encoding="ascii") as file:
            file.write("0")
        add = f"n=$(cat {path}); echo $((n + 1)) > {path}"
        started = [rql.start("series", *names, "--", "sh", "-c", add)
                   for names in [(A, B, C), (C, B, A)] * 5]
        check_equal([finish(process).code for process in started], [0] * 10)
        with open(path, encoding="ascii") as file:
            check_equal(file.read().strip(), "10")


def nested(server, rql, outer, inner):
    """What a command does that runs under a lock of its own, while a series that waits for that
    lock is first in line for another; answers what it printed and how long it took."""
    with started(rql, outer, 'exec "$@"', "sh", PROGRAM, *inner, "--", "echo", "ran") as process:
        series = start_waiting(server, rql, "series", A, B, "--", "echo", "series")
        assert not server.is_locked(A)
        begun = time.monotonic()
    result = finish(process)
    took = time.monotonic() - begun
    check_equal(finish(series).out, "series\n")
    return result.out, took


def test_a_command_under_a_lock_has_what_is_reserved_for_who_waits_for_it(server, rql):
    for inner in (["run", A, "--wait", "10s"], ["series", A, C, "--wait", "10s"],
                  ["series", "--gem", C, A, "--wait", "10s"]):
        for outer in (["run", B], ["series", B, D]):
            out, took = nested(server, rql, outer, inner)
            check_equal(out, "ran\n")
            assert took < RESERVED_S, f"{outer} {inner} took {took} s"


def test_command_ends_when_one_of_the_locks_is_taken_away(server, rql):
    for name in (A, B, C):
        process = rql.start("series", A, B, C, "--ttl", "2s", "--", "sleep", "60")
        wait_until(lambda: server.is_locked(C), "it runs")
        server.ask("DEL", "rql:lock:" + name)
        result = finish(process)
        check_equal(result.code, 75)
        check_in(f"{A}, {B}, {C}: the lock is lost; ending the command", result.err)
        for other in (A, B, C):
            server.ask("DEL", "rql:lock:" + other)


if __name__ == "__main__":
    main()
