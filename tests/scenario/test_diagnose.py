#!/usr/bin/env python3
"""rql_diagnose() beside others, and when its connection fails. What it finds is in cli/doctor."""
import itertools
import time

from harness import FOREVER, SLOW, Network, check, check_equal, main, once, scenario, wait_until, work_until

FAIL = 3
LIMIT_MS = 1000
ROUNDS = 5


def diagnose(actor, time_limit_ms=60000):
    return actor.begin("inspect", of="diagnosis", time_limit_ms=time_limit_ms)


def failed(outcome):
    return [name for name, level in outcome.check().found.items() if level == FAIL]


def is_well(actor):
    """Right after a fault the next connection may have to wait."""
    outcome = diagnose(actor).outcome()
    return outcome.status == "OK" and not failed(outcome)


@scenario(kinds=["thread", "loop"])
def others_lock_on_the_same_connections_meanwhile(world, kind, names):
    """It sends EXEC without MULTI, and what makes no sense; a lock that is ended by force sends both."""
    client = world.client(connections=1)
    actors = [world.actor(kind, client) for _ in range(3)]
    forcing, looking = world.actor("thread", client), world.actor("thread", client)
    rounds = []

    def lock(actor):
        actor.acquire(*names, timeout_ms=FOREVER).release().check("OK", "NOT_HELD")

    def look():
        rounds.append(failed(diagnose(looking).outcome()))

    work_until(lambda: len(rounds) >= ROUNDS,
               [look, lambda: forcing.begin("force_unlock", name=names[0]).outcome().check()]
               + [lambda actor=actor: lock(actor) for actor in actors], "it has looked often")
    check_equal([found for found in rounds if found], [])
    world.await_nothing_left()


@once
def a_connection_that_fails_meanwhile_ends_it_in_time(world, kind, _names):
    """Sooner or later; it says what it could not look at, and leaves nothing behind."""
    network = Network(world)
    actor = world.actor(kind, network.client(io_timeout_ms=200, connect_timeout_ms=200))
    for fault, n_replies in itertools.product(("freeze", "cut", "refuse"), (3, 20, 60)):
        wait_until(lambda: is_well(actor), "it is well")
        network.fail("delay", n=5)
        before = network.count("replies")
        call = diagnose(actor, LIMIT_MS)
        wait_until(lambda least=before + n_replies: network.count("replies") >= least or call.is_over(), "it has begun")
        begun_s = time.monotonic()
        network.fail(fault)
        outcome = call.outcome()
        took_s = time.monotonic() - begun_s
        check(outcome.status in ("OK", "E_IO", "E_UNKNOWN"), outcome.status)
        check(took_s < (LIMIT_MS / 1000 + 2) * SLOW, f"{fault} after {n_replies} replies: {took_s} s")
        network.heal()
        world.await_nothing_left()


if __name__ == "__main__":
    main()
