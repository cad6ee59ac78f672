#!/usr/bin/env python3
"""The commands of rql but for `run`: results as text and JSON, exit codes, messages."""
import pathlib
import re
import unicodedata

from harness import (IS_EMULATED, PROGRAM, Program, Proxy, check_equal, check_in, environment, finish,
                     leave_out_in_cluster, main, share_as, start_waiting, wait_until, written_at_terminal)

COMMANDS = ["run", "lock", "unlock", "extend", "info", "queue", "ls", "who", "clear", "clear-of",
            "dead", "stats", "hosts", "ping"]
WAIT_MS = 10000 if IS_EMULATED else 500  # of a request that is not granted; it has to reach the server


def one_line(text):
    """What a command says, but for what it says while it waits for a slow answer."""
    lines = [line for line in text.splitlines(keepends=True) if ": waiting: " not in line]
    check_equal(len(lines), 1, f"lines of {text!r}")
    check_equal(lines[0][:5], "rql: ", "start of a message")
    return lines[0]


def test_lock_prints_token_and_secret(server, rql):
    result = rql("lock", "a", "--ttl", "1m")
    check_equal(result.code, 0, result.err)
    words = dict(line.split(None, 1) for line in result.out.splitlines())
    check_equal(words["token"], server.ask("HGET", "rql:lock:a", "rql_token"))
    check_equal(len(words["secret"]), 32)
    assert server.is_locked("a")


def test_lock_prints_json_with_exact_numbers(server, rql):
    lock = rql("lock", "a", "--ttl=1m", "--meta", "who=me", "-m", "why=x=y", "--json").json()
    check_equal(str(lock["token"]), server.ask("HGET", "rql:lock:a", "rql_token"))
    check_equal(lock["ttl_ms"], 60000)
    check_equal(lock["name"], "a")
    assert 50000 < lock["remaining_ms"] <= 60000
    check_equal(server.ask("HGET", "rql:lock:a", "who"), "me")
    check_equal(server.ask("HGET", "rql:lock:a", "why"), "x=y")


def test_a_ttl_below_the_round_trip_is_named(server, rql):
    leave_out_in_cluster("a server by its socket")
    with Proxy(server.path, delay_s=0.03) as far:
        for words in (["lock", "a"], ["run", "a", "--", "true"], ["series", "a", "b", "--", "true"]):
            result = rql(words[0], "--ttl", "20ms", "--try", *words[1:], RQL_URL=far.url)
            check_equal((result.code, result.out), (1, ""))
            check_in("; 1 grant had expired when the reply arrived: "
                     "a ttl of 20 ms must be longer than the round trip\n", one_line(result.err))


def test_lock_with_wait_gives_up_in_time(server, rql):
    rql("lock", "a", "--ttl", "1m")
    result = rql("lock", "a", "--wait", f"{WAIT_MS}ms", "--conflict-exit-code=0")
    check_equal(result.code, 0)
    check_in(f"not acquired within {WAIT_MS // 1000}", one_line(result.err))
    check_equal(server.queue_length("a"), 0)
    result = rql("lock", "a", "--try", "--conflict-exit-code=0", "--json")
    check_equal((result.code, result.out), (0, "null\n"))


def test_environment_sets_options_and_flags_win(server, rql):
    rql("lock", "a", "--ttl", "1m")
    result = rql("lock", "a", RQL_TIMEOUT_MS=str(WAIT_MS))
    check_in("not acquired within ", result.err)
    result = rql("lock", "a", "--retry-count", "1", RQL_RETRY_COUNT="1000000")
    check_equal(result.code, 1)
    result = rql("--retry-count=1", "lock", "a")
    check_equal(result.code, 1)


