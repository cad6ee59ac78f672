#!/usr/bin/env python3
"""Locks that several hold together: readers beside each other, permits, slots, a writer that becomes a reader."""

import others  # noqa: F401  the gem is one of the actors
from harness import FOREVER, MINUTE_MS, Network, check, check_equal, main, once, scenario, wait_until
from sweeps import RUBY, hold_as, share_as

READER = {"share_units": 1}
READER_OF_TWO = {"share_units": 1, "share_limit": 2}
ONE_SLOT_OF_TWO = {**READER_OF_TWO, "share_slots": True}
SHARED = "rql:acq:shared/0/0/0/" + "0" * 32
POLL_MS = 1700  # of a waiter that no push notifies


def permit(units, limit, **options):
    return {"share_units": units, "share_limit": limit, **options}


def actors(world, kind, count):
    """Of a client each."""
    return [world.actor(kind) for _ in range(count)]


def shared(world, name):
    """What there is of the lock of several: its owner, the units in use, how many sharers."""
    return (world.ask("HGET", f"rql:lock:{name}", "acq_id"), int(world.ask("HGET", f"rql:lock:{name}", "rql_used") or 0),
            world.ask("ZCARD", f"rql:shares:{name}"))


@scenario(counts=[1])
def readers_hold_it_together_and_a_writer_waits_for_all(world, kind, names):
    first, second, writer, reader = actors(world, kind, 4)
    held = [one.acquire(*names, **READER) for one in (first, second)]
    check(held[0].tokens[0] < held[1].tokens[0], "tokens fall")
    check_equal([hold.outcome.share_units for hold in held], [1, 1])
    check_equal(shared(world, names[0]), (SHARED, 2, 2))
    check_equal([hold.verify().status for hold in held], ["OK", "OK"])
    writing = writer.ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    late = reader.ask(*names, **READER, timeout_ms=FOREVER)  # it would fit, and does not pass the writer
    world.await_queue(names, 2)
    held[1].release().check()
    check(not writing.is_over(), "a writer beside a reader")
    held[0].release().check()
    mine = writing.hold()
    check(not late.is_over(), "a reader beside a writer")
    mine.release().check()
    last = late.hold()
    check(last.tokens[0] > mine.tokens[0] > held[1].tokens[0], "tokens fall")
    last.release().check()
    world.await_nothing_left()


@scenario(counts=[1])
def readers_behind_a_writer_come_in_at_once(world, kind, names):
    """The first is handed the lock, and is told to let the others in."""
    writer, *readers = actors(world, kind, 4)
    held = writer.acquire(*names)
    asked = []
    for count, reader in enumerate(readers, 1):
        asked.append(reader.ask(*names, **READER, timeout_ms=FOREVER))
        world.await_queue(names, count)
    held.release().check()
    holds = [asking.hold() for asking in asked]
    check_equal(shared(world, names[0]), (SHARED, 3, 3))
    for hold in holds:
        hold.release().check()
    world.await_nothing_left()


@scenario(counts=[1])
def as_many_permits_are_held_as_the_limit_says(world, kind, names):
    """Units count. A permit that comes back goes to the next that fits, and to none behind it."""
    one, two, other, small = actors(world, kind, 4)
    held = [one.acquire(*names, **permit(1, 3)), two.acquire(*names, **permit(2, 3))]
    check_equal(other.refused(*names, **permit(1, 3), fail_fast=True).status, "FAIL_FAST_NO_TRY")
    large = other.ask(*names, **permit(2, 3), timeout_ms=FOREVER)
    world.await_queue(names, 1)
    behind = small.ask(*names, **permit(1, 3), timeout_ms=FOREVER)
    world.await_queue(names, 2)
    held[0].release().check()
    held.append(two.acquire("another", ttl_ms=MINUTE_MS))
    check(not large.is_over() and not behind.is_over(), "one was let in that does not fit, or that was behind it")
    held[1].release().check()
    mine, last = large.hold(), behind.hold()
    check_equal(shared(world, names[0])[1:], (3, 2))
    for hold in (held[2], mine, last):
        hold.release().check()
    world.await_nothing_left()


