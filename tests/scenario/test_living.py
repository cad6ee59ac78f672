#!/usr/bin/env python3
"""Hosts that are stopped at random, but never for as long as the zombie ttl by the server's clock, and a machine that
is suspended as a whole for longer: no host of them may ever be flushed. A round in which a machine made the pause too
long is counted and says nothing. RQL_TEST_LONG: 10 000 rounds."""
import os
import random
import signal
import threading
import time

from harness import Worker, check, check_equal, main, once, wait_until
from swarms import FLUSHES, PROBES, Swarm, await_known, raw_lock, status_of, swarm

IS_LONG = "RQL_TEST_LONG" in os.environ
N_HOSTS, N_ROUNDS, N_SUSPENSIONS = (24, 10000, 40) if IS_LONG else (8, 80, 2)
TRIES_FOR_EACH = 4
TTL_MS = 600
HOUR_MS = 3600000
PERIODS = {"zombie_ttl_ms": TTL_MS, "probe_period_ms": TTL_MS // 12, "zombie_flush_period_ms": TTL_MS // 3}
LOOKS = 4  # of the flusher, until it has seen twice what there is


class Field:
    """All that is going on, and what came of it."""

    def __init__(self):
        self.gate = threading.Condition()
        self.n_active = self.n_tried = self.n_judged = self.n_flushed = self.n_too_long = self.n_suspended = 0

    def goes_on(self):
        return self.n_judged < N_ROUNDS and self.n_tried < TRIES_FOR_EACH * N_ROUNDS

    def judge(self, host, silence_us):
        """The silence is that between two heartbeats, as the server dates them."""
        is_there = host.has_lock()
        with self.gate:
            if silence_us >= TTL_MS * 1000:
                self.n_too_long += 1
            else:
                self.n_judged += 1
                self.n_flushed += not is_there
        if not is_there:
            host.plant_lock()


class Host:
    """A process with a client that sends heartbeats, for it holds something, and a lock that bears its name."""

    def __init__(self, world, field):
        self.world, self.field, self.connection = world, field, world.connection()
        self.actor = world.actor("process")
        Swarm(world, self.actor.client, **PERIODS, **PROBES)
        held = self.actor.acquire(f"held by {self.actor.name}", ttl_ms=HOUR_MS)
        self.name = held.outcome.hst_id
        await_known(world, self.name)
        self.plant_lock()

    def plant_lock(self):
        raw_lock(self, self.name, "a", self.name)

    def ask(self, *words):
        return self.connection.call(*words)

    def has_lock(self):
        return self.ask("EXISTS", f"rql:lock:{self.name}") == 1

    def sign_us(self):
        return int(float(self.ask("HGET", "rql:swarm:hsts", self.name) or 0) * 1000000)

    def await_sign(self, after_us):
        wait_until(lambda: self.sign_us() > after_us, f"{self.name} comes back")
        return self.sign_us()

    def stop(self):
        self.actor.remote.stop()
        os.waitid(os.P_PID, self.actor.remote.process.pid, os.WSTOPPED)

    def pause(self):
        """A round."""
        field = self.field
        with field.gate:
            if not field.goes_on():
                time.sleep(0.001)
                return
            field.n_tried += 1
            field.n_active += 1
        try:
            self.stop()
            first_us = self.sign_us()
            time.sleep(TTL_MS * random.uniform(0.25, 0.95) / 1000)
            last_us = max(self.sign_us(), first_us)  # flushed: none
            self.actor.remote.go_on()
            field.judge(self, self.await_sign(last_us) - last_us)
        finally:
            with field.gate:
                field.n_active -= 1
                field.gate.notify_all()


def await_looks(client, count):
    wanted = status_of(client).flush_zombies["steps"] + count
    wait_until(lambda: status_of(client).flush_zombies["steps"] >= wanted, "the flusher looks")


def suspend_machine(world, client, hosts, field):
    """The flusher is the first that goes on. Who is back within half of the ttl keeps what it has."""
    for host in hosts:
        host.stop()
    world.server.process.send_signal(signal.SIGSTOP)
    time.sleep(TTL_MS * 1.5 / 1000)
    world.server.go_on()
    resumed_us = world.server.now_us()
    await_looks(client, 1)
    for host in hosts:
        host.actor.remote.go_on()
    for host in hosts:
        field.judge(host, 2 * (host.await_sign(resumed_us) - resumed_us))
        field.n_suspended += 1
    await_looks(client, LOOKS)


def suspend_now_and_then(world, client, hosts, field):
    for i in range(1, N_SUSPENSIONS + 1):
        wait_until(lambda i=i: field.n_judged >= N_ROUNDS * i // (N_SUSPENSIONS + 1) or not field.goes_on(),
                   "hosts were stopped", 600)
        with field.gate:  # no round begins
            field.gate.wait_for(lambda: not field.n_active)
            suspend_machine(world, client, hosts, field)
    wait_until(lambda: not field.goes_on(), "there were enough rounds", 600)


@once
def living_hosts_are_never_flushed(world, _kind, _names):
    client, field = world.client(), Field()
    hosts = [Host(world, field) for _ in range(N_HOSTS)]
    with swarm(world, client, **PERIODS, **FLUSHES):
        workers = [Worker(host.pause) for host in hosts]
        try:
            suspend_now_and_then(world, client, hosts, field)
        finally:
            for worker in workers:
                worker.is_stopped = True
        for worker in workers:
            worker.end()
        for host in hosts:
            world.kill(host.actor)
            host.connection.close()
    print(f"# zombie_ttl {TTL_MS} ms, {N_HOSTS} hosts: {field.n_judged} rounds of pauses below it, {field.n_flushed} "
          f"flushed; {field.n_too_long} more too long to judge; {field.n_suspended} of the rounds were suspended "
          "machines", flush=True)
    check(field.n_judged >= N_ROUNDS, "the machine is too slow")
    check_equal(field.n_flushed, 0)


if __name__ == "__main__":
    main(at_once=1)
