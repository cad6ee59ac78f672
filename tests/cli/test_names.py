#!/usr/bin/env python3
"""Who is behind an id: what clients say of themselves, and what is shown of it."""
import json
import re
import tempfile
import time

from harness import HOST, Clock, Server, check_equal, check_in, finish, main, start_waiting, wait_until

HOUR_US = 3600 * 1000000
RUBY = "rql:acq:3301/2/3/4/0123456789abcdef"
RUBY_HOST = "rql:hst:3301/17/4/0123456789abcdef"


def entries(server):
    """By identity."""
    words = server.ask("HGETALL", "rql:clients")
    return {name: json.loads(entry) for name, entry in zip(words[::2], words[1::2])}


def connection_names(server):
    return re.findall(r" name=(\S*) ", server.ask("CLIENT", "LIST"))


def holding(server, rql, name, **more):
    process = rql.start("run", name, "--ttl", "1m", "--", "sleep", "60", **more)
    wait_until(lambda: server.is_locked(name), "it holds " + name)
    return process


def test_a_client_says_who_it_is(server, rql):
    before_us = time.time_ns() // 1000
    process = holding(server, rql, "a", RQL_CLIENT_LABEL='bill"ing\\ ü', USER="app")
    said = [entry for entry in entries(server).values() if entry["pid"] == process.pid]
    check_equal(len(said), 1)
    times = [said[0].pop(name) for name in ("since_us", "at_us")]
    assert before_us - 1 <= times[0] <= times[1] <= time.time_ns() // 1000, times
    check_equal(said[0], {"host": HOST, "pid": process.pid, "program": "rql", "user": "app",
                          "version": rql("--version").out.split()[1], "label": "bill_ing_ ü"})
    ttl_ms = server.ask("PTTL", "rql:clients")
    assert 3_500_000 < ttl_ms <= 3_600_000, ttl_ms
    assert any(name.endswith(f":{process.pid}:c") and name.startswith("rql:") for name in connection_names(server))


def test_holders_and_waiters_are_shown_by_name(server, rql):
    process = holding(server, rql, "a", RQL_CLIENT_LABEL="billing")
    waiter = start_waiting(server, rql, "run", "a", "--", "true")
    holder, waits = f"{HOST} rql[{process.pid}] billing", f"{HOST} rql[{waiter.pid}]"
    who = rql("who").out.splitlines()
    check_equal((who[0].split()[-2], who[1].endswith("  " + holder + "  -")), ("HOLDER", True))
    check_in("holder  " + holder, rql("info", "a").out)
    check_in(holder, rql("ls", "--long").out)
    check_in(waits, rql("queue", "a").out)
    check_in(waits, rql("ls", "--queues", "--long").out)
    # The ids are there where they are asked for, and JSON has both.
    row = rql("who", "--json").json()[0]
    check_in(row["acquirer_id"], rql("who", "--ids").out)
    assert holder not in rql("who", "--ids").out
    check_equal((row["client"]["pid"], row["client"]["label"]), (process.pid, "billing"))
    check_equal(rql("queue", "a", "--json").json()["requests"][0]["client"]["pid"], waiter.pid)
    check_equal(rql("ls", "-l", "-q", "--json").json()[0]["requests"][0]["client"]["pid"], waiter.pid)
    names = connection_names(server)
    assert f"rql:{HOST}:{waiter.pid}:s" in names or ":" in HOST, names
    for one in (waiter, process):
        one.kill()
        finish(one)


def test_who_is_not_known_is_shown_by_id(server, rql):
    process = holding(server, rql, "a", RQL_CLIENT_NAMES="false")
    row = rql("who", "--json").json()[0]
    check_equal(row["client"], None)
    check_in(row["acquirer_id"], rql("who").out)
    check_equal([name for name in connection_names(server) if str(process.pid) in name], [])
    server.ask("HSET", "rql:lock:r", "acq_id", RUBY, "hst_id", RUBY_HOST, "ts", f"{time.time():.3f}",
                "ini_ttl", "5000")
    check_in("  ruby[3301]  ", rql("who", "r").out)
    check_in("ruby[3301/17]\n", rql("info", "r").out)
    check_in(RUBY, rql("who", "r", "--ids").out)
    check_equal(rql("who", "r", "--json").json()[0]["client"], None)


