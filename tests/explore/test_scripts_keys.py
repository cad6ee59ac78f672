#!/usr/bin/env python3
"""What scripts touch, and on which channel they tell: lua/README.md 52."""

from calls import NEVER, RANDOM, SCRIPTS, acquirer, check_equal, host, main, nonce

QUEUED = "qw- -1 0 -1"
GONE = "5.5"  # the last heartbeat of a dead host


def let_wait(calls, *numbers):
    """For what the first holds."""
    for number in numbers:
        check_equal(calls.acquire(number, QUEUED)[0], int(number == numbers[0]))
        calls.pass_ms(1)


def let_die(calls, number):
    calls.ask("HSET", "rql:swarm:hsts", host(number), GONE)
    calls.ask("HSET", "rql:swarm:suspects", host(number), f"1 D {GONE}")


def shared(number):
    """The words of a request for one of two permits."""
    return (acquirer(number), host(number), 30000, nonce(number), NEVER, f"{QUEUED} {RANDOM}", "rql_share", "1 2")


# A call of each script that serves or tells somebody; all but the last two find the lock free.
TELLING = {
    "acquire": (acquirer(4), host(4), 30000, nonce(4), NEVER, f"{QUEUED} {RANDOM}"),
    "acquire_series": (acquirer(4), host(4), 30000, nonce(4), NEVER, f"{QUEUED} {RANDOM}"),
    "acquire_shared": shared(4),
    "decrease": (nonce(1), nonce(9), 1, RANDOM),
    "extend": (nonce(1), 30000, RANDOM),
    "extend_shared": (acquirer(1), nonce(1), 30000, RANDOM, "1 2"),
    "leave": (acquirer(1), nonce(1), RANDOM),
    "leave_shared": (acquirer(1), nonce(1), RANDOM),
    "release": (nonce(1), RANDOM),
    "sweep_queue": (0,),
    "sweep_request": (acquirer(3), 0, RANDOM),
    "transfer": (nonce(1), RANDOM, acquirer(3), nonce(3), host(3), 30000, 7),
    "flush_lock": (RANDOM,),
    "sweep_lock": (acquirer(1), host(1), 0, RANDOM),
}
ENDING_A_SHARE = {
    "flush_shares": (0, RANDOM),
    "leave_shared": (acquirer(1), nonce(1), RANDOM),
    "sweep_share": (acquirer(1), host(1), 0, RANDOM),
}


def test_the_next_one_is_told_where_it_listens(calls):
    """On a channel of the partition, where the keys are of one, and not on all nodes."""
    for script, words in TELLING.items():
        calls.begin()
        let_wait(calls, 1, 2, 3)
        if script in ("flush_lock", "sweep_lock"):
            let_die(calls, 1)
        else:
            calls.ask("DEL", "rql:lock:a")
        calls.call(script, *words)
        told = calls.heard()
        check_equal((script, sorted(number for number, _ in told)), (script, [2, 3] if script == "sweep_queue" else [2]))
        check_equal((calls.n_calls("publish"), calls.n_calls("spublish")),
                    (0, len(told)) if calls.server.is_partition else (len(told), 0))
        if script != "sweep_queue":
            calls.check_holder(2)


def test_the_next_sharer_is_told_where_it_listens(calls):
    for script, words in ENDING_A_SHARE.items():
        calls.begin()
        for number in (1, 2, 3):
            calls.call("acquire_shared", *shared(number))
        let_die(calls, 1)
        calls.call(script, *words)
        check_equal((script, [number for number, _ in calls.heard()]), (script, [3]))
        check_equal(calls.n_calls("spublish" if calls.server.is_partition else "publish"), 1)


