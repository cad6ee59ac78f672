#!/usr/bin/env python3
"""A server that was started anew, or is another, and may have lost writes: who holds learns of it at once, tokens
rise, and with recovery_delay_ms nobody gets what another still relies on."""
import time

from harness import (FOREVER, Network, as_they_end, check, check_equal, is_cluster, let_pass, main, once, scenario,
                     wait_until)
from pushes import line_up, pushed

LONG_MS, SHORT_MS = 60000, 1000
PAUSE_MS = 4500 if is_cluster() else 2000  # a node of a cluster writes nothing in its first two seconds
OUTAGE_S = 5
N_HOLDERS = 6
SOON_S = 0.5   # in which a holder learns of a lost grant
HOUR_US = 3_600_000_000


def start_anew(world, with_data):
    """With what it has, with what was saved before (None), or with nothing. Returns its time before, since when
    clients may have arrived there."""
    if with_data:
        world.save()
    elif with_data is not None:
        world.server.forget()
    before_us = world.server.now_us()
    world.server.kill()
    world.server.launch()
    world.reconnect()
    world.server.forget()
    return before_us


def losses(actor):
    return actor.remote.events("history_lost")


def seen_of(actor):
    """The figures of each loss that was told."""
    return [(words["token"], words["server_token"]) for words in losses(actor)]


def learns_soon(held, names):
    began = time.monotonic()
    wait_until(lambda: len(held.losses()) == len(names), "the loss is reported")
    took_s = time.monotonic() - began
    check(took_s <= SOON_S, f"it took {took_s:.3f} s")


@scenario(is_timed=True)
def a_holder_that_does_nothing_learns_at_once_that_its_grant_is_lost(world, kind, names):
    """Its next renewal would be in twenty seconds."""
    actor = world.actor(kind, events=True)
    held = actor.acquire(*names, ttl_ms=LONG_MS, auto_extend=True)
    start_anew(world, with_data=False)
    learns_soon(held, names)
    check_equal(held.state(), "GONE")
    wait_until(lambda: losses(actor), "why is told")
    check_equal(seen_of(actor), [(max(held.tokens), 0)])
    check_equal(int(world.ask("GET", "rql:fence")), max(held.tokens))
    check_equal(actor.client.stats().histories_lost, 1)
    check_equal(held.release().status, "NOT_HELD")


@scenario(counts=[1], is_timed=True)
def all_holders_learn_of_it_after_a_long_outage(world, kind, _names):
    """By then others pause for up to two seconds between their attempts to connect, by chance."""
    held = [world.actor(kind).acquire(f"lock{i}", ttl_ms=LONG_MS, auto_extend=True) for i in range(N_HOLDERS)]
    world.server.kill()
    let_pass(OUTAGE_S)
    world.server.forget()
    world.server.launch()
    world.reconnect()
    began = time.monotonic()
    wait_until(lambda: all(one.is_lost() for one in held), "the losses are told")
    check(time.monotonic() - began <= SOON_S, f"it took {time.monotonic() - began:.3f} s")
    for one in held:
        check_equal(one.release().status, "NOT_HELD")


@scenario(is_timed=True)
def a_holder_learns_of_it_though_another_has_come_first(world, kind, names):
    """Whose tokens are higher: then the last one of the server tells this one nothing."""
    actor, other = world.actor(kind, events=True), world.actor(kind, events=True)
    held = actor.acquire(*names, ttl_ms=LONG_MS, auto_extend=True)
    other.acquire("later").release().check()
    start_anew(world, with_data=False)
    other.acquire("later").release().check()
    learns_soon(held, names)
    check_equal(held.release().status, "NOT_HELD")


@scenario(kinds=["thread"], counts=[1], is_timed=True)
def a_holder_learns_of_it_though_a_call_has_seen_the_end(world, kind, names):
    """Then no connection is left that the client could see end."""
    client = world.client()
    held = world.actor(kind, client).acquire(*names, ttl_ms=LONG_MS, auto_extend=True)
    other = world.actor("thread", client)
    before = client.stats().commands
    world.server.freeze()
    asked = other.begin("inspect", of="is_locked", name=names[0])
    wait_until(lambda: client.stats().commands > before, "the call is sent")
    world.server.kill()
    check(asked.outcome().status.startswith("E_"), "the call has failed")
    world.server.forget()
    world.server.launch()
    world.reconnect()
    learns_soon(held, names)
    check_equal(held.release().status, "NOT_HELD")


@scenario(is_timed=True)
def a_holder_learns_of_it_after_max_hold_too(world, kind, names):
    """Its lock is not renewed any more."""
    held = world.actor(kind).acquire(*names, ttl_ms=LONG_MS, auto_extend=True, max_hold_ms=1)
    start_anew(world, with_data=False)
    learns_soon(held, names)
    check_equal(held.release().status, "NOT_HELD")


