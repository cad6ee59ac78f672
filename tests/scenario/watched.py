"""Masters, their replicas, and the sentinels that watch them: real ones, which see each other within a second."""
import contextlib

import private_server
from cluster import Behind
from checks import wait_until
from private_server import PrivateServer, free_port, leave_out_in_cluster
from resp import Refused, ServerError
from servers import Servers
from shards import Shards

NAME = "mymaster"
WATCHER = "watcher"  # of a master that wants a password
DOWN_AFTER_MS = 500
# Sentinel's own pauses, for tests; as they are all of this takes seconds more. What it has heard of a replica must not
# be older than five times that of pings, and where a master is down it asks once a second. What sentinels say of
# themselves they say as often only until they know each other: four times that later the others undo a promotion.
PERIOD_MS = 100
PERIODS = {"INFO-PERIOD": PERIOD_MS, "PING-PERIOD": 250, "ASK-PERIOD": PERIOD_MS}
PUBLISH, PUBLISH_MS = "PUBLISH-PERIOD", 2000


class Node(PrivateServer):
    """A master or a replica, by TCP; its socket is for what asks behind the library's back. With a password, replicas
    and sentinels log in as somebody else."""

    def __init__(self, password, *arguments):
        self.port, self.password = free_port(), password
        if password:
            arguments += ("--requirepass", password, "--user", WATCHER, "on", ">" + password, "~*", "&*", "+@all",
                          "--masteruser", WATCHER, "--masterauth", password)
        super().__init__("--port", str(self.port), "--repl-diskless-sync-delay", "0", *arguments)

    def follow(self, master):
        """It is launched again, as a replica."""
        self.launch("--replicaof", "127.0.0.1", str(master.port))

    def cut_off(self):
        """From replicas and sentinels; not from clients."""
        self.ask("ACL", "SETUSER", WATCHER, "off")
        self.ask("CLIENT", "KILL", "USER", WATCHER)

    def let_in(self):
        """All come back: who was refused would ask without a login for a while."""
        self.ask("ACL", "SETUSER", WATCHER, "on")
        self.end_connections()

    def role(self):
        """None: it ends all connections just now, because it was told to be another."""
        with contextlib.suppress(ServerError, OSError):
            return self.ask("ROLE")[0]

    def n_clients(self):
        """Connections of the library."""
        return len([line for line in self.ask("CLIENT", "LIST").splitlines() if " name=rql" in line])


class Sentinel(private_server.Sentinel):
    """Masters by their names."""

    def __init__(self, masters, quorum, password):
        self.password, self.masters, self.quorum = password, masters, quorum
        super().__init__()

    def command(self):
        lines = ["requirepass " + self.password] if self.password else []
        for name, master in self.masters.items():
            lines += [f"sentinel monitor {name} 127.0.0.1 {master.port} {self.quorum}",
                      f"sentinel down-after-milliseconds {name} {DOWN_AFTER_MS}",
                      f"sentinel failover-timeout {name} 2000"]
            if master.password:
                lines += [f"sentinel auth-user {name} {WATCHER}", f"sentinel auth-pass {name} {master.password}"]
        self.lines = lines
        return super().command()

    def set_period(self, name, period_ms):
        """Redis 7 can be told to."""
        with contextlib.suppress(Refused):
            self.ask("SENTINEL", "DEBUG", name, period_ms)

    def n_listeners(self):
        """Clients that it tells of failovers."""
        return self.ask("CLIENT", "LIST", "TYPE", "pubsub").count("\n")

    def state(self, name=NAME):
        said = self.ask("SENTINEL", "MASTER", name)
        return dict(zip(said[::2], said[1::2]))


