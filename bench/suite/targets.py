"""What was promised, as ratios within one run, and whether it was kept."""
import dataclasses
import os

from measure import spread
from plan import HELD, LOGINS, MANY_THREADS, NPM, QUEUES, WAITERS, WORKERS


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

    yield one("pair, 1 thread, no spin / plain lock", 1, "rql", 0.88)
    yield one("pair, 1 thread, lone-caller spin / plain lock", 1, "rql-spin", 1.1)
    yield one("pair, 1 thread, lazy release / plain lock", 1, "rql-lazy", 1.3)
    yield one("pair, 1 thread, lazy release and spin / plain lock", 1, "rql-lazy-spin", 1.9)
    for n, limit in ((2, 0.97), (4, 0.97), (8, 1.4), (32, 1.9), (128, 2.0)):
        yield one(f"pair, {n} threads / one client per thread", n, "rql", limit, "own")
    for n, limit in ((2, 1.5), (4, 1.5), (8, 1.8), (32, 2.5)):
        yield one(f"pair, {n} threads, lazy release / one client per thread", n, "rql-lazy", limit, "own")
    yield one("pair, 32 threads / plain lock", 32, "rql", 1.25)
    yield Target("server CPU per pair, 32 threads / one client per thread", "pairs", "pair-32",
                 ("pair/rql", 32, "cpu_us"), (("pair/own", 32, "cpu_us"),), 0.5)


PROCESSES = (("rql-one", "one process"), ("rql", "two processes"))


def hot_targets(n, rates, limits):
    """Given back at once. limits: medians over PING by who; rates: over PostgreSQL's."""
    block, ping = f"hot-{n}", (("ping", 1, "p50_us"),)
    for who, where in PROCESSES:
        case = f"turns/{who}", n
        yield Target(f"acquisitions/s on one lock, {n} workers in {where} / PostgreSQL", "handoff", block,
                     (*case, "ops_s"), (("turns/postgres", n, "ops_s"),), rates[who], True)
        yield Target(f"hand-off p50, released at once, {n} workers in {where} / PING", "handoff", block,
                     (*case, "p50_us"), ping, limits[who])
        yield Target(f"hand-off p99, released at once, {n} workers in {where} / PING", "handoff", block,
                     (*case, "p99_us"), ping, 8.0)


def hold_targets(n, paced, postgres):
    block, ping = f"hold-{n}", (("ping/paced", 1, "p50_us"),)
    for who, where in PROCESSES:
        case = f"hold/{who}", n
        yield Target(f"hand-off p50, held 1 ms, {n} workers in {where} / paced PING", "handoff", block,
                     (*case, "p50_us"), ping, paced[who])
        yield Target(f"hand-off p50, held 1 ms, {n} workers in {where} / PostgreSQL", "handoff", block,
                     (*case, "p50_us"), (("hold/postgres", n, "p50_us"),), postgres[who])
        yield Target(f"hand-off p99, held 1 ms, {n} workers in {where} / paced PING", "handoff", block,
                     (*case, "p99_us"), ping, 8.0)
    for figure, text, limit in ("commands", "commands but PING", 2.0), ("wakes", "wake-ups", 1.0):
        yield Target(f"{text} per acquisition, {n} workers in two processes", "handoff", block,
                     ("hold/rql", n, figure), (), limit)


def hand_targets():
    for n, one, two in ((2, 0.95, 0.8), (8, 2.0, 1.2), (32, 3.0, 1.4), (256, 3.0, 1.4)):
        yield from hot_targets(n, {"rql-one": one, "rql": two}, {"rql-one": 3.0, "rql": 3.0})
    for n in WAITERS:
        yield from hold_targets(n, {"rql-one": 1.0, "rql": 2.5 if n < 32 else 3.0}, {"rql-one": 0.4, "rql": 0.8})