def test_each_script_does_the_same_everywhere(calls):
    """With the right to the keys that it is given, and no other; in a cluster they have one slot."""
    now, seen = calls.now_us, []

    def follow(script, words, wanted):
        check_equal((script, calls.call(script, *words)), (script, wanted))
        seen.append(script)

    follow("arrive", ("a" * 40, now, 0), "1 0")
    follow("name_client", (f"{1:032d}", "{", ",", "}"), 0)
    follow("swarm_probe", (1, 0, host(1)), [now, 0])
    follow("swarm_look", ("me", 1000, 2000000, 1000000, "0"), [1, "0"])
    let_die(calls, 9)
    let_wait(calls, 1, 2, 3, 9)
    check_equal(calls.ask("HGET", "rql:lock:a", "rql_token"), str(now + 1))
    follow("force_extend", (5,), 1)
    follow("extend", (nonce(1), 30000, RANDOM), f"1 {calls.now_us} 30001")
    follow("ask", (acquirer(1), host(1), 5000), -1)
    follow("acquire", (acquirer(1), host(1), 1000, nonce(7), NEVER, f"qe- -1 0 -1 {RANDOM}"),
           f"1 {calls.now_us} 31001 {now + 1} 2 0 {nonce(1)}")
    follow("decrease", (nonce(1), nonce(7), 1000, RANDOM), "1 0 30001")
    follow("transfer", (nonce(1), RANDOM, acquirer(2), nonce(2), host(2), 30000, now + 2), "4 0 30000")
    follow("flush_queue", (0,), [1, 0, -1, 2])
    follow("sweep_dead", (calls.now_us, 0, 0), [0, 0, -1, 1])
    let_wait(calls, 2, 4, 5, 6, 7)
    follow("sweep_request", (acquirer(4), 0, RANDOM), "1 0")
    follow("leave", (acquirer(5), nonce(5), RANDOM), "1 0")
    follow("release", (nonce(2), RANDOM), "1 1")
    token = calls.ask("HGET", "rql:lock:a", "rql_token")
    follow("sweep_lock", ("", "", 0, RANDOM), [1, 1, acquirer(3), nonce(3), token, str(calls.now_us), "0", ""])
    let_die(calls, 6)
    token = calls.ask("HGET", "rql:lock:a", "rql_token")
    follow("flush_lock", (RANDOM,), [1, 1, acquirer(6), nonce(6), token, str(calls.now_us), "0", ""])
    follow("swarm_remove", (host(6),), [1, 0])
    follow("sweep_queue", (0,), [0, 0])
    calls.ask("DEL", "rql:lock:a")
    calls.pass_ms(1)
    now = calls.now_us
    follow("acquire_shared", shared(1), f"1 {now} 30000 {now} 0 2 {nonce(1)}")
    follow("acquire_shared", shared(2), f"1 {now} 30000 {now + 1} 0 2 {nonce(2)}")
    follow("extend_shared", (acquirer(1), nonce(1), 40000, RANDOM, "1 2"), f"1 {now} 40000")
    let_die(calls, 2)
    follow("flush_shares", (0, RANDOM), [1, 0, -1, 2, str(now), acquirer(2), str(now + 1), "1"])
    follow("sweep_share", (acquirer(1), host(1), 0, RANDOM),
           [1, 0, acquirer(1), nonce(1), str(now), str(now), "0", "", "1"])
    follow("leave_shared", (acquirer(1), nonce(1), RANDOM), "0 0")
    calls.pass_ms(1)
    series = (acquirer(8), host(8), 30000, nonce(8), NEVER, f"{QUEUED} {RANDOM}")
    follow("acquire_series", series, [1, calls.now_us, calls.now_us, 30000, 0, nonce(8)])
    follow("usage", ("long", 0, "1 1 2 3 0 x"), 3)
    follow("history", ("\n2 4 name 1 a",), 1)
    check_equal(sorted(set(seen)), sorted(SCRIPTS))
    check_equal(sorted(calls.ask("KEYS", "*")), sorted(calls.server.prefix + name for name in (
        "clients", "fence", "history", "live", "lock:a", "swarm:flusher", "swarm:hsts", "swarm:suspects", "usage")))


if __name__ == "__main__":
    main()
