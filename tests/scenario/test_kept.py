#!/usr/bin/env python3
"""A lock that is released before its time: hold_at_least_ms."""

from harness import FOREVER, MINUTE_MS, Network, check, check_equal, main, once, scenario, wait_until

KEPT = "rql:acq:kept/0/0/0/" + "0" * 32
BRIEF_MS = 1500
POLL_MS = 1700  # of a waiter that no push notifies
SLACK_MS = 300


def inspect(world, name):
    return world.actor("thread").begin("inspect", of="lock", name=name).outcome().check().found


def owner(world, name):
    return world.ask("HGET", f"rql:lock:{name}", "acq_id")


def check_kept(world, name, at_most_ms):
    check_equal(owner(world, name), KEPT)
    left_ms = world.ask("PTTL", f"rql:lock:{name}")
    check(0 < left_ms <= at_most_ms, f"it is kept for {left_ms} ms")


@scenario(counts=[1])
def a_lock_that_is_released_early_is_kept(world, kind, names):
    actor, (name,) = world.actor(kind), names
    held = actor.acquire(name, hold_at_least_ms=MINUTE_MS, meta={"a": "b"})
    check_equal(inspect(world, name)["is_kept"], False)
    held.release().check()
    check_kept(world, name, MINUTE_MS)
    info = inspect(world, name)
    check_equal((info["is_kept"], info["token"], info["status"]), (True, held.tokens[0], 0))
    check_equal(actor.refused(name, fail_fast=True).status, "FAIL_FAST_NO_TRY")
    check_equal(world.keys_left(), [f"rql:lock:{name}"])


@scenario(counts=[1])
def a_lock_that_is_released_late_is_free(world, kind, names):
    held = world.actor(kind).acquire(*names, hold_at_least_ms=20)
    end_us = world.server.now_us() + 20000
    wait_until(lambda: world.server.now_us() > end_us, "its time is over")
    held.release().check()
    world.await_nothing_left()


@scenario(counts=[1], is_timed=True)
def the_next_has_it_when_the_time_is_over(world, kind, names):
    """A waiter of the same client, which is handed nothing before."""
    actor = world.actor(kind)
    held = actor.acquire(*names, hold_at_least_ms=BRIEF_MS)
    asking = world.actor(kind, actor.client).ask(*names, timeout_ms=FOREVER, task=5)
    world.await_queue(names, 1)
    held.release().check()
    check_kept(world, names[0], BRIEF_MS)
    next_hold = asking.hold()
    waited_ms = (next_hold.outcome.ts_us - held.outcome.ts_us) / 1000
    check(BRIEF_MS <= waited_ms <= BRIEF_MS + POLL_MS + SLACK_MS, f"after {waited_ms} ms")
    check(next_hold.tokens[0] > held.tokens[0], "its token is no larger")
    next_hold.release().check()


@scenario(counts=[1])
def a_lock_that_was_lost_is_left_to_its_holder(world, kind, names):
    """Another holds it, or keeps it."""
    actor, other = world.actor(kind), world.actor("thread")
    for is_kept in False, True:
        held = actor.acquire(*names, hold_at_least_ms=MINUTE_MS)
        world.ask("DEL", f"rql:lock:{names[0]}")
        theirs = other.acquire(*names, hold_at_least_ms=MINUTE_MS)
        if is_kept:
            theirs.release().check()
        before = world.ask("HGETALL", f"rql:lock:{names[0]}")
        held.release().check("NOT_HELD")
        check_equal(world.ask("HGETALL", f"rql:lock:{names[0]}"), before)
        if is_kept:
            world.ask("DEL", f"rql:lock:{names[0]}")
        else:
            theirs.extend(MINUTE_MS).check()
            world.ask("DEL", f"rql:lock:{names[0]}")
            theirs.release().check("NOT_HELD")


@scenario(counts=[1])
def a_reply_that_is_lost_changes_nothing(world, kind, names):
    network = Network(world)
    actor = world.actor(kind, network.client())
    actor.settle("warm")
    held = actor.acquire(*names, hold_at_least_ms=MINUTE_MS)
    network.fail("cut_reply", n=1)
    held.release().check()
    check_kept(world, names[0], MINUTE_MS)


@scenario(counts=[1])
def a_release_without_a_server_leaves_the_lock_to_its_ttl(world, kind, names):
    """It is not withdrawn later, because it would be free then."""
    network = Network(world)
    actor = world.actor(kind, network.client(connect_timeout_ms=200, io_timeout_ms=200))
    held = actor.acquire(*names, ttl_ms=MINUTE_MS, hold_at_least_ms=MINUTE_MS)
    mine = owner(world, names[0])
    network.fail("freeze")
    network.fail("refuse")
    network.fail("cut")
    held.release().check("E_UNKNOWN", "E_IO")
    network.heal()
    world.actor(kind, actor.client).acquire("another").release().check()
    check(owner(world, names[0]) in (mine, KEPT), "it is free")


@scenario(counts=[1])
def the_end_of_a_re_entry_keeps_nothing(world, kind, names):
    actor = world.actor(kind)
    held = actor.acquire(*names, hold_at_least_ms=MINUTE_MS, task=7)
    for conflict in "work_through", "extendable_work_through":
        again = actor.acquire(*names, hold_at_least_ms=2 * MINUTE_MS, task=7, conflict_strategy=conflict)
        again.release().check()
        check_equal((owner(world, names[0]) == KEPT, held.state()), (False, "HELD"))
    held.release().check()
    check_kept(world, names[0], MINUTE_MS)


@once
def a_lazy_release_keeps_it_as_well(world, kind, names):
    actor = world.actor(kind, world.client(events=True))
    held = actor.acquire(*names, hold_at_least_ms=MINUTE_MS, lazy_release=True)
    held.release().check()
    check_kept(world, names[0], MINUTE_MS)
    world.free(actor.client)
    check_equal(actor.remote.events("lock_lost"), [])


@once
def an_operator_may_free_it(world, kind, names):
    actor = world.actor(kind)
    for free in ("force_unlock", "sweep"):
        actor.acquire(*names, hold_at_least_ms=MINUTE_MS).release().check()
        actor.begin(free, **({"name": names[0]} if free == "force_unlock" else {"of": "all"})).outcome().check()
        world.await_nothing_left()


@scenario(counts=[3])
def a_series_is_not_kept(world, kind, names):
    check_equal(world.actor(kind).refused(*names, hold_at_least_ms=1).status, "E_INVALID")
    world.await_nothing_left()


if __name__ == "__main__":
    main()
