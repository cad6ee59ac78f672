"""A private server, and the program under test. Standard library only."""
import contextlib
import json
import os
import pathlib
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import tap  # noqa: E402
from checks import PATIENCE_S, SLOW, Failure, LeftOut, check_equal, check_in, wait_until  # noqa: E402, F401
from delay import STALL_MS, delayed_ms, excuse, stolen_ms  # noqa: E402
from faulty_network import FaultyNetwork  # noqa: E402, F401
from partitions import plain  # noqa: E402
from network import Proxy  # noqa: E402, F401
from private_server import (Clock, PrivateServer, Sentinel, find_server, free_port, is_cluster,  # noqa: E402, F401
                            leave_out_in_cluster)
from tap import add  # noqa: E402, F401

STALL_OF_WITHDRAWAL_MS = 50

# As clients call it.
HOST = "".join(letter if letter not in '"\\' else "_" for letter in socket.gethostname()[:63])
PROGRAM = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else ""
# QEMU runs the program: a handshake may take seconds, and no command can be guarded.
IN_USE = "Address (already )?in use"  # as glibc and as musl say it
IS_EMULATED = "RQL_TEST_EMULATED" in os.environ
PATIENT = {"RQL_CONNECT_TIMEOUT_MS": "30000"} if IS_EMULATED else {}
NO_GUARD = "rql: the guard of the command: Invalid argument"


def is_gone(pid):
    """A zombie that nobody has collected yet counts as gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def await_gone(pids):
    wait_until(lambda: all(map(is_gone, pids)), f"all of {pids} end")


def as_plain(text):
    """Keys as they are on a single server."""
    return plain(text) if is_cluster() else text


class Server(PrivateServer):
    tag = ""  # tests choose the partitions by names

    def add_user(self, name, *rights):
        """Returns the URL for a user with these rights."""
        self.ask("ACL", "SETUSER", name, "on", ">pw", *rights)
        return self.url_with(f"{name}:pw@")


@contextlib.contextmanager
def shards(count):
    """So many servers, each at a port of its own, their names, and the URL of all of them."""
    leave_out_in_cluster("servers that are no cluster")
    ports = [str(free_port()) for _ in range(count)]
    names = [f"127.0.0.1:{port}" for port in ports]
    with contextlib.ExitStack() as running:
        servers = [running.enter_context(Server("--bind", "127.0.0.1", "--port", port)) for port in ports]
        yield servers, names, "redis+shards://" + ",".join(names)


def share_as(server, name, limit, *sharers):
    """A lock of several, as the scripts write it. A sharer is (units and slots, packed metadata)."""
    used = sum(int(units.split(":")[0]) for units, _ in sharers)
    fields = ["acq_id", "rql:acq:shared/0/0/0/" + "0" * 32, "hst_id", "rql:hst:shared/0/0/" + "0" * 32, "ts",
              server.now_us() / 1e6, "ini_ttl", 60000, "rql_nonce", "shared", "rql_used", used]
    for i, (units, packed) in enumerate(sharers):
        acquirer, token, end_us = f"rql:acq:{i}/1/0/0/{i:032x}", server.now_us() + i, server.now_us() + 60000000
        fields += [f"rql_h:{acquirer}", f"{i:032x} {units} {limit} {token} 60000 - rql:hst:{i}/1/0/{i:032x} {packed}".encode("latin-1")]
        server.ask("ZADD", f"rql:shares:{name}", end_us, acquirer)
    server.ask("HSET", f"rql:lock:{name}", *fields)
    server.ask("PEXPIRE", f"rql:lock:{name}", 60000)


class Folder:
    """A folder for files that a command leaves as signs."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="rql-cli-")
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def read(self, name):
        try:
            with open(self.path(name), encoding="ascii") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def touch(self, name):
        with open(self.path(name), "w", encoding="ascii"):
            pass

    def await_lines(self, name, count=1):
        wait_until(lambda: self.read(name).count("\n") >= count, f"{count} lines in {name}")
        return self.read(name).split()


class Missing(LeftOut):
    """A program that a test needs is not installed."""

    def __init__(self, what):
        super().__init__(f"no {what}")


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, as_plain(out), as_plain(err)

    def json(self):
        return json.loads(self.out)


def environment(url, **more):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("RQL_") and key != "TRACEPARENT"}
    return {**kept, **PATIENT, "RQL_URL": url, **more}


