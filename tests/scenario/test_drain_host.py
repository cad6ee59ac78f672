#!/usr/bin/env python3
"""A host that is asked to release what it holds: rql_host_drain()."""

import socket

from harness import FOREVER, MINUTE_MS, check, check_equal, main, once, scenario, wait_until
from sweeps import RUBY, hold_as

TTL_MS = 1200  # it is renewed three times in this time
LISTENS = {"hears_wanted": True}
HERE = socket.gethostname()


def drain(world, host, within_ms=MINUTE_MS):
    return world.actor("thread").begin("drain_host", host=host, within_ms=within_ms).outcome()


def holds(outcome):
    outcome.check()
    return sorted((hold["name"], hold["token"], hold["is_asked"]) for hold in outcome.holds)


def hold(world, kind, *names, **options):
    return world.actor(kind).ask(*names, ttl_ms=TTL_MS, auto_extend=True, also=LISTENS, **options).hold()


def calls_of(held):
    """(waiters, within_ms) of each call."""
    return [(words["waiters"], words["within_ms"]) for words in held.actor.remote.told if words.get("wanted") == held.name]


def await_renewal(held):
    before = held.actor.client.stats().renewals
    wait_until(lambda: held.actor.client.stats().renewals > before, "it is renewed")


@scenario(is_timed=True)
def holders_are_notified_at_their_next_renewal(world, kind, names):
    """Once for each time that they are asked for an earlier time than before."""
    held = hold(world, kind, *names)
    wanted = sorted((name, token, True) for name, token in zip(names, held.tokens))
    for count, within_ms in ((1, MINUTE_MS), (1, MINUTE_MS), (2, 10000)):
        check_equal(holds(drain(world, held.outcome.hst_id, within_ms)), wanted)
        wait_until(lambda count=count: len(calls_of(held)) == count * len(names), "it is notified", TTL_MS / 1000)
        waiters, left_ms = calls_of(held)[-1]
        check(waiters == 0 and within_ms - TTL_MS <= left_ms <= within_ms, calls_of(held))
        await_renewal(held)
        check_equal(len(calls_of(held)), count * len(names))
    check_equal((held.state(), held.losses()), ("HELD", []))
    held.release().check()
    check_equal(holds(drain(world, held.outcome.hst_id)), [])
    world.await_nothing_left()


@scenario(counts=[1], is_timed=True)
def a_holder_that_makes_way_is_gone(world, kind, names):
    """The next holder was not asked, although it waited meanwhile: in a client of its own, or in the same one."""
    for is_same in (False, True):
        actor = world.actor(kind)
        held = actor.ask(*names, ttl_ms=TTL_MS, auto_extend=True, also={"makes_way": True}).hold()
        waiting = world.actor(kind, actor.client) if is_same else world.actor(kind)
        asking = waiting.ask(*names, ttl_ms=TTL_MS, timeout_ms=FOREVER, auto_extend=True, also=LISTENS)
        drain(world, held.outcome.hst_id).check()
        mine = asking.hold()
        await_renewal(mine)
        check_equal(calls_of(mine), [])
        check_equal(holds(drain(world, mine.outcome.hst_id)), [(names[0], mine.tokens[0], True)])
        wait_until(lambda mine=mine: calls_of(mine), "it is notified", TTL_MS / 1000)
        mine.release().check()
    world.await_nothing_left()


@scenario(counts=[1], is_timed=True)
def of_sharers_only_those_of_the_host_are_asked(world, kind, names):
    """The first is asked when it is alone, and renews when it is not."""
    share = {"share_units": 1}
    first = hold(world, kind, *names, **share)
    drain(world, first.outcome.hst_id).check()
    second = hold(world, kind, *names, **share)
    wait_until(lambda: calls_of(first), "it is notified", TTL_MS / 1000)
    await_renewal(second)
    check_equal(calls_of(second), [])
    check_equal(holds(drain(world, second.outcome.hst_id)), [(names[0], second.tokens[0], True)])
    wait_until(lambda: calls_of(second), "it is notified", TTL_MS / 1000)
    check_equal(len(calls_of(first)), 1)
    for held in first, second:
        held.release().check()
    world.await_nothing_left()