def test_whoever_only_looks_says_nothing(server, rql):
    server.ask("CONFIG", "RESETSTAT")
    for words in (["who"], ["info", "a"], ["ls"], ["stats"]):
        rql(*words)
    check_equal(re.findall("cmdstat_hset", server.ask("INFO", "commandstats")), [])
    for words in (["ping"], ["doctor"]):
        rql(*words)
    check_equal(entries(server), {})


def test_entries_of_an_hour_ago_are_left_out(server, rql):
    process = holding(server, rql, "a")
    identity, entry = next(iter(entries(server).items()))
    entry["at_us"] -= HOUR_US

    def is_left_out():
        """A connection that the client makes behind its lock says once more what it is called."""
        server.ask("HSET", "rql:clients", identity, json.dumps(entry, separators=(",", ":")))
        return rql("who", "--json").json()[0]["client"] is None

    wait_until(is_left_out, "an old entry is left out")
    entry["at_us"] += HOUR_US // 2
    server.ask("HSET", "rql:clients", identity, json.dumps(entry, separators=(",", ":")))
    check_equal(rql("who", "--json").json()[0]["client"]["pid"], process.pid)
    # What a stranger has written there does not reach the terminal as it is.
    server.ask("HSET", "rql:clients", identity, '{"at_us":9000000000000000,"host":"\x1b[31m"}')
    assert "\x1b" not in rql("who").out


FILL = """for i = 1, 10000 do redis.call('HSET', 'rql:clients', i, '{"at_us":' .. ARGV[i % #ARGV + 1] .. ',"x":1}') end
return 1"""


def minutes_ago(server, *minutes):
    now_s = int(server.ask("TIME")[0])
    return [f"{now_s - 60 * ago}000000" for ago in minutes]


def test_a_full_list_loses_its_oldest_entries(server, rql):
    """A page of them; all that living clients have said in the last 20 minutes stays."""
    server.ask("EVAL", FILL, "0", *minutes_ago(server, 31, 20))
    process = holding(server, rql, "a")
    listed = entries(server)
    old, = minutes_ago(server, 25)
    assert process.pid in (entry.get("pid") for entry in listed.values()), len(listed)
    check_equal(sum(entry["at_us"] > int(old) for entry in listed.values()), 5001)
    assert 5001 < len(listed) < 10000, len(listed)


def test_a_full_list_of_living_clients_loses_one(server, rql):
    server.ask("EVAL", FILL, "0", *minutes_ago(server, *[1] * 99, 20))
    process = holding(server, rql, "a")
    listed = entries(server)
    assert process.pid in (entry.get("pid") for entry in listed.values()), len(listed)
    check_equal(len(listed), 10000)


def test_who_may_not_shorten_a_full_list_is_left_out(server, rql):
    with Server() as own:
        own.ask("EVAL", FILL, "0", *minutes_ago(own, 50))
        result = rql("run", "a", "--", "true", RQL_URL=own.add_user("app", "~*", "&*", "+@all", "-hscan"))
        check_equal((result.code, result.err), (0, ""))
        check_equal(own.ask("HLEN", "rql:clients"), 10000)


def test_a_client_that_ends_leaves_the_list(server, rql):
    process = holding(server, rql, "a")
    check_equal(len(entries(server)), 1)
    process.terminate()
    finish(process)
    wait_until(lambda: not entries(server), "it has left")
    check_equal(rql("series", "a", "b{a}", "--", "true").code, 0)
    wait_until(lambda: not entries(server), "it has left")


