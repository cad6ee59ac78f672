"""Scenarios: the library's calls, made by actors of every kind, on a real server.

An actor acquires, extends and releases; what it is, a scenario need not know:

    thread   a thread of the program `remote` (tests/remote/remote.h), which blocks in each call
    loop     a loop in it
    process  a thread in a `remote` of its own, for scenarios that kill it

others.py has one more, `ruby`.

Standard library only.
"""
import contextlib
import datetime
import functools
import itertools
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import threading
import time
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
import tap  # noqa: E402
from checks import PATIENCE_S, SLOW, Failure, LeftOut, check, check_equal, wait_until  # noqa: E402, F401
from delay import STALL_MS, delayed_ms, excuse, stolen_ms  # noqa: E402, F401
from faulty_network import FaultyNetwork  # noqa: E402
from lock_queries import LockQueries  # noqa: E402
from network import Proxy  # noqa: E402, F401
from partitions import plain, tagged  # noqa: E402
from private_server import (CLUSTER, TLS, Clock, PrivateServer, die_with_parent, find_server,  # noqa: E402, F401
                            is_cluster, leave_out_in_cluster)
from resp import Connection, Refused  # noqa: E402, F401

FOREVER = "forever"
MINUTE_MS = 60000
KINDS = ("thread", "loop")
JOBS = 4
CONNECT_MS = 10000  # on a busy machine a login takes its time
# How often a scenario is tried, where its processes were kept from running for that long in all.
TRIES_OF_TIMED, STALL_OF_TIMED_MS = 4, 20
TRIES = 2  # with STALL_MS
PROXY_HOSTS = itertools.cycle(range(2, 255))
# How a server comes to take no writes, and how that ends, by what an acquisition is told then.
NO_WRITES = {"E_UNAVAILABLE": (("CONFIG", "SET", "maxmemory", 1), ("CONFIG", "SET", "maxmemory", 0))}
if not is_cluster():
    NO_WRITES["E_READ_ONLY"] = ("REPLICAOF", "127.0.0.1", 1), ("REPLICAOF", "NO", "ONE")
ACTORS = {}    # kinds that are no Actor: others.py
WRAPPER = os.environ.get("RQL_TEST_REMOTE", "").split()  # a program that runs `remote`, as valgrind


def statuses():
    """RQL_TIMED_OUT and the others, by their names without RQL_, as the header has them."""
    text = (ROOT / "include" / "rql" / "status.h").read_text("ascii")
    return {name: int(value) for name, value in re.findall(r"\bRQL_(\w+) =\s*(-?\d+),", text)}


STATUS = statuses()
NAME_OF = {value: name for name, value in STATUS.items()}


class Outcome:
    """What came of a call. `words` has all that was said."""

    def __init__(self, words):
        self.words = words
        self.status = NAME_OF[words["status"]]
        self.error = words.get("error", "")
        if "error_status" in words:  # each call fills its rql_error, except one that returns RQL_OK, which must not
            check_equal(words["error_status"], words["status"], f"rql_error of {self!r}")
            check(self.error, f"{self.status} without a message")

    def __getattr__(self, name):
        try:
            return self.words[name]
        except KeyError:
            raise AttributeError(name) from None

    def __repr__(self):
        return f"{self.status} {self.error}".strip()

    def check(self, *wanted):
        """It is one of these statuses; OK if none is named."""
        check(self.status in (wanted or ("OK",)), f"{self!r} in place of {' or '.join(wanted or ('OK',))}")
        return self


def let_pass(seconds):
    over = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() > over, "it has passed")


class Call:
    """A call under way."""

    def __init__(self, remote, number, line):
        self.remote, self.number, self.line = remote, number, line
        self.done = threading.Event()
        self.words = None

    def is_over(self):
        return self.done.is_set()

    def outcome(self, patience_s=PATIENCE_S):
        if not self.done.wait(patience_s) or self.words is None:
            raise Failure(f"no end of {self.line}; {self.remote.last_words()}")
        return Outcome(self.words)


