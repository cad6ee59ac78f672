"""Actors that are no thread or loop of the library: the program `rql`, and the gem.

    program  `rql run` or `rql series`: a process for each acquisition, whose command waits for the release
    ruby     redis_queued_locks, played by the commands that it sends; one lock at a time

They do what Actor does of asking, waiting, releasing, forgetting and dying, and know no options but
ttl_ms and timeout_ms. Standard library only.
"""
import os
import signal
import subprocess
import tempfile
import threading
import time

import harness
from harness import FOREVER, PATIENCE_S, STATUS, Connection, Outcome, check, check_equal, delayed_ms, die_with_parent

RUBY_POLL_S = 0.2
RUBY_QUEUE_TTL_S = 15


class Other:
    """What an actor is to the world; it is its own `remote`, with nothing to be told."""

    def __init__(self, world, name):
        self.world, self.name, self.remote = world, name, self
        self.told = []
        self.asked = []
        world.remotes.append(self)

    def acquire(self, *names, **options):
        return self.ask(*names, **options).hold()

    def refused(self, *names, **options):
        outcome = self.ask(*names, **options).outcome()
        check(outcome.status != "OK", f"{names} were acquired")
        return outcome

    def kill(self):
        for asking in self.asked:
            asking.kill()

    def end(self):
        for asking in self.asked:
            asking.end()

    def kept_ms(self):
        return sum(asking.kept_ms() for asking in self.asked)

    def last_words(self):
        return "".join(asking.last_words() for asking in self.asked)


class OtherHold:
    """What one of them holds."""

    def __init__(self, asking, outcome):
        self.asking, self.outcome = asking, outcome
        self.name = asking.names[0]
        self.tokens = outcome.tokens

    def release(self):
        return self.asking.release()

    def is_lost(self):
        return False


# ---- the program ----

# The tokens in one line; then it holds the locks until its input ends.
COMMAND = ["sh", "-c", 'echo $RQL_TOKEN; exec cat >/dev/null']


class ProgramActor(Other):
    def ask(self, *names, timeout_ms=FOREVER, ttl_ms=5000):
        limit = timeout_ms if timeout_ms == FOREVER else f"{timeout_ms}ms"
        words = ["run" if len(names) == 1 else "series", "--wait", limit, "--ttl", f"{ttl_ms}ms"]
        asking = ProgramAsking(self.world, names, [*words, *names, "--", *COMMAND])
        self.asked.append(asking)
        return asking


class ProgramAsking:
    def __init__(self, world, names, words):
        self.world, self.names = world, names
        environ = {name: value for name, value in os.environ.items() if not name.startswith("RQL_")}
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [os.environ["RQL_TEST_PROGRAM"], *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.errors, text=True, preexec_fn=die_with_parent,
            env={**environ, "RQL_URL": world.server.url})
        self.line = None
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        self.line = self.process.stdout.readline()

    def is_over(self):
        return not self.reader.is_alive()

    def outcome(self):
        self.reader.join(PATIENCE_S)
        check(self.is_over(), f"{self.names}: {self.process.args} goes on waiting")
        if self.line:
            words = {"status": STATUS["OK"], "tokens": [int(word) for word in self.line.split()],
                     "acq_id": self.world.holder(self.names[0])}
            return Outcome(words)
        check_equal(self.process.wait(PATIENCE_S), 1, self.last_words())
        return Outcome({"status": STATUS["TIMED_OUT"]})

    def hold(self):
        return OtherHold(self, self.outcome().check())

    def release(self):
        """The program's own code is 75 if the lock was lost."""
        self.process.stdin.close()
        code = self.process.wait(PATIENCE_S)
        return Outcome({"status": STATUS[{0: "OK", 75: "NOT_HELD"}[code]]})

    def kill(self):
        """The command dies with the program."""
        self.process.send_signal(signal.SIGKILL)
        self.end()

    def end(self):
        if not self.process.stdin.closed:
            self.process.stdin.close()
        self.process.wait(PATIENCE_S)
        self.reader.join()
        self.process.stdout.close()
        self.errors.close()

    def kept_ms(self):
        return delayed_ms(self.process.pid)

    def last_words(self):
        if self.errors.closed:
            return ""
        self.errors.seek(0)
        return self.errors.read()


