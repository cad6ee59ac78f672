#!/usr/bin/env python3
"""What a holder believes: whatever ends earlier than it thought, it hears of in time."""
import sys

from harness import FOREVER, check_equal, main, scenario, wait_until

LONG_MS = 60000


def await_time(world, seconds):
    end_us = world.server.now_us() + seconds * 1000000
    wait_until(lambda: world.server.now_us() > end_us, "time passes")


def handed_over(world, kind, names):
    """An actor, and its hold of what another has just released to it."""
    held = world.actor("thread").acquire(*names, ttl_ms=LONG_MS)
    actor = world.actor(kind)
    asking = actor.ask(*names, timeout_ms=FOREVER, ttl_ms=LONG_MS)
    world.await_queue(names, 1)
    world.await_listeners(1)
    held.release().check()
    return actor, asking.hold()


@scenario(kinds=["thread"])
def an_extension_of_what_was_shortened_tells_the_end_in_time(world, kind, names):
    held = world.actor(kind).acquire(*names, ttl_ms=LONG_MS)
    await_time(world, 0.5)  # whoever looks after leases looks once more soon after each new one
    for name in names:
        world.ask("PEXPIRE", f"rql:lock:{name}", 2000)
    held.extend(500).check()
    wait_until(held.is_lost, "the loss is told")
    check_equal(held.state(), "GONE")
    held.release().check("OK", "NOT_HELD")  # the server's end comes after the holder's
    check_equal(world.keys_left(), [])


@scenario(kinds=["thread"], counts=[1])
def a_reentry_that_finds_the_grant_ended_tells_who_shares_it(world, kind, names):
    actor = world.actor(kind)
    held = actor.acquire(*names, ttl_ms=LONG_MS)
    longer = actor.acquire(*names, conflict_strategy="extendable_work_through", ttl_ms=LONG_MS)
    world.ask("DEL", *[f"rql:lock:{name}" for name in names])
    check_equal(longer.release().status, "NOT_HELD")
    check_equal(held.state(), "GONE")
    wait_until(held.is_lost, "the loss is told")
    check_equal(held.release().status, "NOT_HELD")
    check_equal(world.keys_left(), [])


@scenario(kinds=["thread"], counts=[1])
def what_was_handed_over_counts_as_held_when_it_is_forgotten(world, kind, names):
    """Who waits for a lock while it holds another is marked: others may have to wait for it."""
    holder = world.actor("thread").acquire("more", ttl_ms=LONG_MS)
    actor, held = handed_over(world, kind, names)
    held.forget().check()
    await_time(world, 1.1)  # a grant that nobody claims is over
    asking = actor.ask("more", timeout_ms=FOREVER)
    world.await_queue(["more"], 1)
    check_equal(world.ask("HGET", "rql:req:more", "holders"), "1")
    holder.release().check()
    asking.hold().release().check()
    world.ask("DEL", f"rql:lock:{names[0]}")
    world.await_nothing_left()


@scenario(kinds=["thread", "process"], counts=[1], is_timed=True)
def what_was_handed_over_is_claimed_though_it_was_forgotten_without_a_right(world, kind, names):
    _, held = handed_over(world, kind, names)
    world.ask("ACL", "SETUSER", "default", "-evalsha", "-eval")
    held.forget().check()
    world.ask("ACL", "SETUSER", "default", "+@all")
    wait_until(lambda: world.ask("PTTL", f"rql:lock:{names[0]}") > LONG_MS / 2, "it has its whole ttl")
    world.ask("DEL", f"rql:lock:{names[0]}")
    world.await_nothing_left()


if __name__ == "__main__":
    sys.exit(main())
