#!/usr/bin/env python3
"""Whose turn it is at a free lock, by the scripts alone.

Usage: test_scripts_turns.py PRELOAD
"""

from calls import N_CLIENTS, acquirer, check, check_equal, host, main, nonce

HOLDER, SERIES = 1, 5
DEAF = N_CLIENTS + 1     # its client does not listen
WHILE_MS = 2000          # that a lock is kept free for a series or a Ruby
PUT_BACK_MS = 500        # that the last of several Rubies has once more
AGAIN = 6                # an answer: repeat the call
MARKED = 16
HOUR_MS = 3600000
STEP_MS = 4000           # less than what a client may be silent for
MANY = 40                # more than are looked at in one go
LOCK, QUEUE, RECORDS = "rql:lock:a", "rql:lock_queue:a", "rql:req:a"


def how(access="q", wait_ms=-1, score_us=0, queue_ttl_ms=600000):
    return f"{access}w- {wait_ms} {score_us} {queue_ttl_ms}"


def ruby(number):
    return f"rql:acq:9/{number}/0/0/0123456789abcdef"


def takes(calls, number, **words):
    return calls.acquire(number, how(**words))[0] == 1


def hold(calls):
    check(takes(calls, HOLDER), "it is free")


def waits(calls, number, **words):
    """For how long that may last."""
    answer = calls.acquire(number, how(**words))
    check(answer[0] != 1, f"{number} has it")
    return answer[2]


def series_waits(calls, number=SERIES, n_locks=3, **words):
    answer = calls.acquire_series(number, how(**words), n_locks)
    check(answer[0] != 1, "the series has them")
    return answer


def let_a_series_wait(calls):
    """Of a, b and c; somebody holds b."""
    calls.ask("HSET", "rql:lock:b", "acq_id", "somebody")
    series_waits(calls)


def pass_beside_a_series(calls, ms):
    """It lives on."""
    while ms > 0:
        calls.pass_ms(min(ms, STEP_MS))
        ms -= STEP_MS
        series_waits(calls)


def let_a_ruby_wait(calls, number):
    calls.ask("ZADD", QUEUE, f"{calls.now_us / 1000000:.6f}", ruby(number))
    calls.pass_ms(1)


def check_ruby_leads(calls):
    check_equal(calls.ask("ZRANK", QUEUE, ruby(1)), 0)


# ---- reservations of a series ----

def test_a_reservation_is_twice_as_long_each_time_up_to_a_minute(calls):
    """Another is let past when it lapses, and each time that takes twice as long."""
    let_a_series_wait(calls)
    for expected_ms in (2000, 4000, 8000, 16000, 32000, 60000, 60000):
        check_equal(waits(calls, 6), expected_ms)
        pass_beside_a_series(calls, expected_ms - 1)
        check_equal(waits(calls, 6), 1)
        calls.pass_ms(1)
        check(takes(calls, 6), "it is not let past")
        calls.pass_ms(WHILE_MS)  # however long it holds the lock
        calls.release(6)


def test_a_reservation_of_the_future_begins_anew(calls):
    """Also the while that a Ruby has."""
    for begin in (let_a_series_wait, lambda calls: let_a_ruby_wait(calls, 1)):
        calls.begin()
        begin(calls)
        check_equal(waits(calls, 6), WHILE_MS)
        calls.pass_ms(-HOUR_MS)
        check_equal(waits(calls, 6), WHILE_MS)
        calls.pass_ms(WHILE_MS)
        check(takes(calls, 6), "it is not let past")


def test_a_series_counts_whom_the_lock_is_handed_to(calls):
    let_a_series_wait(calls)
    check_equal(waits(calls, 6), WHILE_MS)
    calls.pass_ms(WHILE_MS)
    waits(calls, 7)  # it asks, and 6 is served
    calls.check_holder(6)
    calls.release(6)
    check_equal(waits(calls, 7), 2 * WHILE_MS)


def test_a_series_counts_another_that_is_let_past(calls):
    let_a_series_wait(calls)
    series_waits(calls, 6, 1)
    calls.pass_ms(WHILE_MS)
    check_equal(calls.acquire_series(6, how(), 1)[0], 1)
    calls.release(6)
    check_equal(waits(calls, 7), 2 * WHILE_MS)


