#!/usr/bin/env python3
"""Several locks in a cluster, by partition: each in one step, and one after the other, upwards."""
import time

from cluster import clustered
from harness import FOREVER, MINUTE_MS, as_they_end, check, check_equal, main, scenario, wait_until

KINDS = ["thread", "loop"]
UNTRIED, ACQUIRED, OPEN, HELD_BY_OTHER = 0, 1, 3, 4     # rql_series_fate
HELD = {"ttl_ms": MINUTE_MS}
PATIENT = {"timeout_ms": FOREVER, "queue_ttl_ms": MINUTE_MS}
SHORT_MS = 600
LOW, MIDDLE, HIGH = "{b}", "{c}", "{a}"   # the lock's name begins with it; their partitions: 25, 57, 121


def actor(world, kind, cluster, **options):
    return world.actor(kind, world.client(events=True, url=cluster.url(), **options))


def names_of(*tags):
    return [f"{tag}{i}" for i, tag in enumerate(tags)]


def n_asked(cluster):
    return sum(master.n_calls().get("evalsha", 0) + master.n_calls().get("eval", 0) for master in cluster.masters())


@scenario(kinds=KINDS, counts=[1])
def one_step_takes_those_of_a_partition(world, kind, _names):
    """Tokens and fates are those of the names, in whatever order they are taken."""
    with clustered(world, 3) as cluster:
        one = actor(world, kind, cluster)
        names = names_of(HIGH, LOW, HIGH, MIDDLE, LOW)
        held = one.acquire(*names, mode="sorted", **HELD)  # now all servers know the scripts
        held.release().check()
        before = n_asked(cluster)
        held = one.acquire(*names, mode="sorted", **HELD)
        check_equal(n_asked(cluster) - before, 3)
        check_equal([world.token(name) for name in names], held.tokens)
        check_equal((held.outcome.result["fates"], held.outcome.result["n_acquired"]), ([ACQUIRED] * 5, 5))
        check(held.tokens[0] < held.tokens[2] and held.tokens[1] < held.tokens[4], f"{held.tokens}")
        held.release().check()
        check_equal(n_asked(cluster) - before, 3 + 5)
        world.await_nothing_left()


@scenario(kinds=["thread"], counts=[1])
def all_are_extended_wherever_they_are(world, kind, _names):
    with clustered(world, 3, 1) as cluster:
        names = names_of(HIGH, LOW, MIDDLE)
        held = actor(world, kind, cluster).acquire(*names, mode="sorted", replicas=1)
        held.extend(MINUTE_MS).check()
        check(all(world.ask("PTTL", f"rql:lock:{name}") > SHORT_MS * 10 for name in names), "all are extended")
        check(held.remaining_ms() > SHORT_MS * 10, "it knows")
        world.ask("DEL", f"rql:lock:{names[0]}")
        check_equal(held.extend(2 * MINUTE_MS).status, "NOT_HELD")
        check(all(world.ask("PTTL", f"rql:lock:{name}") > MINUTE_MS for name in names[1:]), "the others are extended")
        check_equal(held.release().status, "NOT_HELD")
        world.await_nothing_left()


@scenario(kinds=KINDS, counts=[1])
def what_is_held_is_renewed_until_all_are_there(world, kind, _names):
    """Not any longer."""
    with clustered(world, 3) as cluster:
        one, other = (actor(world, kind, cluster) for _ in range(2))
        low, high = names_of(LOW, HIGH)
        blocking = other.acquire(high, **HELD)
        asking = one.ask(high, low, mode="sorted", **{**PATIENT, "ttl_ms": SHORT_MS})
        world.await_queue([high], 1)
        token = world.token(low)
        time.sleep(2 * SHORT_MS / 1000)
        check_equal(world.token(low), token)
        blocking.release().check()
        held = asking.hold()
        check_equal(held.tokens[1], token)
        check(held.remaining_ms() > SHORT_MS // 3, f"{held.remaining_ms()} ms are left")
        wait_until(lambda: not any(world.ask("EXISTS", f"rql:lock:{name}") for name in (low, high)), "their ttl is over")
        check_equal(held.release().status, "NOT_HELD")
        world.await_nothing_left()


@scenario(kinds=KINDS, counts=[1])
def a_failure_gives_all_back(world, kind, _names):
    """The result says on which of the names it failed, and the deadline is that of all."""
    with clustered(world, 3) as cluster:
        one, other = (actor(world, kind, cluster) for _ in range(2))
        names = names_of(HIGH, MIDDLE, LOW, MIDDLE)
        blocking = other.acquire(names[3], **HELD)
        for options, status in (({"fail_fast": True}, "FAIL_FAST_NO_TRY"), ({"timeout_ms": 50}, "TIMED_OUT")):
            outcome = one.refused(*names, mode="sorted", **{**PATIENT, **options})
            check_equal(outcome.status, status)
            result = outcome.result
            check_equal((result["failed_on"], result["n_acquired"]), (3, 1))
            check_equal(result["fates"], [UNTRIED, OPEN, ACQUIRED, HELD_BY_OTHER])
            check_equal([world.queue_length(name) for name in names], [0, 0, 0, 0])
            other.acquire(names[0], names[2], mode="sorted").release().check()
        blocking.release().check()
        world.await_nothing_left()


@scenario(kinds=KINDS, counts=[1])
def one_that_is_lost_meanwhile_ends_it(world, kind, _names):
    with clustered(world, 3) as cluster:
        one, other = (actor(world, kind, cluster) for _ in range(2))
        low, middle, high = names_of(LOW, MIDDLE, HIGH)
        blocking = other.acquire(high, **HELD)
        asking = one.ask(low, middle, high, mode="sorted", **{**PATIENT, "ttl_ms": SHORT_MS})
        world.await_queue([high], 1)
        world.ask("DEL", f"rql:lock:{middle}")
        time.sleep(2 * SHORT_MS / 1000)
        blocking.release().check()
        outcome = asking.outcome()
        check_equal((outcome.status, outcome.result["failed_on"]), ("E_UNAVAILABLE", 1))
        check(f"{middle}: was lost" in outcome.error, outcome.error)
        world.await_nothing_left()


@scenario(kinds=KINDS, counts=[1])
def opposite_orders_do_not_wait_in_a_circle(world, kind, _names):
    with clustered(world, 3) as cluster:
        names = names_of(LOW, MIDDLE, HIGH)
        actors = [actor(world, kind, cluster) for _ in range(3)]
        for turn in range(4):
            orders = [names[at:] + names[:at] if turn % 2 else (names[at:] + names[:at])[::-1] for at in range(3)]
            asked = [one.ask(*order, mode="sorted", **PATIENT) for one, order in zip(actors, orders)]
            for asking in as_they_end(asked):
                asking.hold().release().check()
        world.await_nothing_left()


if __name__ == "__main__":
    main()
