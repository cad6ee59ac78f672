#!/usr/bin/env python3
"""Words that are long under way. A lease counts from the question: nobody may rely on a lock for longer than the
server keeps it. And a question that nobody waits for any more does nothing."""
import sys

from harness import FOREVER, Network, check, check_equal, let_pass, main, scenario, wait_until
from pushes import pushed, wait_told

LONG_MS = 60000
TTL_MS = 6000
LATE_MS = 300
KINDS = ["thread", "loop"]


def far_away(world, kind):
    network = Network(world)
    actor = world.actor(kind, network.client(retry_delay_ms=LONG_MS))
    actor.acquire("warm").release().check()
    return network, actor


def be_late(network):
    """What comes from now on is late by more than the margin of the leases here."""
    network.fail("delay", direction="down", n=LATE_MS)


def check_lease(world, network, held, *others):
    """Nothing is renewed while we look."""
    network.fail("freeze")
    for one in (held, *others):
        left_ms = min(world.ask("PTTL", f"rql:lock:{name}") for name in one.names)
        check(one.remaining_ms() <= left_ms, f"it believes in more than {left_ms} ms")
    network.heal()


@scenario(kinds=KINDS)
def a_grant_counts_from_the_question(world, kind, names):
    network, actor = far_away(world, kind)
    be_late(network)
    held = actor.acquire(*names, ttl_ms=TTL_MS)
    check_lease(world, network, held)
    held.release().check()


@scenario(kinds=["thread"], counts=[1])
def a_re_entry_counts_from_the_question(world, kind, names):
    """And its end, which takes back what it did not use, of all."""
    network, actor = far_away(world, kind)
    outer = actor.acquire(*names, ttl_ms=TTL_MS)
    be_late(network)
    inner = actor.acquire(*names, ttl_ms=TTL_MS, conflict_strategy="extendable_work_through")
    check_lease(world, network, inner)
    be_late(network)
    sharing = actor.acquire(*names, ttl_ms=TTL_MS, conflict_strategy="work_through")
    check_lease(world, network, sharing)
    be_late(network)
    inner.release().check()
    check_lease(world, network, sharing, outer)
    sharing.release().check()
    outer.release().check()


@scenario(kinds=["thread"])
@scenario(kinds=["loop"], counts=[1])  # no call extends a series on a loop
def an_extension_counts_from_the_question(world, kind, names):
    network, actor = far_away(world, kind)
    held = actor.acquire(*names, ttl_ms=TTL_MS)
    be_late(network)
    held.extend(2 * TTL_MS).check()
    check_lease(world, network, held)
    held.release().check()


@scenario(kinds=KINDS, is_timed=True)
def a_renewal_counts_from_the_question(world, kind, names):
    network, actor = far_away(world, kind)
    held = actor.acquire(*names, ttl_ms=2400, auto_extend=True)
    be_late(network)
    seen = [held.remaining_ms()]
    wait_until(lambda: seen.append(held.remaining_ms()) or seen[-1] > seen[-2], "it is renewed")
    check_lease(world, network, held)
    held.release().check()


@scenario(kinds=KINDS, counts=[1])
def a_lock_handed_over_counts_from_its_grant(world, kind, names):
    """What was pushed late is asked for: its lease is too short to bear it."""
    network, actor = far_away(world, kind)
    held = world.actor("thread").acquire(*names, ttl_ms=LONG_MS)
    asking = wait_told(world, actor, *names, ttl_ms=TTL_MS)
    be_late(network)
    held.release().check()
    mine = asking.hold()
    check_lease(world, network, mine)
    mine.release().check()


@scenario(kinds=KINDS, counts=[1], is_timed=True)
def a_push_that_was_late_tells_of_the_hand_over_all_the_same(world, kind, names):
    """A short lock needs no claim, so the server does not know any more. That it was had by the push is not so."""
    network, actor = far_away(world, kind)
    pushed(world, actor, *names).release().check()  # no look after a subscription is due any more
    before = actor.client.stats().hand_off["count"]
    held = world.actor("thread").acquire(*names, ttl_ms=LONG_MS)
    asking = wait_told(world, actor, *names, ttl_ms=900)
    network.fail("delay", direction="down", n=100)
    held.release().check()
    mine = asking.hold()
    check(mine.outcome.handed_over, "it took what was free")
    check_equal(actor.client.stats().hand_off["count"], before, "relied on")
    mine.release().check("OK", "NOT_HELD")  # it may have ended


@scenario(kinds=KINDS)
def a_question_that_comes_too_late_is_not_answered(world, kind, names):
    """The first try is held up, another is granted, and released; then the first one comes. Nobody may end its
    connection."""
    network = Network(world)
    world.ask("ACL", "SETUSER", "default", "-client|kill")
    actor = world.actor(kind, network.client(io_timeout_ms=100, connect_timeout_ms=2000))
    actor.acquire(*names).release().check()
    network.fail("mute_last")
    actor.acquire(*names, timeout_ms=FOREVER).release().check()
    let_pass(0.3)
    before = world.n_scripts()
    network.heal()
    wait_until(lambda: world.n_scripts() > before, "it comes")
    check_equal(world.keys_left(), [])
    world.ask("ACL", "SETUSER", "default", "+client|kill")


if __name__ == "__main__":
    sys.exit(main())
