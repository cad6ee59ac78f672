#!/usr/bin/env python3
"""What a server says to who arrives there, and what it grants while it may have lost writes: lua/README.md 44 to 48."""

from calls import RANDOM, acquirer, check, check_equal, host, main, nonce, refusal
from server import T0_US

PAUSE_MS, HOUR_US = 10000, 3_600_000_000
QUEUED, ONCE, AT_RANDOM = "qw- -1 0 -1", "qwf -1 0 -1", "rw- -1 0 -1"
POLL = f"qw- -1 {T0_US} -1"


def arrive(calls, floor=0, pause_ms=0, server="a" * 40, *masters):
    return calls.call("arrive", server, floor, pause_ms, *masters)


def token_of(calls, lock="a"):
    return int(calls.ask("HGET", f"rql:lock:{lock}", "rql_token") or 0)


def check_nobody_holds(calls):
    check_equal(calls.ask("EXISTS", "rql:lock:a", "rql:lock:b", "rql:lock:c"), 0)


def test_who_arrives_first_of_all_changes_nothing(calls):
    check_equal(arrive(calls), "0 0")
    check_equal(calls.ask("DBSIZE"), 0)


def test_lost_writes_are_told_to_whoever_has_seen_more(calls):
    """Of what the server has: (in the fence, the floor, the answer, in the fence afterwards)."""
    now = T0_US
    for had, floor, answer, has in (
            (None, now, "1 0", str(now)),
            (now, now, f"0 {now}", str(now)),
            (now, now - 1, f"0 {now}", str(now)),
            (now, now + 1, f"1 {now}", str(now + 1)),
            (now, now + HOUR_US, f"1 {now}", str(now + HOUR_US)),
            (now, now + HOUR_US + 1, f"2 {now}", str(now)),
            (now + HOUR_US + 2, now + HOUR_US + 1, f"0 {now + HOUR_US + 2}", str(now + HOUR_US + 2)),
            ("nonsense", now, "1 0", str(now)),
            (f"q {now + 5} {now}", now + 1, f"1 {now}", f"q {now + 5} {now + 1}"),
            (f"q {now - 5} {now}", now, f"0 {now}", f"q {now - 5} {now}")):
        calls.ask("DEL", "rql:fence")
        if had is not None:
            calls.ask("SET", "rql:fence", had)
        check_equal(arrive(calls, floor), answer)
        check_equal(calls.ask("GET", "rql:fence"), has)
        check_equal(calls.ask("EXISTS", "rql:era"), 0)
    check_equal(arrive(calls, now), f"0 {now}")


def test_keys_that_have_moved_begin_no_pause(calls):
    """(Who was here before, who is a master still): all but the first two are in doubt."""
    here, there, other = ("abc"[i] * 40 for i in range(3))
    for before, masters, is_paused in (
            (there, f" {other} {there} {here} ", False), (here, f" {other} ", False), (there, f" {other} ", True),
            (there, " ", True), (there[1:], f" {there} ", True), (None, f" {there} ", True), ("", f" {there} ", True)):
        calls.ask("SET", "rql:fence", T0_US)
        calls.ask("DEL", "rql:era")
        if before is not None:
            calls.ask("SET", "rql:era", before)
        check_equal(arrive(calls, T0_US, PAUSE_MS, here, masters), f"0 {T0_US}")
        check_equal(calls.ask("GET", "rql:fence").startswith("q "), is_paused)
        check_equal(calls.ask("GET", "rql:era"), here)


