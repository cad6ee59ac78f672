#!/usr/bin/env python3
"""One lock after the other, as the gem's lock_series, but without its leaks."""

from harness import FOREVER, check, check_equal, main, scenario

KINDS = ["thread", "loop"]
LONG_MS = 20000
TTL_MAX_MS = 30 * 24 * 3600 * 1000
ACQUIRED, UNTRIED, REFUSED = 1, 0, 2     # what became of a lock: rql_series_fate
BY_TTL, BY_RELEASE = 1, 2                # rql_series_ending
GEM = {"mode": "gem"}
MINE = {"task": 7}


@scenario(kinds=KINDS, counts=[3])
def the_ttl_grows_with_the_locks_that_follow(world, kind, names):
    """By a ttl and the pauses of a wait for each; one name is a series too."""
    actor = world.actor(kind)
    for count, ttl_ms, delay_ms, jitter_ms, expected in ((3, 2000, 200, 25, [6675, 4450, 2225]),
                                                         (2, 2000, 100, 7, [4214, 2107])):
        held = actor.acquire(*names[:count], ttl_ms=ttl_ms, retry_count=3, retry_delay_ms=delay_ms,
                             retry_jitter_ms=jitter_ms, **GEM)
        check_equal([int(world.ask("HGET", f"rql:lock:{name}", "ini_ttl")) for name in names[:count]], expected)
        held.release().check()
    check_equal(world.keys_left(), [])


@scenario(kinds=KINDS, counts=[3])
def locks_are_taken_in_the_given_order(world, kind, names):
    held = world.actor(kind).acquire(*reversed(names), ttl_ms=LONG_MS, **GEM)
    check_equal(held.tokens, sorted(held.tokens), "tokens")
    result = held.outcome.result
    check_equal((result["n_acquired"], result["failed_on"], result["ending"]), (3, 3, BY_TTL))
    check_equal(held.release().check().result["ending"], BY_RELEASE)
    check_equal(world.keys_left(), [])


@scenario(kinds=KINDS, counts=[3])
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


@scenario(kinds=KINDS, counts=[3])
def what_is_given_back_goes_to_the_next_waiter(world, kind, names):
    held = world.held_by_another(names[1])
    series = world.actor(kind).ask(*names, timeout_ms=2000, **GEM)
    world.await_queue(names[1:2], 1)
    asking = world.actor(kind).ask(names[0], timeout_ms=FOREVER, retry_delay_ms=60000)
    series.outcome().check("TIMED_OUT", "E_UNKNOWN")
    asking.hold().release().check()
    held.release().check()
    world.await_nothing_left()


@scenario(kinds=KINDS, counts=[1])
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


@scenario(kinds=KINDS, counts=[3])
def a_ttl_that_grows_too_long_is_refused(world, kind, names):
    actor = world.actor(kind)
    actor.refused(*names, ttl_ms=TTL_MAX_MS // 3, **GEM).check("E_INVALID")
    check(not world.keys_left(), "something was sent")


if __name__ == "__main__":
    main()
