#!/usr/bin/env python3
"""rql watch: each event, by calls of librql and by what the gem sent; servers that go and come; readers that do not read."""
import json
import os
import pathlib
import re
import select
import signal
import time

from harness import (PATIENCE_S, PROGRAM, Program, Server, check_equal, check_in, finish, leave_out_in_cluster, main,
                     read_line, share_as, start_waiting, wait_until)

TOO_LARGE = 5 * 2**20  # for a listing of locks
RECORDINGS = pathlib.Path(__file__).resolve().parents[1] / "golden" / "recordings"


class Watch:
    """rql watch --json; `events` are those that it has said, each an object."""

    def __init__(self, rql, *words):
        self.process = rql.start("watch", *words, "--json")
        self.events = []

    def next(self):
        self.events.append(json.loads(read_line(self.process.stdout)))
        return self.events[-1]

    def await_event(self, event, **wanted):
        """Reads up to an event of this kind with these values."""
        while True:
            found = self.next()
            if found["event"] == event and all(found[key] == value for key, value in wanted.items()):
                return found

    def begin(self, count=1):
        """Reads the state at the beginning."""
        return [self.await_event("now") for _ in range(count)]

    def end(self):
        self.process.send_signal(signal.SIGINT)
        check_equal(finish(self.process).code, 0)


def hold(rql, server, name, *words):
    process = rql.start("run", name, *words, "--", "sleep", "60")
    wait_until(lambda: server.is_locked(name), "it is held")
    return process


def test_a_lock_is_granted_waited_for_and_released(server, rql):
    watch = Watch(rql, "a")
    now = watch.begin()[0]
    check_equal([now[key] for key in ("name", "n_holders", "acquirer_id", "waiting")], ["a", 0, None, 0])
    first = hold(rql, server, "a")
    granted = watch.await_event("granted")
    check_equal((granted["acquirer_id"], granted["token"], granted["waited_ms"], granted["via"], granted["missed"]),
                (server.ask("HGET", "rql:lock:a", "acq_id"), int(server.ask("HGET", "rql:lock:a", "rql_token")), None, "poll", False))
    start_waiting(server, rql, "run", "a", "--", "sleep", "60")
    third = start_waiting(server, rql, "run", "a", "--", "sleep", "60")
    queued = [watch.await_event("queued")["acquirer_id"] for _ in range(2)]
    check_equal(queued, server.ask("ZRANGE", "rql:lock_queue:a", "0", "-1"))
    check_equal(watch.events[-1]["waiting"], 2)
    third.terminate()
    check_equal(watch.await_event("withdrew")["acquirer_id"], queued[1])
    first.terminate()
    released = watch.await_event("released")
    check_equal((released["acquirer_id"], released["token"]), (granted["acquirer_id"], granted["token"]))
    handed = watch.await_event("granted")
    check_equal((handed["acquirer_id"], handed["missed"], handed["waiting"]), (queued[0], False, 0))
    assert handed["waited_ms"] > 0 and handed["token"] > granted["token"], handed
    watch.end()


def test_renewals_and_expiry_are_told(server, rql):
    watch = Watch(rql, "a")
    watch.begin()
    process = hold(rql, server, "a", "--ttl", "900ms")
    watch.await_event("granted")
    extended = watch.await_event("extended")
    assert extended["remaining_ms"] > 300, extended
    process.send_signal(signal.SIGSTOP)
    watch.await_event("expired", token=extended["token"])
    process.kill()
    watch.end()


def test_shares_come_leave_and_are_converted(server, rql):
    watch = Watch(rql, "pool")
    watch.begin()
    one, two = (rql.start("run", "pool", "--permits", "8", "--units", units, "--", "sleep", "60") for units in "12")
    shared = [watch.await_event("shared") for _ in range(2)]
    check_equal(({event["client"]["pid"] for event in shared}, {event["share_units"] for event in shared}),
                ({one.pid, two.pid}, {1, 2}))
    check_equal((shared[-1]["share_limit"], shared[-1]["n_holders"]), (8, 2))
    late = Watch(rql, "pool")
    now = late.begin()[0]
    check_equal((now["n_holders"], now["share_units"], now["share_limit"]), (2, None, None))
    late.end()
    one.terminate()
    check_equal(watch.await_event("left")["client"]["pid"], one.pid)
    watch.end()


