#!/usr/bin/env python3
"""rql bench: what it measures, that it leaves nothing behind, and when it does not begin or stops."""
import contextlib
import math
import re
import signal
import threading
import time

from harness import (PATIENCE_S, PROGRAM, SLOW, Server, check_equal, check_in, environment, finish, main, wait_until,
                     written_at_terminal)

SHORT = ["bench", "--for", "1s", "--threads", "1", "--force"]
LOADS = ["ping", "plain_lock", "pair"]
WAITING = [2, 16, 1000]
# Of hand-overs the first and the last of a short slot are counted in part, and polls of those who wait as well.
COMMANDS = {"ping": (1, 1), "plain_lock": (2, 2), "pair": (2, 2), "hand_over": (1, 100)}
BUSY = "for i = 1, tonumber(ARGV[1]) do end return 1"
A_MOMENT, LONG = 200_000, 20_000_000  # turns: about 2 and 200 ms, more than a busy machine makes PING take


def measured(rql, *words, **more):
    """A whole run. On a machine that is busy with other tests PING may get slow for itself, and the time too short."""
    for seconds in 3 * (1, 2, 4, 8, 16):
        result = rql("bench", "--for", f"{seconds}s", *words, **more)
        is_whole = not re.search(r'"slots":\s*0|not measured|others suffer|others use', result.out + result.err)
        if is_whole:
            break
    check_equal((result.code, result.err), (0, ""))
    return result


@contextlib.contextmanager
def loaded(server, turns, every_s):
    """Somebody else, whose scripts keep the server busy."""
    is_over = threading.Event()

    def run():
        connection = server.connection()
        while not is_over.wait(every_s):
            connection.call("EVAL", BUSY, "0", turns)
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


def begun(server, rql, *words, pattern="*rql-bench-*", **more):
    """One that has such keys on the server just now."""
    process = rql.start("bench", *words, **more)
    wait_until(lambda: keys(server, pattern) or process.poll() is not None, pattern)
    check_equal(process.poll(), None)
    return process


def counts_commands(rql):
    """A light build does not; it has no log either."""
    return rql("run", "any", "--log", "text", "--", "true").code == 0


def check_commands(load, least, most):
    each = load["commands"]["median"]
    assert each and least <= round(each, 1) <= most, load


def check_figure(figure, what):
    assert 0 < figure["q1"] <= figure["median"] <= figure["q3"], (what, figure)
    return figure["median"]


def test_the_json_is_complete_and_its_ratios_follow_from_the_medians(server, rql):
    said = measured(rql, "--threads", "1,4", "--json").json()
    loads = {(load["load"], load.get("threads", load.get("waiting"))): load for load in said["loads"]}
    wanted = [(name, count) for name in LOADS for count in (1, 4)] + [("hand_over", count) for count in WAITING]
    check_equal(list(loads), wanted)
    counts = counts_commands(rql)
    medians = {name: check_figure(load["per_second"], name) for name, load in loads.items()}
    for (name, count), load in loads.items():
        assert load["slots"] >= 1, load
        assert 1 < check_figure(load["server_cpu_us"], name) < 20_000 * SLOW, load
        if counts:
            check_commands(load, *COMMANDS[name])
        if name == "hand_over":
            assert check_figure(load["p50_us"], name) <= check_figure(load["p99_us"], name), load
            continue
        for key, other in (("to_ping", "ping"), ("to_plain_lock", "plain_lock")):
            ratio = medians[name, count] / medians[other, count]
            # All three are rounded, and a large ratio is of a small median.
            assert math.isclose(load[key], ratio, rel_tol=0.001, abs_tol=0.001), (load, ratio)
    check_equal((said["stopped"], said["no_server_cpu"], said["server"]["role"]), (None, None, "master"))
    assert 0 <= said["others_cpu_percent"] <= 20 and said["ping_p99_us"] > 0, said


def test_the_table_has_a_line_for_each_load(server, rql):
    lines = measured(rql, "--threads", "1,2").out.splitlines()
    commands = r"\d+\.\d commands, " if counts_commands(rql) else ""
    heading = lines[0]
    assert re.match(r"(redis|valkey) [\d.]+, \S+, [\d.]+ ms away  threads 1        2  to PING", heading), heading
    names = ["PING, per second", "plain lock (SET NX PX, compare and delete)", "librql pair"]
    # A ratio of 10 or more makes its column wider.
    ratios = [r"-  +-", r"\d+\.\d\dx +\d+\.\d\dx  +-", r"\d+\.\d\dx +\d+\.\d\dx  +\d+\.\d\dx +\d+\.\d\dx"]
    for line, name, ratio in zip(lines[1:4], names, ratios):
        assert line.startswith(name + " "), line
        assert re.fullmatch(ratio, line[heading.index("to PING"):]), line
        for end in (heading.index("threads 1") + 9, heading.index("to PING") - 2):
            # Rates end where their headings end.
            assert re.search(r" (\d{1,3}|\d \d{3}|\d+\.\dk|\d\.\d\dM)$", line[:end]) and line[end] == " ", line
    each = commands + r"\d+ us of server CPU each"
    wanted = ["librql pair: " + each]
    wanted += [rf"hand-over, {n} wait: p50 [\d.]+ ms, p99 [\d.]+ ms; {each}" for n in WAITING]
    wanted.append(r"one lock can change hands about [\d .k]+ times a second here; the server about [\d .k]+ times")
    for line, pattern in zip(lines[4:], wanted, strict=True):
        assert re.fullmatch(pattern, line), (line, pattern)


