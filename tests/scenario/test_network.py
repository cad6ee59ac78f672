#!/usr/bin/env python3
"""A network that loses, cuts and holds up words between a client and its server."""
import re
import socket
import time

from harness import (FOREVER, MINUTE_MS, FaultyNetwork, LeftOut, Network, Proxy, as_they_end, check, check_equal,
                     check_served_in_order, is_cluster, let_pass, main, once, scenario, wait_until)
from pushes import line_up, pushed, wait_told

SILENCE_MS = 100     # after which a connection counts as broken, where it is so short
CONNECT_MS = 400
SLACK_MS = 300
UNUSED_S = 1.2       # after which a connection is looked at before it is used
IMPATIENT_MS = 300
POLL_S = 5 / 3       # between two polls, where pushes are seen to come
SLACK_S = 1          # of the machine
CROWD = 16
NOT_ENDED = 0        # rql_series_ending


def patient(network, io_timeout_ms=MINUTE_MS):
    return network.client(connect_timeout_ms=MINUTE_MS, io_timeout_ms=io_timeout_ms)


def check_holds(world, held):
    """Of the time of the grant, not of an answer that was repeated."""
    check_equal(held.outcome.ts_us, round(float(world.ask("HGET", f"rql:lock:{held.names[0]}", "ts")) * 1000000))
    check_equal([world.token(name) for name in held.names], held.tokens)


# ---- one reply is lost ----

# The script is unknown, which makes a call two batches; on a new connection there is a login as well.
LOSSES = [(False, fault, n) for fault in ("drop_reply", "cut_reply") for n in range(1, 4)]
LOSSES += [(True, "cut_reply", n) for n in range(1, 11)]


def lose_each_reply(world, kind, is_single, prepare, call):
    """What the call needs is made ready before; the call has to come to its end, and leaves nothing. A reply lost
    in the middle of a series' would be one that TCP loses."""
    network = Network(world)
    for is_cut, fault, n in LOSSES if is_single else [one for one in LOSSES if one[1] != "drop_reply"]:
        actor = world.actor(kind, network.client(connect_timeout_ms=MINUTE_MS, io_timeout_ms=SILENCE_MS))
        actor.acquire("warm").release().check()
        ready = prepare(actor)
        world.ask("SCRIPT", "FLUSH")
        if is_cut:
            network.fail("cut")
        network.fail(fault, n=n)
        call(actor, ready)
        network.heal()
        world.await_nothing_left()
        world.free(actor.client)


@scenario()
def a_lost_reply_of_an_acquisition_changes_nothing(world, kind, names):
    def acquire(actor, ready):
        del ready
        held = actor.acquire(*names, ttl_ms=MINUTE_MS, timeout_ms=FOREVER)
        check_holds(world, held)
        held.release().check()
    lose_each_reply(world, kind, len(names) == 1, lambda actor: None, acquire)


@scenario()
def a_lost_reply_of_a_release_changes_nothing(world, kind, names):
    lose_each_reply(world, kind, len(names) == 1, lambda actor: actor.acquire(*names, ttl_ms=MINUTE_MS),
                    lambda actor, held: held.release().check())


@once
def a_lost_reply_of_a_re_entrys_end_changes_nothing(world, kind, names):
    """Nor does another re-entry believe in what was taken back."""
    def enter(actor):
        strategies = ("wait_for_lock", "extendable_work_through", "work_through")
        return [actor.acquire(*names, ttl_ms=MINUTE_MS, conflict_strategy=one) for one in strategies]

    def leave(actor, holds):
        del actor
        held, extending, inner = holds
        extending.release().check()
        left_ms = world.left_ms(names[0])
        check(inner.remaining_ms() <= left_ms, "it believes in what was taken back")
        inner.release().check()
        held.release().check()
    lose_each_reply(world, kind, True, enter, leave)


def check_extended(world, held):
    """It may be repeated until there is an answer, and does not add up: it sets what is left. Where a login had no
    answer either what is held is verified."""
    outcome = held.extend(MINUTE_MS)
    while outcome.status in ("E_UNKNOWN", "E_IO"):
        wait_until(lambda: held.state() == "HELD", "it is held")
        outcome = held.extend(MINUTE_MS)
    outcome.check()
    check(max(world.left_ms(name) for name in held.names) <= MINUTE_MS, "it was added")
    held.release().check()


