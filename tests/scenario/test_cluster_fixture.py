#!/usr/bin/env python3
"""The cluster that other scenarios use, by raw commands: it does what it is told. What it shows of a real one (MOVED,
ASK, TRYAGAIN, who takes over, who is told what) is what they rely on."""
import time

from cluster import PARTITION_SLOTS, Cluster
from harness import Connection, Refused, check, check_equal, main, once, wait_until
from partitions import N_PARTITIONS, WIDTH, partition_of, prefix_of, slot_of, slot_of_lock

NAME, N_KEYS = "a lock", 25
SLOT = slot_of_lock(NAME)
KEYS = [f"{prefix_of(NAME)}lock:{i}" for i in range(N_KEYS)]


def refused(node, *words, asking=False):
    """The first word of the error."""
    connection = Connection(node.path)
    try:
        if asking:
            connection.call("ASKING")
        return str(connection.call(*words))
    except Refused as error:
        return str(error).split()[0]
    finally:
        connection.close()


@once
def partitions_are_where_their_tags_are(_world, _kind, _names):
    with Cluster() as cluster:
        (node,) = cluster.nodes
        for key in "a", "{a}b", "a{b}c{d}", "a{}b{c}", "a{b", "{{a}}", "}{a}", "", *PARTITION_SLOTS, KEYS[0]:
            check_equal(slot_of(key), node.ask("CLUSTER", "KEYSLOT", key), key)
        middles = [WIDTH * partition + WIDTH // 2 for partition in range(N_PARTITIONS)]
        check(max(abs(slot - middle) for slot, middle in zip(PARTITION_SLOTS, middles)) <= 2, "a tag is far off")
        check_equal([partition_of("{00axj}b"), prefix_of("{02alu}")], [0, "rql:{02alu}:"])
        check_equal(cluster.masters(), cluster.nodes)


@once
def a_replica_takes_over_and_the_dead_one_comes_back(_world, _kind, _names):
    begun = time.monotonic()
    with Cluster(3, 1) as cluster:
        took_s = time.monotonic() - begun
        shares = [sum(slot in cluster.slots_of(master) for slot in PARTITION_SLOTS) for master in cluster.masters()]
        check_equal(shares, [43, 42, 43])
        old = cluster.owner_of(NAME)
        old.ask("SET", KEYS[0], "x")
        (replica,) = cluster.replicas_of(old)
        wait_until(lambda: replica.n_keys() == 1, "it is replicated")
        old.kill()
        check_equal(cluster.await_successor(SLOT, old), replica)
        check_equal(replica.ask("GET", KEYS[0]), "x")
        old.come_back()
        cluster.await_settled()
        check_equal(cluster.replicas_of(replica), [old])
        print(f"# six nodes in {took_s:.1f} s", flush=True)


@once
def failovers_by_hand_and_a_master_that_stands_still(_world, _kind, _names):
    with Cluster(3, 1) as cluster:
        for how in (), ("FORCE",), ("TAKEOVER",):
            old = cluster.owner_of(NAME)
            (replica,) = cluster.replicas_of(old)
            replica.ask("CLUSTER", "FAILOVER", *how)
            check_equal(cluster.await_successor(SLOT, old), replica)
            cluster.await_settled()
            check_equal((cluster.owner_of(NAME), cluster.replicas_of(replica)), (replica, [old]))
        old = cluster.owner_of(NAME)
        old.freeze()
        replica = cluster.await_successor(SLOT, old)
        old.come_back()
        cluster.await_settled()
        check_equal((cluster.owner_of(NAME), cluster.replicas_of(replica)), (replica, [old]))


@once
def a_slot_moves_key_by_key(_world, _kind, _names):
    with Cluster(2) as cluster:
        source = cluster.owner_of(NAME)
        (to,) = [node for node in cluster.nodes if node is not source]
        for key in KEYS:
            source.ask("SET", key, "x")
        check_equal(refused(to, "GET", KEYS[0]), "MOVED")
        listener = Connection(source.path, 10)
        listener.call("SSUBSCRIBE", prefix_of(NAME) + "wake:a")
        cluster.begin_to_migrate(SLOT, to)
        check_equal(cluster.migrate_keys(SLOT, source, to, 10), 10)
        check_equal((source.n_keys(), to.n_keys()), (N_KEYS - 10, 10))
        for node, asking in (source, False), (to, True):
            check_equal(refused(node, "EXISTS", *KEYS, asking=asking), "TRYAGAIN")
        while cluster.migrate_keys(SLOT, source, to):
            pass
        check_equal((refused(source, "GET", KEYS[0]), refused(to, "GET", KEYS[0], asking=True)), ("ASK", "x"))
        check_equal(cluster.owner(SLOT), source)
        cluster.end_to_migrate(SLOT, source, to)
        check_equal((cluster.owner(SLOT), refused(source, "GET", KEYS[0])), (to, "MOVED"))
        check_equal(listener.read()[:2], ["sunsubscribe", prefix_of(NAME) + "wake:a"])
        listener.close()
        gets = source.n_calls()["get"]
        cluster.migrate(SLOT, source, count=1)
        check_equal((cluster.owner(SLOT), source.n_keys(), refused(source, "GET", KEYS[0])), (source, N_KEYS, "x"))
        check_equal(source.n_calls()["get"], gets + 1)


@once
def a_script_in_a_slot_that_moves_ends_in_the_middle_unless_a_key_is_missing(_world, _kind, _names):
    """What it deletes is missing for what it does next. With a key that never exists it does not even begin."""
    script, never = "redis.call('DEL', KEYS[1]) return redis.call('SET', KEYS[1], 2)", KEYS[0] + " never"
    with Cluster(2) as cluster:
        source = cluster.owner_of(NAME)
        (to,) = [node for node in cluster.nodes if node is not source]
        for key in KEYS:
            source.ask("SET", key, 1)
        cluster.begin_to_migrate(SLOT, to)
        check_equal(refused(source, "EVAL", script, 2, KEYS[0], never), "TRYAGAIN")
        check_equal(refused(source, "EVAL", script, 2, KEYS[1], KEYS[2]), "ERR")
        check_equal([refused(source, "GET", key) for key in KEYS[:3]], ["1", "ASK", "1"])
        while cluster.migrate_keys(SLOT, source, to):
            pass
        check_equal(refused(source, "EVAL", script, 2, KEYS[0], never), "ASK")
        check_equal(refused(to, "EVAL", script, 2, KEYS[0], never, asking=True), "TRYAGAIN")
        cluster.end_to_migrate(SLOT, source, to)
        check_equal(refused(to, "EVAL", script, 2, KEYS[0], never), "OK")


@once
def a_node_is_added_and_removed(_world, _kind, _names):
    with Cluster(2) as cluster:
        owner = cluster.owner_of(NAME)
        owner.ask("SET", KEYS[0], "x")
        added = cluster.add()
        check_equal((added.n_keys(), added in cluster.masters()), (0, False))
        for slot in PARTITION_SLOTS:
            cluster.migrate(slot, added)
        cluster.await_settled()
        check_equal((cluster.owner_of(NAME), added.ask("GET", KEYS[0])), (added, "x"))
        cluster.remove(added, owner)
        cluster.await_settled()
        check_equal((cluster.owner_of(NAME), owner.ask("GET", KEYS[0]), len(cluster.nodes)), (owner, "x", 2))


@once
def a_master_is_cut_off_from_the_others(_world, _kind, _names):
    """It takes what it is asked until its time is over; the others have another by then."""
    with Cluster(3, 1) as cluster:
        old = cluster.owner_of(NAME)
        cluster.bus.split([old])
        check_equal(old.ask("SET", KEYS[0], "x"), "OK")
        wait_until(lambda: not old.is_well(), "it has noticed")
        check_equal(refused(old, "GET", KEYS[0]), "CLUSTERDOWN")
        wait_until(lambda: len([node for node in cluster.nodes if node.is_master()]) == 4, "another takes over")
        cluster.bus.heal()
        cluster.await_settled()
        check(cluster.owner_of(NAME) is not old and not old.is_master(), "it is still a master")


if __name__ == "__main__":
    main(is_for_each_server=False)
