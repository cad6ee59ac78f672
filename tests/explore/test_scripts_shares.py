#!/usr/bin/env python3
"""Locks that several share, call by call: lua/optional.md 56 to 66."""

from calls import N_CLIENTS, NEVER, RANDOM, acquirer, check, check_equal, host, main, nonce, refusal

WAITS = "w- -1 0 -1"
LOCK, QUEUE, RECORDS, SHARES = "rql:lock:a", "rql:lock_queue:a", "rql:req:a", "rql:shares:a"
SEVERAL = "rql:acq:shared/0/0/0/" + "0" * 32
RUBY = "rql:acq:9/9/9/9/0123456789abcdef"
READER, TTL_MS = "1 4096", 30000
GONE = "5.5"  # the last heartbeat of a dead host


def share(calls, number, units=READER, how=f"q{WAITS}", ttl_ms=TTL_MS, meta=(), own_nonce=None):
    """The answer, in words."""
    words = acquirer(number), host(number), ttl_ms, own_nonce or nonce(number), NEVER, f"{how} {RANDOM}"
    return calls.call("acquire_shared", *words, "rql_share", units, *meta).split()


def poll(calls, number, score, units=READER):
    return share(calls, number, units, f"qw- -1 {score} -1")


def let_share(calls, *numbers, units=READER, **words):
    """Each gets its share."""
    for number in numbers:
        check_equal((number, share(calls, number, units, **words)[0]), (number, "1"))


def let_wait(calls, *numbers, units=READER, **words):
    """Each waits; their places."""
    places = []
    for number in numbers:
        told = share(calls, number, units, **words)
        check_equal((number, told[0]), (number, "0"))
        places.append(told[7])
        calls.pass_ms(1)
    return places


def let_die(calls, number):
    calls.ask("HSET", "rql:swarm:hsts", host(number), GONE)
    calls.ask("HSET", "rql:swarm:suspects", host(number), f"1 D {GONE}")


def leave(calls, number):
    return calls.call("leave_shared", acquirer(number), nonce(number), RANDOM)


def extend(calls, number, ttl_ms=TTL_MS, units=READER):
    return calls.call("extend_shared", acquirer(number), nonce(number), ttl_ms, RANDOM, units).split()


def slots_in(told):
    check_equal(told[0], "1")
    return told[7] if told[7:] else None


def fields(calls):
    return dict(zip(*[iter(calls.ask("HGETALL", LOCK))] * 2))


def field_of(calls, number):
    return calls.ask("HGET", LOCK, "rql_h:" + acquirer(number))


def admitted(calls):
    """(number, slots it was told of) of each that was pushed a grant."""
    return [(number, said.split()[4:]) for number, said in calls.heard() if not said.endswith(" look")]


def let_ruby_wait(calls):
    calls.ask("ZADD", QUEUE, calls.now_us / 1000000, RUBY)
    calls.pass_ms(1)


def test_a_share_of_a_free_lock_looks_like_a_lock_of_one(calls):
    let_share(calls, 1, meta=("job", "7"))
    got = fields(calls)
    check_equal((got["acq_id"], got["hst_id"], got["rql_share"], got["job"]), (acquirer(1), host(1), READER, "7"))
    check_equal(calls.ask("EXISTS", SHARES), 0)
    check_equal(calls.release(1), "1 0")
    check_equal(calls.ask("KEYS", "rql:lock*"), [])


def test_a_second_sharer_makes_a_lock_of_several_and_nothing_is_lost(calls):
    let_share(calls, 1, units="2 5", meta=("rql_tell", "1", "job", "7"), ttl_ms=5000)
    calls.ask("HSET", LOCK, "spc_cnt", "1", "l_spc_ts", "1.0")
    let_share(calls, 2, units="3 5")
    let_wait(calls, 3, units="1 5")
    got = fields(calls)
    check_equal(sorted(name for name in got if not name.startswith("rql_h:")),
                ["acq_id", "hst_id", "ini_ttl", "rql_nonce", "rql_used", "ts"])
    check_equal((got["acq_id"], got["hst_id"], got["rql_used"], got["rql_nonce"]),
                (SEVERAL, "rql:hst:shared/0/0/" + "0" * 32, "5", "shared"))
    first = field_of(calls, 1)
    check(first.startswith(f"{nonce(1)} 2 5 "), first)
    check("rql_tell" in first and "job" in first and "spc_cnt" not in first, first)
    check_equal(extend(calls, 1, 9000)[2], "9000")
    check_equal(calls.call("extend", nonce(1), 9000, RANDOM).split()[0], "0")


def test_a_full_server_extends_shares(calls):
    """Also one that was handed over, and one that is lowered."""
    calls.acquire(1, f"q{WAITS}", ttl_ms=5000)
    let_wait(calls, 2, 3)
    with calls.full():
        check_equal(refusal(share, calls, 4)[:3], "OOM")
        check_equal(extend(calls, 1)[0], "1")
    calls.release(1)
    poll(calls, 3, calls.ask("ZSCORE", QUEUE, acquirer(3)).replace(".", ""))
    check("c" in [field_of(calls, number).split()[5] for number in (2, 3)], "no share was handed over")
    calls.pass_ms(500)
    with calls.full():
        check_equal([extend(calls, number)[2] for number in (2, 3)], [str(TTL_MS)] * 2)
    calls.pass_ms(2000)
    check_equal([extend(calls, number)[0] for number in (2, 3)], ["1", "1"])


