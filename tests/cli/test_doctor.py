#!/usr/bin/env python3
"""rql doctor: each check provoked on a server of its own, and healed by what it says."""
import contextlib
import re
import shlex
import threading
import time

from harness import (SLOW, Proxy, Sentinel, Server, check_equal, check_in, free_port, is_cluster,
                     leave_out_in_cluster, main, wait_until)
from resp import Connection
from partitions import SHARED

IDS = ["acl.rights", "clk.rate", "clk.skew", "dur.persist", "dur.replicas", "keys.damaged", "keys.waits", "mem.evicted",
       "mem.policy", "mem.room", "net.rtt", "net.same_server", "net.timeout", "srv.busy", "srv.role", "swarm.alive", "swarm.config",
       "use.handover", "use.lock"]
RIGHTS = ("evalsha eval time exists del hget hset hmget hdel hexists hsetnx hincrby hlen hgetall pttl pexpire get set "
          "zadd zrem zscore zcard zrange zrank zremrangebyscore zremrangebyrank publish subscribe ping hello").split()
OF_ONE_SERVER = ["net.same_server"]
CHANNELS, SUBSCRIBE = "&rql:wake:*", "subscribe"
if is_cluster():
    IDS = [name for name in IDS if name not in OF_ONE_SERVER]
    RIGHTS += ["cluster|slots", "spublish", "ssubscribe", "sunsubscribe"]
    CHANNELS, SUBSCRIBE = "&rql:*", "ssubscribe"
RUBY = "rql:acq:1/2/3/4/0123456789abcdef"
HOST = "rql:hst:1/2/4/0123456789abcdef"
OURS = HOST + "0123456789abcdef"


# What a machine that is busy with others is warned of.
TIMED = ("net.rtt", "use.handover")


class Said:
    """What the doctor found: its checks by their ids."""

    def __init__(self, result):
        self.code, self.whole = result.code, result.json()
        self.checks = {check["id"]: check for check in self.whole["checks"]}

    def level(self, name):
        level = self.checks[name]["level"]
        return "ok" if name in TIMED and level == "warn" else level

    def troubles(self):
        return [name for name in sorted(self.checks) if self.level(name) in ("fail", "warn")]

    def titles(self):
        return str([self.checks[name]["title"] for name in self.troubles()])

    def found(self, name):
        return self.checks[name]["found"]


class Configured(Server):
    """A server that has read its settings from a file."""

    def command(self):
        self.settings = self.folder + "/redis.conf"
        with open(self.settings, "w", encoding="ascii"):
            pass
        program, *words = super().command()
        return [program, self.settings, *words]


def examined(rql, *words, **more):
    said = Said(rql("doctor", "--json", *words, **more))
    levels = [check["level"] for check in said.checks.values()]
    for level in ("fail", "warn", "note", "skip"):
        check_equal(said.whole[level], levels.count(level), level)
    if "--strict" not in words:
        is_late = any("no time left" in check["title"] for check in said.checks.values())
        check_equal(said.code, int("fail" in levels or "warn" in levels or is_late))
    return said


def is_fine(rql, *words, **more):
    said = examined(rql, *words, **more)
    check_equal(said.troubles(), [], said.titles())
    return said


def is_amiss(rql, name, level, *words, **more):
    """It alone."""
    said = examined(rql, *words, **more)
    check_equal((said.troubles(), said.checks[name]["level"]), ([name], level), said.titles())
    return said


def healed(server, check):
    """Runs what a check says is to be done: commands that begin with redis-cli."""
    for line in check["fix"].split(" && "):
        words = shlex.split(line)
        check_equal(words[0], "redis-cli", check["fix"])
        check_equal(server.ask(*words[1:]), "OK")


@contextlib.contextmanager
def by_tcp(server):
    """Replicas and sentinels go to a port."""
    leave_out_in_cluster("a port of one server")
    port = free_port()
    server.ask("CONFIG", "SET", "bind", "127.0.0.1")
    server.ask("CONFIG", "SET", "port", str(port))
    try:
        yield port
    finally:
        server.ask("CONFIG", "SET", "port", "0")


