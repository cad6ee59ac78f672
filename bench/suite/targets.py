"""What was promised, as ratios within one run, and whether it was kept."""
import dataclasses

from measure import spread
from plan import HELD, NPM, QUEUES, WAITERS, WORKERS


@dataclasses.dataclass(frozen=True)
class Target:
    """`above` and `below` are (case, threads, figure); below may be several, the best counts."""

    text: str
    group: str
    block: str
    above: tuple
    below: tuple  # of such triples; empty: the figure itself
    limit: float
    at_least: bool = False
    unit: float = 1

    def measured(self, results):
        """Median and quartiles, or None if something of it was not measured."""
        if not self.below:
            return spread(value / self.unit for value in results.alone(self.block, self.above))
        return spread(results.ratios(self.block, self.above, self.below))

    def met(self, value):
        """Judged as it is printed."""
        value = round(value, 2)
        return value >= self.limit if self.at_least else value <= self.limit


def pair_targets():
    def one(text, n, who, limit, than="floor"):
        return Target(text, "pairs", f"pair-{n}", (f"pair/{who}", n, "ops_s"),
                      ((f"pair/{than}", n, "ops_s"),), limit, True)

    yield one("pair, 1 thread, no spin / plain lock", 1, "rql", 0.78)
    yield one("pair, 1 thread, lone-caller spin / plain lock", 1, "rql-spin", 1.1)
    yield one("pair, 1 thread, lazy release / plain lock", 1, "rql-lazy", 1.3)
    yield one("pair, 1 thread, lazy release and spin / plain lock", 1, "rql-lazy-spin", 1.9)
    for n, limit in ((2, 1.0), (8, 1.6), (32, 1.9), (128, 2.0)):
        yield one(f"pair, {n} threads / one client per thread", n, "rql", limit, "own")
    yield one("pair, 32 threads / plain lock", 32, "rql", 1.25)
    yield Target("server CPU per pair, 32 threads / one client per thread", "pairs", "pair-32",
                 ("pair/rql", 32, "cpu_us"), (("pair/own", 32, "cpu_us"),), 0.5)


def hand_targets():
    for n in WAITERS:
        block, case = f"hot-{n}", ("turns/rql", n)
        ping = (("ping", 1, "p50_us"),)
        yield Target(f"hand-off p50, released at once, {n} waiters / PING", "handoff", block,
                     (*case, "p50_us"), ping, 3.0)
        yield Target(f"hand-off p99, released at once, {n} waiters / PING", "handoff", block,
                     (*case, "p99_us"), ping, 8.0)
    for n in WAITERS:
        block, case = f"hold-{n}", ("hold/rql", n)
        ping = (("ping/paced", 1, "p50_us"),)
        yield Target(f"hand-off p50, held 1 ms, {n} waiters / paced PING", "handoff", block,
                     (*case, "p50_us"), ping, 2.5)
        yield Target(f"hand-off p99, held 1 ms, {n} waiters / paced PING", "handoff", block,
                     (*case, "p99_us"), ping, 8.0)
        yield Target(f"hand-off p50, held 1 ms, {n} waiters / PostgreSQL", "handoff", block,
                     (*case, "p50_us"), (("hold/postgres", n, "p50_us"),), 0.6)
        yield Target(f"commands but PING per acquisition, {n} waiters", "handoff", block,
                     (*case, "commands"), (), 2.0)
        yield Target(f"wake-ups per acquisition, {n} waiters", "handoff", block,
                     (*case, "wakes"), (), 1.0)


def peer_targets():
    for n, limit in zip(WORKERS, (0.8, 1.0, 1.2)):
        yield Target(f"acquisitions/s on one lock, {n} workers / PostgreSQL", "handoff", f"hot-{n}",
                     ("turns/rql", n, "ops_s"), (("turns/postgres", n, "ops_s"),), limit, True)
    yield Target("pair, 1 worker / best npm library", "peers", "peers-pair-1",
                 ("pair/rql", 1, "ops_s"), tuple((f"pair/{who}", 1, "ops_s") for who in NPM), 2.5,
                 True)


def scale_targets():
    long, short = QUEUES[-1], QUEUES[0]
    yield Target(f"acquisition with {long:,} waiting / with {short}, server CPU", "scale", "queue",
                 ("queue/rql", long, "cpu_us"), (("queue/rql", short, "cpu_us"),), 1.15)
    for name, what, n, limit, unit in (
            ("held", "server memory per held lock", HELD, 400, 1),
            ("waiting", "server memory per waiting request", HELD, 450, 1),
            ("client-idle", "client that was used, beyond hiredis and libuv", 16, 300, 1024),
            ("client-awake", "the same, its thread and subscriber running", 16, 300, 1024)):
        yield Target(f"{what}, {'KiB' if unit > 1 else 'bytes'}", "scale", "memory",
                     (f"memory/{name}", n, "bytes"), (), limit, unit=unit)


def all_targets():
    return [*pair_targets(), *hand_targets(), *peer_targets(), *scale_targets()]
