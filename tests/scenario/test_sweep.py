#!/usr/bin/env python3
"""Clearing many at once: the gem's clear_locks, clear_locks_of, clear_current_locks and clear_dead_requests."""

from harness import MINUTE_MS, check, check_equal, main, once, scenario, wait_until
from pushes import wait_told
from sweeps import DEAD, OTHER, RUBY, SILENT, check_counts, hold_as, live, n_keys, ours, queue_as, sweep, wait_as

DAY_MS = 86400000
PERMIT_OF_TWO = {"share_units": 1, "share_limit": 2}


@scenario()
def holders_of_the_client_learn_of_it_at_once(world, kind, names):
    actor, far = world.actor(kind), world.held_by_another("far")
    held = actor.acquire(*names)
    sharing = actor.acquire(*names, conflict_strategy="work_through")
    check_counts(sweep(world.actor("thread", actor.client), "all"), len(names) + 1, 0, 0)
    for hold in held, sharing:
        check_equal(hold.state(), "GONE")
        wait_until(lambda hold=hold: len(hold.losses()) == len(names), "each is told")
    check_equal(far.state(), "HELD")
    far.verify().check("NOT_HELD")
    for hold in sharing, held, far:
        hold.release().check("NOT_HELD")


@scenario(counts=[1])
def the_share_of_an_owner_ends_and_a_waiter_is_let_in(world, kind, names):
    """Its holder learns of it at once if its own client sweeps. The other share stays."""
    mine, theirs, waiting = (world.actor(kind) for _ in range(3))
    held, other = (actor.acquire(*names, **PERMIT_OF_TWO) for actor in (mine, theirs))
    asking = wait_told(world, waiting, *names, **PERMIT_OF_TWO)
    of = {"acq_id": held.outcome.acq_id, "hst_id": held.outcome.hst_id}
    sweeping = world.actor("thread", mine.client)
    key = [f"rql:lock:{names[0]}"]
    check_counts(sweep(sweeping, "owner", **{**of, "hst_id": other.outcome.hst_id}), 0, 0, 0)
    done = sweep(sweeping, "owner", **of, dry_run=True)
    check_counts(done, 1, 0, 0)
    check_equal((done.keys, world.ask("ZCARD", f"rql:shares:{names[0]}")), (key, 2))
    check_equal((held.state(), asking.is_over()), ("HELD", False))
    check_counts(sweep(sweeping, "owner", **of, wants="another"), 0, 0, 0)
    done = sweep(sweeping, "owner", **of)
    check_counts(done, 1, 0, 0)
    check_equal((done.keys, done.handed_over_cnt), (key, 1))
    third = asking.hold()
    check_equal((held.state(), other.verify().status, third.verify().status), ("GONE", "OK", "OK"))
    wait_until(held.is_lost, "its loss is told")
    held.release().check("NOT_HELD")
    check_counts(sweep(sweeping, "all"), 1, 0, 0)
    for hold in other, third:
        hold.verify().check("NOT_HELD")
        hold.release().check("NOT_HELD")


@once
def no_script_of_shares_is_called_where_no_lock_is_shared(world, kind, _names):
    """One call for each lock, and no other."""
    actor = world.actor(kind)
    hold_as(world, RUBY, "a", "b")
    check_counts(sweep(actor, OTHER), 0, 0, 0)  # it has connected then
    before = world.n_scripts()
    check_counts(sweep(actor, RUBY), 2, 0, 0)
    check_equal(world.n_scripts() - before, 2)


@once
def foreign_keys_are_left_alone_and_counted(world, kind, _names):
    actor = world.actor(kind)
    world.ask("SET", "rql:lock:s", "x")
    world.ask("RPUSH", "rql:lock_queue:s", "x")
    hold_as(world, RUBY, "s2")
    queue_as(world, "s2", DEAD)
    done = sweep(actor, RUBY)
    check_counts(done, 1, 0, 0)
    check_equal(done.foreign_key_cnt, 2)
    done = sweep(actor, "dead", dead_ttl_ms=0)
    check_counts(done, 0, 1, 1)
    check_equal((done.foreign_key_cnt, len(done.queues)), (1, 2))
    hold_as(world, RUBY, "s2")
    done = sweep(actor, "all")
    check_counts(done, 1, 0, 0)
    check_equal(done.foreign_key_cnt, 2)
    check_equal(world.ask("EXISTS", "rql:lock:s", "rql:lock_queue:s"), 2)