def test_a_good_server_is_ok_and_left_as_it_was(server, rql):
    said = is_fine(rql)
    check_equal((sorted(said.checks), said.whole["skip"]), (IDS, 0))
    check_equal(said.whole["server"]["role"], "master")
    assert said.whole["uptime_s"] >= 0
    for check in said.checks.values():
        check_equal(check["id"].split(".")[0], check["group"])
        # Whatever is not well has one reason and one thing to do.
        is_well = check["level"] == "ok"
        check_equal((check["why"] is None, check["fix"] is None), (is_well, is_well), str(check))
    left = server.ask("KEYS", "*")
    assert not re.search("doctor|rql:lock", str(left)), left


def test_people_read_what_is_worst_first(server, rql):
    with Server("--maxmemory-policy", "allkeys-lru", "--timeout", "30", "--maxmemory", "1gb") as own:
        result = rql("doctor", RQL_URL=own.url)
        whole = rql("doctor", "--all", RQL_URL=own.url)
    check_in("ok      a lock was acquired, re-entered, extended and released\n", whole.out)
    check_equal((result.code, result.err), (1, ""))
    lines = result.out.splitlines()
    labels = [line[:8].strip() for line in lines[:-1] if line[:8].strip()]
    check_equal((labels[:3], labels[-1]), (["server", "FAIL", "WARN"], "ok"))
    at = lines.index("FAIL    maxmemory-policy is allkeys-lru, memory is limited to 1024.0 MB")
    check_equal(lines[at + 1], "        why: the server may evict a lock that a client still holds")
    check_equal(lines[at + 2], "        fix: redis-cli CONFIG SET maxmemory-policy noeviction")
    assert re.fullmatch(r"1 failure, \d+ warnings?, 1 note", lines[-1]), lines[-1]
    assert re.fullmatch(r"ok      \d+ checks \(rql doctor --all\)", lines[-2]), lines[-2]
    check_equal([line for line in lines + whole.out.splitlines() if len(line) > 80], [])


def test_notes_count_where_that_is_asked_for(server, rql):
    assert is_fine(rql).whole["note"] > 0
    check_equal(examined(rql, "--strict").code, 1)
    with Server("--appendonly", "yes", "--appendfsync", "always") as own:
        check_equal(is_fine(rql, RQL_URL=own.url).level("dur.persist"), "ok")


def test_a_server_that_loses_locks_is_found_and_healed_for_good(server, rql):
    """What its fixes set is also in the file that the server starts with."""
    with Configured() as own:
        for title in ("nothing is written to disk", "writes are on disk within about a second"):
            said = is_fine(rql, RQL_URL=own.url)
            check_equal((said.level("dur.persist"), said.checks["dur.persist"]["title"]), ("note", title))
            healed(own, said.checks["dur.persist"])
        check_equal(is_fine(rql, RQL_URL=own.url).level("dur.persist"), "ok")
        with open(own.settings, encoding="ascii") as file:
            check_in("appendonly yes", file.read())


def test_a_server_that_only_takes_snapshots_is_found(server, rql):
    with Server() as own:
        own.ask("CONFIG", "SET", "save", "3600 1")
        check_equal(is_fine(rql, RQL_URL=own.url).checks["dur.persist"]["title"], "only snapshots are written to disk")


def test_round_trips_that_are_long_for_the_ttl_are_found_and_healed(server, rql):
    with Proxy(server.path, delay_s=0.015) as proxy:
        said = examined(rql, RQL_URL=proxy.url, RQL_TTL_MS="500")
        check_equal(said.checks["net.rtt"]["level"], "warn")
        check_in("set RQL_TTL_MS to a longer time", said.checks["net.rtt"]["fix"])
        said = examined(rql, RQL_URL=proxy.url, RQL_TTL_MS=str(60000 * int(SLOW)))
        check_equal(said.level("net.rtt"), "ok")