def test_a_client_that_leaves_a_lock_behind_keeps_its_name(server, rql):
    check_equal(rql("lock", "a", "--ttl", "1m").code, 0)
    check_equal(len(entries(server)), 1)
    check_in(" rql[", rql("who").out)


def test_hosts_of_the_swarm_are_shown_by_name(server, rql):
    server.ask("HSET", "rql:swarm:hsts", RUBY_HOST, f"{time.time():.3f}")
    service = rql.start("swarm", "run", "--swarm-probe-period", "100ms", "--zombie-ttl", "1000ms")
    process = holding(server, rql, "lock", RQL_AUTO_SWARM="true", RQL_SWARM_PROBE_PERIOD_MS="100",
                      RQL_ZOMBIE_TTL_MS="1000")
    host = server.ask("HGET", "rql:lock:lock", "hst_id")
    wait_until(lambda: server.ask("HEXISTS", "rql:swarm:hsts", host) == 1, "it is a host")
    check_in(f"{HOST} rql[{process.pid}", rql("hosts").out)
    check_in("ruby[3301/17]", rql("hosts").out)
    check_in(host, rql("hosts", "--ids").out)
    known = {row["host_id"]: row["client"] for row in rql("hosts", "--json").json()}
    check_equal((known[host]["pid"], known[RUBY_HOST]), (process.pid, None))
    wait_until(lambda: any(name.endswith(f":{service.pid}:b") for name in connection_names(server)), "it is named")


def test_without_the_right_nothing_happens(server, rql):
    with Server() as own:
        url = own.add_user("app", "+@all", "&*", "~rql:lock*", "~rql:req:*", "~rql:live", "~rql:fence", "~rql:none")
        result = rql("run", "a", "--", "true", RQL_URL=url)
        check_equal((result.code, result.err), (0, ""))
        check_equal(own.ask("EXISTS", "rql:clients"), 0)
        check_equal(rql("who", RQL_URL=url).code, 0)


def seconds(text):
    """A duration of a table: "41.3s", "10m02s"."""
    return sum(float(number) * {"ms": 1e-3, "s": 1, "m": 60, "h": 3600}[unit]
               for number, unit in re.findall(r"([\d.]+)(ms|s|m|h)", text))


def test_ages_are_by_the_servers_clock(server, rql):
    """The clock of the machine that looks is 10 minutes off, and the server's another one."""
    aged_s, patience_s = 30, 100
    with Server(has_clock=True) as own, tempfile.TemporaryDirectory() as folder:
        holder = holding(own, rql, "a", RQL_URL=own.url)
        waiter = rql.start("lock", "a", "--wait", "1h", RQL_URL=own.url)
        wait_until(lambda: own.queue_length("a") == 1, "it waits")
        own.ask("HSET", "rql:swarm:hsts", RUBY_HOST, own.ask("HGET", "rql:lock:a", "ts"))
        own.set_ahead(aged_s * 1000000)
        clock = Clock(folder + "/clock")
        for ahead_s in (600, -600):
            clock.set_ahead(ahead_s * 1000000)
            more = {"RQL_URL": own.url, **clock.env}
            ages = [seconds(rql("who", **more).out.splitlines()[1].split()[1]),
                    rql("who", "--json", **more).json()[0]["age_ms"] / 1000,
                    seconds(rql("queue", "a", **more).out.splitlines()[1].split()[1]),
                    seconds(re.search(r"(?im)^age\b\W*(\S+)", rql("info", "a", **more).out)[1]),
                    seconds(rql("hosts", **more).out.splitlines()[1].split()[-2])]
            metrics = rql("stats", "--openmetrics", **more).out
            ages += [float(re.search(rf'rql_class_oldest_{what}_seconds{{class="other"}} (\S+)', metrics)[1])
                     for what in ("hold", "wait")]
            assert all(aged_s <= age < aged_s + patience_s for age in ages), ages
        waiter.kill()
        holder.terminate()


if __name__ == "__main__":
    main()