def test_the_limit_is_that_of_each_request(calls):
    let_share(calls, 1, 2, 3, units="1 5")
    check_equal(share(calls, 4, "1 3", "qwf 0 0 -1")[0], "2")
    let_share(calls, 5, units="1 4")
    check_equal(share(calls, 6, "2 5", "qwf 0 0 -1")[0], "2")


def test_a_lock_of_several_ends_with_its_last_share(calls):
    let_share(calls, 1, ttl_ms=60000)
    let_share(calls, 2, 3, ttl_ms=5000)
    check_equal(calls.ask("PTTL", LOCK), 60000)
    check_equal((leave(calls, 1), calls.ask("PTTL", LOCK), calls.ask("PTTL", SHARES)), ("2 0", 5000, 5000))
    extend(calls, 2, 9000)
    check_equal((calls.ask("PTTL", LOCK), calls.ask("PTTL", SHARES)), (9000, 9000))
    calls.pass_ms(9001)
    check_equal(calls.ask("EXISTS", LOCK, SHARES), 0)


def test_a_lock_of_several_is_not_extended_by_force(calls):
    let_share(calls, 1, 2, ttl_ms=5000)
    check_equal(calls.call("force_extend", 60000), 1)
    check_equal(calls.ask("PTTL", LOCK), 5000)
    calls.call("force_extend", -3000)
    check_equal((calls.ask("PTTL", LOCK), calls.ask("PTTL", SHARES)), (2000, 5000))
    let_share(calls, 3, ttl_ms=4000)
    check_equal([calls.ask("PTTL", key) for key in (LOCK, SHARES)], [4000, 4000])


def test_shares_that_are_renewed_live_on_in_a_lock_whose_end_was_moved(calls):
    """By Ruby: the shares end with their own key, which the renewals keep."""
    let_share(calls, 1, 2, ttl_ms=5000)
    calls.ask("PEXPIRE", LOCK, 65000)
    for _ in range(4):
        calls.pass_ms(1700)
        check_equal([extend(calls, number, 5000)[0] for number in (1, 2)], ["1", "1"])
    check_equal([calls.ask("PTTL", key) for key in (LOCK, SHARES)], [5000, 5000])


def test_the_end_of_a_lock_of_several_is_now(calls):
    """PEXPIRE of 0 deletes it, and what is written then has no ttl."""
    let_share(calls, 1, ttl_ms=1000)
    calls.pass_ms(1000)
    let_share(calls, 2)
    check_equal((calls.ask("PTTL", LOCK), calls.ask("PTTL", SHARES)), (TTL_MS, TTL_MS))
    let_share(calls, 3, ttl_ms=60000)
    calls.pass_ms(TTL_MS)
    check_equal((leave(calls, 3), calls.ask("EXISTS", LOCK, SHARES)), ("2 0", 0))


def test_a_writer_waits_for_all_and_no_reader_passes_it(calls):
    let_share(calls, 1)
    let_share(calls, 2, ttl_ms=5000)
    check_equal(calls.acquire(3, f"q{WAITS}")[0], 0)
    calls.pass_ms(1)
    let_wait(calls, 4)
    check_equal(leave(calls, 2), "2 0")
    check_equal(leave(calls, 1), "2 1")
    calls.check_holder(3)
    check_equal([number for number, _ in calls.heard()], [3])
    check_equal(calls.release(3), "1 1")
    calls.check_holder(4)


def test_a_writer_that_leaves_lets_the_next_reader_poll(calls):
    """Whether one or several share the lock."""
    for sharers in ((1,), (1, 5)):
        calls.begin()
        let_share(calls, *sharers)
        calls.acquire(2, f"q{WAITS}")
        calls.pass_ms(1)
        (place,) = let_wait(calls, 3)
        calls.heard()
        check_equal(calls.leave(2), "1 0")
        check_equal(calls.told_to_look(), [3])
        check_equal(poll(calls, 3, place)[0], "1")


def test_readers_behind_a_writer_come_in_together(calls):
    calls.acquire(1, f"q{WAITS}")
    places = let_wait(calls, 2, 3, 4, 5)
    calls.acquire(6, f"q{WAITS}")
    calls.pass_ms(1)
    let_wait(calls, 7)
    calls.heard()
    calls.release(1)
    told = calls.heard()
    check_equal([number for number, said in told if not said.endswith(" look")], [2])
    check_equal([number for number, said in told if said.endswith(" look")], [3])
    check_equal(poll(calls, 3, places[1])[0], "1")
    check_equal([number for number, _ in calls.heard()], [4, 5])
    check_equal(calls.ask("ZRANGE", QUEUE, 0, -1), [acquirer(6), acquirer(7)])


