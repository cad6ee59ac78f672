#!/usr/bin/env python3
"""What rql tells of itself: --log of the commands that take locks, and rql stats."""
import json
import re
import signal
import sys
import time

from harness import check_equal, check_in, finish, main, wait_until

LIFE = ["start_lock_obtaining", "start_try_to_lock_cycle", "lock_obtained", "expire_lock"]


def names_in(text):
    return re.findall(r"^\[redis_queued_locks\.(\S+)\] ", text, re.M)


def run_logs_the_life_of_its_lock(server, rql):
    result = rql("run", "a", "--log", "text", "--", "echo", "ran")
    check_equal((result.code, result.out), (0, "ran\n"))
    check_equal(names_in(result.err), LIFE)
    check_equal(result.err.count("\n"), len(LIFE))
    for line in result.err.splitlines():
        check_in("] lock_key => 'rql:lock:a' queue_ttl => forever acq_id => 'rql:acq:", line)


def log_can_be_json(server, rql):
    result = rql("run", "a", "--log=json", "--default-queue-ttl-ms", "15000", "--", "true")
    lines = [json.loads(line) for line in result.err.splitlines()]
    check_equal([line["name"] for line in lines], LIFE)
    for line in lines:
        check_equal((line["lock_key"], line["queue_ttl"], line["acs_strat"]),
                    ("rql:lock:a", 15, "queued"))
    assert lines[2]["acq_time"] > 0


def steps_and_sampling_follow_the_options(server, rql):
    result = rql("lock", "a", "--log", "text", "--log-lock-try", "true")
    check_equal(names_in(result.err), [*LIFE[:2], "try_lock.start", "try_lock.rconn_fetched",
                                       "try_lock.obtain__free_to_acquire", "lock_obtained"])
    all_of_it = rql("lock", "b", "--log", "text", RQL_LOG_SAMPLING_ENABLED="true",
                    RQL_LOG_SAMPLING_PERCENT="100")
    check_equal(names_in(all_of_it.err), LIFE[:3])


def a_series_logs_its_own_lines(server, rql):
    result = rql("series", "b", "a", "--log", "text", "--", "true")
    check_equal(names_in(result.err), ["start_lock_series_obtaining", "lock_obtained",
                                       "lock_obtained", "lock_series_obtained",
                                       "expire_lock_series"])
    check_in("""lock_keys => '["rql:lock:b", "rql:lock:a"]'queue_ttl""", result.err)


def a_name_with_a_strange_byte_stays_one_json_line(server, rql):
    name = b"a\xff\"b".decode("utf-8", "surrogateescape")
    result = rql("run", name, "--log", "json", "--", "true")
    lines = [json.loads(line) for line in result.err.splitlines()]
    check_equal(lines[0]["lock_key"], 'rql:lock:a\ufffd"b')


def a_swarm_logs_what_it_does(server, rql):
    service = rql.start("swarm", "run", "--log", "text", "--zombie-ttl-ms", "500", "--zombie-flush-period-ms", "200",
                        "--swarm-probe-period-ms", "100")
    wait_until(lambda: server.call("EXISTS", "rql:swarm:flusher") == "1", "a flusher is elected")
    server.call("HSET", "rql:swarm:hsts", "dead", "1.5")
    server.call("HSET", "rql:lock:x", "acq_id", "a", "hst_id", "dead", "ts", "1.5", "ini_ttl", "5000")
    wait_until(lambda: server.call("HEXISTS", "rql:swarm:hsts", "dead") == "0", "the host is flushed")
    service.send_signal(signal.SIGTERM)
    said = finish(service).err
    check_in("[redis_queued_locks.swarm_flusher_elected]", said)
    check_in("[redis_queued_locks.swarm_zombies_flushed] status => 'ok' hosts => 1 locks => 1 requests => 0 "
             "handed_over => 0 rel_time => ", said)
    check_in("[redis_queued_locks.swarm_flusher_retired]", said)


def nothing_is_logged_unless_wanted(server, rql):
    check_equal(rql("run", "a", "--", "true").err, "")
    result = rql("run", "a", "--log", "xml", "--", "true")
    check_equal(result.code, 64)
    check_in("run: log lines are written as text or json, not as xml", result.err)


def stats_count_what_the_server_shows(server, rql):
    rql("lock", "a", "--ttl", "1m")
    rql("lock", "b", "--ttl", "1m")
    process = rql.start("run", "a", "--", "true")
    server.call("ZADD", "rql:lock_queue:c", "1.5", "rql:acq:1/2/3/4/0123456789abcdef")
    wait_until(lambda: server.queue_length("a") == 1, "it waits")
    server.call("SET", "rql:lock:text", "x")
    server.call("HSET", "rql:swarm:hsts", "dead", "1.5", "alive", f"{time.time():.3f}")
    wanted = {"locks": 2, "queues": 2, "requests": 2, "hosts": 3, "swarm_hosts": 2, "zombie_hosts": 1, "damaged_keys": 1}
    check_equal(rql("stats", "--json").json(), wanted)
    check_equal(rql("stats").out.split("\n")[0].split(), ["locks", "held", "2"])
    text = rql("stats", "--openmetrics").out
    for name, value in wanted.items():
        check_in(f"# TYPE rql_{name} gauge\n# HELP rql_{name} ", text)
        check_in(f"\nrql_{name} {value}\n", text)
    assert text.endswith("\n# EOF\n")
    process.terminate()


def stats_of_an_empty_server_are_zero(server, rql):
    check_equal(set(rql("stats", "--json").json().values()), {0})


if __name__ == "__main__":
    sys.exit(main([
        run_logs_the_life_of_its_lock,
        log_can_be_json,
        steps_and_sampling_follow_the_options,
        a_series_logs_its_own_lines,
        a_name_with_a_strange_byte_stays_one_json_line,
        a_swarm_logs_what_it_does,
        nothing_is_logged_unless_wanted,
        stats_count_what_the_server_shows,
        stats_of_an_empty_server_are_zero,
    ]))
