"""Users of some locks, who take them again and again: one at a time has each, with rising tokens, or as many share it as
the limit of the last one says."""
import threading
import time

from harness import FOREVER, PATIENCE_S, Workers, check

HOLD_S = 0.002
CLAIM_S = 0.95  # what a hand-over lives for until it is claimed, less its margin
ALONE = 1 << 20  # units of a lock that is held alone


class Crowd(Workers):
    """Each actor in a thread of its own, until end(). No call may fail, unless `may_fail`, or the release of what was
    held for longer than `claim_s`. `choose` takes an actor and returns what it asks for next, (names, options), if that
    is not `names` each time."""

    def __init__(self, actors, *names, choose=None, may_fail=False, hold_s=HOLD_S, claim_s=CLAIM_S, **options):
        self.choose = choose or (lambda actor: (names, {}))
        self.may_fail, self.hold_s, self.claim_s = may_fail, hold_s, claim_s
        self.options = {"timeout_ms": FOREVER, "queue_ttl_ms": FOREVER, **options}
        self.mutex, self.inside, self.tokens, self.n_uses, self.served = threading.Lock(), {}, {}, 0, set()
        self.came_s, self.gap_s = time.monotonic(), 0.0  # gap_s: the longest time between two grants
        self.waited_us = 0                               # the longest time that one has waited
        super().__init__(*(lambda actor=actor: self.use(actor) for actor in actors))
        self.wait(lambda: len(self.served) == len(actors), "each has had it", PATIENCE_S + len(actors) * hold_s)

    def use(self, actor):
        """Once. A user that is handed the lock and stands still for a second has not claimed it."""
        names, options = self.choose(actor)
        options = {**self.options, **options}
        asking = actor.ask(*names, **options)
        if self.may_fail and asking.outcome().status != "OK":
            return
        hold = asking.hold()
        self.enter(actor, hold, options.get("share_units", ALONE), options.get("share_limit", ALONE))
        time.sleep(self.hold_s)
        with self.mutex:
            for name in hold.names:
                del self.inside[name][actor.name]
        status, had_s = hold.release().status, time.time() - hold.outcome.ts_us / 1e6
        check(self.may_fail or status == "OK" or (status == "NOT_HELD" and had_s > self.claim_s),
              f"{status} after {had_s:.3f} s")

    def enter(self, actor, hold, units, limit):
        """Sharers may be heard of in another order than that of their tokens."""
        with self.mutex:
            for name, token in zip(hold.names, hold.tokens):
                inside = self.inside.setdefault(name, {})
                check(sum(inside.values()) + units <= limit, f"{actor.name} has {units} of {name}, and {inside} too")
                alone, top = self.tokens.get(name, (0, 0))
                before = top if units == ALONE else alone
                check(token > before, f"token {token} of {name} after {before}")
                inside[actor.name] = units
                self.tokens[name] = (token if units == ALONE else alone, max(token, top))
            now_s = time.monotonic()
            self.gap_s, self.came_s = max(self.gap_s, now_s - self.came_s), now_s
            self.waited_us = max(self.waited_us, hold.outcome.waited_us)
            self.n_uses += 1
            self.served.add(actor)

    def restart(self):
        """The gap counts from now on. Returns how long it was until then, in seconds."""
        with self.mutex:
            gap_s, self.gap_s, self.came_s = self.gap_s, 0.0, time.monotonic()
            return gap_s

    def await_uses(self, count):
        goal = self.n_uses + count
        self.wait(lambda: self.n_uses >= goal, f"{count} uses more")