def test_heartbeats_that_are_rare_are_found(server, rql):
    rql.start("swarm", "run", RQL_SWARM_PROBE_PERIOD_MS="6000")
    wait_until(lambda: is_settled(rql, 15000), "it tells of itself")
    check_in("set RQL_SWARM_PROBE_PERIOD_MS=5000 on ", is_amiss(rql, "swarm.config", "warn").checks["swarm.config"]["fix"])


def test_eviction_is_found_and_healed(server, rql):
    with Server() as own:
        for policy in ("volatile-ttl", "allkeys-random"):
            own.ask("CONFIG", "SET", "maxmemory-policy", policy)
            is_amiss(rql, "mem.policy", "warn", RQL_URL=own.url)
        used = int(re.search(r"used_memory:(\d+)", own.ask("INFO", "memory"))[1])
        own.ask("CONFIG", "SET", "maxmemory", str(used + (1 << 20)))
        for i in range(2000):
            own.ask("SET", f"x{i}", "y" * 1000)
        said = examined(rql, RQL_URL=own.url)
        check_equal((said.level("mem.policy"), said.level("mem.evicted"), said.level("mem.room")),
                    ("fail", "fail", "warn"))
        check_equal(said.found("mem.policy")["policy"], "allkeys-random")
        assert said.found("mem.evicted")["evicted_keys"] > 0
        healed(own, said.checks["mem.policy"])
        said = examined(rql, RQL_URL=own.url)
        check_equal((said.level("mem.policy"), said.level("mem.evicted")), ("ok", "note"))
        own.ask("FLUSHALL")
        healed(own, said.checks["mem.room"])
        check_equal(is_fine(rql, RQL_URL=own.url).level("mem.room"), "ok")


def test_missing_rights_are_found_and_healed(server, rql):
    with Server() as own:
        whole = ["~rql:*", CHANNELS, "-@all", *("+" + word for word in RIGHTS)]
        url = own.add_user("app", *whole)
        said = is_fine(rql, RQL_URL=url)
        check_equal((said.level("acl.rights"), said.level("use.lock"), said.level("use.handover")),
                    ("note", "ok", "ok"))
        check_equal(said.level("mem.policy"), "skip")
        check_in("no right to INFO", said.checks["mem.policy"]["title"])
        own.ask("ACL", "SETUSER", "app", "-zrem", "-hset")
        said = examined(rql, RQL_URL=url)
        check_equal((said.level("acl.rights"), said.found("acl.rights")["missing"].split()[:2]),
                    ("fail", ["hset", "zrem"]))
        check_equal(said.found("acl.rights")["user"], "app")
        healed(own, said.checks["acl.rights"])
        said = is_fine(rql, RQL_URL=url)
        # One role after the other, until nothing is missing.
        for _ in range(4):
            if said.level("acl.rights") == "note":
                healed(own, said.checks["acl.rights"])
                said = is_fine(rql, RQL_URL=url)
        check_equal((said.level("acl.rights"), said.level("mem.policy")), ("ok", "ok"))
        own.ask("ACL", "SETUSER", "app", "-wait")
        check_equal(is_fine(rql, RQL_URL=url).level("acl.rights"), "ok")
        said = examined(rql, RQL_URL=url, RQL_REPLICAS="1")
        check_equal((said.level("acl.rights"), said.found("acl.rights")["missing"]), ("fail", "wait"))
        healed(own, said.checks["acl.rights"])
        own.ask("ACL", "SETUSER", "app", "-dbsize")
        said = is_fine(rql, RQL_URL=url)
        check_equal((said.level("acl.rights"), said.found("acl.rights")["missing"]), ("note", "dbsize"))
        healed(own, said.checks["acl.rights"])
        if is_cluster():
            return  # there each key has a tag
        # Without it nobody knows who holds what; locks work.
        of_locks = ("~rql:lock*", "~rql:req:*", "~rql:live", "~rql:fence", "~rql:swarm:*")
        own.ask("ACL", "SETUSER", "app", "resetkeys", *of_locks, "~rql:era")
        said = is_fine(rql, RQL_URL=url)
        check_equal((said.level("acl.rights"), said.found("acl.rights")["missing"]),
                    ("note", "~rql:clients ~rql:usage:* ~rql:history"))
        # Without rql:era a client that has had a token cannot log in again.
        for patterns in (of_locks, ("~rql:lock:*",)):
            own.ask("ACL", "SETUSER", "app", "resetkeys", *patterns)
            said = examined(rql, RQL_URL=url)
            check_equal(said.level("acl.rights"), "fail")
            check_in("keys rql:*", said.checks["acl.rights"]["title"])
        healed(own, said.checks["acl.rights"])
        check_equal(is_fine(rql, RQL_URL=url).level("use.lock"), "ok")


