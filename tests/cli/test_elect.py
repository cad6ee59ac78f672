#!/usr/bin/env python3
"""`rql elect`: a command that runs on one of many hosts at a time."""
import os
import signal
import time

from harness import HOST, FaultyNetwork, Folder, check_equal, check_in, finish, leave_out_in_cluster, main, read_line, wait_until

# Writes its term, then runs until it is ended.
RUNS = "echo $RQL_TOKEN >>{0}/terms; exec sleep 60"


def terms(folder):
    return [int(word) for word in folder.read("terms").split()]


def start(rql, folder, script=RUNS, *flags):
    return rql.start("elect", "a", *flags, "-c", script.format(folder.folder.name))


def await_terms(folder, count):
    wait_until(lambda: len(terms(folder)) >= count, f"{count} terms")
    check_equal(terms(folder), sorted(set(terms(folder))))


def test_another_host_follows_one_that_dies(server, rql):
    with Folder() as folder:
        hosts = [start(rql, folder)]
        await_terms(folder, 1)
        hosts.append(start(rql, folder))
        wait_until(lambda: server.ask("ZCARD", "rql:lock_queue:a") == 1, "it waits")
        check_equal(len(terms(folder)), 1)
        hosts[0].send_signal(signal.SIGKILL)
        await_terms(folder, 2)
        hosts[1].send_signal(signal.SIGTERM)
        check_equal(finish(hosts[1]).code, -signal.SIGTERM)
    assert not server.is_locked("a")


def test_after_a_loss_it_waits_for_its_next_turn(server, rql):
    with Folder() as folder:
        host = start(rql, folder, RUNS, "--ttl", "1s")
        await_terms(folder, 1)
        server.ask("DEL", "rql:lock:a")
        await_terms(folder, 2)
        host.send_signal(signal.SIGTERM)
        result = finish(host)
        check_equal(result.code, -signal.SIGTERM)
        check_equal(result.err.count("the lock is lost; ending the command"), 1)


def test_a_turn_that_cannot_be_claimed_is_not_its_last(server, rql):
    """The server does not hear of it for longer than a lock that was handed over lasts."""
    leave_out_in_cluster("a proxy of one server")
    network = FaultyNetwork(server.url.removeprefix("unix://"))
    with Folder() as folder:
        try:
            secret = rql("lock", "a", "--ttl", "1h", "--json").json()["secret"]
            host = rql.start("elect", "a", "--connect-timeout", "200ms", "--io-timeout", "200ms", "-c",
                             RUNS.format(folder.folder.name), RQL_URL=f"unix://{network.path}")
            wait_until(lambda: server.queue_length("a") == 1, "it waits")
            network.fail("freeze", direction="up")
            check_equal(rql("unlock", "a", "--secret", secret).code, 0)
            wait_until(lambda: not server.is_locked("a"), "its turn is over")
            network.heal()
            await_terms(folder, 1)
            host.send_signal(signal.SIGTERM)
            check_equal(finish(host).code, -signal.SIGTERM)
        finally:
            network.stop()


def test_it_ends_with_its_command(server, rql):
    for code in 0, 7, 75:
        check_equal(rql("elect", "a", "--", "sh", "-c", f"exit {code}").code, code)
    assert not server.is_locked("a")


def test_again_starts_the_command_again_after_a_pause(server, rql):
    with Folder() as folder:
        begun = time.monotonic()
        host = start(rql, folder, "echo $RQL_TOKEN >>{0}/terms; exit 3", "--again")
        await_terms(folder, 3)
        assert time.monotonic() - begun >= 2, "there was no pause"
        host.send_signal(signal.SIGTERM)
        wait_until(lambda: host.poll() is not None, "it has ended")
        finish(host)
    assert not server.is_locked("a")


def test_each_command_starts_with_the_signal_mask_of_rql(_server, rql):
    """Without a shell between, which would clear it."""
    host = rql.start("elect", "a", "--again", "--", "grep", "SigBlk", "/proc/self/status")
    check_equal([read_line(host.stdout).split()[1].strip("0") for _ in range(2)], ["", ""])
    host.send_signal(signal.SIGTERM)
    finish(host)