def test_a_newcomer_that_takes_a_free_lock_admits_those_behind_it(calls):
    calls.acquire(1, f"q{WAITS}")
    let_wait(calls, 2, 3)
    calls.ask("DEL", LOCK, QUEUE)
    calls.heard()
    told = share(calls, 4)
    check_equal(told[0], "0")
    calls.check_holder(2)
    check_equal(sorted(number for number, _ in calls.heard()), [2, 3])


def test_a_newcomer_that_removes_ended_shares_admits_those_in_front_of_it(calls):
    let_share(calls, 1, units="1 2")
    let_share(calls, 2, units="1 2", ttl_ms=100)
    let_wait(calls, 3, 4, units="1 2")
    calls.pass_ms(100)
    calls.heard()
    check_equal(share(calls, 5, "1 2")[0], "0")
    check_equal([number for number, _ in calls.heard()], [3])
    check_equal(calls.ask("ZRANGE", QUEUE, 0, -1), [acquirer(4), acquirer(5)])


def test_an_acquirer_that_shares_the_lock_and_wants_it_alone_is_refused(calls):
    let_share(calls, 1)
    for conflict in "ted":
        words = acquirer(1), host(1), TTL_MS, nonce(8), NEVER, f"q{conflict}- -1 0 -1 {RANDOM}"
        check_equal(calls.call("acquire", *words)[0], "4")
    check_equal(calls.call("acquire_series", acquirer(1), host(1), TTL_MS, nonce(8) + nonce(9), NEVER,
                           f"qt- -1 0 -1 {RANDOM}", n_locks=2)[0], 4)
    check_equal(calls.ask("EXISTS", RECORDS, QUEUE, "rql:lock:b"), 0)


def test_an_acquirer_that_shares_the_lock_and_asks_again_gets_its_share(calls):
    for others in (0, 1):
        calls.begin()
        first = share(calls, 1)
        let_share(calls, *range(2, 2 + others))
        for conflict in "te":
            again = share(calls, 1, "9 4096", f"q{conflict}- -1 0 -1", own_nonce=nonce(8))
            check_equal((again[0], again[3], again[4], again[6]), ("1", first[3], "1", nonce(1)))
        check_equal(share(calls, 1, how="qd- -1 0 -1", own_nonce=nonce(8))[0], "4")
        check_equal(share(calls, 1, how="qw- -1 0 -1", own_nonce=nonce(8))[0], "0")
        check_equal(calls.leave(1), "2 1" if not others else "0 0")


def test_a_holder_that_asks_to_share_gets_what_it_has(calls):
    token = str(calls.acquire(1, f"q{WAITS}")[3])
    again = share(calls, 1, how="qt- -1 0 -1", own_nonce=nonce(8))
    check_equal((again[3], again[4], again[6], "rql_share" in fields(calls)), (token, "1", nonce(1), False))


def test_a_series_waits_for_all_who_share(calls):
    let_share(calls, 1, 2)
    check_equal(calls.acquire_series(3, "qw- -1 0 -1", n_locks=2)[0], 0)
    calls.pass_ms(1)
    let_wait(calls, 4)
    leave(calls, 1)
    calls.heard()
    leave(calls, 2)
    check_equal(calls.told_to_look(), [3])
    check_equal(calls.acquire_series(3, "qw- -1 1 -1", n_locks=2)[0], 1)


def test_a_sharer_that_holds_something_passes_a_series_that_waits(calls):
    calls.acquire(9, f"q{WAITS}")
    calls.ask("HSET", "rql:lock:b", "acq_id", acquirer(8), "rql_nonce", nonce(8), "rql_token", "5")
    calls.ask("PEXPIRE", "rql:lock:b", TTL_MS)
    check_equal(calls.acquire_series(3, "qw- -1 0 -1", n_locks=2)[0], 0)
    calls.pass_ms(1)
    let_wait(calls, 4, how=f"Q{WAITS}")
    check_equal(calls.ask("HGET", RECORDS, "holders"), "1")
    (place,) = let_wait(calls, 5)
    calls.release(9)
    calls.check_holder(4)
    check_equal(calls.told_to_look(), [3])
    check_equal(poll(calls, 5, place)[0], "0")
    check_equal(calls.ask("HGET", RECORDS, "holders"), None)


def test_ruby_waits_until_all_have_left(calls):
    let_share(calls, 1, 2)
    let_ruby_wait(calls)
    let_wait(calls, 3)
    leave(calls, 1)
    leave(calls, 2)
    check_equal(calls.ask("EXISTS", LOCK), 0)
    check_equal(calls.told_to_look(), [3])