def test_a_user_that_cannot_log_in_is_told_its_missing_rights(server, rql):
    """Without channels, as Redis 7 makes users, without a command of the login, and with nearly nothing."""
    leave_out_in_cluster("a login without a channel")
    for missing, rule, rights in (("channels rql:wake:*", "'&rql:wake:*'", "~rql:* resetchannels +@all"),
                                  ("time", "+time", "~rql:* &* +@all -time"),
                                  ("publish", "+publish", "~* resetchannels &rql:wake:* +@all -publish"),
                                  ("time", "+time", "~rql:* resetchannels +@read +@write +@scripting +@pubsub "
                                                    "+@connection"),
                                  ("evalsha", "'~rql:*' '&rql:wake:*' +evalsha", "resetchannels -@all +ping")):
        with Server() as own:
            url = own.add_user("app", *rights.split())
            said = examined(rql, RQL_URL=url)
            check_equal((said.level("acl.rights"), said.level("use.lock")), ("fail", "skip"))
            check_in(missing, said.checks["acl.rights"]["title"])
            check_in(rule, said.checks["acl.rights"]["fix"])
            healed(own, said.checks["acl.rights"])
            said = examined(rql, RQL_URL=url)
            check_equal((said.level("use.lock"), said.level("use.handover"), rql("ping", RQL_URL=url).code),
                        ("ok", "ok", 0))


def fix_of(result):
    """What a command that lacks rights says in its last line."""
    check_equal(result.code, 69, result.err)
    line = result.err.splitlines()[-1]
    check_in("rql: fix: redis-cli ACL SETUSER app ", line)
    return {"fix": line.removeprefix("rql: fix: ")}


def test_each_command_says_how_to_get_the_rights_that_it_lacks(server, rql):
    leave_out_in_cluster("a login without a channel")
    for words, rights in ((("run", "x", "--", "true"), "~rql:* resetchannels +@all"),
                          (("run", "x", "--", "true"), "~rql:* &* +@all -hset"),
                          (("ls",), "~rql:* &* +@all -scan"),
                          (("unlock", "x", "--force"), "~rql:* &* +@all -unlink -expire -exec"),
                          (("ping",), "resetchannels -@all +ping")):
        with Server() as own:
            url = own.add_user("app", *rights.split())
            own.ask("SET", "rql:lock:other", "x")
            healed(own, fix_of(rql(*words, RQL_URL=url)))
            result = rql(*words, RQL_URL=url)
            assert result.code in (0, 1), result.err


def test_a_server_that_wants_a_password_is_named_as_such(server, rql):
    with Server() as own:
        own.ask("ACL", "SETUSER", "default", ">secret")
        for words in (("doctor",), ("ls",)):
            result = rql(*words, RQL_URL=own.url)
            check_equal(result.code, 69)
            wanted = "redis+cluster://USER:PASSWORD@HOST" if is_cluster() else "unix://USER:PASSWORD@/PATH"
            check_in(f"rql: fix: set RQL_URL={wanted}, with", result.err)