def test_signals_that_are_for_its_command_do_not_end_its_wait(server, rql):
    secret = rql("lock", "a", "--ttl", "1h", "--json").json()["secret"]
    host = rql.start("elect", "a", "--", "sh", "-c", "kill -USR1 $$")
    wait_until(lambda: server.queue_length("a") == 1, "it waits")
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        host.send_signal(number)
    check_equal(rql("unlock", "a", "--secret", secret).code, 0)
    check_equal(finish(host).code, 128 + signal.SIGUSR1)


def test_a_signal_ends_it_with_its_command(server, rql):
    with Folder() as folder:
        host = start(rql, folder, RUNS, "--again")
        await_terms(folder, 1)
        host.send_signal(signal.SIGTERM)
        check_equal((finish(host).code, len(terms(folder))), (-signal.SIGTERM, 1))
    assert not server.is_locked("a")


def test_a_term_may_be_limited(server, rql):
    with Folder() as folder:
        host = start(rql, folder, RUNS, "--max-hold", "1s", "--kill-after", "100ms")
        await_terms(folder, 2)
        host.send_signal(signal.SIGTERM)
        finish(host)


def await_renewal(server):
    before = server.ask("PTTL", "rql:lock:a")

    def is_renewed():
        nonlocal before
        before, last = server.ask("PTTL", "rql:lock:a"), before
        return before > last
    wait_until(is_renewed, "it is renewed")


def test_it_makes_way_when_its_host_is_drained(server, rql):
    """Until the time of the drain is over, also if nobody else waits."""
    with Folder() as folder:
        hosts = [start(rql, folder, RUNS, "--ttl", "6s")]
        await_terms(folder, 1)
        result = rql("drain", HOST, "--within", "9s")
        check_equal((result.code, result.out), (0, f"{HOST} holds no lock\n"))
        check_equal(read_line(hosts[0].stderr), "rql: a: this host is drained; ending the command\n")
        check_in("rql: a: makes way for ", read_line(hosts[0].stderr))
        check_equal(len(terms(folder)), 1)
        hosts.append(start(rql, folder, RUNS, "--ttl", "3s"))
        await_terms(folder, 2)
        wait_until(lambda: server.ask("ZCARD", "rql:lock_queue:a") == 1, "the first one stands again")
        for _ in range(2):
            await_renewal(server)
        check_equal(len(terms(folder)), 2)  # that another one waits is no reason
        for host in reversed(hosts):
            host.send_signal(signal.SIGTERM)
            finish(host)
    assert not server.is_locked("a")


def test_a_drain_that_has_failed_asks_for_nothing(server, rql):
    """Its time was over before the lock was renewed."""
    with Folder() as folder:
        host = start(rql, folder, RUNS, "--ttl", "6s")
        await_terms(folder, 1)
        await_renewal(server)
        check_equal(rql("drain", HOST, "--within", "10ms").code, 1)
        for _ in range(2):
            await_renewal(server)
        check_equal(len(terms(folder)), 1)
        host.send_signal(signal.SIGTERM)
        check_equal(finish(host).err, "")


def test_it_waits_for_ever_whatever_the_environment_says(server, rql):
    server.ask("HSET", "rql:lock:a", "acq_id", "another")
    with Folder() as folder:
        host = rql.start("elect", "a", "-c", f"touch {folder.path('ran')}", RQL_TIMEOUT_MS="1", RQL_RETRY_COUNT="1")
        wait_until(lambda: server.ask("ZCARD", "rql:lock_queue:a") == 1, "it waits")
        time.sleep(0.3)  # longer than the environment allows
        check_equal(host.poll(), None)
        server.ask("DEL", "rql:lock:a")
        check_equal(finish(host).code, 0)
        assert os.path.exists(folder.path("ran"))


if __name__ == "__main__":
    main()
