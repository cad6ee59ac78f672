#!/usr/bin/env python3
"""A lazy release: it does not wait for the server. What it says then, what is told later, what is left behind."""
import itertools
import re

from harness import FOREVER, MINUTE_MS, STATUS, Network, check, check_equal, main, once, scenario, wait_until

SHORT_MS = 200
SILENCE_MS = 150
MOST = 256  # unanswered at a time
LAZY = {"lazy_release": True, "ttl_ms": MINUTE_MS}


def warm(actor):
    """It is known that the server knows the script, and the thread runs: without it no release is lazy. An acquisition
    of a lock that is renewed waits for the thread."""
    actor.acquire("warm", auto_extend=True, ttl_ms=MINUTE_MS).release().check()
    for _ in range(3):
        actor.acquire("warm", **LAZY).release().check()
    return actor


def patient_actor(world, **options):
    network = Network(world)
    client = network.client(connect_timeout_ms=MINUTE_MS, io_timeout_ms=MINUTE_MS, **options)
    return network, warm(world.actor("thread", client))


def lost(actor):
    """(statuses that were told as events, losses counted, of those releases)."""
    stats = actor.client.stats()
    return [words["status"] for words in actor.remote.events("lock_lost")], stats.lost, stats.lost_releases


def take_away(world, *names):
    for name in names:
        check_equal(world.ask("DEL", f"rql:lock:{name}"), 1)


def unknown_scripts(world):
    """How often one was asked for that the server did not know."""
    counted = re.search(r"errorstat_NOSCRIPT:count=(\d+)", world.ask("INFO", "errorstats"))
    return int(counted.group(1)) if counted else 0


@once
def a_lock_that_was_taken_away_is_told_as_lost(world, kind, names):
    """The handle is there for that long, and cannot be released twice. Whoever has it now keeps it."""
    actor = warm(world.actor(kind, world.client(events=True)))
    other = world.actor(kind)
    for count, releases in enumerate((False, True), 1):
        held = actor.ask(*names, also={"releases_late": releases}, **LAZY).hold()
        take_away(world, *names)
        theirs = other.acquire(*names, ttl_ms=MINUTE_MS)
        held.release().check()
        wait_until(held.is_lost, "it is told")
        check_equal(lost(actor), ([STATUS["NOT_HELD"]] * count, count, count))
        check_equal(actor.remote.events("lock_lost")[-1]["token"], held.tokens[0])
        if releases:
            check_equal([(words["state"], words["released"]) for words in held.losses()], [(2, STATUS["NOT_HELD"])])
        check_equal(world.token(names[0]), theirs.tokens[0])
        theirs.release().check()
    world.await_nothing_left()


@once
def a_refusal_is_told(world, kind, names):
    actor = warm(world.actor(kind, world.client(events=True)))
    held = actor.acquire(*names, **LAZY)
    world.ask("SET", f"rql:lock:{names[0]}", "no lock")
    held.release().check()
    wait_until(held.is_lost, "it is told")
    check_equal(lost(actor), ([STATUS["E_WRONG_TYPE"]], 1, 1))
    world.ask("DEL", f"rql:lock:{names[0]}")


@once
def what_a_broken_connection_has_swallowed_is_repeated(world, kind, names):
    """Before the server, and behind it: nobody is told of a loss, for there was none."""
    for fault in ("cut_reply", "freeze"):
        network, actor = patient_actor(world, events=True)
        held = actor.acquire(*names, **LAZY)
        before = network.count("open"), network.count("connections")
        network.fail(fault, n=1)
        held.release().check()
        if fault == "freeze":
            check(world.holder(names[0]), "the server has heard of it")
            network.fail("cut")
        wait_until(lambda network=network, before=before: network.count("open") < before[0] or
                   network.count("connections") > before[1], "it is cut")
        network.heal()
        world.await_nothing_left()
        world.free(actor.client)
        check_equal(actor.remote.events("lock_lost"), [])