def test_a_series_that_has_waited_for_longer_than_queue_ttl_serves_others(calls):
    """It goes behind all who wait, and nothing is reserved for it there."""
    let_a_series_wait(calls)
    waits(calls, 6)
    calls.pass_ms(WHILE_MS // 2)
    series_waits(calls, queue_ttl_ms=500)
    calls.check_holder(6)


def test_a_series_comes_after_those_who_waited_when_the_clock_was_set_back(calls):
    """Of each of its locks."""
    hold(calls)
    waits(calls, 6)
    calls.pass_ms(-HOUR_MS)
    let_a_series_wait(calls)
    calls.release(HOLDER)
    calls.check_holder(6)


def test_a_series_puts_others_back_with_itself(calls):
    hold(calls)
    waits(calls, 6)
    calls.pass_ms(1)
    let_a_series_wait(calls)
    calls.ask("DEL", QUEUE)
    series_waits(calls, score_us=calls.now_us)
    calls.release(HOLDER)
    calls.check_holder(6)


def test_a_series_asks_when_its_reservation_lapses(calls):
    """It has to let others by then, and might sleep for longer."""
    let_a_series_wait(calls)
    calls.ask("PEXPIRE", "rql:lock:b", 60000)
    waits(calls, 6)
    check_equal(series_waits(calls)[2], WHILE_MS)


def test_another_series_that_goes_leaves_the_reservation_as_it_is(calls):
    let_a_series_wait(calls)
    series_waits(calls, 6, 1)
    calls.pass_ms(1)
    calls.leave(6)
    check_equal(waits(calls, 7), WHILE_MS - 1)


def test_another_series_that_asks_leaves_the_reservation_as_it_is(calls):
    """It stands behind the first, and wants no reservation of its own."""
    let_a_series_wait(calls)
    series_waits(calls, 6)
    check_equal(waits(calls, 7), WHILE_MS)
    calls.pass_ms(1)
    series_waits(calls, 6)
    check_equal(waits(calls, 7), WHILE_MS - 1)
    calls.pass_ms(WHILE_MS - 1)
    series_waits(calls, 6)
    calls.check_holder(7)


def test_a_series_counts_a_ruby_that_was_let_past(calls):
    """It takes the lock when nobody of ours is in front: they come back as they were."""
    let_a_series_wait(calls)
    score_us = calls.now_us
    calls.pass_ms(1)
    let_a_ruby_wait(calls, 1)
    check_equal(waits(calls, 7), WHILE_MS)
    calls.pass_ms(WHILE_MS)
    check_equal(waits(calls, 7), WHILE_MS)
    check_ruby_leads(calls)
    calls.ask("ZREM", QUEUE, ruby(1))  # it has the lock, and releases it
    series_waits(calls, score_us=score_us)
    check_equal(waits(calls, 7), 2 * WHILE_MS)


def test_a_series_steps_aside_at_once_for_a_ruby_that_holds_one_of_its_locks(calls):
    """Each would wait for the other. The reservation, which another request has begun, has not lapsed by that: it
    begins again, and is no longer."""
    calls.ask("HSET", "rql:lock:b", "acq_id", ruby(1))
    series_waits(calls)
    score_us = calls.now_us
    waits(calls, 6)
    calls.leave(6)
    calls.pass_ms(1)
    let_a_ruby_wait(calls, 1)
    answer = series_waits(calls)
    check_equal((answer[0], answer[6]), (0, 1))
    check_ruby_leads(calls)
    check_equal(waits(calls, 7), WHILE_MS)
    calls.ask("ZREM", QUEUE, ruby(1))  # it has the lock, and releases it
    series_waits(calls, score_us=score_us)
    check_equal(waits(calls, 7), WHILE_MS)


def test_a_series_that_steps_aside_for_a_ruby_lets_those_between_by(calls):
    """They are in front of the Ruby; and it is for the Ruby alone that they are let by."""
    calls.ask("HSET", "rql:lock:b", "acq_id", ruby(1))
    series_waits(calls)
    score_us = calls.now_us
    calls.pass_ms(1)
    waits(calls, 6)
    calls.pass_ms(1)
    let_a_ruby_wait(calls, 1)
    series_waits(calls)
    calls.check_holder(6)
    calls.ask("ZREM", QUEUE, ruby(1))
    calls.release(6)
    series_waits(calls, score_us=score_us)
    check_equal(waits(calls, 7), WHILE_MS)


def test_a_series_watches_a_ruby_that_holds_one_of_its_locks(calls):
    """Also behind another at that lock: the Ruby may come to wait for what is reserved, and no push tells."""
    calls.ask("HSET", "rql:lock:b", "acq_id", ruby(1))
    calls.ask("ZADD", "rql:lock_queue:b", "1", "rql:acq:of another")
    calls.ask("HSET", "rql:req:b", "rql:acq:of another", f"host 1000 {nonce(99)} 0 q 1000000 ")
    check_equal(series_waits(calls)[6], 2)


def test_so_many_who_hold_something_are_served_before_a_series(calls):
    """Not all are part of a circle: they must not keep the series waiting for ever."""
    let_a_series_wait(calls)
    n_served = 0
    while n_served <= MARKED and takes(calls, 6, access="Q"):
        calls.release(6)
        n_served += 1
    check_equal(n_served, MARKED)


def test_who_holds_something_is_served_before_a_series_and_nobody_else_is(calls):
    hold(calls)
    let_a_series_wait(calls)
    waits(calls, 6)
    waits(calls, 7, access="Q")
    calls.release(HOLDER)
    calls.check_holder(7)
    calls.release(7)
    check_equal(waits(calls, 6), WHILE_MS)


def test_a_series_that_holds_something_counts_until_it_is_served(calls):
    """Else the hash would stay, and others would be looked for at each turn."""
    calls.ask("HSET", "rql:lock:b", "acq_id", "somebody")
    series_waits(calls, access="Q")
    check_equal(calls.ask("HGET", RECORDS, "holders"), "1")
    calls.ask("DEL", "rql:lock:b")
    check_equal(calls.acquire_series(SERIES, how("Q"))[0], 1)
    check_equal(calls.ask("EXISTS", *(f"rql:req:{name}" for name in "abc")), 0)


def test_a_request_is_counted_as_it_first_came_whatever_its_acquirer_holds_later(calls):
    for before, after in ("qQ", "Qq"):
        calls.begin()
        hold(calls)
        waits(calls, 6, access=before)
        waits(calls, 7, access="Q")
        calls.ask("DEL", LOCK)
        check(takes(calls, 6, access=after), "it is first")
        check_equal(calls.ask("HGET", RECORDS, "holders"), "1")


def test_a_request_that_goes_to_the_tail_keeps_how_it_first_came(calls):
    hold(calls)
    waits(calls, 6)
    calls.pass_ms(2)
    waits(calls, 6, access="Q", queue_ttl_ms=1)
    check_equal(calls.ask("HGET", RECORDS, acquirer(6)).split()[4], "q")


# ---- Rubies ----

def test_a_ruby_that_comes_during_the_while_of_another_has_its_own(calls):
    hold(calls)
    let_a_ruby_wait(calls, 1)
    calls.release(HOLDER)
    let_a_ruby_wait(calls, 2)
    check_equal(waits(calls, 6), WHILE_MS - 1)
    calls.pass_ms(WHILE_MS)
    check_equal(waits(calls, 6), WHILE_MS)
    calls.pass_ms(WHILE_MS)
    check(takes(calls, 6), "it is not its turn")


def test_the_while_of_a_ruby_ends_with_the_next_grant(calls):
    """They stood there when it began, but somebody else has had the lock since."""
    hold(calls)
    let_a_ruby_wait(calls, 1)
    waits(calls, 6)
    calls.pass_ms(1)
    let_a_ruby_wait(calls, 2)
    calls.release(HOLDER)
    calls.pass_ms(WHILE_MS)
    waits(calls, 7)
    calls.check_holder(6)
    calls.release(6)
    check_equal(waits(calls, 7), WHILE_MS)


def test_the_last_of_several_rubies_is_put_back_however_many_a_call_passes(calls):
    """One call passes 30 dead waiters. The last Ruby has its half second also if the call ended directly behind it."""
    for n_rubies, n_ours in ((2, 0), (29, 0), (30, 0), (31, 0), (60, 0), (29, 1), (2, 28), (1, 29), (1, 0)):
        calls.begin()
        hold(calls)
        for number in range(n_rubies):
            let_a_ruby_wait(calls, number)
        for number in range(n_ours):
            waits(calls, 100 + number, wait_ms=1000)
        waits(calls, 6)
        calls.release(HOLDER)
        calls.pass_ms(WHILE_MS)
        answer = calls.acquire(6, how())
        while answer[0] == AGAIN:
            answer = calls.acquire(6, how())
        check_equal(answer[0], 0 if n_rubies > 1 else 1)
        if n_rubies > 1:
            check_equal((answer[2], calls.ask("ZRANGE", QUEUE, 0, 0)), (PUT_BACK_MS, [ruby(n_rubies - 1)]))
            calls.pass_ms(PUT_BACK_MS)
            check(takes(calls, 6), "the half second is over")


def test_the_while_of_a_ruby_among_rubies_leaves_no_residue(calls):
    """The hash was not there before."""
    hold(calls)
    let_a_ruby_wait(calls, 1)
    calls.release(HOLDER)
    check_equal(calls.ask("HEXISTS", RECORDS, "ruby"), 1)
    check(calls.ask("PTTL", RECORDS) > 0, "it stays for ever")


def test_a_grant_in_turn_ends_the_turn_of_a_ruby_behind(calls):
    """It has a whole one when the lock is free again."""
    hold(calls)
    let_a_ruby_wait(calls, 1)
    calls.release(HOLDER)
    check_equal(calls.ask("HEXISTS", RECORDS, "ruby"), 1)
    calls.ask("HSET", LOCK, "acq_id", "somebody", "rql_nonce", nonce(HOLDER))
    waits(calls, 6, score_us=calls.now_us - HOUR_MS)  # back in its place, in front of the Ruby
    calls.release(HOLDER)
    calls.check_holder(6)
    check_equal(calls.ask("HEXISTS", RECORDS, "ruby"), 0)


def test_a_poll_in_the_turn_of_a_ruby_leaves_the_queue_as_it_is(calls):
    """The series has left it, and its record stays: to put all back at each poll would take long in a long queue."""
    hold(calls)
    let_a_series_wait(calls)
    calls.pass_ms(1)
    let_a_ruby_wait(calls, 1)
    waits(calls, 6)
    calls.release(HOLDER)
    calls.pass_ms(WHILE_MS)
    check_equal(waits(calls, 6), WHILE_MS)
    queue, n_restored = calls.ask("ZRANGE", QUEUE, 0, -1), calls.n_calls("hgetall")
    check_equal(queue, [ruby(1), acquirer(6)])
    calls.pass_ms(1)
    check_equal(waits(calls, 6), WHILE_MS - 1)
    check_equal((calls.ask("ZRANGE", QUEUE, 0, -1), calls.n_calls("hgetall")), (queue, n_restored))


# ---- who is told, and who is served ----

def test_whoever_lives_and_hears_is_told_of_a_ruby_in_front(calls):
    """The first of ours: neither one who has given up, nor one whose client does not hear."""
    hold(calls)
    for number in range(MANY):
        let_a_ruby_wait(calls, number)
    waits(calls, 6, wait_ms=1000)
    calls.pass_ms(WHILE_MS)
    waits(calls, DEAF)
    waits(calls, 7)
    calls.heard()
    calls.release(HOLDER)
    check_equal(calls.told_to_look()[:1], [7])


def test_who_comes_to_lead_beside_a_ruby_is_told(calls):
    """Nobody else learns of what a Ruby does: it waits in front, or holds the lock."""
    for holds in (True, False):
        calls.ask("FLUSHALL")
        if holds:
            calls.ask("HSET", "rql:lock:a", "acq_id", ruby(1))
        else:
            hold(calls)
            let_a_ruby_wait(calls, 1)
        waits(calls, 6)
        waits(calls, 7)
        calls.heard()
        calls.leave(6)
        check_equal(calls.told_to_look()[:1], [7])


def prune(calls):
    """As a Ruby does with all that have waited for longer than its queue_ttl."""
    calls.ask("ZREMRANGEBYSCORE", QUEUE, "-inf", f"{calls.now_us / 1000000:.6f}")


def test_whoever_a_ruby_has_removed_is_served_in_front_of_it(calls):
    hold(calls)
    waits(calls, 6)
    prune(calls)
    calls.pass_ms(1)
    let_a_ruby_wait(calls, 1)
    calls.release(HOLDER)
    calls.check_holder(6)
    check_ruby_leads(calls)


def test_no_ruby_keeps_the_place_of_whom_it_has_removed_while_others_wait(calls):
    """Nor does it lose its own turn to those who come behind it."""
    hold(calls)
    for number in (6, 7):
        waits(calls, number)
    prune(calls)
    calls.pass_ms(1)
    let_a_ruby_wait(calls, 1)
    waits(calls, 8)
    for number in (6, 7):
        calls.release(HOLDER if number == 6 else 6)
        calls.check_holder(number)
    check_ruby_leads(calls)
    calls.release(7)
    check_equal(calls.ask("EXISTS", LOCK), 0)


def test_whoever_a_ruby_has_removed_behind_it_is_told_of_it(calls):
    hold(calls)
    let_a_ruby_wait(calls, 1)
    waits(calls, 6)
    calls.ask("ZREM", QUEUE, acquirer(6))
    calls.heard()
    calls.release(HOLDER)
    check_ruby_leads(calls)
    check_equal(calls.told_to_look()[:1], [6])


def test_only_who_asked_for_it_is_chosen_at_random(calls):
    """A random number picks a place in the queue; whoever has not asked for it there does not have it."""
    for random, chosen in ((1, 6), (2, 8)):
        calls.ask("FLUSHALL")
        hold(calls)
        for number, access in ((6, "q"), (7, "q"), (8, "r")):
            waits(calls, number, access=access)
        calls.release(HOLDER, random)
        calls.check_holder(chosen)


def test_a_flush_that_frees_a_turn_asks_for_a_release(calls):
    """6 is of a host that is dead."""
    hold(calls)
    waits(calls, 6)
    waits(calls, 7)
    calls.ask("DEL", "rql:lock:a")
    calls.ask("HSET", "rql:swarm:hsts", host(6), "1")
    calls.ask("HSET", "rql:swarm:suspects", host(6), "1 D 1")
    check_equal(calls.call("flush_queue", "0"), [1, 2, -1, 2])


if __name__ == "__main__":
    main()
