"""Swarms with short periods, and the hosts, dead or alive, that they find."""
import contextlib
import time

from harness import FOREVER, SLOW, check, check_equal, wait_until
from sweeps import hold_as

DAY_MS = 86400000
ZOMBIE_TTL_MS = 2000
QUICK = {"liveness_probing_period_ms": 100, "probe_period_ms": 100, "zombie_ttl_ms": ZOMBIE_TTL_MS,
         "zombie_flush_period_ms": 400}
PROBES = {"flush_zombies": False}
FLUSHES = {"probe_hosts": False}
GRACE_S = 1


def host(number):
    """Of the gem, and who acquires there."""
    identity = f"ffffffffffffff{number:02}"
    return f"rql:hst:{90000 + number}/1/3/{identity}", f"rql:acq:{90000 + number}/1/2/3/{identity}"


DEAD_HOST, DEAD = host(1)


def raw_host(world, name, age_s):
    """Its last heartbeat is that old."""
    world.ask("HSET", "rql:swarm:hsts", name, f"{world.server.now_us() / 1000000 - age_s:.6f}")


def raw_lock(world, name, acquirer, of_host):
    """For a day."""
    hold_as(world, (acquirer, of_host), name, ttl_ms=DAY_MS)


def n_hosts(world):
    return world.ask("HLEN", "rql:swarm:hsts")


def await_hosts(world, count):
    wait_until(lambda: n_hosts(world) == count, f"{count} hosts are known")


def await_known(world, name):
    wait_until(lambda: world.ask("HEXISTS", "rql:swarm:hsts", name), f"{name} is known")


def await_flushed(world, name=DEAD_HOST):
    wait_until(lambda: not world.ask("HEXISTS", "rql:swarm:hsts", name), f"{name} is flushed")


def exists(world, *names):
    return [world.ask("EXISTS", f"rql:lock:{name}") for name in names]


class Swarm:
    """Of a client, until end(); also if it is auto_swarm's, which ends with its client."""

    def __init__(self, world, client, **options):
        self.client, self.name = client, f"swarm{next(world.numbers)}"
        self.do("swarm", client=client.name, options={**QUICK, **options}).check()

    def do(self, do, **words):
        return self.client.remote.do(do, name=self.name, **words)

    def stop(self):
        self.do("stop_swarm")

    def end(self):
        self.do("end_swarm")


def status_of(client):
    return client.remote.do("swarm_status", client=client.name).check()


@contextlib.contextmanager
def swarm(world, client, **options):
    """While the scenario does what is within. After a failure its process is killed anyway."""
    made = Swarm(world, client, **options)
    yield made
    made.end()


def await_status(client, condition, what):
    wait_until(lambda: condition(status_of(client)), what)


class Bound:
    """Until what a dead host held has to be free."""

    def __init__(self, world):
        self.world, self.kept_ms, self.begun_s = world, world.kept_ms(), time.monotonic()

    def check(self):
        late_s = time.monotonic() - self.begun_s - GRACE_S - (self.world.kept_ms() - self.kept_ms) / 1000
        check(late_s <= SLOW * (QUICK["zombie_ttl_ms"] + QUICK["zombie_flush_period_ms"]) / 1000, f"{late_s} s")


def leave(actor, *names):
    """A lock for a day, and nobody who looks after it."""
    actor.acquire(*names, ttl_ms=DAY_MS, timeout_ms=FOREVER).forget().check()
    check_equal(actor.begin("probe_hosts").outcome().check().status, "OK")
