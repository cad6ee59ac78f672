#!/usr/bin/env python3
"""A holder that is notified when others wait: on_wanted."""

from harness import FOREVER, MINUTE_MS, check, check_equal, main, scenario, wait_until

TTL_MS = 1200  # it is renewed three times in this time
HEARS = {"hears_wanted": True}


def told(held):
    """How many waited, each time that it was told."""
    return [words["waiters"] for words in held.actor.remote.told if words.get("wanted") == held.name]


def renewals(actor):
    return actor.client.stats().renewals


@scenario(counts=[1], is_timed=True)
def a_holder_is_told_once_when_others_begin_to_wait(world, kind, names):
    """And again when nobody has waited in between. Beside readers, too."""
    for share in ({}, {"share_units": 1}):
        actor = world.actor(kind)
        beside = world.actor("thread").acquire(*names, **share, ttl_ms=MINUTE_MS) if share else None
        held = actor.ask(*names, **share, ttl_ms=TTL_MS, auto_extend=True, also=HEARS).hold()
        before = renewals(actor)
        wait_until(lambda: renewals(actor) > before, "it is renewed")
        check_equal(told(held), [])
        for count in (1, 2):
            asked = [world.actor("thread").ask(*names, timeout_ms=2 * TTL_MS) for _ in range(2)]
            world.await_queue(names, 2)
            wait_until(lambda count=count: len(told(held)) == count, "it is told", TTL_MS / 1000)
            before = renewals(actor)
            wait_until(lambda before=before: renewals(actor) > before, "it is renewed once more")
            check_equal(len(told(held)), count)
            for asking in asked:
                check_equal(asking.outcome().status, "TIMED_OUT")
            world.await_queue(names, 0)
            before = renewals(actor)
            wait_until(lambda before=before: renewals(actor) > before + 1, "a renewal finds nobody")
        check(all(n > 0 for n in told(held)), "nobody waited")
        held.release().check()
        if beside:
            beside.release().check()
    world.await_nothing_left()


@scenario(counts=[1], is_timed=True)
def a_holder_makes_way(world, kind, names):
    """It releases the lock in the callback."""
    held = world.actor(kind).ask(*names, ttl_ms=TTL_MS, auto_extend=True, also={"makes_way": True}).hold()
    asking = world.actor(kind).ask(*names, timeout_ms=FOREVER)
    mine = asking.hold()
    check_equal(told(held), [1])
    check_equal(held.losses(), [])
    mine.release().check()
    world.await_nothing_left()


@scenario(counts=[1])
def a_lock_that_is_not_renewed_has_no_such_callback(world, kind, names):
    asking = world.actor(kind).ask(*names, auto_extend=False, ttl_ms=MINUTE_MS, also=HEARS)
    check_equal(asking.outcome().status, "E_INVALID")


if __name__ == "__main__":
    main()