@scenario(kinds=["thread"], counts=[1], is_timed=True)
def what_was_asked_for_is_over_when_its_time_has_come(world, kind, names):
    """A holder that is notified later that others wait has no limit."""
    held = hold(world, kind, *names)
    drain(world, held.outcome.hst_id, 100).check()
    wait_until(lambda: calls_of(held), "it is notified", TTL_MS / 1000)
    check_equal([waiters for waiters, _ in calls_of(held)], [0])
    asking = world.actor(kind).ask(*names, timeout_ms=FOREVER)
    wait_until(lambda: len(calls_of(held)) == 2, "it is notified", TTL_MS / 1000)
    check_equal(calls_of(held)[1], (1, -1))
    held.release().check()
    asking.hold().release().check()
    world.await_nothing_left()


@scenario(kinds=["thread"], counts=[1])
def a_share_that_has_ended_is_not_waited_for(world, kind, names):
    """Until a call removes it, it is among the fields of the lock."""
    held = [world.actor(kind).acquire(*names, ttl_ms=MINUTE_MS, share_units=1) for _ in range(2)]
    world.ask("ZADD", f"rql:shares:{names[0]}", 1, held[0].outcome.acq_id)
    check_equal(holds(drain(world, held[0].outcome.hst_id)), [])
    check_equal(holds(drain(world, held[1].outcome.hst_id)), [(names[0], held[1].tokens[0], False)])
    held[0].release().check()
    held[1].release().check()


@scenario(kinds=["thread"], counts=[1])
def a_request_with_as_much_metadata_as_there_may_be_listens(world, kind, names):
    """The pair that says so is one more, and no metadata of the holder."""
    meta = {f"name {i}": str(i) for i in range(64)}
    beside = world.actor(kind).acquire(*names, ttl_ms=MINUTE_MS, share_units=1)
    held = hold(world, kind, *names, share_units=1, meta=meta)
    check_equal(holds(drain(world, held.outcome.hst_id)), [(names[0], held.tokens[0], True)])
    found = world.actor("thread").begin("inspect", of="holders", name=names[0]).outcome().found["holders"]
    check_equal([dict(holder["meta"]) for holder in found], [{}, meta])
    for one in beside, held:
        one.release().check()


@scenario(kinds=["thread"], counts=[1])
def a_machine_is_all_that_runs_on_it(world, kind, names):
    """Holders without on_wanted are listed, and not asked."""
    listening = hold(world, kind, *names)
    sharing = [world.actor(kind).acquire("shared", ttl_ms=MINUTE_MS, share_units=1) for _ in range(2)]
    hold_as(world, RUBY, "ruby")
    for held in (listening, *sharing):
        identity = held.outcome.hst_id.rsplit("/", 1)[1]
        wait_until(lambda identity=identity: world.ask("HEXISTS", "rql:clients", identity), "its machine is known")
    wanted = [(names[0], listening.tokens[0], True), *(("shared", held.tokens[0], False) for held in sharing)]
    check_equal(holds(drain(world, HERE)), sorted(wanted))
    check_equal(holds(drain(world, RUBY[1])), [("ruby", -1, False)])
    for held in (listening, *sharing):
        held.release().check()
    check_equal(holds(drain(world, HERE)), [])


@once
def what_is_no_host_is_refused(world, _kind, _names):
    outcome = drain(world, "no-such-machine")
    check_equal(outcome.status, "NOT_FOUND")
    check("no-such-machine: no client" in outcome.error, outcome.error)
    check_equal(holds(drain(world, "rql:hst:1/2/0/3")), [])
    for host, within_ms in ((None, 0), (HERE, -1), (HERE, 2592000001)):
        check_equal(drain(world, host, within_ms).status, "E_INVALID")


if __name__ == "__main__":
    main()
