"""What tests ask of a server about locks, behind the library's back. Standard library only."""
import itertools
import re

from checks import wait_until


class LockQueries:
    """Its subclasses have ask()."""

    def is_locked(self, name):
        return self.ask("EXISTS", f"rql:lock:{name}") == 1

    def holder(self, name):
        return self.ask("HGET", f"rql:lock:{name}", "acq_id")

    def token(self, name):
        return int(self.ask("HGET", f"rql:lock:{name}", "rql_token") or 0)

    def end_ms(self, name):
        """When it ends, by the server's clock; below 0 if it has ended, or has no ttl."""
        return self.ask("PEXPIRETIME", f"rql:lock:{name}")

    def left_ms(self, name):
        """How long it lives from now on; below 0 as above."""
        return self.ask("PTTL", f"rql:lock:{name}")

    def n_calls(self, command):
        """How often it was asked for, since the server was started."""
        counted = re.search(rf"cmdstat_{command}:calls=(\d+)", self.ask("INFO", "commandstats"))
        return int(counted.group(1)) if counted else 0

    def n_scripts(self):
        return self.n_calls("evalsha") + self.n_calls("eval")

    def queue_length(self, name):
        return self.ask("ZCARD", f"rql:lock_queue:{name}")

    def await_queue(self, names, count):
        for name in names:
            wait_until(lambda name=name: self.queue_length(name) == count, f"{count} wait for {name}")

    def listeners(self):
        """The channels of those who are told of hand-overs; who waits without being told has to ask again."""
        return set(self.ask("PUBSUB", "CHANNELS", "rql:wake:*"))

    def await_listeners(self, count):
        wait_until(lambda: len(self.listeners()) == count, f"{count} listen")

    def save(self):
        """What is there, when a save that is under way has ended."""
        wait_until(lambda: "rdb_bgsave_in_progress:0" in self.ask("INFO", "persistence"), "no save is under way")
        self.ask("SAVE")

    def keys_left(self):
        """Locks, queues and requests; not what is there for good, as the fence."""
        found = [self.ask("KEYS", pattern) for pattern in ("rql:lock:*", "rql:lock_queue:*", "rql:req:*")]
        return sorted(itertools.chain(*found))

    def await_nothing_left(self):
        wait_until(lambda: not self.keys_left(), "nothing is left")
