"""What every Python test needs that has a redis-server of its own. Standard library only."""
import atexit
import contextlib
import ctypes
import functools
import itertools
import mmap
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

from certificates import authority
from checks import PATIENCE_S, LeftOut, wait_until
from lock_queries import LockQueries
from partitions import N_SLOTS, SHARED, named, plain
from resp import Connection, Refused, ServerError

# What RQL_TEST_SERVER may name: program and major version; or, whatever the program, TLS, or a cluster of one node.
TLS, CLUSTER = "tls", "cluster"
SERVERS = {"redis7": ("redis-server", "7"), "redis8": ("redis-server", "8"), "valkey8": ("valkey-server", "8")}


LIBC = ctypes.CDLL(None)


def die_with_parent():
    """PR_SET_PDEATHSIG: no server outlives a test that was killed."""
    LIBC.prctl(1, int(signal.SIGKILL))


def find_server():
    """The path of its program; None: there is none."""
    name = os.environ.get("RQL_TEST_SERVER")
    if name and name not in (TLS, CLUSTER):
        return find_named(name)
    return (os.environ.get("RQL_TEST_REDIS") or shutil.which("redis-server")
            or shutil.which("valkey-server"))


@functools.cache
def find_named(name):
    """Whoever names a server does not want another one, or none."""
    if name not in SERVERS:
        sys.exit(f"RQL_TEST_SERVER={name}: it may be {', '.join(SERVERS)}, {TLS} or {CLUSTER}")
    program, version = SERVERS[name]
    for path in (os.environ.get("RQL_TEST_REDIS"), shutil.which(program)):
        said = path and subprocess.run([path, "--version"], stdout=subprocess.PIPE, text=True, check=False).stdout
        if said and os.path.basename(path) == program and f"v={version}." in said:
            return path
    sys.exit(f"RQL_TEST_SERVER={name}: there is no {program} of version {version}")


def is_cluster():
    return os.environ.get("RQL_TEST_SERVER") == CLUSTER


def leave_out_in_cluster(what):
    if is_cluster():
        raise LeftOut(f"{what}: not in a cluster")


NOT_IN_CLUSTER = ("PSUBSCRIBE", "REPLICAOF", "SELECT")


def for_cluster(words, tag):
    """A command that speaks of keys as they are on a single server."""
    if words[0] in NOT_IN_CLUSTER or words[0] == "EVAL" and "'rql:" in words[1]:
        raise LeftOut(f"{words[0]}, and scripts that name keys: not in a cluster")
    return named(words, tag)


class ClusterConnection(Connection):
    """For tests that speak of keys as they are on a single server; names of locks get the tag."""

    def __init__(self, path, timeout_s, tag):
        super().__init__(path, timeout_s)
        self.tag = tag

    def read(self):
        return plain(super().read())

    def tell(self, *words):
        super().tell(*for_cluster(words, self.tag))

    def call(self, *words):
        if words[0] in ("DEL", "EXISTS"):  # keys that may be in several slots
            return sum(super(ClusterConnection, self).call(words[0], key) for key in words[1:])
        return super().call(*words)


STANDS_STILL = -1000000  # a rate of a clock