@once
def a_lock_beside_foreign_keys_goes(world, kind, _names):
    """Its queue is a list, or its requests are a text: the lock is free, and there is nobody to serve. Of such requests
    the script is the first to know: they stay, too."""
    actor = world.actor(kind)
    hold_as(world, RUBY, "s")
    world.ask("RPUSH", "rql:lock_queue:s", "x")
    check_counts(sweep(actor, RUBY), 1, 0, 0)
    hold_as(world, RUBY, "s")
    world.ask("DEL", "rql:lock_queue:s")
    queue_as(world, "s", OTHER[0])
    world.ask("SET", "rql:req:s", "x")
    check_counts(sweep(actor, RUBY), 1, 0, 0)
    done = sweep(actor, "dead", dead_ttl_ms=0)
    check_counts(done, 0, 0, 0)
    check_equal(done.foreign_key_cnt, 1)
    check_equal(world.keys_left(), ["rql:lock_queue:s", "rql:req:s"])
    check_equal(world.queue_length("s"), 1)


@once
def large_locks_are_cleared_and_no_lock_has_such_a_name(world, kind, _names):
    """Fields of 20 MiB, more than a connection carries, and a name of one."""
    hold_as(world, RUBY, "small")
    world.ask("HSET", "rql:lock:huge", "acq_id", "h" * (20 << 20), "rql_nonce", "n" * (20 << 20))
    world.ask("HSET", "rql:lock:" + "n" * (1 << 20), "acq_id", RUBY[0])
    done = sweep(world.actor(kind, io_timeout_ms=MINUTE_MS), "all")
    check_counts(done, 2, 0, 0)
    check_equal(done.foreign_key_cnt, 1)
    check_equal(n_keys(world), 1)


@once
def names_of_any_bytes_are_cleared(world, kind, _names):
    world.ask("HSET", b"rql:lock:x\n\0y\xff", "acq_id", RUBY[0])
    world.ask("HSET", "rql:lock:" + "n" * 2000, "acq_id", RUBY[0])
    queue_as(world, "n" * 2000, "a")
    world.ask("HSET", "rql:lock:", "acq_id", RUBY[0])
    world.ask("HSET", "rql:lock:ownerless", "n", 1)
    check_counts(sweep(world.actor(kind), "all"), 5, 1, 1)
    check_equal(n_keys(world), 0)


@once
def current_locks_are_those_of_thread_and_task(world, kind, _names):
    actor, others = world.actor(kind), world.held_by_another("others")
    plain, tasks = actor.acquire("plain"), actor.acquire("tasks", task=7)
    check_counts(sweep(actor, "current", task=7), 1, 0, 0)
    check_equal((tasks.state(), plain.state()), ("GONE", "HELD"))
    check_counts(sweep(actor, "current"), 1, 0, 0)
    check_equal(plain.state(), "GONE")
    plain.release().check("NOT_HELD")
    tasks.release().check("NOT_HELD")
    others.release().check()


# ---- requests of the dead ----


@once
def requests_of_ours_that_live_keep_their_places(world, kind, _names):
    hold_as(world, OTHER, "x")
    live(world)
    wait_as(world, "x", 1)
    wait_as(world, "x", 2, until_us=1)
    wait_as(world, "x", 3, SILENT)
    world.ask("ZADD", "rql:lock_queue:x", 4, ours(4))  # it has no record
    world.ask("ZADD", "rql:lock_queue:x", 5, DEAD)
    wait_as(world, "x", 6, until_us=world.server.now_us() + 1000000000)
    actor = world.actor(kind)
    check_counts(sweep(actor, "dead", dead_ttl_ms=0, dry_run=True), 0, 1, 4)
    check_equal(world.queue_length("x"), 6)
    check_counts(sweep(actor, "dead", dead_ttl_ms=0), 0, 1, 4)
    check_equal(world.ask("ZRANGE", "rql:lock_queue:x", 0, -1, "WITHSCORES"), [ours(1), "1", ours(6), "6"])
    check_equal(world.ask("HLEN", "rql:req:x"), 2)
    check_counts(sweep(actor, "dead", dead_ttl_ms=0), 0, 0, 0)


