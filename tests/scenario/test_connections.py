#!/usr/bin/env python3
"""The command connections that a client's threads share: as many as it needs, and what depends on which it is."""
import re
import sys

from harness import FOREVER, check, check_equal, main, scenario, wait_until, work_until

KINDS = ["thread"]
LONG_MS = 60000
LIMIT = 4  # by default
N_THREADS = 6
ROUNDS = 50
LATE_US = 1000000  # a poll may be due from then on


def crew(world, count=N_THREADS, **options):
    client = world.client(io_timeout_ms=LONG_MS, **options)
    actors = [world.actor("thread", client) for _ in range(count)]
    take_turns(actors)
    return client, actors


def take_turns(actors):
    for actor in actors:
        actor.acquire("turn").release().check()


def meet(world, client, actors):
    """All ask a silent server. Who comes behind two on one connection opens another, where it has to wait as well."""
    before = client.stats().commands
    world.server.freeze()
    asking = [actor.ask(f"of {i}", ttl_ms=LONG_MS, timeout_ms=FOREVER) for i, actor in enumerate(actors)]
    wait_until(lambda: client.stats().commands >= before + 2, "two have asked")
    world.server.go_on()
    for one in asking:
        one.hold().release().check()
    take_turns(actors)
    return client.stats().connections


def open_all(world, client, actors):
    """Whether two meet on one, and not on one each, is up to the system."""
    for _ in range(ROUNDS):
        if meet(world, client, actors) == LIMIT:
            return
    raise AssertionError(f"{client.stats().connections} connections")


@scenario(kinds=KINDS, counts=[1])
def threads_that_take_turns_share_one(world, kind, names):
    client, actors = crew(world)
    take_turns(actors)
    check_equal(client.stats().connections, 1)


@scenario(kinds=KINDS, counts=[1])
def one_more_is_opened_when_threads_have_met(world, kind, names):
    """And never more than allowed, however many there are."""
    client, actors = crew(world)
    check(meet(world, client, actors) > 1, "they share one")
    open_all(world, client, actors)
    check_equal(meet(world, client, actors), LIMIT)
    client, two = crew(world, 2)
    meet(world, client, two)
    take_turns(2 * two)
    check_equal(client.stats().connections, 2)
    for allowed in 1, 2:
        client, actors = crew(world, connections=allowed)
        check_equal([meet(world, client, actors) for _ in range(LIMIT)], [allowed] * LIMIT)


@scenario(kinds=KINDS, counts=[1])
def a_lock_is_handed_on_between_threads_of_different_ones(world, kind, names):
    """What the new owner says of it goes behind the transfer that brought it."""
    client, actors = crew(world)
    open_all(world, client, actors)
    before = client.stats().local_hand_overs

    def take_turn(actor):
        held = actor.acquire(*names, timeout_ms=FOREVER, ttl_ms=LONG_MS)
        if world.random.random() < 0.5:
            held.extend(LONG_MS).check()
            check_equal(held.verify().status, "OK")
        held.release().check()

    work_until(lambda: client.stats().local_hand_overs > before + 50 * N_THREADS,
               [lambda actor=actor: take_turn(actor) for actor in actors], "it is handed on inside the client")
    world.await_nothing_left()


@scenario(kinds=KINDS, counts=[1], is_timed=True)
def each_asks_to_be_told_of_rubys_lock(world, kind, names):
    client, actors = crew(world, retry_delay_ms=3600000)
    open_all(world, client, actors)
    for i in range(N_THREADS):
        world.ask("HSET", f"rql:lock:{i}", "acq_id", "rql:acq:1/2/3/4/0123456789abcdef", "hst_id", "rql:hst:1/2/4/5",
                  "ts", "1.5", "ini_ttl", LONG_MS)
        world.ask("PEXPIRE", f"rql:lock:{i}", LONG_MS)
    asking = [actor.ask(str(i), timeout_ms=FOREVER, ttl_ms=LONG_MS) for i, actor in enumerate(actors)]
    wait_until(lambda: f"tracking_total_keys:{N_THREADS}" in world.ask("INFO", "stats"), "all keys are watched")
    told = re.findall(r" redir=(\d+)", world.ask("CLIENT", "LIST"))
    check(len([to for to in told if int(to) > 0]) > 1, "one connection asked for all")
    for i, one in enumerate(asking):
        released_us = world.server.now_us()
        world.ask("DEL", f"rql:lock:{i}")
        mine = one.hold()
        check(mine.outcome.ts_us - released_us < LATE_US, f"{i}: after {mine.outcome.ts_us - released_us} us")
        mine.release().check()


if __name__ == "__main__":
    sys.exit(main())
