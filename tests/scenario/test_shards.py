#!/usr/bin/env python3
"""Locks shared out over independent servers: each has its partitions, for good, and takes them with it when it is
down."""
import itertools
import re

from cluster import PARTITION_SLOTS, clustered
from delay import tasks_of
from harness import FOREVER, MINUTE_MS, check, check_equal, delayed_ms, main, once, scenario, wait_until
from partitions import partition_of
from shards import HELD, PATIENT, RING, Shard, actor, check_locks_of_all, check_series, keys_of, rql, sharded, start_rql
from swarms import PROBES, swarm

SHORT_MS, LONG_MS, PAUSE_MS = 1500, 5000, 1000
TTL_MS, QUICK_MS = 2000, 300
LIMITS = {"io_timeout_ms": 500, "connect_timeout_ms": 500}
DOWN = ("E_UNAVAILABLE", "E_IO", "E_UNKNOWN")
MANY = [f"lock{number}" for number in range(20)]


# ---- all is well ----

@scenario(counts=[1])
def locks_of_all_servers_are_had_extended_and_handed_over(world, kind, _names):
    with sharded(world, 3) as shards:
        check_locks_of_all(world, kind, shards, ",".join(sorted(server.name for server in shards.servers)))


@scenario(counts=[1])
def a_series_is_in_one_partition_unless_it_is_sorted(world, kind, _names):
    with sharded(world, 3) as shards:
        check_series(world, kind, shards)


@scenario(counts=[1], is_timed=True)
def a_series_ends_in_time_though_the_server_of_what_it_holds_is_silent(world, kind, _names):
    """It holds one lock there and waits for another elsewhere. The first is released when the server answers again. The
    call has the 100 ms that are promised, and as long as its process was kept from running."""
    for mode in "sorted", "gem":
        with sharded(world, 2) as shards:
            one, other = (actor(world, kind, shards.url(), io_timeout_ms=LONG_MS) for _ in range(2))
            first, last = sorted(shards.spread(1), key=partition_of)
            held = other.acquire(last, **HELD)
            asking = one.ask(first, last, mode=mode, timeout_ms=SHORT_MS, **HELD)
            world.await_queue([last], 1)
            before_ms = delayed_ms(one.remote.process.pid)
            with shards.owner_of(first).frozen():
                outcome = asking.outcome().check("TIMED_OUT")
                limit_ms = SHORT_MS + 100 + delayed_ms(one.remote.process.pid) - before_ms
                check(outcome.took_us <= limit_ms * 1000, f"{mode}: {outcome.took_us} us, limit {limit_ms} ms")
            wait_until(lambda name=first: not world.holder(name), "it is given back")
            held.release().check()
            world.await_nothing_left()


def n_sleeps_of(pid, name):
    """How often the thread of this name has gone to sleep so far."""
    for task in tasks_of(pid):
        with open(f"/proc/{pid}/task/{task}/comm", encoding="ascii") as file:
            if file.read().strip() == name:
                with open(f"/proc/{pid}/task/{task}/status", encoding="ascii") as status:
                    return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status.read(), re.M).group(1))
    raise AssertionError(f"no thread is called {name}")


