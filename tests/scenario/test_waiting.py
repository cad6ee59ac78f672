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


def serve_all(asked):
    """Each is released when it has the locks; the holds in the order of their tokens."""
    holds, left = [], list(asked)
    while left:
        wait_until(lambda: any(asking.is_over() for asking in left), "somebody has it")
        for asking in [one for one in left if one.is_over()]:
            left.remove(asking)
            holds.append(asking.hold())
            holds[-1].release().check()
    return sorted(holds, key=lambda hold: hold.tokens)


@scenario()
def whoever_comes_at_once_is_served_as_the_queue_says(world, kind, names):
    held = holder_of(world, names)
    clients = [world.client(world.remote() if kind == "process" else None) for _ in range(2)]
    waiters = [world.actor("thread" if kind == "process" else kind, clients[i % 2]) for i in range(16)]
    asked = [waiter.ask(*names, timeout_ms=FOREVER) for waiter in waiters]
    world.await_queue(names, 16)
    world.await_listeners(2)
    order = world.ask("ZRANGE", f"rql:lock_queue:{names[0]}", 0, -1)
    held.release().check()
    holds = serve_all(asked)
    check(len(names) > 1 or all(hold.outcome.handed_over for hold in holds), "somebody found it by a poll")
    check(len(names) > 1 or [hold.outcome.acq_id for hold in holds] == order, "another order")
    world.await_nothing_left()


@scenario(is_timed=True)
def a_deadline_ends_the_wait_and_the_request(world, kind, names):
    held = holder_of(world, names)
    for timeout_ms in (100, 0):
        outcome = world.actor(kind, retry_delay_ms=LONG_MS).refused(*names, timeout_ms=timeout_ms)
        check_equal(outcome.status, "TIMED_OUT")
        check(outcome.refusal["waited_us"] >= timeout_ms * 1000, "it ended too early")
        check(outcome.took_us < 2000000, "it went on waiting")
        for name in names:
            check_equal(world.queue_length(name), 0)
    held.release().check()


@scenario(is_timed=True)
def tries_are_used_up(world, kind, names):
    held = holder_of(world, names)
    for n_tries in (1, 3):
        waiter = world.actor(kind, retry_count=n_tries, retry_delay_ms=100, retry_jitter_ms=0)
        outcome = waiter.refused(*names)
        check_equal((outcome.status, outcome.refusal["tries"]), ("RETRY_LIMIT", n_tries))
        waited_us = outcome.refusal["waited_us"]
        check((n_tries - 1) * 100000 - 1000 <= waited_us < n_tries * 100000, f"waited for {waited_us} us")
        check_equal(outcome.refusal["position"], 1)
        check_equal(world.queue_length(names[0]), 0)
    held.release().check()


@scenario(counts=[1])
def jitter_lengthens_the_delay(world, kind, names):
    held = holder_of(world, names)
    waiter = world.actor(kind, retry_count=2, retry_delay_ms=1, retry_jitter_ms=60)
    waited_us = sum(waiter.refused(*names).refusal["waited_us"] for _ in range(20))
    check(waited_us > 20 * 10000, f"{waited_us} us for twenty; 30 ms each are expected")
    held.release().check()


@scenario(is_timed=True)
def tries_are_counted_while_it_waits(world, kind, names):
    """By timer, also where a hand-over ends the wait."""
    held = holder_of(world, names)
    asking = world.actor(kind, retry_delay_ms=50, retry_jitter_ms=0).ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    end_us = world.server.now_us() + 500000
    wait_until(lambda: world.server.now_us() > end_us, "ten delays pass")
    held.release().check()
    mine = asking.hold()
    check(5 <= mine.outcome.tries <= 13, f"{mine.outcome.tries} tries")
    mine.release().check()


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


@scenario()
def a_random_request_takes_free_locks_past_the_queue(world, kind, names):
    other = "rql:acq:1/2/3/4/0123456789abcdef"
    for name in names:
        world.ask("ZADD", f"rql:lock_queue:{name}", world.server.now_us() // 1000000, other)
    actor = world.actor(kind)
    check_equal(actor.refused(*names, fail_fast=True).status, "FAIL_FAST_AFTER_TRY")
    held = actor.acquire(*names, fail_fast=True, access_strategy="random")
    check_equal([world.ask("ZRANGE", f"rql:lock_queue:{name}", 0, -1) for name in names], [[other]] * len(names))
    held.release().check()


@scenario(kinds=["thread", "loop"], counts=[1])
def a_random_request_may_overtake_at_a_hand_over(world, kind, names):
    """The head has at least half of the chances, a random request behind it some: 20 of 80 are expected."""
    head, behind = world.actor(kind), world.actor(kind)
    overtaken = 0
    for _ in range(80):
        held = holder_of(world, names)
        asked = []
        for count, (actor, access) in enumerate(((head, "queued"), (behind, "random")), 1):
            asked.append(actor.ask(*names, timeout_ms=FOREVER, access_strategy=access))
            world.await_queue(names, count)
        held.release().check()
        overtaken += serve_all(asked)[0].actor is behind
    check(1 <= overtaken <= 40, f"{overtaken} of 80")


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