def test_a_wrong_password_is_no_missing_right(server, rql):
    with Server() as own:
        own.add_user("app", "~*", "&*", "+@all")
        result = rql("doctor", RQL_URL=own.url_with("app:wrong@"))
        check_equal(result.code, 69)
        check_in("WRONGPASS", result.err)


def test_whoever_cannot_hear_is_found(server, rql):
    with Server() as own:
        url = own.add_user("deaf", "~*", "&*", "+@all", "-" + SUBSCRIBE)
        said = examined(rql, RQL_URL=url)
        check_equal((said.level("use.lock"), said.level("use.handover")), ("ok", "fail"))
        own.ask("ACL", "SETUSER", "deaf", "+" + SUBSCRIBE)
        check_equal(is_fine(rql, RQL_URL=url).level("use.handover"), "ok")


def test_swarms_that_differ_are_told_of(server, rql):
    rql.start("swarm", "run")
    wait_until(lambda: is_settled(rql, 15000), "it tells of itself")
    said = is_fine(rql)
    check_equal((said.level("swarm.config"), said.found("swarm.config")),
                ("ok", {"shortest_ttl_ms": 15000, "longest_ttl_ms": 15000}))
    rql.start("swarm", "run", RQL_ZOMBIE_TTL_MS="60000")
    wait_until(lambda: is_settled(rql, 60000), "all tell of themselves")
    said = is_amiss(rql, "swarm.config", "warn")
    check_equal(said.found("swarm.config"), {"shortest_ttl_ms": 15000, "longest_ttl_ms": 60000})
    check_in("set RQL_ZOMBIE_TTL_MS=60000 on ", said.checks["swarm.config"]["fix"])


def is_settled(rql, longest_ttl_ms):
    return examined(rql).found("swarm.config")["longest_ttl_ms"] == longest_ttl_ms


def test_a_replica_takes_no_locks_and_a_master_says_what_it_risks(server, rql):
    with Server() as own, by_tcp(own) as port:
        with Server("--replicaof", "127.0.0.1", str(port), "--port", str(free_port())) as replica:
            wait_until(lambda: "master_link_status:up" in replica.ask("INFO", "replication"), "it follows")
            wait_until(lambda: "state=online" in own.ask("INFO", "replication"), "it is counted")
            said = examined(rql, RQL_URL=replica.url)
            check_equal((said.level("srv.role"), said.level("use.lock")), ("fail", "skip"))
            said = is_amiss(rql, "dur.replicas", "warn", RQL_URL=own.url)
            check_equal((said.level("clk.skew"), said.found("clk.skew")["reached"]), ("ok", 1))
            healed(own, said.checks["dur.replicas"])
            check_equal(is_fine(rql, RQL_URL=own.url).found("dur.replicas")["min_replicas_to_write"], 1)


def test_a_replica_whose_clock_differs_is_named(server, rql):
    with Server() as own, by_tcp(own) as port:
        with Server("--replicaof", "127.0.0.1", str(port), "--port", str(free_port()), has_clock=True) as late:
            late.set_ahead(-3_000_000)
            wait_until(lambda: "state=online" in own.ask("INFO", "replication"), "it is counted")
            said = examined(rql, RQL_URL=own.url)
            check_equal(said.troubles(), ["clk.skew", "dur.replicas"])
            assert -3_100_000 < said.found("clk.skew")["replica_ahead_us"] < -2_900_000, said.checks["clk.skew"]
            check_in("3.0 s behind the master's", said.checks["clk.skew"]["title"])


def test_the_servers_clock_is_compared_with_ours(server, rql):
    with Server(has_clock=True) as own:
        own.set_ahead(5_000_000)
        said = is_fine(rql, RQL_URL=own.url)
        check_equal(said.level("clk.skew"), "note")
        assert -5_100_000 < said.found("clk.skew")["ahead_us"] < -4_900_000, said.checks["clk.skew"]
        check_in("5.0 s behind the server's", said.checks["clk.skew"]["title"])
        own.ask("HSET", "rql:swarm:hsts", HOST, f"{time.time() + 5:.3f}")
        is_amiss(rql, "clk.skew", "warn", RQL_URL=own.url)
        own.set_ahead(0)
        own.set_rate(500_000)
        said = examined(rql, RQL_URL=own.url)
        check_equal(said.level("clk.rate"), "warn")
        assert said.found("clk.rate")["more_us"] > 0