def test_a_dead_ruby_keeps_sharers_out_for_seventeen_seconds(calls):
    let_share(calls, 1, 2, ttl_ms=60000)
    let_ruby_wait(calls)
    (place,) = let_wait(calls, 3)
    for passed_ms, is_there in ((14900, 1), (99, 0)):
        calls.pass_ms(passed_ms)
        check_equal(poll(calls, 3, place)[0], "0")
        check_equal(calls.ask("ZCARD", QUEUE), 1 + is_there)
    check_equal(poll(calls, 3, place)[2], "2000")
    let_wait(calls, 4)
    calls.pass_ms(1998)
    check_equal(poll(calls, 3, place)[::2][:2], ["0", "1"])
    leave(calls, 2)
    check_equal(calls.heard(), [])
    calls.pass_ms(1)
    check_equal(poll(calls, 3, place)[0], "1")
    check_equal(admitted(calls), [(4, [])])


def test_a_live_ruby_returns_to_its_place_beside_sharers(calls):
    let_share(calls, 1, 2, ttl_ms=60000)
    at = calls.now_us / 1000000
    let_ruby_wait(calls)
    (place,) = let_wait(calls, 3)
    calls.pass_ms(15000)
    check_equal((poll(calls, 3, place)[0], calls.ask("ZCARD", QUEUE)), ("0", 1))
    calls.pass_ms(200)
    calls.ask("ZADD", QUEUE, "NX", at, RUBY)
    calls.pass_ms(14000)
    check_equal((poll(calls, 3, place)[0], calls.ask("ZRANK", QUEUE, RUBY)), ("0", 0))
    leave(calls, 1)
    leave(calls, 2)
    check_equal(calls.ask("EXISTS", LOCK), 0)
    check_equal(poll(calls, 3, place)[0], "0")  # its turn is whole


def test_a_ruby_that_gives_up_beside_sharers_keeps_nobody_out(calls):
    let_share(calls, 1, 2, ttl_ms=60000)
    let_ruby_wait(calls)
    (place,) = let_wait(calls, 3)
    calls.ask("ZREM", QUEUE, RUBY)
    check_equal(poll(calls, 3, place)[0], "1")


def test_a_permit_that_ends_lets_the_next_come_in(calls):
    let_share(calls, 1, units="1 2", ttl_ms=5000)
    let_share(calls, 2, units="1 2", ttl_ms=9000)
    told = share(calls, 3, "1 2")
    check_equal(told[2], "5000")
    calls.pass_ms(5001)
    check_equal(poll(calls, 3, told[7], "1 2")[0], "1")
    check_equal(calls.ask("HGET", LOCK, "rql_used"), "2")
    check_equal(leave(calls, 1), "0 0")


def test_shares_that_have_ended_are_removed_by_pages(calls):
    """An acquirer whose own share is not removed yet has to ask again."""
    let_share(calls, 1, 2, ttl_ms=60000)
    template = field_of(calls, 2)[32:]
    for number in range(100, 500):
        calls.ask("ZADD", SHARES, calls.now_us - 1000 + number, acquirer(number))
        calls.ask("HSET", LOCK, "rql_h:" + acquirer(number), nonce(number) + template)
    calls.ask("HINCRBY", LOCK, "rql_used", 400)
    check_equal(share(calls, 499)[0], "6")
    check_equal((calls.ask("HGET", LOCK, "rql_used"), calls.ask("ZCARD", SHARES)), ("202", 202))
    let_share(calls, 499)
    check_equal((calls.ask("HGET", LOCK, "rql_used"), calls.ask("ZCARD", SHARES)), ("3", 3))


def test_twenty_a_call_are_admitted_and_the_next_is_told_to_poll(calls):
    calls.acquire(1, f"q{WAITS}")
    let_wait(calls, *range(2, 60))
    calls.server.set_subscribed({f"{number:032d}" for number in range(1, 60)})
    calls.release(1)
    to_poll, n_calls = calls.told_to_look(), 0
    while to_poll:
        check_equal(len(to_poll), 1)
        poll(calls, to_poll[0], 1)
        n_calls += 1
        to_poll = calls.told_to_look()
    check_equal((calls.ask("HGET", LOCK, "rql_used"), n_calls), ("58", 3))
    calls.server.set_subscribed({f"{number:032d}" for number in range(1, N_CLIENTS + 1)})


def test_one_call_passes_thirty_dead_or_ten_that_receive_nothing(calls):
    """A poll is repeated then; a release leaves the rest to the next poll."""
    for wait_ms, n_left in ((5100, 50 - 30), (0, 50 - 10)):
        calls.begin()
        let_share(calls, 1, 2, units="1 2", ttl_ms=60000)
        let_wait(calls, *range(100, 150), units="1 2")
        (place,) = let_wait(calls, 3, units="1 2")
        if wait_ms:
            calls.pass_ms(wait_ms)
            check_equal((poll(calls, 3, place, "1 2")[0], calls.ask("ZCARD", QUEUE)), ("6", n_left + 1))
            check_equal((poll(calls, 3, place, "1 2")[0], calls.ask("ZCARD", QUEUE)), ("0", 1))
            check_equal(leave(calls, 1), "2 1")
        else:
            check_equal((leave(calls, 1), calls.ask("ZCARD", QUEUE)), ("2 0", n_left + 1))
        calls.heard()


