#!/usr/bin/env python3
"""A server that cuts connections while a lock goes round, and many that come back when it was away."""
import re

from crowd import Crowd
from harness import FOREVER, MINUTE_MS, Network, as_they_end, check, let_pass, main, once, scenario

CROWD = 12
RETRY_MS = 225  # delay and jitter, as they are unless they are set
SLACK_MS = 100  # of the machine


def crowd_of(world, kind, names, clients, **options):
    """They share it."""
    return Crowd([world.actor(kind, clients[i % len(clients)]) for i in range(CROWD)], *names, **options)


def cut_again_and_again(world, kind, names, what):
    crowd = crowd_of(world, kind, names, [world.client() for _ in range(2)])
    crowd.await_uses(50)
    crowd.restart()
    for _ in range(30):
        raw = world.ask("CLIENT", "ID")
        for line in world.ask("CLIENT", "LIST", "TYPE", what).splitlines():
            if f"id={raw} " not in line:
                world.ask("CLIENT", "KILL", "ID", line.split(" ")[0][3:])
        crowd.await_uses(10)
    longest_ms = crowd.restart() * 1000
    crowd.end()
    world.await_nothing_left()
    check(longest_ms <= RETRY_MS + SLACK_MS, f"a hand-over took {longest_ms:.0f} ms")


@scenario(counts=[1], is_timed=True)
def lost_subscribers_cost_one_poll_at_most(world, kind, names):
    cut_again_and_again(world, kind, names, "pubsub")


@scenario(counts=[1], is_timed=True)
def lost_command_connections_cost_one_poll_at_most(world, kind, names):
    cut_again_and_again(world, kind, names, "normal")


@once
def the_reply_to_another_is_never_taken(world, kind, names):
    """One that is lost between two of a crowd puts those behind it in the wrong place."""
    network = Network(world)
    clients = [network.client(connect_timeout_ms=1000, io_timeout_ms=200) for _ in range(2)]
    crowd = crowd_of(world, kind, names, clients, may_fail=True)
    for i in range(8):
        crowd.await_uses(20)
        network.fail("drop_reply", n=1 + i % 3)
    network.heal()
    crowd.await_uses(20)
    crowd.end()
    world.await_nothing_left()


# ---- an outage, and many who come back from it ----

N_CLIENTS = 60
OUTAGE_S = 5      # by then the longest pause is 2 s
N_ATTEMPTS = 20   # of a connection, with pauses that double from 10 ms on; with equal ones there were hundreds
PERIOD_S = 0.1


# Not in a cluster: each of its connections is tried five times a second, or a new master would be found late.
@scenario(counts=[1], is_timed=True, in_cluster=False)
def many_clients_come_back_one_after_the_other(world, kind, names):
    """All lost the server in one moment, and each has two connections to it."""
    network = Network(world)
    held = world.held_by_another(*names)
    clients = [network.client(connect_timeout_ms=MINUTE_MS) for _ in range(N_CLIENTS)]
    asked = [world.actor(kind, client).ask(*names, timeout_ms=FOREVER) for client in clients]
    world.await_queue(names, N_CLIENTS)
    world.await_listeners(N_CLIENTS)
    world.save()
    world.server.kill()
    before = network.count("connections")
    let_pass(OUTAGE_S)
    n_attempts = network.count("connections") - before
    check(n_attempts <= 2 * N_CLIENTS * N_ATTEMPTS, f"{n_attempts} attempts in {OUTAGE_S} s")
    world.server.launch()
    world.reconnect()
    world.server.forget()
    came = [0]
    while came[-1] < 2 * N_CLIENTS:
        let_pass(PERIOD_S)
        came.append(int(re.search(r"total_connections_received:(\d+)", world.ask("INFO", "stats"))[1]))
    most = max(now - earlier for earlier, now in zip(came, came[1:]))
    check(most < N_CLIENTS, f"{most} connections within {PERIOD_S} s")
    held.release().check("OK", "E_UNKNOWN", "NOT_HELD")
    for asking in as_they_end(asked):
        asking.hold().release().check()
    world.await_nothing_left()


if __name__ == "__main__":
    main()
