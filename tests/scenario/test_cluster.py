#!/usr/bin/env python3
"""Locks in a cluster: three masters, and a replica of each, which takes over when its master dies or stands still."""
import os
import time

from cluster import clustered
from harness import KINDS, MINUTE_MS, SLOW, check, check_equal, check_told_as_lost, main, once, scenario, wait_until
from partitions import prefix_in, slot_of, slot_of_lock
from shards import HELD, PATIENT, Line, actor, check_locks_of_all, check_series

SIX = (3, 1)
SHORT_MS, LONG_MS = 1500, 5000
BACK_MS = 300     # from when CLUSTER SLOTS shows who the master is
IO_TIMEOUT_MS = 500
LIMITS = {"io_timeout_ms": IO_TIMEOUT_MS, "connect_timeout_ms": IO_TIMEOUT_MS}
RENEWED_MS = 9000  # longer than a failover takes
IS_LONG = "RQL_TEST_LONG" in os.environ
NOT_COVERED = ("--cluster-require-full-coverage", "no")
DOWN = ("E_UNAVAILABLE", "E_IO")
DEAD_PORT = 1
N_MAPS = 4


def n_asked(cluster):
    """Scripts, of each master."""
    return [master.n_scripts() for master in cluster.masters()]


def n_maps_read(cluster):
    return sum(node.n_calls().get("cluster|slots", 0) for node in cluster.nodes)


# ---- all is well ----

@scenario(counts=[1])
def locks_of_many_partitions_are_had_and_handed_over(world, kind, _names):
    """Nobody asks a master in vain."""
    with clustered(world, *SIX) as cluster:
        check_locks_of_all(world, kind, cluster)
        check(min(n_asked(cluster)) > 0, f"one was not asked: {n_asked(cluster)}")
        check_equal([node for node in cluster.nodes if node.n_errors("MOVED")], [], "asked in vain")


@once
def one_thread_has_one_connection_to_each_node(world, kind, _names):
    """However often the map is read meanwhile, over the same ones, and though it says what its client is called."""
    with clustered(world, *SIX) as cluster:
        names = cluster.spread(1)
        one = actor(world, kind, cluster.url(*cluster.masters()), topology_refresh_ms=1000)
        n_read = n_maps_read(cluster)
        while n_maps_read(cluster) < n_read + N_MAPS:
            for name in names:
                one.acquire(name).release().check()
        check_equal(one.client.stats().connections, len(names))
        two = [one, world.actor("thread", one.client)]
        node, *_ = cluster.masters()
        asked_of = cluster.names_on(node, len(two))

        def one_more_is_open():
            n_before = one.client.stats().commands
            node.freeze()
            asking = [each.ask(name) for each, name in zip(two, asked_of)]
            wait_until(lambda: one.client.stats().commands >= n_before + len(two), "both have asked")
            node.come_back()
            for each in asking:
                each.hold().release().check()
            one.acquire(asked_of[0]).release().check()
            return one.client.stats().connections > len(names)
        wait_until(one_more_is_open, "two that met open one more")


@scenario(counts=[1])
def any_node_shows_the_way(world, kind, _names):
    """Also one that has not the lock, or is a replica; and the first may be dead, or stand still."""
    with clustered(world, *SIX) as cluster:
        names = cluster.spread(1)
        for node in cluster.nodes:
            one = actor(world, kind, cluster.url(node))
            for name in names:
                one.acquire(name).release().check()
        fine, still = cluster.nodes[0], cluster.replicas_of(cluster.masters()[1])[0]
        still.freeze()
        for url in cluster.url(fine).replace("://", f"://127.0.0.1:{DEAD_PORT},"), cluster.url(still, fine):
            one = actor(world, kind, url)
            for name in names:
                one.acquire(name, timeout_ms=LONG_MS).release().check()
            world.actor("thread", url=url).begin("connect").outcome().check()
        nobody = actor(world, kind, f"redis+cluster://127.0.0.1:{DEAD_PORT}")
        outcome = nobody.refused(names[0], timeout_ms=SHORT_MS)
        check(outcome.status in DOWN and str(DEAD_PORT) in outcome.error, repr(outcome))
        world.await_nothing_left()


