#!/usr/bin/env python3
"""A process is killed within an operation, behind its n-th command: what it leaves ends by itself."""
import sys

from harness import FOREVER, main, scenario, wait_until

PLACES = 4
LONG_MS = 60000
TTL_MS = 600


# Each makes ready what the operation needs, and returns how it is begun and what is to be done in the end.

def nothing():
    pass


def acquire(world, actor, names):
    del world
    return lambda: actor.ask(*names, ttl_ms=TTL_MS), nothing


def wait(world, actor, names):
    """The grant is pushed to it, or it polls."""
    held = world.actor("thread").acquire(*names, ttl_ms=LONG_MS)
    asking = actor.ask(*names, timeout_ms=FOREVER, ttl_ms=TTL_MS)
    world.await_queue(names, 1)

    def begin():
        held.release().check()
        return asking
    return begin, nothing


def give_up(world, actor, names):
    held = world.actor("thread").acquire(*names, ttl_ms=LONG_MS)
    return lambda: actor.ask(*names, timeout_ms=100), lambda: held.release().check()


def release(world, actor, names):
    del world
    held = actor.acquire(*names, ttl_ms=TTL_MS)
    return lambda: held.begin("release"), nothing


def hand_over(world, actor, names):
    """To one that waits in another process."""
    held = actor.acquire(*names, ttl_ms=TTL_MS)
    asking = world.actor("thread").ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    return lambda: held.begin("release"), lambda: asking.hold().release().check()


def extend(world, actor, names):
    del world
    held = actor.acquire(*names, ttl_ms=TTL_MS)
    return lambda: held.begin("extend", ttl_ms=2 * TTL_MS), nothing


def enter_again(world, actor, names):
    del world
    actor.acquire(names[0], ttl_ms=TTL_MS)
    return lambda: actor.ask(names[0], ttl_ms=TTL_MS, conflict_strategy="extendable_work_through"), nothing


def killed_in(operation, n):
    """The server has done n commands more than the process has heard of, or all of them."""
    def case(world, kind, names):
        remote = world.remote()
        remote.do("proxy", proxy="net", server=world.server.path)
        actor = world.actor(kind, world.client(remote, proxy="net"))
        actor.acquire("warm").release().check()
        begin, finish = operation(world, actor, names)

        def replies():
            return remote.do("proxy_counts", proxy="net").replies
        before = replies()
        remote.do("fault", proxy="net", fault="drop_reply", n=n)
        call = begin()
        wait_until(lambda: call.is_over() or replies() >= before + n, "so many replies came")
        world.kill(actor)
        finish()
        world.actor("thread").acquire(*names, timeout_ms=FOREVER).release().check()
        world.await_nothing_left()
    case.__name__ = f"{operation.__name__} is killed at {n}"
    return case


for one in (acquire, wait, give_up, release, hand_over, extend, enter_again):
    for place in range(1, PLACES + 1):
        scenario(["thread", "loop"], [1, 3] if one not in (extend, enter_again) else [1])(killed_in(one, place))

if __name__ == "__main__":
    sys.exit(main())
