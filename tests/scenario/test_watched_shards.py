#!/usr/bin/env python3
"""Masters that sentinels watch, over which locks are shared out by their names: when another server is one of them no
partition moves, and the others are not touched."""
import itertools
import json
from types import SimpleNamespace

from harness import (FOREVER, MINUTE_MS, SLOW, check, check_equal, check_handed_over, check_served_in_order,
                     check_told_as_lost, main, once, scenario, wait_until)
from partitions import partition_of
from shards import RING, Shards, held_with_heartbeats, keys_of, rql
from swarms import FLUSHES, swarm
from watched import await_replicated, watched_shards

KINDS = ("thread", "loop", "process")
BACK_S = 5 * SLOW  # from when another is the master
PAUSE_MS = 1500
HELD = {"ttl_ms": MINUTE_MS}
PATIENT = {"timeout_ms": FOREVER, "queue_ttl_ms": MINUTE_MS}
PUSHED = {**PATIENT, "retry_delay_ms": MINUTE_MS}  # who is not told asks again when the test has failed


def actor(world, kind, watched, **options):
    return world.actor(kind, events=True, url=watched.url(), **options)


def told(one, event):
    return [words for words in one.remote.events(event) if words["client"] == one.client.name]


def await_listeners(watched, name, count):
    """In the partition of this lock, each has a channel."""
    def are_there():
        return len(watched.owner_of(name).ask("PUBSUB", "SHARDCHANNELS", watched.key("*", name))) == count
    wait_until(are_there, f"{count} listen")


def connections(group):
    """Of the library, to its master."""
    return {line.split()[0] for line in group.ask("CLIENT", "LIST").splitlines() if " name=rql" in line}


class Line:
    """A lock that is held, and who waits for it, in their order."""

    def __init__(self, world, kind, watched, name, count=3):
        self.world, self.watched, self.name, self.count = world, watched, name, count
        self.held = actor(world, kind, watched).acquire(name, **HELD)
        self.asked = []
        for n_waiting in range(1, count + 1):
            self.asked.append(actor(world, kind, watched).ask(name, **PATIENT))
            world.await_queue([name], n_waiting)
        self.await_listeners()

    def await_listeners(self):
        """Each, for who is not there when the lock is free may be passed by."""
        await_listeners(self.watched, self.name, self.count)

    def check(self):
        wait_until(lambda: self.held.state() == "HELD", "it is verified")
        check_equal(self.held.losses(), [])
        check_served_in_order(self.asked, self.held)


# ---- all is well ----

@scenario(kinds=KINDS, counts=[1])
def locks_of_all_masters_are_had_extended_and_handed_over(world, kind, _names):
    """Where the names of the masters say. One client asks one sentinel for all, and another connection brings news."""
    with watched_shards(world, "orders", "Orders", "m.3", n_replicas=0) as watched:
        names = watched.spread(2)
        holder, waiter = (actor(world, kind, watched) for _ in range(2))
        helds = [holder.acquire(name, **HELD) for name in names]
        for group in watched.servers:
            check_equal(keys_of(group, "lock:*"),
                        sorted(watched.key(f"lock:{name}", name) for name in names if watched.owner_of(name) is group))
            check_equal(group.ask("GET", RING), "Orders,m.3,orders")
        for held in helds:
            held.extend(2 * MINUTE_MS).check()
            asking = waiter.ask(*held.names, **PUSHED)
            world.await_queue(held.names, 1)
            await_listeners(watched, held.names[0], 1)
            held.release().check()
            mine = asking.hold()
            check(mine.tokens[0] > held.tokens[0], "tokens fall")
            mine.release().check()
        apart = sorted(watched.spread(1), key=partition_of, reverse=True)
        check_handed_over(world, holder, waiter, apart, mode="sorted", queued=apart[-1:])
        (sentinel,) = watched.sentinels
        clients = sentinel.ask("CLIENT", "LIST").count(" addr=127.0.0.1:")
        check_equal((clients, sentinel.n_listeners()), (2 * 2, 2))
        world.await_nothing_left()


