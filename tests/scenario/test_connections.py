#!/usr/bin/env python3
"""The command connections that a client's threads share: as many as it needs, and what depends on which it is."""
import itertools
import re

from chain import Chain
from harness import FOREVER, MINUTE_MS, Network, check, check_equal, main, once, scenario, wait_until
from sweeps import RUBY, hold_as

LIMIT = 4  # by default
N_THREADS = 6
N_MANY = 32
HALF_A_RECORD = {"of": 9000 * "x"}  # with TLS one more is opened when two fill one of 16 KiB
LATE_US = 1000000  # a poll may be due from then on


def crew(world, count=N_THREADS, **options):
    client = world.client(io_timeout_ms=MINUTE_MS, **options)
    actors = [world.actor("thread", client) for _ in range(count)]
    take_turns(actors)
    return client, actors


def take_turns(actors):
    for actor in actors:
        actor.acquire("turn").release().check()


def n_used(world):
    """Over which something was asked within the last second."""
    names = [dict(re.findall(r"([\w-]+)=(\S*)", line)) for line in world.ask("CLIENT", "LIST").splitlines()]
    return sum(name["idle"] == "0" for name in names if name["cmd"] == "evalsha")


def ask_at_once(world, client, actors, **options):
    """A server that is silent meanwhile. Over how many connections, of those that were used within the last second."""
    before = client.stats().commands
    world.server.freeze()
    asking = [actor.ask(f"of {actor.name}", ttl_ms=MINUTE_MS, timeout_ms=FOREVER, **options) for actor in actors]
    wait_until(lambda: client.stats().commands >= before + len(actors), "all have asked")
    world.server.go_on()
    held = [one.hold() for one in asking]
    count = n_used(world)
    for one in held:
        one.release().check()
    return count


def meet(world, client, actors, n_open):
    """Two that share one of so many. Whoever comes next finds that they have met."""
    ask_at_once(world, client, [actors[0], actors[n_open]], meta=HALF_A_RECORD)
    take_turns(actors)
    return client.stats().connections


def open_all(world, client, actors, limit=LIMIT):
    """One after the other. On a busy machine the moment may be over in which one more can be opened."""
    for n_open in range(1, limit):
        wait_until(lambda n_open=n_open: meet(world, client, actors, n_open) > n_open, "one more is opened")
        check_equal(client.stats().connections, n_open + 1)


@once
def threads_that_take_turns_share_one(world, kind, names):
    client, actors = crew(world)
    take_turns(actors)
    check_equal(client.stats().connections, 1)


@once
def one_more_is_opened_when_threads_have_met(world, kind, names):
    """And never more than allowed, however many there are."""
    client, actors = crew(world)
    open_all(world, client, actors)
    check_equal([meet(world, client, actors, LIMIT) for _ in range(3)], [LIMIT] * 3)
    for allowed in 1, 2:
        client, actors = crew(world, connections=allowed)
        open_all(world, client, actors, allowed)
        check_equal([meet(world, client, actors, allowed) for _ in range(3)], [allowed] * 3)


@once
def nobody_depends_on_one_that_cannot_be_opened(world, kind, names):
    """A server that takes no more clients: all go on over the first."""
    client, actors = crew(world)
    n_clients = len(world.ask("CLIENT", "LIST").splitlines())
    world.ask("CONFIG", "SET", "maxclients", n_clients)
    for _ in range(3):
        check_equal(meet(world, client, actors, 1), 1)
    world.ask("CONFIG", "SET", "maxclients", 10000)
    open_all(world, client, actors, 2)


@once
def many_ask_over_one_and_few_over_their_own(world, kind, names):
    """Many at a time come together on the first; those that are not used any more stay open."""
    client, actors = crew(world, N_MANY)
    open_all(world, client, actors)

    wait_until(lambda: ask_at_once(world, client, actors, meta=HALF_A_RECORD) == 1, "all ask over one")
    others = itertools.cycle(range(1, LIMIT))
    wait_until(lambda: meet(world, client, actors, next(others)) and n_used(world) == LIMIT,
               "a few have their own again")
    check_equal(client.stats().connections, LIMIT)


@once
def what_is_said_of_a_lock_goes_behind_its_hand_over(world, kind, names):
    """Of two connections the one that brings it may be the slow one. The new owner asks for other things by its own."""
    network = Network(world)
    chain = Chain(world, kind, network=network, connections=2)
    wait_until(lambda: meet(world, chain.client, chain.actors, 1) == 3, "two are open, and that for pushes")
    for _ in range(2):
        released, mine = chain.hand_on(names[0], fault="mute_last")
        n_commands = chain.client.stats().commands
        mine_released = mine.begin("release")
        wait_until(lambda n=n_commands: chain.client.stats().commands > n, "it is said")
        network.heal()
        released.outcome().check()
        mine_released.outcome().check()
        check_equal(chain.client.stats().commands - n_commands, 2, "a PING and the release")
        chain.actors.reverse()
    world.await_nothing_left()


@scenario(kinds=["thread"], counts=[1], is_timed=True, in_cluster=False)
def each_asks_to_be_told_of_rubys_lock(world, kind, names):
    client, actors = crew(world, retry_delay_ms=3600000)
    open_all(world, client, actors)
    hold_as(world, RUBY, *map(str, range(N_THREADS)))
    asking = [actor.ask(str(i), timeout_ms=FOREVER, ttl_ms=MINUTE_MS) for i, actor in enumerate(actors)]
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
    main()
