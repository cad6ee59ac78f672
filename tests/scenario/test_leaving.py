#!/usr/bin/env python3
"""However an acquisition ends, nothing of it stays in the queue."""
import time

from harness import FOREVER, MINUTE_MS, NO_WRITES, Network, check, check_equal, main, once, scenario


def check_left(world, names):
    """Nobody waits, and no record is left."""
    keys = [f"rql:{part}:{name}" for part in ("lock_queue", "req") for name in names]
    check_equal([key for key in keys if world.ask("EXISTS", key)], [])


REFUSALS = (
    ("TIMED_OUT", {"timeout_ms": 150}), ("TIMED_OUT", {"timeout_ms": 0}),
    ("RETRY_LIMIT", {"retry_count": 2, "retry_delay_ms": 20}), ("RETRY_LIMIT", {"retry_count": 0}),
    ("FAIL_FAST_NO_TRY", {"fail_fast": True}), ("FAIL_FAST_NO_TRY", {"tries": True}),
)


@scenario(is_timed=True)
def a_refusal_leaves_the_queue(world, kind, names):
    """It is an outcome, and says of which lock."""
    held = world.held_by_another(*names)
    actor = world.actor(kind)
    for status, options in REFUSALS:
        outcome = actor.refused(*names, **{"timeout_ms": FOREVER, **options})
        check_equal((outcome.status, names[0] in outcome.error), (status, True), options)
        check(outcome.refusal["waited_us"] >= 1000 * options.get("timeout_ms", 0), "it ended too early")
        check_left(world, names)
    held.release().check()


# ---- what somebody else has put under the keys ----

def check_fault(world, actor, names, part):
    """It names the lock, and leaves what is there as it is."""
    key = f"rql:{part}:{names[0]}"
    world.ask("SET", key, "foreign")
    outcome = actor.refused(*names, timeout_ms=FOREVER)
    check_equal(outcome.status, "E_WRONG_TYPE")
    check(names[0] in outcome.error, outcome.error)
    check_equal(world.ask("GET", key), "foreign")
    world.ask("DEL", key)
    check_left(world, names)


@scenario()
def a_foreign_key_is_an_error(world, kind, names):
    """Nothing goes on in the background, which would keep the client for ten minutes."""
    actor = world.actor(kind, io_timeout_ms=600000)
    check_fault(world, actor, names, "lock")
    held = world.held_by_another(*names)
    check_fault(world, actor, names, "lock_queue")
    check_fault(world, actor, names, "req")
    held.release().check()


@scenario()
def a_foreign_queue_is_no_fault_of_a_release(world, kind, names):
    """It has nobody to serve: the lock is free, and that is what the holder is told."""
    held = world.actor(kind).acquire(*names, ttl_ms=MINUTE_MS)
    world.ask("SET", f"rql:lock_queue:{names[0]}", "foreign")
    held.release().check()
    check_equal([world.holder(name) for name in names], [None] * len(names))
    check_equal(world.ask("GET", f"rql:lock_queue:{names[0]}"), "foreign")


@once
def a_foreign_queue_hides_no_end(world, kind, names):
    """Nor of the end of a re-entry that is the end of the lock, nor of what comes too late."""
    lock, queue = f"rql:lock:{names[0]}", f"rql:lock_queue:{names[0]}"
    actor = world.actor(kind)
    held = actor.acquire(*names, ttl_ms=MINUTE_MS)
    inner = actor.acquire(*names, ttl_ms=MINUTE_MS, conflict_strategy="extendable_work_through")
    world.ask("HDEL", lock, "rql_end")
    world.ask("PEXPIRE", lock, MINUTE_MS // 2)  # less than what is taken back
    world.ask("SET", queue, "foreign")
    inner.release().check()
    check_equal(world.ask("EXISTS", lock), 0)
    check_equal(held.extend(MINUTE_MS).status, "NOT_HELD")
    check_equal(held.release().status, "NOT_HELD")
    check_equal(world.ask("GET", queue), "foreign")


# ---- a server that takes no writes for a while ----

@scenario(is_timed=True)
def a_server_that_takes_no_writes_is_tried_until_the_deadline(world, kind, names):
    actor = world.actor(kind)
    actor.acquire(*names).release().check()
    for status, (begin, end) in NO_WRITES.items():
        world.ask(*begin)
        outcome = actor.refused(*names, timeout_ms=300)
        world.ask(*end)
        check_equal(outcome.status, status)
        check(names[0] in outcome.error, outcome.error)
        check(outcome.took_us >= 290000, f"given up after {outcome.took_us} us")
        check_left(world, names)
        actor.acquire(*names).release().check()


# ---- many, and unlucky moments ----

@scenario(kinds=["thread"], counts=[1], is_timed=True)
def threads_that_time_out_at_the_same_moment_all_leave(world, kind, names):
    """The server is so far away that they meet while the first of them leaves, and are more than leave in one call."""
    network = Network(world)
    network.fail("delay", n=20)
    client = network.client()
    held = world.held_by_another(*names)
    crowd = [world.actor(kind, client) for _ in range(80)]
    ends_s = time.monotonic() + 4
    asked = [actor.ask(*names, timeout_ms=int(1000 * (ends_s - time.monotonic()))) for actor in crowd]
    world.await_queue(names, len(crowd))
    check_equal([asking.outcome().status for asking in asked], ["TIMED_OUT"] * len(crowd))
    check_left(world, names)
    held.release().check()
    world.await_nothing_left()


@scenario(is_timed=True)
def a_timeout_that_meets_a_hand_over_leaks_nothing(world, kind, names):
    """It is either taken or given back."""
    actor, other = world.actor(kind), world.actor("thread")
    actor.acquire("warm").release().check()
    for i in range(30):
        held = other.acquire(*names, ttl_ms=MINUTE_MS)
        moment = time.monotonic() + 0.026 + 0.0003 * i
        asking = actor.ask(*names, timeout_ms=30)
        while time.monotonic() < moment:  # closer than a sleep
            pass
        held.release().check()
        if asking.outcome().check("OK", "TIMED_OUT", "E_UNKNOWN").status == "OK":
            asking.hold().release().check()
        world.await_nothing_left()


if __name__ == "__main__":
    main()
