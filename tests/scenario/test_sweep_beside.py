#!/usr/bin/env python3
"""Sweeps beside those who take, hold and wait for the same locks; and what others feel of many, and a broken network."""
import time

from harness import Network, Pings, check, check_equal, main, once, scenario, wait_until
from pushes import wait_told
from sweeps import DEAD, RUBY, check_counts, hold_as, n_keys, queue_as, sweep

SEED = """
for i = ARGV[1], ARGV[2] do
    redis.call('HSET', 'rql:lock:job-' .. i, 'acq_id', ARGV[3], 'hst_id', ARGV[4], 'ts', '1795255177.83339')
    redis.call('PEXPIRE', 'rql:lock:job-' .. i, 600000)
    if i % 10 == 0 then redis.call('ZADD', 'rql:lock_queue:job-' .. i, i, ARGV[3]) end
end"""


def seed(world, count):
    """Locks as the gem writes them, and a queue of one for every tenth."""
    for at in range(0, count, 1000):
        world.ask("EVAL", SEED, 0, at + 1, min(at + 1000, count), *RUBY)
    return count + count // 10


# ---- those who wait ----

@scenario()
def what_is_freed_goes_to_the_next_waiter(world, kind, names):
    held = world.held_by_another(*names)
    asking = wait_told(world, world.actor(kind), *names)
    done = sweep(world.actor("thread"), "owner", acq_id=held.outcome.acq_id, hst_id=held.outcome.hst_id)
    check_equal(done.rel_key_cnt, len(names))
    check_equal(done.handed_over_cnt, len(names) if len(names) == 1 else done.handed_over_cnt)
    mine = asking.hold()
    check(len(names) > 1 or mine.outcome.handed_over, "it had to ask")
    held.release().check("NOT_HELD")
    mine.release().check()
    world.await_nothing_left()


@scenario(counts=[1])
def who_stands_behind_a_swept_request_is_served(world, kind, names):
    """A Ruby at the head of a free lock is left alone for two seconds; then a poll would have removed it."""
    for owner, of in (RUBY[0], RUBY), (DEAD, "dead"):
        held = world.held_by_another(*names)
        asking = wait_told(world, world.actor(kind), *names)
        queue_as(world, names[0], owner, score=1)
        world.ask("DEL", f"rql:lock:{names[0]}")
        done = sweep(world.actor("thread"), of)
        check_equal(done.handed_over_cnt, done.rem_request_cnt)  # 0: it came too late
        asking.hold().release().check()
        held.release().check("NOT_HELD")
    world.await_nothing_left()


def wait_all(world, kind, names):
    """Two of one client and one of another."""
    client = world.client()
    actors = [world.actor(kind, client), world.actor(kind, client), world.actor(kind)]
    return [wait_told(world, actor, *names, place=place) for place, actor in enumerate(actors, 1)]


@scenario(is_timed=True)
def waiters_of_a_cleared_queue_come_back_in_order(world, kind, names):
    """They are told: by themselves they look after two seconds."""
    held = world.held_by_another(*names)
    asked = wait_all(world, kind, names)
    before = [world.ask("ZRANGE", f"rql:lock_queue:{name}", 0, -1, "WITHSCORES") for name in names]
    sweeper, begun = world.actor("thread"), time.monotonic()
    done = sweep(sweeper, "all", "STOPPED", stops_at=1, batch_size=len(names))
    check_equal((done.tch_queue_cnt, done.rem_request_cnt), (len(names), 3 * len(names)))
    world.await_queue(names, 3)
    check(time.monotonic() - begun < 1, "they were not told")
    check_equal([world.ask("ZRANGE", f"rql:lock_queue:{name}", 0, -1, "WITHSCORES") for name in names], before)
    check_equal([world.ask("HLEN", f"rql:req:{name}") for name in names], [3] * len(names))
    token = held.tokens[0]
    held.release().check()
    for asking in asked:
        mine = asking.hold()
        check(mine.tokens[0] > token, "tokens fall")
        token = mine.tokens[0]
        mine.release().check()
    world.await_nothing_left()


# ---- many ----

@once
def others_are_served_while_many_locks_go(world, kind, _names):
    """In one piece it were tens of milliseconds for each script, and one PING for the whole sweep."""
    actor = world.actor(kind)
    count = seed(world, 20000)
    world.ask("CONFIG", "RESETSTAT")
    pings = Pings(world)
    done = sweep(actor, "all")
    took_s = pings.end()
    check_equal((done.rel_key_cnt, n_keys(world)), (count, 0))
    row = next(row for row in world.ask("INFO", "commandstats").split() if row.startswith("cmdstat_evalsha:"))
    us_per_call = float(row.split("usec_per_call=")[1].split(",")[0])
    check(us_per_call < 2000, f"{us_per_call} us for a call")
    check(len(took_s) >= 20, f"{len(took_s)} pings")
    check(took_s[len(took_s) // 2] < 0.1, f"{took_s[len(took_s) // 2]} s for a ping")


# ---- a connection that fails ----

# When so many keys are done: 0, while it searches for keys, which leaves no doubt. After 50 replies a connection is cut
# in the midst of a batch. Where it is cut before, a client may have sent the next batch before it knows.
FAILURES = [(0, {"freeze": {}}, ["E_IO"]), (500, {"freeze": {}}, ["E_UNKNOWN"]),
            (500, {"refuse": {}, "cut": {}}, ["E_IO", "E_UNKNOWN"]), (500, {"cut_reply": {"n": 50}}, ["E_UNKNOWN"])]


@once
def a_connection_that_fails_ends_the_sweep(world, kind, _names):
    """A batch that got no answer is not counted, but may have been done."""
    network = Network(world)
    actor = world.actor(kind, network.client(io_timeout_ms=1000))
    for n_done, faults, statuses in FAILURES:
        count = seed(world, 1000)
        call = actor.begin("sweep", of="all", pauses_at=n_done)
        wait_until(lambda number=call.number: any(words.get("pauses") == number for words in actor.remote.told),
                   "it pauses")
        for fault, words in faults.items():
            network.fail(fault, **words)
        actor.remote.do("go_on").check()
        done = call.outcome().check(*statuses)
        check(done.error, "it does not say why")
        check_equal(done.rel_key_cnt, n_done)
        left = n_keys(world)
        check(count - n_done - 100 <= left <= count - n_done, f"{left} are left")
        network.heal()
        swept = sweep(actor, "all").rel_key_cnt
        check(left - 100 <= swept <= left, f"{swept} of {left}")  # what was frozen may be done now
        check_equal(n_keys(world), 0)


if __name__ == "__main__":
    main()