def test_nothing_is_left_at_the_end_or_by_a_signal(server, rql):
    for pattern, number in (("rql:rql-bench-*:plain:*", signal.SIGINT), ("rql:lock:rql-bench-*:pair:*", signal.SIGTERM),
                            ("rql:lock_queue:rql-bench-*:1000", signal.SIGINT)):
        process = begun(server, rql, "--for", "20s", "--threads", "8", "--force", pattern=pattern)
        process.send_signal(number)
        result = finish(process)
        check_equal((result.code, result.out, result.err), (-number, "", ""), pattern)
        check_equal(keys(server), [], pattern)
    process = begun(server, rql, "--for", "1s", "--force", pattern="rql:lock:rql-bench-*")
    result = finish(process)
    assert result.code in (0, 1), result.err
    check_equal(keys(server), [])
    check_equal(keys(server, "rql:lock*"), [])


def test_locks_live_for_ten_seconds(server, rql):
    """Whoever kills it has that long to wait."""
    for pattern in ("rql:rql-bench-*:plain:*", "rql:lock:rql-bench-*:pair:*"):
        process = begun(server, rql, "--for", "20s", "--threads", "8", "--force", pattern=pattern)
        # One that has ended by the time of the question has none.
        lives_ms = wait_until(lambda found=pattern: [left for key in keys(server, found)
                                                     if (left := server.ask("PTTL", key)) > 0], pattern)
        assert all(9_000 < left <= 10_000 for left in lives_ms), lives_ms
        process.terminate()
        finish(process)


def is_refused(rql, *words):
    result = rql("bench", "--for", "1s", *words)
    why = r"rql: others use (\d+) % of the server's CPU, more than 20: --force measures all the same\n"
    return result.code == 1 and result.out == ("null\n" if words else "") and re.fullmatch(why, result.err)


def test_it_does_not_begin_on_a_busy_server_unless_forced(server, rql):
    with loaded(server, A_MOMENT, 0):
        # On a machine that is busy with other tests the load may not come to use so much.
        wait_until(lambda: is_refused(rql), "it does not begin")
        wait_until(lambda: is_refused(rql, "--json"), "nor with JSON")
        # One look may take most of the usual patience then.
        wait_until(lambda: forced(rql)["others_cpu_percent"] > 20, "it measures", 4 * PATIENCE_S)
    check_equal(keys(server), [])


def forced(rql):
    said = measured(rql, "--threads", "1", "--force", "--json").json()
    assert all(load["slots"] >= 1 for load in said["loads"]), said
    return said


def test_it_stops_when_others_suffer(server, rql):
    process = begun(server, rql, "--for", "30s", "--threads", "1", "--json", pattern="rql:lock:rql-bench-*")
    begun_s = time.monotonic()
    with loaded(server, LONG, 0.01):
        result = finish(process)
    assert time.monotonic() - begun_s < 15, result.err
    check_equal(result.code, 1, result.err)
    why = re.search(r"stopped: the p99 of PING rose from ([\d.]+) to ([\d.]+) ms, others suffer\n", result.err)
    assert why, result.err
    assert float(why[2]) > 3 * float(why[1]), why
    check_equal(result.json()["stopped"], why[0].strip())
    check_equal(keys(server), [])


def test_it_ends_in_time(server, rql):
    begun_s = time.monotonic()
    rql("bench", "--for", "1s", "--force")
    assert time.monotonic() - begun_s < 3, "a whole run"
    for pattern in ("rql:rql-bench-*", "rql:lock_queue:rql-bench-*"):
        begun_s = time.monotonic()
        process = begun(server, rql, "--for", "2s", "--threads", "4", "--force", pattern=pattern)
        with server.frozen():
            result = finish(process)
        took_s = time.monotonic() - begun_s
        check_equal((result.code, result.out), (69, ""))
        assert result.err.startswith("rql: ") and took_s < 4, (took_s, result.err)
        server.ask("FLUSHALL")


def test_a_server_that_is_too_slow_is_said_to_be(server, rql):
    process = begun(server, rql, "--for", "5s", "--threads", "1", "--force", "--io-timeout", "300ms",
                    pattern="rql:rql-bench-*:plain:*")
    with server.frozen():
        result = finish(process)
    check_equal((result.code, result.out), (69, ""))
    check_in("rql: bench: the server or this machine is too slow to be measured now: ", result.err)


def test_without_info_the_servers_time_is_not_known(server, rql):
    counts = counts_commands(rql)
    with Server() as own:
        url = own.add_user("poor", "~rql:*", "&*", "+@all", "-info")
        said = measured(rql, "--threads", "1", "--json", RQL_URL=url).json()
        check_in("INFO", said["no_server_cpu"].upper())
        check_equal(said["others_cpu_percent"], None)
        for load in said["loads"]:
            check_equal(load["server_cpu_us"], {"median": None, "q1": None, "q3": None})
            if counts:
                check_commands(load, *COMMANDS[load["load"]])
        table = measured(rql, "--threads", "1", RQL_URL=url).out
        check_equal("librql pair: 2.0 commands each\n" in table, counts)
        check_in("\nthe server's CPU time is not known: ", table)


def test_progress_is_for_a_terminal(server, rql):
    code, written = written_at_terminal(2, [PROGRAM, *SHORT], environment(server.url))
    shown = written.decode()
    check_in(code, (0, 1))
    check_in("\rrql: bench: 0 of 1 s", shown)
    check_in("\r\033[K", shown)


def test_no_server_is_69_and_a_full_disk_74(server, rql):
    result = rql("bench", "redis://127.0.0.1:1")
    check_equal((result.code, result.out), (69, ""))
    with open("/dev/full", "w", encoding="ascii") as full:
        result = rql(*SHORT, popen={"stdout": full})
    check_in("cannot write the output", result.err)
    assert result.code == 74 or "others suffer" in result.err, result.err


if __name__ == "__main__":
    main()
