"""Commands and replies of a server, and a connection to one. Standard library only."""
import socket


class ServerError(Exception):
    """The server has ended, or does not start."""


class Refused(Exception):
    """The server answers with an error."""


def encoded(words):
    """One command as it is sent; words are bytes, or anything with a text, as Connection.read() returns it."""
    parts = [word if isinstance(word, bytes) else str(word).encode(errors="surrogateescape") for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


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


class Connection:
    """To the server's Unix socket, or to an address; what is in error raises Refused."""

    def __init__(self, place, timeout_s=None):
        is_path = isinstance(place, str)
        family = socket.AF_UNIX if is_path else socket.AF_INET6 if ":" in place[0] else socket.AF_INET
        self.socket = socket.socket(family)
        self.socket.settimeout(timeout_s)
        self.socket.connect(place)
        self.file = self.socket.makefile("rb", 1 << 16)

    def read(self):
        line = self.file.readline()
        if not line:
            raise ServerError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            size = int(rest)
            return None if size < 0 else self.file.read(size + 2)[:-2].decode(errors="surrogateescape")
        if kind in b"*>%":
            count = int(rest) * (2 if kind == b"%" else 1)
            return None if count < 0 else [self.read() for _ in range(count)]
        if kind == b"_":
            return None
        if kind == b"-":
            raise Refused(rest.decode())
        return int(rest) if kind == b":" else rest.decode()

    def send(self, data):
        """Commands as they are sent; their answers are for read()."""
        self.socket.sendall(data)

    def tell(self, *words):
        """Does not wait for the answer."""
        self.send(encoded(words))

    def call(self, *words):
        self.tell(*words)
        return self.read()

    def close(self):
        self.file.close()
        self.socket.close()
