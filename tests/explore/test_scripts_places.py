#!/usr/bin/env python3
"""A place in front of others, and a queue that is full: lua/optional.md 69 and 70."""

from calls import NEVER, RANDOM, acquirer, check, check_equal, host, main, nonce
from test_scripts_keys import QUEUED, let_wait

MINUTE_MS = 60000
SILENCE_MS = 5001


def ask(calls, number, max_waiters=-1, head_start_ms=0, score_us=0, script="acquire", queue_ttl_ms=-1):
    """As numbers, but who is in front."""
    how = f"qw+ -1 {score_us} {queue_ttl_ms} {RANDOM} {max_waiters} {head_start_ms}"
    words = (acquirer(number), host(number), 30000, nonce(number), NEVER, how)
    said = calls.call(script, *words, *(("rql_share", "1 2") if script == "acquire_shared" else ()))
    return [int(part) for part in said.split()[:8]]


def queue(calls):
    return [int(one.split("/")[1]) for one in calls.ask("ZRANGE", "rql:lock_queue:a", 0, -1)]


def test_a_head_start_puts_a_request_in_front_of_those_of_that_time(calls):
    for script in "acquire", "acquire_shared":
        calls.begin()
        let_wait(calls, 1, 2)
        calls.pass_ms(20000)
        check_equal(calls.acquire(3, QUEUED)[0], 0)
        said = ask(calls, 4, head_start_ms=1000, script=script)
        check_equal((said[0], said[3], queue(calls)), (0, 1, [2, 4, 3]))
        said = ask(calls, 5, head_start_ms=MINUTE_MS, script=script)
        check_equal((said[3], said[7], queue(calls)), (0, calls.now_us - MINUTE_MS * 1000, [5, 2, 4, 3]))
        again = ask(calls, 5, head_start_ms=MINUTE_MS, script=script)
        poll = ask(calls, 5, head_start_ms=MINUTE_MS, score_us=said[7], script=script)
        check_equal((again[7], poll[7], queue(calls)), (said[7], said[7], [5, 2, 4, 3]))
        calls.ask("DEL", "rql:lock_queue:a")  # and comes back to that place
        poll = ask(calls, 5, head_start_ms=MINUTE_MS, score_us=said[7], script=script)
        check_equal((poll[5], poll[7], queue(calls)), (1, said[7], [5, 2, 4, 3]))


def test_a_request_with_a_head_start_is_served_first(calls):
    let_wait(calls, 1, 2, 3)
    ask(calls, 4, head_start_ms=MINUTE_MS)
    calls.call("release", nonce(1), RANDOM)
    calls.check_holder(4)


def test_its_queue_ttl_counts_from_when_it_came(calls):
    let_wait(calls, 1, 2)
    first = ask(calls, 3, head_start_ms=MINUTE_MS, queue_ttl_ms=1000)
    calls.pass_ms(900)
    check_equal(ask(calls, 3, head_start_ms=MINUTE_MS, queue_ttl_ms=1000, score_us=first[7])[7], first[7])
    calls.pass_ms(200)
    last = ask(calls, 3, head_start_ms=MINUTE_MS, queue_ttl_ms=1000, score_us=first[7])
    check_equal((last[7], queue(calls)), (calls.now_us, [2, 3]))


def test_a_full_queue_takes_no_newcomer(calls):
    for script in "acquire", "acquire_shared":
        calls.begin()
        check_equal(ask(calls, 1, max_waiters=0, script="acquire")[0], 1)
        check_equal(ask(calls, 2, max_waiters=0, script=script)[:3], [8, calls.now_us, 0])
        check_equal(ask(calls, 2, max_waiters=1, script=script)[0], 0)
        check_equal(ask(calls, 3, max_waiters=1, script=script), [8, calls.now_us, 1])
        check_equal((queue(calls), calls.ask("HLEN", "rql:req:a")), ([2], 1))
        again = ask(calls, 2, max_waiters=1, script=script)  # who is there already stays
        check_equal((again[0], ask(calls, 2, max_waiters=0, score_us=again[7], script=script)[0]), (0, 0))
        check_equal(ask(calls, 3, max_waiters=2, script=script)[0], 0)
        check_equal(calls.acquire(4, QUEUED)[0], 0)  # others have no such limit


def test_a_request_that_was_removed_comes_back_to_a_full_queue(calls):
    let_wait(calls, 1)
    first = ask(calls, 2, max_waiters=1)
    calls.ask("ZREM", "rql:lock_queue:a", acquirer(2))
    calls.ask("HDEL", "rql:req:a", acquirer(2))
    calls.acquire(3, QUEUED)
    check_equal(ask(calls, 2, max_waiters=1, score_us=first[7])[0], 0)


def test_a_first_call_that_is_repeated_comes_back_too(calls):
    """Its answer was lost, and meanwhile a Ruby has removed its place."""
    let_wait(calls, 1)
    check_equal(ask(calls, 2, max_waiters=1)[0], 0)
    calls.acquire(3, QUEUED)
    calls.ask("ZREM", "rql:lock_queue:a", acquirer(2))
    check_equal((ask(calls, 2, max_waiters=1)[0], queue(calls)), (0, [3, 2]))


def test_the_dead_make_room(calls):
    """Those of ours that are silent, among the first eight. A Ruby counts."""
    let_wait(calls, 1, 2, 3)
    calls.pass_ms(SILENCE_MS)
    check_equal(ask(calls, 4, max_waiters=2)[0], 0)
    check_equal((queue(calls), calls.ask("HLEN", "rql:req:a")), ([4], 1))
    calls.ask("ZADD", "rql:lock_queue:a", f"{calls.now_us / 1e6:.6f}", "rql:acq:9/9/9/9/ruby")
    calls.pass_ms(SILENCE_MS)
    check_equal(ask(calls, 5, max_waiters=1), [8, calls.now_us, 1])


def test_marks_of_the_dead_go_with_them(calls):
    let_wait(calls, 1)
    calls.acquire(2, "Qw- -1 0 -1")
    calls.pass_ms(SILENCE_MS)
    check_equal(ask(calls, 3, max_waiters=1)[0], 0)
    check_equal(calls.ask("HGET", "rql:req:a", "holders"), None)
    check(calls.ask("HEXISTS", "rql:req:a", acquirer(3)), "it has no record")


if __name__ == "__main__":
    main()
