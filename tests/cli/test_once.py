#!/usr/bin/env python3
"""`rql once`: a command that is run once in a window of time; and `rql run --hold-at-least`."""
import os
import signal
import threading

from harness import PROGRAM, FaultyNetwork, Folder, Program, check_equal, check_in, finish, leave_out_in_cluster, main, wait_until

KEPT = "rql:acq:kept/0/0/0/" + "0" * 32
TOO_LATE = "rql: a: not run: each of 20 grants came after the end of its window"


def owner(server):
    return server.ask("HGET", "rql:lock:a", "acq_id")


def left_ms(server):
    return server.ask("PTTL", "rql:lock:a")


def check_within(value, low, high):
    assert low <= value <= high, f"{value} is not within {low} and {high}"


def server_ms(server):
    seconds, us = server.ask("TIME")
    return int(seconds) * 1000 + int(us) // 1000


def calls_of_pttl(server):
    """A waiter looks again and again."""
    stats = server.ask("INFO", "commandstats")
    return int(stats.split("cmdstat_pttl:calls=")[1].split(",")[0]) if "cmdstat_pttl:" in stats else 0


def test_of_many_that_start_one_runs(server, rql):
    codes = []
    with Folder() as folder:
        def start():
            codes.append(rql("once", "a", "--window", "1m", "-c", f"echo ran >>{folder.path('out')}").code)
        hosts = [threading.Thread(target=start) for _ in range(6)]
        for host in hosts:
            host.start()
        for host in hosts:
            host.join()
        check_equal((codes, folder.read("out")), ([0] * 6, "ran\n"))
    check_equal(owner(server), KEPT)
    check_within(left_ms(server), 30000, 60000)


def test_it_says_why_it_does_not_run_if_asked_to(server, rql):
    check_equal(rql("once", "a", "--window", "1m", "--", "true").code, 0)
    quiet, said = (rql("once", "a", "--window", "1m", *flags, "--", "echo", "ran") for flags in ((), ("-v", "-E", "9")))
    check_equal((quiet.code, quiet.out, quiet.err), (0, "", ""))
    check_equal((said.code, said.out), (9, ""))
    check_in("rql: a: has run; the next run can begin in 5", said.err)
    check_in("kept", rql("who").out)
    check_equal(rql("who", "--json").json()[0]["is_kept"], True)
    stats = rql("stats", "--json").json()
    check_equal((stats["locks"], stats["hosts"]), (1, 0))


def test_when_the_window_is_over_it_runs_again(server, rql):
    for text in "12":
        check_equal(rql("once", "a", "--window", "300ms", "--", "echo", text).out, text + "\n")
        wait_until(lambda: server.ask("EXISTS", "rql:lock:a") == 0, "the window is over")