def test_unlock_by_secret_releases_only_that_grant(server, rql):
    secret = rql("lock", "a", "--ttl", "1m", "--json").json()["secret"]
    result = rql("unlock", "a", "--secret", "0" * 32)
    check_equal((result.code, result.out), (1, ""))
    one_line(result.err)
    assert server.is_locked("a")
    check_equal(rql("unlock", "a", "--secret", secret, "--json").json(),
                {"name": "a", "lock_released": True})
    assert not server.is_locked("a")
    result = rql("unlock", "a", "--secret", secret, "--json")
    check_equal((result.code, result.json()["lock_released"]), (1, False))
    secret = rql("lock", "a", "--ttl", "1m", "--json").json()["secret"]
    result = rql("unlock", "a", "--secret", "-", text_in=secret + "\n")
    check_equal((result.code, result.out), (0, "lock: released\n"), result.err)



def test_unlock_by_token_ends_only_that_grant_and_serves_the_next(server, rql):
    token = rql("lock", "a", "--ttl", "1m", "--json").json()["token"]
    for words in (("--token", "1"), ("--force", "--token", "x"), ("--force", "--token", "")):
        check_equal(rql("unlock", "a", *words).code, 64)
    result = rql("unlock", "a", "--force", "--token", str(token + 1), "--json")
    check_equal((result.code, result.json()), (1, {"name": "a", "lock_released": False}))
    start_waiting(server, rql, "lock", "a", "--ttl", "1m")
    check_equal(rql("unlock", "a", "--force", "--token", str(token)).out, "lock: released\n")
    wait_until(lambda: server.ask("HGET", "rql:lock:a", "rql_token") not in (None, str(token)), "the waiter has it")
    check_equal(server.ask("ZCARD", "rql:lock_queue:a"), 0)
    check_equal(rql("unlock", "a", "--force", "--token", str(token)).code, 1)


def test_one_of_very_many_sharers_is_ended(server, rql):
    """All their fields together are more than a connection carries at once."""
    leave_out_in_cluster("a key without a partition")
    share_as(server, "a", 4096, ("1", ""), ("1", ""), ("1", ""))
    fields = [f"rql_h:rql:acq:{i}/1/0/0/{i:032x}" for i in range(3)]
    server.ask("EVAL", "for i = 1, 1100 do redis.call('HSET', KEYS[1], ARGV[1] .. i, ARGV[2] .. string.rep('x', 16000)) end", 1,
               "rql:lock:a", "rql_h:rql:acq:9/1/0/0/", f"{9:032x} 1 4096 9 60000 - rql:hst:9/1/0/9 ")
    result = rql("unlock", "a", "--secret", f"{0:032x}")
    check_equal((result.code, result.out, result.err), (0, "lock: released\n", ""))
    token = server.ask("HGET", "rql:lock:a", fields[1]).split()[3]
    result = rql("unlock", "a", "--force", "--token", token)
    check_equal((result.code, result.out, result.err), (0, "lock: released\n", ""))
    check_equal([server.ask("HEXISTS", "rql:lock:a", field) for field in fields], [0, 0, 1])


def test_unlock_by_force_releases_and_says_what_was_there(server, rql):
    rql("lock", "a", "--ttl", "1m")
    check_equal(rql("unlock", "a", "--force").out, "lock: released, queue: was empty\n")
    check_equal(rql("unlock", "a", "--force").out, "lock: was free, queue: was empty\n")
    result = rql("unlock", "a", "--force", "--json").json()
    check_equal((result["lock_released"], result["queue_released"]), (False, False))


def test_extend_changes_the_ttl_both_ways(server, rql):
    rql("lock", "a", "--ttl", "1m")
    check_equal(rql("extend", "a", "--add", "1h", "--force").code, 0)
    assert server.ask("PTTL", "rql:lock:a") > 3600000
    result = rql("extend", "a", "--add", "-30m", "--force", "--json")
    check_equal(result.json(), {"name": "a", "extended": True, "add_ms": -1800000})
    assert server.ask("PTTL", "rql:lock:a") < 2000000
    result = rql("extend", "b", "--add=5s", "--force")
    check_equal((result.code, result.out), (1, ""))
    one_line(result.err)


