#!/usr/bin/env python3
"""A process is killed within an operation, behind its n-th command: what it leaves ends by itself."""

from harness import FOREVER, MINUTE_MS, Network, check, main, scenario, wait_until
from pushes import line_up

PLACES = 4
TTL_MS = 600


# Each makes ready what the operation needs, begins it after the first `yield`, and does what is left in the end after
# the second, which has the call.

def acquire(_world, actor, names):
    yield
    yield actor.ask(*names, ttl_ms=TTL_MS)


def wait(world, actor, names):
    """The grant is pushed to it, or it polls."""
    held = world.held_by_another(*names)
    asking = actor.ask(*names, timeout_ms=FOREVER, ttl_ms=TTL_MS)
    world.await_queue(names, 1)
    yield
    held.release().check()
    yield asking


def give_up(world, actor, names):
    held = world.held_by_another(*names)
    yield
    yield actor.ask(*names, timeout_ms=100)
    held.release().check()


def release(_world, actor, names):
    held = actor.acquire(*names, ttl_ms=TTL_MS)
    yield
    yield held.begin("release")


def hand_over(world, actor, names):
    """To one that waits in another process. The lock ends soon when that is sure to wait for it."""
    held = actor.acquire(*names, ttl_ms=MINUTE_MS)
    asking = world.actor("thread").ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    yield
    for name in names:
        world.ask("PEXPIRE", f"rql:lock:{name}", TTL_MS)
    yield held.begin("release")
    asking.hold().release().check()


def extend(_world, actor, names):
    held = actor.acquire(*names, ttl_ms=TTL_MS)
    yield
    yield held.begin("extend", ttl_ms=2 * TTL_MS)


def enter_again(_world, actor, names):
    actor.acquire(names[0], ttl_ms=TTL_MS)
    yield
    yield actor.ask(names[0], ttl_ms=TTL_MS, conflict_strategy="extendable_work_through")


def killed_in(operation, n):
    """The server has done n commands more than the process has heard of, or all of them."""
    def case(world, kind, names):
        network = Network(world)
        actor = world.actor(kind, network.client())
        actor.acquire("warm").release().check()
        steps = operation(world, actor, names)
        next(steps)
        before = network.count("replies")
        network.fail("drop_reply", n=n)
        call = next(steps)
        wait_until(lambda: call.is_over() or network.count("replies") >= before + n, "so many replies came")
        world.kill(actor)
        next(steps, None)
        world.actor("thread").acquire(*names, timeout_ms=FOREVER).release().check()
        world.await_nothing_left()
    case.__name__ = f"{operation.__name__} is killed at {n}"
    return case


def await_killed(world, dead, names):
    """When its lock ends, by the server's clock."""
    wait_until(lambda: not world.ask("HEXISTS", f"rql:lock:{names[0]}", "rql_claim"), "it is claimed")
    world.kill(dead)
    return world.server.now_us() + world.left_ms(names[0]) * 1000


def lateness_us(asking, end_us):
    """Of the grant; and it is given back."""
    held = asking.hold()
    held.release().check()
    return held.outcome.ts_us - end_us


@scenario(counts=[1], is_timed=True)
def the_lock_of_a_dead_holder_is_had_when_it_ends(world, kind, names):
    dead = world.actor("process")
    dead.acquire(*names, ttl_ms=1500)
    asking = world.actor(kind, retry_delay_ms=MINUTE_MS).ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    late_us = lateness_us(asking, await_killed(world, dead, names))
    check(-2000 < late_us < 100000, f"{late_us} us after the lock had ended")


def take_over(world, kind, client, names):
    """Of two threads of a client, or two requests of a loop, the first has just gone when somebody in between
    dies. How late the other is."""
    held = world.actor("thread").acquire(*names, ttl_ms=MINUTE_MS)
    dead, first = world.actor("process"), world.actor(kind, client)
    last = world.actor(kind, client) if kind == "thread" else first
    asked = line_up(world, (first, dead, last), *names, ttl_ms=1500)
    world.await_listeners(2)
    held.release().check()
    asked[0].hold().release().check()
    asked[1].outcome().check()
    end_us = await_killed(world, dead, names)
    return lateness_us(asked[2], end_us)


@scenario(counts=[1], is_timed=True)
def the_lock_of_a_dead_holder_is_had_by_who_came_to_lead(world, kind, names):
    """It asks at its next tick; if that falls into the moment of another hold, after a third of 5 s."""
    client = world.client()
    late_us = min(take_over(world, kind, client, names) for _ in range(3))
    check(-2000 < late_us < 100000, f"{late_us} us after the lock had ended")


for one in (acquire, wait, give_up, release, hand_over, extend, enter_again):
    for place in range(1, PLACES + 1):
        counts = [1, 3] if one not in (extend, enter_again) else [1]
        scenario(counts=counts, is_timed=True)(killed_in(one, place))

if __name__ == "__main__":
    main()
