#!/usr/bin/env python3
"""Holders that are asked to release: lua/optional.md 71, 72."""

from calls import NEVER, RANDOM, acquirer, check_equal, host, main, nonce

LOCK, QUEUE = "rql:lock:a", "rql:lock_queue:a"
TELL, WAITS, READER, TTL_MS = ("rql_tell", "1"), "qw- -1 0 -1", "1 4096", 30000


def hold(calls, number, *meta):
    words = acquirer(number), host(number), TTL_MS, nonce(number), NEVER, f"{WAITS} {RANDOM}"
    check_equal(calls.call("acquire", *words, *meta).split()[0], "1")


def share(calls, number, *meta):
    words = acquirer(number), host(number), TTL_MS, nonce(number), NEVER, f"{WAITS} {RANDOM}"
    check_equal(calls.call("acquire_shared", *words, "rql_share", READER, *meta).split()[0], "1")


def ask(calls, number, within_ms, of=None):
    return calls.call("ask", acquirer(number), host(of or number), within_ms)


def renew(calls, number, shares=False):
    """How many wait, and in how many ms it is asked to release; None: it is not asked."""
    words = (acquirer(number), nonce(number), TTL_MS, RANDOM, READER) if shares else (nonce(number), TTL_MS, RANDOM)
    told = calls.call("extend_shared" if shares else "extend", *words, "w").split()
    check_equal((told[0], len(told)), ("1", 5))
    until_us = int(told[4])
    return int(told[3]), (until_us - calls.now_us) / 1000 if until_us else None


def test_a_holder_learns_of_it_by_its_renewal(calls):
    hold(calls, 1, *TELL)
    check_equal(renew(calls, 1), (0, None))
    check_equal(ask(calls, 1, 5000), 1)
    calls.pass_ms(1000)
    check_equal(renew(calls, 1), (0, 4000))
    calls.acquire(2, WAITS)
    check_equal(renew(calls, 1), (1, 4000))
    check_equal(calls.call("extend", nonce(1), TTL_MS, RANDOM), f"1 {calls.now_us} {TTL_MS}")


def test_a_lock_that_is_renewed_beside_a_foreign_key_is_said_to_be(calls):
    """Its holder would count it as lost."""
    for begin in (hold, share):
        calls.begin()
        begin(calls, 1, *TELL)
        calls.pass_ms(1000)
        calls.ask("SET", QUEUE, "foreign")
        check_equal(renew(calls, 1, shares=begin == share), (0, None))
        check_equal(calls.ask("PTTL", LOCK), TTL_MS)


def test_the_ttl_stays_as_it_is(calls):
    hold(calls, 1, *TELL)
    calls.pass_ms(10000)
    ask(calls, 1, 60000)
    check_equal(calls.ask("PTTL", LOCK), 20000)


def test_others_are_not_asked(calls):
    check_equal(ask(calls, 1, 5000), 0)
    hold(calls, 1)
    check_equal((ask(calls, 1, 5000), ask(calls, 2, 5000), ask(calls, 1, 5000, of=2)), (-1, 0, 0))
    check_equal(renew(calls, 1), (0, None))
    check_equal(calls.ask("HEXISTS", LOCK, "rql_asked"), 0)
    calls.release(1)
    check_equal((ask(calls, 1, 5000), calls.ask("EXISTS", LOCK)), (0, 0))


def test_the_earlier_time_counts(calls):
    """Unless it has come, or is earlier by less than a second."""
    hold(calls, 1, *TELL)
    for within_ms, wanted_ms in ((5000, 5000), (6000, 5000), (4001, 5000), (3999, 3999), (60000, 3999)):
        check_equal(ask(calls, 1, within_ms), 1)
        check_equal(renew(calls, 1), (0, wanted_ms))
    calls.pass_ms(4000)
    check_equal(ask(calls, 1, 0), 1)
    check_equal(renew(calls, 1), (0, -1))
    ask(calls, 1, 9000)
    check_equal(renew(calls, 1), (0, 9000))
    ask(calls, 1, 0)
    check_equal(renew(calls, 1), (0, 0))


def test_a_new_grant_is_not_asked(calls):
    """Whoever makes it: a release, a hand-over inside the client, or a request for the free lock."""
    for ending in ("release", "transfer", "free"):
        calls.begin()
        hold(calls, 1, *TELL)
        ask(calls, 1, 5000)
        if ending == "release":
            calls.acquire(2, WAITS)
            calls.release(1)
        elif ending == "transfer":
            calls.call("transfer", nonce(1), RANDOM, acquirer(2), nonce(2), host(2), TTL_MS, calls.now_us + 9, *TELL)
        else:
            calls.release(1)
            hold(calls, 2, *TELL)
        check_equal((ending, renew(calls, 2)), (ending, (0, None)))
        check_equal((ending, ask(calls, 2, 7000)), (ending, -1 if ending == "release" else 1))


def test_a_sharer_is_asked_alone(calls):
    share(calls, 1, *TELL)
    check_equal(ask(calls, 1, 5000), 1)
    check_equal(renew(calls, 1, shares=True), (0, 5000))
    share(calls, 2, "job", "7", *TELL)
    share(calls, 3, "rql_tell", "2")
    share(calls, 4, "job", "rql_tell")
    check_equal([renew(calls, number, shares=True) for number in (1, 2, 3)], [(0, 5000), (0, None), (0, None)])
    check_equal([ask(calls, number, 6000) for number in (2, 3, 4, 5)], [1, -1, -1, 0])
    check_equal(ask(calls, 2, 1000, of=1), 0)
    check_equal([renew(calls, number, shares=True) for number in (1, 2, 3)], [(0, 5000), (0, 6000), (0, None)])


def test_an_entry_is_removed_ten_days_after_its_time(calls):
    for number in (1, 2, 3):
        share(calls, number, *TELL)
    ask(calls, 1, 1000)
    ask(calls, 2, 2000)
    calls.ask("PERSIST", LOCK)
    calls.pass_ms(10 * 86400 * 1000 + 1500)
    ask(calls, 3, 3000)
    check_equal(calls.ask("HGET", LOCK, "rql_asked").split()[::2], [nonce(2), nonce(3)])


if __name__ == "__main__":
    main()
