#!/usr/bin/env python3
"""rql history: what clients record of holds that have ended, and what is shown of it."""
import collections
import os
import re
import signal
import time

from agent import Agent
from checks import check
from harness import (HOST, PROGRAM, Server, await_gone, check_equal, check_in, finish, leave_out_in_cluster, main,
                     read_line, wait_until)

DAY_US = 86_400_000_000
OFF = ("rql: history: nothing was recorded in these days; a hold is recorded when it ends, if RQL_HISTORY=long is set where "
       "locks are taken\n")


def take(rql, name, *words, mode="all", user="ann", command=("true",), code=0):
    result = rql("run", name, *words, "--", *command, RQL_HISTORY=mode, USER=user)
    check_equal((result.code, result.err), (code, ""))


def usage(rql, *words):
    """The rows by what they are added up by: holds, held, waited, lost."""
    told = rql("history", *words, "--json").json()
    by = next(key for key in ("name", "user", "host") if not told["usage"] or key in told["usage"][0])
    return {row[by]: (row["holds"], row["held_us"], row["waited_us"], row["lost"]) for row in told["usage"]}


def singles(rql, *words):
    """The latest first."""
    return rql("history", "--list", "--count", "1000", *words, "--json").json()["holds"]


def await_singles(rql, count):
    wait_until(lambda: rql("history").code == 0 and len(singles(rql)) == count, f"{count} holds are recorded")
    return singles(rql)


def start_holding(rql, name, *words, command="exec sleep 600", **more):
    """Its command runs."""
    process = rql.start("run", name, *words, "-c", f"echo on; {command}", USER="ann", **{"RQL_HISTORY": "long", **more})
    read_line(process.stdout)
    return process


def guard_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return int(file.read().split()[0])


def kept_keys(server):
    return [key for key in server.ask("KEYS", "*") if ":usage:" in key or key.endswith(":history")]


def test_without_the_option_nothing_is_recorded(server, rql):
    check_equal(rql("run", "a", "--", "true").code, 0)
    check_equal(kept_keys(server), [])
    result = rql("history")
    check_equal((result.code, len(result.out.splitlines()), result.err), (0, 1, OFF))
    told = rql("history", "--json").json()
    check_equal((told["mode"], told["usage"]), ("off", []))


def test_what_is_held_is_shown_before_anything_was_recorded(server, rql):
    process = start_holding(rql, "a")
    wait_until(lambda: usage(rql)["a"][1] > 0, "it is held for a while")
    check_in("held_now", rql("history", "--json").out)
    # Of a hold that began before these days only their part counts.
    server.ask("HSET", "rql:lock:a", "ts", str(time.time() - 10 * 86400))
    assert usage(rql, "--days", "1")["a"][1] <= DAY_US
    process.terminate()
    finish(process)


def test_what_was_used_is_shown_with_what_is_used(_server, rql):
    take(rql, "gpu", "--reason", "training")
    take(rql, "gpu", user="bob")
    take(rql, "build", user="bob")
    process = start_holding(rql, "gpu", RQL_HISTORY="all")
    rows = usage(rql)
    check_equal({name: (row[0], row[3]) for name, row in rows.items()}, {"gpu": (3, 0), "build": (1, 0)})
    check_equal({user: row[0] for user, row in usage(rql, "gpu").items()}, {"ann": 2, "bob": 1})
    check_equal({host: row[0] for host, row in usage(rql, "--by", "host").items()}, {HOST: 4})
    check_equal({name: row[0] for name, row in usage(rql, "--user", "bob", "--by", "name").items()},
                {"gpu": 1, "build": 1})
    table = rql("history", "gpu").out.splitlines()
    check_in("last 7 days; history all", table[0])
    check_equal(table[1].split(), "USER HOLDS NOW HELD OF TIME WAITED PER HOLD LOST".split())
    check_equal(sorted(line.split()[:3] for line in table[2:]), [["ann", "2", "1"], ["bob", "1", "0"]])
    process.send_signal(signal.SIGTERM)
    finish(process)
    told = [(hold["name"], hold["user"], hold["reason"]) for hold in singles(rql)]
    check_equal(told[1:], [("build", "bob", ""), ("gpu", "bob", ""), ("gpu", "ann", "training")])
    check_equal([(hold["host"], hold["ended"], hold["units"]) for hold in singles(rql)], [(HOST, "released", 0)] * 4)


