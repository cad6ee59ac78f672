#!/usr/bin/env python3
"""What scripts do with arguments and keys that no call of the library sends or makes.

Usage: test_scripts.py PRELOAD
"""

import itertools

from calls import NEVER, RANDOM, acquirer, check, check_equal, host, main, nonce, refusal

ONCE = "qw- 1000 0 1000"
QUEUED = "qw- -1 0 -1"
AGES_MS = 10 ** 15
MAX_MS = 2592000000
OUR, OTHERS = 3, 4  # acquirers
CROWD, AT_ONCE = 60, 30
TURN_MS = 2000  # of all Rubies
LOCK, QUEUE, RECORDS = "rql:lock:a", "rql:lock_queue:a", "rql:req:a"
ASK_FOR_A = ("acquire", "acquire_series")


def ask_for(calls, script, number, **words):
    """For a, or for the series of a, b and c; whether it has it."""
    return (calls.acquire if script == "acquire" else calls.acquire_series)(number, ONCE, **words)[0] == 1


def test_ttl_is_checked_before_the_first_write(calls):
    """A lock without a ttl would be one for ever."""
    for wrong in ("1e3", "0x10", " 10", "10 ", "1000.0", "010", "0", "-5", "", "2592000001", "x", "nan", "1e400"):
        for told in (refusal(calls.acquire, OUR, ONCE, wrong), refusal(calls.acquire_series, OUR, ONCE, 1, wrong),
                     refusal(calls.call, "extend", nonce(OUR), wrong, RANDOM)):
            check("ttl out of range" in told, told)
        check_equal(calls.ask("DBSIZE"), 0)
    calls.acquire(OUR, ONCE, MAX_MS)
    check_equal(calls.ask("PTTL", LOCK), MAX_MS)


def test_ttl_of_ages_is_answered_in_digits(calls):
    """Somebody's idea of "for ever": the number must not be written with an exponent."""
    calls.ask("HSET", LOCK, "acq_id", "rql:acq:1/2/3/4/0123456789abcdef")
    calls.ask("PEXPIRE", LOCK, AGES_MS)
    check_equal(calls.acquire(OUR, ONCE)[:3], [0, calls.now_us, MAX_MS])


def enter_again(calls, ttl_ms, number=7):
    """By an extendable re-entry."""
    answer = calls.call("acquire", acquirer(OUR), host(OUR), ttl_ms, nonce(number), NEVER, f"qe- -1 0 -1 {RANDOM}")
    check_equal(answer.split()[4], "2")
    return int(answer.split()[2])


def test_no_lock_lives_for_longer_than_the_longest_ttl(calls):
    """However often it is entered again."""
    calls.acquire(OUR, ONCE, MAX_MS - 1500)
    check_equal((enter_again(calls, 1000), calls.ask("PTTL", LOCK)), (MAX_MS - 500, MAX_MS - 500))
    check_equal((enter_again(calls, 1000, 8), calls.ask("PTTL", LOCK)), (MAX_MS, MAX_MS))
    check_equal((enter_again(calls, MAX_MS, 9), calls.ask("PTTL", LOCK)), (MAX_MS, MAX_MS))


def test_what_has_a_ttl_of_ages_is_answered_no_more_than_the_longest(calls):
    """By a command by hand, for one: each script that answers what is left."""
    calls.acquire(OUR, ONCE, 1000)
    enter_again(calls, 1000)
    calls.ask("HDEL", LOCK, "rql_end")
    calls.ask("HSET", LOCK, "rql_token", 7)

    def left_of(script, *words):
        calls.ask("PEXPIRE", LOCK, AGES_MS)
        return calls.call(script, *words).split()[2]

    check_equal(left_of("extend", nonce(OUR), 1000, RANDOM), str(MAX_MS))
    check_equal(left_of("decrease", nonce(OUR), nonce(7), 500, RANDOM), str(MAX_MS))
    check_equal(left_of("transfer", nonce(9), RANDOM, acquirer(OUR), nonce(OUR), host(OUR), 1000, 7), str(MAX_MS))
    calls.ask("PEXPIRE", LOCK, MAX_MS - 500)
    check_equal((calls.call("force_extend", MAX_MS), calls.ask("PTTL", LOCK)), (1, MAX_MS))


def test_a_full_server_takes_heartbeats_of_hosts(calls):
    """Else it would lose what its living hosts hold."""
    calls.call("swarm_probe", 1, 0, host(OUR))
    calls.pass_ms(1000)
    with calls.full():
        check_equal(calls.call("swarm_probe", 1, 1, host(OTHERS), host(OUR)), [calls.now_us, 0])
    check_equal({float(seconds) for seconds in calls.ask("HVALS", "rql:swarm:hsts")}, {calls.now_us / 1000000})


