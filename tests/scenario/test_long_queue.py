#!/usr/bin/env python3
"""A crowd of the dead at the head of a queue: each way in which a lock can become free passes it by at once, in calls
that keep the server busy for less than a millisecond each."""

from dead import dead_request, plant_dead
from harness import FOREVER, MINUTE_MS, Network, check, check_equal, main, scenario, wait_until
from others import Ruby
from swarms import raw_host
from sweeps import OTHER, hold_as, sweep

TTL_MAX_MS = 2592000000
SOON_US = 100000
POLL_US = 1600000        # the waiter asks by itself: later it is not known who served it
ROUNDS = 5
LATEST_US = 3000000     # of a poll: a third of the silence of the dead, and what a slow machine adds
AT_ONCE = 40            # of the dead that one call passes
SLOW_US = 4000          # one call in two may meet another process in its way
KILLED_NOW = ({"count": 1000}, {"count": 300, "is_of_one": True})
KILLED_BEFORE = ({"count": 1000, "is_fresh": False}, {"count": 1000, "is_of_one": True, "is_fresh": False})
CROWDS = ({"count": 8}, *KILLED_NOW, *KILLED_BEFORE)


class Calls:
    """What the server is asked for from now on, and how long that takes it."""

    def __init__(self, world):
        self.world, self.before = world, world.n_scripts()
        self.kept_ms, self.begun_us = world.kept_ms(), world.server.now_us()
        for words in (("CONFIG", "SET", "slowlog-max-len", 10000), ("SLOWLOG", "RESET"),
                      ("CONFIG", "SET", "slowlog-log-slower-than", SLOW_US)):
            world.ask(*words)

    def check(self, held, limit_us=SOON_US, least=0):
        kept_us = (self.world.kept_ms() - self.kept_ms) * 1000
        took_us = held.outcome.ts_us - self.begun_us - kept_us
        n_calls = self.world.n_scripts() - self.before
        n_slow = self.world.ask("SLOWLOG", "LEN")
        check(took_us < limit_us, f"after {took_us} us")
        check(n_calls >= least, f"{n_calls} calls")
        check(n_slow <= 1 + n_calls / 2 + kept_us / SLOW_US, f"{n_slow} of {n_calls} calls took long")


# ---- ways in which a lock becomes free ----

# Each takes the lock before there is a queue, and frees it after its `yield`. A second `yield` has the time at which
# the lock became free, by the server's clock, if that is not at once.

def release(*more):
    """Of the lock, or of a series of it and more."""
    def way(world, kind, name, _crowd):
        held = world.actor(kind).acquire(name, *more, ttl_ms=MINUTE_MS)
        yield
        held.release().check()
    return way


def withdraw(world, kind, name, _crowd):
    """A waiter gave up, and was granted the lock meanwhile."""
    network = Network(world)
    actor = world.actor(kind, network.client(connect_timeout_ms=250, io_timeout_ms=250))
    actor.acquire("warm").release().check()
    network.fail("cut_reply", n=1)
    network.fail("refuse")
    actor.refused(name, ttl_ms=MINUTE_MS, timeout_ms=250).check("E_UNKNOWN")
    secret = world.ask("HGET", f"rql:lock:{name}", "rql_nonce")
    yield
    network.heal()
    wait_until(lambda: world.ask("HGET", f"rql:lock:{name}", "rql_nonce") != secret, "it is withdrawn")
    yield world.server.now_us()


def unlock(world, kind, name, _crowd):
    held = world.actor(kind).acquire(name, ttl_ms=MINUTE_MS)
    yield
    world.actor("thread").begin("force_unlock", name=name).outcome().check()
    held.release().check("NOT_HELD")


def of_ruby(free):
    """The gem holds the lock, and free(world, a thread, the name, the crowd) ends that."""
    def way(world, _kind, name, crowd):
        hold_as(world, OTHER, name)
        actor = world.actor("thread")
        yield
        free(world, actor, name, crowd)
    return way


def shorten(_world, actor, name, _crowd):
    actor.begin("force_extend", name=name, add_ms=-TTL_MAX_MS).outcome().check()


def sweep_a_request(world, actor, name, _crowd):
    world.ask("ZADD", f"rql:lock_queue:{name}", 5, OTHER[0])
    world.ask("DEL", f"rql:lock:{name}")  # which notifies no client
    sweep(actor, OTHER)


def sweep_the_dead(world, actor, name, crowd):
    """Where some of them seem to live, it removes none."""
    world.ask("DEL", f"rql:lock:{name}")
    done = sweep(actor, "dead", dead_ttl_ms=1000)
    check_equal(done.rem_request_cnt, 0 if crowd.get("is_fresh", True) else crowd["count"])


def flush_a_lock(world, actor, _name, _crowd):
    raw_host(world, OTHER[1], 100)
    actor.begin("flush_zombies").outcome().check()


def flush_requests(world, actor, name, crowd):
    """All of them are of one process."""
    first = world.ask("ZRANGE", f"rql:lock_queue:{name}", 0, 0)[0]
    host = world.ask("HGET", f"rql:req:{name}", first).split()[0]  # without its end, the identity
    raw_host(world, host + first[-32:], 100)
    world.ask("DEL", f"rql:lock:{name}")
    check_equal(actor.begin("flush_zombies").outcome().check().rem_request_cnt, crowd["count"])