def agent_targets():
    """rql-each: each process has a client of its own."""
    for n in WORKERS:
        yield Target(f"hand-off p50, released at once, {n} processes, agent / PING", "agent", f"agent-turns-{n}",
                     ("turns/agent", n, "p50_us"), (("ping", 1, "p50_us"),), 1.3)
        yield Target(f"hand-off p50, held 1 ms, {n} processes, agent / without", "agent", f"agent-hold-{n}",
                     ("hold/agent", n, "p50_us"), (("hold/rql-each", n, "p50_us"),), 0.7)
    yield Target("acquisitions/s on one lock, 8 processes, agent / without", "agent", "agent-turns-8",
                 ("turns/agent", 8, "ops_s"), (("turns/rql-each", 8, "ops_s"),), 1.2, True)
    yield Target("commands but PING per acquisition, 8 processes, agent / without", "agent", "agent-turns-8",
                 ("turns/agent", 8, "commands"), (("turns/rql-each", 8, "commands"),), 1.0)


def peer_targets():
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


def tls_targets():
    for n, limit in ((1, 0.78), (8, 0.85), (32, 0.9)):
        yield Target(f"pair by TLS, {n} thread{'s' * (n > 1)} / in the clear", "tls", f"tls-{n}",
                     ("pair/rql-tls", n, "ops_s"), (("pair/rql-clear", n, "ops_s"),), limit, True)
    yield Target("server CPU per pair by TLS, 32 threads / in the clear", "tls", "tls-32",
                 ("pair/rql-tls", 32, "cpu_us"), (("pair/rql-clear", 32, "cpu_us"),), 1.15)
    yield Target("client CPU of a login by TLS that resumes / in full", "tls", "tls-login",
                 ("login/resumed", LOGINS, "p50_us"), (("login/full", LOGINS, "p50_us"),), 0.5)
    yield Target("logins by TLS that resume, share", "tls", "tls-login", ("login/resumed", LOGINS, "waited"), (), 0.95,
                 True)


def durable_targets():
    """Of one thread: 1.5 x the acquisition, and the replica's round trip, which is about a PING's."""
    for n, limit in ((1, 0.57), (32, 0.8)):
        yield Target(f"pair with a replica, {n} thread{'s' * (n > 1)} / without", "durable", f"durable-{n}",
                     ("pair/rql-durable", n, "ops_s"), (("pair/rql-plain", n, "ops_s"),), limit, True)


def cluster_targets():
    """Three servers and four clients want more than two processors: on fewer, what the servers spend is compared."""
    case, single = ("many/rql-cluster", MANY_THREADS), ("many/rql-single", MANY_THREADS)
    if len(os.sched_getaffinity(0)) >= 4:
        yield Target("pair, 32 threads x 4 processes, cluster of three / one server", "cluster", "cluster-many",
                     (*case, "ops_s"), ((*single, "ops_s"),), 2.5, True)
    yield Target("server CPU per pair, cluster of three / one server", "cluster", "cluster-many",
                 (*case, "cpu_us"), ((*single, "cpu_us"),), 1.35)
    yield Target("share of the node with the fewest commands", "cluster", "cluster-many", (*case, "least"), (), 0.3, True)
    yield Target("share of the node with the most commands", "cluster", "cluster-many", (*case, "most"), (), 0.37)
    for n in (2, 8):
        yield Target(f"hand-off p50, held 1 ms, {n} workers, cluster / one server", "cluster", f"cluster-hold-{n}",
                     ("hold/rql-cluster", n, "p50_us"), (("hold/rql-single", n, "p50_us"),), 1.1)
    yield Target("messages between nodes per hand-over", "cluster", "cluster-turns-8", ("turns/rql-cluster", 8, "bus"),
                 (), 0)
    yield Target("commands of who waits idle, cluster / one server", "cluster", "cluster-idle",
                 ("idle/rql-cluster", 2, "commands"), (("idle/rql-single", 2, "commands"),), 1)


def all_targets():
    return [*pair_targets(), *hand_targets(), *agent_targets(), *peer_targets(), *scale_targets(), *tls_targets(), *durable_targets(),
            *cluster_targets()]
