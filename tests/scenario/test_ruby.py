#!/usr/bin/env python3
"""Ruby tells nobody that it has released a lock. Whoever of ours is next has it at once all the same."""
import statistics
import time

from harness import (FOREVER, MINUTE_MS, Moment, check, check_equal, leave_out_in_cluster, let_pass, main, scenario,
                     wait_until)
from others import Ruby

RUBY = "rql:acq:1/2/3/4/0123456789abcdef"
ROUNDS, EMPTIED_ROUNDS = 7, 3
HOLD_S = 0.04
SOON_US = 20000
LATE_US = 1000000   # a poll may be due from then on


def queue_of(name):
    return f"rql:lock_queue:{name}"


def ruby_holds(world, names):
    """The last of them."""
    leave_out_in_cluster("Ruby")
    world.ask("HSET", f"rql:lock:{names[-1]}", "acq_id", RUBY, "hst_id", "rql:hst:1/2/4/0123456789abcdef", "ts",
              f"{time.time():.6f}", "ini_ttl", MINUTE_MS)
    world.ask("PEXPIRE", f"rql:lock:{names[-1]}", MINUTE_MS)


# ---- in front of a free lock ----

@scenario()
def a_release_leaves_the_lock_free_for_ruby(world, kind, names):
    """The gem's queues have no ttl, and get none."""
    held = world.actor(kind).acquire(*names, ttl_ms=MINUTE_MS)
    ruby = Ruby(world)
    check(not ruby.take(names[0]), "it took what is held")
    held.release().check()
    check_equal((world.holder(names[0]), world.queue_length(names[0])), (None, 1))
    check_equal(world.ask("TTL", queue_of(names[0])), -1)
    check(ruby.take(names[0]), "it is not served")
    check_equal(world.ask("EXISTS", queue_of(names[0])), 0)
    ruby.release(names[0])
    ruby.close()


@scenario(counts=[1], is_timed=True)
def a_ruby_that_gives_up_does_not_stand_in_the_way(world, kind, names):
    """It is at the head of a free lock, and leaves."""
    held = world.actor("thread").acquire(*names, ttl_ms=MINUTE_MS)
    ruby = Ruby(world)
    check(not ruby.take(names[0]), "it took what is held")
    asking = world.actor(kind, retry_delay_ms=200).ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 2)
    held.release().check()
    left = Moment(world)
    ruby.give_up(names[0])
    mine = asking.hold()
    left.check_soon(mine, LATE_US)
    mine.release().check()
    ruby.close()


# ---- it releases what ours wait for ----

def await_watched(world):
    """The server has keys of which somebody wants to know the changes."""
    wait_until(lambda: "tracking_total_keys:0" not in world.ask("INFO", "stats"), "a key is watched")


def check_told(world, kind, names, release):
    """Long before the next poll."""
    ruby_holds(world, names)
    asking = world.actor(kind, retry_delay_ms=5000).ask(*names, timeout_ms=FOREVER)
    world.await_queue(names[-1:], 1)
    await_watched(world)
    released = Moment(world)
    release()
    mine = asking.hold()
    released.check_soon(mine, LATE_US)
    mine.release().check()


@scenario(is_timed=True)
def whatever_ends_rubys_lock_is_told(world, kind, names):
    """The notice comes once for each time that it was asked for. The gem's unlock empties the queue as well."""
    lock, queue = f"rql:lock:{names[-1]}", queue_of(names[-1])
    for words in ("EXPIRE", lock, 0), ("EXPIRE", lock, 0), ("DEL", lock):
        check_told(world, kind, names, lambda words=words: world.ask(*words))
    check_told(world, kind, names, lambda: world.ask(
        "EVAL", "redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '+inf') return redis.call('EXPIRE', KEYS[1], 0)",
        2, lock, queue))


@scenario(is_timed=True)
def a_change_that_frees_nothing_is_followed_by_another_notice(world, kind, names):
    def change_and_end():
        world.ask("HINCRBY", f"rql:lock:{names[-1]}", "spc_cnt", 1)
        await_watched(world)
        world.ask("DEL", f"rql:lock:{names[-1]}")
    check_told(world, kind, names, change_and_end)


