#!/usr/bin/env python3
"""A fleet of all kinds on the same locks: threads, loops and the gem."""
import others  # noqa: F401  the gem is one of the actors
from harness import FOREVER, KINDS, MINUTE_MS, check_equal, check_served_in_order, is_cluster, main, scenario
from pushes import line_up

RUBIES = [] if is_cluster() else ["ruby"]
EVERYBODY = [*KINDS, *RUBIES]


def one_of_each(world, names, kinds, place=1):
    return line_up(world, [world.actor(kind) for kind in kinds], *names, place=place, ttl_ms=MINUTE_MS)


@scenario(kinds=EVERYBODY, counts=[1], is_timed=True)
def all_kinds_wait_in_one_queue(world, kind, names):
    """Behind one of this kind, and one of it at the end."""
    held = world.actor(kind).acquire(*names, ttl_ms=MINUTE_MS)
    check_served_in_order(one_of_each(world, names, [*EVERYBODY, kind]), held)
    check_equal(world.queue_length(names[0]), 0)
    check_equal(world.holder(names[0]), None)


@scenario(kinds=["process", *RUBIES], counts=[1])
def a_waiter_that_dies_is_passed_by_all_kinds(world, kind, names):
    held = world.actor("thread").acquire(*names, ttl_ms=MINUTE_MS)
    dead = world.actor(kind)
    dead.ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    asked = one_of_each(world, names, KINDS, place=2)
    world.kill(dead)
    check_served_in_order(asked, held)
    world.await_nothing_left()


if __name__ == "__main__":
    main()
