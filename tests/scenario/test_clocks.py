#!/usr/bin/env python3
"""Clocks that are wrong or set, of servers and clients, and machines that were suspended."""
import sys

from harness import FOREVER, check, check_equal, main, scenario, wait_until

LONG_MS = 60000
HOUR_US = 3600 * 1000000
KINDS = ["thread", "loop"]


def actor_with_clock(world, kind, suspends=False, **options):
    remote, clock = world.remote_with_clock(suspends)
    return world.actor(kind, world.client(remote, **options)), clock


@scenario(kinds=KINDS)
def a_machine_that_was_suspended_knows_that_its_leases_are_over(world, kind, names):
    actor, clock = actor_with_clock(world, kind, suspends=True)
    held = actor.acquire(*names, ttl_ms=LONG_MS)
    check_equal(held.state(), "HELD")
    clock.set_ahead(2 * LONG_MS * 1000)
    check_equal(held.state(), "GONE")
    world.server.set_ahead(2 * LONG_MS * 1000)
    other = world.actor("thread").acquire(*names, ttl_ms=LONG_MS)
    check_equal(held.release().status, "NOT_HELD")
    check(other.tokens[0] > held.tokens[0], "tokens fall")
    other.release().check()
    world.server.set_ahead(0)


@scenario(kinds=KINDS)
def a_suspend_within_the_ttl_changes_nothing(world, kind, names):
    actor, clock = actor_with_clock(world, kind, suspends=True)
    held = actor.acquire(*names, ttl_ms=10 * LONG_MS)
    clock.set_ahead(LONG_MS * 1000)
    world.server.set_ahead(LONG_MS * 1000)
    check_equal(held.state(), "HELD")
    held.release().check()
    world.server.set_ahead(0)
    world.await_nothing_left()


@scenario(kinds=KINDS)
def a_waiter_that_was_suspended_beyond_its_deadline_gives_up(world, kind, names):
    held = world.actor("thread").acquire(*names, ttl_ms=10 * LONG_MS)
    actor, clock = actor_with_clock(world, kind, suspends=True, retry_delay_ms=100)
    asking = actor.ask(*names, timeout_ms=LONG_MS)
    world.await_queue(names, 1)
    clock.set_ahead(2 * LONG_MS * 1000)
    check_equal(asking.outcome().status, "TIMED_OUT")
    world.await_queue(names, 0)
    held.release().check()
    world.await_nothing_left()


@scenario(kinds=KINDS, is_timed=True)
def a_wrong_wall_clock_changes_nothing(world, kind, names):
    """An hour ahead and an hour behind: order, tokens and renewals are of the server's time."""
    held = world.actor("thread").acquire(*names, ttl_ms=LONG_MS)
    asked = []
    for count, ahead_us in enumerate((HOUR_US, -HOUR_US, 0), 1):
        actor, clock = actor_with_clock(world, kind)
        clock.set_ahead(ahead_us)
        asked.append(actor.ask(*names, timeout_ms=FOREVER, ttl_ms=400, auto_extend=True))
        world.await_queue(names, count)
    for i, asking in enumerate(asked):
        token = held.tokens[0]
        held.release().check()
        held = asking.hold()
        check(held.tokens[0] > token, "tokens fall")
        check(not any(later.is_over() for later in asked[i + 1:]), "a later one came first")
        end_us = world.server.now_us() + 600000
        wait_until(lambda: world.server.now_us() > end_us, "its ttl passes")
        check_equal(held.state(), "HELD")
    held.release().check()
    world.await_nothing_left()


@scenario(kinds=KINDS)
def a_servers_clock_set_forward_makes_holders_ask(world, kind, names):
    """The lock has ended there; its holder would rely on it for a minute. Any answer tells."""
    for others in (["y"], ["y", "z"]):
        actor = world.actor(kind)
        held = actor.acquire(*names, ttl_ms=LONG_MS)
        world.server.set_ahead(world.server.ahead_us + HOUR_US)
        check_equal(world.holder(names[0]), None)
        actor.acquire(*others).release().check()
        check(held.state() != "HELD", "it goes on as if nothing had happened")
        wait_until(lambda held=held: held.state() == "GONE", "it has asked")
        check_equal(held.release().status, "NOT_HELD")
    world.server.set_ahead(0)


@scenario(kinds=KINDS)
def a_servers_clock_set_back_leaves_locks_to_their_holders(world, kind, names):
    """They live for longer there now: who asks is reassured."""
    actor = world.actor(kind)
    held = actor.acquire(*names, ttl_ms=LONG_MS)
    world.server.set_ahead(-HOUR_US)
    actor.acquire("y").release().check()
    wait_until(lambda: held.state() == "HELD" and held.remaining_ms() > HOUR_US / 1000, "it has asked")
    held.release().check()
    world.server.set_ahead(0)
    world.await_nothing_left()


if __name__ == "__main__":
    sys.exit(main())
