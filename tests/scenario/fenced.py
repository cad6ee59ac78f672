"""A fleet that increments a counter under one lock, fenced by its token, and a judge of who relied on the lock when.

A use is relied on from its grant, by the server's clock, for as long as the library said that it may be, or until it
was given back or told as lost: also where its process was stopped or killed, for nobody else may have the lock then.
"""
import contextlib
import threading
import time

from harness import SLOW, Failure, Workers, check, check_equal, wait_until

NAME = "fenced"
TIMEOUT_MS = 1500
LEAST_TTL_MS = 300
IO_TIMEOUT_MS = 300
LATE_MS = 250           # of a call: 50 ms, and what the machine takes
SOON_US = 500000        # in which a holder learns of a loss
LOOK_S = 0.005
ALLOWED = ("OK", "TIMED_OUT", "NOT_HELD", "E_IO", "E_UNKNOWN", "E_UNAVAILABLE", "E_READ_ONLY")
DOUBTFUL = 1


class Counter:
    """What the lock protects. It takes nothing with a lower token than the highest it has seen."""

    def __init__(self):
        self.mutex = threading.Lock()
        self.token = self.value = self.n_written = self.n_refused = 0

    def is_current(self, token):
        self.token = max(self.token, token)
        self.n_refused += token < self.token
        return token == self.token

    def read(self, token):
        with self.mutex:
            return self.value if self.is_current(token) else None

    def write(self, token, value):
        with self.mutex:
            if self.is_current(token):
                self.value = value
                self.n_written += 1


class Use:
    """Of the lock, by one of the fleet; times by the server's clock. lost_ms: of it, in which its process could do
    nothing."""

    def __init__(self, slot, hold, now_us):
        self.slot, self.hold, self.now_us = slot, hold, now_us
        self.token, self.remote = hold.tokens[0], slot.remote
        # A token is no less than the time of its grant; but where the lock was handed on inside the client that time
        # is known about only: it is relied on since it was told.
        self.is_exact = self.token >= hold.outcome.ts_us
        self.from_us = hold.outcome.ts_us if self.is_exact else now_us()
        self.until_us = self.from_us
        self.lost_ms = slot.lost_ms()

    def __repr__(self):
        return f"{self.hold.name} token {self.token} {self.from_us}..{self.until_us}"

    def look(self):
        """Is it relied on?"""
        asked_us = self.now_us()
        said = self.hold.begin("state").outcome()
        if said.state > DOUBTFUL or self.hold.is_lost():
            self.end()
            return False
        self.until_us = max(self.until_us, asked_us + 1000 * said.remaining_ms)
        return True

    def end(self):
        self.until_us = max(self.from_us, min(self.until_us, self.now_us()))

    def stay(self, seconds):
        """Or until it is told as lost."""
        over_s = time.monotonic() + seconds
        while self.look() and time.monotonic() < over_s:
            time.sleep(LOOK_S)

    def give_back(self):
        self.lost_ms = self.slot.lost_ms() - self.lost_ms
        self.end()
        self.hold.release().check(*ALLOWED)


class Slot:
    """A process of the fleet; after it was killed, the next one."""

    def __init__(self, fleet, url):
        self.fleet, self.url = fleet, url
        self.mutex = threading.Lock()
        self.stopped_ms = 0
        self.make()

    def make(self):
        world = self.fleet.world
        self.remote = world.remote()
        self.client = world.client(self.remote, url=self.url(), io_timeout_ms=IO_TIMEOUT_MS, **self.fleet.options)
        self.actors = [world.actor(kind, self.client) for kind in self.fleet.kinds]

    def lost_ms(self):
        """In which it could do nothing, in all."""
        return self.stopped_ms + self.remote.kept_ms()

    @contextlib.contextmanager
    def stopped(self):
        self.remote.stop()
        begun_s = time.monotonic()
        yield
        self.stopped_ms += 1000 * (time.monotonic() - begun_s)
        self.remote.go_on()

    def kill(self):
        with self.mutex:
            self.fleet.world.kill(self.actors[0])
            self.make()

    def actor(self, number):
        with self.mutex:
            return self.actors[number]


