#!/usr/bin/env python3
"""What a holder believes: whatever ends earlier than it thought, it hears of in time."""
import contextlib
import time

from harness import FOREVER, NAME_OF, Network, check, check_equal, let_pass, main, once, scenario, wait_until
from pushes import pushed

LONG_MS = 60000
LOST_MS = 900  # ttl of what is lost soon
STATE = ("HELD", "DOUBTFUL", "GONE")


@once
def a_reentry_that_finds_the_grant_ended_tells_who_shares_it(world, kind, names):
    actor = world.actor(kind)
    held = actor.acquire(*names, ttl_ms=LONG_MS)
    longer = actor.acquire(*names, conflict_strategy="extendable_work_through", ttl_ms=LONG_MS)
    world.ask("DEL", *[f"rql:lock:{name}" for name in names])
    check_equal(longer.release().status, "NOT_HELD")
    check_equal(held.state(), "GONE")
    wait_until(held.is_lost, "the loss is told")
    check_equal(held.release().status, "NOT_HELD")
    check_equal(world.keys_left(), [])


@once
def what_was_handed_over_counts_as_held_when_it_is_forgotten(world, kind, names):
    """Who waits for a lock while it holds another is marked: others may have to wait for it."""
    holder = world.actor("thread").acquire("more", ttl_ms=LONG_MS)
    actor = world.actor(kind)
    held = pushed(world, actor, *names, ttl_ms=LONG_MS)
    held.forget().check()
    let_pass(1.1)  # a grant that nobody claims is over
    asking = actor.ask("more", timeout_ms=FOREVER)
    world.await_queue(["more"], 1)
    check_equal(world.ask("HGET", "rql:req:more", "holders"), "1")
    holder.release().check()
    asking.hold().release().check()
    world.ask("DEL", f"rql:lock:{names[0]}")
    world.await_nothing_left()


@scenario(kinds=["thread"], counts=[1], is_timed=True)
def what_was_handed_over_is_claimed_though_it_was_forgotten_without_a_right(world, kind, names):
    held = pushed(world, world.actor(kind), *names, ttl_ms=LONG_MS)
    world.ask("ACL", "SETUSER", "default", "-evalsha", "-eval")
    held.forget().check()
    world.ask("ACL", "SETUSER", "default", "+@all")
    wait_until(lambda: world.left_ms(names[0]) > LONG_MS / 2, "it has its whole ttl")
    world.ask("DEL", f"rql:lock:{names[0]}")
    world.await_nothing_left()


@scenario(is_timed=True)
def a_renewed_lock_outlives_its_ttl(world, kind, names):
    """Also if the server forgets the scripts again and again, and that of a client that says no name."""
    for forgets, options in ((False, {}), (True, {}), (False, {"client_names": False})):
        held = world.actor(kind, **options).acquire(*names, ttl_ms=1200, auto_extend=True)
        began = world.server.now_us()

        def time_passes(forgets=forgets, began=began):
            if forgets:
                world.ask("SCRIPT", "FLUSH")
            return world.server.now_us() - began > 2000000
        wait_until(time_passes, "its ttl passes")
        check_equal([world.holder(name) for name in names], [held.outcome.acq_id] * len(names))
        check_equal(held.state(), "HELD")
        held.release().check()
        check_equal(world.keys_left(), [])


@scenario(kinds=["thread"], is_timed=True)
def a_lock_is_renewed_over_the_connection_of_its_caller_if_no_other_can_be_opened(world, kind, names):
    held = world.actor(kind).acquire(*names, ttl_ms=LOST_MS, auto_extend=True)
    world.ask("CONFIG", "SET", "maxclients", 1)
    ends_s = time.monotonic() + 3 * LOST_MS / 1000
    wait_until(lambda: time.monotonic() > ends_s or held.is_lost(), "it is lost, or renewed for three times its ttl")
    world.ask("CONFIG", "SET", "maxclients", 10000)
    check_equal((held.state(), held.losses()), ("HELD", []))
    held.release().check()