class Clock:
    """The time of day of a process with `env`: by how much it is ahead of the machine's (clock.c). As `suspends`
    also its time since boot. `at_us`: the clock shows this time and stands still; set_ahead() sets another time."""

    def __init__(self, path, suspends=False, at_us=None):
        if not os.environ.get("RQL_TEST_CLOCK"):
            raise LeftOut("no RQL_TEST_CLOCK")
        with open(path, "w+b") as file:
            file.write(bytes(24))
            file.flush()
            self.told = mmap.mmap(file.fileno(), 24)
        self.env = {"LD_PRELOAD": os.environ["RQL_TEST_CLOCK"], "RQL_CLOCK": path}
        if at_us is None:
            self.env["RQL_CLOCK_STEPS"] = "1"
        else:
            self.set_ahead(at_us)
        if suspends:
            self.env["RQL_CLOCK_SUSPENDS"] = "1"

    def set_ahead(self, us):
        """It goes on from now on by so much before the machine's."""
        self.told[:8] = struct.pack("q", us)

    def set_rate(self, ppm):
        """It runs so much faster from now on; 0: as the machine's, and is where that is."""
        self.told[16:] = bytes(8)
        self.told[8:16] = struct.pack("q", time.time_ns() // 1000)
        self.told[16:] = struct.pack("q", ppm)


# Each test process locks its ports for as long as it lives, by a socket with an abstract name for each: those are seen
# wherever the ports are, in another root folder too.
PORT_LOCKS = []
PORTS = itertools.cycle(random.sample(range(10000, 32768), 32768 - 10000))  # the system gives those above to clients


def free_port():
    """Nobody else's by the time that a server listens there, nor of a test process beside this one. The probe does not
    listen: a process that another thread forks meanwhile has it until it runs its program, and no server could listen."""
    for port in PORTS:
        lock = socket.socket(socket.AF_UNIX)
        try:
            lock.bind(f"\0rql-test-port-{port}")
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            lock.close()
        else:
            PORT_LOCKS.append(lock)
            return port


# Those that have a folder, and what guards them. No server is made once end_servers() has begun.
RUNNING = set()
MUTEX = threading.RLock()


@atexit.register
def end_servers():
    """Removes their folders. Threads may still use the servers, and may stop some of them meanwhile."""
    MUTEX.acquire()
    for server in RUNNING:
        if server.process:
            server.kill()
        shutil.rmtree(server.folder, ignore_errors=True)


class PrivateServer(LockQueries):
    """A redis-server on a Unix socket in a fresh folder; it can be killed and launched again. With
    RQL_TEST_CLOCK (support/clock.c) and `has_clock` its time of day can be set. With a certificate and its key, or
    where RQL_TEST_SERVER is tls, clients come by TLS, and only what asks behind their back by the socket. Where that
    is cluster, it is one of which this is the only node."""
    password = None  # of what asks there
    tag = SHARED     # in a cluster all locks are in one partition
    process = None

    def __init__(self, *arguments, has_clock=False, certificate=None):
        with MUTEX:
            self.folder = tempfile.mkdtemp(prefix="rql-test-")
            RUNNING.add(self)
        self.path = self.folder + "/s"
        self.scheme, self.place = "unix", self.path
        self.arguments, self.env = arguments, None
        if is_cluster():
            if certificate or "--replicaof" in arguments:
                raise LeftOut("TLS and replicas: not in a cluster of one node")
            self.port = free_port()
            self.scheme, self.place = "redis+cluster", f"127.0.0.1:{self.port}"
            self.arguments = ("--bind", "127.0.0.1", "--port", str(self.port), "--cluster-port", str(free_port()),
                              "--cluster-enabled", "yes", *arguments)
        if os.environ.get("RQL_TEST_SERVER") == TLS:
            certificate = certificate or authority().server
        if certificate:
            self.tls_port = free_port()
            self.scheme, self.place = "rediss", f"127.0.0.1:{self.tls_port}?tls_ca_file={authority().file}"
            self.arguments = ("--bind", "127.0.0.1", "--tls-port", str(self.tls_port), "--tls-auth-clients", "no",
                              "--tls-ca-cert-file", str(authority().file), "--tls-cert-file", str(certificate[0]),
                              "--tls-key-file", str(certificate[1]), *arguments)
        self.ahead_us = 0
        if has_clock:
            self.clock = self.make_clock(self.folder + "/clock")
            self.env = {**os.environ, **self.clock.env}
            # The allocator's thread waits until times of this clock. While the clock is behind the machine's, each
            # wait ends at once, and the thread keeps a processor busy.
            self.arguments = (*self.arguments, "--jemalloc-bg-thread", "no")
        self.url = self.url_with()
        if "--requirepass" in self.arguments:
            self.password = self.arguments[self.arguments.index("--requirepass") + 1]
        self.launch()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def make_clock(self, path):
        return Clock(path)

    def url_with(self, login=""):
        """Of the form user:password@."""
        return f"{self.scheme}://{login}{self.place}"

    def url_of(self, database):
        leave_out_in_cluster("another database")
        place, mark, query = self.url.partition("?")
        return f"{place}/{database}?{query}" if mark else f"{place}?db={database}"

    def set_ahead(self, us):
        self.ahead_us = us
        self.clock.set_ahead(us)

    def set_rate(self, ppm):
        """Its clock runs so much faster from now on; STANDS_STILL."""
        self.clock.set_rate(ppm)

    def now_us(self):
        """What its clock shows, where that runs as the machine's."""
        return time.time_ns() // 1000 + self.ahead_us

    def command(self):
        return [find_server(), "--port", "0", "--unixsocket", self.path, "--dir", self.folder,
                "--save", "", "--appendonly", "no", "--logfile", "log", *self.arguments]

    def launch(self, *more):
        """With these arguments as well."""
        self.is_frozen = False
        self.process = subprocess.Popen([*self.command(), *more], stdin=subprocess.DEVNULL,
                                        preexec_fn=die_with_parent, env=self.env)
        wait_until(self.is_up, "the server answers")
        if is_cluster():
            self.own_all_slots()

    def own_all_slots(self):
        """As a fresh one does not; any does not write in its first two seconds."""
        if "cluster_slots_assigned:0" in self.ask("CLUSTER", "INFO"):
            self.ask("CLUSTER", "ADDSLOTSRANGE", 0, N_SLOTS - 1)
        wait_until(lambda: "cluster_state:ok" in self.ask("CLUSTER", "INFO"), "it works")

    def connection(self, timeout_s=PATIENCE_S):
        """To it; its user closes it."""
        return ClusterConnection(self.path, timeout_s, self.tag) if is_cluster() else Connection(self.path, timeout_s)

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

    def ask(self, *words):
        """By a connection for this alone."""
        connection = self.connection()
        try:
            if self.password:
                connection.call("AUTH", self.password)
            return connection.call(*words)
        finally:
            connection.close()

    def end_connections(self, *whose):
        for what in whose or ("normal", "pubsub"):
            self.ask("CLIENT", "KILL", "TYPE", what, "SKIPME", "yes")

    def log(self):
        """What the server says of itself."""
        with open(self.folder + "/log", encoding="utf-8", errors="replace") as file:
            return file.read()

    def freeze(self):
        """It stands still, until go_on()."""
        self.is_frozen = True
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.is_frozen = False
        self.process.send_signal(signal.SIGCONT)

    @contextlib.contextmanager
    def frozen(self):
        """It stands still during the block: it has all that was before, and answers and receives nothing."""
        self.freeze()
        try:
            yield
        finally:
            self.go_on()

    def fall_behind(self, master):
        """A replica that stands still, and will have nothing of what is done from now on: what it has not read yet
        would wait for it."""
        self.freeze()
        master.ask("CLIENT", "KILL", "TYPE", "replica")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def forget(self):
        """What it has saved; it is not running."""
        for name in os.listdir(self.folder):
            if name.endswith(".rdb"):
                os.remove(f"{self.folder}/{name}")
        shutil.rmtree(f"{self.folder}/appendonlydir", ignore_errors=True)

    def stop(self):
        self.kill()  # also when a test has stopped it
        with MUTEX:
            shutil.rmtree(self.folder)
            RUNNING.remove(self)


class Sentinel(PrivateServer):
    """It watches what these lines of its configuration say."""

    def __init__(self, *lines):
        leave_out_in_cluster("Sentinel")
        self.port, self.lines = free_port(), lines
        super().__init__()

    def command(self):
        with open(self.folder + "/sentinel.conf", "w", encoding="ascii") as file:
            file.write("\n".join([f"port {self.port}", "bind 127.0.0.1", f"unixsocket {self.path}", f"dir {self.folder}",
                                  "logfile log", *self.lines, ""]))
        return [find_server(), self.folder + "/sentinel.conf", "--sentinel"]
