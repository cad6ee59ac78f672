#!/usr/bin/env python3
"""A lock that is handed on inside a client, from one thread to another or on a loop, without waiting for the
server: what the new owner may believe, and what becomes of it when the server was told late, or not at all."""

import itertools

from chain import Chain
from harness import FOREVER, MINUTE_MS, Network, as_they_end, check, check_equal, main, scenario, wait_until

SHORT_MS = 700
SILENCE_MS = 150  # after which a connection counts as broken, where it is so short
IN_A_ROW = 32     # lua/README.md 43


@scenario(counts=[1])
def a_release_hands_on_to_who_waits_beside_it(world, kind, names):
    """Also if its own release is lazy."""
    chain = Chain(world, kind)
    for first in ({"meta": {"before": "alone"}}, {"lazy_release": True}):
        released, mine = chain.hand_on(names[0], first=first, meta={"why": "because"})
        released.outcome().check()
        check(mine.outcome.handed_over, "it was not handed over")
        fields = world.ask("HGETALL", f"rql:lock:{names[0]}")
        fields = dict(zip(fields[::2], fields[1::2])) if isinstance(fields, list) else fields
        check_equal((int(fields["rql_token"]), fields["ini_ttl"], fields["why"]), (mine.tokens[0], str(MINUTE_MS), "because"))
        check("rql_claim" not in fields, "it is to be claimed")
        check("before" not in fields, "it has metadata of the holder before")
        check(world.left_ms(names[0]) > MINUTE_MS / 2, "it has not its own ttl")
        check_equal(mine.verify().status, "OK")
        mine.release().check()
        world.await_nothing_left()