@scenario(kinds=["thread"])
def renewal_ends_with_its_thread(world, kind, names):
    actor = world.actor(kind)
    other = world.actor("thread", actor.client)
    held = actor.acquire(*names, ttl_ms=400, auto_extend=True)
    world.actors.remove(actor)
    actor.end()
    wait_until(lambda: not world.keys_left(), "it ends")
    held.actor = other
    check_equal(held.state(), "GONE")
    held.release().check("NOT_HELD")


@scenario(kinds=["process"])
def a_renewed_lock_of_the_dead_ends_by_its_ttl(world, kind, names):
    actor = world.actor(kind)
    actor.acquire(*names, ttl_ms=1000, auto_extend=True)
    world.kill(actor)
    left = [world.left_ms(name) for name in names]
    check(all(ms <= 1000 and ms != -1 for ms in left), f"ms left of its ttl, or -1 for ever: {left}")
    world.actor("thread").acquire(*names, timeout_ms=FOREVER).release().check()
    world.await_nothing_left()


@scenario()
def an_overrun_lock_is_gone_and_its_next_holder_keeps_it(world, kind, names):
    late = world.actor(kind).acquire(*names, ttl_ms=200)
    held = world.actor("thread").acquire(*names, ttl_ms=LONG_MS, timeout_ms=FOREVER)
    check_equal(late.state(), "GONE")
    check(held.tokens[0] > late.tokens[0], "the token does not rise")
    check_equal(late.release().status, "NOT_HELD")
    check_equal(world.holder(names[0]), held.outcome.acq_id)
    held.release().check()


@scenario()
def what_is_forgotten_lives_until_its_ttl(world, kind, names):
    world.actor(kind).acquire(*names, ttl_ms=1500).forget().check()
    left = [world.left_ms(name) for name in names]
    check(all(0 < ms <= 1500 for ms in left), f"it is gone, or renewed: {left} ms are left")
    world.await_nothing_left()


def await_told(held, names):
    """Of each lock once, and it is no more relied on."""
    wait_until(lambda: len(held.losses()) >= len(names), "the loss is told")
    check_equal((held.state(), held.remaining_ms()), ("GONE", 0))
    check_equal(sorted(words["name"] for words in held.losses()), sorted(names))


@scenario(is_timed=True)
def the_next_renewal_notices_what_was_taken_over(world, kind, names):
    """Long before it would have ended; and the new owner's lock is left alone."""
    began_us = world.server.now_us()
    held = world.actor(kind).acquire(*names, ttl_ms=3000, auto_extend=True)
    for name in names:
        world.ask("HSET", f"rql:lock:{name}", "acq_id", "rql:acq:1/2/3/4/0123456789abcdef", "rql_nonce", "other")
        world.ask("PERSIST", f"rql:lock:{name}")
    await_told(held, names)
    check(all(words["at_us"] < began_us + 2000000 for words in held.losses()), "it was noticed late")
    check_equal([world.left_ms(name) for name in names], [-1] * len(names), "renewed")
    check_equal(held.release().status, "NOT_HELD")
    check_equal([world.ask("EXISTS", f"rql:lock:{name}") for name in names], [1] * len(names))


def check_told_in_time(world, kind, names, in_silence):
    """Before the server may give the lock to others: the margin is 30 ms."""
    held = world.actor(kind).acquire(*names, ttl_ms=3000, auto_extend=in_silence)
    kept_ms, end_us = held.actor.remote.kept_ms(), world.server.now_us()
    end_us += 1000 * min(world.left_ms(name) for name in names)
    if in_silence:
        world.server.freeze()
    await_told(held, names)
    world.server.go_on()
    end_us += (held.actor.remote.kept_ms() - kept_ms) * 1000  # the machine's fault, and nobody else's
    late_us = max(words["at_us"] for words in held.losses()) - end_us
    check(late_us < 0, f"told {late_us} us too late")
    wait_until(lambda: not world.keys_left(), "it has ended there")
    check_equal(held.release().status, "NOT_HELD")


@scenario(is_timed=True)
def the_end_of_a_ttl_is_told_in_time(world, kind, names):
    check_told_in_time(world, kind, names, in_silence=False)