@scenario(kinds=["loop"], is_timed=True)
def a_holder_learns_of_it_though_its_loop_is_closed(world, kind, names):
    """The loop had the only connection of the client."""
    actor = world.actor(kind)
    held = actor.acquire(*names, ttl_ms=LONG_MS, auto_extend=True)
    actor.end()
    world.actors.remove(actor)
    held.actor = world.actor("thread", actor.client)
    start_anew(world, with_data=False)
    learns_soon(held, names)
    check_equal(held.release().status, "NOT_HELD")


@scenario()
def an_old_copy_is_found_out_once(world, kind, names):
    """What was saved is still held, what came later is gone; tokens rise though the clock was set back."""
    actor = world.actor(kind, events=True)
    kept = actor.acquire(*names, ttl_ms=LONG_MS)
    world.save()
    lost = actor.acquire("later", ttl_ms=LONG_MS)
    world.server.set_ahead(-HOUR_US // 4)
    start_anew(world, with_data=None)
    later = actor.acquire("later", ttl_ms=LONG_MS)
    wait_until(lambda: losses(actor), "it is told")
    check_equal(seen_of(actor), [(max(lost.tokens), max(kept.tokens))])
    check_equal(later.tokens, [lost.tokens[0] + 1])
    wait_until(lambda: kept.state() == "HELD", "it is verified")
    check_equal(lost.release().status, "NOT_HELD")
    kept.release().check()
    later.release().check()
    world.server.set_ahead(0)
    check_equal(actor.client.stats().histories_lost, 1)
    check_equal(world.keys_left(), [])


@scenario(counts=[1])
def a_token_that_was_pushed_counts_too(world, kind, names):
    actor = world.actor(kind, events=True)
    held = pushed(world, actor, *names, ttl_ms=LONG_MS)
    world.server.set_ahead(-HOUR_US // 4)
    start_anew(world, with_data=False)
    later = actor.acquire(*names)
    check_equal((seen_of(actor), later.tokens), ([(held.tokens[0], 0)], [held.tokens[0] + 1]))
    check_equal(held.release().status, "NOT_HELD")
    later.release().check()
    world.server.set_ahead(0)


@scenario(counts=[1])
def a_holder_learns_of_it_though_the_answer_was_lost(world, kind, names):
    """Which says so, and comes only once: who asks again finds the floor raised."""
    network = Network(world)
    actor = world.actor(kind, network.client())
    for n_replies in range(1, 8):
        held = actor.acquire(*names, ttl_ms=LONG_MS, auto_extend=True, timeout_ms=FOREVER)
        world.ask("FLUSHALL")
        network.fail("cut_reply", n=n_replies)
        world.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        wait_until(held.is_lost, f"the loss is told, without reply {n_replies}", LONG_MS / 4000)
        network.heal()
        held.release().check("NOT_HELD", "E_UNKNOWN")


@scenario(counts=[1])
def a_token_of_other_data_is_no_floor(world, kind, names):
    """A client that comes from a server whose clock is a day ahead; it is told, once."""
    world.server.set_ahead(24 * HOUR_US)
    actor = world.actor(kind, events=True)
    held = actor.acquire(*names, ttl_ms=LONG_MS)
    world.server.set_ahead(0)
    start_anew(world, with_data=False)
    later = actor.acquire("later")
    check(later.tokens[0] < held.tokens[0] - 23 * HOUR_US, "the tokens are a day ahead")
    later.release().check()
    start_anew(world, with_data=True)
    actor.acquire("later").release().check()
    check_equal(seen_of(actor), [(held.tokens[0], 0)])
    held.release().check("NOT_HELD", "OK")


# ---- with recovery_delay_ms ----

def settle(world, kind, **options):
    """An actor that has waited for the end of the first pause: that of a server never used so."""
    actor = world.actor(kind, events=True, recovery_delay_ms=PAUSE_MS, **options)
    actor.acquire("warm", timeout_ms=FOREVER, ttl_ms=SHORT_MS).release().check()
    return actor


@scenario()
def nobody_gets_a_lost_lock_while_its_holder_relies_on_it(world, kind, names):
    """Zero overlap, where the old holder has never heard of the loss: its process stands still."""
    remote = world.remote()
    holder = world.actor("thread", world.client(remote, recovery_delay_ms=PAUSE_MS))
    actor = settle(world, kind)
    held = holder.acquire(*names, ttl_ms=PAUSE_MS, auto_extend=True)
    remote.stop()
    began_us = start_anew(world, with_data=False)
    asked = [one.ask(*names, timeout_ms=FOREVER, ttl_ms=SHORT_MS) for one in (actor, newcomer(world, kind))]
    for asking in as_they_end(asked):
        mine = asking.hold()
        check(mine.outcome.ts_us >= began_us + PAUSE_MS * 1000, "it was served in the pause")
        check(min(mine.tokens) > max(held.tokens), "the token does not rise")
        mine.release().check()
    remote.go_on()
    wait_until(lambda: len(held.losses()) == len(names), "the loss is told")
    check_equal(held.release().status, "NOT_HELD")
    check_equal(world.keys_left(), [])


def newcomer(world, kind):
    return world.actor(kind, events=True, recovery_delay_ms=PAUSE_MS)


def may_extend(kind, names):
    """No call does so with a series on a loop."""
    return kind != "loop" or len(names) == 1


@scenario(is_timed=True)
def in_a_pause_a_holder_keeps_its_lock_and_waiters_their_places(world, kind, names):
    """It releases: the lock stays free until the pause is over, and the first in the queue gets it."""
    holder = settle(world, kind)
    held = holder.acquire(*names, ttl_ms=PAUSE_MS, auto_extend=True)  # it may take longer until the others wait
    asked = line_up(world, [newcomer(world, kind) for _ in range(3)], *names, ttl_ms=SHORT_MS)
    began_us = start_anew(world, with_data=True)
    check_equal(holder.ask("other", fail_fast=True, ttl_ms=SHORT_MS).outcome().status, "E_UNAVAILABLE")
    if may_extend(kind, names):
        held.extend(PAUSE_MS).check()
    held.release().check()
    check_equal([world.queue_length(name) for name in names], [3] * len(names))
    check_equal(world.ask("EXISTS", *[f"rql:lock:{name}" for name in names]), 0)
    tokens = list(held.tokens[:1])
    for asking in asked:
        mine = asking.hold()
        check(mine.outcome.ts_us >= began_us + PAUSE_MS * 1000, "it was served in the pause")
        tokens.append(mine.tokens[0])
        mine.release().check()
    check_equal(tokens, sorted(set(tokens)))
    check_equal(losses(holder), [])
    world.await_nothing_left()


@scenario()
def no_ttl_is_longer_than_the_pause(world, kind, names):
    actor = settle(world, kind)
    n_scripts = world.n_scripts()
    for more in ({}, {"fail_fast": True}, {"conflict_strategy": "extendable_work_through"},
                 {"access_strategy": "random"}):
        check_equal(actor.refused(*names, ttl_ms=PAUSE_MS + 1, **more).status, "E_INVALID")
    if len(names) > 1:  # the gem holds the first one for as long as all of them
        check_equal(actor.refused(*names, ttl_ms=PAUSE_MS, mode="gem").status, "E_INVALID")
    check_equal(world.n_scripts(), n_scripts)
    held = actor.acquire(*names, ttl_ms=PAUSE_MS)
    if may_extend(kind, names):
        check_equal(held.extend(PAUSE_MS + 1).status, "E_INVALID")
        held.extend(PAUSE_MS).check()
    held.release().check()


@once
def an_extendable_reentry_is_not_relied_on_for_longer(world, kind, names):
    """The server adds its ttl to what is left."""
    actor = settle(world, kind)
    held = actor.acquire(*names, ttl_ms=PAUSE_MS)
    longer = actor.acquire(*names, ttl_ms=PAUSE_MS, conflict_strategy="extendable_work_through")
    check(longer.remaining_ms() <= PAUSE_MS, f"{longer.remaining_ms()} ms are left")
    check(world.ask("PTTL", f"rql:lock:{names[0]}") > PAUSE_MS, "nothing was added")
    longer.release().check()
    held.release().check()


@scenario(counts=[1])
def a_pause_does_not_cover_what_is_lost_while_connections_stand(world, kind, names):
    """The clients do not notice that the server was emptied, so the lock has two holders."""
    holder, other = settle(world, kind), settle(world, kind)
    held = holder.acquire(*names, ttl_ms=PAUSE_MS)
    world.ask("FLUSHALL")
    later = other.acquire(*names, fail_fast=True, ttl_ms=SHORT_MS)
    check_equal(held.state(), "HELD")
    check(later.tokens[0] > held.tokens[0], "the token does not rise")
    check_equal(held.release().status, "NOT_HELD")
    later.release().check()


@scenario(counts=[1])
def who_may_not_ask_which_server_it_is_cannot_have_a_pause(world, kind, names):
    """The same client can, when its user has the right."""
    world.ask("ACL", "SETUSER", "default", "-info")
    careful = world.actor(kind, events=True, recovery_delay_ms=PAUSE_MS)
    try:
        outcome = careful.refused(*names, ttl_ms=SHORT_MS)
        check_equal(outcome.status, "E_UNSUPPORTED")
        check("INFO" in outcome.error, outcome.error)
        world.actor(kind, events=True).acquire(*names).release().check()
    finally:
        world.ask("ACL", "SETUSER", "default", "+info")
    careful.acquire(*names, ttl_ms=SHORT_MS, timeout_ms=FOREVER).release().check()


if __name__ == "__main__":
    main()