@scenario(kinds=["thread"], counts=[1], is_timed=True)
def a_silent_server_is_told_and_the_lock_withdrawn(world, kind, names):
    network = Network(world)
    client = network.client(events=True, connect_timeout_ms=SHORT_MS, io_timeout_ms=SILENCE_MS)
    actor = warm(world.actor(kind, client))
    held = actor.acquire(*names, **LAZY)
    network.fail("freeze", n=1)
    held.release().check()
    wait_until(held.is_lost, "it is told")
    check(lost(actor)[0][0] in (STATUS["E_UNKNOWN"], STATUS["E_IO"]), lost(actor))
    check_equal(lost(actor)[1:], (1, 1))
    check(world.holder(names[0]), "the server has heard of it")
    network.heal()
    world.await_nothing_left()


@once
def a_server_that_has_forgotten_the_script_costs_a_look(world, kind, names):
    actor = warm(world.actor(kind, world.client(events=True)))
    held = actor.acquire(*names, **LAZY)
    world.ask("SCRIPT", "FLUSH")
    held.release().check()
    world.await_nothing_left()
    world.free(actor.client)
    check_equal(actor.remote.events("lock_lost"), [])


@once
def the_first_release_brings_the_script(world, kind, names):
    """Else it would be repeated, and each new client would hold its first lock for longer."""
    world.ask("SCRIPT", "FLUSH")
    world.actor(kind).acquire("warm", ttl_ms=SHORT_MS).forget().check()  # acquire.lua is there
    before = unknown_scripts(world)
    actor = world.actor(kind)
    for _ in range(2):
        actor.acquire(*names, **LAZY).release().check()
        world.await_nothing_left()
    check_equal(unknown_scripts(world), before)


@once
def a_client_that_ends_waits_for_its_releases(world, kind, names):
    """While they are on their way, and where they have to be repeated."""
    for fault in ("delay", "cut"):
        network, actor = patient_actor(world)
        several = [actor.acquire(f"{names[0]}{i}", **LAZY) for i in range(5)]
        network.fail(*{"delay": ("delay",), "cut": ("freeze",)}[fault], n=SHORT_MS)
        for held in several:
            held.release().check()
        check_equal(len(world.keys_left()), 5, "locks")
        if fault == "cut":
            network.fail("cut")
            network.heal()
        world.free(actor.client)
        check_equal(world.keys_left(), [], fault)


@once
def a_client_that_ends_tells_what_it_cannot_settle(world, kind, names):
    network = Network(world)
    actor = warm(world.actor(kind, network.client(events=True, io_timeout_ms=SILENCE_MS)))
    held = actor.acquire(*names, **LAZY)
    network.fail("freeze", n=1)
    held.release().check()
    world.free(actor.client)
    check_equal(len(held.losses()), 1)
    check_equal(len(actor.remote.events("lock_lost")), 1)
    network.heal()


@scenario()
def others_wait_for_their_answer(world, kind, names):
    """Re-entries and what may be entered again, series, loops."""
    actor = world.actor(kind)
    strategies = ["work_through", "extendable_work_through", "dead_locking"]
    for strategy in strategies + (["wait_for_lock"] if kind == "loop" or len(names) > 1 else []):
        held = actor.acquire(*names, **LAZY, conflict_strategy=strategy)
        take_away(world, *names)
        held.release().check("NOT_HELD")


@once
def too_many_unanswered_wait(world, kind, names):
    network, actor = patient_actor(world, events=True)
    several = [actor.acquire(f"{names[0]}{i}", **LAZY) for i in range(MOST + 1)]
    take_away(world, *itertools.chain(*(held.names for held in several)))
    network.fail("freeze", n=1, direction="down")
    before = world.n_scripts()
    for held in several[:MOST]:
        held.release().check()
    last = several[MOST].begin("release")
    wait_until(lambda: world.n_scripts() == before + MOST + 1, "the last is sent, and waits")
    network.heal()
    last.outcome().check("NOT_HELD")
    wait_until(lambda: all(held.is_lost() for held in several[:MOST]), "they are told")
    check_equal(lost(actor)[1:], (MOST, MOST))