def test_names_write_to_no_terminal(server, rql):
    """Neither names nor reasons, whoever has written them."""
    leave_out_in_cluster("a key without a partition")
    take(rql, "a")
    server.ask("XADD", "rql:history", "*", "name", "b\x1b[2J", "reason", "r\x07", "ended", "x\n", "at_us", "1e3",
               "client", "c\x9b", "token", "7")
    at_us = server.ask("TIME")[0] + "000000"
    server.ask("XADD", "rql:history", "*", "name", "b\x1b[2J", "at_us", at_us, "held_us", "x", "waited_us", "-5")
    table = rql("history", "--list").out
    check("\x1b" not in table and "\x07" not in table, repr(table))
    check_in("b\\x1b[2J", table)
    day = next(key for key in server.ask("KEYS", "*") if ":usage:" in key)
    server.ask("HSET", day, "u\x1b\th\tn\x1b[1m", "1 2 3 4", "no tab", "1 1 1 1", "x\ty\tz", "none")
    check_in("n\\x1b[1m", rql("history").out)
    check("\x1b" not in rql("history").out, "a name is written as it is")


def test_only_long_holds_are_kept_one_by_one(_server, rql):
    take(rql, "a", mode="long")
    take(rql, "b", mode="long", command=("sleep", "1.1"))
    check_equal([hold["name"] for hold in singles(rql)], ["b"])
    check_equal({name: row[0] for name, row in usage(rql).items()}, {"a": 1, "b": 1})
    check(1_100_000 <= usage(rql)["b"][1] == singles(rql)[0]["held_us"], "the time is wrong")


def test_a_long_wait_is_kept(_server, rql):
    process = start_holding(rql, "a", command="sleep 1.3")
    waiting = rql.start("run", "a", "--", "true", RQL_HISTORY="long", USER="bob")
    check_equal((finish(process).code, finish(waiting).code), (0, 0))
    by_user = {hold["user"]: hold for hold in singles(rql)}
    check_equal(sorted(by_user), ["ann", "bob"])
    slowest = rql("history", "--slowest", "--count", "1", "--json").json()["holds"]
    check_equal([hold["user"] for hold in slowest], ["bob"])
    check_equal(usage(rql, "a")["bob"][2], by_user["bob"]["waited_us"])
    check(by_user["bob"]["waited_us"] > by_user["bob"]["held_us"], "it has waited")


def test_a_hold_that_an_operator_ends_counts_once(server, rql):
    """The holder records its loss, too."""
    leave_out_in_cluster("a key without a partition")
    process = start_holding(rql, "a", "--ttl", "300ms", "--reason", "why")
    check_equal(rql("unlock", "a", "--force", RQL_HISTORY="long").code, 0)
    finish(process)
    (hold,) = await_singles(rql, 1)
    check_equal((hold["ended"], hold["user"], hold["host"], hold["reason"]), ("forced", "ann", HOST, "why"))
    check_equal(hold["client"], f"{HOST} rql[{process.pid}]")
    check_equal([(row[0], row[3]) for row in usage(rql, "a").values()], [(1, 1)])
    check_equal(server.ask("XLEN", "rql:history"), 2)
    records = server.ask("XRANGE", "rql:history", "-", "+")
    server.ask("DEL", "rql:history")
    for _, fields in reversed(records):  # in whatever order they come
        server.ask("XADD", "rql:history", "*", *fields)
    check_equal([hold["ended"] for hold in singles(rql)], ["forced"])


