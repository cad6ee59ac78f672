#!/usr/bin/env python3
"""Waiters of one client beside each other: on loops and on threads; and beside whoever empties their queue."""

from harness import (FOREVER, MINUTE_MS, check, check_equal, check_served_in_order, check_soon, main, scenario,
                     wait_until)
from others import Ruby

CROWD = 8
SOON_US = 1000000
POLL_US = 5000000 / 3  # between two polls, where pushes are seen to come
N_MESSAGES, MESSAGE = 400, "x" * 8000  # as many bytes as the pushes of many hand-overs


def n_listening(world):
    """Connections that are told of hand-overs, by their channels: those of a client share one."""
    return [world.ask("PUBSUB", "NUMSUB", channel)[1] for channel in world.listeners()]


def ask_all(actors, *names, count=CROWD):
    """In their order, by one after the other."""
    asked = []
    for i in range(count):
        asked.append(actors[i % len(actors)].ask(*names, timeout_ms=FOREVER, retry_delay_ms=MINUTE_MS))
        actors[0].world.await_queue(names, i + 1)
    return asked


@scenario(kinds=["thread", "loop"], counts=[1], is_timed=True)
def a_release_of_rubys_wakes_who_waits(world, kind, names):
    """No push comes from Ruby. Twice: a notice comes once for each time that it was asked for."""
    ruby, client = Ruby(world), world.client(retry_delay_ms=5000)
    actors = [world.actor(kind, client) for _ in range(2)]
    for _ in range(2):
        check(ruby.take(names[0], MINUTE_MS), "Ruby has no lock")
        asked = ask_all(actors, *names, count=2)
        wait_until(lambda: "tracking_total_keys:1" in world.ask("INFO", "stats"), "the lock is watched")
        released_us = world.server.now_us()
        ruby.release(names[0])
        for asking in asked:
            held = asking.hold()
            check_soon(held, released_us, SOON_US)
            held.release().check()
    ruby.close()
    check_equal(world.keys_left(), [])


@scenario(kinds=["thread", "loop"])
def who_was_removed_puts_itself_back(world, kind, names):
    """Somebody empties the queues, as the gem's unlock does: all come back, in their order."""
    held = world.held_by_another(*names)
    client = world.client()
    actors = [world.actor(kind, client) for _ in range(CROWD if kind == "thread" else 1)]
    asked = ask_all(actors, *names)
    world.await_listeners(1)
    for name in names:
        world.ask("DEL", f"rql:lock_queue:{name}")
    world.await_queue(names, CROWD)
    check_served_in_order(asked, held)
    check_equal(world.keys_left(), [])


@scenario(kinds=["thread", "loop"], is_timed=True)
def whose_record_was_removed_too_hears_of_it_from_the_first(world, kind, names):
    """Nobody else can put it back, and it sleeps while the first of its client asks for all."""
    held = world.held_by_another(*names)
    client = world.client()
    actors = [world.actor(kind, client) for _ in range(CROWD if kind == "thread" else 1)]
    asked = ask_all(actors, *names)
    world.await_listeners(1)
    world.ask("DEL", *[f"rql:{part}:{name}" for part in ("lock_queue", "req") for name in names])
    begun_us = world.server.now_us()
    world.await_queue(names, CROWD)
    took_us = world.server.now_us() - begun_us
    check(took_us < POLL_US + SOON_US, f"after {took_us} us")
    check_served_in_order(asked, held)


@scenario(kinds=["loop"], is_timed=True)
def two_loops_of_a_client_share_its_queue(world, kind, names):
    """Both hear every push to the client; each takes its own. Not yet told, one would be late by a second."""
    held = world.held_by_another(*names)
    client = world.client()
    asked = ask_all([world.actor(kind, client) for _ in range(2)], *names)
    wait_until(lambda: n_listening(world) == [2], "both listen")
    check_served_in_order(asked, held)
    check_equal(world.keys_left(), [])


def wait_by_a_thread(world, client):
    held = world.held_by_another("thread")
    asking = world.actor("thread", client).ask("thread", timeout_ms=FOREVER)
    world.await_queue(["thread"], 1)
    world.await_listeners(1)
    held.release().check()
    asking.hold().release().check()


def nothing_is_kept(world, channel):
    """What the server has for those who do not read. What is left in the threads' connection when the loop has
    read its own goes with the next push."""
    world.ask("PUBLISH", channel, "hello")
    listed = world.ask("CLIENT", "LIST", "TYPE", "pubsub")
    return listed.count(" omem=0 ") == listed.count(" omem=")


@scenario(kinds=["loop"])
def a_loop_reads_what_no_thread_reads(world, kind, names):
    """Or the server would keep it, and cut the connection."""
    client = world.client()
    wait_by_a_thread(world, client)
    held = world.held_by_another(*names)
    asking = world.actor(kind, client).ask(*names, timeout_ms=FOREVER)
    wait_until(lambda: n_listening(world) == [2], "the loop listens, too")
    channel = world.listeners().pop()
    for _ in range(N_MESSAGES):
        world.ask("PUBLISH", channel, MESSAGE)
    wait_until(lambda: nothing_is_kept(world, channel), "all is read")
    held.release().check()
    asking.hold().release().check()
    wait_by_a_thread(world, client)
    check_equal(n_listening(world), [2])  # on the same connections
    world.await_nothing_left()


if __name__ == "__main__":
    main()