@scenario(counts=[1], is_timed=True)
def without_the_right_to_be_told_it_polls(world, kind, names):
    for rights in ("-client|tracking", "-client|tracking -client|caching", "-client +client|id",
                   "resetchannels &rql:wake:*"):
        world.ask("ACL", "SETUSER", "limited", *f"reset on >pw ~* &* +@all {rights}".split())
        actor = world.actor(kind, url=world.server.url_with("limited:pw@"), retry_delay_ms=100)
        actor.acquire("warm").release().check()
        ruby_holds(world, names)
        asking = actor.ask(*names, timeout_ms=FOREVER)
        world.await_listeners(1)
        released_us = world.server.now_us()
        world.ask("DEL", f"rql:lock:{names[0]}")
        mine = asking.hold()
        check(mine.outcome.ts_us - released_us < LATE_US, rights)
        mine.release().check()
        world.free(actor.client)


N_WATCHED, TABLE_SIZE, WATCHED_DELAY_MS = 24, 6, 200
WATCHED_ROUNDS, STORM_TIMES = 20, 3


def scripts_beside(world, kind, table_size):
    """So many scripts run until the server has told that so many rounds of polls are due: each of them waits for a
    lock of Ruby's, and is notified of its changes as far as the server has room to note who wants to know them."""
    world.ask("FLUSHALL")
    world.ask("CONFIG", "SET", "tracking-table-max-keys", table_size)
    actors = [world.actor(kind, world.client(retry_delay_ms=WATCHED_DELAY_MS, retry_jitter_ms=0))
              for _ in range(N_WATCHED)]
    names = [f"w{table_size}.{number}" for number in range(N_WATCHED)]
    for name in names:
        ruby_holds(world, [name])
    asked = [actor.ask(name, timeout_ms=FOREVER, ttl_ms=MINUTE_MS) for actor, name in zip(actors, names)]
    world.await_queue(names, 1)
    let_pass(WATCHED_DELAY_MS * WATCHED_ROUNDS / 4000)  # they have begun to watch
    before, begun = world.n_scripts(), time.monotonic()
    let_pass(WATCHED_DELAY_MS * WATCHED_ROUNDS / 1000)
    rate = (world.n_scripts() - before) / (time.monotonic() - begun)
    for name in names:
        world.ask("DEL", f"rql:lock:{name}")
    for asking in asked:
        asking.hold().release().check()
    return rate


# The notices are of a server of this scenario alone.
@scenario(counts=[1], in_cluster=False)
def a_server_that_cannot_note_all_that_is_watched_is_not_asked_all_the_time(world, kind, _names):
    """It gives up one watch for each new one, as if that lock had changed."""
    ample = scripts_beside(world, kind, 1000000)
    scarce = scripts_beside(world, kind, TABLE_SIZE)
    world.ask("CONFIG", "SET", "tracking-table-max-keys", 1000000)
    print(f"# {kind} {scarce:.0f} scripts a second in place of {ample:.0f}", flush=True)
    check(scarce < STORM_TIMES * ample, f"{scarce:.0f} scripts a second in place of {ample:.0f}")


# ---- how long a lock is idle that Ruby has released ----

class Field:
    """Three clients of ours, which are told of hand-overs, and two Rubies."""

    def __init__(self, world, kind, names, retry_delay_ms=MINUTE_MS):
        self.world, self.kind, self.names, self.name = world, kind, names, names[-1]
        self.clients = world.told_clients(kind, retry_delay_ms=retry_delay_ms)
        self.rubies = [Ruby(world) for _ in range(2)]

    def ask(self, client, timeout_ms=FOREVER):
        return self.world.actor(self.kind, self.clients[client]).ask(*self.names, timeout_ms=timeout_ms)

    def wait(self, client, place):
        """One of ours that waits as the n-th."""
        asking = self.ask(client)
        self.world.await_queue([self.name], place)
        return asking

    def wait_behind(self, place, *clients):
        """Two wait, the first as the n-th. The first gives up soon; on a busy machine before the second waits."""
        first, second = self.ask(clients[0], timeout_ms=100), self.ask(clients[1])
        first.outcome().check("TIMED_OUT", "E_UNKNOWN")
        self.world.await_queue([self.name], place)
        return second

    def hold(self, client):
        return self.world.actor("thread", self.clients[client]).acquire(self.name, ttl_ms=MINUTE_MS)

    def stand(self, number):
        check(not self.rubies[number].take(self.name), "it took what is held")

    def take(self, number):
        wait_until(lambda: self.rubies[number].take(self.name), "it is served")

    def have_turn(self, number):
        """It takes the lock, holds it for a while and releases it. When that was."""
        self.take(number)
        let_pass(HOLD_S)
        return self.release(number)

    def release(self, number):
        released_us = self.world.server.now_us()
        self.rubies[number].release(self.name)
        return released_us

    def check_idle(self, play):
        """In the median of some rounds it is not worth speaking of; in none it is a poll."""
        times = []
        for _ in range(ROUNDS):
            released_us, asking = play(self)
            mine = asking.hold()
            times.append(mine.outcome.ts_us - released_us)
            mine.release().check()
            self.world.ask("FLUSHALL")
            for ruby in self.rubies:
                ruby.score = 0.0
        check(statistics.median(times) < SOON_US and max(times) < LATE_US, f"idle for {sorted(times)} us")
        for ruby in self.rubies:
            ruby.close()