def test_a_grant_that_is_ended_by_its_token_is_forced(_server, rql):
    process = start_holding(rql, "a", "--ttl", "300ms")
    token = str(rql("info", "a", "--json").json()["token"])
    check_equal(rql("unlock", "a", "--force", "--token", token, RQL_HISTORY="long").code, 0)
    finish(process)
    (hold,) = await_singles(rql, 1)
    check_equal((hold["ended"], hold["user"], str(hold["token"])), ("forced", "ann", token))


def test_a_lock_that_does_not_say_since_when_it_is_held_adds_no_time(server, rql):
    leave_out_in_cluster("a key without a partition")
    server.ask("HSET", "rql:lock:a", "acq_id", "rql:acq:1/1/0/0/a", "hst_id", "rql:hst:1/1/0/a", "ts", "x")
    check_equal(rql("unlock", "a", "--force", RQL_HISTORY="long").code, 0)
    (hold,) = await_singles(rql, 1)
    check_equal((hold["ended"], hold["held_us"]), ("forced", None))
    check_equal(usage(rql), {"a": (1, 0, 0, 1)})


def test_all_that_is_cleared_is_recorded(_server, rql):
    first, second = (start_holding(rql, name, "--ttl", "300ms") for name in "ab")
    check_equal(rql("clear", "--force", RQL_HISTORY="long").code, 0)
    for process in (first, second):
        finish(process)
    check_equal(sorted((hold["name"], hold["ended"], hold["user"]) for hold in await_singles(rql, 2)),
                [("a", "forced", "ann"), ("b", "forced", "ann")])


def test_the_guard_of_a_killed_command_says_so(_server, rql):
    process = start_holding(rql, "a", "--reason", "why")
    process.kill()
    (hold,) = await_singles(rql, 1)
    check_equal((hold["ended"], hold["user"], hold["reason"]), ("killed", "ann", "why"))
    check_equal([(row[0], row[3]) for row in usage(rql, "a").values()], [(1, 1)])


def test_a_hold_is_released_by_its_secret(server, rql):
    secret = rql("lock", "a", "--ttl", "1m", "--json", USER="ann").json()["secret"]
    shared = rql("lock", "b", "--shared", "--ttl", "1m", "--json", USER="ann").json()["secret"]
    rql("lock", "b", "--shared", "--ttl", "1m", "--json", USER="bob")
    check_equal(rql("unlock", "a", "--secret", secret, RQL_HISTORY="all").code, 0)
    check_equal(rql("unlock", "b", "--secret", shared, RQL_HISTORY="all").code, 0)
    holds = {hold["name"]: hold for hold in await_singles(rql, 2)}
    check_equal({name: (hold["ended"], hold["user"], hold["units"]) for name, hold in holds.items()},
                {"a": ("released", "ann", 0), "b": ("released", "ann", 1)})
    check_equal(server.ask("HGET", "rql:lock:b", "rql_used"), "1")


def test_a_lost_hold_counts_if_it_has_expired(server, rql):
    """If another has ended it, the other counts it. Of one that has expired either the client learns, or its release."""
    process = start_holding(rql, "a", "--ttl", "300ms")
    server.ask("DEL", "rql:lock:a")
    finish(process)
    process = start_holding(rql, "b", "--ttl", "300ms")
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: not server.is_locked("b"), "it has expired")
    process.send_signal(signal.SIGCONT)
    finish(process)
    ended = {hold["name"]: hold["ended"] for hold in await_singles(rql, 2)}
    check_equal(ended["a"], "lost")
    check_in(ended["b"], ("lost", "expired"))
    check_equal({name: (row[0], row[3]) for name, row in usage(rql).items()}, {"b": (1, 1)})


