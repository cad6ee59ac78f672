#!/usr/bin/env python3
"""Series that do not take all in one step: one lock after the other as the gem's lock_series, but without its leaks;
and in a cluster the partitions one after the other, upwards."""
import time

from cluster import clustered
from harness import FOREVER, MINUTE_MS, as_they_end, check, check_equal, main, once, scenario, wait_until

LONG_MS = 20000
UNTRIED, ACQUIRED, REFUSED, OPEN, HELD_BY_OTHER = range(5)  # what became of a lock: rql_series_fate
GEM = {"mode": "gem"}
MINE = {"task": 7}


@scenario(counts=[3])
def the_ttl_grows_with_the_locks_that_follow(world, kind, names):
    """By a ttl and the pauses of a wait for each; one name is a series too. The events say the same."""
    actor = world.actor(kind, events=True)
    for count, ttl_ms, delay_ms, jitter_ms, expected in ((3, 2000, 200, 25, [6675, 4450, 2225]),
                                                         (2, 2000, 100, 7, [4214, 2107])):
        held = actor.acquire(*names[:count], ttl_ms=ttl_ms, retry_count=3, retry_delay_ms=delay_ms,
                             retry_jitter_ms=jitter_ms, **GEM)
        check_equal([int(world.ask("HGET", f"rql:lock:{name}", "ini_ttl")) for name in names[:count]], expected)
        check_equal([event["ttl_ms"] for event in actor.remote.events("lock_obtained")][-count:], expected)
        check_equal(len({world.holder(name) for name in names[:count]}), 1, "acquirers")
        held.release().check()
    check_equal(world.keys_left(), [])


@scenario(counts=[3])
def a_series_that_fails_keeps_nothing(world, kind, names):
    """In each of the gem's ways to fail; the gem itself would leave the first ones locked."""
    actor, other = world.actor(kind), world.actor("thread")
    for at, name in enumerate(names):
        held = other.acquire(name, ttl_ms=60000)
        for status, options in (("RETRY_LIMIT", {"retry_count": 2, "timeout_ms": 10000}),
                                ("FAIL_FAST_NO_TRY", {"fail_fast": True, "timeout_ms": 10000}),
                                ("TIMED_OUT", {"timeout_ms": 100})):
            outcome = actor.refused(*names, ttl_ms=LONG_MS, **GEM, **options).check(status, "E_UNKNOWN")
            result = outcome.result
            check_equal((result["reason"], result["n_acquired"], result["failed_on"]),
                        (outcome.words["status"], at, at), status)
            if outcome.status == status:
                check_equal(result["fates"], [ACQUIRED] * at + [REFUSED] + [UNTRIED] * (2 - at), status)
        held.release().check()
        world.await_nothing_left()


@scenario(counts=[1])
def the_same_name_twice_is_as_the_gem_has_it(world, kind, names):
    actor, twice = world.actor(kind), names * 2
    for strategy, status in (("wait_for_lock", "RETRY_LIMIT"), ("dead_locking", "CONFLICT"), ("work_through", "OK"),
                             ("extendable_work_through", "OK")):
        asking = actor.ask(*twice, ttl_ms=LONG_MS, retry_count=2, conflict_strategy=strategy, **GEM, **MINE)
        outcome = asking.outcome().check(status)
        if status == "OK":
            held = asking.hold()
            check_equal(held.tokens[0], held.tokens[1], "tokens")
            held.release().check()
        else:
            check_equal(outcome.result["failed_on"], 1)
        world.await_nothing_left()


@scenario(counts=[2])
def what_ends_during_a_later_wait_fails_the_series(world, kind, names):
    """The gem itself would say that it holds all."""
    actor, other = world.actor(kind), world.actor("thread")
    blocking = other.acquire(names[1], ttl_ms=MINUTE_MS)
    asking = actor.ask(*names, ttl_ms=100, auto_extend=False, timeout_ms=FOREVER, **GEM)
    world.await_queue(names[1:], 1)
    wait_until(lambda: not world.ask("EXISTS", f"rql:lock:{names[0]}"), "the ttl of the first is over")
    blocking.release().check()
    outcome = asking.outcome().check("E_UNAVAILABLE")
    check(f"{names[0]}: was lost while the series waited for {names[1]}" in outcome.error, outcome.error)
    check_equal(outcome.result["failed_on"], 0)
    world.await_nothing_left()


# ---- by partition ----

HELD = {"ttl_ms": MINUTE_MS}
PATIENT = {"timeout_ms": FOREVER, "queue_ttl_ms": MINUTE_MS}
SHORT_MS = 600
LOW, MIDDLE, HIGH = "{b}", "{c}", "{a}"   # the lock's name begins with it; their partitions: 25, 57, 121


def actor(world, kind, cluster, **options):
    return world.actor(kind, world.client(events=True, url=cluster.url(), **options))


def names_of(*tags):
    return [f"{tag}{i}" for i, tag in enumerate(tags)]


def n_asked(cluster):
    """How many calls acquired or released something: each of their scripts looks once whether keys exist. Scripts of logins
    and renewals do not; a busy machine has some of these at any time."""
    return sum(master.n_calls().get("exists", 0) for master in cluster.masters())


@scenario(counts=[1])
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


@once
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


@scenario(counts=[1])
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


@scenario(counts=[1])
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


@scenario(counts=[1])
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


@scenario(counts=[1])
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
