#!/usr/bin/env python3
"""Who waits for a lock, and how the wait ends."""
import sys

from harness import FOREVER, check, check_equal, main, scenario, wait_until

LONG_MS = 60000


def holder_of(world, names, **options):
    """Somebody else who holds them all."""
    return world.actor("thread").acquire(*names, ttl_ms=LONG_MS, **options)


@scenario()
def a_free_lock_is_acquired_and_released(world, kind, names):
    actor = world.actor(kind)
    held = actor.acquire(*names, ttl_ms=LONG_MS)
    for name, token in zip(names, held.tokens):
        check_equal(world.holder(name), held.outcome.acq_id)
        check_equal(world.token(name), token)
    check_equal(held.state(), "HELD")
    held.release().check()
    check_equal(world.keys_left(), [])


@scenario()
def a_waiter_is_handed_the_lock_by_the_release(world, kind, names):
    """Nobody asks for a minute: one lock is pushed, the locks of a series are told of and taken."""
    held = holder_of(world, names)
    waiter = world.actor(kind, retry_delay_ms=LONG_MS)
    asking = waiter.ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    world.await_listeners(1)
    held.release().check()
    mine = asking.hold()
    check(len(names) > 1 or mine.outcome.handed_over, "it was not handed over")
    check(all(mine.tokens[i] > held.tokens[i] for i in range(len(names))), "the tokens do not rise")
    mine.release().check()
    world.await_nothing_left()


@scenario()
def waiters_are_served_in_their_order(world, kind, names):
    held = holder_of(world, names)
    waiters = [world.actor(kind) for _ in range(4)]
    asked = []
    for count, waiter in enumerate(waiters, 1):
        asked.append(waiter.ask(*names, timeout_ms=FOREVER))
        world.await_queue(names, count)
    for i, asking in enumerate(asked):
        held.release().check()
        held = asking.hold()
        check(not any(later.is_over() for later in asked[i + 1:]), "a later one came first")
    held.release().check()
    world.await_nothing_left()


@scenario(is_timed=True)
def a_deadline_ends_the_wait_and_the_request(world, kind, names):
    held = holder_of(world, names)
    outcome = world.actor(kind).refused(*names, timeout_ms=100)
    check_equal(outcome.status, "TIMED_OUT")
    check(outcome.refusal["waited_us"] >= 100000, "it ended too early")
    for name in names:
        check_equal(world.queue_length(name), 0)
    held.release().check()


@scenario(is_timed=True)
def tries_are_used_up(world, kind, names):
    held = holder_of(world, names)
    waiter = world.actor(kind, retry_count=3, retry_delay_ms=10, retry_jitter_ms=0)
    outcome = waiter.refused(*names)
    check_equal((outcome.status, outcome.refusal["tries"]), ("RETRY_LIMIT", 3))
    check_equal(world.queue_length(names[0]), 0)
    held.release().check()


@scenario()
def whoever_only_tries_never_queues(world, kind, names):
    held = holder_of(world, names)
    outcome = world.actor(kind).refused(*names, tries=True)
    check_equal(outcome.status, "FAIL_FAST_NO_TRY")
    check_equal(world.queue_length(names[0]), 0)
    held.release().check()


@scenario()
def one_that_is_held_keeps_all_of_a_series(world, kind, names):
    held = holder_of(world, names[-1:])
    asking = world.actor(kind).ask(*names, timeout_ms=FOREVER)
    world.await_queue(names[-1:], 1)
    check_equal([world.holder(name) for name in names[:-1]], [None] * (len(names) - 1))
    held.release().check()
    asking.hold().release().check()
    world.await_nothing_left()


@scenario(kinds=["loop"])
def a_cancelled_request_leaves_the_queue(world, kind, names):
    held = holder_of(world, names)
    asking = world.actor(kind).ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    asking.cancel().check()
    check_equal(asking.outcome().status, "CANCELLED")
    world.await_queue(names, 0)
    held.release().check()
    world.await_nothing_left()


@scenario(is_timed=True)
def an_expired_lock_goes_to_the_next(world, kind, names):
    waiter = world.actor(kind)
    world.actor("thread").acquire(*names, ttl_ms=300).forget().check()
    held = waiter.acquire(*names, timeout_ms=FOREVER)
    check(held.outcome.waited_us >= 100000, "it did not wait for the end of the ttl")
    held.release().check()
    world.await_nothing_left()


@scenario()
def who_asks_at_random_and_who_queues_both_get_it(world, kind, names):
    held = holder_of(world, names)
    first = world.actor("thread").ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    random = world.actor(kind).ask(*names, timeout_ms=FOREVER, access_strategy="random")
    held.release().check()
    wait_until(lambda: first.is_over() or random.is_over(), "one has it")
    for asking in (first, random) if first.is_over() else (random, first):
        asking.hold().release().check()
    world.await_nothing_left()


@scenario(kinds=["process"])
def a_waiter_that_is_killed_is_passed_over(world, kind, names):
    held = holder_of(world, names)
    dead = world.actor(kind)
    dead.ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    living = world.actor("thread").ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 2)
    world.kill(dead)
    held.release().check()
    living.hold().release().check()
    wait_until(lambda: not world.queue_length(names[0]), "the queue is empty")


if __name__ == "__main__":
    sys.exit(main())
