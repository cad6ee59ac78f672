#!/usr/bin/env python3
"""rql run, lock and series while they wait: signals, a server that is away, and what is said."""
import os
import re
import resource
import signal
import time

from harness import (Program, Server, as_plain, check_equal, check_in, finish, is_cluster, is_gone, leave_out_in_cluster,
                     main, read_line, start_waiting, wait_until)

RUN = ("run", "a", "--", "echo", "ran")
NAMES = ("a", "z{a}")
OF_THE_GEM = ("series", "--gem", "z{a}", "a", "--", "echo", "ran")
WAYS = (RUN, ("lock", "a", "--json"), ("series", "z{a}", "a", "--", "echo", "ran"), OF_THE_GEM)


def test_a_signal_takes_the_request_out_of_its_queue(server, rql):
    rql("lock", "a", "--ttl", "1m")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        for words in WAYS:
            process = start_waiting(server, rql, *words)
            process.send_signal(number)
            result = finish(process)
            check_equal((result.code, result.out, result.err), (-number, "", ""), f"{words}")
            check_equal([server.queue_length(name) for name in NAMES], [0, 0], f"{words}")
            assert not server.is_locked("z{a}"), f"{words}"


def test_a_killed_series_of_the_gem_leaves_what_it_holds_to_its_ttl(server, rql):
    rql("lock", "a", "--ttl", "1m")
    process = start_waiting(server, rql, *OF_THE_GEM)
    process.kill()
    finish(process)
    check_equal((server.queue_length("a"), server.is_locked("z{a}")), (1, True))
    assert server.ask("PTTL", "rql:lock:z{a}") > 0


def test_wait_ends_when_the_lock_is_free_and_takes_nothing(server, rql):
    check_equal(rql("wait", "a").code, 0)
    rql("lock", "a", "--ttl", "1m")
    result = rql("wait", "a", "--wait", "600ms")
    check_equal((result.code, result.out), (1, ""))
    assert re.fullmatch(r"rql: a: still held after \d+ ms\n", result.err), result.err  # without the time to connect
    waiter = rql.start("wait", "a")
    begun = server.n_calls("hexists")
    wait_until(lambda: server.n_calls("hexists") >= begun + 2, "it has asked twice")
    check_equal(waiter.poll(), None)
    rql("unlock", "a", "--force")
    check_equal(finish(waiter).code, 0)
    assert not server.is_locked("a")
    check_equal(rql("wait", "a", "--url", "redis://127.0.0.1:1").code, 69)


def test_wait_goes_on_while_the_server_is_away(_server, rql):
    """A server without a file forgets its locks, so the lock is free as soon as it answers."""
    with Server() as own:
        own.ask("CONFIG", "SET", "save", "")
        rql("lock", "a", "--ttl", "1m", RQL_URL=own.url)
        waiter = rql.start("wait", "a", RQL_URL=own.url)
        begun = own.n_calls("hexists")
        wait_until(lambda: own.n_calls("hexists") >= begun + 2, "it has asked twice")
        own.kill()
        timed = rql.start("wait", "a", "--wait", "300ms", RQL_URL=own.url)
        check_equal((finish(timed).code, waiter.poll()), (69, None))
        own.launch()
        check_equal(finish(waiter).code, 0)


def is_withdrawn_after_two_signals(server, rql):
    server.ask("DEL", "rql:lock_queue:a", "rql:req:a")  # of a try before, which was not withdrawn
    process = start_waiting(server, rql, *RUN)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    assert finish(process).code in (-signal.SIGINT, -signal.SIGTERM)
    return server.queue_length("a") == 0


def test_two_signals_in_a_row_count_as_one(server, rql):
    """As timeout(1) sends them. There are milliseconds to withdraw in: a busy machine may need more tries."""
    rql("lock", "a", "--ttl", "1m")
    assert any(is_withdrawn_after_two_signals(server, rql) for _ in range(10))