def test_extend_by_secret_extends_only_that_grant(server, rql):
    secret = rql("lock", "a", "--ttl", "1m", "--json").json()["secret"]
    result = rql("extend", "a", "--add", "1h", "--secret", "0" * 32)
    check_equal((result.code, result.out), (1, ""))
    check_in("a: not extended: no grant with this secret is in force", one_line(result.err))
    assert server.ask("PTTL", "rql:lock:a") <= 60000
    check_equal(rql("extend", "a", "--add", "1h", "--secret", secret).out[:5], "ttl: ")
    assert 3600000 < server.ask("PTTL", "rql:lock:a") <= 3660000
    result = rql("extend", "a", "--add=1h", "-s", "-", "--json", text_in=secret + "\n")
    check_equal((result.code, result.json()), (0, {"name": "a", "extended": True, "add_ms": 3600000}))
    assert 7200000 < server.ask("PTTL", "rql:lock:a") <= 7260000
    check_equal(rql("extend", "a", "--add", "-1h", "--secret", secret).code, 64)
    check_equal(rql("extend", "a", "--add", "30d", "--secret", secret).code, 0)
    assert 2591900000 < server.ask("PTTL", "rql:lock:a") <= 2592000000
    check_equal(rql("unlock", "a", "--secret", secret).code, 0)
    check_equal(rql("extend", "a", "--add", "1h", "--secret", secret).code, 1)


def test_extend_leaves_what_several_share(server, rql):
    """Each share has a time of its own, and that of the longest would be added to."""
    secret = rql("lock", "a", "--permits", "8", "--ttl", "20s", "--json").json()["secret"]
    rql("lock", "a", "--permits", "8", "--ttl", "10m")
    before = server.ask("PTTL", "rql:lock:a")
    for how in (("--secret", secret), ("--force",)):
        result = rql("extend", "a", "--add", "1h", *how)
        check_equal((result.code, result.out), (1, ""))
        check_in("a: not changed: several share the lock", one_line(result.err))
        check_equal(rql("extend", "a", "--add", "1h", *how, "--json").json()["extended"], False)
    assert server.ask("PTTL", "rql:lock:a") <= before


def test_info_shows_holder_times_and_metadata(server, rql):
    lock = rql("lock", "a", "--ttl", "1m", "--meta", "who=me", "--json").json()
    text = rql("info", "a", "--ids").out
    for part in ("holder", lock["acquirer_id"], lock["host_id"], str(lock["token"]), "meta who", "1m00s"):
        check_in(part, text)
    info = rql("info", "a", "--json").json()
    wanted = {**{name: lock[name] for name in ("acquirer_id", "token", "acquired_at_us")}, "meta": {"who": "me"}, "status": "alive",
              "reentries": None}
    check_equal({name: info[name] for name in wanted}, wanted)


def test_a_free_lock_is_an_outcome(_server, rql):
    for command in "info", "queue":
        result = rql(command, "a")
        check_equal((result.code, result.out), (1, ""))
        one_line(result.err)
        result = rql(command, "a", "--json")
        check_equal((result.code, result.json()), (1, None))


def test_info_reads_locks_of_the_gem(server, rql):
    server.ask("HSET", "rql:lock:a", "acq_id", "rql:acq:1/2/3/4/0123456789abcdef", "hst_id",
                "rql:hst:1/2/4/0123456789abcdef", "ts", "1795254268.4681", "ini_ttl", "5000")
    info = rql("info", "a", "--json").json()
    check_equal((info["token"], info["acquired_at_us"], info["remaining_ms"]), (None, 1795254268468100, None))
    for words in (["info", "a"], ["who"], ["ls", "--long"]):
        check_in("forever", rql(*words).out)


