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

class Way:
    """`take` makes the lock held, before there is a queue; `free` begins to end that. Of an actor that is a thread,
    unless it says that it does so as any."""
    is_of_any = False

    def __init__(self, world, kind, name):
        self.world, self.name, self.lock = world, name, f"rql:lock:{name}"
        self.actor = world.actor(kind if self.is_of_any else "thread")

    def take(self):
        hold_as(self.world, OTHER, self.name)

    def drop(self):
        """It goes without a word; what follows finds it free."""
        self.world.ask("DEL", self.lock)


class Release(Way):
    is_of_any = True
    names = []

    def take(self):
        self.held = self.actor.acquire(*self.names or [self.name], ttl_ms=MINUTE_MS)

    def free(self, crowd):
        self.held.release().check()


class ReleaseOfASeries(Release):
    def take(self):
        self.names = ["w", self.name, "y"]
        super().take()


class Withdrawal(Way):
    """What a waiter does that gave up, and was granted the lock meanwhile."""

    def __init__(self, world, kind, name):
        super().__init__(world, kind, name)
        self.network, self.kind = Network(world), kind

    def take(self):
        actor = self.world.actor(self.kind, self.network.client(connect_timeout_ms=250, io_timeout_ms=250))
        actor.acquire("warm").release().check()
        self.network.fail("cut_reply", n=1)
        self.network.fail("refuse")
        actor.refused(self.name, ttl_ms=MINUTE_MS, timeout_ms=250).check("E_UNKNOWN")
        self.secret = self.world.ask("HGET", self.lock, "rql_nonce")

    def free(self, crowd):
        self.network.heal()
        wait_until(lambda: self.world.ask("HGET", self.lock, "rql_nonce") != self.secret, "it is withdrawn")


class Unlock(Release):
    def free(self, crowd):
        self.world.actor("thread").begin("force_unlock", name=self.name).outcome().check()
        self.held.release().check("NOT_HELD")


class Shortening(Way):
    def free(self, crowd):
        self.actor.begin("force_extend", name=self.name, add_ms=-TTL_MAX_MS).outcome().check()


class SweepOfAll(Way):
    def free(self, crowd):
        sweep(self.actor, "all")


class SweepOfALock(Way):
    def free(self, crowd):
        sweep(self.actor, OTHER)


class SweepOfARequest(Way):
    def free(self, crowd):
        self.world.ask("ZADD", f"rql:lock_queue:{self.name}", 5, OTHER[0])
        self.drop()
        sweep(self.actor, OTHER)


class SweepOfTheDead(Way):
    """Those of which some seem to live are none of its business."""
    def free(self, crowd):
        self.drop()
        done = sweep(self.actor, "dead", dead_ttl_ms=1000)
        check_equal(done.rem_request_cnt, 0 if crowd.get("is_fresh", True) else crowd["count"])


class FlushOfALock(Way):
    def free(self, crowd):
        raw_host(self.world, OTHER[1], 100)
        self.actor.begin("flush_zombies").outcome().check()


class FlushOfRequests(Way):
    """Of one process: it flushes them all."""
    def free(self, crowd):
        first = self.world.ask("ZRANGE", f"rql:lock_queue:{self.name}", 0, 0)[0]
        host = self.world.ask("HGET", f"rql:req:{self.name}", first).split()[0]  # without its end, the identity
        raw_host(self.world, host + first[-32:], 100)
        self.drop()
        check_equal(self.actor.begin("flush_zombies").outcome().check().rem_request_cnt, crowd["count"])


# ---- behind them ----

def stand_behind(world, kind, names, crowd, pattern, client):
    """It asks once, and then is silent for a while: its client listens already."""
    plant_dead(world, names, pattern=pattern, **crowd)
    asking = world.actor(kind, client).ask(*names, timeout_ms=FOREVER, retry_delay_ms=MINUTE_MS)
    world.await_queue(names, crowd["count"] + 1)
    return asking


def is_served_in_time(world, frees, crowd, *about):
    """By a push, so whoever made the lock free has served the queue to its end. Or it is not known who did."""
    frees.take()
    asking = stand_behind(world, *about[:2], crowd, *about[2:])
    calls = Calls(world)
    frees.free(crowd)
    if isinstance(frees, Withdrawal):
        calls.begun_us = world.server.now_us()
    mine = asking.hold()
    is_in_time = mine.outcome.waited_us < POLL_US
    if is_in_time:
        check(mine.outcome.handed_over, "it found the lock by a poll")
        calls.check(mine, least=crowd["count"] // AT_ONCE if not crowd.get("is_fresh", True) else 1)
    mine.release().check()
    world.ask("DEL", "rql:live", "rql:swarm:hsts", "rql:swarm:suspects",
              *(f"rql:{name}:{frees.name}" for name in ("lock", "lock_queue", "req")))
    return is_in_time


def behind_the_dead(way, crowds=CROWDS):
    def case(world, kind, names):
        pattern, clients, frees = dead_request(world), world.told_clients(kind), way(world, kind, names[0])
        for crowd in crowds:
            check(any(is_served_in_time(world, frees, crowd, kind, names, pattern, clients[0]) for _ in range(ROUNDS)),
                  f"nobody served the queue of {crowd}")
    words = "".join(letter if letter.islower() else " " + letter.lower() for letter in way.__name__)
    case.__name__ = f"the living do not wait for the dead behind a{words}"
    return case


scenario(counts=[1], is_timed=True)(behind_the_dead(Release))
for one in (ReleaseOfASeries, Withdrawal, Unlock, Shortening, SweepOfAll, SweepOfALock, SweepOfARequest, SweepOfTheDead,
            FlushOfALock):
    scenario(counts=[1], is_timed=True)(behind_the_dead(one, [KILLED_NOW[0], KILLED_BEFORE[0]]))
scenario(counts=[1], is_timed=True)(
    behind_the_dead(FlushOfRequests, [crowd for crowd in KILLED_BEFORE if "is_of_one" in crowd]))


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
