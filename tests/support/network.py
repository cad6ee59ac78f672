"""What tests put in the place of a server, or in front of one. Standard library only."""
import contextlib
import itertools
import socket
import struct
import threading
import time

from private_server import leave_out_in_cluster

CHUNK = 1 << 16
RESET = struct.pack("ii", 1, 0)  # closing is a reset then


def hang_up(one):
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


class Listener:
    """Accepts connections at a Unix socket, or at a port of 127.0.0.1, and serves each in a thread of its own."""

    def __init__(self, path=None):
        if path:
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(path)
            self.listener.listen()
            self.url = f"unix://{path}"
        else:
            self.listener = socket.create_server(("127.0.0.1", 0))
            self.port = self.listener.getsockname()[1]
            self.url = f"redis://127.0.0.1:{self.port}"
        self.came_s = []  # when each connection came
        self.open, self.threads = [], []
        self.start(self.accept)

    def start(self, function, *arguments):
        thread = threading.Thread(target=function, args=arguments, daemon=True)  # a test that fails may leave it
        self.threads.append(thread)
        thread.start()
        return thread

    def accept(self):
        with contextlib.suppress(OSError):  # until stop()
            while True:
                connection, _ = self.listener.accept()
                self.came_s.append(time.monotonic())
                self.open.append(connection)
                self.start(self.serve_one, connection)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def serve_one(self, connection):
        with contextlib.suppress(OSError), connection:
            self.serve(connection)

    def serve(self, connection):
        raise NotImplementedError

    def cut(self):
        """Ends all connections that there are."""
        for one in list(self.open):
            hang_up(one)

    def stop(self):
        hang_up(self.listener)
        self.listener.close()
        self.cut()
        for thread in self.threads:
            thread.join()


class PlayedServer(Listener):
    """On each connection, answers whatever it receives with the next of its lines; then it may reset the connection."""

    def __init__(self, *lines, resets=False):
        self.lines, self.resets = lines, resets
        super().__init__()

    def serve(self, connection):
        lines = list(self.lines)
        while connection.recv(CHUNK):
            if lines:
                connection.sendall(lines.pop(0).encode("latin-1"))
            if not lines and self.resets:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                return


class Link:
    """A connection through a proxy: a client is near, a server far."""

    def __init__(self, proxy, near, far):
        self.proxy, self.near, self.far = proxy, near, far
        self.sender = ""  # of nodes of a cluster

    def run(self):
        """Returns when one of both ends has ended."""
        back = self.proxy.start(self.carry, self.far, self.near)
        self.carry(self.near, self.far)
        back.join()

    def carry(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                time.sleep(self.proxy.delay_s)
                if not self.proxy.hand_on(self, sink, data):
                    break
        self.hang_up()

    def hang_up(self):
        hang_up(self.near)
        hang_up(self.far)


class Proxy(Listener):
    """Leads its connections to the targets in turn; a target is the path of a Unix socket, or a port of 127.0.0.1. All
    bytes arrive later by delay_s. A subclass may change what is handed on."""
    link = Link

    def __init__(self, *targets, path=None, delay_s=0):
        if any(isinstance(target, str) for target in targets):
            leave_out_in_cluster("a proxy of one server")
        self.targets, self.delay_s, self.links = itertools.cycle(targets), delay_s, []
        super().__init__(path)

    def serve(self, connection):
        with self.connected(connection) as link:
            link.run()

    @contextlib.contextmanager
    def connected(self, near):
        target = next(self.targets)
        is_port = isinstance(target, int)
        with socket.socket(socket.AF_INET if is_port else socket.AF_UNIX) as far:
            far.connect(("127.0.0.1", target) if is_port else target)
            self.open.append(far)
            for one in (near, far):
                if one.family == socket.AF_INET:
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.links.append(self.link(self, near, far))
            yield self.links[-1]

    def hand_on(self, link, sink, data):
        """Returns whether the connection goes on."""
        sink.sendall(data)
        return True