@once
def long_queues_are_gone_through(world, kind, _names):
    """In more than one step of the script, with the living in between: the odd ones from 151 on are dead."""
    hold_as(world, OTHER, "x")
    live(world)
    for i in range(1, 701):
        wait_as(world, "x", i, until_us=0 if i % 2 == 0 or i < 150 else 1)
    actor = world.actor(kind)
    check_counts(sweep(actor, "dead", dead_ttl_ms=0, dry_run=True), 0, 1, 275)
    check_counts(sweep(actor, "dead", dead_ttl_ms=0), 0, 1, 275)
    check_equal((world.queue_length("x"), world.ask("HLEN", "rql:req:x")), (425, 425))


@scenario(counts=[1])
def who_stands_behind_a_whole_page_is_served(world, kind, _names):
    """As many as one step of the script takes."""
    held = world.held_by_another("x")
    asking = wait_told(world, world.actor(kind), "x")
    for i in range(1, 101):
        world.ask("ZADD", "rql:lock_queue:x", i, f"rql:acq:90001/{i}/2/3/ffffffffffffff01")
    world.ask("DEL", "rql:lock:x")
    check_equal(sweep(world.actor("thread"), "dead", dead_ttl_ms=DAY_MS).rem_request_cnt, 100)
    asking.hold().release().check()
    held.release().check("NOT_HELD")


# ---- what is told of it ----

def seed(world, count):
    for i in range(count):
        hold_as(world, RUBY, f"n{i}")
        queue_as(world, f"n{i}", DEAD)


@once
def progress_is_told_and_may_stop_it(world, kind, _names):
    actor = world.actor(kind)
    seed(world, 20)
    done = sweep(actor, "all", batch_size=5, dry_run=True)
    check_counts(done, 40, 20, 20)
    check(len(done.steps) >= 10, "few steps")
    check_equal(done.steps, sorted(done.steps))
    check_equal(done.steps[-1], [40, 40])
    check_equal({found for n_done, found in done.steps if n_done > 0}, {40})
    check_counts(sweep(actor, "all", "STOPPED", batch_size=5, stops_at=25), 25, 20, 20)
    check_equal(n_keys(world), 15)
    done = sweep(actor, "all", "STOPPED", batch_size=5, stops_at=0)
    check_counts(done, 0, 0, 0)
    check_equal(len(done.steps), 1)
    check_counts(sweep(actor, "all", batch_size=5), 15, 0, 0)


@once
def all_sweeps_name_what_they_sweep(world, kind, _names):
    actor = world.actor(kind)
    for dry_run in True, False:
        hold_as(world, RUBY, "b")
        hold_as(world, OTHER, "b2")
        for name in "a", "b2":
            queue_as(world, name, RUBY[0], score=1.5)
        done = sweep(actor, RUBY, wants="b", dry_run=dry_run)
        check_equal(done.keys, ["rql:lock:b", "rql:lock_queue:b2"])
        queue_as(world, "b2", DEAD, OTHER[0], score=1.5)
        done = sweep(actor, "dead", wants="b", dry_run=dry_run)
        check_equal(done.keys, ["rql:lock_queue:b2"])


@once
def scripts_that_are_forgotten_are_taught(world, kind, _names):
    """Before a sweep, and in its midst."""
    actor = world.actor(kind)
    for _ in range(2):
        seed(world, 2)
        world.ask("SCRIPT", "FLUSH")
        check_counts(sweep(actor, "all"), 4, 2, 2)
    seed(world, 20)
    call = actor.begin("sweep", of="all", batch_size=6, pauses_at=12)
    wait_until(lambda: any("pauses" in words for words in actor.remote.told), "it pauses")
    world.ask("SCRIPT", "FLUSH")
    actor.remote.do("go_on").check()
    check_counts(call.outcome().check(), 40, 20, 20)
    check_equal(n_keys(world), 0)


if __name__ == "__main__":
    main()