def test_a_full_server_lets_a_swarm_flush(calls):
    """And a flush by hand. Else the locks of dead hosts would fill it for good."""
    dead = [host(OUR), "5.5"]
    calls.acquire(OUR, ONCE, MAX_MS)
    for me, looks in (("", [dead]), ("me", [[], dead])):
        calls.ask("HSET", "rql:swarm:hsts", *dead)
        with calls.full():
            for found in looks:
                check_equal(calls.call("swarm_look", me, 10000, 15000000, 7500000 if me else 0, "0"), [1, "0", *found])
                calls.pass_ms(7500)
        calls.ask("DEL", "rql:swarm:suspects")
    with calls.full():
        calls.call("swarm_look", "", 10000, 15000000, 0, "0")
        check_equal(calls.call("flush_lock", RANDOM)[0], 1)
        check_equal(calls.call("swarm_remove", host(OUR)), [1, 0])


def test_heartbeats_of_clients_end(calls):
    """Each by itself after a while, and all of them behind the last one."""
    live, kept_ms, forgotten_ms = "rql:live", 60000, 50000
    calls.acquire(OUR, ONCE, MAX_MS)
    calls.acquire(OTHERS, QUEUED)
    check_equal(calls.ask("PTTL", live), kept_ms)
    calls.pass_ms(10000)
    calls.acquire(OTHERS + 1, QUEUED)
    check_equal(calls.ask("PTTL", live), kept_ms)
    calls.pass_ms(10000)
    calls.acquire(OTHERS, f"qw- -1 {calls.now_us} -1")  # a poll
    check_equal((calls.ask("PTTL", live), calls.ask("ZCARD", live)), (kept_ms, 2))
    calls.pass_ms(forgotten_ms - 10000)
    calls.acquire(OTHERS, f"qw- -1 {calls.now_us} -1")
    check_equal(calls.ask("ZCARD", live), 1)
    calls.pass_ms(kept_ms + 1)
    check_equal(calls.ask("EXISTS", live), 0)


def test_suspicions_end(calls):
    """Whoever looks: who is elected, or somebody by hand."""
    suspects, ttl_us, wait_us = "rql:swarm:suspects", 15000000, 7500000
    kept_ms = 60000 + 20 * ttl_us // 1000

    def look(me, cursor="0"):
        return calls.call("swarm_look", me, 10000, ttl_us, wait_us if me else 0, cursor)

    check_equal((look("", "0"), calls.ask("EXISTS", suspects)), ([1, "0"], 0))
    check_equal((look("me"), calls.ask("PTTL", suspects)), ([1, "0"], kept_ms))
    calls.pass_ms(1000)
    check_equal((look("me"), calls.ask("PTTL", suspects)), ([1, "0"], kept_ms))
    calls.pass_ms(kept_ms + 1)
    check_equal(calls.ask("EXISTS", suspects), 0)
    calls.ask("HSET", "rql:swarm:hsts", host(OUR), "5.5")
    check_equal((look(""), calls.ask("PTTL", suspects)), ([1, "0", host(OUR), "5.5"], kept_ms))


