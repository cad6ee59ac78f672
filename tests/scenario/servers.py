"""Several servers, and a name for the one that clients are to use."""
import contextlib
import os
import socket

from private_server import PrivateServer


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextlib.contextmanager
def servers(*made):
    try:
        yield made
    finally:
        for server in made:
            server.stop()


def master_and_replica(**options):
    """Of these options the replica's."""
    port = free_port()
    return servers(PrivateServer("--port", str(port)), PrivateServer("--replicaof", "127.0.0.1", str(port), **options))


def point(link, server):
    """A name that clients connect to, and who answers to it; connections that are there stay with theirs."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(link)
    os.symlink(server.path, link)
