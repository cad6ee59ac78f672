"""Runs the blocks of the plan in cycles until the time is over."""
import random
import statistics
import sys
import time

from players import PlayerError

WARM_UP_MS = 120
SETTLE_SECONDS = 0.0005  # for what a slot started to end
TIMES = ("p50_us", "p99_us")
ENOUGH = 5  # cycles without disturbance, to leave the others out
OWN = ("ping", "ping-tcp", "floor", "floor-tcp", "own", "shared", "shared-tcp", "spin", "lazy",
       "lazy-spin", "hand", "hand-one", "each", "agent", "token", "locks", "clients", "async",
       "shared-tls", "shared-clear", "logins", "durable", "shared-plain", "ping-master", "single", "cluster")


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
    if before and done > 0:
        spent = {name: (after[name] - before[name]) / done for name in after}
        out["commands"] = spent["commands"] + (spent["sets"] if plain_lock else 0)
        out["wakes"] = spent["wakes"]
        out["cpu_us"] = spent["cpu_us"]
        out.update(of_cluster(spent))
    return out


def of_cluster(spent):
    """What the nodes told each other, and the smallest and the largest share of a node in the commands."""
    of_nodes = [value for name, value in spent.items() if name.startswith("node ")]
    total = sum(of_nodes)
    return {"bus": spent["bus"], "least": min(of_nodes) / total, "most": max(of_nodes) / total} if total else {}


def mean(samples):
    """A slot in which the machine stood still has no times."""
    out = {}
    for name in {name for sample in samples for name in sample}:
        known = [sample[name] for sample in samples if name in sample]
        known = [value for value in known if value > 0] if name in TIMES else known
        out[name] = statistics.fmean(known) if known else 0.0
    return out


def runnable():
    """How many threads of the machine want a processor now. Between slots we are the only one."""
    with open("/proc/loadavg", encoding="ascii") as text:
        return int(text.read().split()[3].split("/")[0])


def await_quiet(seconds):
    """Not for long: others may be busy all the time."""
    deadline = time.monotonic() + seconds
    while runnable() > 1 and time.monotonic() < deadline:
        time.sleep(0.001)


class Results:
    """Samples by block, case and cycle. A slot that others disturbed does not count, unless too few
    would be left."""

    def __init__(self):
        self.samples = {}

    def add(self, block, case, cycle, sample):
        self.samples.setdefault((block.name, case.key), {})[cycle] = sample

    def cycles(self, block, keys):
        """Those in which all of these cases were measured."""
        found = [self.samples.get((block, key), {}) for key in keys]
        common = set(found[0]).intersection(*found[1:])
        quiet = {cycle for cycle in common if all(by[cycle]["quiet"] == 1 for by in found)}
        return sorted(quiet if len(quiet) >= ENOUGH else common)

    def values(self, block, key, figure, cycles):
        """By cycle. Slots in which nothing was counted say nothing of times."""
        found = self.samples.get((block, key), {})
        known = {cycle: found[cycle].get(figure) for cycle in cycles if cycle in found}
        return {cycle: value for cycle, value in known.items()
                if value is not None and (value > 0 or figure not in TIMES)}

    def alone(self, block, one):
        """One of (case, threads, figure)."""
        return list(self.values(block, one[:2], one[2], self.cycles(block, [one[:2]])).values())

    def ratios(self, block, above, below):
        """above is (case, threads, figure), below several of them, of which the largest counts; one
        ratio for each cycle."""
        cycles = self.cycles(block, [one[:2] for one in (above, *below)])
        upper = self.values(block, above[:2], above[2], cycles)
        lower = [self.values(block, one[:2], one[2], cycles) for one in below]
        largest = {cycle: max(values[cycle] for values in lower) for cycle in upper
                   if all(cycle in values for values in lower)}
        return [upper[cycle] / value for cycle, value in largest.items() if value > 0]

    def quiet_share(self):
        found = [sample["quiet"] for by in self.samples.values() for sample in by.values()]
        return statistics.fmean(found) if found else 0


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
    """Blocks, and the players that they need. A block waits for others to come to rest, for
    patience_s at most."""

    def __init__(self, blocks, lineup, seconds, patience_s):
        self.blocks = blocks
        self.players = lineup.players
        self.server_of = lineup.server_of
        self.seconds = seconds
        self.patience_s = patience_s
        self.results = Results()
        self.lost = {}  # player: why it cannot go on
        self.cycles = 0
        self.random = random.Random(1)

    def slot(self, case, slot_ms):
        """Says also whether others left the machine to us."""
        quiet = runnable() <= 1
        out = self.measured(case, slot_ms)
        time.sleep(SETTLE_SECONDS)
        out["quiet"] = float(quiet and runnable() <= 1)
        return out

    def measured(self, case, slot_ms):
        server = self.server_of(case.player) if case.player in OWN else None
        if case.prepared_by:
            self.players[case.player].order(case.prepared_by, case.threads, slot_ms, case.pause_us)
        before = server.usage() if server else None
        answer = self.players[case.player].order(case.shape, case.threads, slot_ms, case.pause_us)
        after = server.usage() if server else None
        return sample_of(answer, before, after, "floor" in case.name)

    def run_block(self, block, cycle):
        cases = [case for case in block.cases for _ in range(case.slots)
                 if case.player in self.players]
        self.random.shuffle(cases)
        await_quiet(self.patience_s)
        samples = {}
        for case in cases:
            samples.setdefault(case, []).append(self.try_slot(case, case.slot_ms))
        for case, found in samples.items():
            if all(found):
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

    def warm_up(self):
        """Scripts, connections, memory, compilers: each thing once."""
        cases = {(case.player, case.shape, case.threads): case for block in self.blocks
                 if not block.is_cold for case in block.cases if case.player in self.players}
        for case in cases.values():
            self.tell(f"warming up: {case.name}")
            self.try_slot(case, WARM_UP_MS)

    def run(self):
        self.warm_up()
        deadline = time.monotonic() + self.seconds
        while self.cycles < 3 or time.monotonic() < deadline:
            left = max(deadline - time.monotonic(), 0)
            self.tell(f"cycle {self.cycles + 1}, {left:.0f} s left ")
            self.cycle()
            self.cycles += 1
        self.tell("")