@once
def an_acquirer_that_asks_again_waits_for_its_release(world, kind, names):
    """The release is lost with its connection. Until it is repeated the server finds the lock its acquirer's."""
    network, actor = patient_actor(world)
    for strategy, also in itertools.product(("work_through", "extendable_work_through", "dead_locking"), ((), ("another",))):
        held = actor.acquire(*names, **LAZY)
        network.fail("freeze", n=1)
        held.release().check()
        network.fail("cut")
        network.heal()
        mine = actor.acquire(*names, *also, ttl_ms=MINUTE_MS, conflict_strategy=strategy, timeout_ms=FOREVER)
        check(mine.tokens[0] > held.tokens[0], f"{strategy}: it has entered again what is released")
        check_equal((mine.state(), world.token(names[0])), ("HELD", mine.tokens[0]))
        mine.release().check()
    world.await_nothing_left()


@once
def a_series_that_does_not_wait_finds_an_unconfirmed_release_held(world, kind, names):
    """The release is repeated, because the server has forgotten its script. If it is by then, the series has all."""
    actor = warm(world.actor(kind))
    held = actor.acquire(*names, **LAZY)
    world.ask("SCRIPT", "FLUSH")
    held.release().check()
    asking = actor.ask(*names, "another", ttl_ms=MINUTE_MS, fail_fast=True)
    outcome = asking.outcome().check("FAIL_FAST_NO_TRY", "OK")
    if outcome.status == "OK":
        asking.hold().release().check()
    else:
        check("an earlier request of this acquirer" in outcome.error, outcome.error)
    world.await_nothing_left()


@once
def an_acquirer_enters_its_lock_again_though_an_older_release_is_late(world, kind, names):
    """The older lock was taken away, which its release finds out later. The lock that its acquirer has by then is
    another grant."""
    actor = warm(world.actor(kind))
    for strategy in "work_through", "extendable_work_through", "dead_locking":
        held = actor.acquire(*names, **LAZY)
        take_away(world, *names)
        held.release().check()
        mine = actor.acquire(*names, ttl_ms=MINUTE_MS)
        if strategy == "dead_locking":
            actor.refused(*names, ttl_ms=MINUTE_MS, conflict_strategy=strategy).check("CONFLICT")
        else:
            inner = actor.acquire(*names, ttl_ms=MINUTE_MS, conflict_strategy=strategy, fail_fast=True)
            check_equal(inner.tokens, mine.tokens)
            inner.release().check()
        mine.release().check()
    world.await_nothing_left()


@once
def a_re_entry_ends_with_the_lazy_release_of_another_thread(world, kind, names):
    """The acquirer asks while the other thread releases. The server has its try first."""
    network, actor = patient_actor(world)
    other = warm(world.actor(kind, actor.client))
    for is_next_release in (False, True):
        seen = False
        while not seen:
            held = actor.acquire(*names, **LAZY)
            network.fail("freeze")
            asking = actor.ask(*names, ttl_ms=MINUTE_MS, conflict_strategy="work_through", timeout_ms=FOREVER)
            other.begin("release", lock=held.name).outcome().check()
            network.heal()
            mine = asking.hold()
            if is_next_release:
                other.acquire("next", **LAZY).release().check()
            seen = mine.tokens == held.tokens
            if seen:
                wait_until(lambda mine=mine: mine.state() == "GONE", "it is lost")
                wait_until(mine.is_lost, "that is told")
            mine.release().check("OK", "NOT_HELD")
    world.await_nothing_left()


@once
def a_crowd_loses_nothing(world, kind, names):
    """Each release finds its lock on the server, also where locks are handed on inside a client meanwhile."""
    clients = [world.client(events=True), world.client(world.remote(), events=True)]
    actors = [world.actor(kind, client) for client in clients for _ in range(4)]
    options = {**LAZY, "timeout_ms": FOREVER}
    calls = [actor.begin("turns", names=names, options=options, n=300) for actor in actors]
    for call in calls:
        call.outcome().check()
    world.await_nothing_left()
    for client in clients:
        check_equal((client.stats().acquisitions, client.stats().lost), (1200, 0))
        check(client.stats().local_hand_overs > 0, "nothing was handed on")
        check_equal(client.remote.events("lock_lost"), [])


if __name__ == "__main__":
    main()