def check_waits(calls, number, how):
    """In the queue of the free lock, until the end of the pause."""
    kind, now, left_ms, *_, score = calls.acquire(number, how)
    check_equal((kind, left_ms), (0, (T0_US + PAUSE_MS * 1000 - now) // 1000))
    check(calls.ask("ZSCORE", "rql:lock_queue:a", acquirer(number)), "it has no place")
    check_nobody_holds(calls)
    return score


def test_nothing_is_granted_in_a_pause(calls):
    """Who comes waits, though the lock is free; afterwards it goes on where it was."""
    arrive(calls, T0_US, PAUSE_MS)
    for number, how in ((1, QUEUED), (2, AT_RANDOM), (3, POLL)):
        check_waits(calls, number, how)
    check_equal(calls.call("release", "-", RANDOM), "0 0")
    calls.leave(1)
    check_nobody_holds(calls)
    check_equal(calls.heard(), [])
    calls.pass_ms(PAUSE_MS)
    check_equal(calls.acquire(2, AT_RANDOM)[:4:3], [1, T0_US + PAUSE_MS * 1000])
    check_equal(calls.acquire(3, POLL)[0], 0)
    check_equal(calls.release(2), "1 1")
    calls.check_holder(3)


def test_who_asks_once_is_told_until_when(calls):
    until = T0_US + PAUSE_MS * 1000
    arrive(calls, T0_US, PAUSE_MS)
    for _ in range(2):
        check_equal(calls.acquire(1, ONCE), [7, T0_US, until])
        check_equal(calls.acquire_series(1, ONCE), [7, T0_US, until])
        check_equal(calls.ask("EXISTS", "rql:lock_queue:a", "rql:req:a"), 0)
    check_waits(calls, 2, QUEUED)
    check_equal(calls.acquire(1, ONCE), [7, T0_US, until])
    check_equal(calls.acquire_series(1, ONCE), [7, T0_US, until])
    calls.ask("HSET", "rql:lock:a", "acq_id", "others")
    check_equal((calls.acquire(1, ONCE)[0], calls.acquire_series(1, ONCE)[0]), (2, 2))


def test_a_series_waits_in_a_pause_too(calls):
    arrive(calls, T0_US, PAUSE_MS)
    for how in (QUEUED, AT_RANDOM):
        kind, now, left_ms, *_ = calls.acquire_series(4, how)
        check_equal((kind, left_ms), (0, PAUSE_MS))
        check_equal([bool(calls.ask("ZSCORE", f"rql:lock_queue:{name}", acquirer(4))) for name in "abc"], [True] * 3)
        check_nobody_holds(calls)
    calls.pass_ms(PAUSE_MS)
    check_equal(calls.acquire_series(4, QUEUED)[0], 1)


def test_a_pause_leaves_a_holder_what_it_has(calls):
    """It extends, enters again and releases; its lock is free then, and not handed on."""
    calls.acquire(1, QUEUED)
    token = token_of(calls)
    arrive(calls, token, PAUSE_MS)
    check_equal(calls.acquire(2, QUEUED)[0], 0)
    check_equal(calls.call("extend", nonce(1), 30000, RANDOM).split()[0], "1")
    check_equal(calls.acquire(1, "qt- -1 0 -1")[3], token)
    paused = calls.ask("GET", "rql:fence")
    waiter = (acquirer(2), nonce(2), host(2), 30000, token + 1)
    check(refusal(calls.call, "transfer", nonce(1), RANDOM, *waiter).startswith("BUSY"), "handed on in a pause")
    calls.check_holder(1)
    check_equal(calls.ask("GET", "rql:fence"), paused)
    check_equal(calls.call("leave", acquirer(2), nonce(2), RANDOM), "1 0")
    check_equal(calls.acquire(3, QUEUED)[0], 0)
    check_equal(calls.release(1), "1 0")
    check_nobody_holds(calls)
    check_equal(calls.ask("ZRANGE", "rql:lock_queue:a", 0, -1), [acquirer(3)])
    calls.pass_ms(PAUSE_MS)
    check_equal(calls.call("release", "-", RANDOM), "0 0")  # who was silent for so long counts as dead
    check_equal(calls.acquire(3, QUEUED)[0], 1)
    check(token_of(calls) > token, "a token has not risen")


def test_tokens_rise_across_a_pause(calls):
    """Also where the clock is set back, and by a transfer."""
    arrive(calls, T0_US + HOUR_US, PAUSE_MS)
    calls.pass_ms(PAUSE_MS)
    check_equal(calls.acquire(1, QUEUED)[3], T0_US + HOUR_US + 1)
    calls.ask("SET", "rql:fence", f"q 5 {T0_US + HOUR_US + 9}")
    check_equal(calls.acquire(2, QUEUED)[0], 0)
    waiter = (acquirer(2), nonce(2), host(2), 30000, T0_US + HOUR_US + 2)
    check_equal(calls.call("transfer", nonce(1), RANDOM, *waiter).split()[0], "4")
    check_equal(calls.release(2), "1 0")
    check_equal(calls.acquire(3, QUEUED)[3], T0_US + HOUR_US + 10)


if __name__ == "__main__":
    main()
