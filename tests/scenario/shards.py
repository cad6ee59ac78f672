"""Several servers that know nothing of each other, over which clients share the locks out. They end with the test."""
import contextlib
import itertools
import os
import subprocess

from cluster import PARTITION_SLOTS, Behind
from harness import PrivateServer, check_equal, wait_until
from partitions import N_PARTITIONS, partition_of, prefix_of, slot_of_lock
from private_server import free_port
from swarms import DAY_MS, PROBES, Swarm

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

    def __init__(self, *arguments):
        self.port = free_port()
        super().__init__("--bind", "127.0.0.1", "--port", str(self.port), *arguments)

    @property
    def name(self):
        return f"127.0.0.1:{self.port}"

    def is_running(self):
        return self.process.poll() is None


class Shards:
    """Servers that have names; who has which partition is computed anew here."""

    def __init__(self, servers):
        self.servers = servers
        self.owners = [max(self.servers, key=lambda server: (mix(fnv1a(server.name) ^ partition), server.name))
                       for partition in range(N_PARTITIONS)]

    def __enter__(self):
        return self

    def masters(self):
        return self.servers

    def owner(self, slot):
        return self.owners[PARTITION_SLOTS.index(slot)]

    def owner_of(self, name):
        return self.owner(slot_of_lock(name))

    @staticmethod
    def key(word, name):
        """Of the partition of a lock."""
        return prefix_of(name) + word

    def names_on(self, server, count):
        """Of locks that it has, each in a partition of its own."""
        found = {}
        for number in itertools.count():
            partition = partition_of(f"lock{number}")
            if self.owners[partition] is server:
                found.setdefault(partition, f"lock{number}")
            if len(found) == count:
                return list(found.values())

    def spread(self, count):
        """So many names of each server."""
        return [name for server in self.servers for name in self.names_on(server, count)]


class SingleShards(Shards):
    """`with SingleShards(3) as shards:`"""

    def __init__(self, count, arguments=()):
        made = []
        try:
            made += [Shard(*arguments) for _ in range(count)]
        except BaseException:
            end(made)
            raise
        super().__init__(made)

    def __exit__(self, *_):
        end(self.servers)

    def url(self, *servers, query=""):
        return "redis+shards://" + ",".join(server.name for server in servers or self.servers) + query


def end(servers):
    for server in servers:
        server.stop()


@contextlib.contextmanager
def sharded(world, count, arguments=()):
    """What the world asks behind the library's back is asked there."""
    with SingleShards(count, arguments) as shards:
        with world.asking(Behind(shards)):
            yield shards


def keys_of(server, kind):
    """Of all partitions, with what is of none."""
    return sorted(server.ask("KEYS", f"rql:*:{kind}") + server.ask("KEYS", f"rql:{kind}"))


def held_with_heartbeats(world, kind, shards, names):
    """For a day, by a process of its own whose hosts are known wherever it holds one. Its actor."""
    client = world.client(world.remote(), url=shards.url())
    Swarm(world, client, **PROBES)
    holder = world.actor(kind, client)
    for name in names:
        held = holder.acquire(name, ttl_ms=DAY_MS)
        wait_until(lambda name=name, held=held: shards.owner_of(name).ask(
            "HEXISTS", shards.key("swarm:hsts", name), held.outcome.hst_id), "it is known")
    return holder


def rql(url, *words, told="", codes=(0,)):
    """What the program prints; and what it tells of beside that."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("RQL_")}
    done = subprocess.run([os.environ["RQL_TEST_PROGRAM"], *words, "--url", url], capture_output=True, text=True,
                          check=False, env=env)
    check_equal((done.returncode in codes, done.stderr), (True, told), f"exit {done.returncode}")
    return done.stdout
