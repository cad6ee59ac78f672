"""A cluster of servers: masters, and a replica of each or none. Its slots can be moved, its masters killed."""
import itertools
import time

from servers import START_SECONDS, Redis, Unavailable, free_port

N_SLOTS = 16384
KEYS_AT_ONCE = 100
MIGRATE_MS = 5000


def await_true(condition, words):
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise Unavailable(f"the cluster does not come to this: {words}")
        time.sleep(0.02)


class Node(Redis):
    def __init__(self, scratch, number, node_timeout_ms):
        self.name = f"redis-node-{number}"
        super().__init__(scratch)
        self.bus_port = free_port()
        self.words = ("--cluster-enabled", "yes", "--cluster-port", str(self.bus_port),
                      "--cluster-node-timeout", str(node_timeout_ms), "--repl-diskless-sync-delay", "0",
                      "--cluster-allow-replica-migration", "no")

    def start(self):
        super().start()
        self.id = self.ask("CLUSTER", "MYID")
        return self

    def cluster_info(self):
        return dict(line.split(":", 1) for line in self.ask("CLUSTER", "INFO").splitlines())

    def known(self):
        """What it says of each node, by id: flags, and ranges of slots."""
        lines = [line.split() for line in self.ask("CLUSTER", "NODES").splitlines()]
        return {line[0]: (line[2], line[8:]) for line in lines}

    def is_well(self, n_nodes):
        """It knows all others, has its master's data, and says that the cluster works."""
        known = self.known()
        return (self.cluster_info()["cluster_state"] == "ok" and len(known) == n_nodes
                and all("handshake" not in flags and "fail" not in flags for flags, _ in known.values())
                and self.info("replication").get("master_link_status", "up") == "up")

    def usage(self):
        """Also what it told other nodes of what was published."""
        info = self.cluster_info()
        told = sum(int(info.get(f"cluster_stats_messages_{kind}_sent", 0)) for kind in ("publish", "publishshard"))
        return {**super().usage(), "bus": told}


class Cluster:
    """To be stopped also when it did not start."""

    def __init__(self, scratch, n_masters, n_replicas=0, node_timeout_ms=2000):
        self.n_masters = n_masters
        self.nodes = [Node(scratch, number, node_timeout_ms) for number in range(n_masters * (1 + n_replicas))]

    def start(self):
        for node in self.nodes:
            node.start()
        masters, replicas = self.nodes[:self.n_masters], self.nodes[self.n_masters:]
        bounds = [N_SLOTS * number // self.n_masters for number in range(self.n_masters + 1)]
        for number, node in enumerate(self.nodes, 1):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", str(number))
        for master, first, end in zip(masters, bounds, bounds[1:]):
            master.ask("CLUSTER", "ADDSLOTSRANGE", str(first), str(end - 1))
        for node, other in itertools.combinations(self.nodes, 2):
            node.ask("CLUSTER", "MEET", "127.0.0.1", str(other.port), str(other.bus_port))
        await_true(lambda: all(len(node.known()) == len(self.nodes) for node in self.nodes), "all know all")
        for replica, master in zip(replicas, itertools.cycle(masters)):
            await_true(lambda r=replica, m=master: r.ask("CLUSTER", "REPLICATE", m.id) == "OK", "replicas")
        self.await_well()
        return self

    def stop(self):
        for node in self.nodes:
            node.stop()

    def await_well(self):
        await_true(lambda: all(node.is_well(len(self.nodes)) for node in self.nodes), "all is well")

    def url(self):
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def usage(self):
        """Of all of them together, and the commands of each."""
        each = [node.usage() for node in self.nodes]
        total = {name: sum(one[name] for one in each) for name in each[0]}
        return {**total, **{f"node {number}": one["commands"] for number, one in enumerate(each)}}

    # ---- what becomes of it ----

    def running(self):
        return [node for node in self.nodes if node.process.poll() is None]

    def masters(self):
        """Those that have slots, as each says itself."""
        said = ((node, node.known()[node.id]) for node in self.running())
        return [node for node, (flags, ranges) in said if "master" in flags and ranges]

    def owner(self, slot):
        """By its own word. None: nobody has it just now."""
        for node in self.running():
            flags, ranges = node.known()[node.id]
            bounds = [one.split("-") for one in ranges if "[" not in one]
            if "master" in flags and any(int(bound[0]) <= slot <= int(bound[-1]) for bound in bounds):
                return node
        return None

    def move(self, slot, source, to):
        """With its keys, as `redis-cli --cluster reshard` does."""
        to.ask("CLUSTER", "SETSLOT", str(slot), "IMPORTING", source.id)
        source.ask("CLUSTER", "SETSLOT", str(slot), "MIGRATING", to.id)
        while keys := source.ask("CLUSTER", "GETKEYSINSLOT", str(slot), str(KEYS_AT_ONCE)):
            source.ask("MIGRATE", "127.0.0.1", str(to.port), '""', "0", str(MIGRATE_MS), "KEYS", *keys)
        for node in (to, source):
            node.ask("CLUSTER", "SETSLOT", str(slot), "NODE", to.id)

    def kill(self, node):
        node.process.kill()
        node.process.wait()
