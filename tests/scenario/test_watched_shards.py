#!/usr/bin/env python3
"""Masters that sentinels watch, over which locks are shared out by their names: when another server is one of them no
partition moves, and the others are not touched."""
import json
from types import SimpleNamespace

from harness import FOREVER, SLOW, check, check_equal, check_handed_over, main, once, scenario, wait_until
from shards import HELD, Line, Shards, check_locks_of_all, check_series, keys_of, rql
from watched import Node, await_replicated, watched_shards

BACK_S = 5 * SLOW  # from when another is the master
PAUSE_MS = 3000  # longer than a failover takes on a busy machine


def actor(world, kind, watched, **options):
    return world.actor(kind, events=True, url=watched.url(), **options)


def told(one, event):
    return [words for words in one.remote.events(event) if words["client"] == one.client.name]


def connections(group):
    """Of the library, to its master."""
    return {line.split()[0] for line in group.ask("CLIENT", "LIST").splitlines() if " name=rql" in line}


# ---- all is well ----

@scenario(counts=[1])
def locks_of_all_masters_are_had_extended_and_handed_over(world, kind, _names):
    """Each client asks one sentinel for all masters, and another connection brings news."""
    with watched_shards(world, "orders", "Orders", "m.3", n_replicas=0) as watched:
        check_locks_of_all(world, kind, watched, "Orders,m.3,orders")
        (sentinel,) = watched.sentinels
        clients = sentinel.ask("CLIENT", "LIST").count(" addr=127.0.0.1:")
        check_equal((clients, sentinel.n_listeners()), (2 * 2, 2))
        check_series(world, kind, watched)


def found_of_replicas(watched):
    """By the doctor, which warns of a replica that is slow just now."""
    checks = json.loads(rql(watched.url(), "doctor", "--json", codes=(0, 1)))["checks"]
    return ([one["found"].get("reached") for one in checks if one["id"] == "clk.skew"],
            [one["found"].get("node") for one in checks if one["id"] == "dur.replicas"])


@once
def lists_are_of_all_masters(world, _kind, _names):
    """With the name of each, which stays, and where it is just now."""
    with watched_shards(world, "m1", "m2") as watched:
        for group in watched.servers:
            group.ask("CONFIG", "SET", "min-replicas-to-write", 1)
        names = sorted(watched.spread(2))
        holder = actor(world, "thread", watched)
        helds = [holder.acquire(name, timeout_ms=FOREVER, **HELD) for name in names]
        nodes = [watched.owner_of(name).name for name in names]
        for command in "ls", "who":
            found = json.loads(rql(watched.url(), command, "--node", "--json"))
            check_equal([(lock["name"], lock["node"]) for lock in found], list(zip(names, nodes)))
        check_equal(json.loads(rql(watched.url(), "info", names[-1], "--json"))["name"], names[-1])
        said = json.loads(rql(watched.url(), "ping", "--json"))
        check_equal([(one["master"], one["node"], one["url"]) for one in said],
                    [(group.name, f"127.0.0.1:{group.named().port}", watched.url(group)) for group in watched.servers])
        check_equal(sum(one["partitions"] for one in said), 128)
        check_equal([line.split()[0] for line in rql(watched.url(), "ping").splitlines()], ["MASTER", "m1", "m2"])
        for group in watched.servers:
            await_replicated(group)
        wait_until(lambda: found_of_replicas(watched) == ([1], [None, "m2"]), "the doctor sees the replicas")
        check_equal(json.loads(rql(watched.url(), "clear", "--force", "--json"))["released"], len(names))
        for held in helds:
            held.release().check("NOT_HELD")
        world.await_nothing_left()


# ---- another server is one of them ----

@scenario(counts=[1])
def a_failover_moves_no_partition_and_leaves_the_others_alone(world, kind, _names):
    """The lock there stays held, and who waits keeps its place; elsewhere no connection ends. Who has nothing to ask
    just now follows, too."""
    with watched_shards(world, "m1", "m2") as watched:
        other, failing = watched.servers
        (moved,), (stays,) = watched.names_on(failing, 1), watched.names_on(other, 1)
        lines = [Line(world, kind, watched, name) for name in (moved, stays)]
        idle = actor(world, kind, watched)
        idle.acquire(*watched.names_on(failing, 2)[1:]).release().check()
        await_replicated(failing)
        before = connections(other)
        old, new = failing.named(), failing.failover()
        lines[0].await_back()
        for one in lines[0].held.actor, idle:
            wait_until(lambda one=one: one.client.stats().failovers == 1, "all are there")
        check_equal(connections(other) & before, before)
        check_equal(keys_of(failing, "lock:*"), [watched.key(f"lock:{moved}", moved)])
        check_equal([(words["master"], words["server"]) for words in told(lines[0].held.actor, "master_changed")],
                    [("m2", f"127.0.0.1:{new.port}")])
        wait_until(lambda: old.n_clients() == 0, "nobody stays")
        for line in lines:
            line.check_served()
        world.await_nothing_left()


