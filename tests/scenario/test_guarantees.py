#!/usr/bin/env python3
"""What the dead cost the living, in figures. RQL_TEST_LONG: the gem's periods, and as often as the guarantees say."""
import os

from harness import FOREVER, MINUTE_MS, check, main, once, wait_until
from swarms import DAY_MS, FLUSHES, GRACE_S, PROBES, QUICK, Swarm, await_hosts, swarm

IS_LONG = "RQL_TEST_LONG" in os.environ
GEMS = {"liveness_probing_period_ms": 2000, "probe_period_ms": 2000, "zombie_ttl_ms": 15000,
        "zombie_flush_period_ms": 10000}
PACE = GEMS if IS_LONG else QUICK
N_LOCKS, N_SERVED = 1000, 5
N_DEAD, N_ROUNDS = (50, 50) if IS_LONG else (20, 1)
DELAY_MS = 100


def count(world, pattern):
    return len(world.ask("KEYS", pattern))


@once
def locks_of_a_killed_process_are_had_in_time(world, _kind, _names):
    locks = [f"lock {i}" for i in range(N_LOCKS)]
    dying = world.actor("process")
    Swarm(world, dying.client, **PACE, **PROBES)
    for name in locks:
        dying.acquire(name, ttl_ms=DAY_MS)
    await_hosts(world, 1)
    with swarm(world, world.client(), **PACE, **FLUSHES):
        waiter = world.actor("loop")
        asked = [waiter.ask(name, timeout_ms=FOREVER) for name in locks[::N_LOCKS // N_SERVED]]
        wait_until(lambda: count(world, "rql:lock_queue:*") == N_SERVED, "they wait")
        world.kill(dying)
        killed_us, kept_ms = world.server.now_us(), world.kept_ms()
        holds = [asking.hold() for asking in asked]
        served_ms = (max(held.outcome.ts_us for held in holds) - killed_us) // 1000
        for held in holds:
            held.release().check()
        bound_ms = PACE["zombie_ttl_ms"] + PACE["zombie_flush_period_ms"] + 1000 * GRACE_S
        wait_until(lambda: not count(world, "rql:lock:*"), "all are free", 2 * bound_ms / 1000)
        free_ms = (world.server.now_us() - killed_us) // 1000
        await_hosts(world, 0)
    print(f"# zombie_ttl {PACE['zombie_ttl_ms']} ms, flush period {PACE['zombie_flush_period_ms']} ms: waiters served "
          f"after {served_ms} ms, {N_LOCKS} locks free after {free_ms} ms", flush=True)
    bound_ms += world.kept_ms() - kept_ms
    check(served_ms < bound_ms and free_ms < bound_ms, f"more than {bound_ms} ms")


def time_behind_the_dead(world, holder, living):
    """From the release to the grant, by the server's clock; and how long it was kept from running meanwhile."""
    held, n_listeners = holder.acquire("x", ttl_ms=MINUTE_MS), len(world.listeners())
    dying = [world.actor("process") for _ in range(N_DEAD)]
    for actor in dying:
        actor.ask("x", timeout_ms=FOREVER)
    world.await_queue(["x"], N_DEAD)
    asking = living.ask("x", timeout_ms=FOREVER, retry_delay_ms=MINUTE_MS)
    world.await_queue(["x"], N_DEAD + 1)
    world.await_listeners(max(n_listeners, 1) + N_DEAD)
    for actor in dying:
        world.kill(actor)
    world.await_listeners(1)
    kept_ms, freed_us = world.kept_ms(), world.server.now_us()
    held.release().check()
    mine = asking.hold()
    took_us = mine.outcome.ts_us - freed_us
    mine.release().check()
    return took_us, world.kept_ms() - kept_ms


@once
def killed_processes_do_not_delay_the_living(world, _kind, _names):
    holder, living = world.actor("thread"), world.actor("thread")
    times = [time_behind_the_dead(world, holder, living) for _ in range(N_ROUNDS)]
    print(f"# {N_DEAD} processes killed, {N_ROUNDS} times: the live one behind them had the lock "
          f"{max(took_us for took_us, _ in times)} us after its release at the latest", flush=True)
    for took_us, kept_ms in times:
        check(took_us < (DELAY_MS + kept_ms) * 1000, f"after {took_us} us")


if __name__ == "__main__":
    main(at_once=1)