def after_ruby_after_ours(field):
    """Ours releases for Ruby, and Ruby for ours."""
    held = field.hold(0)
    field.stand(0)
    asking = field.wait(1, 2)
    held.release().check()
    return field.have_turn(0), asking


def after_ruby_behind_another_of_ours(field):
    """It came while Ruby held, but was second then."""
    field.take(0)
    first = field.wait(0, 1)
    field.stand(1)
    second = field.wait(1, 3)
    field.release(0)
    first.hold().release().check()
    return field.have_turn(1), second


def after_the_leader_has_gone(field):
    """Who polled for its client has given up."""
    held = field.hold(0)
    field.stand(0)
    asking = field.wait_behind(2, 1, 1)
    held.release().check()
    return field.have_turn(0), asking


def after_the_first_has_gone(field):
    """Ruby holds, and the first of ours, which was told of it, has given up."""
    field.take(0)
    second = field.wait_behind(1, 0, 1)
    let_pass(HOLD_S)
    return field.release(0), second


def before_what_waits(field):
    """Ruby holds the last of its locks."""
    field.take(0)
    asking = field.wait(1, 1)
    let_pass(HOLD_S)
    return field.release(0), asking


def idle_after(play):
    def case(world, kind, names):
        Field(world, kind, names).check_idle(play)
    case.__name__ = f"a lock is not idle {play.__name__.replace('_', ' ')}"
    return case


for one in (after_ruby_after_ours, after_ruby_behind_another_of_ours, after_the_leader_has_gone,
            after_the_first_has_gone):
    scenario(counts=[1], is_timed=True)(idle_after(one))
scenario(is_timed=True)(idle_after(before_what_waits))


# ---- it empties the queue ----

WAYS = {
    "ruby unlocks": lambda field: field.rubies[0].unlock(field.name),
    "ruby clears locks": lambda field: field.rubies[0].clear_locks(field.name),
    "ours unlocks": lambda field: field.actor.begin("force_unlock", name=field.name).outcome().check(),
    "ours clears locks": lambda field: field.actor.begin("sweep", of="all").outcome().check(),
}


def emptied(way, is_of_ruby):
    """They are served as they came, whatever has become of the queue."""
    def case(world, kind, names):
        field = Field(world, kind, names, MINUTE_MS if is_of_ruby else 400)  # who polls watches what ours holds, too
        field.actor = world.actor("thread")
        for _ in range(EMPTIED_ROUNDS):
            held = field.take(0) if is_of_ruby else field.hold(0)
            asked = [field.wait(client, place) for place, client in enumerate((0, 1, 0, 2, 1, 2), 1)]
            await_watched(world)
            let_pass(HOLD_S)
            began = Moment(world)
            WAYS[way](field)
            for i, asking in enumerate(asked):
                mine = asking.hold()
                check(not any(later.is_over() for later in asked[i + 1:]), "a later one came first")
                mine.release().check()
            began.check_soon(mine, LATE_US)
            if held:
                held.release().check("NOT_HELD")
            world.ask("FLUSHALL")
        for ruby in field.rubies:
            ruby.close()
    case.__name__ = f"all are served as they came when {way} {'what Ruby holds' if is_of_ruby else 'what ours hold'}"
    return case


for one in WAYS:
    for ruby_holds_it in (True, False):
        scenario(counts=[1], is_timed=True)(emptied(one, ruby_holds_it))


if __name__ == "__main__":
    main()
