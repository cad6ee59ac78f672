"""What every Python test needs that has a redis-server of its own. Standard library only."""
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PATIENCE_S = 20


def die_with_parent():
    """PR_SET_PDEATHSIG: no server outlives a test that was killed."""
    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))


def encoded(words):
    """One command as it is sent; words are bytes, or anything with a text."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def wait_until(condition, what, patience_s=PATIENCE_S):
    """Waits for a condition and answers its value; a test never sleeps for a fixed time."""
    end = time.monotonic() + patience_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("never happened: " + what)
        time.sleep(0.005)


def find_server():
    return (os.environ.get("RQL_TEST_REDIS") or shutil.which("redis-server")
            or shutil.which("valkey-server"))


class ServerError(Exception):
    """The server has ended, or does not start."""


class Refused(Exception):
    """The server answers with an error."""


class Connection:
    """To the server's Unix socket; what is in error raises Refused."""

    def __init__(self, path, timeout_s=None):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout_s)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb", 1 << 16)

    def read(self):
        line = self.file.readline()
        if not line:
            raise ServerError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            size = int(rest)
            return None if size < 0 else self.file.read(size + 2)[:-2].decode(errors="replace")
        if kind == b"*":
            return None if rest == b"-1" else [self.read() for _ in range(int(rest))]
        if kind == b"-":
            raise Refused(rest.decode())
        return int(rest) if kind == b":" else rest.decode()

    def call(self, *words):
        self.socket.sendall(encoded(words))
        return self.read()

    def close(self):
        self.file.close()
        self.socket.close()


class PrivateServer:
    """A redis-server on a Unix socket in a fresh folder; it can be killed and launched again."""

    def __init__(self, *arguments, env=None):
        self.folder = tempfile.mkdtemp(prefix="rql-test-")
        self.path = self.folder + "/s"
        self.url = "unix://" + self.path
        self.arguments, self.env = arguments, env
        self.launch()

    def launch(self):
        self.process = subprocess.Popen(
            [find_server(), "--port", "0", "--unixsocket", self.path, "--dir", self.folder,
             "--save", "", "--appendonly", "no", "--logfile", "log", *self.arguments],
            stdin=subprocess.DEVNULL, preexec_fn=die_with_parent,
            env={**os.environ, **(self.env or {})})
        wait_until(self.is_up, "the server answers")

    def is_up(self):
        if self.process.poll() is not None:
            raise ServerError("the server has ended: " + self.log())
        try:
            connection = Connection(self.path, PATIENCE_S)
        except OSError:
            return False
        try:
            return connection.call("PING") == "PONG"
        except Refused as refused:  # without a password it is up as well
            return not str(refused).startswith("LOADING")
        except ServerError:
            return False
        finally:
            connection.close()

    def log(self):
        """What the server says of itself."""
        with open(self.folder + "/log", encoding="utf-8", errors="replace") as file:
            return file.read()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.kill()  # also when a test has stopped it
        shutil.rmtree(self.folder)
