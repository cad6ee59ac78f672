#!/usr/bin/env python3
"""A request that stands ahead of others, and one that finds too many there: head_start_ms, max_waiters."""

from harness import FOREVER, MINUTE_MS, check, check_equal, main, scenario, wait_until

SILENCE_S = 5  # after which a client counts as dead


@scenario(counts=[1])
def who_has_a_head_start_is_served_before_those_who_came_first(world, kind, names):
    holder, first, second, ahead = (world.actor(kind) for _ in range(4))
    held = holder.acquire(*names)
    asked = []
    for count, actor in enumerate((first, second), 1):
        asked.append(actor.ask(*names, timeout_ms=FOREVER))
        world.await_queue(names, count)
    urgent = ahead.ask(*names, timeout_ms=FOREVER, head_start_ms=MINUTE_MS)
    world.await_queue(names, 3)
    held.release().check()
    mine = urgent.hold()
    check(not any(asking.is_over() for asking in asked), "one behind it was served")
    mine.release().check()
    for asking in asked:
        asking.hold().release().check()
    world.await_nothing_left()


@scenario(counts=[1])
def a_reader_with_a_head_start_comes_in_before_a_writer(world, kind, names):
    holder, writer, reader = (world.actor(kind) for _ in range(3))
    held = holder.acquire(*names, share_units=1)
    writing = writer.ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    mine = reader.acquire(*names, share_units=1, timeout_ms=FOREVER, head_start_ms=MINUTE_MS)
    check(not writing.is_over(), "a writer beside a reader")
    for hold in (mine, held):
        hold.release().check()
    writing.hold().release().check()
    world.await_nothing_left()


@scenario(counts=[1])
def a_full_queue_takes_no_newcomer(world, kind, names):
    """It leaves nothing there, and is told so; those that wait stay."""
    holder, waiter, late = (world.actor(kind) for _ in range(3))
    held = holder.acquire(*names)
    refused = late.refused(*names, timeout_ms=FOREVER, max_waiters=0)
    check_equal((refused.status, "no request may wait for it" in refused.error), ("QUEUE_FULL", True))
    asking = waiter.ask(*names, timeout_ms=FOREVER, max_waiters=1)
    world.await_queue(names, 1)
    for options in ({}, {"share_units": 1}):
        refused = late.refused(*names, timeout_ms=FOREVER, max_waiters=1, **options)
        check_equal((refused.status, "1 or more requests wait for it" in refused.error), ("QUEUE_FULL", True))
    check_equal(late.refused(*names, fail_fast=True, max_waiters=1).status, "FAIL_FAST_NO_TRY")
    check_equal(world.queue_length(names[0]), 1)
    check_equal(late.client.stats().refusals["queue_full"], 3)
    held.release().check()
    asking.hold().release().check()
    late.acquire(*names, max_waiters=0).release().check()
    world.await_nothing_left()


@scenario(counts=[1])
def the_dead_make_room_in_a_full_queue(world, kind, names):
    held = world.actor("thread").acquire(*names, ttl_ms=MINUTE_MS)
    dying = world.actor("process")
    dying.ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    world.kill(dying)
    late = world.actor(kind)
    wait_until(lambda: late.refused(*names, timeout_ms=200, max_waiters=1).status == "TIMED_OUT",
               "it is let in when the killed one counts as dead", 3 * SILENCE_S)
    held.release().check()
    world.await_nothing_left()


@scenario(counts=[3])
def a_series_has_no_such_options(world, kind, names):
    for wrong in ({"max_waiters": 1}, {"head_start_ms": 1}):
        check_equal(world.actor(kind).refused(*names, **wrong).status, "E_INVALID")
    for wrong in ({"max_waiters": -2}, {"head_start_ms": -1}, {"head_start_ms": 60 * MINUTE_MS + 1}):
        check_equal(world.actor(kind).refused(names[0], **wrong).status, "E_INVALID")


if __name__ == "__main__":
    main()