def test_what_the_gem_sends_is_told(server, rql):
    """Each step of a recording, whose commands are sent as the gem sent them, has its event."""
    watch = Watch(rql, "x")
    watch.begin()
    recording = json.loads((RECORDINGS / "contended_wait_and_acquire.json").read_text(encoding="utf-8"))
    steps = [step["gem"] for step in recording["steps"] if step.get("gem")]
    for commands, (event, who) in zip(steps, (("granted", "aa1"), ("queued", "bb2"), ("released", "aa1")), strict=True):
        for command in commands:
            server.ask(*command)
        # The gem enters the queue of a free lock and leaves it in one step: a reading may see that.
        while watch.await_event(event)["acquirer_id"][-3:] != who:
            pass
        check_equal(watch.events[-1]["token"], None)
    watch.end()


def test_flushall_ends_everything(server, rql):
    hold(rql, server, "a")
    start_waiting(server, rql, "run", "a", "--", "true")
    watch = Watch(rql, "--all", "--event", "now,released,withdrew")
    now = watch.begin()[0]
    check_equal((now["name"], now["waiting"], now["n_holders"]), ("a", 1, 1))
    server.ask("FLUSHALL")
    watch.await_event("released", name="a")
    watch.end()


def test_all_locks_are_watched_and_new_ones_are_found(server, rql):
    hold(rql, server, "a")
    watch = Watch(rql, "--all")
    check_equal(watch.begin()[0]["name"], "a")
    hold(rql, server, "b")
    check_equal(watch.await_event("granted")["name"], "b")
    watch.end()


def test_a_lock_of_several_may_have_any_name(server, rql):
    """Another program has made it."""
    leave_out_in_cluster("a key without a partition")
    share_as(server, "a\nb", 8, ("1", ""), ("2", ""))
    watch = Watch(rql, "--all", "--event", "now,left,away")
    now = watch.begin()[0]
    check_equal((now["name"], now["n_holders"]), ("a\nb", 2))
    server.ask("DEL", "rql:lock:a\nb")
    check_equal(watch.await_event("left")["name"], "a\nb")
    check_equal({event["event"] for event in watch.events}, {"now", "left"})
    watch.end()


def test_holders_that_cannot_be_read_have_not_left(server, rql):
    """The lock is too large for a listing for a while. Another lock shows that it was looked at."""
    leave_out_in_cluster("a key without a partition")
    share_as(server, "a", 8, ("1", ""), ("2", ""))
    watch = Watch(rql, "a", "b")
    watch.begin(2)
    server.ask("HSET", "rql:lock:a", "m", "x" * TOO_LARGE)
    for _ in range(2):
        server.ask("HSET", "rql:lock:b", "acq_id", "x", "hst_id", "h", "ts", 1, "ini_ttl", 1)
        watch.await_event("granted", name="b")
        server.ask("DEL", "rql:lock:b")
        watch.await_event("released", name="b")
    server.ask("HDEL", "rql:lock:a", f"rql_h:rql:acq:1/1/0/0/{1:032x}", "m")
    left = watch.await_event("left")
    check_equal((left["acquirer_id"][-1], left["n_holders"]), ("1", 1))
    check_equal([event["event"] for event in watch.events if event["name"] == "a"], ["now", "left"])
    watch.end()


def test_a_server_that_goes_and_comes_is_told_and_watched_on(_server, _rql):
    with Server() as own:
        rql = Program(own.url)
        watch = Watch(rql, "a")
        watch.begin()
        own.ask("HSET", "rql:lock:a", "acq_id", "x", "hst_id", "h", "ts", 1, "ini_ttl", 1)
        watch.await_event("granted")
        own.kill()
        away = watch.await_event("away")
        assert away["error"] and away["name"] is None, away
        own.launch()
        back = watch.await_event("back")
        assert back["at_us"] > away["at_us"] > 0 and back["error"] is None, back
        watch.await_event("released", acquirer_id="x")
        own.ask("HSET", "rql:lock:a", "acq_id", "y", "hst_id", "h", "ts", 1, "ini_ttl", 1)
        watch.await_event("granted", acquirer_id="y")
        check_equal([event["event"] for event in watch.events].count("away"), 1)
        watch.end()
        rql.clean()


