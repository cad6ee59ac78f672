"""Several servers, and a name for the one that clients are to use."""
import contextlib
import os

from private_server import PrivateServer, Sentinel, free_port, leave_out_in_cluster  # noqa: F401


@contextlib.contextmanager
def servers(*made):
    try:
        yield made
    finally:
        for server in made:
            server.stop()


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