def test_queue_lists_requests_in_order(server, rql):
    rql("lock", "a", "--ttl", "1m")
    check_equal(rql("queue", "a").code, 1)
    waiters = [start_waiting(server, rql, "lock", "a"), start_waiting(server, rql, "lock", "a")]
    queue = rql("queue", "a", "--json").json()
    check_equal([request["position"] for request in queue["requests"]], [1, 2])
    lines = rql("queue", "a", "--ids").out.splitlines()
    check_equal(lines[0].split(), ["POSITION", "AGE", "SHARE", "ACQUIRER", "HOST"])
    for line, request in zip(lines[1:], queue["requests"]):
        check_in(request["acquirer_id"], line)
        check_in(request["host_id"], line)
    for waiter in waiters:
        waiter.kill()
        finish(waiter)


def test_ls_lists_names_keys_and_queues(server, rql):
    check_equal((rql("ls").code, rql("ls").out, rql("ls", "--json").json()), (0, "", []))
    for name in ("b", "a"):
        rql("lock", name, "--ttl", "1m")
    server.ask("ZADD", "rql:lock_queue:c", "1795254268.5", "rql:acq:1/2/3/4/0123456789abcdef")
    check_equal(rql("ls").out, "a\nb\n")
    check_equal(rql("ls", "--json").json(), ["a", "b"])
    check_equal(rql("ls", "--queues").out, "c\n")
    check_equal(sorted(rql("ls", "--keys", "--json").json()),
                ["rql:lock:a", "rql:lock:b", "rql:lock_queue:c"])
    lines = rql("ls", "--long").out.splitlines()
    check_equal(lines[0].split(), ["LOCK", "STATUS", "AGE", "LEFT", "TOKEN", "HOLDERS", "HOLDER"])
    check_equal([lock["name"] for lock in rql("ls", "-l", "--json").json()], ["a", "b"])
    queues = rql("ls", "-ql", "--json").json()
    check_equal(queues[0]["requests"][0]["score_us"], 1795254268500000)
    check_in("rql:acq:1/2/3/4/0123456789abcdef", rql("ls", "-q", "-l", "--ids").out)


def test_ls_and_who_take_a_glob(server, rql):
    for name in ("orders:1", "orders:2", "stock", "a/b"):
        rql("lock", name, "--ttl", "1m")
        server.ask("ZADD", "rql:lock_queue:" + name, "1795254268.5", "rql:acq:1/2/3/4/0123456789abcdef")
    check_equal(rql("ls", "orders:*").out, "orders:1\norders:2\n")
    check_equal(rql("ls", "a*b").out, "a/b\n")
    check_equal(rql("ls", "orders:[!1]", "--json").json(), ["orders:2"])
    check_equal(rql("ls", "orders:\\*").out, "")  # the star itself
    check_equal(rql("ls", "-q", "stoc?").out, "stock\n")
    check_equal(rql("ls", "--keys", "stock").out, "rql:lock:stock\nrql:lock_queue:stock\n")
    check_equal([lock["name"] for lock in rql("ls", "-l", "--json", "orders:*").json()], ["orders:1", "orders:2"])
    check_equal([queue["name"] for queue in rql("ls", "-q", "-l", "--json", "*k").json()], ["stock"])
    check_equal([(lock["name"], lock["waiting"]) for lock in rql("who", "--json", "s*").json()], [("stock", 1)])
    check_equal((rql("ls", "none").code, rql("ls", "none").out), (0, ""))
    check_equal(len(rql("who", "orders:*").out.splitlines()), 3)


def test_who_joins_locks_and_queues(server, rql):
    rql("lock", "a", "--ttl", "1m")
    rql("lock", "b", "--ttl", "1m")
    waiter = start_waiting(server, rql, "lock", "b", name="b")
    who = rql("who", "--json").json()
    check_equal([(row["name"], row["waiting"]) for row in who], [("a", 0), ("b", 1)])
    assert all(row["age_ms"] >= 0 for row in who)
    lines = [line.split() for line in rql("who", "--ids").out.splitlines()]
    check_equal(lines[0], ["LOCK", "AGE", "LEFT", "HOLDERS", "WAITING", "HOLDER", "HOST", "REASON"])
    check_equal((lines[2][0], lines[2][4]), ("b", "1"))
    waiter.kill()
    finish(waiter)