def test_sentinels_want_min_replicas(server, rql):
    with Server() as own, by_tcp(own) as port:
        with Sentinel(f"sentinel monitor locks 127.0.0.1 {port} 1") as sentinel:
            url = f"redis+sentinel://127.0.0.1:{sentinel.port}/locks"
            said = examined(rql, RQL_URL=url)
            check_equal((said.level("dur.replicas"), said.whole["server"]["sentinels"]), ("warn", True))
            own.ask("CONFIG", "SET", "min-replicas-to-write", "1")
            # Nobody can lock now, for there is no replica; that is found, too.
            said = examined(rql, RQL_URL=url)
            check_equal((said.level("dur.replicas"), said.level("use.lock")), ("ok", "fail"))


def test_a_proxy_that_mixes_two_servers_is_found(server, rql):
    with Server() as other:
        with Proxy(server.path, other.path) as proxy:
            said = examined(rql, RQL_URL=proxy.url)
            check_equal(said.level("net.same_server"), "fail")
            assert said.found("net.same_server")["run_id"] != said.found("net.same_server")["other_run_id"]
        with Proxy(server.path) as proxy:
            check_equal(is_fine(rql, RQL_URL=proxy.url).level("net.same_server"), "ok")


class Changing(Proxy):
    """It hands on other bytes in place of these, as many."""

    def __init__(self, path, *changes):
        self.changes = changes
        super().__init__(path)

    def hand_on(self, link, sink, data):
        for old, new in self.changes:
            assert len(old) == len(new), old
            data = data.replace(old, new)
        return super().hand_on(link, sink, data)


def test_what_no_server_here_says_is_judged(server, rql):
    """Servers of other kinds and versions, and a full disk."""
    lines = server.ask("INFO").encode().splitlines(keepends=True)
    versions = [line for line in lines if re.match(rb"(redis|valkey)_version:[1-9]", line)]
    version = versions[-1]  # Valkey's own comes after the one that it shows to clients of Redis
    saved = b"rdb_last_bgsave_status:ok\r\nrdb_last_bgsave_time_sec:-1\r\n"
    failed = b"rdb_last_bgsave_status:err\r\nrdb_last_bgsave_time_sec:1\r\n"
    old = re.sub(rb":[^\r]*", lambda match: b":6.1.99"[:len(match[0])].ljust(len(match[0]), b"9"), version)
    for change, name, level in (((version, old), "srv.role", "fail"), ((saved, failed), "dur.persist", "fail")):
        with Changing(server.path, change) as proxy:
            wait_until(lambda: examined(rql, RQL_URL=proxy.url).level(name) == level, name)
    server.add_user("app", "~*", "&*", "+@all", "-info")
    with Changing(server.path, (b"\r\nredis\r\n", b"\r\nother\r\n"), (b"\r\nvalkey\r\n", b"\r\nothers\r\n")) as proxy:
        url = proxy.url.replace("://", "://app:pw@")
        wait_until(lambda: examined(rql, RQL_URL=url).level("srv.role") == "warn", "another kind")


def test_connections_that_end_early_are_found_and_healed(server, rql):
    with Server() as own:
        own.ask("CONFIG", "SET", "timeout", "59")
        healed(own, is_amiss(rql, "net.timeout", "warn", RQL_URL=own.url).checks["net.timeout"])
        own.ask("CONFIG", "SET", "client-output-buffer-limit", "pubsub 1048575 8192 60")
        healed(own, is_amiss(rql, "net.timeout", "warn", RQL_URL=own.url).checks["net.timeout"])
        own.ask("CONFIG", "SET", "timeout", "60")
        check_equal(is_fine(rql, RQL_URL=own.url).level("net.timeout"), "ok")