@scenario(counts=[1])
def who_is_handed_the_lock_has_it_before_the_server_knows(world, kind, names):
    """The message is delayed. When it arrives, the lock has the new holder's own ttl, which its client knows."""
    network = Network(world)
    chain = Chain(world, kind, network=network)
    released, mine = chain.hand_on(names[0], fault="freeze", first={"ttl_ms": MINUTE_MS // 2})
    check(not released.is_over(), "the release is over")
    check(world.token(names[0]) < mine.tokens[0], "the server knows")
    check_equal(mine.state(), "HELD")
    check(mine.remaining_ms() <= MINUTE_MS // 2, "it relies on more than the holder before")
    network.heal()
    released.outcome().check()
    check_equal(world.token(names[0]), mine.tokens[0])
    wait_until(lambda: mine.remaining_ms() > MINUTE_MS // 2, "it has its full ttl")
    mine.release().check()
    world.await_nothing_left()


@scenario(counts=[1])
def its_token_is_above_those_of_other_locks(world, kind, names):
    """Another client took its lock before the hand-over. The time of the server, which the client that hands on has
    heard since, tells; it has not seen the token."""
    chain = Chain(world, kind)
    others = []

    def take_another():
        others.append(world.actor("thread").acquire(f"{names[0]}-{len(others)}", ttl_ms=MINUTE_MS))
        check_equal(chain.actors[0].refused(*others[-1].names, fail_fast=True).status, "FAIL_FAST_NO_TRY")

    released, mine = chain.hand_on(names[0], between=take_another)
    check(mine.tokens[0] > others[-1].tokens[0], "its token is not larger than that of another lock before")
    released.outcome().check()
    check_equal(world.token(names[0]), mine.tokens[0])
    others.append(world.actor("thread").acquire("later", ttl_ms=MINUTE_MS))
    check(others[-1].tokens[0] > mine.tokens[0], "a later one is not larger")
    for held in (mine, *others):
        held.release().check()


@scenario(counts=[1], is_timed=True)
def what_is_not_confirmed_ends_with_the_one_before(world, kind, names):
    """The new owner has asked for more; the server does not answer."""
    network = Network(world)
    chain = Chain(world, kind, network=network)
    released, mine = chain.hand_on(names[0], fault="freeze", first={"ttl_ms": SHORT_MS}, auto_extend=True)
    check(mine.remaining_ms() < SHORT_MS, "it relies on more")
    wait_until(lambda: mine.state() == "GONE", "it is over")
    wait_until(mine.is_lost, "that is told")
    network.heal()
    released.outcome().check("OK", "NOT_HELD")
    mine.release().check("OK", "NOT_HELD")
    world.await_nothing_left()


@scenario(counts=[1])
def what_was_taken_away_meanwhile_is_lost(world, kind, names):
    """Somebody deletes the lock, and another has it, before the server hears of the hand-over."""
    network = Network(world)
    chain = Chain(world, kind, network=network)
    released, mine = chain.hand_on(names[0], fault="freeze")
    world.ask("DEL", f"rql:lock:{names[0]}", f"rql:lock_queue:{names[0]}", f"rql:req:{names[0]}")
    theirs = world.actor("thread").acquire(names[0], ttl_ms=MINUTE_MS)
    network.heal()
    released.outcome().check("NOT_HELD")
    wait_until(lambda: mine.state() == "GONE", "it is lost")
    wait_until(mine.is_lost, "that is told")
    check_equal(world.token(names[0]), theirs.tokens[0])
    mine.release().check("NOT_HELD")
    check_equal(world.token(names[0]), theirs.tokens[0])
    theirs.release().check()
    world.await_nothing_left()


@scenario(counts=[1], is_timed=True)
def a_broken_connection_costs_no_hand_over(world, kind, names):
    """It is repeated on the next one, before anything else is said about the lock: when its answer was lost, and when it
    never arrived. The next login does not take its token, which the server may not know, for a lost one."""
    for fault, later in (("cut_reply", None), ("freeze", "cut")):
        network = Network(world)
        chain = Chain(world, kind, network=network, io_timeout_ms=SILENCE_MS)
        released, mine = chain.hand_on(names[0], fault=fault)
        mine_released = mine.begin("release")
        if later:  # not at once: a client that has seen the end of a connection hands nothing on
            network.fail(later)
            network.heal()
        mine_released.outcome().check()
        released.outcome().check()
        network.heal()
        chain.actors[0].acquire("later").release().check()
        check_equal(chain.client.stats().histories_lost, 0)
        world.await_nothing_left()
        world.free(chain.client)


@scenario(counts=[1])
def a_release_that_overtakes_its_hand_over_is_repeated_behind_it(world, kind, names):
    """The server has forgotten the script of the hand-over alone, which is sent once more with its text."""
    network, other = Network(world), world.actor("thread")
    chain = Chain(world, kind, network=network)

    def forget():
        world.ask("SCRIPT", "FLUSH")
        other.acquire("known again").release().check()

    released, mine = chain.hand_on(names[0], between=forget, fault="freeze")
    mine_released = mine.begin("release")
    network.heal()
    released.outcome().check()
    mine_released.outcome().check()
    world.await_nothing_left()


@scenario(counts=[1])
def a_series_of_the_gem_is_asked_about_behind_its_hand_over(world, kind, names):
    """The last of its locks was handed on to it. The server has forgotten the script of the hand-over, so a call about
    the series that does not wait for the answer overtakes it."""
    network, other = Network(world), world.actor("thread")
    chain = Chain(world, kind, network=network)
    warm = chain.actors[1].acquire("known", "too", mode="gem", ttl_ms=MINUTE_MS)
    warm.release().check()

    def forget():
        world.ask("SCRIPT", "FLUSH")
        again = other.acquire("known again")
        again.extend(MINUTE_MS).check()
        again.release().check()

    for word in ["release"] + ["extend"] * (kind == "thread"):
        released, mine = chain.hand_on(names[0], between=forget, fault="freeze", also=[names[0] + "a"], mode="gem")
        check_equal(len(mine.tokens), 2)
        asked = mine.begin(word, ttl_ms=MINUTE_MS)
        network.heal()
        released.outcome().check()
        asked.outcome().check()
        if word == "extend":
            mine.release().check()
        world.await_nothing_left()


@scenario(kinds=["thread"], counts=[1])
def a_re_entry_is_asked_for_behind_the_hand_over(world, kind, names):
    """Where the try would overtake it, as above, and so find the lock another's."""
    network, other = Network(world), world.actor("thread")
    chain = Chain(world, kind, network=network)
    again = {"ttl_ms": MINUTE_MS, "timeout_ms": FOREVER, "tries": True}
    warm = chain.actors[1].acquire("known", "too", ttl_ms=MINUTE_MS)
    chain.actors[1].acquire("known", "too", conflict_strategy="work_through", **again).release().check()
    warm.release().check()

    def forget():
        world.ask("SCRIPT", "FLUSH")
        for several in (["known"], ["known", "too"]):
            other.acquire(*several, ttl_ms=MINUTE_MS).release().check()

    for strategy, also in itertools.product(("work_through", "dead_locking"), ((), (names[0] + "a",))):
        released, mine = chain.hand_on(names[0], between=forget, fault="freeze")
        asking = chain.actors[1].ask(names[0], *also, conflict_strategy=strategy, **again)
        network.heal()
        released.outcome().check()
        outcome = asking.outcome().check("OK" if strategy == "work_through" else "CONFLICT")
        if outcome.status == "OK":
            check_equal(outcome.tokens[0], mine.tokens[0])
            asking.hold().release().check()
        mine.release().check()
        world.await_nothing_left()


@scenario(counts=[1], is_timed=True)
def a_chain_goes_on_before_it_is_confirmed(world, kind, names):
    """From the first to the second and to the third, while the server is told of neither."""
    network = Network(world)
    chain = Chain(world, kind, network=network, count=3)
    held = chain.actors[0].acquire(names[0], ttl_ms=MINUTE_MS)
    second = chain.queued(names[0], 1)
    third = chain.queued(names[0], 2, ahead=1)
    chain.await_asleep()
    before = chain.handed_on()
    network.fail("freeze", n=1)
    released = held.begin("release")
    mine = second.hold()
    mine_released = mine.begin("release")
    last = third.hold()
    check_equal(chain.handed_on() - before, 2)
    check(held.tokens[0] < mine.tokens[0] < last.tokens[0], "tokens do not rise")
    network.heal()
    released.outcome().check()
    mine_released.outcome().check()
    check_equal(world.token(names[0]), last.tokens[0])
    last.release().check()
    world.await_nothing_left()


@scenario(counts=[1])
def a_renewed_lock_is_renewed_when_it_is_confirmed(world, kind, names):
    chain = Chain(world, kind)
    released, mine = chain.hand_on(names[0], auto_extend=True, ttl_ms=SHORT_MS)
    released.outcome().check()
    renewals = chain.client.stats().renewals
    wait_until(lambda: chain.client.stats().renewals > renewals + 2, "it is renewed")
    check_equal(mine.state(), "HELD")
    mine.release().check()


@scenario(counts=[1])
def a_random_request_and_a_series_come_by_the_server(world, kind, names):
    chain = Chain(world, kind)
    before = chain.handed_on()
    held = chain.actors[0].acquire(names[0], ttl_ms=MINUTE_MS)
    asking = chain.queued(names[0], access_strategy="random")
    chain.await_asleep()
    held.release().check()
    asking.hold().release().check()
    held = chain.actors[0].acquire(names[0], ttl_ms=MINUTE_MS)
    several = chain.actors[1].ask(names[0], names[0] + "b", timeout_ms=FOREVER, ttl_ms=MINUTE_MS)
    world.await_queue([names[0]], 1)
    chain.await_asleep()
    held.release().check()
    several.hold().release().check()
    check_equal(chain.handed_on(), before)
    world.await_nothing_left()


@scenario(kinds=["loop"], counts=[1])
def on_a_loop_a_lock_that_ends_soon_comes_by_the_server(world, kind, names):
    """Nothing renews it while the callback of its new owner runs."""
    chain = Chain(world, kind)
    held = chain.actors[0].acquire(names[0], ttl_ms=SHORT_MS)
    asking = chain.queued(names[0])
    chain.await_asleep()
    wait_until(lambda: held.remaining_ms() < SHORT_MS / 3 - 10, "less than a third is left")
    before = chain.handed_on()
    held.release()
    asking.hold().release().check()
    check_equal(chain.handed_on(), before)
    world.await_nothing_left()


@scenario(counts=[1])
def a_chain_ends_for_who_has_come_in_front_of_it(world, kind, names):
    """The waiter of another client gets an older place, which the client that hands the lock on does not know of. More
    than 32 wait behind each other in that client."""
    chain = Chain(world, kind, count=IN_A_ROW + 9)
    held = chain.actors[0].acquire(names[0], ttl_ms=MINUTE_MS)
    asked = [chain.queued(names[0], n, ahead=n - 1) for n in range(1, len(chain.actors))]
    other = world.actor("thread").ask(names[0], timeout_ms=FOREVER, ttl_ms=MINUTE_MS)
    world.await_queue(names, len(asked) + 1)
    world.ask("ZADD", f"rql:lock_queue:{names[0]}", 1, world.ask("ZRANGE", f"rql:lock_queue:{names[0]}", -1, -1)[0])
    chain.await_asleep()
    before = chain.handed_on()
    held.release().check()
    tokens = {}
    for asking in as_they_end([*asked, other]):
        mine = asking.hold()
        tokens[asking] = mine.tokens[0]
        mine.release().check()
    check(chain.handed_on() > before, "nothing was handed on")
    n_passed = sum(token < tokens[other] for token in tokens.values())
    check(n_passed <= IN_A_ROW, f"{n_passed} passed it")
    world.await_nothing_left()


if __name__ == "__main__":
    main()