@scenario(counts=[1])
def a_series_is_in_one_partition_unless_it_is_sorted(world, kind, _names):
    """What is refused is so before anything is sent."""
    with clustered(world, *SIX) as cluster:
        check_series(world, kind, cluster)
        one, apart = actor(world, kind, cluster.url()), cluster.spread(1)
        before = n_asked(cluster)
        check_equal((one.refused(*apart).status, n_asked(cluster)), ("E_INVALID", before))
        in_turn = one.acquire(*apart, mode="gem", **HELD)
        in_turn.release().check()
        world.await_nothing_left()


@scenario(counts=[1])
def what_is_to_be_safe_is_so_when_its_masters_replica_has_it(world, kind, _names):
    """Those of other masters say nothing; nor does what is to be safe keep others of its client waiting."""
    with clustered(world, *SIX) as cluster:
        first, master, last = cluster.masters()
        (replica,) = cluster.replicas_of(master)
        names = [name for node in (first, last, master) for name in cluster.names_on(node, 2)]
        wanted, plain = names[-2:]
        one = actor(world, kind, cluster.url(first), connections=1)
        other = one if kind == "loop" else world.actor(kind, one.client)
        safe = {"replicas": 1, "replica_timeout_ms": MINUTE_MS, **HELD}
        for name in names:
            one.acquire(name, **safe).release().check()
        replica.freeze()
        for name in names[:-2]:
            one.acquire(name, **safe).release().check()
        brief = {**safe, "replica_timeout_ms": SHORT_MS // 10, "fail_fast": True}
        for asked, how in ([wanted], {}), (names[1::2], {"mode": "sorted"}):
            check_equal(one.refused(*asked, **how, **brief).status, "E_NOT_DURABLE")
            world.await_nothing_left()
        asking = one.ask(wanted, **safe)
        wait_until(lambda: world.holder(wanted), "it is granted there")
        other.acquire(plain).release().check()
        check(not asking.is_over(), "it does not wait for the replica")
        replica.come_back()
        held = asking.hold()
        check_equal(held.outcome.replicas_acked, 1)
        held.release().check()
        world.await_nothing_left()


# ---- masters that go ----

def by_hand(*how):
    return lambda cluster, old: cluster.replicas_of(old)[0].ask("CLUSTER", "FAILOVER", *how)


FAILOVERS = {"fails over by hand": by_hand(), "fails over by force": by_hand("FORCE"),
             "is taken over": by_hand("TAKEOVER"), "is killed": lambda _, old: old.kill(),
             "stands still": lambda _, old: old.freeze(),
             "is cut off": lambda cluster, old: cluster.bus.split([old])}  # from other nodes, not from clients
UNTOLD = ("fails over by force", "is taken over", "is cut off")  # the old one may still grant, and that is lost


def a_master_that(words, strike):
    """Its replica has all. What is held stays so, also what is renewed; each waiter keeps its place; who comes
    meanwhile is served as soon as the cluster says where; and nobody else is kept waiting."""
    def case(world, kind, _names):
        with clustered(world, *SIX) as cluster:
            old = cluster.masters()[0]
            free, mine, renewed, wanted = cluster.names_on(old, 4)
            (elsewhere,) = cluster.names_on(cluster.masters()[1], 1)
            url = cluster.url()
            holder, comer, other = (actor(world, kind, url, **LIMITS) for _ in range(3))
            held = holder.acquire(mine, **HELD)
            kept = holder.acquire(renewed, ttl_ms=RENEWED_MS, auto_extend=True)
            line = Line(world, kind, cluster, wanted, **LIMITS)
            comer.acquire(free).release().check()
            other.acquire(elsewhere).release().check()
            cluster.await_replicated()
            strike(cluster, old)
            came = comer.ask(free, **PATIENT)
            other.acquire(elsewhere, timeout_ms=SHORT_MS).release().check()
            cluster.await_successor(slot_of_lock(free), old)
            shown, kept_ms = time.monotonic(), world.kept_ms()
            came.hold().release().check("OK", *(["NOT_HELD"] if words in UNTOLD else []))
            back_ms, kept_ms = 1000 * (time.monotonic() - shown), world.kept_ms() - kept_ms
            line.await_back()
            line.check_served()
            for one in held, kept:
                wait_until(lambda one=one: one.state() == "HELD", "it is verified")
                check_equal(one.losses(), [])
                one.release().check()
            world.await_nothing_left()
            cluster.bring_back(old)
            check(not old.is_master(), "it is still a master")
            comer.acquire(free).release().check()
            world.await_nothing_left()
            print(f"# a master that {words}: {back_ms:.0f} ms after it was shown", flush=True)
            most_ms = BACK_MS + (IO_TIMEOUT_MS if words == "stands still" else 0)
            check(back_ms < most_ms * SLOW + kept_ms, f"they came back after {back_ms:.0f} ms")
    case.__name__ = f"of a master that {words} nothing is lost"
    return case


# Each by one kind a run takes its time already.
for number, (fault, do) in enumerate(FAILOVERS.items()):
    scenario(kinds=KINDS if IS_LONG else [KINDS[number % 2]], counts=[1], is_timed=True)(a_master_that(fault, do))


@scenario(counts=[1])
def a_grant_that_was_not_replicated_is_told_as_lost(world, kind, _names):
    """Soon after the new master answers, and not when it would be renewed; those of others stand."""
    with clustered(world, *SIX) as cluster:
        old = cluster.masters()[0]
        (replica,) = cluster.replicas_of(old)
        name, other = cluster.names_on(old, 1) + cluster.names_on(cluster.masters()[1], 1)
        one = actor(world, kind, cluster.url())
        one.acquire(name).release().check()
        stays = one.acquire(other, **HELD)
        cluster.await_replicated()
        replica.fall_behind(old)
        held = one.acquire(name, **HELD)
        old.kill()
        replica.go_on()
        cluster.await_successor(slot_of_lock(name), old)
        check_told_as_lost(one, held)
        check_equal((stays.state(), stays.losses()), ("HELD", []))
        stays.release().check()
        world.await_nothing_left()


@scenario(counts=[1])
def partitions_without_a_master_are_told_and_others_work(world, kind, _names):
    """It is dead and has no replica, or nobody has its slots. When it is back, empty, all goes on."""
    with clustered(world, 3, 0, arguments=NOT_COVERED) as cluster:
        dying, losing, staying = cluster.masters()
        (dead,), (slotless,), (fine,) = (cluster.names_on(master, 1) for master in (dying, losing, staying))
        one = actor(world, kind, cluster.url())
        for name in dead, slotless, fine:
            one.acquire(name).release().check()
        dying.kill()
        for node in losing, staying:
            node.ask("CLUSTER", "DELSLOTS", slot_of_lock(slotless))
        for name, statuses in (dead, DOWN), (slotless, ["E_UNAVAILABLE"]):
            wait_until(lambda name=name, statuses=statuses: one.refused(name, timeout_ms=SHORT_MS).check(
                *statuses, "E_UNKNOWN").status in statuses, "it is told")
            one.acquire(fine, timeout_ms=LONG_MS).release().check()
        dying.come_back()
        asked = [actor(world, kind, cluster.url(staying)).ask(name, **PATIENT) for name in (dead, slotless)]
        losing.ask("CLUSTER", "ADDSLOTS", slot_of_lock(slotless))
        for asking in asked:
            asking.hold().release().check()
        world.await_nothing_left()


@scenario(kinds=["loop"], counts=[1])
def a_request_for_a_lock_that_no_node_has_tells_why_it_waits(world, kind, _names):
    with clustered(world, 3, 0, arguments=NOT_COVERED) as cluster:
        name = cluster.spread(1)[0]
        slot, owner = slot_of_lock(name), cluster.owner_of(name)
        one = actor(world, kind, cluster.url())
        for node in cluster.masters():
            node.ask("CLUSTER", "DELSLOTS", slot)
        asking = one.ask(name, **PATIENT)

        def fault():
            return one.begin("fault_of", of=asking.call.number).outcome()
        wait_until(lambda: fault().status == "E_UNAVAILABLE" and "CLUSTERDOWN" in fault().error, "it tells why")
        for node in cluster.nodes:
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", owner.id)
        held = asking.hold()
        held.release().check()
        cluster.await_settled()
        world.await_nothing_left()


@once
def a_history_waits_until_its_slot_is_served(world, kind, _names):
    """A call that is repeated, because no server has the slot, has done nothing: its hold is added once."""
    with clustered(world, 3, 0, arguments=NOT_COVERED) as cluster:
        slot = slot_of(prefix_in(0))
        keeper = cluster.owner(slot)
        (name,) = cluster.names_on(cluster.other_master(keeper), 1)
        one = actor(world, kind, cluster.url(), history="long")

        def n_holds():
            values = [value for key in keeper.ask("KEYS", "*:usage:*") for value in keeper.ask("HVALS", key)]
            return sum(int(value.split(" ")[0]) for value in values if value.count(" ") == 3)

        one.acquire(name).release().check()
        wait_until(lambda: n_holds() == 1, "a hold was added")
        for node in cluster.masters():
            node.ask("CLUSTER", "DELSLOTS", slot)
        one.acquire(name).release().check()
        wait_until(lambda: keeper.n_errors("CLUSTERDOWN") > 1, "it is sent again")
        keeper.ask("CLUSTER", "ADDSLOTS", slot)
        wait_until(lambda: n_holds() == 2, "both have been added")
        world.await_nothing_left()


@scenario(kinds=["thread"], counts=[1])
def a_silent_node_costs_no_lock_of_the_others(world, kind, _names):
    """Neither where something is held there, nor where something is to be withdrawn; nor waits a loop's call to another
    node."""
    with clustered(world, 3, 0, arguments=NOT_COVERED) as cluster:
        first, silent, fine = cluster.masters()
        client = world.client(url=cluster.url(), io_timeout_ms=SHORT_MS // 5)
        names = [name for node in (first, fine) for name in cluster.names_on(node, 20)]
        held = [world.actor(kind, client).acquire(name, ttl_ms=SHORT_MS, auto_extend=True) for name in names]
        there = [world.actor(kind, client).acquire(name, ttl_ms=SHORT_MS, auto_extend=True)
                 for name in cluster.names_on(silent, 10)]
        wanted = [*cluster.names_on(silent, 30)[10:], cluster.names_on(fine, 21)[-1]]
        loop = world.actor("loop", client)
        for name in wanted:
            loop.acquire(name).release().check()
        silent.freeze()
        *lost, last = [loop.ask(name, timeout_ms=SHORT_MS // 5) for name in wanted]
        last.hold().release().check()
        for asking in lost:
            asking.outcome().check("E_UNKNOWN", "E_IO")
        wait_until(lambda: all(hold.is_lost() for hold in there), "what it has is lost")
        goal = client.stats().renewals + 9 * len(names)
        wait_until(lambda: client.stats().renewals >= goal, "all are renewed nine times")
        check_equal([hold.losses() for hold in held], [[]] * len(held))
        silent.go_on()
        for hold in (*there, *held):
            hold.release()
        world.await_nothing_left()


@scenario(kinds=["thread"], counts=[1])
def a_silent_node_that_has_longer_locks_costs_no_lock_of_the_others(world, kind, _names):
    """Its lock is to be renewed again and again, each time by a login that gets no answer."""
    with clustered(world, 3, 0, arguments=NOT_COVERED) as cluster:
        _, silent, fine = cluster.masters()
        client = world.client(url=cluster.url(), io_timeout_ms=SHORT_MS // 5)
        (there,), held = (
            [world.actor(kind, client).acquire(name, ttl_ms=ttl_ms, auto_extend=True) for name in names]
            for names, ttl_ms in ((cluster.names_on(silent, 1), 4 * SHORT_MS), (cluster.names_on(fine, 5), SHORT_MS)))
        silent.freeze()
        wait_until(there.is_lost, "the longer one is lost")
        check_equal([hold.losses() for hold in held], [[]] * len(held))
        silent.go_on()
        for hold in (there, *held):
            hold.release()
        world.await_nothing_left()


@scenario(counts=[1])
def a_cluster_that_is_down_is_waited_for(world, kind, _names):
    """As all is by default when a slot is not covered: leases stand until their time, and go on."""
    with clustered(world, 3, 0) as cluster:
        dying, staying, _ = cluster.masters()
        (name,) = cluster.names_on(staying, 1)
        one, late = (actor(world, kind, cluster.url(staying)) for _ in range(2))
        held = one.acquire(name, **HELD)
        dying.kill()
        wait_until(lambda: not staying.is_well(), "the cluster is down")
        # E_UNKNOWN: the time was over between a call and its answer.
        wait_until(lambda: late.refused(name, timeout_ms=SHORT_MS).check("E_UNAVAILABLE", "E_UNKNOWN").status
                   == "E_UNAVAILABLE", "the cluster says so")
        asking = late.ask(name, **PATIENT)
        check_equal((held.state(), held.losses()), ("HELD", []))
        dying.come_back()
        cluster.await_settled()
        world.await_queue([name], 1)
        held.release().check()
        asking.hold().release().check()
        world.await_nothing_left()


if __name__ == "__main__":
    main(at_once=3, is_for_each_server=False)