def test_who_and_ls_show_how_many_share_a_lock(server, rql):
    rql("lock", "alone", "--ttl", "1m")
    server.ask("HSET", "rql:lock:one", *server.ask("HGETALL", "rql:lock:alone"), "rql_share", "2 4s")
    share_as(server, "permits", 8, ("1", ""), ("4", ""))
    share_as(server, "readers", 4096, ("1", ""), ("1", ""), ("1", ""))
    wanted = {"alone": "1", "one": "2/4", "permits": "5/8", "readers": "3 share"}
    for words in (["who"], ["ls", "-l"]):
        heads, *lines = rql(*words).out.splitlines()
        at = heads.index("HOLDERS")
        shown = {line.split()[0]: line[at:at + 9].strip() for line in lines}
        check_equal({name: shown[name] for name in wanted}, wanted)
        assert all(len(line) <= 80 for line in lines), lines
        assert "rql:acq:shared" not in "".join(lines)
    info = rql("info", "readers")
    check_in("holders  ", info.out)
    check_in("3 share", info.out)
    assert "rql:acq:shared" not in info.out
    of = {lock["name"]: (lock["n_holders"], lock["used_units"], lock["share_limit"]) for lock in rql("who", "--json").json()}
    check_equal({name: of[name] for name in wanted},
                {"alone": (1, 0, 0), "one": (1, 2, 4), "permits": (2, 5, 8), "readers": (3, 3, 4096)})


def test_who_shows_each_holder_of_a_lock(server, rql):
    share_as(server, "gpus", 8, ("2:0,3", ""), ("3:4,5,6", "\x92\xa6reason\xa5train"), ("1", ""))
    heads, *lines = rql("who", "gpus", "--ids").out.splitlines()
    check_equal(heads.split(), ["LOCK", "AGE", "LEFT", "SHARE", "SLOTS", "WAITING", "HOLDER", "HOST", "REASON"])
    rows = [line.split() for line in lines]
    check_equal([(row[0], *row[3:6], row[6].split("/")[0], row[8]) for row in rows],
                [("gpus", "2/8", "0,3", "0", "rql:acq:0", "-"), ("gpus", "3/8", "4-6", "0", "rql:acq:1", "train"),
                 ("gpus", "1/8", "-", "0", "rql:acq:2", "-")])
    assert heads.index("HOLDER") <= 60, heads  # what is left of 80 columns is for a name
    (lock,) = rql("who", "gpus", "--json").json()
    check_equal((lock["n_holders"], lock["used_units"], lock["share_limit"], lock["waiting"]), (3, 6, 8, 0))
    check_equal([(one["share_units"], one["share_limit"], one["slots"], one["meta"]) for one in lock["holders"]],
                [(2, 8, [0, 3], {}), (3, 8, [4, 5, 6], {"reason": "train"}), (1, 8, [], {})])
    assert all(0 < one["remaining_ms"] <= one["ttl_ms"] == 60000 and one["token"] > 0 for one in lock["holders"])
    rql("lock", "alone", "--ttl", "1m", "--reason", "why")
    check_equal(rql("who", "alone").out.splitlines()[1].split()[3:6], ["-", "-", "0"])
    (lock,) = rql("who", "alone", "--json").json()
    check_equal([one["acquirer_id"] for one in lock["holders"]], [lock["acquirer_id"]])
    check_equal((rql("who", "free").code, len(rql("who", "free").out.splitlines())), (0, 1))


def test_queue_shows_who_waits_for_a_share(server, rql):
    rql("lock", "a", "--ttl", "1m")
    for score, (acquirer, access, packed) in enumerate((("rql:acq:1", "h", "\x92\xa9rql_share\xa42 8s"),
                                                        ("rql:acq:2", "H", "\x92\xa9rql_share\xa61 4096"),
                                                        ("rql:acq:3", "q", "")), 1):
        server.ask("ZADD", "rql:lock_queue:a", score, acquirer)
        server.ask("HSET", "rql:req:a", acquirer, f"rql:hst:1 60000 {score:032x} 0 {access} {score} {packed}".encode("latin-1"))
    lines = rql("queue", "a").out.splitlines()
    check_equal([line.split()[2] for line in lines], ["SHARE", "2/8", "1", "-"])
    check_equal([(one["share_units"], one["share_limit"]) for one in rql("queue", "a", "--json").json()["requests"]],
                [(2, 8), (1, 4096), (0, 0)])


