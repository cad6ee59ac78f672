"""A server that says what no server says: a relay in front of a real one that changes its replies.

Standard library only.
"""
import contextlib
import threading

from network import Link, Proxy
from resp import end_of_reply


class Relayed(Link):
    """What its client is told may be changed."""
    hears, n_sent, said = False, 0, b""  # hears: the client has subscribed; said: not a whole reply so far

    def change_replies(self, data):
        """Those that are whole now."""
        self.said += data
        while end := end_of_reply(self.said):
            reply, self.said = self.said[:end], self.said[end:]
            change = self.proxy.change
            if change and (self.hears or not self.proxy.changes_pushes_alone):
                self.proxy.n_changed += 1
                reply = change(self, reply)
            self.send(reply)

    def send(self, data):
        self.near.sendall(data)
        self.n_sent += len(data)

    def drip(self, data, pause_s):
        """Byte by byte, for as long as the relay is insane and the client stays."""
        for byte in data:
            self.send(bytes([byte]))
            if self.proxy.is_sane.wait(pause_s):
                return b""
        return b""


class Relay(Proxy):
    """`change` takes a connection and a reply, and answers what is sent in its place."""
    link = Relayed

    def __init__(self, path):
        self.change, self.changes_pushes_alone, self.n_changed = None, False, 0
        self.is_sane = threading.Event()
        super().__init__(path)

    def hand_on(self, link, sink, data):
        if sink is link.far:
            link.hears = link.hears or b"SUBSCRIBE\r\n" in data.upper()
            sink.sendall(data)
        else:
            link.change_replies(data)
        return True

    def go_mad(self, change, pushes_alone=False):
        self.is_sane.clear()
        self.changes_pushes_alone = pushes_alone
        self.change = change if callable(change) else lambda _connection, _reply: change

    def push(self, data):
        """Said at once to all who listen, and each time that the server tells them something."""
        self.go_mad(lambda _connection, reply: reply + data, pushes_alone=True)
        for link in [one for one in self.links if one.hears]:
            with contextlib.suppress(OSError):
                link.send(data)

    def heal(self):
        """Replies come as they are; what a client was told meanwhile may have broken its connections."""
        self.change = None
        self.is_sane.set()

    def stop(self):
        self.heal()
        super().stop()