def found_of_replicas(watched):
    """By the doctor, which warns of a replica that is slow just now."""
    checks = json.loads(rql(watched.url(), "doctor", "--json", codes=(0, 1)))["checks"]
    return ([one["found"].get("reached") for one in checks if one["id"] == "clk.replicas"],
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
        found = json.loads(rql(watched.url(), "ls", "--node", "--json"))
        check_equal([(lock["name"], lock["node"]) for lock in found],
                    [(name, watched.owner_of(name).name) for name in names])
        check_equal(json.loads(rql(watched.url(), "info", names[-1], "--json"))["name"], names[-1])
        said = json.loads(rql(watched.url(), "ping", "--json"))
        check_equal([(one["master"], one["node"], one["url"]) for one in said],
                    [(group.name, f"127.0.0.1:{group.named().port}", watched.url(group)) for group in watched.servers])
        check_equal(sum(one["partitions"] for one in said), 128)
        check_equal([line.split()[0] for line in rql(watched.url(), "ping").splitlines()], ["MASTER", "m1", "m2"])
        for group in watched.servers:
            await_replicated(group)
        wait_until(lambda: found_of_replicas(watched) == ([1], [None, "m2"]), "the doctor sees the replicas")
        check_equal(json.loads(rql(watched.url(), "clear", "--force", "--json"))["rel_key_cnt"], len(names))
        for held in helds:
            held.release().check("NOT_HELD")
        world.await_nothing_left()


# ---- another server is one of them ----

@scenario(kinds=["thread", "loop"], counts=[1])
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
        lines[0].await_listeners()
        for one in lines[0].held.actor, idle:
            wait_until(lambda one=one: one.client.stats().failovers == 1, "all are there")
        check_equal(connections(other) & before, before)
        check_equal(keys_of(failing, "lock:*"), [watched.key(f"lock:{moved}", moved)])
        check_equal([(words["master"], words["server"]) for words in told(lines[0].held.actor, "master_changed")],
                    [("m2", f"127.0.0.1:{new.port}")])
        wait_until(lambda: old.n_clients() == 0, "nobody stays")
        for line in lines:
            line.check()
        world.await_nothing_left()


def a_master_that(fault):
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
            line.await_listeners()
            line.check()
            two.acquire(asked_for, timeout_ms=FOREVER).release().check()
            if old.process.poll() is None:
                old.go_on()
                failing.await_demotion(old)
                check_equal(old.n_clients(), 0, "clients that stayed")
            world.await_nothing_left()
    case.__name__ = f"a master that is {fault.__name__} is replaced, while the other serves"
    return case


def killed(node):
    node.kill()


def stopped(node):
    node.freeze()


scenario(kinds=["thread", "loop"], counts=[1])(a_master_that(killed))
scenario(kinds=["thread"], counts=[1])(a_master_that(stopped))


@scenario(kinds=["thread", "loop"], counts=[1])
def grants_that_were_not_replicated_are_told_as_lost(world, kind, _names):
    """Those that the master had that was replaced, and no others."""
    with watched_shards(world, "m1", "m2") as watched:
        failing, other = watched.servers
        (lost,), (stays,) = watched.names_on(failing, 1), watched.names_on(other, 1)
        one = actor(world, kind, watched)
        one.acquire(lost).release().check()
        kept = one.acquire(stays, **HELD)
        await_replicated(failing)
        old, replica = failing.nodes
        replica.fall_behind(old)
        held = one.acquire(lost, **HELD)
        old.kill()
        replica.go_on()
        failing.await_next(old)
        check_told_as_lost(one, held, timeout_ms=FOREVER)
        check_equal([words["token"] for words in told(one, "history_lost")], held.tokens)
        check_equal((kept.state(), kept.losses()), ("HELD", []))
        kept.release().check()
        world.await_nothing_left()


@scenario(kinds=["thread", "loop"], counts=[1])
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
            check_equal(len(keys_of(group, "era")), sum(owner is group for owner in watched.owners))
        await_replicated(failing)
        began_us = int("".join(part.rjust(6, "0") for part in failing.ask("TIME")))
        failing.failover()
        two.acquire(stays, ttl_ms=PAUSE_MS).release().check()
        later = two.acquire(also, timeout_ms=FOREVER, ttl_ms=PAUSE_MS)
        check(later.outcome.ts_us - began_us > 1000 * PAUSE_MS, "nothing was paused")
        wait_until(lambda: held.state() == "HELD", "it is verified")
        check_equal(held.losses(), [])
        for each in later, held:
            each.release().check()
        world.await_nothing_left()


@scenario(kinds=["thread", "loop"], counts=[1])
def what_a_killed_process_held_is_flushed_at_all_masters(world, kind, _names):
    """Also at one that took over meanwhile."""
    with watched_shards(world, "m1", "m2") as watched:
        names = watched.spread(2)
        holder = held_with_heartbeats(world, kind, watched, names)
        asking = actor(world, kind, watched).ask(names[0], **PATIENT)
        world.await_queue(names[:1], 1)
        with swarm(world, world.client(url=watched.url()), **FLUSHES):
            await_replicated(watched.servers[0])
            watched.servers[0].failover()
            world.kill(holder)
            asking.hold().release().check()
            world.await_nothing_left()
        check_equal([keys_of(group, "swarm:hsts") for group in watched.servers], [[], []])


# ---- who is refused ----

@scenario(kinds=["thread", "loop"], counts=[1])
def who_has_another_list_of_masters_is_refused(world, kind, _names):
    """Not for its order. When all have stopped and the key is deleted the list may change."""
    with watched_shards(world, "m1", "m2", "m3", n_replicas=0) as watched:
        first, second, _ = watched.servers
        names = [f"lock{number}" for number in range(20)]
        users = [world.actor(kind, url=watched.url(*order)) for order in ((first, second), (second, first))]
        for name, user in itertools.product(names, users):
            user.acquire(name).release().check()
        other = world.actor(kind, url=watched.url())
        for group, name in ((group, name) for group in (first, second) for name in watched.names_on(group, 2)):
            outcome = other.refused(name, timeout_ms=FOREVER).check("E_INVALID")
            said = (f"/{group.name}: ", "stop all clients", RING, "have m1,m2,", "has m1,m2,m3")
            check(all(part in outcome.error for part in said), outcome.error)
        for user in (*users, other):
            world.free(user.client)
        for group in watched.servers:
            group.ask("DEL", RING)
        other = world.actor(kind, url=watched.url())
        for name in names:
            other.acquire(name).release().check()
        check_equal([group.ask("GET", RING) for group in watched.servers], ["m1,m2,m3"] * 3)


@scenario(kinds=["thread", "loop"], counts=[1])
def a_master_that_no_sentinel_knows_is_told_by_its_name(world, kind, _names):
    """The others serve."""
    with watched_shards(world, "m1", n_replicas=0) as watched:
        unknown = SimpleNamespace(name="m2")
        shared = Shards([unknown, *watched.servers])
        one = world.actor(kind, url=watched.url().replace("m1", "m2,m1"))
        had, refused = (shared.names_on(server, 2) for server in (watched.servers[0], unknown))
        one.acquire(had[0]).release().check()
        outcomes = [one.begin("connect").outcome(), *(one.refused(name, timeout_ms=300) for name in refused)]
        one.acquire(had[1]).release().check()
        check_equal(outcomes[0].status, "E_UNAVAILABLE")
        check('its sentinel knows no master with the name "m2"' in outcomes[0].error, outcomes[0].error)
        for outcome in outcomes:
            outcome.check("E_UNAVAILABLE", "E_IO")
            check("/m2: " in outcome.error, outcome.error)


if __name__ == "__main__":
    main(at_once=2, is_for_each_server=False)