class Remote:
    """The program `remote`: what it is told in lines of JSON it does."""

    def __init__(self, program, env=None):
        self.process = subprocess.Popen([*WRAPPER, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
        self.numbers = itertools.count(1)
        self.calls = {}
        self.mutex = threading.Lock()
        self.told = []  # lines without an id, in order
        self.errors = []
        self.is_killed = False
        self.readers = [threading.Thread(target=self.read), threading.Thread(target=self.read_errors)]
        for reader in self.readers:
            reader.start()

    def read(self):
        for line in self.process.stdout:
            words = json.loads(plain(line) if is_cluster() else line)
            if "id" not in words:
                self.told.append(words)
                continue
            with self.mutex:
                call = self.calls.pop(words["id"])
            call.words = words
            call.done.set()
        with self.mutex:  # it has ended: nobody waits for an answer any more
            for call in self.calls.values():
                call.done.set()

    def read_errors(self):
        self.errors.extend(self.process.stderr)

    def kept_ms(self):
        """How long it was kept from running, in all."""
        return delayed_ms(self.process.pid)

    def last_words(self):
        return f"exit {self.process.poll()}; {''.join(self.errors)}"

    def begin(self, do, **words):
        """Tells it to do something, and does not wait."""
        number = next(self.numbers)
        line = json.dumps({"id": number, "do": do, **words})
        call = Call(self, number, line)
        with self.mutex:
            self.calls[number] = call
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError):  # the pipe is broken, or closed by kill()
            raise Failure(f"remote has ended: {self.last_words()}") from None
        return call

    def do(self, do, **words):
        return self.begin(do, **words).outcome()

    def events(self, name):
        return [words for words in self.told if words.get("event", "").endswith(name)]

    def end(self):
        """All that was made has been ended by now: a sanitizer looks for what is left."""
        self.process.stdin.close()
        code = self.process.wait(PATIENCE_S * 3)
        self.join()
        check_equal(code, 0, "remote: " + "".join(self.errors))

    def stop(self):
        """All its threads, until go_on()."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.is_killed = True
        self.process.kill()
        self.process.wait()
        self.join()

    def join(self):
        for reader in self.readers:
            reader.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                pipe.close()
            except BrokenPipeError:
                pass


class Hold:
    """What an actor holds: one lock, or several."""

    def __init__(self, actor, name, names, outcome):
        self.actor, self.name, self.names, self.outcome = actor, name, list(names), outcome
        self.tokens = outcome.tokens

    def begin(self, do, **words):
        return self.actor.begin(do, lock=self.name, **words)

    def release(self):
        return self.begin("release").outcome()

    def extend(self, ttl_ms):
        return self.begin("extend", ttl_ms=ttl_ms).outcome()

    def lower(self, **options):
        """Shares it from now on."""
        return self.begin("lower", names=self.names, options=options).outcome()

    def forget(self):
        return self.begin("forget").outcome()

    def verify(self):
        return self.begin("verify").outcome()

    def state(self):
        return ("HELD", "DOUBTFUL", "GONE")[self.begin("state").outcome().state]

    def remaining_ms(self):
        return self.begin("state").outcome().remaining_ms

    def losses(self):
        """What was told of it: of each of its locks, once."""
        return [words for words in self.actor.remote.told if words.get("lost") == self.name]

    def is_lost(self):
        return bool(self.losses())


class Asking:
    """An acquisition under way."""

    def __init__(self, actor, name, names, call):
        self.actor, self.name, self.names, self.call = actor, name, names, call

    def is_over(self):
        return self.call.is_over()

    def outcome(self):
        return self.call.outcome()

    def hold(self):
        return Hold(self.actor, self.name, self.names, self.outcome().check())

    def cancel(self):
        """Of a loop only."""
        return self.actor.remote.do("cancel", **{"as": self.actor.name}, of=self.call.number)


def as_they_end(asked):
    """Each when it is over."""
    left = list(asked)
    while left:
        wait_until(lambda: any(asking.is_over() for asking in left), "one of them is over")
        for asking in [one for one in left if one.is_over()]:
            left.remove(asking)
            yield asking


def check_served_in_order(asked, held):
    """From the release of `held` on; each is given back when it has been had."""
    tokens = []
    for i, asking in enumerate(asked):
        held.release().check()
        held = asking.hold()
        early = [later.outcome() for later in asked[i + 1:] if later.is_over()]
        check(not early, f"a later one came first: {early}")
        tokens += held.tokens[:1]
    held.release().check()
    check_equal(tokens, sorted(set(tokens)), "tokens")


def check_handed_over(world, holder, waiter, names, queued=None, **how):
    """From one to the other, who asks for them in the opposite order. `queued`: of which it waits, if not of all."""
    queued = queued or names
    held = holder.acquire(*names, ttl_ms=MINUTE_MS, **how)
    asking = waiter.ask(*reversed(names), timeout_ms=FOREVER, queue_ttl_ms=MINUTE_MS, **how)
    world.await_queue(queued, 1)
    check_equal([name for name in names if name not in queued and world.queue_length(name) != 0], [], "queues")
    held.release().check()
    asking.hold().release().check()


def check_told_as_lost(one, held, **options):
    """Writes were lost with it, which was told once. Whoever has it later has a larger token."""
    wait_until(lambda: held.state() == "GONE", "it is told")
    held.release().check("NOT_HELD")
    check_equal(len(one.remote.events("history_lost")), 1, "told as lost writes")
    later = one.acquire(*held.names, **options)
    check(later.tokens[0] > held.tokens[0], f"{later.tokens[0]} after {held.tokens[0]}")
    later.release().check()


class Moment:
    """Now, by the server's clock. What has to come soon has more time where the processes are kept from running."""

    def __init__(self, world):
        self.world, self.kept_ms, self.us = world, world.kept_ms(), world.server.now_us()

    def check_soon(self, held, limit_us):
        """It was granted in time."""
        took_us, kept_ms = held.outcome.ts_us - self.us, self.world.kept_ms() - self.kept_ms
        check(took_us < limit_us + 1000 * kept_ms, f"after {took_us} us, {kept_ms} ms kept from running")


class Actor:
    """Somebody who acquires locks: see KINDS."""

    def __init__(self, world, kind, name, client):
        self.world, self.kind, self.name = world, kind, name
        self.remote, self.client = client.remote, client
        self.numbers = itertools.count(1)
        self.remote.do("loop" if kind == "loop" else "thread", name=name, client=client.name).check()

    def begin(self, do, **words):
        words = tagged(words) if is_cluster() else words
        return self.remote.begin(do, **{"as": self.name}, **words)

    def ask(self, *names, tries=False, also=None, **options):
        """Begins to acquire. `also`: what the remote is told beside the options."""
        hold = f"{self.name}.{next(self.numbers)}"
        words = {"names": names, "options": options, "lock": hold, "try": tries, **(also or {})}
        return Asking(self, hold, names, self.begin("acquire", **words))

    def acquire(self, *names, **options):
        return self.ask(*names, **options).hold()

    def settle(self, *names):
        """All that comes with its first acquisitions is done: it is connected, has loaded the scripts, and has said
        what it is called. In a cluster it goes where the map says, at the latest from the second one on."""
        for _ in range(2):
            held = self.acquire(*names)
            identity = held.outcome.hst_id.rsplit("/", 1)[1]
            held.release().check()
            wait_until(lambda: self.world.ask("HEXISTS", "rql:clients", identity), "it has said what it is called")

    def refused(self, *names, **options):
        """Acquires, and must not succeed."""
        outcome = self.ask(*names, **options).outcome()
        check(outcome.status != "OK", f"{names} were acquired")
        return outcome

    def end(self):
        self.remote.do("end", name=self.name).check()


class Worker(threading.Thread):
    """Does the same again and again, until it is told to stop."""

    def __init__(self, do):
        super().__init__()
        self.do, self.is_stopped, self.failure = do, False, None
        self.start()

    def run(self):
        try:
            while not self.is_stopped:
                self.do()
        except Exception as failure:  # told by end()
            self.failure, self.is_stopped = failure, True

    def end(self):
        self.is_stopped = True
        self.join()
        if self.failure:
            raise self.failure


class Workers(list):
    """One for each task; until the end of the block, or end()."""

    def __init__(self, *tasks):
        super().__init__(map(Worker, tasks))

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        (self.stop if failure else self.end)()

    def have_failed(self):
        return any(worker.failure for worker in self)

    def wait(self, condition, what, patience_s=PATIENCE_S):
        """Until the condition holds or a task has failed."""
        wait_until(lambda: condition() or self.have_failed(), what, patience_s)

    def stop(self):
        for worker in self:
            worker.is_stopped = True

    def end(self):
        """All are stopped, and the first failure is raised."""
        self.stop()
        for worker in self:
            worker.end()


class Pings:
    """Another client, and how long it has to wait for each answer until end()."""

    def __init__(self, world):
        self.connection, self.took_s = world.connection(), []
        self.worker = Worker(self.ping)

    def ping(self):
        begun = time.monotonic()
        self.connection.call("PING")
        self.took_s.append(time.monotonic() - begun)

    def end(self):
        self.worker.end()
        self.connection.close()
        return sorted(self.took_s)


class Client:
    def __init__(self, remote, name, **words):
        self.remote, self.name = remote, name
        remote.do("client", client=name, **words).check()

    def free(self):
        return self.remote.do("free", client=self.name)

    def stats(self):
        return self.remote.do("stats", client=self.name).check()


class Network(FaultyNetwork):
    """Between clients in a remote of their own and the server."""

    def __init__(self, world):
        place = {}
        if is_cluster():  # clients go where its map says, which says the port alone
            world.server.ask("CONFIG", "SET", "cluster-preferred-endpoint-type", "unknown-endpoint")
            place = {"host": f"127.0.0.{next(PROXY_HOSTS)}", "port": world.server.port}
        super().__init__(world.server.path, **place)
        self.world = world
        world.networks.append(self)

    @functools.cached_property
    def remote(self):
        return self.world.remote()

    def client(self, **options):
        return self.world.client(self.remote, url=self.url, **options)


class World(LockQueries):
    """A server, what is asked of it behind the library's back, and whoever uses it."""

    def __init__(self, program, server, seed=0, kept=None):
        """`kept`: servers that earlier scenarios have left for others, see servers.py."""
        self.program, self.server, self.kept = program, server, kept
        self.seed, self.random = seed, random.Random(seed)
        self.raw = server.connection()
        self.numbers = itertools.count(1)
        self.remotes, self.clients, self.actors = [], [], []
        self.shared = None
        self.networks = []

    # ---- whoever uses it ----

    def remote(self, env=None):
        made = Remote(self.program, env)
        self.remotes.append(made)
        return made

    def remote_with_clock(self, suspends=False):
        """One whose clock can be set, and the clock."""
        clock = Clock(f"{self.server.folder}/clock{next(self.numbers)}", suspends)
        return self.remote(clock.env), clock

    def client(self, remote=None, events=False, logs=False, also=None, **options):
        """In the shared remote unless another is given. `also`: what it is told beside the options."""
        if not remote:
            self.shared = remote = self.shared or self.remote()
        options = {"url": self.server.url, "connect_timeout_ms": CONNECT_MS, "retry_count": FOREVER, **options}
        words = {"options": options, "events": events, "logs": logs, **(also or {})}
        made = Client(remote, f"client{next(self.numbers)}", **words)
        self.clients.append(made)
        return made

    def told_clients(self, kind, **options):
        """Three of them, which are told of hand-overs from now on, whoever they wait by."""
        n_listeners = len(self.listeners())
        clients = [self.client(**options) for _ in range(3)]
        for count, client in enumerate(clients, 1):
            held = self.actor("thread", client).acquire("told")
            asking = self.actor(kind, client).ask("told", timeout_ms=FOREVER)
            self.await_queue(["told"], 1)
            self.await_listeners(n_listeners + count)
            held.release().check()
            asking.hold().release().check()
        return clients

    def actor(self, kind, client=None, **options):
        """With a client of its own unless one is given."""
        if kind in ACTORS:
            made = ACTORS[kind](self, f"{kind}{next(self.numbers)}", **options)
            self.actors.append(made)
            return made
        if not client:
            client = self.client(self.remote() if kind == "process" else None, **options)
        made = Actor(self, kind, f"{kind}{next(self.numbers)}", client)
        self.actors.append(made)
        return made

    def end(self):
        """In order, so that whatever was not given back shows."""
        for actor in self.actors:
            actor.end()
        for client in self.clients:
            client.free()
        for remote in self.remotes:
            remote.end()
        for network in self.networks:
            network.stop()
        self.raw.close()

    def abandon(self):
        """After a failure."""
        for remote in self.remotes:
            remote.kill()
        for network in self.networks:
            network.stop()
        self.raw.close()

    def free(self, client):
        """And all its actors, before the world ends."""
        for actor in [one for one in self.actors if getattr(one, "client", None) is client]:
            actor.end()
            self.actors.remove(actor)
        self.clients.remove(client)
        return client.free()

    def kill(self, actor):
        """The process of an actor, and all that it has."""
        actor.remote.kill()
        self.actors = [one for one in self.actors if one.remote is not actor.remote]
        self.clients = [one for one in self.clients if one.remote is not actor.remote]
        self.remotes.remove(actor.remote)

    def held_by_another(self, *names, **options):
        """All of them, for a minute."""
        return self.actor("thread").acquire(*names, **{"ttl_ms": MINUTE_MS, **options})

    # ---- the server ----

    def reconnect(self):
        """It was launched again."""
        self.raw.close()
        self.raw = self.server.connection()

    @contextlib.contextmanager
    def asking(self, raw):
        """What is asked behind the library's back is asked by this connection, which ends then."""
        before, self.raw = self.raw, raw
        try:
            yield
        finally:
            self.raw.close()
            self.raw = before

    def connection(self):
        """One more to the server; its user closes it."""
        return self.server.connection()

    def kept_ms(self):
        """How long this program, the server and all others were kept from running, in all, and the machine by
        its host."""
        mine = delayed_ms(os.getpid()) + delayed_ms(self.server.process.pid)
        return stolen_ms() + mine + sum(remote.kept_ms() for remote in self.remotes)

    def server_is_up(self):
        return self.server.process.poll() is None

    def ask(self, *words):
        return self.raw.call(*words)


# ---- running them ----

def scenario(kinds=KINDS, counts=(1, 3), is_timed=False, by_tls=True, in_cluster=True):
    """The scenario runs once for each kind of actor and each number of locks. It is called with the
    world, the kind, and the names of the locks. One that is timed has times so short that a busy
    machine breaks them. Where it was kept from running it is repeated; any other is, once, where
    that was for so long that waiters may have been taken for dead. Without by_tls, or
    in_cluster, it is left out where RQL_TEST_SERVER is that: what it is about is another thing there, or missing."""
    def note(function):
        function.is_timed = is_timed
        if not {TLS: by_tls, CLUSTER: in_cluster}.get(os.environ.get("RQL_TEST_SERVER"), True):
            return function
        for kind, count in itertools.product(kinds, counts):
            tap.add(title(function, kind, count), function, kind, [f"lock{i}" for i in range(count)])
        return function
    return note


def once(function):
    """A scenario that is the same for every kind of actor and any number of locks."""
    return scenario(kinds=["thread"], counts=[1])(function)


def title(function, kind, count):
    if hasattr(function, "title"):
        return function.title
    locks = "one lock" if count == 1 else f"{count} locks"
    return f"{function.__name__.replace('_', ' ')} ({kind}, {locks})"


class Fixture(tap.Fixture):
    """A server, and others that are kept, for one scenario after the other."""
    server = None
    stalled_ms, is_unknown, words = 0, False, ""  # of the last scenario that failed

    def __init__(self):
        super().__init__()
        self.kept = {}

    def run(self, case):
        self.server = self.server or PrivateServer(has_clock=True)
        self.seed = tap.new_seed()
        world = World(os.path.abspath(sys.argv[1]), self.server, self.seed, self.kept)
        kept_ms = world.kept_ms()
        try:
            self.server.set_rate(0)
            self.server.set_ahead(0)
            world.ask("FLUSHALL")
            case.function(world, *case.arguments)
            world.end()
        except LeftOut:
            world.abandon()
            raise
        except Exception as failure:
            self.stalled_ms = world.kept_ms() - kept_ms
            self.is_unknown = "got 'E_UNKNOWN'" in str(failure)
            self.words = "".join(remote.last_words() for remote in world.remotes) + self.server.log()[-2000:]
            world.abandon()
            self.end()  # whatever state it is in: the next scenario begins anew
            raise

    def last_words(self):
        return self.words

    def excuse(self, case, n_tries, took_s):
        # A withdrawal has 50 ms for its answer, in any scenario; then the outcome is not known.
        is_timed = case.function.is_timed or self.is_unknown
        tries, stall_ms = (TRIES_OF_TIMED, STALL_OF_TIMED_MS) if is_timed else (TRIES, STALL_MS)
        # What did not come in all of a wait's patience did not for want of a moment.
        least_ms = stall_ms if took_s < PATIENCE_S else max(stall_ms, 100 * took_s)
        return excuse(self.stalled_ms, least_ms) if n_tries < tries else None

    def end(self):
        for servers in self.kept.values():
            servers.stop()
        self.kept.clear()
        if self.server:
            self.server.stop()
            self.server = None


def run_all(cases, at_once=JOBS):
    """Several at once, for they mostly wait. Returns how many failed."""
    return tap.run_all(cases, Fixture, 1, at_once)


def why_skipped():
    """Why no scenario can run, or None."""
    if find_server() and "RQL_TEST_CLOCK" in os.environ:
        return None
    return "no redis-server or valkey-server in PATH, or no RQL_TEST_CLOCK"


def in_share(case):
    """A stage runs one sixteenth of the scenarios, a different one each day; RQL_TEST_SHARE is its number."""
    day = os.environ.get("RQL_TEST_DATE") or datetime.date.today().isoformat()
    sixteenth = zlib.crc32(f"{day} {case.title}".encode()) % 16
    return str(sixteenth) == os.environ["RQL_TEST_SHARE"]


def share_of_the_day(cases):
    if os.environ.get("RQL_TEST_SHARE", "all") == "all":
        return cases
    print(f"# share {os.environ['RQL_TEST_SHARE']} of the day")
    return [case for case in cases if in_share(case)]


def main(at_once=JOBS, is_for_each_server=True, sample=share_of_the_day):
    """Unless the program is for each server it has servers of its own, which are the same where RQL_TEST_SERVER is tls
    or cluster."""
    is_repeated = os.environ.get("RQL_TEST_SERVER") in (TLS, CLUSTER) and not is_for_each_server
    tap.main(Fixture, 1, why_skipped() or ("its servers are its own" if is_repeated else None), at_once, sample)
