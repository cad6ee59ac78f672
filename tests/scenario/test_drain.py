#!/usr/bin/env python3
"""A client that is drained: nothing is begun, waiters give up, holders are asked to release."""

import time

from harness import FOREVER, MINUTE_MS, Network, check, check_equal, main, scenario, wait_until

PATIENCE_MS = 20000


def drain(actor, timeout_ms=PATIENCE_MS):
    """By a thread of its client."""
    return actor.world.actor("thread", actor.client).begin("drain", timeout_ms=timeout_ms).outcome()


def told(held):
    return [(words["waiters"], words["within_ms"]) for words in held.actor.remote.told if words.get("wanted") == held.name]


@scenario(is_timed=True)
def waiters_give_up_and_nothing_is_begun(world, kind, names):
    """Several of one client, of which one alone asks the server for all."""
    theirs = world.held_by_another(*names)
    actor = world.actor(kind)
    asked = [one.ask(*names, timeout_ms=FOREVER) for one in
             ([actor] * 3 if kind == "loop" else [actor] + [world.actor(kind, actor.client) for _ in range(2)])]
    world.await_queue(names, 3)
    check_equal(drain(actor).status, "OK")
    for asking in asked:
        check_equal(asking.outcome().status, "CANCELLED")
    world.await_queue(names, 0)
    for options in ({}, {"fail_fast": True}):
        outcome = actor.refused(*names, **options)
        check_equal((outcome.status, "its client is drained" in outcome.error), ("E_UNAVAILABLE", True))
    theirs.release().check()
    world.await_nothing_left()


@scenario(kinds=["thread"], counts=[1], is_timed=True)
def threads_that_wait_for_one_lock_end_together(world, kind, names):
    """One of them reads for all, and has nobody to call while it sleeps."""
    theirs = world.held_by_another(*names)
    actor = world.actor(kind)
    asked = [one.ask(*names, timeout_ms=FOREVER) for one in [actor] + [world.actor(kind, actor.client) for _ in range(29)]]
    world.await_queue(names, 30)
    begun_s = time.monotonic()
    check_equal(drain(actor).status, "OK")
    check_equal({asking.outcome().status for asking in asked}, {"CANCELLED"})
    took_s = time.monotonic() - begun_s
    check(took_s < 4, f"it took {took_s:.1f} s")
    theirs.release().check()
    world.await_nothing_left()


@scenario(kinds=["loop"], counts=[1], is_timed=True)
def waiters_of_a_loop_end_together_though_the_server_is_far(world, kind, names):
    """One after the other, they would take 8 s."""
    theirs = world.held_by_another(*names)
    network = Network(world)
    actor = world.actor(kind, network.client())
    asked = [actor.ask(*names, timeout_ms=FOREVER) for _ in range(40)]
    world.await_queue(names, 40)
    actor.acquire("later").release().check()  # by then all have their answers, and sleep
    network.fail("delay", n=100)
    begun_s = time.monotonic()
    check_equal(drain(actor).status, "OK")
    check_equal({asking.outcome().status for asking in asked}, {"CANCELLED"})
    took_s = time.monotonic() - begun_s
    check(took_s < 4, f"it took {took_s:.1f} s")
    network.heal()
    theirs.release().check()
    world.await_nothing_left()


@scenario(counts=[1])
def what_is_granted_meanwhile_is_given_back(world, kind, names):
    """At once, although it was to be held for a time: nothing was done under it."""
    network = Network(world)
    actor = world.actor(kind, network.client())
    actor.settle("warm")
    network.fail("freeze", direction="down")
    asking = actor.ask(*names, timeout_ms=FOREVER, ttl_ms=MINUTE_MS, hold_at_least_ms=MINUTE_MS)
    wait_until(lambda: world.holder(names[0]), "it was granted")
    drain(actor, timeout_ms=100)
    network.heal()
    asking.outcome().check("E_UNAVAILABLE", "CANCELLED")
    world.await_nothing_left()


@scenario(counts=[1], is_timed=True)
def holders_are_asked_and_waited_for(world, kind, names):
    actor = world.actor(kind)
    held = actor.ask(*names, ttl_ms=MINUTE_MS, auto_extend=True, also={"makes_way": True}).hold()
    check_equal(drain(actor).status, "OK")
    wait_until(lambda: told(held), "it has said so")
    ((waiters, within_ms),) = told(held)
    check_equal(waiters, -1)
    check(0 < within_ms <= PATIENCE_MS, f"within {within_ms} ms")
    check_equal(held.losses(), [])
    world.await_nothing_left()


@scenario(counts=[1], is_timed=True)
def what_is_not_released_in_time_stays_held(world, kind, names):
    """It is renewed. The next call finds it released."""
    actor = world.actor(kind)
    held = actor.ask(*names, ttl_ms=600, auto_extend=True, also={"hears_wanted": True}).hold()
    outcome = drain(actor, timeout_ms=1500)
    check_equal((outcome.status, outcome.error), ("TIMED_OUT", "locks are still held after 1500 ms"))
    check_equal(len(told(held)), 1)
    check_equal((held.state(), held.verify().status), ("HELD", "OK"))
    again = world.actor("thread", actor.client).begin("drain", timeout_ms=-1)
    held.release().check()
    check_equal(again.outcome().status, "OK")
    check_equal(told(held)[1:], [])
    world.await_nothing_left()


@scenario(counts=[1])
def what_is_held_without_renewals_is_counted_too(world, kind, names):
    """There is no background thread yet."""
    actor = world.actor(kind)
    held = actor.ask(*names, ttl_ms=MINUTE_MS, auto_extend=False).hold()
    outcome = drain(actor, timeout_ms=0)
    check_equal((outcome.status, outcome.error), ("TIMED_OUT", "locks are still held after 0 ms"))
    held.release().check()
    check_equal(drain(actor, timeout_ms=0).status, "OK")
    world.await_nothing_left()


@scenario(kinds=["thread"], counts=[1])
def a_client_that_does_nothing_is_drained_at_once(world, kind, names):
    actor = world.actor(kind)
    check_equal(drain(actor, timeout_ms=0).status, "OK")
    check_equal(drain(actor, timeout_ms=-2).status, "E_INVALID")
    check_equal(actor.refused(*names).status, "E_UNAVAILABLE")


if __name__ == "__main__":
    main()