def a_master_that(how, fault):
    def case(world, kind, _names):
        with watched_shards(world, "m1", "m2") as watched:
            other, failing = watched.servers
            (moved, asked_for), (stays,) = watched.names_on(failing, 2), watched.names_on(other, 1)
            line = Line(world, kind, watched, moved)
            one, two, three = (actor(world, kind, watched) for _ in range(3))
            kept = one.acquire(asked_for, **HELD)
            await_replicated(failing)
            old = failing.named()
            fault(old)
            releasing = kept.begin("release")
            n_done = 0
            while failing.named() is old:
                check_handed_over(world, two, three, [stays])
                n_done += 1
            failing.await_next(old)
            check(n_done > 1, f"{n_done} hand-overs meanwhile")
            releasing.outcome(BACK_S).check()
            line.await_back()
            line.check_served()
            two.acquire(asked_for, timeout_ms=FOREVER).release().check()
            if old.process.poll() is None:
                old.go_on()
                failing.await_demotion(old)
                check_equal(old.n_clients(), 0, "clients that stayed")
            world.await_nothing_left()
    case.__name__ = f"a master that is {how} is replaced, while the other serves"
    return case


scenario(counts=[1])(a_master_that("killed", Node.kill))
scenario(kinds=["thread"], counts=[1])(a_master_that("stopped", Node.freeze))


@scenario(counts=[1])
def with_recovery_delay_nothing_is_granted_for_a_while_there(world, kind, _names):
    """In each partition that the master has."""
    with watched_shards(world, "m1", "m2") as watched:
        failing, other = watched.servers
        (name, also), (stays,) = watched.names_on(failing, 2), watched.names_on(other, 1)
        one, two = (actor(world, kind, watched, recovery_delay_ms=PAUSE_MS) for _ in range(2))
        for each in name, also, stays:
            one.acquire(each, timeout_ms=FOREVER, ttl_ms=PAUSE_MS).release().check()
        held = one.acquire(name, ttl_ms=PAUSE_MS, auto_extend=True)
        for group in watched.servers:
            check_equal(len(keys_of(group, "era")), len(watched.partitions_of(group)))
        await_replicated(failing)
        began_us = world.server.now_us()
        failing.failover()
        two.acquire(stays, ttl_ms=PAUSE_MS).release().check()
        later = two.acquire(also, timeout_ms=FOREVER, ttl_ms=PAUSE_MS)
        check(later.outcome.ts_us - began_us > 1000 * PAUSE_MS, "nothing was paused")
        wait_until(lambda: held.state() == "HELD", "it is verified")
        check_equal(held.losses(), [])
        for each in later, held:
            each.release().check()
        world.await_nothing_left()


# ---- who is not known ----


@scenario(counts=[1])
def a_master_that_no_sentinel_knows_is_told_by_its_name(world, kind, _names):
    """The others serve."""
    with watched_shards(world, "m1", n_replicas=0) as watched:
        unknown = SimpleNamespace(name="m2")
        shared = Shards([unknown, *watched.servers])
        one = world.actor(kind, url=watched.url().replace("m1", "m2,m1"))
        had, refused = (shared.names_on(server, 2) for server in (watched.servers[0], unknown))
        one.acquire(had[0]).release().check()
        one.begin("connect").outcome().check()
        alone = world.actor(kind, url=watched.url().replace("m1", "m2"))
        outcomes = [alone.begin("connect").outcome(), *(one.refused(name, timeout_ms=300) for name in refused)]
        one.acquire(had[1]).release().check()
        check_equal(outcomes[0].status, "E_UNAVAILABLE")
        check('its sentinel knows no master with the name "m2"' in outcomes[0].error, outcomes[0].error)
        for outcome in outcomes:
            outcome.check("E_UNAVAILABLE", "E_IO")
            check("/m2: " in outcome.error, outcome.error)


if __name__ == "__main__":
    main(at_once=2, is_for_each_server=False)
