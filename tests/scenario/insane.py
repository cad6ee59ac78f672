"""A server that says what no server says: a relay in front of a real one that changes its replies.

Standard library only.
"""
import contextlib
import selectors
import socket
import threading

CHUNK = 1 << 16


def end_of_line(data, start):
    """Where the line ends that begins at `start`; 0: later."""
    return data.find(b"\r\n", start) + 2 if b"\r\n" in data[start:] else 0


def end_of_reply(data, start=0):
    """Where the reply ends that begins at `start`; 0: it is not whole yet. Of RESP2 alone: the server is a real one."""
    at = end_of_line(data, start)
    if at and data[start:start + 1] == b"$" and data[start + 1:start + 2] != b"-":
        at += int(data[start + 1:at - 2]) + 2
        return at if at <= len(data) else 0
    if at and data[start:start + 1] == b"*":
        for _ in range(int(data[start + 1:at - 2])):
            at = at and end_of_reply(data, at)
    return at


class Relayed(threading.Thread):
    """One connection of a client, and its own to the server."""

    def __init__(self, relay, client):
        super().__init__(daemon=True)
        self.relay, self.client, self.hears, self.n_sent = relay, client, False, 0
        self.server = socket.socket(socket.AF_UNIX)
        self.server.connect(relay.path)
        self.start()

    def run(self):
        with contextlib.suppress(OSError), self.client, self.server, selectors.DefaultSelector() as selector:
            for one in (self.client, self.server):
                selector.register(one, selectors.EVENT_READ)
            said = b""
            while not self.relay.is_over.is_set():
                ready = [key.fileobj for key, _ in selector.select()]
                if self.client in ready:
                    asked = self.client.recv(CHUNK)
                    self.hears = self.hears or b"SUBSCRIBE\r\n" in asked.upper()
                    self.server.sendall(asked)
                    if not asked:
                        return
                if self.server in ready:
                    got = self.server.recv(CHUNK)
                    if not got:
                        return
                    said = self.pass_on(said + got)

    def pass_on(self, said):
        """What is whole; answers with the rest."""
        end = end_of_reply(said)
        while end:
            reply, said = said[:end], said[end:]
            change = self.relay.change
            if change and (self.hears or not self.relay.changes_pushes_alone):
                self.relay.n_changed += 1
                reply = change(self, reply)
            self.send(reply)
            end = end_of_reply(said)
        return said

    def send(self, data):
        self.client.sendall(data)
        self.n_sent += len(data)

    def drip(self, data, pause_s):
        """Byte by byte, for as long as the relay is insane and the client stays."""
        for byte in data:
            self.send(bytes([byte]))
            if self.relay.is_sane.wait(pause_s):
                return b""
        return b""


class Relay:
    """`change` takes a connection and a reply, and answers what is sent in its place."""

    def __init__(self, path):
        self.path, self.change, self.changes_pushes_alone = path, None, False
        self.is_sane, self.is_over = threading.Event(), threading.Event()
        self.n_changed = 0
        self.connections = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.run, daemon=True)  # a scenario that fails leaves it
        self.thread.start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.connections.append(Relayed(self, connection))

    def go_mad(self, change, pushes_alone=False):
        self.is_sane.clear()
        self.changes_pushes_alone = pushes_alone
        self.change = change if callable(change) else lambda _connection, _reply: change

    def push(self, data):
        """Said at once to all who listen, and each time that the server tells them something."""
        self.go_mad(lambda _connection, reply: reply + data, pushes_alone=True)
        for connection in [one for one in self.connections if one.hears and one.is_alive()]:
            with contextlib.suppress(OSError):
                connection.send(data)

    def heal(self):
        """Replies come as they are; what a client was told meanwhile may have broken its connections."""
        self.change = None
        self.is_sane.set()

    def end(self):
        self.is_over.set()
        self.heal()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.client.shutdown(socket.SHUT_RDWR)
            connection.join()
