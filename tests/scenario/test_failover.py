#!/usr/bin/env python3
"""A master dies, with many locks held and waited for. RQL_TEST_LONG: a thousand of each; prints how long it took."""
import os
import time

from harness import FOREVER, MINUTE_MS, SLOW, as_they_end, check, check_equal, check_served_in_order, main, scenario, wait_until
from watched import Watched, await_asked, await_replicated, behind

N_LOCKS = 1000 if "RQL_TEST_LONG" in os.environ else 50
N_IN_ORDER = 10
BACK_S = 0.3  # from when the sentinels say who the master is


def since_ms(begun):
    return round(1000 * (time.monotonic() - begun))


@scenario(kinds=["thread"], counts=[1], is_timed=True)
def nobody_hangs_and_nobody_is_lost(world, _kind, _names):
    """Locks that are held stay held, each waiter is served, and those of one lock in their order."""
    held_names = [f"held {i}" for i in range(N_LOCKS)]
    wanted = [f"wanted {i}" for i in range(N_LOCKS)]
    options = {"ttl_ms": 10 * MINUTE_MS, "queue_ttl_ms": MINUTE_MS}
    with Watched(n_sentinels=1) as watched:
        url = watched.url()
        holder, blocker, waiter = (world.actor("loop", url=url) for _ in range(3))
        held = [holder.acquire(name, **options) for name in held_names]
        blocking = [blocker.acquire(name, **options) for name in [*wanted, "in order"]]
        with behind(world, watched):
            asked = [waiter.ask(name, timeout_ms=FOREVER, **options) for name in wanted]
            lined_up = []
            for n_waiting in range(1, N_IN_ORDER + 1):
                lined_up.append(world.actor("loop", url=url).ask("in order", timeout_ms=FOREVER, **options))
                world.await_queue(["in order"], n_waiting)
            wait_until(lambda: len(world.ask("KEYS", "rql:lock_queue:*")) == N_LOCKS + 1, "all wait")
        await_replicated(watched)
        old = watched.named()
        old.kill()
        begun = time.monotonic()
        watched.await_next(old)
        named, named_ms = time.monotonic(), since_ms(begun)
        kept_ms = world.kept_ms()
        with behind(world, watched):
            world.await_listeners(1 + N_IN_ORDER)
            back_ms = since_ms(named)
            kept_ms = world.kept_ms() - kept_ms
            await_asked(world, 1)
        check_equal({one.state() for one in held}, {"HELD"})
        freed = time.monotonic()
        for one in blocking[:-1]:
            one.release().check()
        for asking in as_they_end(asked):
            asking.hold().release().check()
        served_ms = since_ms(freed)
        check_served_in_order(lined_up, blocking[-1])
        for one in held:
            one.release().check()
        with behind(world, watched):
            world.await_nothing_left()
    print(f"# {N_LOCKS} held, {N_LOCKS + N_IN_ORDER} waiting: the sentinel named another master after {named_ms} ms, "
          f"all listened there {back_ms} ms later; {N_LOCKS} released and served in {served_ms} ms", flush=True)
    check(back_ms < 1000 * BACK_S * SLOW + kept_ms, f"they came back after {back_ms} ms")


if __name__ == "__main__":
    main()
