"""What is measured, next to what, and how often.

A block is a set of cases that are compared with each other: they run back to back, in random order,
and ratios are taken within one run of one block only. A cycle runs all blocks in random order.
"""
import dataclasses

PAUSE_US = 1000  # the hold of "hold", and what goes before each "paced" PING

NPM = ("redlock", "redis-semaphore", "redislock")
OTHERS = NPM + ("redis-py", "etcd")
ONCE = 1_000_000  # cycles
HELD = 100_000
QUEUES = (1, 10, 100, 1000, 10_000, 100_000)
IN_FLIGHT = (1, 10, 100, 1000, 10_000)
PAIR_THREADS = (1, 2, 4, 8, 32, 128)
WAITERS = (2, 8, 32, 256)
WORKERS = (2, 8, 32)
FEW_TO_MANY = (1, 8, 32)
LOGINS = 20
MANY_THREADS = 128
IDLE_MS = 4000  # less than a ttl


@dataclasses.dataclass(frozen=True)
class Case:
    """One player doing one thing with so many threads, for one slot."""

    name: str  # what/who
    player: str
    shape: str
    threads: int
    slot_ms: int
    pause_us: int = 0
    against: tuple = ()  # (case, threads, figure) of the same block
    slots: int = 1  # spread over the block; the case is their mean
    prepared_by: str = ""  # the shape of an order that comes before each slot and is not measured

    @property
    def key(self):
        return self.name, self.threads


@dataclasses.dataclass(frozen=True)
class Block:
    """Cases that run back to back."""

    name: str
    group: str
    cases: tuple
    every: int = 1  # cycles
    is_cold: bool = False  # needs no warming up


def ping(player="ping", name="ping"):
    return Case(name, player, "pairs", 1, 15, slots=4)


def pair(who, player, threads, slot_ms=40, against=()):
    """Whether the kernel puts one client and the server on one processor or on two makes a factor
    of two, and holds for a slot: so there are several."""
    alone = threads == 1
    return Case(f"pair/{who}", player, "pairs", threads, 20 if alone else slot_ms, 0, against,
                3 if alone else 1)


def pair_blocks():
    """Uncontended: one client for all threads, against a client or a connection for each."""
    for n in PAIR_THREADS:
        slot_ms = 40 if n < 128 else 80
        floor = ("pair/floor", n, "ops_s")
        cases = [
            pair("floor", "floor", n, slot_ms, ("ping", 1, "p50_us") if n == 1 else ()),
            pair("own", "own", n, slot_ms, floor),
            pair("rql", "shared", n, slot_ms, floor),
        ]
        if n == 1:
            cases += [ping(), pair("rql-spin", "spin", 1, slot_ms, floor),
                      pair("rql-lazy-spin", "lazy-spin", 1, slot_ms, floor)]
        if n <= 32:
            cases.append(pair("rql-lazy", "lazy", n, slot_ms, floor))
        yield Block(f"pair-{n}", "pairs", tuple(cases))


def tcp_blocks():
    for n in (1, 32):
        cases = [
            ping("ping-tcp", "ping/tcp"),
            pair("floor-tcp", "floor-tcp", n, 40, ("ping/tcp", 1, "p50_us")),
            pair("rql-tcp", "shared-tcp", n, 40, ("pair/floor-tcp", n, "ops_s")),
        ]
        yield Block(f"tcp-{n}", "tcp", tuple(cases))


def hand_blocks():
    """One lock, waiters in one process and in two; given back at once, and after a hold."""
    for n in WAITERS:
        against = ("ping", 1, "p50_us")
        slot_ms = 40 if n < 256 else 100
        yield Block(f"hot-{n}", "handoff", (
            ping(),
            Case("turns/rql", "hand", "turns", n, slot_ms, 0, against, 2),
            Case("turns/rql-one", "hand-one", "turns", n, slot_ms, 0, against, 2),
            Case("turns/token", "token", "turns", n, slot_ms, 0, against, 2),
            Case("turns/postgres", "postgres", "turns", n, slot_ms, 0, against, 2)))
    for n in WAITERS:
        against = ("ping/paced", 1, "p50_us")
        yield Block(f"hold-{n}", "handoff", (
            Case("ping/paced", "ping", "paced", 1, 50, PAUSE_US, slots=3),
            Case("hold/rql", "hand", "turns", n, 100, PAUSE_US, against, 2),
            Case("hold/rql-one", "hand-one", "turns", n, 100, PAUSE_US, against, 2),
            Case("hold/postgres", "postgres", "turns", n, 100, PAUSE_US, against, 2)))


def agent_blocks():
    """Each worker a process of its own: with an agent between them, without, and PostgreSQL."""
    for n in WORKERS:
        for what, pause_us, slot_ms, paced in (("turns", 0, 60, Case("ping", "ping", "pairs", 1, 15, slots=4)),
                                               ("hold", PAUSE_US, 100, Case("ping/paced", "ping", "paced", 1, 50, PAUSE_US, slots=3))):
            against = (paced.name, 1, "p50_us")
            yield Block(f"agent-{what}-{n}", "agent", (
                paced,
                *(Case(f"{what}/{who}", player, "turns", n, slot_ms, pause_us, against, 2)
                  for who, player in (("agent", "agent"), ("rql-each", "each"), ("postgres", "postgres")))))