@scenario(counts=[1])
def a_share_is_renewed_and_extended(world, kind, names):
    first, second = actors(world, kind, 2)
    held = first.acquire(*names, **READER, ttl_ms=600, auto_extend=True)
    theirs = second.acquire(*names, **READER, ttl_ms=MINUTE_MS, auto_extend=False)
    until_us = world.server.now_us() + 1500000
    wait_until(lambda: world.server.now_us() > until_us, "it would have ended without renewals")
    check_equal((held.state(), held.verify().status), ("HELD", "OK"))
    theirs.extend(2 * MINUTE_MS).check()
    check(theirs.remaining_ms() > MINUTE_MS, "it is not extended")
    held.release().check()
    theirs.release().check()
    world.await_nothing_left()


@scenario(counts=[1], is_timed=True)
def a_share_that_is_not_renewed_ends_alone(world, kind, names):
    """Its unit is free for the next, and its holder is told."""
    first, second, third = actors(world, kind, 3)
    short = first.acquire(*names, **READER_OF_TWO, ttl_ms=400, auto_extend=False)
    theirs = second.acquire(*names, **READER_OF_TWO)
    asking = third.ask(*names, **READER_OF_TWO, timeout_ms=FOREVER)
    mine = asking.hold()
    wait_until(short.is_lost, "its loss is told")
    check_equal((short.state(), short.verify().status), ("GONE", "NOT_HELD"))
    check_equal((theirs.state(), theirs.verify().status, mine.verify().status), ("HELD", "OK", "OK"))
    check_equal(short.release().status, "NOT_HELD")
    for hold in (theirs, mine):
        hold.release().check()
    world.await_nothing_left()


@scenario(counts=[1])
def a_writer_becomes_a_reader(world, kind, names):
    """With its token, and those that wait come in; no writer comes between."""
    writer, reader, later = actors(world, kind, 3)
    held = writer.acquire(*names, meta={"why": "because"})
    asking = reader.ask(*names, **READER, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    writing = later.ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 2)
    held.lower(**READER).check()
    mine = asking.hold()
    check(not writing.is_over(), "a writer beside readers")
    check_equal(held.lower(**READER).status, "CONFLICT")
    check_equal((held.state(), held.verify().status), ("HELD", "OK"))
    check_equal(shared(world, names[0]), (SHARED, 2, 2))
    check(mine.tokens[0] > held.tokens[0], "tokens fall")
    held.extend(2 * MINUTE_MS).check()
    held.release().check()
    mine.release().check()
    writing.hold().release().check()
    world.await_nothing_left()


@scenario(counts=[1])
def a_lowered_lock_has_the_first_slots(world, kind, names):
    """Also where no answer has said that it is shared."""
    network = Network(world)
    first = world.actor(kind, network.client())
    second = world.actor(kind)
    for fault in (None, "cut_reply"):
        held = first.acquire(*names, ttl_ms=MINUTE_MS)
        if fault:
            network.fail(fault, n=1)
        lowered = held.lower(**permit(2, 3, share_slots=True)).check("E_UNKNOWN" if fault else "OK")
        network.heal()
        check_equal(lowered.slots, [0, 1])
        held.extend(MINUTE_MS).check()
        mine = second.acquire(*names, **permit(1, 3, share_slots=True))
        check_equal(mine.outcome.slots, [2])
        refused = held.lower(**permit(1, 3, share_slots=True))
        check_equal((refused.status, refused.slots), ("CONFLICT", [0, 1]))
        held.release().check()
        mine.release().check()
    held = first.acquire(*names, ttl_ms=MINUTE_MS)
    check_equal(held.lower(**permit(2, 3)).check().slots, [])
    held.release().check()
    world.await_nothing_left()


@scenario(counts=[1])
def a_lowered_lock_is_renewed_as_a_share(world, kind, names):
    writer, reader = actors(world, kind, 2)
    held = writer.acquire(*names, ttl_ms=600, auto_extend=True)
    held.lower(**READER).check()
    mine = reader.acquire(*names, **READER)
    until_us = world.server.now_us() + 1500000
    wait_until(lambda: world.server.now_us() > until_us, "it would have ended without renewals")
    check_equal((held.state(), held.verify().status, held.losses()), ("HELD", "OK", []))
    held.release().check()
    mine.release().check()
    world.await_nothing_left()