class Group:
    """One master with its replicas."""

    def __init__(self, name, n_replicas, password=None, arguments=()):
        self.name, self.sentinels = name, []
        self.nodes = [Node(password, *arguments)]
        self.nodes += [Node(password, *arguments, "--replicaof", "127.0.0.1", str(self.nodes[0].port))
                       for _ in range(n_replicas)]

    def has_replicas(self):
        """By their word and the master's, who may not send them anything yet."""
        return (len(self.nodes[0].ask("ROLE")[2]) == len(self.nodes) - 1 and
                all(node.ask("ROLE")[3] == "connected" for node in self.nodes[1:]))

    def is_settled(self):
        wanted = (str(len(self.nodes) - 1), str(len(self.sentinels) - 1))
        states = [sentinel.state(self.name) for sentinel in self.sentinels]
        return all((state["num-slaves"], state["num-other-sentinels"]) == wanted for state in states)

    def ask(self, *words):
        """Of whoever is the master."""
        return self.named().ask(*words)

    def is_running(self):
        return self.named().process.poll() is None

    def named(self):
        """Whom the first sentinel that runs calls the master."""
        for sentinel in self.sentinels:
            if sentinel.process.poll() is None:
                port = int(sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.name)[1])
                return next(node for node in self.nodes if node.port == port)
        return None

    def await_next(self, old):
        """Another is the master, by all sentinels' word and its own."""
        def changed():
            node = self.named()
            return node is not old and node.role() == "master" and node
        return wait_until(changed, "another is the master")

    def await_demotion(self, old):
        """Of one that was master and is back, by the only sentinel, which waits for no other's word."""
        (sentinel,) = self.sentinels
        sentinel.set_period(PUBLISH, PERIOD_MS)
        wait_until(lambda: old.role() == "slave", "it is a replica now")

    def replicas(self):
        return [node for node in self.nodes if node is not self.named()]

    def await_replicas(self):
        """All others follow the master, as it knows and the sentinels."""
        n_others = len(self.nodes) - 1
        wait_until(lambda: len(self.named().ask("ROLE")[2]) == n_others, "its replicas are there")
        wait_until(lambda: "s_down" not in "".join(map(str, self.sentinels[0].ask("SENTINEL", "REPLICAS",
                                                                                  self.name))), "they are well")

    def never_fails_over(self):
        """Whatever becomes of the master in a minute."""
        for sentinel in self.sentinels:
            sentinel.ask("SENTINEL", "SET", self.name, "down-after-milliseconds", 60000)

    def failover(self):
        """By hand, with all alive."""
        old = self.named()

        def is_over():  # NOGOODSLAVE, until it has heard of them of late; it may also find that out later, and give up
            with contextlib.suppress(Refused):
                self.sentinels[0].ask("SENTINEL", "FAILOVER", self.name)
            return self.named() is not old
        wait_until(is_over, "the failover succeeds")
        return self.await_next(old)



def watch(groups, n_sentinels, password=None):
    """All of them are watched by these sentinels, and known to each."""
    wait_until(lambda: all(group.has_replicas() for group in groups), "they are replicas")
    masters = {group.name: group.nodes[0] for group in groups}
    sentinels = [Sentinel(masters, n_sentinels // 2 + 1, password) for _ in range(n_sentinels)]
    for sentinel in sentinels:
        for name, period_ms in {**PERIODS, PUBLISH: PERIOD_MS}.items():
            sentinel.set_period(name, period_ms)
    for group in groups:
        group.sentinels = sentinels
        wait_until(group.is_settled, "all sentinels know all")
    for sentinel in sentinels:
        sentinel.set_period(PUBLISH, PUBLISH_MS)
    return sentinels


def url_of(sentinels, names, login="", query=""):
    hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in sentinels)
    return f"redis+sentinel://{login}{hosts}/{','.join(names)}{query}"


class Watched(Group, Servers):
    """A master with all that it needs. `with Watched() as watched:`"""

    def __init__(self, n_replicas=2, n_sentinels=3, password=None, sentinel_password=None, arguments=()):
        leave_out_in_cluster("Sentinel")
        super().__init__(NAME, n_replicas, password, arguments)
        watch([self], n_sentinels, sentinel_password)

    def url(self, login="", query="", sentinels=None):
        return url_of(sentinels or self.sentinels, [self.name], login, query)

    def all_servers(self):
        return self.sentinels + self.nodes


class WatchedShards(Shards):
    """Several masters over which clients share the locks out, by their names, which have to differ."""

    def __init__(self, *names, n_replicas=1, n_sentinels=1):
        super().__init__([Group(name, n_replicas) for name in names])
        self.sentinels = watch(self.servers, n_sentinels)

    def all_servers(self):
        return self.sentinels + [node for group in self.servers for node in group.nodes]

    def url(self, *groups, query=""):
        return url_of(self.sentinels, [group.name for group in groups or self.servers], query=query)


@contextlib.contextmanager
def watched_shards(world, *names, **options):
    """What the world asks behind the library's back is asked there."""
    with WatchedShards(*names, **options) as watched, world.asking(Behind(watched)):
        yield watched


def behind(world, watched):
    """What the world asks behind the library's back is asked of the master."""
    return world.asking(watched.named().connection())


def await_asked(world, n_clients):
    """So many have asked there, since now."""
    since_us = int("".join(part.rjust(6, "0") for part in world.ask("TIME")))
    wait_until(lambda: world.ask("ZCOUNT", "rql:live", since_us, "+inf") >= n_clients, "they have asked there")


def await_replicated(watched):
    """Nothing that the master has done is missing elsewhere."""
    master = watched.named()
    def caught_up():
        _, offset, replicas = master.ask("ROLE")
        return all(int(replica[2]) >= offset for replica in replicas)
    wait_until(caught_up, "all is replicated")