@once
def renewals_that_get_no_answer_do_not_keep_their_thread_busy(world, kind, _names):
    """It looks for an answer less and less often, and renews elsewhere meanwhile."""
    with sharded(world, 2) as shards:
        names = shards.spread(1)
        client = world.client(url=shards.url(), io_timeout_ms=MINUTE_MS)
        lost, kept = (world.actor(kind, client).acquire(name, ttl_ms=LONG_MS, auto_extend=True) for name in names)
        pid = client.remote.process.pid
        least_ms = LONG_MS
        while lost.remaining_ms() <= least_ms:  # before it is renewed there is no connection that could fall silent
            least_ms = lost.remaining_ms()
        before = n_sleeps_of(pid, "rql-leases")
        with shards.owner_of(names[0]).frozen():
            wait_until(lambda: lost.state() == "GONE", "it is lost")
            n_sleeps = n_sleeps_of(pid, "rql-leases") - before
        check(n_sleeps < 50 * LONG_MS // 1000, f"{n_sleeps} times in {LONG_MS} ms")
        lost.release()  # the server may have done a renewal by now
        kept.release().check()
        world.await_nothing_left()


@once
def a_server_that_is_down_leaves_no_fault_if_another_one_answers(world, _kind, _names):
    """The rql_error of a call that succeeds stays as it was: the harness looks at it after each call."""
    with Shard() as server:
        asker = actor(world, "thread", f"redis+shards://127.0.0.1:1,{server.name}", **LIMITS)
        asker.begin("connect").outcome().check()
        world.free(asker.client)


# ---- what operators see ----

def what_clients_are_called_is_said_once(arranged, world):
    """By who renews, waits and sends heartbeats: at the server that has the first partition, and not where that is."""
    with arranged(world, 3) as arrangement:
        said_at = arrangement.owner(PARTITION_SLOTS[0])
        names = [name for server in arrangement.masters() if server is not said_at
                 for name in arrangement.names_on(server, 1)]
        for kind in ("thread", "loop"):
            one = actor(world, kind, arrangement.url(), client_label=f"a {kind}")
            other = actor(world, kind, arrangement.url())
            with swarm(world, one.client, **PROBES):
                helds = [one.acquire(name, ttl_ms=QUICK_MS, auto_extend=True) for name in names]
                asking = other.ask(names[0], **PATIENT)
                world.await_queue(names[:1], 1)
                n_renewed = one.client.stats().renewals + len(names)
                wait_until(lambda: one.client.stats().renewals > n_renewed, "they are renewed")
                wait_until(lambda: "rql:acq:" not in rql(arrangement.url(), "who"), "they have names")
                check(f"a {kind}" in rql(arrangement.url(), "who", "--json"), "its label is missing")
                for held in helds:
                    held.release().check()
                asking.hold().release().check()
        check_equal([server for server in arrangement.masters() if keys_of(server, "clients")], [said_at])


@once
def what_clients_are_called_is_said_once_of_shards(world, _kind, _names):
    what_clients_are_called_is_said_once(sharded, world)


@once
def what_clients_are_called_is_said_once_in_a_cluster(world, _kind, _names):
    what_clients_are_called_is_said_once(clustered, world)


# ---- servers that go ----

@scenario(counts=[1])
def a_server_that_is_down_takes_only_its_partitions_with_it(world, kind, _names):
    """What is held there is relied on until its end; when it is back, empty, all goes on."""
    with sharded(world, 3) as shards:
        dying = shards.servers[0]
        mine, free, (other, renewed) = *shards.names_on(dying, 2), shards.names_on(shards.servers[2], 2)
        one, two, waiter = (actor(world, kind, shards.url(), **LIMITS) for _ in range(3))
        held = one.acquire(mine, ttl_ms=TTL_MS, auto_extend=True)
        kept = one.acquire(renewed, ttl_ms=TTL_MS, auto_extend=True)
        asking = waiter.ask(mine, **PATIENT)
        world.await_queue([mine], 1)
        dying.kill()
        two.refused(free, timeout_ms=SHORT_MS).check(*DOWN)
        outcome = two.refused(free, timeout_ms=SHORT_MS).check(*DOWN)
        check(dying.name in outcome.error and shards.servers[1].name not in outcome.error, outcome.error)
        two.acquire(other, timeout_ms=SHORT_MS).release().check()
        world.actor("thread", url=shards.url()).begin("connect").outcome().check()
        rql(shards.url(), "run", other, "--", "true")
        wait_until(held.is_lost, "it is lost")
        check_equal((kept.state(), kept.losses(), asking.is_over()), ("HELD", [], False))
        dying.launch()
        served = asking.hold()
        check(served.tokens[0] > held.tokens[0], f"{served.tokens[0]} after {held.tokens[0]}")
        two.acquire(free, timeout_ms=LONG_MS).release().check()
        held.release().check("NOT_HELD")
        check_equal((kept.state(), kept.losses()), ("HELD", []))
        for each in served, kept:
            each.release().check()
        world.await_nothing_left()


@once
def the_program_waits_for_the_server_of_its_lock(world, _kind, _names):
    """Whatever the others do: the first in the URL answers."""
    with sharded(world, 3) as shards:
        dying = shards.servers[1]
        dying.kill()
        waiting = start_rql(shards.url(), "run", *shards.names_on(dying, 1), "--wait", "forever", "--", "echo", "ran")
        said = waiting.stderr.readline()
        dying.launch()
        out, _err = waiting.communicate()
        check_equal((waiting.returncode, out), (0, "ran\n"), said)
        check("waiting for the server: cannot connect" in said, said)


@scenario(counts=[1])
def writes_that_one_has_lost_are_told_of_its_partitions(world, kind, _names):
    with sharded(world, 3) as shards:
        emptied = shards.servers[0]
        lost, (stays, also) = shards.names_on(emptied, 1)[0], shards.names_on(shards.servers[1], 2)
        one = actor(world, kind, shards.url())
        held = one.acquire(lost, **HELD)
        kept = [one.acquire(name, **HELD) for name in (stays, also)]
        emptied.ask("FLUSHALL")
        emptied.end_connections()
        wait_until(lambda: held.state() == "GONE", "it is told")
        check_equal([words["token"] for words in one.remote.events("history_lost")], held.tokens)
        check_equal([(each.state(), each.losses()) for each in kept], [("HELD", [])] * 2)
        check_equal(emptied.ask("GET", RING).count(","), 2)
        held.release().check("NOT_HELD")
        later = one.acquire(lost)
        check(later.tokens[0] > held.tokens[0], f"{later.tokens[0]} after {held.tokens[0]}")
        for each in later, *kept:
            each.release().check()
        world.await_nothing_left()


@scenario(counts=[1])
def with_recovery_delay_a_server_that_is_new_grants_nothing_for_a_while(world, kind, _names):
    """In all of its partitions; each login says so of each."""
    for count in (1, 3):
        with sharded(world, count) as shards:
            fresh = shards.servers[0]
            names = shards.names_on(fresh, 3)
            one = actor(world, kind, shards.url(), recovery_delay_ms=PAUSE_MS)
            for name in names:
                one.acquire(name, timeout_ms=FOREVER, ttl_ms=PAUSE_MS).release().check()
            check_equal(len(keys_of(fresh, "era")), len(shards.partitions_of(fresh)))
            held = one.acquire(names[0], ttl_ms=PAUSE_MS, auto_extend=True)
            fresh.kill()
            fresh.launch()
            began_us = fresh.now_us()
            later = one.acquire(names[1], timeout_ms=FOREVER, ttl_ms=PAUSE_MS)
            check(later.outcome.ts_us - began_us > 1000 * PAUSE_MS, "nothing was paused")
            wait_until(lambda: held.state() == "GONE", "it is told")
            held.release().check("NOT_HELD")
            later.release().check()
            world.await_nothing_left()


@scenario(counts=[1])
def what_a_server_without_memory_has_is_released(world, kind, _names):
    """Also by who has to log in there anew."""
    with sharded(world, 3) as shards:
        full = shards.servers[2]
        (name,) = shards.names_on(full, 1)
        one = actor(world, kind, shards.url())
        held = one.acquire(name, **HELD)
        full.ask("CONFIG", "SET", "maxmemory", 1)
        full.end_connections()
        held.release().check()
        full.ask("CONFIG", "SET", "maxmemory", 0)
        one.acquire(name).release().check()
        world.await_nothing_left()


@scenario(counts=[1])
def a_server_that_wants_replicas_is_seen_and_lets_nobody_in_without_its_list(world, kind, _names):
    with sharded(world, 2) as shards:
        poor = shards.servers[0]
        names = shards.names_on(poor, 2)
        one = actor(world, kind, shards.url())
        held = one.acquire(names[0], **HELD)
        poor.ask("CONFIG", "SET", "min-replicas-to-write", 1)
        check_equal(rql(shards.url(), "ls").split(), names[:1])
        poor.end_connections()
        one.refused(names[1], timeout_ms=SHORT_MS).check("E_UNAVAILABLE")
        poor.ask("CONFIG", "SET", "min-replicas-to-write", 0)
        held.release().check()
        for server in shards.servers:
            server.ask("DEL", RING)
            server.ask("CONFIG", "SET", "min-replicas-to-write", 1)
        other = actor(world, kind, shards.url())
        outcome = other.begin("connect").outcome().check("E_UNAVAILABLE")
        last = shards.servers[-1].name
        check(all(part in outcome.error for part in (f"SET {RING} on redis://{last}", "NOREPLICAS")), outcome.error)
        for server in shards.servers:
            server.ask("CONFIG", "SET", "min-replicas-to-write", 0)
        other.acquire(names[0]).release().check()
        check_equal(poor.ask("GET", RING).count(","), 1)
        world.await_nothing_left()


# ---- who is refused ----

@scenario(counts=[1])
def who_has_another_list_is_refused(world, kind, _names):
    """Not for its order or letter case. When all have stopped and the key is deleted the list may change."""
    with sharded(world, 3) as shards:
        first, second, third = shards.servers
        urls = [f"redis+shards://localhost:{first.port},{second.name},{third.name}",
                f"redis+shards://{third.name},LocalHost:{first.port},{second.name}"]
        users = [actor(world, kind, url) for url in urls]
        for name, user in itertools.product(MANY, users):
            user.acquire(name).release().check()
        for url in shards.url(first, second), shards.url(second, first, third):
            users.append(actor(world, kind, url))
            for name in MANY[:3]:
                outcome = users[-1].refused(name, timeout_ms=FOREVER).check("E_INVALID")
                check(all(part in outcome.error for part in ("redis://", "stop all clients", RING)), outcome.error)
        for user in users:
            world.free(user.client)
        for server in shards.servers:
            server.ask("DEL", RING)
        other = world.actor(kind, url=shards.url(first, second))
        for name in MANY:
            other.acquire(name).release().check()
        check_equal([server.ask("GET", RING) for server in shards.servers],
                    [",".join(sorted((first.name, second.name)))] * 2 + [None])


if __name__ == "__main__":
    main(at_once=3, is_for_each_server=False)
