"""What nodes of a cluster say to each other, through relays that can tell who speaks: so that some can be cut off from
others, and clients from nobody."""
import socket

from harness import Proxy

HEAD, SENDER = 80, slice(40, 80)  # of each message of the bus: its first bytes, and who has sent it


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
