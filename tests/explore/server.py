"""A private redis-server whose time of day is ours, spoken to in whole batches."""
import ctypes
import hashlib
import mmap
import os
import pathlib
import signal
import socket
import struct
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
KEYS = ("rql:lock:x", "rql:lock_queue:x", "rql:req:x", "rql:live", "rql:fence")
EMPTY = '[{},"-2",{},"-2",{},"-2",{},"-2",""]'  # as dump.lua says it
START_SECONDS = 20


class ServerError(Exception):
    """The server does not start, or has ended."""


class ScriptError(Exception):
    """A script failed."""


def die_with_parent():
    """PR_SET_PDEATHSIG: no server outlives a test that was killed."""
    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))


def encoded(words):
    out = [b"*%d\r\n" % len(words)]
    for word in words:
        raw = word.encode()
        out.append(b"$%d\r\n%s\r\n" % (len(raw), raw))
    return b"".join(out)


class Connection:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb", 1 << 16)

    def read(self):
        line = self.file.readline()
        if not line:
            raise ServerError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            size = int(rest)
            return None if size < 0 else self.file.read(size + 2)[:-2].decode()
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        if kind == b"-":
            raise ScriptError(rest.decode())
        return int(rest) if kind == b":" else rest.decode()

    def close(self):
        self.file.close()
        self.socket.close()


class Server:
    """Use it in a `with`."""

    def __init__(self, program, preload, scripts):
        """scripts: name -> text, without dump and restore."""
        self.folder = tempfile.TemporaryDirectory(prefix="rql-explore-")
        self.program, self.preload = program, preload
        self.texts = dict(scripts)
        for own in ("dump", "restore"):
            self.texts[own] = (HERE / f"{own}.lua").read_text("ascii")
        self.ears = set()

    def __enter__(self):
        clock = os.path.join(self.folder.name, "clock")
        path = os.path.join(self.folder.name, "s")
        pathlib.Path(clock).write_bytes(bytes(8))
        with open(clock, "r+b") as file:
            self.clock = mmap.mmap(file.fileno(), 8)
        self.set_time(1_700_000_000_000_000)
        self.process = subprocess.Popen(
            [self.program, "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no",
             "--dir", self.folder.name, "--enable-debug-command", "local"],
            env={**os.environ, "LD_PRELOAD": self.preload, "RQL_CLOCK": clock},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=die_with_parent)
        try:
            self.connect(path)
        except BaseException:
            self.stop()
            raise
        return self

    def connect(self, path):
        end = time.monotonic() + START_SECONDS
        self.line = None
        while not self.line:
            try:
                self.line = Connection(path)
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise ServerError(f"{self.program} does not start with {self.preload}") from None
                time.sleep(0.01)
        self.ear = Connection(path)
        self.hashes = {}
        self.line.socket.sendall(encoded(("DEBUG", "SET-ACTIVE-EXPIRE", "0")))
        self.line.read()
        for name, text in self.texts.items():
            self.load(name, text)

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()

    def __exit__(self, *_):
        self.line.close()
        self.ear.close()
        self.stop()

    def load(self, name, text):
        self.line.socket.sendall(encoded(("SCRIPT", "LOAD", text)))
        self.hashes[name] = self.line.read()
        if self.hashes[name] != hashlib.sha1(text.encode()).hexdigest():
            raise ServerError(f"{name}: loaded as {self.hashes[name]}")

    def set_time(self, now_us):
        self.clock[:8] = struct.pack("q", now_us)

    def call(self, name, *words):
        return encoded(("EVALSHA", self.hashes[name], str(len(KEYS)), *KEYS, *words))

    def set_ears(self, wanted):
        """Which clients' channels are listened to from now on."""
        changes = [("SUBSCRIBE", one) for one in wanted - self.ears]
        changes += [("UNSUBSCRIBE", one) for one in self.ears - wanted]
        self.ear.socket.sendall(b"".join(encoded((word, "rql:wake:" + one)) for word, one in changes))
        left = len(changes)
        while left:
            left -= self.ear.read()[0] != "message"
        self.ears = set(wanted)

    def hear_out(self):
        """Reads what was said: the dump says it as well, and unread it would fill the server."""
        self.ear.socket.sendall(encoded(("PING",)))
        while self.ear.read() not in ("PONG", ["pong", ""]):
            pass

    def run(self, calls):
        """calls: (contents before, name of the script, its words); each on its own.
        Returns (answer, contents after) of each."""
        out = []
        for contents, name, words in calls:
            out.append(self.call("restore", contents))
            out.append(self.call(name, *words))
            out.append(self.call("dump"))
        self.line.socket.sendall(b"".join(out))
        answers = []
        for _ in calls:
            self.line.read()
            answers.append((self.line.read(), self.line.read()))
        self.hear_out()
        return answers