# ---- the gem ----

class RubyActor(Other):
    def ask(self, name, timeout_ms=FOREVER, ttl_ms=5000):
        asking = RubyAsking(self, name, timeout_ms, ttl_ms)
        self.asked.append(asking)
        asking.start()
        return asking


class RubyAsking(threading.Thread):
    """One process of the gem, that asks for one lock: every command as golden/recordings has it."""

    def __init__(self, actor, name, timeout_ms, ttl_ms):
        super().__init__()
        self.names, self.lock, self.queue = (name,), f"rql:lock:{name}", f"rql:lock_queue:{name}"
        self.ttl_ms = ttl_ms
        self.end_s = None if timeout_ms == FOREVER else time.monotonic() + timeout_ms / 1000
        number = next(actor.world.numbers)
        identity = f"{number:016x}"
        self.acq_id = f"rql:acq:{20000 + number}/600/620/640/{identity}"
        self.hst_id = f"rql:hst:{20000 + number}/600/640/{identity}"
        self.connection = Connection(actor.world.server.path, PATIENCE_S)
        self.score = 0.0
        self.has_it = False
        self.failure = None
        self.is_dead = threading.Event()

    def call(self, *words):
        return self.connection.call(*words)

    def run(self):
        try:
            while not self.is_dead.is_set():
                if self.take():
                    self.has_it = True
                    return
                if self.end_s and time.monotonic() > self.end_s:
                    self.call("ZREM", self.queue, self.acq_id)
                    return
                self.is_dead.wait(RUBY_POLL_S)
        except Exception as failure:  # told by whoever asks for the outcome
            self.failure = failure

    def take(self):
        """One try."""
        now = time.time()
        if self.score + RUBY_QUEUE_TTL_S < now:  # also when it has none yet
            self.score = now
        self.call("WATCH", self.lock)
        self.call("HGET", self.lock, "acq_id")
        self.call("ZADD", self.queue, "NX", f"{self.score:.6f}", self.acq_id)
        self.call("ZREMRANGEBYSCORE", self.queue, "-inf", f"{now - RUBY_QUEUE_TTL_S:.6f}")
        if self.call("ZRANGE", self.queue, 0, 0) != [self.acq_id] or self.call("HGET", self.lock, "acq_id"):
            self.call("HGETALL", self.lock)
            self.call("MULTI")
            self.call("EXEC")
            return False
        self.call("MULTI")
        self.call("ZREM", self.queue, self.acq_id)
        self.call("HSET", self.lock, "acq_id", self.acq_id, "hst_id", self.hst_id, "ts", f"{now:.6f}",
                  "ini_ttl", self.ttl_ms)
        self.call("PEXPIRE", self.lock, self.ttl_ms)
        return self.call("EXEC") is not None

    def is_over(self):
        return not self.is_alive()

    def outcome(self):
        self.join(PATIENCE_S)
        check(self.is_over(), f"the gem goes on waiting for {self.names}")
        if self.failure:
            raise self.failure
        status = "OK" if self.has_it else "TIMED_OUT"
        return Outcome({"status": STATUS[status], "tokens": [], "acq_id": self.acq_id})

    def hold(self):
        return OtherHold(self, self.outcome().check())

    def release(self):
        """Whoever holds the lock by now: so does the gem."""
        self.call("EXPIRE", self.lock, 0)
        return Outcome({"status": STATUS["OK"]})

    def kill(self):
        self.is_dead.set()
        self.end()

    def end(self):
        self.join(PATIENCE_S)
        self.connection.close()

    def kept_ms(self):
        """It is a thread of this program."""
        return 0

    def last_words(self):
        return f"{self.failure!r}\n" if self.failure else ""


harness.ACTORS["ruby"] = RubyActor
if "RQL_TEST_PROGRAM" in os.environ:  # a build may be without it
    harness.ACTORS["program"] = ProgramActor
KINDS = sorted(harness.ACTORS)
