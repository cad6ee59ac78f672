#!/usr/bin/env python3
"""Series beside many others: nobody starves, nobody stalls, nothing is kept for the dead. RQL_TEST_LONG: full size."""
import os
import time

from crowd import Crowd
from dead import plant_dead
from harness import FOREVER, MINUTE_MS, PATIENCE_S, Moment, check, main, scenario

IS_LONG = "RQL_TEST_LONG" in os.environ

# ---- the dead ----

SOON_US = 100000
RESERVED_US = 2000000
SILENCE_US = 5000000
SLACK_US = 700000


@scenario(counts=[1], is_timed=True)
def a_series_that_was_stopped_costs_one_reservation(world, kind, names):
    """It is told, and its host hears; nobody knows that it does nothing."""
    del names
    held = world.actor("thread").acquire("b", ttl_ms=MINUTE_MS)
    stopped = world.actor("process")
    stopped.ask("a", "b", timeout_ms=FOREVER)
    world.await_queue(["a"], 1)
    world.await_listeners(1)
    stopped.remote.stop()
    actor, times = world.actor(kind), []
    for _ in range(3):
        begun = Moment(world)
        mine = actor.acquire("a", timeout_ms=FOREVER)
        times.append(mine.outcome.ts_us - begun.us)
        mine.release().check()
    world.kill(stopped)
    held.release().check()
    check(times[0] < RESERVED_US + SLACK_US and sum(times) < SILENCE_US + RESERVED_US + SLACK_US, f"{times} us")


@scenario(counts=[1], is_timed=True)
def a_series_does_not_wait_for_the_dead(world, kind, names):
    del names
    for count, crowd in ((1000, {}), (300, {"is_of_one": True}), (1000, {"is_fresh": False})):
        held = world.actor("thread").acquire("x", ttl_ms=MINUTE_MS)
        plant_dead(world, ["x"], count, **crowd)
        client = world.told_clients(kind, retry_delay_ms=MINUTE_MS)[0]
        asking = world.actor(kind, client).ask("w", "x", timeout_ms=FOREVER)
        world.await_queue(["x"], count + 1)
        released = Moment(world)
        held.release().check()
        mine = asking.hold()
        released.check_soon(mine, SOON_US)
        mine.release().check()
        world.ask("FLUSHALL")


# ---- the living ----

LOCKS = "abcdefgh"
N_ACTORS = 16
TTL_MS = 5000
RUN_S = 4 if IS_LONG else 1  # a turn that has begun is waited for, however long it takes
STALL_US = 1500000
LONG_WAIT_US = 40000000
NEVER_S = float("inf")  # every release has to succeed


def work(actors, choose, run_s, longest_us, **more):
    over, crowd = time.monotonic() + run_s, Crowd(actors, choose=choose, claim_s=NEVER_S, ttl_ms=TTL_MS, **more)
    crowd.wait(lambda: time.monotonic() > over, "they have worked", run_s + PATIENCE_S)
    crowd.end()
    check(crowd.waited_us < longest_us, f"one waited for {crowd.waited_us} us")


def hammer(world, kind, hold_s, run_s, longest_us, holds_another=False):
    """A series of all eight beside a crowd that takes the same locks one by one."""
    clients = [world.client() for _ in range(4)]
    series, *others = [world.actor(kind, clients[i % 4]) for i in range(N_ACTORS + 1)]
    held = [actor.acquire(f"of {actor.name}", ttl_ms=10 * MINUTE_MS) for actor in others if holds_another]
    work([series, *others], lambda actor: (LOCKS if actor is series else world.random.choice(LOCKS), {}),
         run_s, longest_us, hold_s=hold_s)
    for each in held:
        each.release().check()
    world.await_nothing_left()


@scenario(counts=[1], is_timed=True)
def a_series_of_all_is_had_beside_short_holds(world, kind, names):
    del names
    hammer(world, kind, 0.001, RUN_S, STALL_US)


@scenario(counts=[1])
def a_series_of_all_is_had_beside_long_holds(world, kind, names):
    del names
    hammer(world, kind, *((3, 100, LONG_WAIT_US) if IS_LONG else (0.3, 4 * RUN_S, LONG_WAIT_US / 4)))


@scenario(counts=[1])
def a_series_of_all_is_had_beside_holders_of_other_locks(world, kind, names):
    """They may be parts of a circle with the series, for all that is known of them, and are not."""
    del names
    hammer(world, kind, 0.001, RUN_S, LONG_WAIT_US / 4, holds_another=True)


@scenario(counts=[1], is_timed=True)
def atomic_series_and_one_of_the_gems_do_not_stall(world, kind, names):
    """Each holds what another waits for at some time."""
    del names
    wishes = dict(zip([world.actor(kind) for _ in range(3)], [("ab", {}), ("bc", {}), ("cba", {"mode": "gem"})]))
    work(list(wishes), wishes.get, RUN_S, STALL_US)
    world.await_nothing_left()


# ---- opposite orders ----

ROUNDS = 5000 if IS_LONG else 150

COUNT_WAITING_HOLDERS = """
local n, owners = 0, {}
for _, name in ipairs(ARGV) do
    owners[redis.call('HGET', 'rql:lock:' .. name, 'acq_id') or ''] = true
end
for _, name in ipairs(ARGV) do
    for _, waiter in ipairs(redis.call('ZRANGE', 'rql:lock_queue:' .. name, 0, -1)) do
        n = n + (owners[waiter] and 1 or 0)
    end
end
return n"""


@scenario(counts=[1])
def opposite_orders_never_deadlock(world, kind, names):
    """Two to four neighbours, forwards or backwards, from two clients at once. At each instant of the server a
    request that waits holds nothing."""
    del names
    clients, chance = [world.client(world.remote()) for _ in range(2)], world.random
    actors = [world.actor(kind, clients[i % 2]) for i in range(4)]

    def choose(actor):
        first = chance.randrange(5)
        locks = ["abcde"[(first + i) % 5] for i in range(chance.randrange(2, 5))]
        return locks[::-1] if actor in actors[::2] else locks, {}

    def is_over():
        check(world.ask("EVAL", COUNT_WAITING_HOLDERS, 0, *"abcde") == 0, "somebody waits and holds")
        return crowd.n_uses >= ROUNDS * len(actors)
    crowd = Crowd(actors, choose=choose, hold_s=0, claim_s=NEVER_S, timeout_ms=MINUTE_MS)
    crowd.wait(is_over, "all have played", PATIENCE_S * 30)
    crowd.end()
    world.await_nothing_left()


if __name__ == "__main__":
    main()