def test_a_dead_host_is_flushed(server, rql):
    """Its holder is known by name although it said nothing any more."""
    leave_out_in_cluster("hosts of the first partition")
    fast = {"RQL_ZOMBIE_TTL_MS": "1000", "RQL_SWARM_PROBE_PERIOD_MS": "200", "RQL_ZOMBIE_FLUSH_PERIOD_MS": "500"}
    process = start_holding(rql, "a", "--ttl", "1h", "--reason", "why", RQL_AUTO_SWARM="true", **fast)
    wait_until(lambda: server.ask("HLEN", "rql:swarm:hsts") > 0, "its host is known")
    rql.start("swarm", "run", RQL_HISTORY="long", **fast)
    guard = guard_of(process.pid)
    os.kill(guard, signal.SIGSTOP)
    process.kill()
    os.kill(guard, signal.SIGKILL)
    await_gone([process.pid, guard])
    (hold,) = await_singles(rql, 1)
    check_equal((hold["name"], hold["ended"], hold["user"], hold["host"], hold["reason"]),
                ("a", "flushed", "ann", HOST, "why"))
    check_equal([(row[0], row[3]) for row in usage(rql, "a").values()], [(1, 1)])


def test_a_holder_that_was_flushed_counts_once(server, rql):
    """It finds that its lock is lost, but not by its TTL: the client that flushed it has counted it."""
    leave_out_in_cluster("hosts of the first partition")
    fast = {"RQL_ZOMBIE_TTL_MS": "1000", "RQL_SWARM_PROBE_PERIOD_MS": "200", "RQL_ZOMBIE_FLUSH_PERIOD_MS": "500"}
    process = start_holding(rql, "a", "--ttl", "1h", RQL_AUTO_SWARM="true", **fast)
    wait_until(lambda: server.ask("HLEN", "rql:swarm:hsts") > 0, "its host is known")
    rql.start("swarm", "run", RQL_HISTORY="long", **fast)
    process.send_signal(signal.SIGSTOP)
    check_equal(await_singles(rql, 1)[0]["ended"], "flushed")
    process.send_signal(signal.SIGCONT)
    check_equal(finish(process).code, 75)
    check_equal([hold["ended"] for hold in singles(rql)], ["flushed"])
    check_equal([(row[0], row[3]) for row in usage(rql, "a").values()], [(1, 1)])


def test_a_dead_host_that_held_hundreds_of_locks_is_in_the_usage(server, rql):
    """Those that find no room to wait for the name of their holder count, too."""
    leave_out_in_cluster("hosts of the first partition")
    acquirer, host = f"rql:acq:1/1/0/0/{32 * 'a'}", f"rql:hst:1/1/0/{32 * 'a'}"
    now_us = server.now_us()
    server.ask("HSET", "rql:clients", 32 * "a", f'{{"host":"web","pid":7,"program":"p","user":"ann","at_us":{now_us}}}')
    server.ask("EVAL", "for i = 1, 700 do redis.call('HSET', 'rql:lock:' .. i, 'acq_id', ARGV[1], 'hst_id', ARGV[2], "
               "'ts', ARGV[3], 'rql_token', i) redis.call('PEXPIRE', 'rql:lock:' .. i, 600000) end", 0, acquirer, host,
               now_us / 1e6)
    server.ask("HSET", "rql:swarm:hsts", host, 1000)
    before = server.n_calls("hmget")
    check_equal(rql("swarm", "flush", RQL_HISTORY="long").code, 0)
    told = rql("history", "--by", "user", "--json").json()
    check_equal((sum(row["holds"] for row in told["usage"]), told["dropped"]), (700, 0))
    check_equal({(hold["user"], hold["client"]) for hold in singles(rql)}, {("ann", "web p[7]")})
    # The script that ends a lock calls HMGET once.
    check(server.n_calls("hmget") - before < 700 + 10, "an identity is asked for more than once in a call")


def test_each_lock_of_a_series_counts_and_a_reentry_does_not(_server, rql):
    leave_out_in_cluster("a series of names without a {tag}")
    check_equal(rql("series", "a", "b", "--", PROGRAM, "ls", RQL_HISTORY="all").code, 0)
    check_equal({name: row[0] for name, row in usage(rql).items()}, {"a": 1, "b": 1})
    check_equal(sorted(hold["name"] for hold in singles(rql)), ["a", "b"])


