"""Runs the blocks of the plan in cycles until the time is over."""
import random
import statistics
import sys
import time

from players import PlayerError

WARM_UP_MS = 250
QUIET_SECONDS = 0.03  # how long a slot waits for others to come to rest
OWN = ("ping", "ping-tcp", "floor", "floor-tcp", "own", "shared", "shared-tcp", "spin", "hand",
       "locks", "clients")


def sample_of(answer, before, after, plain_lock):
    """What one slot says, for each operation where that makes sense."""
    if "bytes" in answer:
        return answer
    done = answer["done"]
    out = {
        "ops_s": answer["counted"] / answer["counted_s"],
        "p50_us": answer["p50_us"],
        "p99_us": answer["p99_us"],
        "waited": answer["waited"] / max(answer["counted"], 1),
    }
    if before and done:
        spent = {name: (after[name] - before[name]) / done for name in after}
        out["commands"] = spent["commands"] + (spent["sets"] if plain_lock else 0)
        out["wakes"] = spent["wakes"]
        out["cpu_us"] = spent["cpu_us"]
    return out


def mean(samples):
    return {name: statistics.fmean(sample[name] for sample in samples) for name in samples[0]}


def runnable():
    """How many threads of the machine want a processor now. Between slots we are the only one."""
    with open("/proc/loadavg", encoding="ascii") as text:
        return int(text.read().split()[3].split("/")[0])


def await_quiet():
    """False: others are busy and stay so."""
    deadline = time.monotonic() + QUIET_SECONDS
    while runnable() > 1:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


class Results:
    """Samples by block, case and cycle."""

    def __init__(self):
        self.samples = {}

    def add(self, block, case, cycle, sample):
        self.samples.setdefault((block.name, case.key), {})[cycle] = sample

    def values(self, block, key, figure):
        """By cycle. Slots in which nothing was counted say nothing of times."""
        found = self.samples.get((block, key), {})
        return {cycle: sample[figure] for cycle, sample in found.items() if sample.get(figure)}

    def ratios(self, block, above, below):
        """Each of (case, threads, figure); one ratio for each cycle in which both were measured."""
        upper = self.values(block, above[:2], above[2])
        lower = self.values(block, below[:2], below[2])
        return [upper[cycle] / lower[cycle] for cycle in upper if cycle in lower]


def spread(values):
    """Median and quartiles, or None."""
    values = list(values)
    if not values:
        return None
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return middle, low, high


class Run:
    """Blocks, the players that they need, and the server whose work is counted."""

    def __init__(self, blocks, lineup, seconds):
        self.blocks = blocks
        self.players = lineup.players
        self.server_of = lineup.server_of
        self.seconds = seconds
        self.results = Results()
        self.lost = {}  # player: why it cannot go on
        self.cycles = 0
        self.slots = 0
        self.disturbed = 0
        self.random = random.Random(1)

    def slot(self, case, slot_ms):
        """Others disturb what they run beside; a disturbed slot gets a second chance."""
        self.slots += 1
        quiet = await_quiet()
        out = self.measured(case, slot_ms)
        if quiet and runnable() <= 1:
            return out
        quiet = await_quiet()
        out = self.measured(case, slot_ms)
        self.disturbed += not quiet or runnable() > 1
        return out

    def measured(self, case, slot_ms):
        server = self.server_of(case.player) if case.player in OWN else None
        before = server.usage() if server else None
        answer = self.players[case.player].order(case.shape, case.threads, slot_ms, case.pause_us)
        after = server.usage() if server else None
        return sample_of(answer, before, after, "floor" in case.name)

    def run_block(self, block, cycle, slot_ms=None):
        cases = [case for case in block.cases for _ in range(case.slots)
                 if case.player in self.players]
        self.random.shuffle(cases)
        samples = {}
        for case in cases:
            sample = self.try_slot(case, slot_ms or case.slot_ms)
            samples.setdefault(case, []).append(sample)
        for case, found in samples.items():
            if cycle is not None and all(found):
                self.results.add(block, case, cycle, mean(found))

    def try_slot(self, case, slot_ms):
        """A peer that fails is out of the game; if one of ours does, the game is over."""
        if case.player in self.lost:
            return None
        try:
            return self.slot(case, slot_ms)
        except PlayerError as error:
            if case.player in OWN:
                raise
            self.lost[case.player] = str(error)
            return None

    def cycle(self):
        due = [block for block in self.blocks if self.cycles % block.every == 0]
        self.random.shuffle(due)
        for block in due:
            self.run_block(block, self.cycles)

    def tell(self, text):
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\033[K{text}")
            sys.stderr.flush()

    def run(self):
        """The first round warms up: scripts, connections, memory, compilers."""
        for block in self.blocks:
            if block.is_cold:
                continue
            self.tell(f"warming up: {block.name}")
            self.run_block(block, None, WARM_UP_MS)
        deadline = time.monotonic() + self.seconds
        while self.cycles < 3 or time.monotonic() < deadline:
            left = max(deadline - time.monotonic(), 0)
            self.tell(f"cycle {self.cycles + 1}, {left:.0f} s left ")
            self.cycle()
            self.cycles += 1
        self.tell("")
