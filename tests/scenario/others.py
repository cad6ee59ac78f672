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
from harness import (FOREVER, PATIENCE_S, STATUS, Outcome, check, check_equal, delayed_ms, die_with_parent, is_cluster,
                     leave_out_in_cluster)
from partitions import tagged

LONG_MS = 60000
RUBY_POLL_S = 0.2
RUBY_QUEUE_TTL_S = 15


class Other:
    """What an actor is to the world; it is its own `remote`, with nothing to be told."""

    def __init__(self, world, name):
        self.world, self.name, self.remote = world, name, self
        self.kind = name.rstrip("0123456789")
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
    def __init__(self, world, name, **options):
        """Options are those of its client."""
        super().__init__(world, name)
        self.env = {"RQL_" + option.upper(): str(value) for option, value in options.items()}

    def ask(self, *names, timeout_ms=FOREVER, ttl_ms=5000):
        limit = timeout_ms if timeout_ms == FOREVER else f"{timeout_ms}ms"
        words = ["run" if len(names) == 1 else "series", "--wait", limit, "--ttl", f"{ttl_ms}ms"]
        its_names = tagged({"names": names})["names"] if is_cluster() else names
        asking = ProgramAsking(self.world, names, [*words, *its_names, "--", *COMMAND], self.env)
        self.asked.append(asking)
        return asking


class ProgramAsking:
    def __init__(self, world, names, words, env):
        self.world, self.names = world, names
        environ = {name: value for name, value in os.environ.items() if not name.startswith("RQL_")}
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [os.environ["RQL_TEST_PROGRAM"], *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.errors, text=True, preexec_fn=die_with_parent,
            env={**environ, "RQL_URL": world.server.url, **env})
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

class Ruby:
    """A process of the gem: every command as golden/recordings has it. `identity` is what it was told to use."""

    def __init__(self, world, identity=None):
        leave_out_in_cluster("Ruby")
        number = next(world.numbers)
        identity = identity or f"{number:016x}"
        self.acq_id = f"rql:acq:{20000 + number}/600/620/640/{identity}"
        self.hst_id = f"rql:hst:{20000 + number}/600/640/{identity}"
        self.connection = world.connection()
        self.score = 0.0  # remembered, until it has the lock

    def call(self, *words):
        return self.connection.call(*words)

    def take(self, name, ttl_ms=LONG_MS):
        """One try."""
        now = time.time()
        if self.score + RUBY_QUEUE_TTL_S < now:  # also when it has none yet
            self.score = now
        lock, queue = f"rql:lock:{name}", f"rql:lock_queue:{name}"
        self.call("WATCH", lock)
        self.call("HGET", lock, "acq_id")
        self.call("ZADD", queue, "NX", f"{self.score:.6f}", self.acq_id)
        self.call("ZREMRANGEBYSCORE", queue, "-inf", f"{now - RUBY_QUEUE_TTL_S:.6f}")
        if self.call("ZRANGE", queue, 0, 0) != [self.acq_id] or self.call("HGET", lock, "acq_id"):
            self.call("HGETALL", lock)
            self.call("MULTI")
            self.call("EXEC")
            return False
        self.call("MULTI")
        self.call("ZREM", queue, self.acq_id)
        self.call("HSET", lock, "acq_id", self.acq_id, "hst_id", self.hst_id, "ts", f"{now:.6f}", "ini_ttl", ttl_ms)
        self.call("PEXPIRE", lock, ttl_ms)
        has_it = self.call("EXEC") is not None
        if has_it:
            self.score = 0.0
        return has_it

    def give_up(self, name):
        self.call("ZREM", f"rql:lock_queue:{name}", self.acq_id)
        self.score = 0.0

    def release(self, name):
        """Whoever holds the lock by now: so does the gem."""
        self.call("EXPIRE", f"rql:lock:{name}", 0)

    def sweep(self, name):
        """Of requests that are as old as its queue_ttl; here all are."""
        self.call("ZREMRANGEBYSCORE", f"rql:lock_queue:{name}", "-inf", f"{time.time():.6f}")

    def unlock(self, name):
        self.call("MULTI")
        self.call("ZREMRANGEBYSCORE", f"rql:lock_queue:{name}", "-inf", "+inf")
        self.call("EXPIRE", f"rql:lock:{name}", 0)
        self.call("EXEC")

    def clear_locks(self, name):
        """Of what it has found by SCAN."""
        self.call("SCAN", 0, "MATCH", "rql:lock_queue:*", "COUNT", 100)
        self.call("SCAN", 0, "MATCH", "rql:lock:*", "COUNT", 100)
        self.call("EXPIRE", f"rql:lock_queue:{name}", 0)
        self.call("EXPIRE", f"rql:lock:{name}", 0)

    def close(self):
        self.connection.close()


class RubyActor(Other):
    """It polls as the gem does."""

    def __init__(self, world, name, **options):
        self.ruby = Ruby(world, **options)  # or there is no actor: in a cluster
        super().__init__(world, name)

    def ask(self, name, timeout_ms=FOREVER, ttl_ms=5000):
        asking = RubyAsking(self.ruby, name, timeout_ms, ttl_ms)
        self.asked.append(asking)
        asking.start()
        return asking

    def end(self):
        super().end()
        self.ruby.close()

    def kill(self):
        super().kill()
        self.ruby.close()


class RubyAsking(threading.Thread):
    def __init__(self, ruby, name, timeout_ms, ttl_ms):
        super().__init__()
        self.ruby, self.names, self.ttl_ms = ruby, (name,), ttl_ms
        self.end_s = None if timeout_ms == FOREVER else time.monotonic() + timeout_ms / 1000
        self.granted_us = 0
        self.failure = None
        self.is_dead = threading.Event()

    def run(self):
        name = self.names[0]
        try:
            while not self.is_dead.is_set():
                if self.ruby.take(name, self.ttl_ms):
                    self.granted_us = time.time_ns() // 1000
                    return
                if self.end_s and time.monotonic() > self.end_s:
                    self.ruby.give_up(name)
                    return
                self.is_dead.wait(RUBY_POLL_S)
        except Exception as failure:  # told by whoever asks for the outcome
            self.failure = failure

    def is_over(self):
        return not self.is_alive()

    def outcome(self):
        self.join(PATIENCE_S)
        check(self.is_over(), f"the gem goes on waiting for {self.names}")
        if self.failure:
            raise self.failure
        status = "OK" if self.granted_us else "TIMED_OUT"
        return Outcome({"status": STATUS[status], "tokens": [], "acq_id": self.ruby.acq_id,
                        "ts_us": self.granted_us})

    def hold(self):
        return OtherHold(self, self.outcome().check())

    def release(self):
        self.ruby.release(self.names[0])
        return Outcome({"status": STATUS["OK"]})

    def kill(self):
        self.is_dead.set()
        self.end()

    def end(self):
        self.join(PATIENCE_S)

    def kept_ms(self):
        """It is a thread of this program."""
        return 0

    def last_words(self):
        return f"{self.failure!r}\n" if self.failure else ""


harness.ACTORS["ruby"] = RubyActor
if "RQL_TEST_PROGRAM" in os.environ:  # a build may be without it
    harness.ACTORS["program"] = ProgramActor
KINDS = [kind for kind in sorted(harness.ACTORS) if kind != "ruby" or not is_cluster()]
