"""Scripts called one by one, as no client would do it, on a server whose clock stands still unless a test lets time
pass: what they answer is known to the millisecond. Acquirers are numbers, each of a client of its own."""
import os
import pathlib
import re
import sys
import traceback

from server import PLACES, T0_US, Refused, Server

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "lua"))
from embed import expanded  # noqa: E402

SCRIPTS = {path.stem: expanded(path) for path in sorted((ROOT / "lua").glob("*.lua")) if "@keys" in path.read_text()}
N_CLIENTS = 9  # that listen: those of 1 to 9
NEVER = 2 ** 53
RANDOM = "40000"
TESTS = []


def test(function):
    TESTS.append(function)
    return function


def check(holds, what):
    if not holds:
        raise AssertionError(what)


def refusal(call, *words, **more):
    try:
        call(*words, **more)
    except Refused as refused:
        return str(refused)
    raise AssertionError("it is no error")


def check_equal(got, wanted):
    check(got == wanted, f"got {got!r}, wanted {wanted!r}")


def acquirer(number):
    return f"rql:acq:1/{number}/0/0/{number:032d}"


def host(number):
    return f"rql:hst:1/{number}/0/{number:032d}"


def nonce(number):
    """Of an acquirer's request for the lock a; of another lock of a series it is that of number + 100."""
    return f"{100 + number:032d}"


class Calls:
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
            line.socket.sendall(self.server.call(script, words, locks))
            return line.read()
        finally:
            line.call("ACL", "SETUSER", "default", "allkeys")

    def pass_ms(self, ms):
        self.now_us += ms * 1000
        self.server.set_time(self.now_us)

    def n_calls(self, command):
        at = f"cmdstat_{command}:calls="
        lines = [line for line in self.ask("INFO", "commandstats").splitlines() if line.startswith(at)]
        return int(lines[0][len(at):].split(",")[0]) if lines else 0

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


def run(preload, place, first):
    """All tests there, one after the other; how many failed."""
    failed = 0
    with Server(os.environ["RQL_TEST_REDIS"], preload, SCRIPTS, place=place) as server:
        calls = Calls(server)
        server.set_subscribed({f"{number:032d}" for number in range(1, N_CLIENTS + 1)})
        for number, function in enumerate(TESTS, first):
            trace = ""
            try:
                calls.begin()
                function(calls)
            except (AssertionError, Refused):
                trace = traceback.format_exc()
                failed += 1
            print(f"{'not ok' if trace else 'ok'} {number} - {function.__name__.replace('_', ' ')}{place}")
            if trace:
                print("# " + trace.replace("\n", "\n# "))
    return failed


def main():
    preload = sys.argv[1]
    if not os.environ.get("RQL_TEST_REDIS"):
        print("1..0 # SKIP no redis-server")
        return 0
    print(f"1..{len(PLACES) * len(TESTS)}", flush=True)
    return sum(run(preload, place, 1 + i * len(TESTS)) for i, place in enumerate(PLACES)) > 0