def test_nothing_is_admitted_in_a_pause(calls):
    let_share(calls, 1, 2)
    calls.ask("SET", "rql:fence", f"q {calls.now_us + 5000000} {calls.now_us}")
    told = share(calls, 3)
    check_equal((told[0], told[2]), ("0", "5000"))
    check_equal(share(calls, 4, how="rw- -1 0 -1")[0], "0")
    check_equal(leave(calls, 2), "2 0")
    check_equal(extend(calls, 1)[0], "1")
    calls.pass_ms(5001)
    check_equal(poll(calls, 3, told[7])[0], "1")


def test_nobody_leaves_the_queue_in_a_pause(calls):
    """Behind the outage of a server all look dead until they poll."""
    let_share(calls, 1, 2, ttl_ms=60000)
    calls.ask("SET", "rql:fence", f"q {calls.now_us + 20000000} {calls.now_us}")
    check_equal(share(calls, 3)[0], "0")
    calls.pass_ms(6000)
    check_equal((leave(calls, 2), calls.ask("ZCARD", "rql:lock_queue:a")), ("2 0", 1))


def test_a_request_that_passes_the_queue_joins_those_who_share(calls):
    let_share(calls, 1)
    calls.acquire(2, f"q{WAITS}")
    check_equal(share(calls, 3, how="rw- -1 0 -1")[0], "1")
    check_equal(share(calls, 4, "4095 4096", how="rw- -1 0 -1")[0], "0")
    check_equal(calls.ask("HGET", RECORDS, "random"), None)
    calls.leave(2)
    check_equal(calls.told_to_look(), [4])


def test_a_lock_held_alone_is_lowered_and_the_next_come_in(calls):
    calls.acquire(1, f"q{WAITS}")
    (place,) = let_wait(calls, 2)
    calls.heard()
    check_equal(extend(calls, 1)[0], "1")
    check_equal(calls.told_to_look(), [2])
    check_equal(poll(calls, 2, place)[0], "1")
    check_equal((extend(calls, 1)[0], calls.told_to_look()), ("1", []))
    check_equal(leave(calls, 1), "2 0")


def test_a_lock_whose_ttl_a_reentry_has_extended_is_not_lowered(calls):
    calls.acquire(1, f"q{WAITS}")
    words = acquirer(1), host(1), 1000, nonce(8), NEVER, f"qe- -1 0 -1 {RANDOM}"
    check_equal(calls.call("acquire", *words).split()[4], "2")
    check_equal((extend(calls, 1)[0], "rql_share" in fields(calls)), ("4", False))


def test_a_lock_that_is_lowered_is_shared_with_one_whose_place_others_removed(calls):
    calls.acquire(1, f"q{WAITS}")
    let_wait(calls, 2)
    calls.ask("DEL", QUEUE)
    calls.heard()
    extend(calls, 1)
    check_equal(calls.told_to_look(), [2])


def test_a_foreign_type_is_an_error_before_anything_is_done(calls):
    calls.ask("SET", LOCK, "x")
    check("WRONGTYPE" in refusal(share, calls, 1), "no error")
    for key in (QUEUE, RECORDS):
        calls.begin()
        let_share(calls, 1)
        calls.ask("SET", key, "x")
        check("WRONGTYPE" in refusal(share, calls, 2), "no error")
        check("WRONGTYPE" in refusal(share, calls, 2, how="rw- -1 0 -1"), "no error")
        check_equal("rql_used" in fields(calls), False)


def test_a_share_is_given_back_beside_keys_of_a_foreign_type(calls):
    for key in (QUEUE, RECORDS):
        calls.begin()
        let_share(calls, 1, 2)
        let_wait(calls, 3, units="4096 4096")
        calls.ask("SET", key, "x")
        check_equal((leave(calls, 1), leave(calls, 2), leave(calls, 2)), ("2 0", "2 0", "0 0"))
        check_equal(calls.ask("EXISTS", LOCK, SHARES), 0)


def test_a_lock_is_not_lowered_beside_a_key_of_a_foreign_type(calls):
    """Its holder gets an error, and has it as before."""
    for key in (QUEUE, RECORDS):
        calls.begin()
        calls.acquire(1, f"q{WAITS}", ttl_ms=5000)
        let_wait(calls, 2)
        calls.ask("SET", key, "x")
        check("WRONGTYPE" in refusal(extend, calls, 1), "no error")
        check_equal((calls.ask("HEXISTS", LOCK, "rql_share"), calls.ask("PTTL", LOCK)), (0, 4999))


def test_what_ruby_unlocks_ends_for_all_and_counts_no_more(calls):
    let_share(calls, 1, 2, units="1 8s")
    calls.ask("DEL", LOCK)
    let_share(calls, 3, units="1 8s")
    check_equal(slots_in(share(calls, 4, "1 8s")), "1")
    check_equal(calls.ask("ZCARD", SHARES), 2)
    check_equal((extend(calls, 1)[0], leave(calls, 2), leave(calls, 2)), ("0", "0 0", "0 0"))
    check_equal(calls.ask("HGET", LOCK, "rql_used"), "2")