def n_writes(server):
    """Calls that bring their text: of each client at its first login some, and each that writes records."""
    return server.n_calls("eval")


def test_one_client_writes_once_in_a_second(server, rql):
    leave_out_in_cluster("a key without a partition")
    with Agent(rql, RQL_HISTORY="all") as agent:
        line = agent.connect()
        line.call("RQL.LOCK", "first")
        line.call("RQL.UNLOCK", "first")
        wait_until(lambda: server.ask("EXISTS", "rql:history"), "it is recorded")
        before, begun_s = n_writes(server), time.monotonic()
        for number in range(300):
            line.call("RQL.LOCK", f"a{number % 40}")
            line.call("RQL.UNLOCK", f"a{number % 40}")
        wait_until(lambda: server.ask("XLEN", "rql:history") == 301, "all are recorded")
        took_s, count = time.monotonic() - begun_s, n_writes(server) - before
    check(2 <= count <= 2 * (took_s + 2), f"{count} calls in {took_s:.1f} s")
    check_equal(sum(row[0] for row in usage(rql).values()), 301)


def n_failed(server):
    """Calls as above that the server has refused."""
    return int(re.search(r"cmdstat_eval:.*failed_calls=(\d+)", server.ask("INFO", "commandstats")).group(1))


def test_what_a_full_server_refuses_is_recorded_later(server, rql):
    with Agent(rql, RQL_HISTORY="all") as agent:
        line = agent.connect()
        line.call("RQL.LOCK", "a")
        before = n_failed(server)
        server.ask("CONFIG", "SET", "maxmemory", "1")
        line.call("RQL.UNLOCK", "a")
        wait_until(lambda: n_failed(server) >= before + 2, "usage and single hold are refused")
        server.ask("CONFIG", "SET", "maxmemory", "0")
        (hold,) = await_singles(rql, 1)
        check_equal((hold["name"], hold["ended"]), ("a", "released"))
        wait_until(lambda: "a" in usage(rql), "it is in the usage")
    told = rql("history", "--json").json()
    check_equal(([row["holds"] for row in told["usage"]], told["dropped"]), ([1], 0))


def test_a_user_without_the_right_goes_on_without_a_history(server, rql):
    leave_out_in_cluster("a user of one partition")
    url = server.add_user("locker", "%R~*", "~rql:lock:*", "~rql:lock_queue:*", "~rql:req:*", "~rql:live", "~rql:fence",
                          "~rql:clients", "&*", "+@all")
    result = rql("run", "a", "--", "true", RQL_URL=url, RQL_HISTORY="all")
    check_equal((result.code, result.err), (0, ""))
    check_equal(kept_keys(server), [])
    check_in("rql:history", rql("doctor", "--all", RQL_URL=url).out)


def test_a_user_without_a_command_of_the_history_is_refused_once(server, rql):
    leave_out_in_cluster("a user of one partition")
    url = server.add_user("reader", "~rql:*", "&*", "+@all", "-xadd", "-hincrby")
    with Agent(rql, RQL_URL=url, RQL_HISTORY="all") as agent:
        line = agent.connect()
        before = n_failed(server)
        for _ in range(2):
            line.call("RQL.LOCK", "a")
            line.call("RQL.UNLOCK", "a")
            wait_until(lambda: n_failed(server) == before + 2, "usage and single hold are refused")
    check_equal(n_failed(server), before + 2)


def test_keys_of_foreign_types_are_named(server, rql):
    leave_out_in_cluster("keys without a partition")
    for key, command in (("rql:history", "XREVRANGE"), (None, "HSCAN")):
        take(rql, "a")
        wait_until(lambda: len(kept_keys(server)) == 2, "it is recorded")
        key = key or next(key for key in kept_keys(server) if ":usage:" in key)
        server.ask("SET", key, "x")
        result = rql("history", "--list", "--json")
        check_equal((result.code, result.out), (69, ""))
        check_in(f"rql: {command} on {key}: WRONGTYPE ", result.err)
        server.ask("DEL", key)
    server.ask("XADD", "rql:history", "*", "f", "\x01", "g", "")
    check_equal(rql("history", "--list").code, 0)