@scenario(is_timed=True)
def a_silent_server_is_given_up_before_the_lock_ends_there(world, kind, names):
    check_told_in_time(world, kind, names, in_silence=True)


@scenario(counts=[1])
def a_renewal_that_is_a_fault_keeps_nothing(world, kind, names):
    """Something else is under its key."""
    held = world.actor(kind).acquire(*names, ttl_ms=900, auto_extend=True)
    world.ask("SET", f"rql:lock:{names[0]}", "foreign")
    let_pass(0.9)
    check_equal(held.state(), "GONE")
    held.forget().check()
    world.ask("DEL", f"rql:lock:{names[0]}")


@once
def a_loss_found_by_asking_is_told_at_once(world, kind, names):
    """Of the lock that was asked for; then of the other, though nobody else has anything to tell."""
    actor = world.actor(kind)
    held, first = (actor.acquire(name, ttl_ms=LONG_MS) for name in (*names, "first"))
    world.ask("FLUSHALL")
    check_equal(first.verify().status, "NOT_HELD")
    await_told(first, ["first"])
    check_equal(held.losses(), [])
    check_equal(first.release().status, "NOT_HELD")
    check_equal(held.verify().status, "NOT_HELD")
    await_told(held, names)
    check_equal(held.release().status, "NOT_HELD")


@scenario(counts=[1])
def whoever_is_told_of_a_loss_may_release(world, kind, names):
    """Within the callback: it is gone by then."""
    actor = world.actor(kind)
    held = actor.ask(*names, ttl_ms=LOST_MS, auto_extend=True, also={"releases_when_lost": True}).hold()
    world.ask("DEL", f"rql:lock:{names[0]}")
    wait_until(held.is_lost, "it is told")
    check_equal([(STATE[words["state"]], NAME_OF[words["released"]]) for words in held.losses()], [("GONE", "NOT_HELD")])
    actor.acquire(*names).release().check()
    world.free(actor.client)
    check_equal(len(held.losses()), 1)


@scenario(is_timed=True)
def the_descriptor_of_what_was_lost_is_readable(world, kind, names):
    """Whether it was asked for before or after; by its ttl, or because somebody took it."""
    actor = world.actor(kind)

    def is_readable(held, within_ms):
        return actor.begin("await_loss", lock=held.name, within_ms=within_ms).outcome().check().is_readable
    for is_renewed, is_asked_before in ((True, True), (True, False), (False, True)):
        held = actor.acquire(*names, ttl_ms=LOST_MS, auto_extend=is_renewed)
        if is_asked_before:
            check(not is_readable(held, 0), "it is readable before")
        if is_renewed:
            world.ask("DEL", *(f"rql:lock:{name}" for name in names))
        if not is_asked_before:
            wait_until(held.is_lost, "it is told")
        check(is_readable(held, 10000), "it is silent")
        check_equal(held.state(), "GONE")
        check(is_readable(held, 0), "it is readable once only")
        wait_until(lambda: not world.keys_left(), "nothing is left")
        held.release().check("NOT_HELD")


@scenario()
def what_was_released_or_forgotten_is_not_lost(world, kind, names):
    actor = world.actor(kind)
    actor.acquire(*names, ttl_ms=900, auto_extend=True).release().check()
    actor.acquire(*names, ttl_ms=900, auto_extend=True).forget().check()
    world.await_nothing_left()
    check_equal([words for words in actor.remote.told if "lost" in words], [])


VERDICTS = {  # what happens to the key, and whether its holder holds it
    (): "OK",
    ("HSET", "rql:lock:lock0", "job", "42"): "OK",
    ("HSET", "rql:lock:lock0", "rql_nonce", "other"): "NOT_HELD",
    ("HDEL", "rql:lock:lock0", "rql_nonce"): "NOT_HELD",
    ("DEL", "rql:lock:lock0"): "NOT_HELD",
    ("FLUSHALL",): "NOT_HELD",
}