def peer_blocks():
    for n in (1, 8):
        against = ("pair/rql", n, "ops_s")
        yield Block(f"peers-pair-{n}", "peers", (
            pair("rql", "shared", n),
            pair("rql-spin", "spin", n, 40, against),
            pair("postgres", "postgres", n, 40, against),
            *(pair(who, who, n, 60, against) for who in OTHERS)))
    for n in WORKERS:
        against = ("turns/rql", n, "ops_s")
        yield Block(f"peers-turns-{n}", "peers", (
            Case("turns/rql", "hand", "turns", n, 60),
            Case("turns/postgres", "postgres", "turns", n, 60, 0, against),
            *(Case(f"turns/{who}", who, "turns", n, 300 if who == "etcd" else 100, 0, against)
              for who in OTHERS)), 4, True)
    for n in (2, 32):
        against = ("hold/rql", n, "p50_us")
        yield Block(f"peers-hold-{n}", "peers", (
            Case("hold/rql", "hand", "turns", n, 150, PAUSE_US),
            Case("hold/postgres", "postgres", "turns", n, 150, PAUSE_US, against),
            *(Case(f"hold/{who}", who, "turns", n, 600, PAUSE_US, against)
              for who in OTHERS)), 6, True)


def scale_blocks():
    """Queues and keys, on a server of their own. "Threads" is how many of them."""
    against = ("queue/rql", QUEUES[0], "cpu_us")
    yield Block("queue", "scale", tuple(
        Case("queue/rql", "locks", "queue", n, 60, 0, against if n > 1 else ()) for n in QUEUES))
    yield Block("list", "scale", (
        Case("list/scan", "locks", "scan", HELD, 1),
        Case("list/rql", "locks", "list", HELD, 1, 0, ("list/scan", HELD, "p50_us"))), 4, True)
    yield Block("flush", "scale", (Case("flush/rql", "locks", "flush", 1000, 1, prepared_by="zombies"),), 10, True)
    yield Block("memory", "scale", (
        Case("memory/held", "locks", "held", HELD, 1),
        Case("memory/waiting", "locks", "waiting", HELD, 1),
        Case("memory/client-idle", "clients", "idle", 16, 1),
        Case("memory/client-awake", "clients", "awake", 16, 1)), ONCE, True)


def async_blocks():
    """One loop in one thread, beside threads that block."""
    against = ("pair/floor", 32, "ops_s")
    yield Block("async-pair", "async", (
        pair("floor", "floor", 32),
        pair("rql", "shared", 32, 40, against),
        *(pair("rql-async", "async", n, 40 if n < 10_000 else 500, against) for n in IN_FLIGHT)), 2)
    against = ("ping", 1, "p50_us")
    yield Block("async-turns", "async", (
        ping(),
        *(Case("turns/rql-async", "async", "turns", n, 60 if n < 1000 else 150, 0, against)
          for n in IN_FLIGHT[1:-1])))


def beside(group, threads, base, other, *more):
    """Pairs of two players, each (who, player), on a server that is the same for both."""
    (who, player), (rival, rival_player) = base, other
    return Block(f"{group}-{threads}", group, (
        *more,
        Case(f"pair/{who}", player, "pairs", threads, 40, slots=3),
        Case(f"pair/{rival}", rival_player, "pairs", threads, 40, 0, (f"pair/{who}", threads, "ops_s"), 3)))


def tls_blocks():
    """One server, with TLS and in the clear; a login's times are this side's, on the processor."""
    for n in FEW_TO_MANY:
        yield beside("tls", n, ("rql-clear", "shared-clear"), ("rql-tls", "shared-tls"))
    yield Block("tls-login", "tls", (
        Case("login/full", "logins", "full", LOGINS, 1),
        Case("login/resumed", "logins", "resumed", LOGINS, 1, 0, ("login/full", LOGINS, "p50_us"))))


def durable_blocks():
    """One server with a replica."""
    for n in FEW_TO_MANY:
        yield beside("durable", n, ("rql-plain", "shared-plain"), ("rql-durable", "durable"),
                     *((ping("ping-master"),) if n == 1 else ()))


def cluster_blocks():
    """One server and three, each with a player of four processes."""
    def both(name, what, shape, n, slot_ms, pause_us, figure, slots=3, every=1):
        return Block(f"cluster-{name}", "cluster", (
            Case(f"{what}/rql-single", "single", shape, n, slot_ms, pause_us, (), slots),
            Case(f"{what}/rql-cluster", "cluster", shape, n, slot_ms, pause_us,
                 (f"{what}/rql-single", n, figure), slots)), every, shape == "turns" and pause_us > PAUSE_US)

    yield both("many", "many", "many", MANY_THREADS, 100, 0, "ops_s")
    yield both("turns-8", "turns", "turns", 8, 60, 0, "p50_us")
    for n in (2, 8):
        yield both(f"hold-{n}", "hold", "turns", n, 100, PAUSE_US, "p50_us")
    yield both("idle", "idle", "turns", 2, IDLE_MS, 1000 * IDLE_MS, "commands", 1, 4)


def all_blocks():
    return [*pair_blocks(), *tcp_blocks(), *hand_blocks(), *agent_blocks(), *peer_blocks(), *scale_blocks(),
            *async_blocks(), *tls_blocks(), *durable_blocks(), *cluster_blocks()]