ONE_OF_EACH = KILLED_NOW[0], KILLED_BEFORE[0]
WAYS = (
    ("release", release(), CROWDS), ("release of a series", release("w", "y"), ONE_OF_EACH),
    ("withdrawal", withdraw, ONE_OF_EACH), ("unlock", unlock, ONE_OF_EACH),
    ("shortening", of_ruby(shorten), ONE_OF_EACH),
    ("sweep of all", of_ruby(lambda _world, actor, *_: sweep(actor, "all")), ONE_OF_EACH),
    ("sweep of a lock", of_ruby(lambda _world, actor, *_: sweep(actor, OTHER)), ONE_OF_EACH),
    ("sweep of a request", of_ruby(sweep_a_request), ONE_OF_EACH),
    ("sweep of the dead", of_ruby(sweep_the_dead), ONE_OF_EACH),
    ("flush of a lock", of_ruby(flush_a_lock), ONE_OF_EACH),
    ("flush of requests", of_ruby(flush_requests), [crowd for crowd in KILLED_BEFORE if "is_of_one" in crowd]),
)


# ---- behind them ----

def stand_behind(world, kind, names, crowd, pattern, client):
    """It asks once, and then is silent for a while: its client listens already."""
    plant_dead(world, names, pattern=pattern, **crowd)
    asking = world.actor(kind, client).ask(*names, timeout_ms=FOREVER, retry_delay_ms=MINUTE_MS)
    world.await_queue(names, crowd["count"] + 1)
    return asking


def is_served_in_time(world, way, kind, names, crowd, *about):
    """By a push, so the client that made the lock free has served the queue to its end. False: the waiter has polled,
    so it is not known which of the two served the queue."""
    steps = way(world, kind, names[0], crowd)
    next(steps)
    asking = stand_behind(world, kind, names, crowd, *about)
    calls = Calls(world)
    calls.begun_us = next(steps, None) or calls.begun_us
    mine = asking.hold()
    is_in_time = mine.outcome.waited_us < POLL_US
    if is_in_time:
        check(mine.outcome.handed_over, "it found the lock by a poll")
        calls.check(mine, least=crowd["count"] // AT_ONCE if not crowd.get("is_fresh", True) else 1)
    mine.release().check()
    world.ask("DEL", "rql:live", "rql:swarm:hsts", "rql:swarm:suspects",
              *(f"rql:{part}:{names[0]}" for part in ("lock", "lock_queue", "req")))
    return is_in_time


def behind_the_dead(word, way, crowds):
    def case(world, kind, names):
        pattern, client = dead_request(world), world.told_clients(kind)[0]
        for crowd in crowds:
            check(any(is_served_in_time(world, way, kind, names, crowd, pattern, client) for _ in range(ROUNDS)),
                  f"nobody served the queue of {crowd}")
    case.__name__ = f"the living do not wait for the dead behind a {word}"
    return case


for one in WAYS:
    scenario(counts=[1], is_timed=True)(behind_the_dead(*one))


@scenario(counts=[1], is_timed=True)
def who_asks_finds_a_free_lock_behind_those_killed_just_now(world, kind, names):
    """Though all in front of it still seem to live."""
    pattern, actor = dead_request(world), world.actor(kind)
    for crowd in KILLED_NOW:
        plant_dead(world, names, pattern=pattern, **crowd)
        calls = Calls(world)
        mine = actor.acquire(*names, timeout_ms=FOREVER)
        calls.check(mine, 10 * SOON_US)
        mine.release().check()
        world.ask("FLUSHALL")


@scenario(counts=[1], is_timed=True)
def the_next_poll_finds_a_free_lock_behind_those_killed_just_now(world, kind, names):
    """Nobody of ours has freed it: it expires, or Ruby releases it."""
    pattern, ruby = dead_request(world), Ruby(world)
    for crowd in KILLED_NOW:
        for ttl_ms in (300, 0):
            hold_as(world, OTHER, *names)
            asking = stand_behind(world, kind, names, crowd, pattern, world.told_clients(kind)[0])
            calls = Calls(world)
            if ttl_ms:
                world.ask("PEXPIRE", f"rql:lock:{names[0]}", ttl_ms)
            else:
                ruby.release(names[0])
            mine = asking.hold()
            calls.check(mine, LATEST_US)
            mine.release().check()
            world.ask("FLUSHALL")
    ruby.close()


@scenario(counts=[1])
def heartbeats_from_the_future_are_none(world, kind, names):
    """The server's clock was set back since: they are not alive for as long as that."""
    plant_dead(world, names, 500)
    for identity in world.ask("ZRANGE", "rql:live", 0, -1):
        world.ask("ZADD", "rql:live", world.server.now_us() + 3600 * 1000000, identity)
    world.actor(kind).acquire(*names, timeout_ms=10000).release().check()
    check_equal(world.keys_left(), [])


if __name__ == "__main__":
    main()