@scenario(kinds=["thread"])
@scenario(kinds=["loop"], counts=[1])  # no call extends a series on a loop
def a_lost_reply_of_an_extension_changes_nothing(world, kind, names):
    lose_each_reply(world, kind, len(names) == 1, lambda actor: actor.acquire(*names, ttl_ms=MINUTE_MS // 2),
                    lambda actor, held: check_extended(world, held))


def held_against_one_that_listens(world, other, actor, names):
    """By the other, while the actor hears of hand-overs already: none of the replies that may be lost is one to a
    login, which lasts for connect_timeout_ms then, and the end of a loop with it."""
    first = other.acquire(*names, ttl_ms=MINUTE_MS)
    asking = wait_told(world, actor, *names)
    first.release().check()
    asking.hold().release().check()
    return other.acquire(*names, ttl_ms=MINUTE_MS)


@scenario()
def a_lost_reply_of_a_withdrawal_changes_nothing(world, kind, names):
    """Nor one of a cancellation."""
    other = world.actor("thread")

    def give_up(actor, held):
        actor.refused(*names, timeout_ms=FOREVER, retry_count=1).check("RETRY_LIMIT", "E_UNKNOWN")
        world.await_queue(names, 0)
        held.release().check()

    def cancel(actor, held):
        asking = actor.ask(*names, timeout_ms=FOREVER)
        asking.cancel().check("OK")
        asking.outcome().check("CANCELLED", "E_UNKNOWN")
        world.await_queue(names, 0)
        held.release().check()
    for leave in (give_up, cancel) if kind == "loop" else (give_up,):
        lose_each_reply(world, kind, len(names) == 1,
                        lambda actor: held_against_one_that_listens(world, other, actor, names), leave)


@scenario(is_timed=True)
def a_lost_word_to_a_waiter_costs_no_grant(world, kind, names):
    """A reply, a confirmation or a push: any one of them, on either connection."""
    network, other = Network(world), world.actor("thread")
    for n in range(1, 11):
        for fault in ("drop_reply", "cut_reply"):
            actor = world.actor(kind, network.client(connect_timeout_ms=3000, io_timeout_ms=SILENCE_MS))
            actor.acquire("warm").release().check()
            held = other.acquire(*names, ttl_ms=MINUTE_MS)
            network.fail(fault, n=n)
            asking = actor.ask(*names, ttl_ms=MINUTE_MS, timeout_ms=FOREVER)
            world.await_queue(names, 1)
            held.release().check()
            mine = asking.hold()
            check_holds(world, mine)
            network.heal()
            mine.release().check()
            world.await_nothing_left()
            world.free(actor.client)


@scenario(is_timed=True)
def a_lost_word_about_ruby_holds_up_nobody(world, kind, names):
    """A Ruby worker holds the lock, so the server is asked for more than a place in the queue. A series loses the
    connection as well: its withdrawals follow in one write, and TCP loses none of their replies."""
    network, fault = Network(world), "drop_reply" if len(names) == 1 else "cut_reply"
    for n in range(1, 17):
        actor = world.actor(kind, network.client(connect_timeout_ms=3000, io_timeout_ms=MINUTE_MS))
        actor.acquire(*names).release().check()
        for name in names:
            world.ask("HSET", f"rql:lock:{name}", "acq_id", "rql:acq:1/2/3/4/0123456789abcdef")
        network.fail(fault, n=n)
        outcome = actor.refused(*names, timeout_ms=SILENCE_MS)
        check(outcome.took_us < 1500000, f"{outcome!r} after {outcome.took_us} us")
        network.heal()
        world.free(actor.client)
        check_equal([world.queue_length(name) for name in names], [0] * len(names))
        world.ask("DEL", *[f"rql:lock:{name}" for name in names])


def hold_impatiently(world, kind, names):
    """(network, client, hold) of a client that waits for no answer for long."""
    network = Network(world)
    client = network.client(connect_timeout_ms=IMPATIENT_MS, io_timeout_ms=IMPATIENT_MS)
    return network, client, world.actor(kind, client).acquire(*names, ttl_ms=MINUTE_MS)


@scenario()
def a_release_that_got_no_answer_is_unknown(world, kind, names):
    """The first attempt may have released it, whatever kept the others from being made."""
    network, client, held = hold_impatiently(world, kind, names)
    network.fail("refuse")
    network.fail("cut_reply", n=1)
    outcome = held.release().check("E_UNKNOWN")
    check(len(names) == 1 or outcome.result["ending"] == NOT_ENDED, "it counts as ended")
    check(any(f"rql:lock:{name}" in outcome.error for name in names), outcome.error)
    network.heal()
    world.free(client)
    world.await_nothing_left()


@scenario()
def a_release_that_a_silent_server_does_not_answer_is_unknown(world, kind, names):
    network, client, held = hold_impatiently(world, kind, names)
    network.fail("freeze")
    held.release().check("E_UNKNOWN")
    network.heal()
    world.free(client)
    world.await_nothing_left()


@scenario()
def what_nobody_heard_of_is_given_back_however_late(world, kind, names):
    """It was granted, and its answer lost. Nor is the server to be had for longer than a call may last."""
    network = Network(world)
    actor = world.actor(kind, network.client(connect_timeout_ms=250, io_timeout_ms=250))
    actor.acquire(*names).release().check()
    network.fail("cut_reply", n=1)
    network.fail("refuse")
    actor.refused(*names, ttl_ms=10 * MINUTE_MS, timeout_ms=250).check("E_UNKNOWN")
    check(all(world.holder(name) for name in names), "it was not granted")
    let_pass(1.5)
    network.heal()
    world.await_nothing_left()


@scenario()
def what_could_not_be_released_is_released_later(world, kind, names):
    """Its holder is done with it, and was told that it may be there still."""
    network = Network(world)
    client = network.client(connect_timeout_ms=250, io_timeout_ms=250)
    held = world.actor(kind, client).acquire(*names, ttl_ms=10 * MINUTE_MS)
    network.fail("refuse")
    network.fail("cut")
    held.release().check("E_IO", "E_UNKNOWN")
    check(all(world.holder(name) for name in names), "it was released without a connection")
    network.heal()
    world.await_nothing_left()


@scenario(kinds=["thread"], counts=[1])
def a_reply_that_is_cut_anywhere_is_unknown_and_the_next_is_right(world, kind, names):
    """Also one to a login: then the call was not made."""
    network = Network(world)
    actor = world.actor(kind, network.client(connect_timeout_ms=MINUTE_MS, io_timeout_ms=MINUTE_MS))
    held = actor.acquire(*names, ttl_ms=MINUTE_MS)
    for is_connected in (True, False):
        for n_bytes in range(0, 40, 3):
            if not is_connected:
                network.fail("cut")
            network.fail("cut_after", n=n_bytes, direction="down")
            held.verify().check("OK", "E_UNKNOWN", "E_IO")
            network.heal()
            if held.verify().status != "OK":  # what was cut behind the reply is noticed by the next call only
                held.verify().check()
            check_holds(world, held)
    held.release().check()


# ---- what is told to those who wait ----

def stand_and_listen(world, network, actor, names):
    """The server knows of a subscription before the client does, whose login waits for more replies."""
    asking = wait_told(world, actor, *names, ttl_ms=MINUTE_MS)
    wait_until(lambda: actor.client.stats().connections == network.count("connections"), "all logins are over")
    return asking


def hand_over(world, held, asking):
    """By a push: nobody asks before a minute is over."""
    held.release().check()
    mine = asking.hold()
    check(len(mine.names) > 1 or mine.outcome.handed_over, "it found the lock by itself")
    mine.release().check()
    world.await_nothing_left()


@scenario(is_timed=True)  # a subscription is followed by one poll, which may be late
def a_push_may_come_byte_by_byte(world, kind, names):
    network = Network(world)
    actor, held = world.actor(kind, patient(network)), world.held_by_another(*names)
    network.fail("dribble")
    hand_over(world, held, stand_and_listen(world, network, actor, names))


@scenario(is_timed=True)
def a_lost_push_costs_a_poll(world, kind, names):
    """On a connection that stays."""
    network = Network(world)
    actor, held = world.actor(kind, patient(network)), world.held_by_another(*names)
    asking = stand_and_listen(world, network, actor, names)
    network.fail("mute_last")
    held.release().check()
    begun_s = time.monotonic()
    mine = asking.hold()
    took_s = time.monotonic() - begun_s
    check(took_s < POLL_S + SLACK_S, f"after {took_s:.1f} s")
    mine.release().check()
    world.await_nothing_left()


def last_heartbeat_us(world):
    return int(float(world.ask("ZRANGE", "rql:live", -1, -1, "WITHSCORES")[1]))


def pass_over_all(world, kind, names):
    """All of a crowd have left the queue, because none of them could be told of a hand-over; and the lock is free."""
    network, held = Network(world), world.held_by_another(*names)
    client = network.client(connect_timeout_ms=MINUTE_MS, io_timeout_ms=MINUTE_MS, retry_delay_ms=MINUTE_MS)
    actors = [world.actor(kind, client) for _ in range(CROWD if kind == "thread" else 1)]
    asked = line_up(world, (actors * CROWD)[:CROWD], *names)
    world.await_listeners(1)
    network.fail("refuse")
    killed_us = world.server.now_us()
    world.ask("CLIENT", "KILL", "TYPE", "pubsub")
    world.await_listeners(0)
    if not is_cluster():
        # When the connection breaks, the first waiter asks once more: after the release it would take the lock.
        wait_until(lambda: last_heartbeat_us(world) > killed_us, "the first one has asked")
    held.release().check()
    world.await_queue(names, 0)
    return network, asked


# Not in a cluster: there each asks once more when they begin to listen, and may find the lock free by that.
@scenario(counts=[1], is_timed=True, in_cluster=False)
def who_was_passed_over_while_nobody_listened_comes_back(world, kind, names):
    """One asks for all when they listen again."""
    network, asked = pass_over_all(world, kind, names)
    held = world.held_by_another(*names)
    network.heal()
    begun_s = time.monotonic()
    world.await_queue(names, CROWD)
    check_served_in_order(asked, held)
    check(time.monotonic() - begun_s < POLL_S + SLACK_S, "they came back one by one")
    world.await_nothing_left()


@scenario(counts=[1], is_timed=True)
def who_finds_the_lock_free_has_the_others_come_back(world, kind, names):
    """The same, and nobody has it when they listen again: the next one asks at once."""
    network, asked = pass_over_all(world, kind, names)
    network.heal()
    begun_s = time.monotonic()
    for asking in as_they_end(asked):
        asking.hold().release().check()
    took_s = time.monotonic() - begun_s
    check(took_s < SLACK_S, f"after {took_s:.1f} s")
    world.await_nothing_left()


def lose_the_subscriber(is_muted, is_cut, listens_before):
    """The server knows of it or not: who waits is granted what it never hears of, or is passed over."""
    def case(world, kind, names):
        network = Network(world)
        actor = world.actor(kind, patient(network, 1000))
        hand_over(world, world.held_by_another(*names), stand_and_listen(world, network, actor, names))
        held = world.held_by_another(*names)
        asking = stand_and_listen(world, network, actor, names) if listens_before else None
        before = network.count("connections")
        if is_muted:
            network.fail("mute_last")
        if is_cut:
            world.ask("CLIENT", "KILL", "TYPE", "pubsub")
        asking = asking or actor.ask(*names, timeout_ms=FOREVER, retry_delay_ms=MINUTE_MS)
        wait_until(lambda: network.count("connections") > before, "it has connected again")
        world.await_listeners(1)
        # A new subscription is followed by one poll, which may find the lock before a push does. The pushes that
        # come after it show that the subscription works.
        held.release().check()
        asking.hold().release().check()
        if len(names) == 1:
            pushed(world, actor, *names).release().check()
        world.await_nothing_left()
    what = "hears nothing" if is_muted else "is cut"
    known = " and is unknown" if is_muted and is_cut else ""
    case.__name__ = f"a subscriber that {what}{known} is replaced {'while' if listens_before else 'when'} one waits"
    return case


for muted, cut in ((True, False), (True, True), (False, True)):
    for before in (True, False):
        scenario()(lose_the_subscriber(muted, cut, before))


@scenario(counts=[1], is_timed=True)
def a_subscriber_that_cannot_connect_holds_up_nobody(world, kind, names):
    """Connecting it is for all who wait, but on the time of one of them."""
    network = Network(world)
    client = patient(network)
    first = world.actor(kind, client)
    last = world.actor(kind, client) if kind == "thread" else first
    held, held_too = world.held_by_another(*names), world.held_by_another("other")
    asked = stand_and_listen(world, network, first, names)
    asked_too = last.ask("other", timeout_ms=IMPATIENT_MS)
    held.release().check()
    mine = asked.hold()
    network.fail("freeze", direction="down")
    world.ask("CLIENT", "KILL", "TYPE", "pubsub")
    outcome = asked_too.outcome().check("TIMED_OUT", "E_UNKNOWN")
    check(outcome.took_us < (IMPATIENT_MS + 150) * 1000, f"after {outcome.took_us} us")
    network.heal()
    mine.release().check()
    held_too.release().check()
    world.await_nothing_left()


class HangingLater(Proxy):
    """Its second connection and those after it get no answer at all."""

    def hand_on(self, link, sink, data):
        return link is not self.links[0] or super().hand_on(link, sink, data)


@once
def a_subscriber_whose_login_hangs_does_not_keep_its_thread_from_polling(world, kind, names):
    proxy = HangingLater(world.server.path)
    actor = world.actor(kind, url=proxy.url, connections=1, connect_timeout_ms=10 * MINUTE_MS)
    held = world.held_by_another(*names)
    asking = actor.ask(*names, timeout_ms=MINUTE_MS, retry_delay_ms=100)
    wait_until(lambda: len(proxy.links) > 2, "a second login is begun")
    held.release().check()
    wait_until(asking.is_over, "it has polled")
    asking.hold().release().check()
    world.free(actor.client)
    proxy.stop()


# ---- connections that break ----

@scenario(counts=[1])
def a_connection_that_ended_unused_is_made_anew(world, kind, names):
    """Servers, and those between, end what is not used for long; it is seen before it is used."""
    network = Network(world)
    actor = world.actor(kind, patient(network))
    held = actor.acquire(*names, ttl_ms=MINUTE_MS)
    network.fail("cut")
    let_pass(UNUSED_S)
    held.extend(2 * MINUTE_MS).check()
    network.fail("cut")
    let_pass(UNUSED_S)
    actor.begin("force_extend", name="other", add_ms=1000).outcome().check("NOT_FOUND")
    held.release().check()


def n_ended(world):
    """How many connections clients have had the server end."""
    found = re.search(r"^cmdstat_client\|kill:calls=(\d+)", world.ask("INFO", "commandstats"), re.MULTILINE)
    return int(found[1]) if found else 0


@scenario(counts=[1])
def a_connection_that_broke_under_a_call_is_ended_by_the_server_too(world, kind, names):
    """What is still on its way there must not be done behind what comes over the next one."""
    if is_cluster():
        raise LeftOut("each server counts by itself")
    network = Network(world)
    actor = world.actor(kind, patient(network))
    actor.acquire("warm").release().check()
    before = n_ended(world)
    network.fail("freeze", direction="down")
    asked = actor.ask(*names, timeout_ms=FOREVER, ttl_ms=MINUTE_MS)
    wait_until(lambda: world.ask("EXISTS", f"rql:lock:{names[0]}"), "it is granted")
    network.fail("cut")
    network.heal()
    asked.hold().release().check()
    check(n_ended(world) > before, "none was ended")


@scenario(kinds=["loop"], is_timed=True)
def a_frozen_server_does_not_hold_up_a_loop(world, kind, names):
    """Nor does a login that gets no answer: each call ends by its own deadline."""
    network = Network(world)
    for is_cut in (False, True):
        actor = world.actor(kind, network.client(connect_timeout_ms=3000, io_timeout_ms=MINUTE_MS))
        actor.acquire("warm").release().check()
        network.fail("freeze", direction="down")
        if is_cut:
            network.fail("cut")
        limits_ms = range(50, 350, 30)
        for limit_ms, asking in [(limit_ms, actor.ask(*names, timeout_ms=limit_ms)) for limit_ms in limits_ms]:
            outcome = asking.outcome().check("E_UNKNOWN", *(["E_IO"] if is_cut else []))
            check(limit_ms * 1000 <= outcome.took_us < (limit_ms + 100) * 1000, f"{limit_ms} ms: {outcome.took_us} us")
        network.heal()
        world.await_nothing_left()
        world.free(actor.client)


@scenario(kinds=["loop"])
def closing_a_loop_ends_without_an_answer(world, kind, names):
    """What it left behind is taken back when the server is heard again."""
    network = Network(world)
    actor = world.actor(kind, network.client(connect_timeout_ms=500, io_timeout_ms=500))
    other = actor.acquire("other", ttl_ms=MINUTE_MS)
    held = world.held_by_another(*names)
    asked = [actor.ask(*names, timeout_ms=FOREVER, task=task) for task in range(1, CROWD + 1)]
    world.await_queue(names, CROWD)
    network.fail("freeze")
    releasing = other.begin("release")
    actor.end()
    world.actors.remove(actor)
    releasing.outcome().check("E_UNKNOWN", "E_IO")
    for asking in asked:
        asking.outcome().check("CANCELLED", "E_UNKNOWN")
    network.heal()
    world.await_queue(names, 0)
    held.release().check()
    world.await_nothing_left()


@scenario(counts=[1])
def no_server_is_a_fault(world, kind, names):
    outcome = world.actor(kind, url="unix:///nonexistent/rql.sock").refused(*names, timeout_ms=IMPATIENT_MS)
    check_equal(outcome.status, "E_IO")
    check("/nonexistent/rql.sock" in outcome.error, outcome.error)


# ---- the end of a client ----

@scenario(kinds=["thread"])
def freeing_a_client_withdraws_what_is_open(world, kind, names):
    """Its request was sent and no answer came; then there was no connection to withdraw it on."""
    network = Network(world)
    client = network.client(connect_timeout_ms=1000, io_timeout_ms=1000)
    actor = world.actor(kind, client)
    actor.acquire(*names).release().check()
    network.fail("freeze", direction="down")
    asking = actor.ask(*names, ttl_ms=MINUTE_MS, timeout_ms=1000)
    wait_until(lambda: world.holder(names[0]), "it is granted")
    network.fail("refuse")
    network.fail("cut")
    asking.outcome().check("E_UNKNOWN")
    check(world.holder(names[0]), "it was given back without a connection")
    network.heal()
    world.free(client)
    check_equal(world.keys_left(), [])


@once
def threads_that_connect_at_once_end_in_time(world, kind, names):
    """Each by its own deadline, although one connects for all, and the next one when that has failed."""
    network = Network(world)
    network.fail("freeze", n=1)
    client = network.client(connect_timeout_ms=CONNECT_MS, io_timeout_ms=MINUTE_MS)
    actors = [world.actor("thread", client) for _ in range(8)]
    took_us = []
    for _ in range(4):
        for call in [actor.begin("connect") for actor in actors for _ in range(2)]:
            took_us.append(call.outcome().check("E_IO").took_us)
    check(max(took_us) < (CONNECT_MS + SLACK_MS) * 1000, f"after {max(took_us)} us")
    network.heal()


# ---- the faults themselves ----

REPLIES = [b"$1\r\n%d\r\n" % number for number in (1, 2, 3)]
WHOLE = b"".join(REPLIES)
FAULTS = [  # what a client hears of the replies, and whether it is cut then
    (("drop_reply", 2, "both"), REPLIES[0] + REPLIES[2], False),
    (("cut_reply", 2, "both"), REPLIES[0], True),
    (("cut_after", 10, "down"), WHOLE[:10], True),
    (("cut_after", 0, "down"), b"", True),
    (("cut_after", 3, "up"), b"", True),
    (("dribble", 1, "both"), WHOLE, False),
]


@once
def faults_do_what_they_say(world, kind, names):
    for (fault, n, direction), wanted, is_cut in FAULTS:
        network, pieces = FaultyNetwork(world.server.path), []
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(CONNECT_MS)
            client.connect(network.path)
            network.fail(fault, n=n, direction=direction)
            client.sendall(b"ECHO 1\r\nECHO 2\r\nECHO 3\r\n")
            while len(b"".join(pieces)) < len(wanted) + is_cut and b"" not in pieces:
                pieces.append(client.recv(100))
        network.stop()
        check_equal(b"".join(pieces), wanted, fault)
        check(fault != "dribble" or len(pieces) == len(wanted), f"{len(pieces)} pieces")


if __name__ == "__main__":
    main()