def test_foreign_keys_are_listed_not_stumbled_over(server, rql):
    server.ask("SET", "rql:lock:string", "x")
    server.ask("HSET", "rql:lock:half", "acq_id", "x")
    rql("lock", "whole", "--ttl", "1m")
    rows = {row["name"]: row["status"] for row in rql("ls", "-l", "--json").json()}
    check_equal(rows, {"half": "malformed", "string": "wrong type", "whole": "alive"})
    check_in("wrong type", rql("who").out)
    assert "forever" not in rql("info", "string").out


def test_names_and_metadata_cannot_reach_the_terminal_raw(server, rql):
    name = b"rql:lock:x\x1b[31m\n\xff\xe2\x80\xaey"
    server.ask("HSET", name, "acq_id", b"a\x07", "hst_id", "h", "ts", "1795254268.5",
                "ini_ttl", "5000", "m", b"\xc2\x9b1m")
    check_equal(rql("ls").out, "x\\x1b[31m\\n\\xff\\u202ey\n")
    check_in("a\\x07", rql("who").out)
    lock = rql("ls", "-l", "--json").json()[0]
    check_equal(lock["name"], "x\x1b[31m\n\ufffd\u202ey")
    check_equal(lock["meta"], {"m": "\x9b1m"})


def columns(text):
    """What a terminal needs for it: East Asian characters are wide, accents take nothing."""
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF")
               for c in text)


def test_table_columns_are_aligned(server, rql):
    names = ("a", "a-much-longer-name", "\u00e9\u00e9", "e\u0301", "\u65e5\u672c\u8a9e", "\U0001f512")
    for name in names:
        rql("lock", name, "--ttl", "1m")
    lines = rql("ls", "--long").out.splitlines()
    check_equal(len(lines), 1 + len(names))
    words = ["STATUS"] + ["alive"] * len(names)
    check_equal(len({columns(line[:line.index(word)]) for line, word in zip(lines, words)}), 1)


def output_of(words, **more):
    """What the program writes to a terminal."""
    return written_at_terminal(1, [PROGRAM, *words], more)[1]


def test_who_shows_the_reason(server, rql):
    rql("lock", "a", "--reason", "release 12", "--ttl", "1m")
    rql("lock", "b", "--ttl", "1m")
    lines = rql("who").out.splitlines()
    check_equal([line.split("  ")[-1].strip() for line in lines], ["REASON", "release 12", "-"])
    check_equal(rql("who", "a", "--json").json()[0]["meta"], {"reason": "release 12"})
    check_equal(rql("run", "c", "--reason", "x", "-m", "y=z", "--", PROGRAM, "info", "c", "--json").json()["meta"],
                {"reason": "x", "y": "z"})


def test_a_string_is_run_by_the_shell(server, rql):
    check_equal(rql("run", "a", "-c", "echo $RQL_LOCK; exit 3").code, 3)
    check_equal(rql("series", "b{a}", "a", "--command", "echo \"$RQL_LOCK\"").out, "b{a}\na\n")
    result = rql("run", "a", "-c", "true", "--", "true")
    check_equal((result.code, result.err), (64, "rql: run: --command does not go with -- COMMAND; see rql run --help\n"))
    check_equal(rql("run", "a", "-c", "").code, 0)


def test_json_may_stand_in_front_of_the_command(server, rql):
    rql("lock", "a", "--ttl", "1m")
    check_equal([lock["name"] for lock in rql("--json", "who").json()], ["a"])
    result = rql("--json", "run", "a", "--", "true")
    check_equal((result.code, result.err), (64, "rql: run: it prints no JSON: --json; see rql run --help\n"))