def is_ended_by_a_signal_with_the_grant(server, rql, words):
    """False: it has asked whether its subscription lives, and not yet for the lock."""
    rql("lock", "a", "--ttl", "1m")
    process = start_waiting(server, rql, *words[:-3], "--io-timeout", "60s", *words[-3:])
    server.ask("PEXPIRE", "rql:lock:a", "50")
    server.ask("CLIENT", "PAUSE", "60000", "WRITE")  # it asks each 1.7 s, not knowing of the new end
    wait_until(lambda: "blocked_clients:1" in server.ask("INFO", "clients"), "it asks")
    wait_until(lambda: not server.is_locked("a"), "there is something to grant")
    is_for_lock = "cmd=publish" not in server.ask("CLIENT", "LIST")
    if is_for_lock:
        os.kill(process.pid, signal.SIGSTOP)
    server.ask("CLIENT", "UNPAUSE")
    if is_for_lock:
        wait_until(lambda: f":{process.pid}/" in (server.ask("HGET", "rql:lock:a", "acq_id") or ""), "it has it")
    process.terminate()
    os.kill(process.pid, signal.SIGCONT)
    # Where it has yet to ask it may begin its command before the signal comes, and then both end by it.
    check_equal(finish(process).code, -signal.SIGTERM)
    check_equal([server.is_locked(name) for name in NAMES], [False, False])
    check_equal(server.queue_length("a"), 0)
    return is_for_lock


def test_a_signal_that_comes_with_the_grant_ends_it(server, rql):
    """Both are there when it goes on: nothing is begun under the lock, and it is given back."""
    for words in (("run", "a", "--", "sleep", "60"), ("series", "z{a}", "a", "--", "sleep", "60")):
        assert any(is_ended_by_a_signal_with_the_grant(server, rql, words) for _ in range(10))


def test_a_second_signal_ends_it_at_once(server, rql):
    rql("lock", "a", "--ttl", "1m")
    process = start_waiting(server, rql, *RUN[:2], "--io-timeout", "60s", *RUN[2:])
    with server.frozen():
        process.send_signal(signal.SIGINT)
        wait_until(lambda: signal_is_taken(process.pid), "the first signal is taken")
        assert process.poll() is None, "it waits for the server to confirm"
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: is_gone(process.pid), "it ends", 5)
    assert finish(process).code in (-signal.SIGINT, -signal.SIGTERM)


