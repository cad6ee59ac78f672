#!/usr/bin/env python3
"""The sweeping commands: clear, clear-of, dead."""
import time

from harness import PROGRAM, check_equal, check_in, environment, main, start_waiting, written_at_terminal

RUBY = "rql:acq:1/2/3/4/0123456789abcdef"
RUBY_HOST = "rql:hst:1/2/4/0123456789abcdef"
COUNTS = ("released", "queues", "requests", "handed_over", "foreign")


def hold(server, name, acquirer=RUBY, host=RUBY_HOST):
    server.ask("HSET", "rql:lock:" + name, "acq_id", acquirer, "hst_id", host,
                "ts", "1795254268.4681", "ini_ttl", "5000")


def wait_for(server, name, acquirer=RUBY, score="1795254268.5"):
    server.ask("ZADD", "rql:lock_queue:" + name, score, acquirer)


def counts(result):
    check_equal(result.code, 0, result.err)
    return tuple(result.json()[name] for name in COUNTS)


def test_clear_releases_locks_and_queues(server, rql):
    hold(server, "a")
    rql("lock", "b", "--ttl", "1m")
    wait_for(server, "a")
    wait_for(server, "c")
    server.ask("SET", "rql:lock:foreign", "x")
    check_equal(counts(rql("clear", "--dry-run", "--json")), (4, 2, 2, 0, 1))
    lines = rql("clear", "--dry-run").out.splitlines()
    check_equal(sorted(lines[:4]), ["rql:lock:a", "rql:lock:b", "rql:lock_queue:a", "rql:lock_queue:c"])
    check_equal(lines[4:], ["locks and queues: would be released: 4", "requests: would be removed: 2 from 2 queues",
                            "keys left alone, neither lock nor queue: 1"])
    assert server.is_locked("a")
    result = rql("clear", "--force")
    check_equal(result.code, 0, result.err)
    check_equal(result.out, "locks and queues: released: 4\n"
                            "requests: removed: 2 from 2 queues\n"
                            "keys left alone, neither lock nor queue: 1\n")
    check_equal(result.err, "")
    check_equal(rql("ls").out, "foreign\n")
    check_equal(counts(rql("clear", "--force", "--json")), (0, 0, 0, 0, 1))


def test_clear_takes_a_glob_and_names_what_would_go(server, rql):
    for name in ("orders:1", "orders:2", "stock", "-x"):
        hold(server, name)
        wait_for(server, name)
    result = rql("clear", "orders:*", "--dry-run", "--json").json()
    check_equal(sorted(result["keys"]), ["rql:lock:orders:1", "rql:lock:orders:2", "rql:lock_queue:orders:1",
                                         "rql:lock_queue:orders:2"])
    check_equal(result["released"], 4)
    assert server.is_locked("orders:1")
    check_equal(rql("clear", "orders:[!1]", "--force").out, "locks and queues: released: 2\n"
                                                            "requests: removed: 1 from 1 queues\n")
    check_equal(rql("ls").out, "-x\norders:1\nstock\n")
    check_equal(rql("clear", "--force", "--", "-?").code, 0)
    hold(server, "nul")
    hold(server, "nul\0inside")
    check_equal(counts(rql("clear", "nul", "--force", "--json"))[0], 1)
    check_equal(counts(rql("clear", "nul*", "--force", "--json"))[0], 0)
    assert server.is_locked("nul\0inside")
    check_equal(rql("ls").out, "orders:1\nstock\n")
    check_equal(rql("clear", "none*", "--dry-run", "--json").json()["keys"], [])
    hold(server, "e\x1b")
    check_equal(rql("clear", "e*", "--dry-run", "--json").json()["keys"], ["rql:lock:e\x1b"])
    check_in("rql:lock:e\\x1b\n", rql("clear", "e*", "--dry-run").out)
    check_in("rql:lock:stock", rql("clear-of", "--host", RUBY_HOST, "--acquirer", RUBY, "--dry-run").out)
    server.ask("DEL", "rql:lock_queue:orders:1", "rql:lock_queue:stock")


def test_clear_of_releases_by_both_ids_and_serves_waiters(server, rql):
    other = "rql:acq:9/9/9/9/0123456789abcdef"
    hold(server, "a")
    hold(server, "b", other)
    wait_for(server, "b")
    words = ("clear-of", "--host", RUBY_HOST, "--acquirer", RUBY)
    check_equal(counts(rql(*words, "--dry-run", "--json")), (1, 1, 1, 0, 0))
    waiter = start_waiting(server, rql, "lock", "a", "--ttl", "1m")
    check_equal(rql(*words, "--force").out, "locks: released: 1\n"
                                            "requests: removed: 1 from 1 queues\n"
                                            "locks handed to waiters: 1\n")
    check_equal(waiter.wait(), 0)
    assert server.is_locked("b")
    check_equal(server.queue_length("b"), 0)


def test_dead_removes_old_requests_of_the_gem(server, rql):
    wait_for(server, "a", score=str(time.time() - 2 * 86400))
    wait_for(server, "b", score=str(time.time()))
    result = rql("dead", "--dry-run", "--json").json()
    check_equal(sorted(result["processed_queues"]), ["a", "b"])
    check_equal((result["dry_run"], result["requests"]), (True, 1))
    check_equal(server.queue_length("a"), 1)
    check_equal(rql("dead", "--force", "--older-than", "3d").out, "requests: removed: 0 from 0 queues\n")
    check_equal(rql("dead", "--force", "--older-than", "1h").out, "requests: removed: 1 from 1 queues\n")
    check_equal(counts(rql("dead", "--force", "--json")), (0, 0, 0, 0, 0))
    check_equal(server.queue_length("b"), 1)


def test_progress_is_shown_on_a_terminal_only(server, rql):
    server.ask("EVAL", "for i = 1, 20000 do redis.call('HSET', KEYS[1] .. i, 'acq_id', i) end", "1",
                "rql:lock:{lock}n")
    words = ("clear", "--dry-run", "--lock-release-batch-size", "2")
    code, data = written_at_terminal(2, [PROGRAM, *words], environment(rql.url))
    check_equal(code, 0)
    check_in(b" of 20000 keys ", data)
    check_equal(data[-1:], b"\r")
    check_equal(rql("clear", "--dry-run").err, "")


if __name__ == "__main__":
    main()