@scenario(counts=[1])
def what_is_believed_and_what_the_server_says(world, kind, names):
    actor = world.actor(kind)
    for change, verdict in VERDICTS.items():
        held = actor.acquire(*names, ttl_ms=LONG_MS)
        if change:
            world.ask(*change)
        check_equal(held.state(), "HELD", "nobody has asked yet")
        check_equal(held.verify().status, verdict, change)
        check_equal(held.state(), "HELD" if verdict == "OK" else "GONE", change)
        check_equal(held.remaining_ms() > 0, verdict == "OK", change)
        check_equal(held.release().status, verdict, change)
        world.ask("DEL", f"rql:lock:{names[0]}")


# ---- what was handed over lives for a second, until it is claimed ----

def is_unclaimed(world, names):
    return world.ask("HEXISTS", f"rql:lock:{names[0]}", "rql_claim")


def check_whole(world, names, held, ttl_ms):
    """The rest of what it was granted for, and not more."""
    check(not is_unclaimed(world, names), "it is not claimed")
    check(world.end_ms(names[0]) >= held.outcome.ts_us / 1000 + ttl_ms - 20, "it ends too early")
    check(world.left_ms(names[0]) <= ttl_ms, "it ends too late")


@scenario(counts=[1], is_timed=True)
def a_lock_handed_over_is_claimed_after_a_third_of_a_second(world, kind, names):
    held = pushed(world, world.actor(kind), *names, ttl_ms=5000)
    wait_until(lambda: not is_unclaimed(world, names), "it is claimed")
    check(world.server.now_us() - held.outcome.ts_us >= 300000, "it was claimed too early")
    check_whole(world, names, held, 5000)
    check_equal(held.state(), "HELD")
    held.release().check()


@scenario(counts=[1], is_timed=True)
def a_forgotten_lock_has_its_whole_ttl_also_if_handed_over(world, kind, names):
    """From its grant on, whether it is forgotten at once or later."""
    for held_s in (0, 0.25):
        held = pushed(world, world.actor(kind), *names, ttl_ms=5000)
        let_pass(held_s)
        held.forget().check()
        check_whole(world, names, held, 5000)
        end_ms = held.outcome.ts_us / 1000 + 5000
        check(world.end_ms(names[0]) < end_ms + 150, "it is for longer than was asked for")
        world.ask("DEL", f"rql:lock:{names[0]}")


@scenario(counts=[1])
def an_extension_by_hand_is_a_claim(world, kind, names):
    held = pushed(world, world.actor(kind), *names, ttl_ms=5000)
    held.extend(9000).check()
    check_whole(world, names, held, 9000)
    check(held.remaining_ms() > 1000, "its holder does not know")
    held.release().check()


@scenario(counts=[1], is_timed=True)
def renewal_ends_with_max_hold(world, kind, names):
    begun_ms = world.server.now_us() / 1000
    held = world.actor(kind).acquire(*names, ttl_ms=900, auto_extend=True, max_hold_ms=1800)
    held_ms, ends = world.server.now_us() / 1000, []
    wait_until(lambda: ends.append(world.end_ms(names[0])) or ends[-1] < 0, "it has ended")
    check(begun_ms + 1125 < ends[-2] <= held_ms + 1800 + 450, f"it ended {ends[-2] - begun_ms} ms after it began")
    check_equal(held.state(), "GONE")
    check_equal(held.release().status, "NOT_HELD")


# ---- a ttl that is over before its grant is known of ----

def far_away(world, kind):
    """10 ms to the server, and 10 back."""
    network = Network(world)
    network.fail("delay", n=10)
    return world.actor(kind, network.client())


SHORT = {"ttl_ms": 10, "retry_delay_ms": 100, "retry_jitter_ms": 0}


@scenario()
def each_grant_that_is_over_is_a_try(world, kind, names):
    actor = far_away(world, kind)
    for n_tries, text, options in ((3, "3 grants were over", {"retry_count": 3}),
                                   (1, "1 grant was over", {"fail_fast": True})):
        outcome = actor.refused(*names, timeout_ms=FOREVER, **SHORT, **options)
        check_equal(outcome.status, "RETRY_LIMIT")
        check_equal((outcome.refusal["tries"], outcome.refusal["n_over"]), (n_tries, n_tries))
        check(text in outcome.refusal["message"], outcome.refusal["message"])
        check("a ttl of 10 ms" in outcome.refusal["message"], outcome.refusal["message"])
        world.await_nothing_left()


