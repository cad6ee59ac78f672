#!/usr/bin/env python3
"""A fleet of all kinds on the same locks: threads, loops, processes, programs, and the gem."""

import others
from harness import FOREVER, KINDS, check, check_equal, check_served_in_order, main, scenario, wait_until

EVERYBODY = [*KINDS, *others.KINDS]
TAKES_SEVERAL = [kind for kind in EVERYBODY if kind != "ruby"]
CAN_BE_KILLED = ["process", *others.KINDS]
LONG_MS = 60000
SHORT_MS = 500


def place_of(world, names, acq_id):
    return world.ask("ZRANK", f"rql:lock_queue:{names[0]}", acq_id)


def one_of_each(world, names, kinds):
    """They wait in this order."""
    asked = []
    for count, kind in enumerate(kinds, 1):
        asked.append(world.actor(kind).ask(*names, timeout_ms=FOREVER, ttl_ms=LONG_MS))
        world.await_queue(names, count)
    return asked


@scenario(kinds=EVERYBODY, counts=[1], is_timed=True)
def all_kinds_wait_in_one_queue(world, kind, names):
    """Behind one of this kind, and one of it at the end."""
    held = world.actor(kind).acquire(*names, ttl_ms=LONG_MS)
    check_served_in_order(one_of_each(world, names, [*EVERYBODY, kind]), held)
    check_equal(world.queue_length(names[0]), 0)
    check_equal(world.holder(names[0]), None)


@scenario(kinds=TAKES_SEVERAL, counts=[3])
def all_kinds_wait_for_several_locks(world, kind, names):
    held = world.actor(kind).acquire(*names, ttl_ms=LONG_MS)
    check_served_in_order(one_of_each(world, names, TAKES_SEVERAL), held)
    world.await_nothing_left()


@scenario(kinds=CAN_BE_KILLED, counts=[1])
def a_waiter_that_dies_is_passed_by_all_kinds(world, kind, names):
    held = world.actor("thread").acquire(*names, ttl_ms=LONG_MS)
    dead = world.actor(kind)
    dead.ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    others_asked = []
    for count, other in enumerate(TAKES_SEVERAL, 2):
        others_asked.append(world.actor(other).ask(*names, timeout_ms=FOREVER, ttl_ms=LONG_MS))
        world.await_queue(names, count)
    world.kill(dead)
    check_served_in_order(others_asked, held)
    world.await_nothing_left()


@scenario(kinds=CAN_BE_KILLED, counts=[1])
def what_the_dead_held_goes_to_the_next_of_any_kind(world, kind, names):
    for other in EVERYBODY:
        dead = world.actor(kind)
        dead.acquire(*names, ttl_ms=SHORT_MS)
        world.kill(dead)
        asking = world.actor(other).ask(*names, timeout_ms=FOREVER, ttl_ms=LONG_MS)
        asking.hold().release().check()
    # The guard of a killed program releases. A release that serves a Ruby leaves a note of it until the next grant.
    world.actor("thread").acquire(*names).release().check()
    world.await_nothing_left()


@scenario(kinds=EVERYBODY, counts=[1], is_timed=True)
def whoever_gives_up_leaves_the_queue_to_the_others(world, kind, names):
    held = world.actor("thread").acquire(*names, ttl_ms=LONG_MS)
    asked = one_of_each(world, names, TAKES_SEVERAL)
    check_equal(world.actor(kind).refused(*names, timeout_ms=300).status, "TIMED_OUT")
    world.await_queue(names, len(asked))
    check_served_in_order(asked, held)
    world.await_nothing_left()


@scenario(kinds=EVERYBODY, counts=[1])
def a_lock_reads_alike_whoever_holds_it(world, kind, names):
    """The fields of the gem, as the gem writes them."""
    held = world.actor(kind).acquire(*names, ttl_ms=LONG_MS)
    words = world.ask("HGETALL", f"rql:lock:{names[0]}")
    fields = dict(zip(words[::2], words[1::2]))
    check_equal(fields["acq_id"], held.outcome.acq_id)
    check_equal(int(fields["ini_ttl"]), LONG_MS)
    check(fields["hst_id"].startswith("rql:hst:"), fields["hst_id"])
    check(1 <= len(fields["ts"].split(".")[1]) <= 6, f"{fields['ts']}: no microseconds")
    check(abs(float(fields["ts"]) * 1000000 - world.server.now_us()) < 60000000, "it is of now")
    held.release().check()
    wait_until(lambda: not world.holder(names[0]), "it is free")


if __name__ == "__main__":
    main()