def test_a_busy_server_is_found(server, rql):
    with Server("--maxclients", "20") as own:
        crowd = [Connection(own.path) for _ in range(15)]
        said = is_amiss(rql, "srv.busy", "warn", RQL_URL=own.url)
        check_equal(said.found("srv.busy")["maxclients"], 20)
        healed(own, said.checks["srv.busy"])
        check_equal(is_fine(rql, RQL_URL=own.url).level("srv.busy"), "ok")
        for connection in crowd:
            connection.close()


def test_dead_hosts_that_nobody_flushes_are_found(server, rql):
    server.ask("HSET", "rql:swarm:hsts", HOST, f"{time.time() - 25:.3f}")
    said = is_fine(rql)
    check_equal((said.level("swarm.alive"), said.found("swarm.alive")["dead"]), ("ok", 1))
    server.ask("HSET", "rql:swarm:hsts", HOST, f"{time.time() - 40:.3f}")
    said = is_fine(rql)
    check_equal(said.level("swarm.alive"), "note")
    check_in("no dead host holds a lock", said.checks["swarm.alive"]["why"])
    lock = f"rql:lock:{SHARED}a"  # in a cluster the partition of the hosts
    server.ask("HSET", lock, "acq_id", HOST, "hst_id", HOST, "ts", f"{time.time() - 50:.4f}", "ini_ttl", "5000")
    server.ask("PEXPIRE", lock, "600000")
    said = is_amiss(rql, "swarm.alive", "fail")
    check_in("rql swarm run", said.checks["swarm.alive"]["fix"])
    check_equal(rql("swarm", "flush").code, 0)
    check_equal(is_fine(rql).level("swarm.alive"), "ok")
    server.ask("HSET", "rql:swarm:hsts", OURS, f"{time.time():.3f}")
    said = is_fine(rql)
    check_equal(said.level("swarm.alive"), "note")
    check_in("1 host in the swarm, 0 dead, and none elected to flush", said.checks["swarm.alive"]["title"])


def test_keys_that_are_no_locks_are_found(server, rql):
    server.ask("SET", "rql:lock:a", "x", "PX", "60000")
    server.ask("HSET", "rql:lock:b", "acq_id", RUBY)
    server.ask("SADD", "rql:lock_queue:c", "x")
    said = is_amiss(rql, "keys.damaged", "warn")
    check_equal(said.found("keys.damaged")["damaged"], 3)
    assert re.search("rql:lock:[ab]$", said.checks["keys.damaged"]["title"]), said.checks["keys.damaged"]
    for name in ("rql:lock:a", "rql:lock:b", "rql:lock_queue:c"):
        server.ask("DEL", name)
    server.ask("HSET", "rql:lock:d", "acq_id", RUBY, "hst_id", HOST, "ts", f"{time.time():.3f}", "ini_ttl", "5000")
    check_equal(is_amiss(rql, "keys.damaged", "warn").found("keys.damaged")["without_ttl"], 1)
    server.ask("PEXPIRE", "rql:lock:d", "60000")
    check_equal(is_fine(rql).level("keys.damaged"), "ok")
    check_equal(is_fine(rql, "--max-keys", "0").level("keys.damaged"), "skip")



def write_wait(server, name, holder, waiter):
    """A lock and its queue, as the scripts write them."""
    ids = [f"rql:acq:{number}/1/0/0/{number:032x}" for number in (holder, waiter)]
    server.ask("HSET", f"rql:lock:{name}", "acq_id", ids[0], "hst_id", f"rql:hst:{holder}/1/0/{holder:032x}", "ts",
               f"{time.time():.6f}", "ini_ttl", 60000, "rql_nonce", f"{holder:032x}", "rql_token", server.now_us())
    server.ask("PEXPIRE", f"rql:lock:{name}", 60000)
    server.ask("ZADD", f"rql:lock_queue:{name}", server.now_us() / 1e6, ids[1])


