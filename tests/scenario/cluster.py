"""A cluster of real servers: one with all slots, or several masters with their replicas."""
import contextlib
import itertools
import re
import socket
import time

from harness import PATIENCE_S, wait_until
from network import Proxy
from partitions import (N_PARTITIONS, N_SLOTS, named, partition_of, plain, prefix_in, prefix_of, slot_of, slot_of_lock,
                        tag_of)
from private_server import PrivateServer, free_port, leave_out_in_cluster
from resp import Refused, ServerError
from servers import Servers, shared

NODE_TIMEOUT_MS = 2000
KEYS_AT_ONCE = 100
MIGRATE_MS = 5000
# What becomes of replicas is for the tests to say. A node that starts does not write for two seconds: Redis' own pause.
SETTINGS = ("--bind", "127.0.0.1", "--cluster-enabled", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT_MS),
            "--cluster-allow-replica-migration", "no", "--repl-diskless-sync-delay", "0",
            "--repl-ping-replica-period", "1")  # from the first on a replica is listed
HEAD, SENDER = 80, slice(40, 80)  # of each message of the bus: its first bytes, and who has sent it
PARTITION_SLOTS = [slot_of(tag_of(partition)) for partition in range(N_PARTITIONS)]


# ---- what the nodes say to each other: some can be cut off from others, and clients from nobody ----

class Relay(Proxy):
    """In front of one node's bus."""

    def __init__(self, node_port, is_cut):
        self.is_cut = is_cut
        super().__init__(node_port)

    def serve(self, connection):
        head = connection.recv(HEAD, socket.MSG_WAITALL)
        with self.connected(connection) as link:
            link.sender = head[SENDER].decode(errors="replace")
            if len(head) == HEAD and not self.is_cut(link.sender):  # looked at when cut_senders() can find the link
                link.far.sendall(head)
                link.run()

    def cut_senders(self):
        """All that may not speak any more."""
        for link in list(self.links):
            if self.is_cut(link.sender):
                link.hang_up()


class Bus:
    """Of a cluster."""

    def __init__(self):
        self.relays, self.apart = [], set()

    def relay(self, node):
        """In front of it; it may have no id yet."""
        made = Relay(node.bus_port, lambda who: bool(self.apart) and (who in self.apart) != (node.id in self.apart))
        self.relays.append(made)
        return made

    def split(self, nodes):
        """They hear no other, and no other hears them, until heal()."""
        self.apart = {node.id for node in nodes}
        for relay in self.relays:
            relay.cut_senders()

    def heal(self):
        self.apart = set()

    def end(self):
        for relay in self.relays:
            relay.stop()


# ---- the nodes ----

class Node(PrivateServer):
    """By TCP; its socket is for what asks behind the library's back. Killed and launched again it is who it was. With a
    certificate and its key clients may come by TLS as well, to its tls_port."""

    def __init__(self, bus, *arguments, certificate=None):
        if certificate:
            arguments = ("--tls-cluster", "yes", *arguments)  # else the nodes do not tell each other of that port
        self.port, self.bus_port = free_port(), free_port()
        self.relay = bus.relay(self)
        super().__init__("--port", str(self.port), "--cluster-port", str(self.bus_port),
                         "--cluster-announce-bus-port", str(self.relay.port), *SETTINGS, *arguments,
                         certificate=certificate)
        self.id = self.ask("CLUSTER", "MYID")

    def __repr__(self):
        return f"node {self.id[:6]} on {self.port}"

    def is_running(self):
        """It answers."""
        return self.process.poll() is None and not self.is_frozen

    def come_back(self):
        """Whether it was killed or stands still."""
        if self.process.poll() is not None:
            self.launch()
        elif self.is_frozen:
            self.go_on()

    def meet(self, other):
        self.ask("CLUSTER", "MEET", "127.0.0.1", other.port, other.relay.port)

    def info(self, section, field):
        return re.search(rf"^{field}:(\S*)", self.ask("INFO", section), re.MULTILINE).group(1)

    def is_master(self):
        return self.info("replication", "role") == "master"

    def follows(self, master):
        return not self.is_master() and self.info("replication", "master_port") == str(master.port)

    def is_well(self):
        """The cluster works, as far as it sees; and it has its master's data."""
        return ("cluster_state:ok" in self.ask("CLUSTER", "INFO")
                and (self.is_master() or self.info("replication", "master_link_status") == "up"))

    def n_keys(self):
        return self.ask("DBSIZE")

    def n_calls(self):
        """How often each command was called, by its name in small letters."""
        said = re.findall(r"^cmdstat_(\S+):calls=(\d+)", self.ask("INFO", "commandstats"), re.MULTILINE)
        return {name: int(number) for name, number in said}

    def n_scripts(self):
        """How many scripts were called."""
        calls = self.n_calls()
        return calls.get("evalsha", 0) + calls.get("eval", 0)

    def n_errors(self, what):
        found = re.search(rf"errorstat_{what}:count=(\d+)", self.ask("INFO", "errorstats"))
        return int(found.group(1)) if found else 0

    def await_error(self, what):
        """It has answered so, MOVED for example."""
        wait_until(lambda: self.n_errors(what), f"it says {what}")

    def known(self):
        """Those that it has met, itself among them, by id: what it says of each."""
        lines = [line.split() for line in self.ask("CLUSTER", "NODES").splitlines()]
        return {line[0]: line[2:] for line in lines}

    def epoch(self):
        """The cluster's. Whose is lower does not keep a slot that it is given."""
        return re.search(r"cluster_current_epoch:(\d+)", self.ask("CLUSTER", "INFO")).group(1)

    def map(self):
        """Ranges of slots, the port of their master, and those of its replicas that are well."""
        return sorted((first, last, master[1], sorted(replica[1] for replica in replicas))
                      for first, last, master, *replicas in self.ask("CLUSTER", "SLOTS"))


