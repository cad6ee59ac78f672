#!/usr/bin/env python3
"""The trace that a lock is held in, which its waiters can read: rql_lock_options::traceparent."""

from chain import Chain
from harness import FOREVER, MINUTE_MS, check, check_equal, main, scenario

MINE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
THEIRS = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"


def holders_of(world, name):
    found = world.actor("thread").begin("inspect", of="holders", name=name).outcome().found["holders"]
    return [dict(holder["meta"]) for holder in found]


@scenario()
def a_lock_has_the_traceparent_of_its_holder(world, kind, names):
    """Behind the metadata of the caller, also of one that waited."""
    actor, beside = world.actor(kind), world.actor(kind)
    held = actor.acquire(*names, ttl_ms=MINUTE_MS, traceparent=MINE)
    check_equal([holders_of(world, name) for name in names], [[{"traceparent": MINE}]] * len(names))
    asking = beside.ask(*names, ttl_ms=MINUTE_MS, timeout_ms=FOREVER, traceparent=THEIRS, meta={"job": "42"})
    world.await_queue(names, 1)
    held.release().check()
    mine = asking.hold()
    check_equal([holders_of(world, name) for name in names], [[{"job": "42", "traceparent": THEIRS}]] * len(names))
    mine.release().check()
    world.await_nothing_left()


@scenario(counts=[1])
def a_lock_that_is_handed_on_inside_the_client_has_that_of_its_new_holder(world, kind, names):
    chain = Chain(world, kind)
    released, mine = chain.hand_on(names[0], first={"traceparent": MINE}, traceparent=THEIRS)
    released.outcome().check()
    check_equal(holders_of(world, names[0]), [{"traceparent": THEIRS}])
    mine.release().check()
    world.await_nothing_left()


@scenario(counts=[1])
def it_is_one_pair_more_than_there_may_be(world, kind, names):
    """With on_wanted, too, whose pair is no metadata."""
    meta = {f"name {i}": str(i) for i in range(64)}
    for share in ({}, {"share_units": 1}):
        held = world.actor(kind).ask(*names, ttl_ms=MINUTE_MS, auto_extend=True, also={"hears_wanted": True}, meta=meta,
                                     traceparent=MINE, **share).hold()
        check_equal(holders_of(world, names[0]), [{**meta, "traceparent": MINE}])
        held.release().check()
    world.await_nothing_left()


@scenario()
def a_bad_one_is_refused_before_anything_is_sent(world, kind, names):
    actor = world.actor(kind)
    for bad in ("", MINE + "0", MINE.upper(), MINE.replace("00-", "01-", 1), MINE.replace("0af", "xyz")):
        outcome = actor.ask(*names, traceparent=bad).outcome().check("E_INVALID")
        check("traceparent is malformed" in outcome.error, outcome.error)
    outcome = actor.ask(*names, traceparent=MINE, meta={"traceparent": THEIRS}).outcome().check("E_INVALID")
    check("meta[0]: name is that of the option traceparent" in outcome.error, outcome.error)
    check_equal(world.ask("DBSIZE"), 0)


if __name__ == "__main__":
    main()