def signal_is_taken(pid):
    """Nothing is pending any more."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        pending = re.search(r"^ShdPnd:\s*(\w+)", file.read(), re.M).group(1)
    return int(pending, 16) == 0


def test_signals_that_are_ignored_stay_ignored(server, rql):
    secret = rql("lock", "a", "--ttl", "1m", "--json").json()["secret"]
    kept = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    process = start_waiting(server, rql, *RUN)
    signal.signal(signal.SIGHUP, kept)
    process.send_signal(signal.SIGHUP)
    check_equal(rql("unlock", "a", "--secret", secret).code, 0)
    check_equal(finish(process).out, "ran\n")


NO_WRITES = {"READONLY": (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE")),
             "OOM": (("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0"))}
if is_cluster():
    del NO_WRITES["READONLY"]


def test_a_replica_is_told_and_waited_for(server, rql):
    leave_out_in_cluster("a replica by one command")
    for words in WAYS:
        server.ask("REPLICAOF", "127.0.0.1", "1")
        process = rql.start(*words)
        begun = time.monotonic()
        check_in(": waiting: acquire", (line := read_line(process.stderr)))
        check_in("READONLY", line)
        said_after = time.monotonic() - begun
        assert said_after < 5, f"said after {said_after} s"
        server.ask("REPLICAOF", "NO", "ONE")
        result = finish(process)
        check_equal((result.code, result.err), (0, ""))
        rql("unlock", "a", "--force")


def test_try_waits_for_nothing(server, rql):
    for reason, (words, undo) in NO_WRITES.items():
        server.ask(*words)
        results = [rql(way[0], "--try", *way[1:]) for way in WAYS]
        server.ask(*undo)
        for result in results:
            check_equal((result.code, result.out, result.err.count("\n")), (69, "", 1), result.err)
            check_in(reason, result.err)


def test_another_reason_is_told_too(server, rql):
    leave_out_in_cluster("a replica by one command")
    server.ask("CONFIG", "SET", "maxmemory", "1")
    process = rql.start(*RUN)
    check_in("rql: a: waiting: acquire on rql:lock:a: OOM", as_plain(read_line(process.stderr)))
    server.ask("REPLICAOF", "127.0.0.1", "1")
    server.ask("CONFIG", "SET", "maxmemory", "0")
    check_in("READONLY", read_line(process.stderr))
    server.ask("REPLICAOF", "NO", "ONE")
    result = finish(process)
    check_equal((result.code, result.out, result.err), (0, "ran\n", ""))


def test_a_server_that_goes_away_is_told_once(server, rql):
    with Server() as own:
        there = Program(own.url)
        there("lock", "a", "--ttl", "1m")
        process = start_waiting(own, there, *RUN)
        own.kill()
        line = read_line(process.stderr)
        check_in("rql: a: waiting: ", line)
        check_in(own.place, line)
        time.sleep(1)
        own.launch()
        result = finish(process)
        check_equal((result.code, result.out), (0, "ran\n"))
        # A node that has just started says that its cluster is down: another reason.
        assert not result.err or (is_cluster() and "CLUSTERDOWN" in result.err), result.err


def test_wait_waits_for_a_server_that_is_not_up_yet(server, rql):
    with Server() as own:
        there = Program(own.url)
        for words in (("run", "a", "--wait", "20s", "--", "echo", "ran"),
                      ("lock", "b", "--wait", "forever"),
                      ("series", "c", "d{c}", "-w", "20s", "--", "echo", "ran")):
            own.kill()
            process = there.start(*words)
            line = read_line(process.stderr)
            check_in(": waiting for the server: cannot connect to " + own.url, line)
            own.launch()
            result = finish(process)
            said = result.err.splitlines()
            if is_cluster():  # a node that starts is down for a while
                said = [line for line in said if ": waiting: " not in line]
            check_equal((result.code, said), (0, []))
        own.kill()
        begun = time.monotonic()
        result = there("run", "a", "--wait", "0.4s", "--", "echo", "ran")
        assert time.monotonic() - begun >= 0.4
        check_equal((result.code, result.out), (69, ""))
        check_equal(len(result.err.splitlines()), 2)
        result = there("run", "a", "--wait", "0", "--", "echo", "ran")
        check_equal((result.code, result.err.count("\n")), (69, 1))


def test_wait_is_not_overrun_while_it_connects(server, rql):
    """A silent server lets each attempt take as long as it may."""
    with Server() as own, own.frozen():
        for wait in ("50ms", "1s"):
            begun = time.monotonic()
            result = Program(own.url)("run", "a", "--wait", wait, "--", "echo", "ran", RQL_CONNECT_TIMEOUT_MS="20000")
            took = time.monotonic() - begun
            check_equal((result.code, result.out), (69, ""))
            assert took < 10, f"{wait} took {took} s"


def test_too_few_descriptors_are_told(server, rql):
    """libuv ends the process where it finds none for what it sets up once."""
    codes = []
    for limit in range(4, 30):
        limits = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))}
        result = rql("lock", "a", "--ttl", "1s", popen=limits)
        codes.append(result.code)
        assert result.code in (0, 69), f"limit {limit}: {result.code} {result.err}"
        check_equal(result.err.count("\n"), int(result.code > 0), f"limit {limit}: {result.err}")
        rql("unlock", "a", "--force")
    check_equal((codes[0], codes[-1]), (69, 0))


if __name__ == "__main__":
    main()