class Fleet:
    """Processes that use the lock until they are told to stop. `urls`: of each process, called when it begins."""

    def __init__(self, world, urls, now_us, most_ttl_ms, kinds=("thread", "loop"), **options):
        self.world, self.now_us, self.most_ttl_ms, self.kinds, self.options = world, now_us, most_ttl_ms, kinds, options
        self.random = world.random
        self.counter, self.uses, self.late = Counter(), [], []
        self.is_wanted = False  # a use of some length, by whoever asks next
        self.slots = [Slot(self, url) for url in urls]
        self.workers = Workers()

    def work(self, slot, number):
        """A worker's life."""
        actor = slot.actor(number)
        try:
            self.use_once(slot, actor)
        except Failure:
            if not actor.remote.is_killed:
                raise

    def use_once(self, slot, actor):
        is_long, self.is_wanted = self.is_wanted, False
        ttl_ms = self.most_ttl_ms if is_long else self.random.choice((*[LEAST_TTL_MS] * 3, self.most_ttl_ms))
        lost_ms = slot.lost_ms()
        asking = actor.ask(NAME, timeout_ms=TIMEOUT_MS, ttl_ms=ttl_ms, auto_extend=self.random.random() < 0.3)
        outcome = asking.outcome().check(*ALLOWED)
        late_ms = outcome.took_us / 1000 - TIMEOUT_MS - LATE_MS * SLOW
        if late_ms > 0 and late_ms > slot.lost_ms() - lost_ms:
            self.late.append(f"{late_ms:.0f} ms late: {outcome!r}")
        if outcome.status != "OK":
            time.sleep(LOOK_S)  # where it is told at once, as by a server that is no master any more
            return
        use = Use(slot, asking.hold(), self.now_us)
        self.uses.append(use)
        value = self.counter.read(use.token)
        use.stay(ttl_ms / 1000 if is_long else self.random.choice((0, 0, 0.001, 0.01, 0.05, 0.3)))
        if value is not None:
            self.counter.write(use.token, value + 1)
        use.give_back()

    def holder(self):
        """Who is granted it from now on, and relies on it for a while."""
        n_before, self.is_wanted = len(self.uses), True

        def found():  # what was handed over lives for a second, until its owner is heard of
            least_us = self.now_us() + 600 * self.most_ttl_ms
            return next((use for use in self.uses[n_before:] if use.until_us > least_us), None)
        return wait_until(found, "somebody holds it")

    def await_uses(self, count):
        goal = len(self.uses) + count
        self.workers.wait(lambda: len(self.uses) >= goal, "the lock is used")

    def tasks(self):
        return [lambda slot=slot, number=number: self.work(slot, number)
                for slot in self.slots for number in range(len(slot.actors))]

    def run(self, strike, seconds):
        """Strikes while they work: once, and until the time is over."""
        over = time.monotonic() + seconds
        n_strikes = 0
        with Workers(*self.tasks()) as self.workers:
            while not n_strikes or time.monotonic() < over:
                self.await_uses(2 * len(self.workers))
                time.sleep(self.random.uniform(0, 0.3))
                strike()
                n_strikes += 1
            self.await_uses(len(self.workers))
        return n_strikes

    def n_told(self):
        """How many clients were told that writes were lost, in all."""
        return sum(slot.client.stats().histories_lost for slot in self.slots)


class Judgement:
    """Of all uses, in the order of their grants; without those that were handed on and over before it was known."""

    def __init__(self, fleet):
        uses = [use for use in fleet.uses if use.until_us > use.from_us or use.is_exact]
        self.fleet, self.uses = fleet, sorted(uses, key=lambda use: (use.from_us, use.token))
        self.overlaps = []
        longest = None
        for use in self.uses:
            if longest and longest.until_us > use.from_us:
                self.overlaps.append((longest, use))
            if not longest or use.until_us > longest.until_us:
                longest = use

    def __str__(self):
        counter = self.fleet.counter
        return (f"{len(self.uses)} grants, {len(self.overlaps)} while another relied on the lock, "
                f"{counter.value} times counted, {counter.n_refused} refused")

    def check_fence(self):
        """What the lock protects is safe, whatever was lost; and nobody had to wait for longer than he wanted."""
        check_equal(self.fleet.counter.value, self.fleet.counter.n_written, "counted")
        tokens = [use.token for use in self.uses]
        check_equal(len(set(tokens)), len(tokens), "tokens")
        check_equal(self.fleet.late, [])

    def check_order(self):
        for before, after in zip(self.uses, self.uses[1:]):
            check(before.token < after.token, f"tokens do not rise: {before} and {after}")

    def check_none(self):
        check_equal(self.overlaps, [])

    def check_seen(self):
        """Who relied on it was told, and soon."""
        for before, after in self.overlaps:
            most_us = SOON_US * SLOW + 1000 * before.lost_ms
            check(before.until_us - after.from_us < most_us, f"it was not told, or late: {before} and {after}")
