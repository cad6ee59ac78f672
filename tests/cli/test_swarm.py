#!/usr/bin/env python3
"""The command swarm: its actions, and the service that runs it."""
import contextlib
import os
import re
import signal
import tempfile
import time

from harness import check_equal, check_in, finish, leave_out_in_cluster, listener, main, wait_until

HOST = "rql:hst:1/2/4/0123456789abcdef"
LOCK, OTHER = "lock", "e6"  # of the partition in which hosts are planted (support/partitions.py)
ACQUIRER = "rql:acq:1/2/3/4/0123456789abcdef"
QUICK = ["--zombie-ttl", "1000ms", "--swarm-probe-period", "100ms", "--zombie-flush-period", "200ms",
         "--swarm-liveness-probing-period", "100ms"]


def plant(server):
    """A dead host with a lock and a request, and one that lives."""
    server.ask("HSET", "rql:swarm:hsts", HOST, f"{time.time() - 1000:.3f}", "alive", f"{time.time():.3f}")
    server.ask("HSET", f"rql:lock:{LOCK}", "acq_id", ACQUIRER, "hst_id", HOST, "ts", "1795254268.4681",
                "ini_ttl", "5000")
    server.ask("ZADD", f"rql:lock_queue:{OTHER}", "1", ACQUIRER)


def test_hosts_are_shown(server, rql):
    plant(server)
    hosts = rql("hosts", "--json").json()
    check_equal([(h["host_id"], h["zombie"]) for h in hosts], [("alive", False), (HOST, True)])
    check_in("dead", rql("hosts").out)
    check_equal(rql("swarm", "status", "--json").json(),
                {"swarm_hosts": 2, "zombie_hosts": 1, "flusher": None})
    check_equal(rql("swarm", "status").out, "hosts: 2, of them dead: 1\nflusher: none\n")


def test_zombies_are_shown_and_flushed(server, rql):
    plant(server)
    found = {"hosts": [HOST], "acquirers": [ACQUIRER], "locks": [LOCK]}
    check_equal(rql("swarm", "zombies", "--json").json(), found)
    check_equal(rql("swarm", "zombies").out, f"dead hosts: 1\n  {HOST}\nlocks: 1\n  {LOCK}\n")
    assert server.is_locked(LOCK)
    check_equal(rql("swarm", "flush", "--json").json(), {**found, "requests": 1, "handed_over": 0})
    assert not server.is_locked(LOCK)
    check_equal(server.queue_length(OTHER), 0)
    check_in("dead hosts: 0", rql("swarm", "flush").out)


def test_a_living_host_is_told_from_a_dead_one_with_the_same_beginning(server, rql):
    """However long both ids are: other programs make them, too."""
    leave_out_in_cluster("hosts of the first partition")
    alive, dead = (f"rql:hst:1/2/{200 * '4'}/{end}" for end in ("alive", "dead"))
    server.ask("HSET", "rql:swarm:hsts", dead, f"{time.time() - 1000:.3f}", alive, f"{time.time():.3f}")
    for name, host in ("a", alive), ("d", dead):
        server.ask("HSET", f"rql:lock:{name}", "acq_id", "rql:acq:" + name, "hst_id", host, "ts", "1795254268.4681", "ini_ttl", "5000")
    check_equal(rql("swarm", "zombies", "--json").json(), {"hosts": [dead], "acquirers": ["rql:acq:d"], "locks": ["d"]})


def test_looking_at_a_swarm_leaves_no_host(server, rql):
    """A host that nobody keeps alive would be reported as dead until somebody flushes."""
    for words in ("swarm", "status"), ("hosts",), ("swarm", "zombies"), ("swarm", "flush"):
        check_equal(rql(*words).code, 0)
    check_equal(server.ask("EXISTS", "rql:swarm:hsts"), 0)
    check_equal(rql("swarm", "probe").code, 64)


def await_said(channel, wanted):
    """A fair number of others may come before: it says the same again and again."""
    for _ in range(200):
        said = channel.recv(2048).decode()
        if re.fullmatch(wanted, said):
            return
        assert re.fullmatch("WATCHDOG=1|STATUS=.+", said), said
    raise AssertionError(f"{wanted} was not said; at last {said}")


def test_status_says_what_the_swarm_sees(server, rql):
    """Also that another is elected, and that the server does not answer: then it goes on."""
    server.ask("HSET", "rql:swarm:hsts", HOST, f"{time.time() - 1000:.3f}",
                "alive", f"{time.time() + 1000:.3f}")
    server.ask("SET", "rql:swarm:flusher", "another")
    check_in("flusher: another\n", rql("swarm", "status").out)
    with tempfile.TemporaryDirectory(prefix="rql-notify-") as folder, listener(folder + "/notify") as channel:
        service = rql.start("swarm", "run", "--io-timeout", "200ms", *QUICK, NOTIFY_SOCKET=folder + "/notify",
                            WATCHDOG_USEC="200000")
        await_said(channel, "READY=1\nSTATUS=Looking for dead hosts")
        await_said(channel, "STATUS=standby; 2 hosts, 1 dead")
        with server.frozen():
            await_said(channel, r"STATUS=.* (unix|redis\+cluster):.*: (no |Connection timed out).*")
        await_said(channel, "STATUS=standby; 2 hosts, 1 dead")
        service.terminate()
        check_equal(finish(service).code, 0)


def test_service_flushes_and_ends_cleanly(server, rql):
    plant(server)
    with tempfile.TemporaryDirectory(prefix="rql-notify-") as folder, listener(folder + "/notify") as channel:
        service = rql.start("swarm", "run", "--json", *QUICK, NOTIFY_SOCKET=folder + "/notify", WATCHDOG_USEC="200000")
        check_in("READY=1", channel.recv(256).decode())
        check_equal(channel.recv(256), b"WATCHDOG=1")
        await_said(channel, r"STATUS=flusher; \d hosts?, \d dead")
        wait_until(lambda: not server.is_locked(LOCK), "the lock is flushed")
        wait_until(lambda: server.ask("EXISTS", "rql:swarm:flusher") == 1, "a flusher is elected")
        check_in(f" rql[{service.pid}]", rql("swarm", "status").out)
        service.send_signal(signal.SIGTERM)
        result = finish(service)
        await_said(channel, "STOPPING=1")
        channel.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            raise AssertionError(f"after its end it says {channel.recv(256)}")
    check_equal((result.code, result.err), (0, ""))
    check_equal({name: part["state"] for name, part in result.json().items()},
                dict.fromkeys(("supervisor", "probe_hosts", "flush_zombies"), "running"))
    check_equal(server.ask("EXISTS", "rql:swarm:flusher"), 0)


def test_service_speaks_to_abstract_sockets(_server, rql):
    name = f"rql-test-{os.getpid()}"
    with listener("\0" + name) as channel:
        service = rql.start("swarm", "run", NOTIFY_SOCKET="@" + name, RQL_AUTO_SWARM="true")
        check_in("READY=1", channel.recv(256).decode())
        service.send_signal(signal.SIGINT)
        check_equal(finish(service).code, 0)


if __name__ == "__main__":
    main()