def test_an_extension_shortens_nothing(calls):
    for others in (0, 1):
        calls.begin()
        let_share(calls, 1, ttl_ms=9000)
        let_share(calls, *range(2, 2 + others), ttl_ms=20000)
        check_equal(extend(calls, 1, 1000)[2], "9000")
        calls.pass_ms(1500)
        check_equal(extend(calls, 1, 1000)[::2], ["1", "7500"])


def test_a_share_that_has_ended_is_not_extended(calls):
    let_share(calls, 1, ttl_ms=3000)
    let_share(calls, 2, ttl_ms=20000)
    calls.pass_ms(3000)
    check_equal(extend(calls, 1, 9000)[0], "0")


def test_an_extension_that_finds_the_lock_free_serves_it(calls):
    let_share(calls, 1, ttl_ms=3000)
    calls.acquire(2, f"q{WAITS}")
    calls.pass_ms(3001)
    check_equal(extend(calls, 1)[0], "0")
    calls.check_holder(2)


def test_calls_of_an_earlier_request_change_nothing(calls):
    let_share(calls, 1)
    for others in (0, 1):
        let_share(calls, *range(2, 2 + others))
        told = calls.call("extend_shared", acquirer(1), nonce(8), 60000, RANDOM, READER)
        check_equal((told[0], calls.call("leave_shared", acquirer(1), nonce(8), RANDOM)), ("0", "0 0"))
        check_equal(extend(calls, 1)[0], "1")
    check_equal((leave(calls, 1), leave(calls, 1)), ("2 0", "0 0"))


def test_ttl_is_checked_before_the_first_write(calls):
    for wrong in ("1e3", "0", "2592000001", "x"):
        for told in (refusal(share, calls, 1, ttl_ms=wrong), refusal(extend, calls, 1, wrong)):
            check("ttl out of range" in told, told)
    check_equal(calls.ask("DBSIZE"), 0)


def test_a_claim_stays_one_when_others_come(calls):
    calls.acquire(1, f"q{WAITS}")
    places = let_wait(calls, 2, 3, 4)
    calls.release(1)
    check_equal(poll(calls, 3, places[1])[0], "1")
    check_equal([field_of(calls, number).split()[5] for number in (2, 3, 4)], ["c", "-", "c"])
    check_equal(calls.ask("ZSCORE", SHARES, acquirer(4)), str(calls.now_us + 1000000))
    told = poll(calls, 2, places[0])
    check_equal((told[0], told[2], told[5]), ("1", str(TTL_MS), "1"))
    check_equal(extend(calls, 4)[::2], ["1", str(TTL_MS)])
    check_equal([field_of(calls, number).split()[5] for number in (2, 3, 4)], ["-", "-", "-"])


def test_the_dead_are_not_admitted(calls):
    let_share(calls, 1, 2, units="1 2", ttl_ms=60000)
    _, place = let_wait(calls, 3, 4, units="1 2")
    calls.pass_ms(4000)
    poll(calls, 4, place, "1 2")
    calls.pass_ms(1500)
    calls.heard()
    check_equal(leave(calls, 1), "2 1")
    check_equal(admitted(calls), [(4, [])])
    check_equal(calls.ask("EXISTS", QUEUE, RECORDS), 0)


def test_the_first_sharer_has_the_first_slots_and_is_not_told(calls):
    check_equal(slots_in(share(calls, 1, "2 8s")), None)
    check_equal(fields(calls)["rql_share"], "2 8s")
    check_equal(slots_in(share(calls, 1, "2 8s")), "0,1")


def test_a_sharer_that_joins_has_the_lowest_free_slots(calls):
    let_share(calls, 1, units="2 8s")
    check_equal(slots_in(share(calls, 2, "1 8s")), "2")
    check_equal(slots_in(share(calls, 3, "3 8s")), "3,4,5")
    check_equal(fields(calls)["rql_slots"], "f3")
    check(field_of(calls, 1).startswith(nonce(1) + " 2:0,1 8 "), field_of(calls, 1))
    leave(calls, 2)
    for _ in range(2):
        check_equal(slots_in(share(calls, 4, "2 8s")), "2,6")
    check_equal(slots_in(share(calls, 1, "2 8s")), "0,1")
    leave(calls, 1)
    leave(calls, 3)
    check_equal(fields(calls)["rql_slots"], "44")
    check_equal(slots_in(share(calls, 5, "6 8s")), "0,1,3,4,5,7")


def test_a_request_without_slots_takes_units_and_no_slot(calls):
    let_share(calls, 1, units="2 4")
    check_equal(slots_in(share(calls, 2, "1 4s")), "0")
    check_equal(slots_in(share(calls, 3, "1 4")), None)
    let_wait(calls, 4, units="1 4s")
    leave(calls, 1)
    calls.heard()
    check_equal(slots_in(share(calls, 4, "1 4s")), "1")


def test_a_request_has_slots_below_its_own_limit(calls):
    let_share(calls, *range(1, 9), units="1 8s")
    for number in (1, 2, 5, 6, 7):
        leave(calls, number)
    check_equal(slots_in(share(calls, 9, "2 5s")), "0,1")
    let_wait(calls, 1, units="1 5s")


