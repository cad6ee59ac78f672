"""Several servers that know nothing of each other, over which clients share the locks out."""
import contextlib
import os
import subprocess

from cluster import PARTITION_SLOTS, Behind, Partitioned
from harness import (FOREVER, MINUTE_MS, PrivateServer, check, check_equal, check_handed_over, check_served_in_order,
                     wait_until)
from partitions import N_PARTITIONS, partition_of
from private_server import free_port
from pushes import line_up
from servers import shared

MASK = (1 << 64) - 1
RING = "rql:ring"


def fnv1a(text):
    hashed = 0xcbf29ce484222325
    for byte in text.encode():
        hashed = (hashed ^ byte) * 0x100000001b3 & MASK
    return hashed


def mix(bits):
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9 & MASK
    bits = (bits ^ bits >> 27) * 0x94d049bb133111eb & MASK
    return bits ^ bits >> 31


class Shard(PrivateServer):
    """By TCP; its socket is for what asks behind the library's back."""

    def __init__(self):
        self.port = free_port()
        super().__init__("--bind", "127.0.0.1", "--port", str(self.port))

    @property
    def name(self):
        return f"127.0.0.1:{self.port}"

    def is_running(self):
        return self.process.poll() is None


class Shards(Partitioned):
    """Servers that have names; which of them has which partition is computed here as well."""

    def __init__(self, servers):
        self.servers = servers
        self.owners = [max(self.servers, key=lambda server: (mix(fnv1a(server.name) ^ partition), server.name))
                       for partition in range(N_PARTITIONS)]

    def all_servers(self):
        return self.servers

    def masters(self):
        return self.servers

    def owner(self, slot):
        return self.owners[PARTITION_SLOTS.index(slot)]

    def partitions_of(self, server):
        return {partition for partition, owner in enumerate(self.owners) if owner is server}


class SingleShards(Shards):
    def __init__(self, count):
        super().__init__([Shard() for _ in range(count)])

    def url(self, *servers, query=""):
        return "redis+shards://" + ",".join(server.name for server in servers or self.servers) + query


@contextlib.contextmanager
def sharded(world, count):
    """Shared with other scenarios. What the world asks behind the library's back is asked there."""
    with shared(world, SingleShards, count) as shards, world.asking(Behind(shards)):
        yield shards


def keys_of(server, kind):
    """Of all partitions, with what is of none."""
    return sorted(server.ask("KEYS", f"rql:*:{kind}") + server.ask("KEYS", f"rql:{kind}"))


# ---- what holds of any servers over which locks are shared out ----

HELD = {"ttl_ms": MINUTE_MS}
PATIENT = {"timeout_ms": FOREVER, "queue_ttl_ms": MINUTE_MS}
PUSHED = {**PATIENT, "retry_delay_ms": MINUTE_MS}  # a waiter that is not notified asks again when the test has failed


def actor(world, kind, url, **options):
    """Its client reports events."""
    return world.actor(kind, events=True, url=url, **options)


def await_listeners(shards, name, count):
    """In the partition of this lock, each has a channel."""
    wait_until(lambda: len(shards.owner_of(name).ask("PUBSUB", "SHARDCHANNELS", shards.key("*", name))) == count,
               f"{count} listen")


class Line:
    """A lock that is held, and those that wait for it in their order, each by a client of its own."""

    def __init__(self, world, kind, shards, name, count=3, **options):
        self.world, self.shards, self.name = world, shards, name
        holder, *waiters = (actor(world, kind, shards.url(), **options) for _ in range(1 + count))
        self.held = holder.acquire(name, **HELD)
        self.asked = line_up(world, waiters, name, **PATIENT)

    def await_back(self):
        """All have asked the server since now, and listen there: a waiter that does not may be passed over."""
        server, since_us = self.shards.owner_of(self.name), self.world.server.now_us()
        live = self.shards.key("live", self.name)
        wait_until(lambda: server.ask("ZCOUNT", live, since_us, "+inf") >= len(self.asked), "they have asked there")
        await_listeners(self.shards, self.name, len(self.asked))

    def check_served(self):
        wait_until(lambda: self.held.state() == "HELD", "it is verified")
        check_equal(self.held.losses(), [])
        check_served_in_order(self.asked, self.held)


def check_locks_of_all(world, kind, shards, ring=None):
    """They are where the names say, and nowhere else. They are extended, and handed over by pushes."""
    names = shards.spread(2)
    holder, waiter = (world.actor(kind, url=shards.url()) for _ in range(2))
    helds = [holder.acquire(name, **HELD) for name in names]
    for server in shards.masters():
        check_equal(keys_of(server, "lock:*"),
                    sorted(shards.key(f"lock:{name}", name) for name in names if shards.owner_of(name) is server))
        if ring:
            check_equal(server.ask("GET", RING), ring)
    for held in helds:
        held.extend(2 * MINUTE_MS).check()
        check(held.remaining_ms() > MINUTE_MS, f"{held.remaining_ms()} ms are left")
        asking = waiter.ask(*held.names, **PUSHED)
        world.await_queue(held.names, 1)
        await_listeners(shards, held.names[0], 1)
        held.release().check()
        mine = asking.hold()
        check(mine.tokens[0] > held.tokens[0], "tokens fall")
        mine.release().check()
    world.await_nothing_left()


def check_series(world, kind, shards):
    """It is in one partition, unless it is sorted."""
    one, other = (world.actor(kind, url=shards.url()) for _ in range(2))
    check_handed_over(world, one, other, [f"{{order 17}}:{part}" for part in "abc"])
    apart = sorted(shards.spread(1), key=partition_of, reverse=True)
    outcome = one.refused(*apart)
    check_equal((outcome.status, "{tag}" in outcome.error), ("E_INVALID", True))
    check_handed_over(world, one, other, apart, mode="sorted", queued=apart[-1:])  # the first by its partition
    world.await_nothing_left()


def start_rql(url, *words):
    """Starts the program, without other variables of the environment. A password may not be in a command line."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("RQL_")}
    return subprocess.Popen([os.environ["RQL_TEST_PROGRAM"], *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env={**env, "RQL_URL": url})


def run_rql(url, *words):
    process = start_rql(url, *words)
    out, err = process.communicate()
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def rql(url, *words, codes=(0,)):
    """Returns what it prints. It has nothing to complain of."""
    done = run_rql(url, *words)
    check_equal((done.returncode in codes, done.stderr), (True, ""), f"exit {done.returncode}")
    return done.stdout