class Partitioned(Servers):
    """Several masters that share the partitions of the locks."""

    @staticmethod
    def key(word, name):
        """Of the partition of a lock."""
        return prefix_of(name) + word

    def owner_of(self, name):
        """Of a lock."""
        return self.owner(slot_of_lock(name))

    def names_on(self, server, count):
        """Of locks that it has, each in a partition of its own."""
        partitions, found = self.partitions_of(server), {}
        for number in itertools.count():
            partition = partition_of(f"lock{number}")
            if partition in partitions:
                found.setdefault(partition, f"lock{number}")
            if len(found) == min(count, len(partitions)):
                return list(found.values())

    def spread(self, count):
        """So many names of each master."""
        return [name for master in self.masters() for name in self.names_on(master, count)]


class Cluster(Partitioned):
    """`with Cluster(3, 1) as cluster:` three masters, and a replica of each. `arguments` are those of all servers,
    `certificates` those of each."""

    def __init__(self, n_masters=1, n_replicas=0, arguments=(), certificates=itertools.repeat(None)):
        leave_out_in_cluster("a cluster of its own")
        self.arguments, self.nodes, self.bus = arguments, [], Bus()
        try:
            self.nodes += [Node(self.bus, *arguments, certificate=certificate)
                           for certificate, _ in zip(certificates, range(n_masters * (1 + n_replicas)))]
            self.join(n_masters)
        except BaseException:
            self.stop()
            raise

    def join(self, n_masters):
        masters, others = self.nodes[:n_masters], self.nodes[n_masters:]
        for number, node in enumerate(self.nodes, 1):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", number)  # two that are equal would have to be told apart later
        bounds = [N_SLOTS * number // n_masters for number in range(n_masters + 1)]
        for master, first, end in zip(masters, bounds, bounds[1:]):
            master.ask("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
        for node, other in itertools.combinations(self.nodes, 2):
            node.meet(other)
        wait_until(self.all_know_all, "all know all")
        for replica, master in zip(others, itertools.cycle(masters)):
            replica.ask("CLUSTER", "REPLICATE", master.id)
        self.await_settled()

    def all_servers(self):
        return self.nodes

    def stop(self):
        super().stop()
        self.bus.end()

    def state(self):
        """With the map that each has of the cluster."""
        states = super().state()
        return states and (states, [node.map() for node in self.nodes], list(self.bus.apart))

    def wipe(self):
        super().wipe()
        self.await_replicated()

    def url(self, *nodes, login="", query=""):
        """With these for seeds; without any: all."""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in nodes or self.nodes)
        return f"redis+cluster://{login}{hosts}{query}"

    # ---- what it looks like ----

    def running(self):
        """Those that answer, and hear of the others."""
        return [node for node in self.nodes if node.is_running() and node.id not in self.bus.apart]

    def all_know_all(self):
        wanted = {node.id for node in self.nodes}
        met = [node.known() for node in self.running()]
        return all(set(known) == wanted and "handshake" not in str(known) for known in met)

    def is_settled(self):
        """All that run are well, say the same, and whoever is no master is one's replica by that."""
        running = self.running()
        said = running[0].map()
        listed = {port for _, _, master, replicas in said for port in (master, *replicas)}
        return (all(node.is_well() and node.map() == said for node in running)
                and len({node.epoch() for node in running}) == 1
                and all(node.port in listed or node.is_master() for node in running))

    def await_settled(self):
        wait_until(self.is_settled, "the cluster is settled", 2 * PATIENCE_S)

    def at(self, port):
        return next(node for node in self.nodes if node.port == port)

    def owner(self, slot):
        """By its own word. None: nobody has it just now."""
        for node in self.running():
            with contextlib.suppress(OSError, ServerError):  # it is stopped, or ends
                if any(first <= slot <= last and port == node.port for first, last, port, _ in node.map()):
                    return node
        return None

    def masters(self):
        """Those that have slots, in the order of these."""
        return [self.at(port) for port in dict.fromkeys(port for _, _, port, _ in self.running()[0].map())]

    def other_master(self, node):
        return next(one for one in self.masters() if one is not node)

    def replicas_of(self, master):
        return [node for node in self.running() if node.follows(master)]

    def slots_of(self, node):
        return [slot for first, last, port, _ in node.map() if port == node.port for slot in range(first, last + 1)]

    def partitions_of(self, node):
        slots = set(self.slots_of(node))
        return {partition for partition, slot in enumerate(PARTITION_SLOTS) if slot in slots}

    def await_replicated(self):
        """Nothing that a master has done so far is missing elsewhere."""
        goals = [(master, master.ask("ROLE")[1]) for master in self.masters()]
        wait_until(lambda: all(int(replica[2]) >= goal for master, goal in goals for replica in master.ask("ROLE")[2]),
                   "all is replicated")

    def end_first_pauses(self):
        """As if somebody who wants pauses had been here before."""
        for master in self.masters():
            for partition in self.partitions_of(master):
                master.ask("SET", prefix_in(partition) + "era", master.info("server", "run_id"))

    # ---- what becomes of it ----

    def await_successor(self, slot, old):
        """Of a master that is gone: as CLUSTER SLOTS shows it, of all others that answer."""
        def shown():
            maps = [node.map() for node in self.running() if node is not old]
            ports = {port for said in maps for first, last, port, _ in said if first <= slot <= last}
            return len(ports) == 1 and old.port not in ports and self.at(ports.pop())
        return wait_until(shown, f"another has the slots of {old}")

    def bring_back(self, node):
        """Whatever has become of it; nobody is cut off any more."""
        node.come_back()
        self.bus.heal()
        self.await_settled()

    def begin_to_migrate(self, slot, to):
        """Whose it was."""
        source = self.owner(slot)
        to.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id)
        return source

    def migrate_keys(self, slot, source, to, count=KEYS_AT_ONCE):
        """How many: up to that."""
        keys = source.ask("CLUSTER", "GETKEYSINSLOT", slot, count)
        if keys:
            source.ask("MIGRATE", "127.0.0.1", to.port, "", 0, MIGRATE_MS, "KEYS", *keys)
        return len(keys)

    def end_to_migrate(self, slot, source, to):
        """First to whom it belongs from now on; all others hear of it as well."""
        others = [node for node in self.running() if node.is_master() and node not in (source, to)]
        for node in (to, source, *others):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", to.id)

    def migrate(self, slot, to, count=KEYS_AT_ONCE, pause_s=0.0):
        """So many keys at once, and then a pause. How long it took."""
        begun = time.monotonic()
        source = self.begin_to_migrate(slot, to)
        while self.migrate_keys(slot, source, to, count):
            time.sleep(pause_s)
        self.end_to_migrate(slot, source, to)
        return time.monotonic() - begun

    def add(self):
        """A master without slots."""
        made = Node(self.bus, *self.arguments)
        self.nodes.append(made)
        for node in self.running():
            if node is not made:
                node.meet(made)
        wait_until(self.all_know_all, "all know the new one")
        self.await_settled()
        return made

    def remove(self, node, heir):
        """It goes in order: what it has is moved, and the others forget it."""
        for slot in self.slots_of(node):
            self.migrate(slot, heir)
        self.nodes.remove(node)
        for other in self.running():
            other.ask("CLUSTER", "FORGET", node.id)
        node.stop()


class Behind:
    """Asks whoever has the key, as if there were one server: a connection of the world's."""

    def __init__(self, cluster):
        self.cluster = cluster

    def call(self, *words):
        words = named(words)
        if words[0] in ("KEYS", "PUBSUB"):
            masters = [master for master in self.cluster.masters() if master.is_running()]
            return plain([said for master in masters for said in master.ask(*words)])
        slot = slot_of(words[1])
        return plain(wait_until(lambda: self.answers(slot, words), f"somebody answers {words}")[0])

    def answers(self, slot, words):
        """Or not just now."""
        owner = self.cluster.owner(slot)
        with contextlib.suppress(Refused, OSError, ServerError):
            return owner and [owner.ask(*words)]
        return None

    def close(self):
        """It has nothing open."""


@contextlib.contextmanager
def clustered(world, n_masters, n_replicas=0, arguments=()):
    """Shared with other scenarios. What the world asks behind the library's back is asked there."""
    with shared(world, Cluster, n_masters, n_replicas, arguments) as cluster, world.asking(Behind(cluster)):
        yield cluster