def test_slots_of_the_dead_are_free_after_their_end(calls):
    let_share(calls, 1, 3, units="1 3s", ttl_ms=3000)
    let_share(calls, 2, units="1 3s", ttl_ms=20000)
    told = share(calls, 4, "2 3s")
    check_equal(told[0], "0")
    calls.pass_ms(2999)
    check_equal(poll(calls, 4, told[7], "2 3s")[0], "0")
    calls.pass_ms(2)
    check_equal(slots_in(poll(calls, 4, told[7], "2 3s")), "0,1")


def test_a_waiter_that_is_admitted_is_told_its_slots(calls):
    let_share(calls, 1, 2, units="1 2s")
    let_wait(calls, 3, 4, units="1 2s")
    calls.heard()
    check_equal(leave(calls, 1), "2 1")
    check_equal(admitted(calls), [(3, ["0"])])
    check_equal(slots_in(share(calls, 3, "1 2s")), "0")
    leave(calls, 2)
    check_equal(admitted(calls), [(4, ["1"])])


def test_the_owner_of_the_free_lock_is_told_no_slots_and_those_behind_are(calls):
    calls.acquire(1, f"q{WAITS}")
    places = let_wait(calls, 2, 3, 4, units="2 9s")
    calls.heard()
    calls.release(1)
    check_equal(admitted(calls), [(2, [])])
    check_equal(slots_in(poll(calls, 3, places[1], "2 9s")), "2,3")
    check_equal(admitted(calls), [(4, ["4,5"])])
    check_equal(slots_in(poll(calls, 2, places[0], "2 9s")), "0,1")


def test_a_waiter_that_receives_nothing_keeps_no_slot(calls):
    let_share(calls, 1, 2, units="1 2s")
    let_wait(calls, 30, 3, units="1 2s")
    calls.heard()
    check_equal(leave(calls, 1), "2 1")
    check_equal(admitted(calls), [(3, ["0"])])
    check_equal((fields(calls)["rql_slots"], fields(calls)["rql_used"]), ("3", "2"))
    check_equal(calls.ask("ZCARD", QUEUE), 0)


def test_slots_of_a_lock_that_is_lowered_are_the_first(calls):
    calls.acquire(1, f"q{WAITS}")
    extend(calls, 1, units="2 8s")
    check_equal(slots_in(share(calls, 2, "1 8s")), "2")
    extend(calls, 1, units="2 8s")
    check_equal(slots_in(share(calls, 1, "2 8s")), "0,1")
    leave(calls, 2)
    check_equal(slots_in(share(calls, 2, "1 8s")), "2")


def test_an_acquirer_that_enters_again_is_told_the_slots_that_it_has(calls):
    for first, wanted in (("2 8s", "0,1"), ("2 8", None)):
        for others in (0, 1):
            calls.begin()
            let_share(calls, 1, units=first)
            let_share(calls, *range(2, 2 + others), units="1 8s")
            again = share(calls, 1, "1 8s", "qt- -1 0 -1", own_nonce=nonce(8))
            check_equal((again[4], slots_in(again)), ("1", wanted))


def test_a_sharer_is_counted_as_it_first_came_whatever_it_holds_later(calls):
    for before, after in ("qQ", "Qq"):
        calls.begin()
        calls.acquire(1, f"q{WAITS}")
        let_wait(calls, 2, how=f"{before}{WAITS}")
        let_wait(calls, 3, how=f"Q{WAITS}", units="4096 4096")
        calls.ask("DEL", LOCK)
        let_share(calls, 2, how=f"{after}{WAITS}")
        check_equal(calls.ask("HGET", RECORDS, "holders"), "1")


def test_metadata_is_kept_beside_slots(calls):
    calls.acquire(1, f"q{WAITS}")
    let_wait(calls, 2, units="1 8s", meta=("job", "s7"))
    (place,) = let_wait(calls, 3, units="1 8s", meta=[f"{i} s" for i in range(40)])
    let_wait(calls, 4, units="1 8s")
    calls.release(1)
    poll(calls, 3, place, "1 8s")
    check("job" in field_of(calls, 2) and "rql_share" not in field_of(calls, 2), field_of(calls, 2))
    check("39 s" in field_of(calls, 3) and "rql_share" not in field_of(calls, 3), field_of(calls, 3))
    check(field_of(calls, 4).endswith(host(4) + " "), field_of(calls, 4))


def test_the_largest_limit_of_slots(calls):
    for number in range(100, 116):
        let_share(calls, number, units="64 1024s")
    check_equal(share(calls, 1, "1 1024s", "qwf 0 0 -1")[0], "2")
    leave(calls, 101)
    leave(calls, 115)
    check_equal(slots_in(share(calls, 2, "63 1024s")), ",".join(map(str, range(64, 127))))
    check_equal(slots_in(share(calls, 3, "2 1024s")), "127,960")


