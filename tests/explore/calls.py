"""Scripts called one by one, as no client would do it, on a server whose clock stands still unless a test lets time
pass: what they answer is known to the millisecond. Acquirers are numbers, each of a client of its own."""
import contextlib
import itertools
import pathlib
import re
import sys

from server import PLACES, T0_US, Refused, Server, why_skipped

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "lua"))
import tap  # noqa: E402
from checks import check, check_equal  # noqa: E402, F401
from embed import expanded  # noqa: E402
from lock_queries import LockQueries  # noqa: E402

SCRIPTS = {path.stem: expanded(path) for path in sorted((ROOT / "lua").glob("*.lua")) if "@keys" in path.read_text()}
N_CLIENTS = 9  # that listen: those of 1 to 9
NEVER = 2 ** 53
RANDOM = "40000"


def refusal(call, *words, **more):
    try:
        call(*words, **more)
    except Refused as refused:
        return str(refused)
    raise AssertionError("it is no error")


def acquirer(number):
    return f"rql:acq:1/{number}/0/0/{number:032d}"


def host(number):
    return f"rql:hst:1/{number}/0/{number:032d}"


def nonce(number):
    """Of an acquirer's request for the lock a; of another lock of a series it is that of number + 100."""
    return f"{100 + number:032d}"


class Calls(LockQueries):
    def __init__(self, server):
        self.server, self.now_us = server, T0_US

    def begin(self):
        self.now_us = T0_US
        self.server.set_time(T0_US)
        self.ask("FLUSHALL")
        self.ask("CONFIG", "RESETSTAT")
        self.heard()

    def ask(self, *words):
        """Keys are those of a single server."""
        return self.server.line.call(*(re.sub("^rql:(?!acq:|hst:)", self.server.prefix, str(word)) for word in words))

    def call(self, script, *words, n_locks=1):
        """Of the locks a, b and so on, with the right to the script's keys and no other."""
        line, locks = self.server.line, tuple(range(n_locks))
        line.call("ACL", "SETUSER", "default", "resetkeys", *("~" + key for key in self.server.keys_of(script, locks)))
        try:
            line.send(self.server.call(script, words, locks))
            return line.read()
        finally:
            line.call("ACL", "SETUSER", "default", "allkeys")

    @contextlib.contextmanager
    def full(self):
        """The server has no memory left."""
        self.ask("CONFIG", "SET", "maxmemory", 1)
        try:
            yield
        finally:
            self.ask("CONFIG", "SET", "maxmemory", 0)

    def pass_ms(self, ms):
        self.now_us += ms * 1000
        self.server.set_time(self.now_us)

    def acquire(self, number, how, ttl_ms=30000, until_us=NEVER):
        """Its answer in numbers; not who is in front."""
        words = acquirer(number), host(number), ttl_ms, nonce(number), until_us, f"{how} {RANDOM}"
        return [int(part) for part in self.call("acquire", *words).split()[:8]]

    def acquire_series(self, number, how, n_locks=3, ttl_ms=30000, until_us=NEVER):
        nonces = "".join(nonce(number + 100 * i) for i in range(n_locks))
        words = acquirer(number), host(number), ttl_ms, nonces, until_us, f"{how} {RANDOM}"
        return self.call("acquire_series", *words, n_locks=n_locks)

    def release(self, number, random=RANDOM):
        return self.call("release", nonce(number), random)

    def leave(self, number):
        return self.call("leave", acquirer(number), nonce(number), RANDOM)

    def check_holder(self, number, lock="a"):
        """Of another lock of a series: number + 100."""
        check_equal(self.ask("HGET", f"rql:lock:{lock}", "rql_nonce"), nonce(number))

    def heard(self):
        """(whose client, what), since it was asked last."""
        messages = []
        self.server.subscriber.tell("PING")
        said = self.server.subscriber.read()
        while said not in ("PONG", ["pong", ""]):
            messages.append((int(said[1].rsplit(":", 1)[1]), said[2]))
            said = self.server.subscriber.read()
        return messages

    def told_to_look(self):
        return [number for number, said in self.heard() if said.endswith(" look")]


class Fixture(tap.Fixture):
    """A server for each place."""

    def __init__(self):
        self.servers, self.calls = contextlib.ExitStack(), {}

    def at(self, place):
        if place not in self.calls:
            server = self.servers.enter_context(Server(SCRIPTS, place=place))
            server.set_subscribed({f"{number:032d}" for number in range(1, N_CLIENTS + 1)})
            self.calls[place] = Calls(server)
        return self.calls[place]

    def run(self, case):
        calls = self.at(*case.arguments)
        calls.begin()
        case.function(calls)

    def end(self):
        self.servers.close()


def main():
    """A test is a function of the calls; it runs in each place."""
    for (title, function), place in itertools.product(tap.named_tests(), PLACES):
        tap.add(title + place, function, place)
    tap.main(Fixture, skip=why_skipped())