def test_holders_that_wait_themselves_are_found(server, rql):
    write_wait(server, "a", 1, 2)
    check_equal(is_fine(rql).level("keys.waits"), "ok")
    check_in("its holder waits for no other lock", rql("queue", "a", "--why").out)
    write_wait(server, "b", 3, 1)
    said = is_fine(rql)
    check_equal((said.level("keys.waits"), said.found("keys.waits")), ("note", {"circles": 0, "convoys": 1}))
    words = rf"waits behind rql:acq:1/\S+, which waits for b, held for \S+ by rql:acq:3/\S+"
    assert re.search(f"such as a: {words}", said.checks["keys.waits"]["title"]), said.checks["keys.waits"]
    assert re.search(words, rql("queue", "a", "--why").out)
    seen = rql("queue", "a", "--why", "--json").json()
    assert re.fullmatch(words, seen["convoy"]) and not seen["is_circle"], seen
    check_equal("convoy" in rql("queue", "a", "--json").json(), False)
    write_wait(server, "c", 2, 3)
    said = is_amiss(rql, "keys.waits", "warn")
    check_equal(said.found("keys.waits"), {"circles": 3, "convoys": 0})
    check_equal(rql("queue", "b", "--why", "--json").json()["is_circle"], True)


def test_a_wait_that_passes_is_not_reported(server, rql):
    """The request of the holder is a new one each time, as of a worker that takes one lock after the other."""
    write_wait(server, "a", 1, 2)
    write_wait(server, "b", 3, 1)
    stop = threading.Event()

    def change():
        while not stop.wait(0.05):
            server.ask("ZADD", "rql:lock_queue:b", server.now_us() / 1e6, f"rql:acq:1/1/0/0/{1:032x}")

    thread = threading.Thread(target=change)
    thread.start()
    try:
        check_equal(rql("queue", "a", "--why", "--json").json()["convoy"], None)
        check_equal(is_fine(rql).level("keys.waits"), "ok")
    finally:
        stop.set()
        thread.join()


def test_runs_inside_of_each_other_are_followed_however_often_they_say_so(server, rql):
    """Each lock names the one that it runs inside of 28 times, the first one itself. Only the innermost run waits."""
    tokens = [server.now_us() + i for i in range(8)]
    for i, token in enumerate(tokens):
        write_wait(server, f"l{i}", i + 1, 50 + i)
        outer = tokens[i - 1] if i > 0 else token  # the first one says that it runs inside of itself
        server.ask("HSET", f"rql:lock:l{i}", "rql_token", token, "under", " ".join([str(outer)] * 28))
    check_equal(rql("queue", "l0", "--why", "--json").json()["convoy"], None)
    check_equal(is_fine(rql).level("keys.waits"), "ok")
    write_wait(server, "it", 98, 8)
    for name in ("l0", "l7"):
        words = r"waits behind rql:acq:\d/\S+, which waits for it, held for \S+ by rql:acq:98/\S+"
        assert re.fullmatch(words, rql("queue", name, "--why", "--json").json()["convoy"] or ""), name
    check_equal(is_fine(rql).found("keys.waits"), {"circles": 0, "convoys": 8})


def test_what_is_wrong_with_the_call_is_64_and_no_server_69(server, rql):
    result = rql("doctor", "redis://127.0.0.1:1")
    check_equal((result.code, result.out), (69, ""))
    check_equal(rql("doctor", "redis://u:geheim@127.0.0.1:1").code, 64)


def test_no_check_begins_when_the_time_is_over(server, rql):
    with Proxy(server.path, delay_s=0.1) as proxy:
        begun = time.monotonic()
        said = examined(rql, "--quick", RQL_URL=proxy.url)
        took_s = time.monotonic() - begun
        skipped = [check["title"] for check in said.checks.values() if check["level"] == "skip"]
        check_in("clk.skew", said.checks)
        assert any("no time left" in title for title in skipped), said.checks
        # What it asks first, and the check that was under way.
        assert took_s < 4 * SLOW, took_s


if __name__ == "__main__":
    main()