@scenario()
def the_tries_after_such_grants_are_a_delay_apart(world, kind, names):
    actor = far_away(world, kind)
    before = world.n_scripts()
    outcome = actor.refused(*names, timeout_ms=1000, **SHORT).check("TIMED_OUT", "E_UNKNOWN")
    check("a ttl of 10 ms" in outcome.refusal["message"] if outcome.status == "TIMED_OUT" else True, repr(outcome))
    check(world.n_scripts() - before <= 3 * (1000 // 100 + 1), "it asked more often")


# ---- what is withdrawn in the background, beside a lock that is renewed ----

CROWD = 1300  # 64 are withdrawn in a round trip
FAR_MS = 110  # so that all of them take longer than a lock of TTL_MS lives
TTL_MS = 2000
IO_MS = 1500  # all have asked before the connection is taken for dead


def withdraw_crowd(world, network, client, names, far_ms=FAR_MS):
    """Neither their requests nor what takes those back is answered, so that the background has to do it, from afar."""
    actor = world.actor("loop", client)
    actor.acquire("warm").release().check()
    network.fail("freeze", direction="down")
    for asking in [actor.ask(*names, task=task, timeout_ms=50) for task in range(1, CROWD + 1)]:
        asking.outcome().check("E_UNKNOWN")
    network.fail("delay", direction="down", n=far_ms)
    network.fail("freeze", direction="down", n=0)


def await_renewal(world):
    before_ms = world.end_ms("kept")
    wait_until(lambda: not before_ms >= world.end_ms("kept") > 0, "it is renewed")
    check(world.end_ms("kept") > 0, "it is gone")


@contextlib.contextmanager
def renewed_beside(world, kind, names, **options):
    """The network of a client, and the client. It has a lock that is renewed, also in the end; others have the names."""
    network = Network(world)
    client = network.client(**options)
    held = world.actor(kind, client).acquire("kept", ttl_ms=TTL_MS, auto_extend=True)
    other = world.held_by_another(*names)
    await_renewal(world)
    yield network, client
    held.verify().check()
    held.release().check()
    other.release().check()


@scenario(kinds=["thread"], counts=[1], is_timed=True)
def a_crowd_of_withdrawals_costs_no_renewed_lock_its_life(world, kind, names):
    """One by one, and all before the next renewal, they would take longer than it lives."""
    with renewed_beside(world, kind, names) as (network, client):
        n_scripts = world.n_scripts()
        withdraw_crowd(world, network, client, names)
        for _ in range(3):
            await_renewal(world)
        wait_until(lambda: world.n_scripts() >= n_scripts + 3 * CROWD,
                   "each has asked, left, and left in the background")


@scenario(kinds=["thread"], counts=[1], is_timed=True)
def a_withdrawal_without_answer_holds_up_no_renewal(world, kind, names):
    with renewed_beside(world, kind, names, io_timeout_ms=LONG_MS) as (network, client):
        network.fail("freeze", direction="down")
        world.actor(kind, client).refused(*names, timeout_ms=100).check("E_UNKNOWN")
        await_renewal(world)
        network.heal()
        await_renewal(world)


@scenario(kinds=["thread"], counts=[1], is_timed=True)
def the_end_of_a_client_does_not_wait_for_a_crowd_of_withdrawals(world, kind, names):
    """It waits for its time-out, and all of them would take twice as long as is allowed here."""
    network = Network(world)
    client = network.client(io_timeout_ms=IO_MS)
    world.actor(kind, client).acquire("kept").release().check()
    other = world.held_by_another(*names)
    withdraw_crowd(world, network, client, names, far_ms=3 * FAR_MS)
    took_us = world.free(client).took_us
    check(took_us < 2 * IO_MS * 1000, f"after {took_us} us")
    other.release().check()


if __name__ == "__main__":
    main()
