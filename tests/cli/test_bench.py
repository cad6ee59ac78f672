#!/usr/bin/env python3
"""rql bench: what it measures, that it leaves nothing behind, and when it does not begin."""
import contextlib
import re
import signal
import threading
import time

from harness import SLOW, Server, check_equal, check_in, finish, main, wait_until

LOADS = [("ping", 0), ("plain_lock", 0), ("pair", 0), ("hand_over", 2), ("hand_over", 16)]
BUSY = "for i = 1, tonumber(ARGV[1]) do end return 1"
A_MOMENT = 200_000  # turns: about 2 ms


def measured(rql, *words, **more):
    """A whole run. On a machine that is busy with others the time may be too short for a hand-over."""
    for seconds in (1, 2, 4, 8, 16):
        result = rql("bench", "--for", f"{seconds}s", "--force", *words, **more)
        if not re.search(r'"operations":\s*0|  -', result.out):
            break
    check_equal((result.code, result.err), (0, ""))
    return result


@contextlib.contextmanager
def loaded(server):
    """Somebody else, whose scripts keep the server busy."""
    is_over = threading.Event()

    def run():
        connection = server.connection()
        while not is_over.is_set():
            connection.call("EVAL", BUSY, "0", A_MOMENT)
        connection.close()

    other = threading.Thread(target=run)
    other.start()
    try:
        yield
    finally:
        is_over.set()
        other.join()


def keys(server, pattern="*rql-bench-*"):
    return server.ask("KEYS", pattern)


def begun(server, rql, *words, pattern):
    """One that has such keys on the server just now."""
    process = rql.start("bench", "--force", *words)
    wait_until(lambda: keys(server, pattern) or process.poll() is not None, pattern)
    check_equal(process.poll(), None)
    return process


PATTERNS = ("rql:rql-bench-*", "rql:lock:rql-bench-*", "rql:lock_queue:rql-bench-*")


def test_the_json_is_complete(server, rql):
    said = measured(rql, "--json").json()
    check_equal([(load["load"], load["waiting"]) for load in said["loads"]], LOADS)
    for load in said["loads"]:
        assert load["operations"] > 0 and load["per_second"] > 0, load
        assert 0 < load["p50_us"] <= load["p99_us"], load
        assert 1 < load["server_cpu_us"] < 20_000 * SLOW, load
    check_equal(said["server"]["role"], "master")
    assert said["others_cpu_percent"] >= 0, said


def test_each_worker_is_a_client_so_that_the_server_hands_over(server, rql):
    """Waiters of one client would hand the lock over among themselves."""
    process = rql.start("bench", "--force", "--for", "30s")
    wait_until(lambda: len(server.ask("PUBSUB", "CHANNELS", "rql:wake:*")) == 17 or process.poll() is not None, "all wait")
    process.terminate()
    check_equal(finish(process).code, -signal.SIGTERM)


def test_the_table_has_a_line_for_each_load(server, rql):
    lines = measured(rql).out.splitlines()
    assert re.fullmatch(r"(redis|valkey) [\d.]+, \S+, [\d.]+ ms away", lines[0]), lines[0]
    check_equal(lines[1].split("  ")[0], "LOAD")
    names = ("PING", r"plain lock \(SET NX PX, then EVAL\)", "librql: acquire and release", "librql: hand-over, 2 wait",
             "librql: hand-over, 16 wait")
    for line, name in zip(lines[2:], names, strict=True):
        assert re.fullmatch(name + r" +\d+ +\d+\.\d{3} +\d+\.\d{3} +\d+", line), line
        check_equal(len(line), len(lines[1]), line)
        assert len(line) <= 80, line


def test_nothing_is_left_at_the_end_or_by_a_signal(server, rql):
    for pattern, number in zip(PATTERNS, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)):
        process = begun(server, rql, "--for", "20s", pattern=pattern)
        process.send_signal(number)
        result = finish(process)
        check_equal((result.code, result.out, result.err), (-number, "", ""), pattern)
        check_equal(keys(server), [], pattern)
    measured(rql)
    check_equal(keys(server), [])


def test_locks_live_for_ten_seconds(server, rql):
    """Whoever kills it has that long to wait."""
    process = begun(server, rql, "--for", "20s", pattern=PATTERNS[0])
    for pattern in PATTERNS[:2]:
        # One that has ended by the time of the question has none.
        lives_ms = wait_until(lambda found=pattern: [left for key in keys(server, found)
                                                     if (left := server.ask("PTTL", key)) > 0], pattern)
        assert all(9_000 < left <= 10_000 for left in lives_ms), lives_ms
    process.terminate()
    finish(process)


def is_refused(rql):
    result = rql("bench", "--for", "1s")
    why = r"rql: others use (\d+) % of the server's CPU, more than 20 %; --force measures anyway\n"
    return (result.code, result.out) == (1, "") and re.fullmatch(why, result.err)


def test_it_does_not_begin_on_a_busy_server_unless_forced(server, rql):
    with loaded(server):
        # On a machine that is busy with other tests the load may not come to use so much.
        wait_until(lambda: is_refused(rql), "it does not begin")
        wait_until(lambda: measured(rql, "--json").json()["others_cpu_percent"] > 20, "it measures")
    check_equal(keys(server), [])


def test_it_ends_in_time(server, rql):
    for pattern in PATTERNS[1:]:
        begun_s = time.monotonic()
        process = begun(server, rql, "--for", "2s", pattern=pattern)
        with server.frozen():
            result = finish(process)
        took_s = time.monotonic() - begun_s
        check_equal((result.code, result.out), (69, ""))
        assert result.err.startswith("rql: ") and took_s < 8 * SLOW, (took_s, result.err)
        server.ask("FLUSHALL")


def test_without_info_the_servers_time_is_not_known(server, rql):
    with Server() as own:
        url = own.add_user("poor", "~rql:*", "&*", "+@all", "-info")
        said = measured(rql, "--json", RQL_URL=url).json()
        check_equal(said["others_cpu_percent"], None)
        check_equal([load["server_cpu_us"] for load in said["loads"]], [None] * len(LOADS))


def test_no_server_is_69_and_a_full_disk_74(server, rql):
    result = rql("bench", "redis://127.0.0.1:1")
    check_equal((result.code, result.out), (69, ""))
    with open("/dev/full", "w", encoding="ascii") as full:
        result = rql("bench", "--for", "1s", "--force", popen={"stdout": full})
    check_in("cannot write the output", result.err)
    check_equal(result.code, 74)


if __name__ == "__main__":
    main()