def test_without_a_command_there_is_help(_server, rql):
    result = rql()
    check_equal((result.code, result.out, result.err), (0, rql("help").out, ""))


def widest(text):
    return max(map(len, text.splitlines()))


def test_http_may_be_left_out_of_a_build(_server, rql):
    refused = rql("serve", "--listen", "nowhere")
    is_there = refused.code == 64
    check_equal((refused.code, refused.err.count("\n")), (64 if is_there else 69, 1))
    check_in("HTTP can be served at" if is_there else "built without it (-Dserve=enabled)", refused.err)


def test_help_fits_the_terminal(_server, rql):
    commands = re.findall(r"^  ([a-z-]+)  ", rql("help").out, re.M)
    assert {"run", "who", "wait", "doctor", "help"} & set(commands), commands
    for words in ([], ["help", "options"], *(["help", name] for name in commands if name != "help")):
        assert widest(rql(*words).out) <= 80, (words, widest(rql(*words).out))
    narrow = written_at_terminal(1, ["/bin/sh", "-c", f"stty cols 60 <&1; exec {PROGRAM} help options"], environment(rql.url))[1]
    assert widest(narrow.decode().replace("\r", "").split("  --url", 1)[0]) <= 60, narrow


def test_a_failure_has_a_colour(server, rql):
    plain = environment(rql.url)
    plain.pop("NO_COLOR", None)
    plain["TERM"] = "xterm"
    server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    check_in(b"\033[1;33mWARN\033[0m", output_of(["doctor"], **plain))
    server.ask("CONFIG", "SET", "maxmemory", "1gb")
    check_in(b"\033[1;31mFAIL\033[0m", output_of(["doctor"], **plain))
    assert b"\033" not in output_of(["doctor"], **plain, NO_COLOR="1")
    server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "0")


def test_colours_are_for_terminals_only(server, rql):
    rql("lock", "a", "--ttl", "1m")
    assert "\033" not in rql("who").out
    plain = environment(rql.url)
    plain.pop("NO_COLOR", None)
    plain["TERM"] = "xterm"
    check_in(b"\033[1m", output_of(["who"], **plain))
    assert b"\033" not in output_of(["who"], **plain, NO_COLOR="1")
    assert b"\033" not in output_of(["who"], **{**plain, "TERM": "dumb"})


def test_unknown_variables_are_told_once_each(server, rql):
    result = rql("run", "a", "--", "true", RQL_RETRY_CUONT="3", RQL_NONSENSE="x", RQL_TOKEN="1",
                 RQL_TTL="5s")
    check_equal(result.code, 0)
    check_equal(sorted(result.err.splitlines()),
                ["rql: unknown variable RQL_NONSENSE is ignored",
                 "rql: unknown variable RQL_RETRY_CUONT is ignored (did you mean RQL_RETRY_COUNT?)",
                 "rql: unknown variable RQL_TTL is ignored (did you mean RQL_TTL_MS?)"])
    check_equal(rql("help", RQL_NONSENSE="x").err, "")
    check_equal(rql("ls", RQL_LOCAL_DIR="/nowhere", RQL_LOCAL_IDLE="5").err, "")


def test_names_between_dashes_may_look_like_flags(server, rql):
    check_equal(rql("lock", "--ttl", "1m", "--", "--force").code, 0)
    check_equal(rql("ls").out, "--force\n")
    check_equal(rql("info", "--json", "--", "--force").json()["name"], "--force")
    check_equal(rql("info", "--", "--force", "--", "--json").json()["name"], "--force")
    check_equal(rql("run", "--", "-n", "--", "printenv", "RQL_LOCK").out, "-n\n")
    check_equal(rql("series", "--", "-b{--try}", "--try", "--", "printenv", "RQL_LOCK").out, "-b{--try}\n--try\n")