class Program:
    """Runs the program against one server."""

    def __init__(self, url):
        self.url = url
        self.started = []

    def __call__(self, *words, text_in=None, popen=None, **more):
        """`popen`: arguments of Popen(). An output that they lead elsewhere is empty in the result."""
        streams = {"stdin": None if text_in else subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        done = subprocess.run([PROGRAM, *words], env=environment(self.url, **more), input=text_in, text=True, check=False,
                              timeout=PATIENCE_S * 3, **{**streams, **(popen or {})})
        if IS_EMULATED and NO_GUARD in (done.stderr or ""):
            raise LeftOut("QEMU has no clone() without a signal, which the guard of a command needs")
        return Result(done.returncode, done.stdout or "", done.stderr or "")

    def start(self, *words, under=(), fds=(), **more):
        process = subprocess.Popen([*under, PROGRAM, *words], env=environment(self.url, **more),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, pass_fds=fds)
        self.started.append(process)
        return process

    def clean(self):
        """Ends what a test left running; answers what that said."""
        started, self.started = self.started, []  # what cannot be ended fails one test, not all that follow
        for process in started:
            if process.poll() is None:
                process.kill()
        return "".join(finish(process).err for process in started if not process.stderr.closed)


def start_waiting(server, rql, *words, name="a"):
    """A process that waits for the lock."""
    before = server.queue_length(name)
    process = rql.start(*words)
    wait_until(lambda: server.queue_length(name) > before, "it waits")
    return process


class Terminal:
    """A terminal of its own, at which a process runs `begin`, and what was written there."""

    def __init__(self, begin):
        self.written = b""
        try:
            self.pid, self.fd = pty.fork()
        except OSError as fault:  # as in a container
            raise Missing(f"terminal: {fault}; is /dev/pts mounted?") from fault
        if self.pid == 0:
            begin()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def read(self):
        """What comes next; b"": the other side has closed."""
        if not select.select([self.fd], [], [], PATIENCE_S)[0]:
            raise Failure(f"nothing was written after {self.written!r}")
        try:
            more = os.read(self.fd, 4096)
        except OSError:
            more = b""
        self.written += more
        return more

    def read_until(self, pattern):
        """The first match in all that was written."""
        end_s = time.monotonic() + PATIENCE_S
        while not (found := re.search(pattern, self.written.decode(errors="replace"))):
            assert self.read() and time.monotonic() < end_s, f"{pattern} is not in {self.written!r}"
        return found

    def finish(self):
        """Reads to the end. Returns the exit code, or the number of a signal, negative."""
        while self.read():
            pass
        done = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        return done.si_status if done.si_code == os.CLD_EXITED else -done.si_status


def written_at_terminal(stream, words, env):
    """Exit code of a program, and what it writes to this stream, 1 or 2, which alone is a terminal."""
    def begin():
        for other in {0, 1, 2} - {stream}:
            os.dup2(os.open(os.devnull, os.O_RDWR), other)
        os.execve(words[0], words, env)

    with Terminal(begin) as terminal:
        return terminal.finish(), terminal.written


def listener(name):
    """A socket to which a service reports as to systemd; its name is a path, or begins with NUL."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    channel.bind(name)
    channel.settimeout(PATIENCE_S)
    return channel


def finish(process):
    out, err = process.communicate(timeout=PATIENCE_S)
    return Result(process.returncode, out, err)


def read_line(stream):
    """One line of a process that goes on. No buffer: select() would not see into it."""
    line = b""
    while not line.endswith(b"\n"):
        if not select.select([stream], [], [], PATIENCE_S)[0]:
            raise Failure(f"nothing was said after {line!r}")
        byte = os.read(stream.fileno(), 1)
        if not byte:
            raise Failure(f"it ended after {line!r}")
        line += byte
    return line.decode()


def forget_ignored_signals():
    """What nohup or a shell's background has ignored would stay so in all that a test starts."""
    for name in ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2"):
        number = getattr(signal, "SIG" + name)
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


class Fixture(tap.Fixture):
    """A server, which each test finds empty, and the program."""

    def __init__(self):
        forget_ignored_signals()
        self.server = Server()
        self.rql = self.make_program(self.server.url)
        self.said, self.stalled_ms, self.is_unknown = "", 0, False

    def make_program(self, url):
        return Program(url)

    def run(self, case):
        """A test is a function of the server and the program."""
        self.server.ask("FLUSHALL")
        kept_ms, self.is_unknown = self.kept_ms(), False
        try:
            case.function(self.server, self.rql)
        except Exception as failure:
            self.is_unknown = "has not confirmed the withdrawal" in str(failure)
            raise
        finally:
            self.stalled_ms = self.kept_ms() - kept_ms
            self.said = self.rql.clean()

    def kept_ms(self):
        """How long this program, the server and what was started were kept from running, in all, and the machine by its
        host."""
        pids = [os.getpid(), self.server.process.pid, *(process.pid for process in self.rql.started)]
        return stolen_ms() + sum(map(delayed_ms, pids))

    def excuse(self, case, n_tries, took_s):
        # A withdrawal has 50 ms for its answer; then the outcome is not known.
        least_ms = STALL_OF_WITHDRAWAL_MS if self.is_unknown else STALL_MS
        return excuse(self.stalled_ms, least_ms) if n_tries == 1 else None

    def last_words(self):
        return self.said + self.server.log()[-2000:]

    def end(self):
        self.rql.clean()
        self.server.stop()


def main(make_fixture=Fixture, n_own=1, skip=None):
    tap.main(make_fixture, n_own, skip or (None if find_server() else "no redis-server or valkey-server in PATH"))