def test_a_lock_of_several_is_swept_as_a_whole_or_by_acquirer(calls):
    let_share(calls, 1, 2, units="1 2s")
    let_wait(calls, 3, units="1 2s")
    calls.heard()
    check_equal(calls.call("sweep_lock", acquirer(1), host(1), 0, RANDOM), "0 0")
    check_equal(calls.call("sweep_share", acquirer(1), host(2), 0, RANDOM), "0 0")
    check_equal(calls.call("sweep_share", acquirer(1), host(1), 1, RANDOM), "1 0")
    check_equal(calls.call("sweep_share", acquirer(1), host(1), 0, RANDOM)[:4], [1, 1, acquirer(1), nonce(1)])
    check_equal(admitted(calls), [(3, ["0"])])
    calls.acquire(4, f"q{WAITS}")
    check_equal(calls.call("sweep_lock", "", "", 0, RANDOM)[:4], [1, 1, SEVERAL, "shared"])
    calls.check_holder(4)


def test_the_last_share_that_is_swept_hands_over_the_lock(calls):
    let_share(calls, 1, 2)
    begun_us = calls.now_us
    calls.acquire(3, f"q{WAITS}")
    leave(calls, 2)
    calls.pass_ms(3)
    check_equal(calls.call("sweep_share", acquirer(1), host(1), 0, RANDOM),
                [1, 1, acquirer(1), nonce(1), str(begun_us), str(calls.now_us), "3000", "", "1"])
    calls.check_holder(3)


def test_shares_of_dead_hosts_are_flushed_page_by_page(calls):
    let_share(calls, *range(100, 190))
    let_share(calls, 1, 2)
    calls.acquire(3, f"q{WAITS}")
    for number in range(100, 190, 2):
        let_die(calls, number)
    check_equal(calls.call("flush_lock", RANDOM), "0 0")
    check_flushed_in_pages(calls, 45)
    check_equal((calls.ask("HGET", LOCK, "rql_used"), calls.ask("ZCARD", SHARES)), ("47", 47))


def check_flushed_in_pages(calls, n_dead, act=lambda: None):
    """So many shares are ended in several pages, though sharers act between two pages."""
    cursor, pages, removed = 0, 0, 0
    while cursor != -1:
        n_gone, served, cursor, _, *shares = calls.call("flush_shares", cursor, RANDOM)
        pages, removed = pages + 1, removed + n_gone
        check_equal((len(shares), served), (n_gone and 1 + 3 * n_gone, 0))
        act()
    check_equal(removed, n_dead)
    check(pages > 1, "there is one page")


def test_a_flush_finds_the_shares_of_dead_hosts_behind_shares_that_have_ended(calls):
    let_share(calls, *range(100, 160), ttl_ms=300)
    let_share(calls, *range(160, 300))
    for number in range(160, 300):
        let_die(calls, number)
    let_share(calls, 1)
    calls.pass_ms(301)
    check_flushed_in_pages(calls, 140)
    check_equal(calls.ask("ZRANGE", SHARES, 0, -1), [acquirer(1)])


def test_a_flush_finds_the_shares_of_dead_hosts_while_others_are_renewed(calls):
    living = range(100, 140)
    let_share(calls, *living)
    let_share(calls, *range(140, 200), ttl_ms=60000)
    for number in range(140, 200):
        let_die(calls, number)

    def renew():
        calls.pass_ms(1)
        for number in living:
            check_equal(extend(calls, number, 90000)[0], "1")

    check_flushed_in_pages(calls, 60, renew)
    check_equal(sorted(calls.ask("ZRANGE", SHARES, 0, -1)), [acquirer(number) for number in living])


def check_flush(calls, numbers, *sharers):
    """These had shares on dead hosts: the answer says which, in any order."""
    had = [calls.ask("HGET", LOCK, f"rql_h:{acquirer(one)}").split(" ") for one in sharers]
    told = calls.call("flush_shares", 0, RANDOM)
    check_equal(told[:5], [*numbers, str(calls.now_us)])
    check_equal(sorted(zip(*[iter(told[5:])] * 3)),
                sorted((acquirer(one), field[3], "1") for one, field in zip(sharers, had)))


def test_the_units_of_dead_hosts_go_to_waiters_or_the_lock_does(calls):
    let_share(calls, 1, 2, units="1 2s")
    let_wait(calls, 3, units="1 2s")
    let_die(calls, 2)
    calls.heard()
    check_flush(calls, [1, 1, -1, 2], 2)
    check_equal(admitted(calls), [(3, ["1"])])
    let_die(calls, 1)
    let_die(calls, 3)
    calls.acquire(4, f"q{WAITS}")
    check_flush(calls, [2, 1, -1, 2], 1, 3)
    calls.check_holder(4)
    check_equal(calls.call("flush_shares", 0, RANDOM), [0, 0, -1, 0])
    calls.ask("DEL", LOCK)
    let_share(calls, 1, 2)
    calls.ask("DEL", LOCK)  # Ruby's unlock
    check_equal(calls.call("flush_shares", 0, RANDOM), [0, 0, -1, 2])


if __name__ == "__main__":
    main()