def test_a_reader_that_does_not_read_drops_lines_and_learns_how_many(server, rql):
    """Each round is several events; the pipe and 1000 lines are full after some hundred of them."""
    watch = Watch(rql, "a")
    watch.begin()
    server.ask("HSET", "rql:lock:a", "acq_id", "x", "hst_id", "h", "ts", 1, "ini_ttl", 1, "m", "x" * 50)
    for i in range(10):
        server.ask("EVAL", """redis.call('DEL', 'rql:lock_queue:a')
            for i = 1, 400 do redis.call('ZADD', 'rql:lock_queue:a', i, 'rql:acq:' .. ARGV[1] .. '-' .. i) end""", 0, i)
        time.sleep(0.3)
    server.ask("DEL", "rql:lock_queue:a")
    text = b""
    while not re.search(rb'"dropped":[1-9]', text):
        assert select.select([watch.process.stdout], [], [], PATIENCE_S)[0], "it has dropped nothing"
        text += os.read(watch.process.stdout.fileno(), 65536)
    check_in(b'"dropped":0', text)
    watch.process.kill()


def test_text_has_a_line_for_each_event(server, rql):
    process = rql.start("watch", "x\u202e", "-n", "2")
    first = read_line(process.stdout)
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}  x\\u202e  now        free\n", first), first
    server.ask("HSET", "rql:lock:x\u202e", "acq_id", "rql:acq:1/1/1/0/0123456789abcdef", "hst_id", "h", "ts", server.now_us() / 1e6,
               "ini_ttl", 1)
    assert re.fullmatch(r"\S+  x\\u202e  granted    ruby\[1\]  held \S+\n", read_line(process.stdout))
    server.ask("ZADD", "rql:lock_queue:x\u202e", server.now_us() / 1e6, "rql:acq:2/1/1/0/0123456789abcdef")
    done = finish(process)
    check_equal(done.code, 0)
    assert re.fullmatch(r"\S+  x\\u202e  queued     ruby\[2\]  waited \S+  waiting 1\n", done.out), done.out


def test_only_events_of_the_list_are_told(server, rql):
    process = rql.start("watch", "a", "--event", "released", "--count", "1", "--json")
    time.sleep(0.3)
    server.ask("HSET", "rql:lock:a", "acq_id", "x", "hst_id", "h", "ts", 1, "ini_ttl", 1)
    time.sleep(1.2)
    server.ask("DEL", "rql:lock:a")
    done = finish(process)
    check_equal((done.code, done.json()["event"]), (0, "released"))


def test_the_watch_publishes_nothing_and_subscribes_to_nothing(server, rql):
    watch = Watch(rql, "a")
    watch.begin()
    server.ask("CONFIG", "RESETSTAT")
    hold(rql, server, "a")
    watch.await_event("granted")
    stats = server.ask("INFO", "commandstats")
    assert "psubscribe" not in stats and "cmdstat_scan" not in stats, stats
    check_equal(server.ask("PUBSUB", "NUMPAT"), 0)
    watch.end()


def test_a_quiet_lock_is_asked_for_less_and_less(server, rql):
    """The first looks are 50 ms apart, the later ones a second."""
    watch = Watch(rql, "a")
    watch.begin()

    def await_look():
        before = server.n_calls("hgetall")
        wait_until(lambda: server.n_calls("hgetall") > before, "it looks")
        return time.monotonic()

    wait_until(lambda: await_look() + 0.7 < await_look(), "looks are far apart")
    watch.end()


def test_words_that_cannot_be(_server, rql):
    for words, said in (((), "NAME or --all is needed"), (("a", "--all"), "NAME or --all is needed"),
                        (("a", "--event", "now,gone"), "there is no event gone"),
                        (("a", "--event", ""), "no event is named"), (("a", "--event", ","), "no event is named")):
        refused = rql("watch", *words)
        check_equal(refused.code, 64)
        check_in(said, refused.err)
    check_equal(rql("watch", "a", "-n", "0").code, 0)
    check_equal(rql("watch", "a", RQL_URL="unix:///no/such").code, 69)
    check_equal(os.access(PROGRAM, os.X_OK), True)


if __name__ == "__main__":
    main()