def test_durations_have_fractions_and_parts_everywhere(server, rql):
    for text, ttl_ms in (("0.5s", "500"), ("1h30m", "5400000"), ("30d", "2592000000"),
                         ("1m0.25s", "60250")):
        for words in (["lock", "a", "--ttl", text], ["--ttl", text, "lock", "a"]):
            lock = rql(*words, "--json").json()
            check_equal(str(lock["ttl_ms"]), ttl_ms)
            rql("unlock", "a", "--force")
        check_equal(str(rql("lock", "a", "--json", RQL_TTL_MS=text).json()["ttl_ms"]), ttl_ms)
        check_equal(rql("extend", "a", "--add=-" + text, "--force").code, 0)
        assert not server.is_locked("a")
    rql("lock", "a", "--ttl", "1m")
    check_equal(rql("lock", "a", "--wait", "0.75s").code, 1)
    check_equal(rql("dead", "--force", "--older-than", "1d12h").code, 0)


def test_bad_environment_is_named(server, rql):
    result = rql("ls", RQL_RETRY_COUNT="some")
    check_equal(result.code, 64)
    check_in("RQL_RETRY_COUNT", one_line(result.err))
    check_equal(rql("--help", RQL_RETRY_COUNT="some").code, 0)


def test_unreachable_server_is_one_line_without_the_password(server, rql):
    for url in ("redis://user:geheim@127.0.0.1:1/0", "unix://user:geheim@/nonexistent/socket"):
        for words in (["ls"], ["lock", "a"], ["run", "a", "--", "true"], ["who", "--json"], ["clear", "--force"],
                      ["dead", "--force", "--json"], ["swarm", "run"], ["clear-of", "--host", "h", "--acquirer", "a", "--force", "--json"]):
            result = Program(url)(*words)
            check_equal((result.code, result.out), (69, ""), result.err)
            assert "geheim" not in one_line(result.err)


def test_version_is_that_of_the_header(_server, rql):
    header = pathlib.Path(PROGRAM).parents[2] / "include" / "rql" / "version.h"
    macros = dict(re.findall(r"^#define RQL_VERSION_?(\w*) \"?([\d.]+)", header.read_text(encoding="utf-8"), re.M))
    check_equal(macros[""], ".".join(macros[part] for part in ("MAJOR", "MINOR", "PATCH")))
    for flag in "--version", "-V":
        check_equal(rql(flag).out, f"rql {macros['']}\n")


def test_help_options_has_all_options(_server, rql):
    table = (pathlib.Path(__file__).resolve().parents[2] / "include/rql/options.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (\w*) ", table, re.M)
    assert len(rows) >= 15, rows
    text = rql("help", "options").out
    for name, variable, unit in rows:
        check_in("--" + (name.removesuffix("_ms") if unit == "ms" else name).replace("_", "-") + " ", text)
        check_in(variable, text)


def test_help_run_is_one_screen_with_examples(server, rql):
    lines = rql("help", "run").out.splitlines()
    assert len(lines) <= 34, len(lines)
    assert max(map(len, lines)) <= 80, max(lines, key=len)
    assert sum(line.startswith("  rql run ") for line in lines) >= 3
    for flag in ("--ttl", "--wait", "--try", "--no-auto-extend", "--max-hold", "--kill-after", "--meta",
                 "--conflict-exit-code", "--log", "--help", "--shared", "--permits", "--units", "--slots",
                 "--max-waiters", "--priority", "--head-start", "--agent", "--trace", "--traceparent"):
        check_in(" " + flag, "\n".join(lines))
    check_in("rql help options", lines[-1])


def test_help_of_a_command_wins_over_its_words(server, rql):
    check_equal(rql("help").out, rql("--help").out)
    for command in COMMANDS:
        result = rql(command, "--help")
        check_equal((result.code, result.err), (0, ""))
        check_equal((rql("help", command).out, rql("--help", command).out), (result.out, result.out))
        check_in(f"Usage: rql {command}", result.out)


if __name__ == "__main__":
    main()