def test_records_of_a_lock_or_user_are_removed(server, rql):
    for name, user in (("a", "ann"), ("a", "bob"), ("b", "ann"), ("b", "bob")):
        take(rql, name, user=user)
    result = rql("history", "--forget", "--user", "ann")
    check_equal((result.code, result.out), (0, "history: 4 records removed\n"))
    check_equal(list(usage(rql, "--by", "user")), ["bob"])
    check_equal({hold["user"] for hold in singles(rql)}, {"bob"})
    check_equal(rql("history", "a", "--forget", "--json").json(), {"removed": 2})
    check_equal(list(usage(rql)), ["b"])
    check_equal(rql("history", "b", "--forget", "--user", "ann").out, "history: 0 records removed\n")
    for name in ("a*", "a[1", "a\\"):
        take(rql, name)
        check_equal(rql("history", name, "--forget").out, "history: 2 records removed\n")
    check_equal(list(usage(rql)), ["b"])
    result = rql("history", "b*", "--forget")
    check_equal((result.code, result.out), (0, "history: 0 records removed\n"))
    check_in("takes the name of one lock, not a pattern", result.err)
    check_equal(rql("history", "c", "--forget").err, "")
    check_equal(rql("history", "--forget").code, 64)
    for key in kept_keys(server):
        check("ann" not in str(server.ask(*(("HKEYS", key) if ":usage:" in key else ("XRANGE", key, "-", "+")))), key)


def test_misuse_is_refused(_server, rql):
    for words, said in ((("--days", "0"), "--days is 1 to 35"), (("--days", "36"), "--days is 1 to 35"),
                        (("--by", "day"), "--by is name, user or host, not day"), (("--forget",), "--forget needs"),
                        (("a", "--forget", "--days", "1"), "has no other flag"),
                        (("--list", "--days", "8"), "kept for 7 days")):
        result = rql("history", *words)
        check_equal(result.code, 64)
        check_in(said, result.err)


def test_a_week_adds_up(_server, rql):
    """Made by the writers, on a server whose clock is set to each day; the sums are those of the single holds."""
    with Server(has_clock=True) as own:
        url, midnight_us = {"RQL_URL": own.url}, time.time_ns() // 1000 // DAY_US * DAY_US
        for day in range(7):
            own.set_ahead(midnight_us + day * DAY_US + DAY_US // 2 - time.time_ns() // 1000)
            for number in range(4):
                user, name = ("ann", "bob")[number % 2], ("gpu", "build")[(day + number) % 2]
                result = rql("run", name, "--", "sleep", f"0.0{day + number}", RQL_HISTORY="all", USER=user, **url)
                check_equal((result.code, result.err), (0, ""))
        told = rql("history", "--list", "--count", "1000", "--json", **url).json()["holds"]
        check_equal(len(told), 28)
        check_equal(sorted({hold["at_us"] // DAY_US for hold in told}),
                    list(range(midnight_us // DAY_US, midnight_us // DAY_US + 7)))
        for days in (1, 3, 7):
            for by in ("name", "user"):
                wanted = collections.defaultdict(lambda: [0, 0, 0])
                for hold in told:
                    if hold["at_us"] >= midnight_us + (7 - days) * DAY_US:
                        for i, more in enumerate((1, hold["held_us"], hold["waited_us"])):
                            wanted[hold[by]][i] += more
                rows = rql("history", "--days", str(days), "--by", by, "--json", **url).json()["usage"]
                check_equal({row[by]: [row["holds"], row["held_us"], row["waited_us"]] for row in rows}, dict(wanted))


if __name__ == "__main__":
    main()
