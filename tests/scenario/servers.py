"""Several servers, those that scenarios share, and a name for the one that clients are to use."""
import contextlib
import os

from private_server import PrivateServer, free_port, leave_out_in_cluster
from resp import Refused


@contextlib.contextmanager
def servers(*made):
    try:
        yield made
    finally:
        for server in made:
            server.stop()


# ---- servers that scenarios share ----

@contextlib.contextmanager
def shared(world, make, *words):
    """What make(*words) has made for this scenario or an earlier one. The next scenario uses it too, unless this one fails
    or has stopped, replaced or configured a server."""
    key = (make, *words)
    made = world.kept.pop(key, None)
    if made:
        made.wipe()
    else:
        made = make(*words)
        made.as_made = made.state()
    is_as_made = False
    try:
        yield made
        is_as_made = made.state() == made.as_made
    finally:
        if is_as_made:
            world.kept[key] = made
        else:
            made.stop()


class Servers:
    """Several that end together: those of all_servers()."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        for server in self.all_servers():
            server.stop()

    def state(self):
        """By which process each answers, and how it is configured. None: one does not answer."""
        if any(server.process.poll() is not None or server.is_frozen for server in self.all_servers()):
            return None
        return [(server.process.pid, server.ask("CONFIG", "GET", "*"), server.ask("ACL", "LIST"))
                for server in self.all_servers()]

    def wipe(self):
        """Removes data, scripts, clients and statistics."""
        for server in self.all_servers():
            for words in ("FLUSHALL",), ("SCRIPT", "FLUSH"), ("CONFIG", "RESETSTAT"):
                with contextlib.suppress(Refused):  # a replica is emptied by its master
                    server.ask(*words)
            server.end_connections()


def cluster_node():
    """Without slots. The port of its bus is chosen, too: by itself it might be too high."""
    leave_out_in_cluster("a node without slots")
    return PrivateServer("--port", str(free_port()), "--cluster-enabled", "yes", "--cluster-port", str(free_port()))


def master_and_replica(**options):
    """Of these options the replica's."""
    leave_out_in_cluster("a replica of one server")
    port = free_port()
    return servers(PrivateServer("--port", str(port)), PrivateServer("--replicaof", "127.0.0.1", str(port), **options))


def point(link, server):
    """A name that clients connect to, and who answers to it; connections that are there stay with theirs."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(link)
    os.symlink(server.path, link)