@scenario(counts=[1])
def what_cannot_be_lowered_stays_as_it_is(world, kind, names):
    actor = world.actor(kind)
    held = actor.acquire(*names, task=3)
    again = actor.acquire(*names, task=3, conflict_strategy="work_through")
    for hold in (held, again):
        check_equal(hold.lower(**READER).status, "CONFLICT")
    again.release().check()
    check_equal(held.lower(share_units=0).status, "E_INVALID")
    held.lower(**READER).check()
    held.release().check()
    kept = actor.acquire(*names, hold_at_least_ms=1)
    check_equal(kept.lower(**READER).status, "E_INVALID")
    kept.release().check()
    check_equal(world.actor("thread").acquire(*names).release().check().status, "OK")
    held = actor.acquire(*names)
    world.ask("DEL", f"rql:lock:{names[0]}")
    check_equal(held.lower(**READER).status, "NOT_HELD")
    check_equal(held.release().status, "NOT_HELD")
    world.await_nothing_left()


@scenario(counts=[1])
def each_slot_is_held_once(world, kind, names):
    """The lowest that are free, of those that were handed over and let in, too."""
    first, second, third = actors(world, kind, 3)
    held = [one.acquire(*names, **ONE_SLOT_OF_TWO) for one in (first, second)]
    check_equal([hold.outcome.slots for hold in held], [[0], [1]])
    asking = third.ask(*names, **ONE_SLOT_OF_TWO, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    held[0].release().check()
    mine = asking.hold()
    check_equal(mine.outcome.slots, [0])
    for hold in (held[1], mine):
        hold.release().check()
    alone = first.acquire(*names)
    asking = third.ask(*names, **permit(2, 3, share_slots=True), timeout_ms=FOREVER)
    world.await_queue(names, 1)
    alone.release().check()
    mine = asking.hold()
    check_equal(mine.outcome.slots, [0, 1])
    mine.release().check()
    world.await_nothing_left()


@scenario(counts=[1])
def an_acquirer_has_one_share_and_enters_it_again(world, kind, names):
    actor, other = actors(world, kind, 2)
    held = actor.acquire(*names, **permit(1, 3, share_slots=True), task=3)
    theirs = other.acquire(*names, **permit(1, 3))
    again = actor.acquire(*names, **permit(1, 3, share_slots=True), task=3, conflict_strategy="work_through")
    check_equal((again.outcome.process, again.tokens, again.outcome.slots), (1, held.tokens, [0]))
    check_equal(shared(world, names[0])[1:], (2, 2))
    again.release().check()
    for conflict in "work_through", "extendable_work_through", "dead_locking":
        refused = actor.refused(*names, task=3, conflict_strategy=conflict, timeout_ms=FOREVER)
        check_equal(refused.status, "CONFLICT", f"alone, by {conflict}")
    check_equal(actor.refused(*names, **READER, task=3, conflict_strategy="dead_locking").status, "CONFLICT")
    more = actor.acquire(*names, **permit(1, 3), task=4)
    for hold in (held, theirs, more):
        hold.release().check()
    world.await_nothing_left()


@scenario(counts=[1])
def who_holds_it_alone_and_enters_as_a_reader_keeps_it_alone(world, kind, names):
    """And its renewals do not share the lock."""
    actor, other = actors(world, kind, 2)
    held = actor.acquire(*names, task=3, ttl_ms=MINUTE_MS)
    again = actor.acquire(*names, **READER, task=3, conflict_strategy="work_through")
    check_equal((again.outcome.process, again.outcome.share_units), (1, 0))
    again.extend(2 * MINUTE_MS).check()
    check_equal(other.refused(*names, **READER, fail_fast=True).status, "FAIL_FAST_NO_TRY")
    again.release().check()
    held.release().check()
    world.await_nothing_left()


@scenario(counts=[1])
def a_request_for_a_share_that_gives_up_leaves_nothing(world, kind, names):
    first, second = actors(world, kind, 2)
    held = first.acquire(*names)
    check_equal(second.refused(*names, **READER, timeout_ms=300).status, "TIMED_OUT")
    world.await_queue(names, 0)
    held.release().check()
    held = first.acquire(*names, **permit(2, 2))
    check_equal(second.refused(*names, **permit(1, 2), timeout_ms=300).status, "TIMED_OUT")
    held.release().check()
    world.await_nothing_left()


@scenario(counts=[1])
def a_share_is_released_lazily(world, kind, names):
    first, second = actors(world, kind, 2)
    theirs = second.acquire(*names, **READER)
    for _ in range(3):
        first.acquire(*names, **READER, lazy_release=True).release().check()
    theirs.release().check()
    world.await_nothing_left()


@scenario(counts=[1])
def nothing_shared_is_handed_on_inside_a_client(world, kind, names):
    """A reader behind a reader's client, and a writer behind a reader: the server serves them."""
    actor = world.actor(kind)
    beside = world.actor(kind, actor.client)
    for first, second in (({}, READER), (READER, {})):
        held = actor.acquire(*names, **first, task=3)
        asking = beside.ask(*names, **second, task=4, timeout_ms=FOREVER)
        world.await_queue(names, 1)
        held.release().check()
        asking.hold().release().check()
    check_equal(actor.client.stats().local_hand_overs, 0)
    world.await_nothing_left()


@scenario(counts=[1], is_timed=True)
def a_lost_reply_costs_no_share(world, kind, names):
    """Of the acquisition, of the release, and of the call that shares the lock."""
    network = Network(world)
    actor = world.actor(kind, network.client(io_timeout_ms=300))
    theirs = world.actor("thread").acquire(*names, **permit(1, 2))
    actor.acquire("warm").release().check()
    network.fail("cut_reply")
    held = actor.acquire(*names, **permit(1, 2))
    check_equal(shared(world, names[0])[1:], (2, 2))
    network.fail("cut_reply")
    held.release().check()
    network.heal()
    check_equal(shared(world, names[0])[1:], (1, 1))
    theirs.release().check()
    world.await_nothing_left()


@scenario(counts=[1], is_timed=True)
def a_ruby_among_readers_has_its_turn(world, kind, names):
    """It waits for all of them and deletes nothing; no later reader passes it; then the readers are next."""
    first, second, late = actors(world, kind, 3)
    ruby = world.actor("ruby")
    held = [one.acquire(*names, **READER) for one in (first, second)]
    asking = ruby.ask(names[0])
    world.await_queue(names, 1)
    reading = late.ask(*names, **READER, timeout_ms=FOREVER)
    world.await_queue(names, 2)
    held[0].release().check()
    check_equal(held[1].verify().status, "OK")
    check(not asking.is_over() and not reading.is_over(), "one has the lock beside a reader that was there first")
    held[1].release().check()
    mine = asking.hold()
    check(not reading.is_over(), "a reader beside Ruby")
    mine.release()
    reading.hold().release().check()
    world.await_nothing_left()


@scenario(counts=[1], is_timed=True)
def what_ruby_unlocks_is_lost_to_all_that_share_it(world, kind, names):
    """They learn of it by their renewals."""
    held = [one.acquire(*names, **READER, ttl_ms=600, auto_extend=True) for one in actors(world, kind, 2)]
    world.actor("ruby").ruby.unlock(names[0])
    for hold in held:
        wait_until(hold.is_lost, "it is told")
        check_equal((hold.state(), hold.release().status), ("GONE", "NOT_HELD"))
    world.await_nothing_left()


@scenario(counts=[1])
def what_is_not_a_share_is_refused_before_anything_is_sent(world, kind, names):
    actor = world.actor(kind)
    for wrong in (permit(3, 2), permit(65, 100, share_slots=True), permit(1, 1025, share_slots=True), permit(4097, 4096),
                  permit(1, 0), permit(-1, 2), permit(1, 2, hold_at_least_ms=5)):
        check_equal(actor.refused(*names, **wrong).status, "E_INVALID", wrong)
    check_equal(actor.refused(*names, "another", **READER).status, "E_INVALID")
    world.await_nothing_left()


# ---- what operators see ----

def inspect(world, of, name):
    return world.actor("thread").begin("inspect", of=of, name=name).outcome().check().found


def holders(world, name):
    found = inspect(world, "holders", name)
    check_equal(found["status"], 0 if world.ask("EXISTS", f"rql:lock:{name}") else 1)
    return found["holders"]


def counts(world, name):
    info = inspect(world, "lock", name)
    return info["n_holders"], info["used_units"], info["share_limit"]


def facts(holder, *fields):
    return [holder[field] for field in ("acq_id", "hst_id", "token", "meta", *fields)]


def facts_of(hold, meta, *more):
    return [hold.outcome.acq_id, hold.outcome.hst_id, hold.tokens[0], meta, *more]


def left_ms(world, name):
    return world.ask("PTTL", f"rql:lock:{name}")


OF_SHARE = "ini_ttl_ms", "share_units", "share_limit", "slots"


@scenario(counts=[1])
def the_holders_of_a_lock_are_listed(world, kind, names):
    """None, one alone, one that shares, and several with all that each has asked for."""
    (name,), (first, second, third) = names, actors(world, kind, 3)
    check_equal(holders(world, name), [])
    held = first.acquire(name, ttl_ms=MINUTE_MS, meta={"why": "alone"})
    (alone,) = holders(world, name)
    check_equal(facts(alone, *OF_SHARE), facts_of(held, [["why", "alone"]], MINUTE_MS, 0, 0, []))
    check_equal((alone["ts_us"], counts(world, name)), (held.outcome.ts_us, (1, 0, 0)))
    held.lower(**permit(2, 8, share_slots=True)).check()
    (lowered,) = holders(world, name)
    check_equal(facts(lowered, *OF_SHARE), facts_of(held, [["why", "alone"]], MINUTE_MS, 2, 8, [0, 1]))
    check_equal(counts(world, name), (1, 2, 8))
    long = {"text": "x" * 300, "and": "more", "nothing": ""}
    theirs = second.acquire(name, ttl_ms=2 * MINUTE_MS, meta=long, **permit(1, 8, share_slots=True))
    check_equal(counts(world, name), (2, 3, 8))
    last = third.acquire(name, ttl_ms=MINUTE_MS, **READER)
    check_equal(counts(world, name), (3, 4, 0))
    found = holders(world, name)
    check_equal([facts(one, *OF_SHARE) for one in found],
                [facts_of(held, [["why", "alone"]], MINUTE_MS, 2, 8, [0, 1]),
                 facts_of(theirs, [list(pair) for pair in long.items()], 2 * MINUTE_MS, 1, 8, [2]),
                 facts_of(last, [], MINUTE_MS, 1, 4096, [])])
    check(all(0 < one["rem_ttl_ms"] <= one["ini_ttl_ms"] for one in found), f"{found}")
    check(found[1]["rem_ttl_ms"] > MINUTE_MS, "it has the end of the lock, or of another")
    check_equal([one["ts_us"] for one in found], [one["token"] for one in found])
    info = inspect(world, "lock", name)
    check_equal((info["status"], info["acq_id"], info["token"]), (0, SHARED, -1))
    for hold in held, theirs:
        hold.release().check()
    check_equal((len(holders(world, name)), counts(world, name)), (1, (1, 1, 4096)))
    last.release().check()


@scenario(counts=[1])
def a_kept_lock_and_a_lock_of_ruby_are_counted(world, kind, names):
    (name,), actor = names, world.actor(kind)
    actor.acquire(name, hold_at_least_ms=MINUTE_MS).release().check()
    check_equal((holders(world, name), counts(world, name)), ([], (0, 0, 0)))
    world.ask("DEL", f"rql:lock:{name}")
    hold_as(world, RUBY, name)
    (ruby,) = holders(world, name)
    check_equal((ruby["acq_id"], ruby["hst_id"], ruby["token"], counts(world, name)), (*RUBY, -1, (1, 0, 0)))


@scenario(counts=[1])
def requests_say_whether_they_wait_for_a_share(world, kind, names):
    alone, *sharing = actors(world, kind, 3)
    held = alone.acquire(*names)
    asked = []
    for count, options in enumerate((permit(2, 8, meta={"why": "because"}), {}), 1):
        asked.append(sharing[count - 1].ask(*names, **options, timeout_ms=FOREVER))
        world.await_queue(names, count)
    requests = inspect(world, "queue", names[0])["requests"]
    check_equal([(one["share_units"], one["share_limit"]) for one in requests], [(2, 8), (0, 0)])
    held.release().check()
    for asking in asked:
        asking.hold().release().check()


@scenario(counts=[1])
def a_lock_of_several_that_cannot_be_read_is_reported(world, kind, names):
    """A sharer that cannot be read, a key of shares of another type, and a lock that is none."""
    (name,) = names
    share_as(world, name, {f"rql:acq:{i}": f"rql:hst:{i}" for i in range(2)})
    world.ask("HSET", f"rql:lock:{name}", "rql_h:x", "y")
    found = inspect(world, "holders", name)
    check_equal((found["status"], len(found["holders"]), inspect(world, "lock", name)["status"]), (3, 2, 3))
    world.ask("HDEL", f"rql:lock:{name}", "rql_h:x")
    world.ask("SET", f"rql:shares:{name}", "x")
    check_equal([one["rem_ttl_ms"] for one in holders(world, name)], [-1, -1])
    world.ask("SET", f"rql:lock:{name}", "x")
    check_equal(inspect(world, "holders", name), {"status": 2, "holders": []})


@scenario(counts=[1])
def a_share_is_released_and_extended_by_its_secret(world, kind, names):
    """Of a lock of one and of several, from another process; the other share stays."""
    (name,), (first, second, third) = names, actors(world, kind, 3)
    using = world.actor("thread", world.client(world.remote()))

    def use(hold, **words):
        return using.begin("use_secret", name=name, secret=hold.outcome.secrets[0], **words).outcome()

    held, theirs = (one.acquire(name, ttl_ms=MINUTE_MS, **permit(1, 2, share_slots=True)) for one in (first, second))
    use(theirs, ttl_ms=3 * MINUTE_MS).check()
    left = {one["acq_id"]: one["rem_ttl_ms"] for one in holders(world, name)}
    check(left[held.outcome.acq_id] <= MINUTE_MS, f"{left}")
    check(2 * MINUTE_MS < left[theirs.outcome.acq_id] <= 3 * MINUTE_MS, f"{left}")
    asking = third.ask(name, **permit(1, 2, share_slots=True), timeout_ms=FOREVER)
    world.await_queue(names, 1)
    use(held).check()
    mine = asking.hold()
    check_equal((mine.outcome.slots, held.release().status), ([0], "NOT_HELD"))
    check_equal(shared(world, name), (SHARED, 2, 2))
    for words in {}, {"ttl_ms": MINUTE_MS}:
        use(held, **words).check("NOT_HELD")
    mine.release().check()
    use(theirs, ttl_ms=4 * MINUTE_MS).check()  # the last one of a lock of several
    check(left_ms(world, name) > 3 * MINUTE_MS, "it is not extended")
    use(theirs).check()
    check_equal(theirs.release().status, "NOT_HELD")
    alone = first.acquire(name, **READER, ttl_ms=MINUTE_MS)  # a lock of one
    use(alone, ttl_ms=2 * MINUTE_MS).check()
    check(left_ms(world, name) > MINUTE_MS, "it is not extended")
    use(alone).check()
    check_equal(alone.release().status, "NOT_HELD")
    world.await_nothing_left()


@once
def a_share_is_released_by_its_secret_though_an_answer_is_lost(world, kind, names):
    """The call for a lock of one ends no share, so after a lost answer it must not count as its release."""
    network = Network(world)
    actor, other = world.actor("thread", network.client()), world.actor("thread")
    actor.acquire("warm").release().check()
    held, theirs = (other.acquire(*names, **READER, task=task) for task in (1, 2))
    network.fail("cut_reply", n=1)
    actor.begin("use_secret", name=names[0], secret=held.outcome.secrets[0]).outcome().check()
    check_equal(shared(world, names[0])[1:], (1, 1))
    check_equal(held.release().status, "NOT_HELD")
    theirs.release().check()


@once
def as_many_holders_as_there_can_be_are_listed(world, kind, _names):
    share_as(world, "x", {f"rql:acq:{i}/0/0/0/{i:032}": f"rql:hst:{i}/0/0/{i:032}" for i in range(4096)})
    check_equal([one["acq_id"].split("/")[0] for one in holders(world, "x")], [f"rql:acq:{i}" for i in range(4096)])
    check_equal(counts(world, "x"), (4096, 4096, 4096))


if __name__ == "__main__":
    main()
