"""The gem redis_queued_locks as an actor: a *ruby*, played by the commands that the gem sends; one lock at a time.

It does what Actor does of asking, waiting, releasing and dying, and knows no options but ttl_ms and timeout_ms.
Standard library only.
"""
import threading
import time

import harness
from harness import FOREVER, PATIENCE_S, STATUS, Outcome, check
from private_server import leave_out_in_cluster

LONG_MS = 60000
RUBY_POLL_S = 0.2
RUBY_QUEUE_TTL_S = 15


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


class RubyActor:
    """It polls as the gem does. It is its own `remote`, which reports nothing."""

    def __init__(self, world, name, **options):
        self.ruby = Ruby(world, **options)  # or there is no actor: in a cluster
        self.world, self.name, self.kind, self.remote = world, name, "ruby", self
        self.told, self.asked = [], []
        world.remotes.append(self)

    def ask(self, name, timeout_ms=FOREVER, ttl_ms=5000):
        asking = RubyAsking(self.ruby, name, timeout_ms, ttl_ms)
        self.asked.append(asking)
        asking.start()
        return asking

    def acquire(self, name, **options):
        return self.ask(name, **options).hold()

    def end(self):
        for asking in self.asked:
            asking.end()
        self.ruby.close()

    def kill(self):
        for asking in self.asked:
            asking.kill()
        self.ruby.close()

    def kept_ms(self):
        """Its threads are those of this program."""
        return 0

    def last_words(self):
        return "".join(asking.last_words() for asking in self.asked)


class RubyHold:
    def __init__(self, asking, outcome):
        self.outcome, self.tokens = outcome, outcome.tokens
        self.release = asking.release


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
        return RubyHold(self, self.outcome().check())

    def release(self):
        self.ruby.release(self.names[0])
        return Outcome({"status": STATUS["OK"]})

    def kill(self):
        self.is_dead.set()
        self.end()

    def end(self):
        self.join(PATIENCE_S)

    def last_words(self):
        return f"{self.failure!r}\n" if self.failure else ""


harness.ACTORS["ruby"] = RubyActor