def test_suspicions_of_hosts_that_ruby_has_removed_end(calls):
    """Next to a Ruby swarm there would be more and more of them. A verdict is reached all the same."""
    hosts, suspects, ttl_us, step_ms = "rql:swarm:hsts", "rql:swarm:suspects", 15000000, 3000
    calls.ask("HSET", hosts, host(OUR), "5.5")
    for i in range(100, 110):
        calls.ask("HSET", hosts, host(i), "5.5")
        calls.call("swarm_look", "me", 10000, ttl_us, ttl_us // 2, "0")
        calls.ask("HDEL", hosts, host(i))
        check(calls.ask("HLEN", suspects) <= 4, "old suspicions are left")
        calls.pass_ms(step_ms)
    for _ in range(4):
        answer = calls.call("swarm_look", "me", 10000, ttl_us, ttl_us // 2, "0")
        calls.pass_ms(step_ms)
    check_equal(answer, [1, "0", host(OUR), "5.5"])
    check(calls.ask("HLEN", suspects) <= 2, "old suspicions are left")


def test_one_at_a_time_looks_for_the_dead(calls):
    """Until its time is over, or it steps down."""
    flusher = "rql:swarm:flusher"

    def look(me, cursor="0"):
        return calls.call("swarm_look", me, 10000, 15000000, 7500000, cursor)

    check_equal((look("me"), look("you"), look("", "0")), ([1, "0"], [0], [1, "0"]))
    check_equal((calls.ask("GET", flusher), calls.ask("PTTL", flusher)), ("me", 10000))
    check_equal((look("you", ""), look("you", "-"), calls.ask("GET", flusher)), ([0], [0], "me"))
    calls.pass_ms(4000)
    check_equal((look("me", ""), calls.ask("PTTL", flusher)), ([1, "0"], 10000))  # renewed
    check_equal((look("me", "-"), calls.ask("EXISTS", flusher), look("you")), ([1, "0"], 0, [1, "0"]))
    calls.pass_ms(10001)
    check_equal((look("me"), look("you")), ([1, "0"], [0]))


def test_a_series_serves_no_more_dead_than_one_lock(calls):
    """No script is long: the dead of all queues together count. These are Rubies whose turn has lapsed."""
    for name in "abcdefgh":
        for i in range(CROWD):
            calls.ask("ZADD", f"rql:lock_queue:{name}", i, f"rql:acq:9/{i}/0/0/fedcba9876543210fedcba9876543210")
        calls.ask("HSET", f"rql:req:{name}", "ruby", f"{calls.now_us} {CROWD}000000 1 0 head")
    calls.pass_ms(TURN_MS)
    check_equal(calls.acquire_series(OUR, ONCE, n_locks=8)[0], 6)  # again
    check(AT_ONCE <= calls.n_calls("zrem") <= AT_ONCE + 8, f"it looks at {calls.n_calls('zrem')}")


def test_who_leaves_minds_no_foreign_key(calls):
    """An error would have it tried again and again."""
    record = f"{host(OUR)} 1000 {nonce(OUR)} 0 q "
    calls.ask("SET", QUEUE, "foreign")
    calls.ask("HSET", RECORDS, acquirer(OUR), record)
    check_equal((calls.leave(OUR), calls.ask("HLEN", RECORDS), calls.leave(OUR)), ("1 0", 0, "0 0"))
    calls.ask("FLUSHALL")
    calls.ask("SET", LOCK, "foreign")
    calls.ask("HSET", RECORDS, acquirer(OUR), record)
    calls.ask("ZADD", QUEUE, 1, acquirer(OUR))
    check_equal((calls.leave(OUR), calls.ask("DBSIZE")), ("1 0", 1))
    calls.ask("FLUSHALL")
    calls.ask("SET", RECORDS, "foreign")
    check_equal(calls.leave(OUR), "0 0")
    calls.ask("HSET", LOCK, "acq_id", acquirer(OUR), "rql_nonce", nonce(OUR))
    check_equal((calls.leave(OUR), calls.ask("DBSIZE")), ("2 0", 1))
    calls.ask("ZADD", QUEUE, 1, acquirer(OTHERS))
    check_equal((calls.leave(OUR), calls.ask("DBSIZE")), ("0 0", 2))


def test_what_ends_a_lock_says_so_beside_a_foreign_key(calls):
    """An error would hide that; and no waiter is served."""
    ends = {"release": (nonce(1),), "decrease": (nonce(1), nonce(7), 30000), "sweep_lock": ("", "", 0)}
    for key, script, random in itertools.product((QUEUE, RECORDS), ends, ("1", RANDOM)):
        calls.begin()
        let_three_wait(calls)
        calls.ask("HSET", LOCK, f"rql_ext:{nonce(7)}", 30000)
        calls.ask("SET", key, "foreign")
        told = calls.call(script, *ends[script], random)
        check_equal((script, [str(word) for word in (told.split() if isinstance(told, str) else told)[:2]]),
                    (script, ["1", "0"]))
        check_equal(calls.ask("EXISTS", LOCK), 0)


def test_a_hand_over_inside_a_client_beside_a_foreign_key(calls):
    """It is done or not: not by half."""
    words = nonce(1), RANDOM, acquirer(2), nonce(2), host(2), 30000, calls.now_us + 9
    let_three_wait(calls)
    calls.ask("SET", QUEUE, "foreign")
    check_equal(calls.call("transfer", *words), "4 0 30000")
    calls.check_holder(2)
    calls.begin()
    let_three_wait(calls)
    token = calls.ask("GET", "rql:fence")
    calls.ask("SET", RECORDS, "foreign")
    check("WRONGTYPE" in refusal(calls.call, "transfer", *words), "no error")
    calls.check_holder(1)
    check_equal(calls.ask("GET", "rql:fence"), token)


def test_a_grant_that_gets_no_ttl_is_an_error(calls):
    """Whoever asks, and however deep in its script: an error within an answer would be none. Another one lives, and
    nobody can grant for it: such a number is no time."""
    for script in ASK_FOR_A:
        calls.ask("FLUSHALL")
        calls.ask("ZADD", QUEUE, 1, acquirer(OTHERS))
        calls.ask("HSET", RECORDS, acquirer(OTHERS), f"{host(OTHERS)} 08 {nonce(OTHERS)} 0 q ")
        calls.ask("ZADD", "rql:live", calls.now_us, f"{OTHERS:032d}")
        refusal(ask_for, calls, script, OUR)
        check_equal((calls.ask("EXISTS", LOCK), calls.ask("ZRANK", QUEUE, acquirer(OTHERS))), (0, 0))


def test_a_sweep_deletes_the_lock_that_it_is_about(calls):
    """The script decides, in the same step: whatever the lock was when it was found, it may be another's by now."""
    begun_us = calls.now_us - 2500001
    fields = {"acq_id": acquirer(OUR), "hst_id": host(OUR), "ts": f"{begun_us // 10 ** 6}.{begun_us % 10 ** 6:06d}",
              "rql_nonce": nonce(OUR), "rql_token": "77", "reason": "a" * 600}
    held = ["77", str(calls.now_us), "2500001", "a" * 512]
    deleted = [1, 0, acquirer(OUR), nonce(OUR), *held]

    def check_delete(script, words, wanted, **changes):
        calls.ask("DEL", LOCK)
        calls.ask("HSET", LOCK, *(word for pair in (fields | changes).items() for word in pair))
        check_equal(calls.call(script, *words, RANDOM), wanted)
        check_equal(calls.ask("EXISTS", LOCK), int(wanted in ("0 0", "1 0")))
    check_delete("sweep_lock", (acquirer(OUR), host(OTHERS), 0), "0 0")
    check_delete("sweep_lock", (acquirer(OTHERS), host(OUR), 0), "0 0")
    check_delete("sweep_lock", (acquirer(OUR), host(OUR), 1), "1 0")  # a dry run
    check_delete("sweep_lock", (acquirer(OUR), host(OUR), 0), deleted)
    check_delete("sweep_lock", ("", "", 1), "1 0")
    check_delete("sweep_lock", ("", "", 0), deleted)
    check_delete("sweep_lock", ("", "", 0), [1, 0, "", nonce(OUR), *held], acq_id="x" * 513)
    check_equal(calls.call("sweep_lock", "", "", 0, RANDOM), "0 0")  # there is none
    calls.ask("HSET", LOCK, "acq_id", "of Ruby")
    check_equal(calls.call("sweep_lock", "", "", 0, RANDOM), [1, 0, "of Ruby", "", "-1", str(calls.now_us), "0", ""])
    check_delete("flush_lock", (), "0 0")
    calls.ask("HSET", "rql:swarm:hsts", host(OUR), "5.5")
    calls.ask("HSET", "rql:swarm:suspects", host(OUR), "1 S 5.5")
    check_delete("flush_lock", (), "0 0")
    calls.ask("HSET", "rql:swarm:suspects", host(OUR), "1 D 5.5")
    check_delete("flush_lock", (), "0 0", hst_id=host(OTHERS))
    check_delete("flush_lock", (), deleted)
    calls.ask("HSET", "rql:swarm:hsts", host(OUR), "6.5")  # it has come back
    check_delete("flush_lock", (), "0 0")


def test_an_operator_adds_up_to_30_days_and_shortens_no_longer_ttl(calls):
    """A lock of the gem's may have more."""
    calls.ask("HSET", LOCK, "acq_id", "of Ruby")
    for left_ms, add_ms, wanted_ms in ((1000, 5000, 6000), (MAX_MS - 1000, 5000, MAX_MS), (2 * MAX_MS, 5000, 2 * MAX_MS),
                                       (2 * MAX_MS, -5000, 2 * MAX_MS - 5000), (MAX_MS, -MAX_MS + 1, 1)):
        calls.ask("PEXPIRE", LOCK, left_ms)
        check_equal((calls.call("force_extend", add_ms), calls.ask("PTTL", LOCK)), (1, wanted_ms))


# ---- 2, 3 and 4 wait for what 1 holds ----

def let_three_wait(calls):
    """They live, hear, and stand behind each other."""
    for number in range(1, 5):
        check_equal(ask_for(calls, "acquire", number), number == 1)
        calls.pass_ms(1)
    check_equal(calls.ask("ZCARD", QUEUE), 3)


def test_each_request_and_each_poll_is_a_heartbeat(calls):
    """Whoever was silent for longer than five seconds is dead."""
    for n_polls, silent_ms, served in ((0, 5000, 1), (0, 5001, 0), (3, 4000, 1), (3, 5001, 0)):
        calls.ask("FLUSHALL")
        calls.acquire(1, ONCE, MAX_MS)
        score_us = calls.acquire(2, QUEUED)[7]
        for _ in range(n_polls):
            calls.pass_ms(4000)
            calls.acquire(2, f"qw- -1 {score_us} -1")
        calls.pass_ms(silent_ms)
        check_equal((calls.release(1), calls.ask("EXISTS", LOCK)), (f"1 {served}", served))


def test_a_re_entry_claims_what_was_handed_over(calls):
    """Nothing was heard of its owner before: it has the whole ttl from now on."""
    for script in ASK_FOR_A:
        calls.ask("FLUSHALL")
        let_three_wait(calls)
        calls.release(1)
        check_equal((calls.ask("HEXISTS", LOCK, "rql_claim"), calls.ask("PTTL", LOCK)), (1, 1000))
        words = acquirer(2), host(2), 30000, "".join(f"{500 + i:032d}" for i in range(3 if script != "acquire" else 1))
        calls.call(script, *words, 2 ** 53, f"qt- 1000 0 1000 {RANDOM}", n_locks=3 if script != "acquire" else 1)
        calls.check_holder(2)
        check_equal(calls.ask("HMGET", LOCK, "spc_cnt", "rql_claim"), ["1", None])
        check_equal(calls.ask("PTTL", LOCK), 30000)


def test_a_grant_tells_that_the_request_was_lost_with_its_queue(calls):
    calls.acquire(OUR, ONCE)
    score_us = calls.acquire(OTHERS, QUEUED)[7]
    calls.ask("FLUSHALL")
    check_equal(calls.acquire(OTHERS, f"qw- -1 {score_us} -1")[5], 2)


def test_a_request_of_an_earlier_version_is_served(calls):
    """Its record bears no place."""
    calls.acquire(OUR, ONCE)
    calls.ask("ZADD", QUEUE, 1, acquirer(OTHERS))
    calls.ask("HSET", RECORDS, acquirer(OTHERS), f"{host(OTHERS)} 1000 {nonce(OTHERS)} 0 q ")
    calls.ask("ZADD", "rql:live", calls.now_us, f"{OTHERS:032d}")
    calls.release(OUR)
    calls.check_holder(OTHERS)
    token = calls.ask("HGET", LOCK, "rql_token")
    check_equal([(who, said.split()[:2]) for who, said in calls.heard()], [(OTHERS, [nonce(OTHERS), token])])


def test_a_request_that_is_swept_leaves_no_record(calls):
    """Somebody clears it away: nothing of it stays, and the others stay."""
    let_three_wait(calls)
    for number in range(2, 5):
        check_equal(calls.call("sweep_request", acquirer(number), 1, RANDOM), "1 0")
        check_equal(calls.ask("ZCARD", QUEUE), 5 - number)
        check_equal(calls.call("sweep_request", acquirer(number), 0, RANDOM), "1 0")
        check_equal((calls.ask("ZCARD", QUEUE), calls.ask("HLEN", RECORDS)), (4 - number, 4 - number))


# ---- series ----

def check_whole_series(calls):
    check(ask_for(calls, "acquire_series", 5), "it has none")
    for i, name in enumerate("abc"):
        calls.check_holder(5 + 100 * i, name)
        check_equal(calls.ask("PTTL", f"rql:lock:{name}"), 30000)
        check(int(calls.ask("HGET", f"rql:lock:{name}", "rql_token")) > 0, "it has no token")
        check_equal(calls.ask("EXISTS", f"rql:lock_queue:{name}", f"rql:req:{name}"), 0)


def test_a_series_is_granted_as_a_whole(calls):
    """At once, and after any one of its locks was held when it came."""
    check_whole_series(calls)
    for name in "abc":
        calls.ask("FLUSHALL")
        calls.ask("HSET", f"rql:lock:{name}", "acq_id", acquirer(OTHERS))
        check(not ask_for(calls, "acquire_series", 5), "it has all")
        check_equal(calls.ask("EXISTS", "rql:lock:a", "rql:lock:b", "rql:lock:c"), 1)
        calls.ask("DEL", f"rql:lock:{name}")
        check_whole_series(calls)


if __name__ == "__main__":
    main()