def test_periods_are_those_of_the_servers_clock(server, rql):
    """Days of UTC: whenever in the day it ran, it is kept until 0:00."""
    day_ms = 24 * 3600 * 1000
    before_ms = server_ms(server)
    check_equal(rql("once", "a", "--every", "1d", "--", "true").code, 0)
    end_ms = left_ms(server) + server_ms(server)
    midnight_ms = (before_ms // day_ms + 1) * day_ms
    check_within(end_ms, midnight_ms, midnight_ms + 1000)


def test_a_lock_that_is_kept_from_the_last_period_is_waited_for(server, rql):
    """It is kept a little longer than its period: here it ends before this one does, so it is not of this one."""
    server.ask("HSET", "rql:lock:a", "acq_id", KEPT, "hst_id", "rql:hst:kept/0/0/" + "0" * 32, "ts", "5.5", "ini_ttl", 400,
               "rql_nonce", "kept" + "0" * 28, "rql_token", 7)
    server.ask("PEXPIRE", "rql:lock:a", 400)
    check_equal(rql("once", "a", "--every", "30d", "--", "echo", "ran").out, "ran\n")
    check_equal(rql("once", "a", "--every", "30d", "-E", "9", "--", "echo", "again").code, 9)


def test_a_lock_that_comes_in_the_next_period_is_asked_for_again(_server, rql):
    """Many of these periods end between the question and the grant; where all do, it says so."""
    period_ms = 3
    for _ in range(20):
        while True:
            result = rql("once", "a", "--every", f"{period_ms}ms", "--", "grep", "SigBlk", "/proc/self/status")
            if result.code == 0:
                break
            check_equal((result.code, result.err.splitlines()[-1]), (69, TOO_LATE))
            period_ms *= 2
        check_equal(result.out.split()[1].strip("0"), "")


def test_a_server_that_is_slower_than_the_period_is_told(server, rql):
    leave_out_in_cluster("a proxy of one server")
    network = FaultyNetwork(server.url.removeprefix("unix://"))
    try:
        network.fail("delay", direction="up", n=5)
        result = Program(f"unix://{network.path}")("once", "a", "--every", "3ms", "--", "true")
        check_equal((result.code, result.err.splitlines()[-1]), (69, TOO_LATE))
    finally:
        network.stop()


def test_its_own_pair_of_metadata_has_room_and_cannot_be_set(_server, rql):
    """Also inside a run, whose token takes a pair of those that are left."""
    pairs = [word for i in range(64) for word in ("-m", f"k{i}=v")]
    for n, code in ((62, 0), (63, 0), (64, 64)):
        result = rql("run", "outer", "--", PROGRAM, "once", "a", "--every", "30d", *pairs[:2 * n], "--", "true")
        check_equal(result.code, code, result.err)
    check_in("there is no room for one more --meta", result.err)
    result = rql("once", "a", "--every", "30d", "-m", "once=1", "--", "true")
    check_equal((result.code, "sets the metadata once" in result.err), (64, True), result.err)


def test_a_command_that_failed_counts_unless_told_otherwise(server, rql):
    check_equal(rql("once", "a", "--window", "1m", "--", "false").code, 1)
    check_equal(owner(server), KEPT)
    check_equal(rql("unlock", "a", "--force").code, 0)
    check_equal(rql("once", "a", "--window", "1m", "--unless-failed", "--", "false").code, 1)
    check_equal(rql("once", "a", "--window", "1m", "--unless-failed", "--", "echo", "ran").out, "ran\n")
    check_equal(owner(server), KEPT)


def test_a_command_that_cannot_be_run_does_not_count(server, rql):
    check_equal(rql("once", "a", "--window", "1m", "--", "/none").code, 127)
    assert not server.is_locked("a")


def start_late(server, rql, folder):
    """A run whose window is over, until there is `end` in the folder."""
    late = rql.start("once", "a", "--window", "100ms", "-c",
                     f"cd {folder.folder.name}; touch begun; until [ -e end ]; do sleep 0.02; done; echo 1 >>out")
    wait_until(lambda: os.path.exists(folder.path("begun")), "it runs")
    end_ms = int(server.ask("HGET", "rql:lock:a", "once"))
    wait_until(lambda: server_ms(server) > end_ms, "its window is over")
    return late


def test_the_next_waits_for_a_run_of_the_window_before(server, rql):
    with Folder() as folder:
        late = start_late(server, rql, folder)
        skipped = rql("once", "a", "--window", "100ms", "-v", "-E", "9", "--", "true")
        check_equal((skipped.code, skipped.err),
                    (9, "rql: a: the run of the window before went on until the end of this one\n"))
        following = rql.start("once", "a", "--window", "1m", "-c", f"echo 2 >>{folder.path('out')}")
        n_looks = calls_of_pttl(server)
        wait_until(lambda: calls_of_pttl(server) > n_looks + 4, "it waits")
        folder.touch("end")
        check_equal((finish(late).code, finish(following).code), (0, 0))
        check_equal(folder.read("out"), "1\n2\n")
    check_equal(owner(server), KEPT)


def test_of_many_that_wait_for_the_window_before_one_runs_and_the_others_end(server, rql):
    """They do not wait for the one that has run in their own window."""
    with Folder() as folder:
        late = start_late(server, rql, folder)
        following = [rql.start("once", "a", "--window", "1h", "-c", f"echo 2 >>{folder.path('out')}") for _ in range(6)]
        n_looks = calls_of_pttl(server)
        wait_until(lambda: calls_of_pttl(server) > n_looks + 40, "they wait")
        folder.touch("end")
        check_equal([finish(one).code for one in (late, *following)], [0] * 7)
        check_equal(folder.read("out"), "1\n2\n")


def test_a_run_whose_host_dies_is_repeated_or_not(server, rql):
    """The guard kills the command. It frees the lock, but not with --at-most-once."""
    for flags, is_free in (((), True), (("--at-most-once",), False)):
        with Folder() as folder:
            process = rql.start("once", "a", "--window", "1m", *flags, "-c",
                                f"touch {folder.path('begun')}; exec sleep 60")
            wait_until(lambda folder=folder: os.path.exists(folder.path("begun")), "it runs")
            process.send_signal(signal.SIGKILL)
            finish(process)
            if is_free:
                wait_until(lambda: not server.is_locked("a"), "it is free")
        again = rql("once", "a", "--window", "1m", "--", "echo", "ran")
        check_equal(again.out, "ran\n" if is_free else "")
        if is_free:
            check_equal(rql("unlock", "a", "--force").code, 0)
    check_within(left_ms(server), 30000, 60000)


def test_a_run_that_is_not_to_be_repeated_ends_with_its_command(server, rql):
    """Its guard has nothing to release, and reports the end all the same."""
    check_equal(rql("once", "a", "--window", "1m", "--at-most-once", "--no-auto-extend", "--kill-after", "20s", "-c", "exit 3").code, 3)
    check_equal(owner(server), KEPT)


def test_its_time_is_one_of_two_and_within_a_month(server, rql):
    for flags, said in (((), "which time? one of --window and --every"),
                        (("--window", "1m", "--every", "1m"), "which time? one of --window and --every"),
                        (("--window", "0ms"), "it must be 1ms to 30d: --window"),
                        (("--every", "31d"), "it must be 1ms to 30d: --every"),
                        (("--window", "5s", "--at-most-once", "--no-auto-extend", "--kill-after", "6s"),
                         "--kill-after has to be shorter than --window")):
        refused = rql("once", "a", *flags, "--", "true")
        check_equal(refused.code, 64)
        check_in(said, refused.err)
    assert not server.is_locked("a")


def test_rql_run_holds_at_least_as_long(server, rql):
    check_equal(rql("run", "a", "--hold-at-least", "1m", "--", "echo", "ran").out, "ran\n")
    check_equal(owner(server), KEPT)
    check_equal(rql("run", "a", "--try", "--", "true").code, 1)


def test_a_kept_lock_is_ended_by_its_token(server, rql):
    """That ends no hold."""
    check_equal(rql("run", "a", "--hold-at-least", "1m", "--", "true").code, 0)
    token = str(rql("info", "a", "--json").json()["token"])
    result = rql("unlock", "a", "--force", "--token", token, RQL_HISTORY="all")
    check_equal((result.code, result.out, result.err), (0, "lock: released\n", ""))
    assert not server.is_locked("a")
    check_equal(rql("history", "--list", "--json").json()["holds"], [])


if __name__ == "__main__":
    main()
