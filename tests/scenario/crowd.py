"""Users of one lock, who take it again and again: one at a time has it, with rising tokens."""
import threading
import time

from harness import FOREVER, Worker, check, wait_until

HOLD_S = 0.002
CLAIM_S = 0.95  # what a hand-over lives for until it is claimed, less its margin


class Crowd:
    """Each actor in a thread of its own, until end(). No call may fail, unless `may_fail`."""

    def __init__(self, actors, *names, may_fail=False, **options):
        self.names, self.may_fail, self.options, self.mutex = names, may_fail, options, threading.Lock()
        self.inside, self.token, self.n_uses, self.served = None, 0, 0, set()
        self.came_s, self.gap_s = time.monotonic(), 0.0  # gap_s: the longest time between two grants
        self.workers = [Worker(lambda actor=actor: self.use(actor)) for actor in actors]
        self.wait(lambda: len(self.served) == len(actors), "each has had it")

    def use(self, actor):
        """Once. A user that is handed the lock and stands still for a second has not claimed it."""
        asking = actor.ask(*self.names, timeout_ms=FOREVER, queue_ttl_ms=FOREVER, **self.options)
        if self.may_fail and asking.outcome().status != "OK":
            return
        hold = asking.hold()
        self.enter(actor, hold)
        time.sleep(HOLD_S)
        with self.mutex:
            self.inside = None
        status, had_s = hold.release().status, time.time() - hold.outcome.ts_us / 1e6
        check(self.may_fail or status == "OK" or (status == "NOT_HELD" and had_s > CLAIM_S),
              f"{status} after {had_s:.3f} s")

    def enter(self, actor, hold):
        with self.mutex:
            check(not self.inside, f"{hold.name} was granted it while {self.inside and self.inside.name} has it")
            check(hold.tokens[0] > self.token, f"token {hold.tokens[0]} after {self.token}")
            now_s = time.monotonic()
            self.gap_s, self.came_s = max(self.gap_s, now_s - self.came_s), now_s
            self.inside, self.token, self.n_uses = hold, hold.tokens[0], self.n_uses + 1
            self.served.add(actor)

    def restart(self):
        """The gap counts from now on. Returns how long it was until then, in seconds."""
        with self.mutex:
            gap_s, self.gap_s, self.came_s = self.gap_s, 0.0, time.monotonic()
            return gap_s

    def has_failed(self):
        return any(worker.failure for worker in self.workers)

    def wait(self, is_done, what):
        wait_until(lambda: is_done() or self.has_failed(), what)

    def await_uses(self, count):
        goal = self.n_uses + count
        self.wait(lambda: self.n_uses >= goal, f"{count} uses more")

    def end(self):
        for worker in self.workers:
            worker.is_stopped = True
        for worker in self.workers:
            worker.end()
