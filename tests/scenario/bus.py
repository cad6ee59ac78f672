"""What nodes of a cluster say to each other, through relays that can tell who speaks: so that some can be cut off from
others, and clients from nobody."""
import contextlib
import socket
import threading

HEAD, SENDER = 80, slice(40, 80)  # of each message of the bus: its first bytes, and who has sent it


class Relay(threading.Thread):
    """In front of one node's bus."""

    def __init__(self, node_port, is_cut):
        super().__init__(daemon=True)
        self.node_port, self.is_cut = node_port, is_cut
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.mutex = threading.Lock()
        self.pairs = []  # who speaks, and both sockets
        self.start()

    def run(self):
        with contextlib.suppress(OSError):  # until end()
            while True:
                threading.Thread(target=self.serve, args=[self.listener.accept()[0]], daemon=True).start()

    def serve(self, speaker):
        with contextlib.suppress(OSError), speaker, socket.socket() as node:
            head = speaker.recv(HEAD, socket.MSG_WAITALL)
            who = head[SENDER].decode(errors="replace")
            with self.mutex:
                if len(head) < HEAD or self.is_cut(who):
                    return
                self.pairs.append((who, speaker, node))
            node.connect(("127.0.0.1", self.node_port))
            node.sendall(head)
            back = threading.Thread(target=pump, args=[node, speaker], daemon=True)
            back.start()
            pump(speaker, node)
            back.join()

    def cut(self):
        """All that may not speak any more."""
        with self.mutex:
            for _, *sockets in [pair for pair in self.pairs if self.is_cut(pair[0])]:
                for one in sockets:
                    hang_up(one)

    def end(self):
        hang_up(self.listener)
        self.listener.close()
        for _, *sockets in self.pairs:
            for one in sockets:
                hang_up(one)


def hang_up(one):
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


def pump(source, sink):
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    hang_up(source)
    hang_up(sink)


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
            relay.cut()

    def heal(self):
        self.apart = set()

    def end(self):
        for relay in self.relays:
            relay.end()
