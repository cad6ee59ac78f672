#!/usr/bin/env python3
"""rql agent: the lock service of a host, by its socket."""
import contextlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time

from agent import Agent, await_free
from harness import (HOST, IN_USE, PATIENCE_S, PROGRAM, Folder, LeftOut, add, await_gone, check_equal, check_in, environment, finish,
                     free_port, is_cluster, listener, main, read_line, wait_until)
from resp import Connection, Refused, ServerError

PAGE = pathlib.Path(__file__).resolve().parents[2] / "include/rql/agent.md"
# How the examples of the page are run, and what says whether their client is installed.
LANGUAGES = {
    "python": (["/usr/bin/python3", "-c"], "import redis"),
    "js": (["node", "-e"], 'require("redis")'),
    "javascript": (["node", "-e"], 'require("ioredis")'),
    "perl": (["perl", "-e"], "use Redis;"),
    "ruby": (["/usr/bin/ruby", "-e"], 'require "redis"'),
    "php": (["php", "-r"], "new Redis();"),
}
NODE_PATH = "/usr/share/nodejs"  # of Debian's packages, for a node of another origin

AS_SYSTEMD = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=os.environ.get("N_PASSED", "1"))
os.execv(sys.argv[2], sys.argv[2:])
"""


def is_granted(line, name):
    try:
        return line.call("RQL.LOCK", name)[1] > 0
    except Refused:
        return False


def refusal(line, *words, whole=False):
    try:
        told = line.call(*words)
    except Refused as refused:
        return str(refused) if whole else str(refused).split()[0]
    raise AssertionError(f"{words}: {told}")


@contextlib.contextmanager
def killed(process):
    """At the end of the block, with its children."""
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def test_a_lock_is_taken_by_one_connection_at_a_time(server, rql):
    with Agent(rql) as agent:
        one, two = agent.connect(), agent.connect()
        token, remaining_ms, slots = one.call("RQL.LOCK", "a")
        assert 14000 < remaining_ms <= 15000, remaining_ms
        check_equal(slots, [])
        check_equal(int(server.ask("HGET", "rql:lock:a", "rql_token")), token)
        check_equal((two.call("RQL.LOCK", "a", "TRY"), two.call("rql.lock", "a", "wait", "200")), (None, None))
        check_equal((one.call("RQL.HELD", "a") > 0, two.call("RQL.HELD", "a")), (True, 0))
        check_equal(refusal(one, "RQL.LOCK", "a"), "HELD")
        two.tell("RQL.LOCK", "a", "WAIT", 0, "TTL", 5000)
        wait_until(lambda: server.queue_length("a") == 1, "it waits")
        check_equal(refusal(one, "RQL.UNLOCK", "a", token + 1), "NOTHELD")
        check_equal(one.call("RQL.UNLOCK", "a", token), 1)
        later, remaining_ms, _ = two.read()
        assert later > token and remaining_ms <= 5000
        check_equal(refusal(one, "RQL.UNLOCK", "a"), "NOTHELD")
        check_equal(two.call("RQL.UNLOCK", "a"), 1)
        assert not server.is_locked("a")


def test_several_are_unlocked_at_once(server, rql):
    with Agent(rql) as agent:
        one = agent.connect()
        tokens = [one.call("RQL.LOCK", name)[0] for name in "abc"]
        check_equal(one.call("RQL.UNLOCK", "a", tokens[0], "b", tokens[1] + 1, "c", tokens[2]), 2)
        check_equal([server.is_locked(name) for name in "abc"], [False, True, False])


def test_readers_permits_and_slots(server, rql):
    with Agent(rql) as agent:
        lines = [agent.connect() for _ in range(3)]
        for line in lines[:2]:
            check_equal(line.call("RQL.LOCK", "r", "SHARED")[2], [])
        check_equal(lines[2].call("RQL.LOCK", "r", "TRY"), None)
        check_equal([line.call("RQL.LOCK", "gpu", "PERMITS", 3, "SLOTS")[2] for line in lines], [[0], [1], [2]])
        check_equal(lines[0].call("RQL.LOCK", "more", "PERMITS", 3, "UNITS", 2, "SLOTS")[2], [0, 1])
        lines[1].close()
        wait_until(lambda: agent.connect().call("RQL.LOCK", "gpu", "TRY", "PERMITS", 3, "SLOTS") is not None, "it is free")


def test_metadata_and_the_longest_time_of_a_hold(server, rql):
    with Agent(rql) as agent:
        line = agent.connect()
        line.call("RQL.LOCK", "a", "META", "reason", "nightly run", "META", "b", "", "MAX", 300, "TTL", 200)
        check_equal(server.ask("HMGET", "rql:lock:a", "reason", "b"), ["nightly run", ""])
        await_free(server, "a")
        wait_until(lambda: is_closed(line), "it is closed")


def test_who_holds_and_who_waits_is_named(server, rql):
    """By process and connection, not as the agent that does it for them."""
    me = f"{HOST} {pathlib.Path('/proc/self/comm').read_text().strip()}[{os.getpid()}]"
    with Agent(rql) as agent:
        one, two, three = (agent.connect() for _ in range(3))
        one.call("RQL.LOCK", "a")
        one.call("RQL.LOCK", "b", "META", "holder", "the one")
        one.call("FENCELOCK.ACQUIRE", "c", 60)
        two.call("CLIENT", "SETNAME", "billing")
        two.tell("RQL.LOCK", "a", "WAIT", 0)
        wait_until(lambda: server.queue_length("a") == 1, "it waits")
        held = {line.split()[0]: line for line in rql("who").out.splitlines()}
        for name, holder in ("a", me), ("b", f"{HOST} the one"), ("c", me):
            check_in(f" {holder} ", held[name])
        check_in(f" {me} billing\n", rql("queue", "a").out)
        three.tell("RQL.LOCK", "a", "META", "reason", "nightly run", "WAIT", 0)
        wait_until(lambda: server.queue_length("a") == 2, "both wait")
        waiters, own = rql("queue", "a", "--json").json()["requests"], me.split()[1]
        check_equal([waiter["meta"] for waiter in waiters],
                    [{"holder": f"{own} billing"}, {"reason": "nightly run", "holder": own}])
        check_equal(waiters[0]["client"]["program"], "rql")


def is_closed(line):
    try:
        line.call("PING")
    except (ServerError, Refused, OSError):
        return True
    return False


def test_a_hold_ends_with_its_connection(server, rql):
    with Agent(rql) as agent:
        for end in ("close", "QUIT", "RESET"):
            line = agent.connect()
            line.call("RQL.LOCK", "a")
            other = agent.connect()
            other.tell("RQL.LOCK", "a", "WAIT", 0)
            wait_until(lambda: server.queue_length("a") == 1, "it waits")
            if end == "close":
                line.close()
            else:
                check_equal(line.call(end), "OK" if end == "QUIT" else "RESET")
            other.read()
            other.close()
            await_free(server, "a")


def test_a_request_ends_with_its_connection(server, rql):
    with Agent(rql) as agent:
        agent.connect().call("RQL.LOCK", "a")
        line = agent.connect()
        line.tell("RQL.LOCK", "a", "WAIT", 0)
        wait_until(lambda: server.queue_length("a") == 1, "it waits")
        line.close()
        wait_until(lambda: server.queue_length("a") == 0, "it has left the queue")
        assert server.is_locked("a")


def test_a_hold_ends_with_its_process(server, rql):
    """Although a child has the connection. What the process waits for is withdrawn."""
    with Agent(rql) as agent:
        agent.connect().call("RQL.LOCK", "b")
        with killed(agent.holder("RQL.LOCK a", forks=True)) as process:
            os.kill(process.pid_of_main, signal.SIGKILL)
            await_free(server, "a")
        with killed(agent.holder("RQL.INHERIT", "RQL.LOCK a", forks=True)) as process:
            os.kill(process.pid_of_main, signal.SIGKILL)
            process.wait()
            time.sleep(0.3)  # nothing is to happen
            assert server.is_locked("a")


def test_a_hold_belongs_to_the_process_that_asked_for_it(server, rql):
    """Not to the one that connected."""
    with Agent(rql) as agent:
        line = agent.connect()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            line.call("RQL.LOCK", "a")
            os.write(writer, b"x")
            time.sleep(600)
        check_equal(os.read(reader, 1), b"x")
        line.call("RQL.LOCK", "b")
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        await_free(server, "a")
        check_equal((server.is_locked("b"), line.call("PING")), (True, "PONG"))
        for end in reader, writer:
            os.close(end)


def in_child(work):
    """A process that has all connections of this one; it ends with the work."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    return child


def test_a_client_that_closes_with_unread_replies_has_ended(server, rql):
    with Agent(rql) as agent:
        line = agent.connect()
        line.call("RQL.LOCK", "a", "TTL", 60000)
        line.tell("PING")
        other = agent.connect()
        other.call("PING")
        line.close()
        await_free(server, "a")


def test_requests_that_wait_belong_to_those_who_sent_them(server, rql):
    """And those of a process that has ended meanwhile are not done."""
    with Agent(rql) as agent:
        for ended in (False, True):
            holder, line = agent.connect(), agent.connect()
            holder.call("RQL.LOCK", "p")

            def ask(line=line):
                line.tell("RQL.LOCK", "p", "WAIT", 0)
                line.tell("RQL.LOCK", "q")
                time.sleep(0 if not ended else 600)

            def say(line=line):
                line.tell("PING")
                time.sleep(600)

            child = in_child(ask if ended else say) if ended else None
            if not ended:
                ask()
            wait_until(lambda: server.queue_length("p") == 1, "it waits")
            child = child or in_child(say)
            time.sleep(0.1)  # what the child has sent is there
            if ended:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                check_equal(refusal_read(line, whole=True),
                            "WITHDRAWN the process that asked for it has ended")
                check_equal(refusal_read(line), "WITHDRAWN")
                assert not server.is_locked("q")
            else:
                holder.call("RQL.UNLOCK", "p")
                check_equal([type(line.read()) for _ in range(3)], [list, list, str])
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                time.sleep(0.2)  # nothing is to happen
                assert server.is_locked("q")
            for one in holder, line:
                one.close()
            await_free(server, "p")
            await_free(server, "q")


def test_a_process_that_has_ended_gets_no_lock(server, rql):
    """Although another one has its connection."""
    with Agent(rql) as agent:
        line = agent.connect()
        line.call("PING")
        agent.process.send_signal(signal.SIGSTOP)
        os.waitpid(in_child(lambda: line.tell("RQL.LOCK", "a")), 0)
        agent.process.send_signal(signal.SIGCONT)
        check_equal(refusal_read(line), "WITHDRAWN")
        assert not server.is_locked("a")


def test_more_processes_than_can_be_watched_get_no_lock(server, rql):
    with Agent(rql, under=("sh", "-c", 'ulimit -n 80 && exec "$@"', "sh")) as agent:
        line, children, told = agent.connect(), [], []
        for i in range((80 - 64) // 2 + 1):
            children.append(in_child(lambda i=i: (line.tell("RQL.LOCK", f"n{i}"), time.sleep(600))))
            try:
                told.append(line.read()[1] > 0)
            except Refused as refused:
                told.append(str(refused).split()[0])
        check_equal(told, [True] * ((80 - 64) // 2) + ["FULL"])
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        wait_until(lambda: not server.ask("KEYS", "rql:lock:*"), "all are free")
        # The agent closes what it has watched a process by after it has released that process's locks.
        wait_until(lambda: is_granted(line, "a"), "there is room again")


def test_a_connection_holds_so_many_locks(server, rql):
    with Agent(rql) as agent:
        line = agent.connect()
        for i in range(1024):
            line.tell("RQL.LOCK", f"n{i}")
        for _ in range(1024):
            line.read()
        check_equal(refusal(line, "RQL.LOCK", "more"), "FULL")


def test_a_loss_is_told_by_a_push_or_by_the_end_of_the_connection(server, rql):
    """What else a closed connection held is not released: its client may be at work."""
    with Agent(rql) as agent:
        for version in (3, 2):
            line = agent.connect()
            line.call("HELLO", version)
            token = line.call("RQL.LOCK", "a", "TTL", 600)[0]
            line.call("RQL.LOCK", "b", "TTL", 60000)
            server.ask("DEL", "rql:lock:a")
            if version == 3:
                check_equal(line.read(), ["rql.lost", "a", token])
                check_equal((line.call("RQL.HELD", "a"), refusal(line, "RQL.UNLOCK", "a", token)), (0, "NOTHELD"))
                check_equal(line.call("RQL.UNLOCK", "b"), 1)
            else:
                wait_until(lambda line=line: is_closed(line), "it is closed")
                assert server.is_locked("b")
        left_ms = server.ask("PTTL", "rql:lock:b")
        wait_until(lambda: server.ask("PTTL", "rql:lock:b") < left_ms - 300, "it is not renewed")


def test_what_a_closed_connection_left_ends_with_its_process(server, rql):
    with Agent(rql) as agent:
        with killed(agent.holder("RQL.LOCK a TTL 600", "RQL.LOCK b TTL 60000")) as process:
            server.ask("DEL", "rql:lock:a")
            other = agent.connect()
            other.call("RQL.LOCK", "a")
            check_equal(read_line(process.stdout), "closed\n")
            assert server.is_locked("b")
            process.kill()
            await_free(server, "b")


def test_one_try_does_not_wait_for_a_server_that_is_away(server, rql):
    """Unlike a request that waits, which takes ten seconds by default. The order of the answers says so."""
    with Agent(rql, "--io-timeout", "200ms") as agent:
        one, waits = agent.connect(), agent.connect()
        one.call("RQL.LOCK", "a", "TTL", 60000)  # the agent has connected
        with server.frozen():
            waits.tell("RQL.LOCK", "b")
            for words in ("RQL.LOCK", "c", "TRY"), ("RQL.SERIES", 2, "d", "e", "TRY"), ("FENCELOCK.ACQUIRE", "f", 60):
                check_in(refusal(one, *words), ("UNKNOWN", "UNREACHABLE"))
            check_equal(select.select([waits.socket], [], [], 0)[0], [])
            refused = rql("run", "g", f"--agent={agent.path}", "--try", "--", "true")
            check_equal(refused.code, 69)
            assert re.search(r"\b(UNKNOWN|UNREACHABLE) ", refused.err), refused.err


def test_a_series_is_had_and_released_as_a_whole(server, rql):
    with Agent(rql) as agent:
        one, two = agent.connect(), agent.connect()
        series, *locks = one.call("RQL.SERIES", 2, "b", "a", "META", "reason", "both")
        tokens = [int(token) for token in server.ask("EVAL", "return {redis.call('HGET', 'rql:lock:b', 'rql_token'), "
                                                             "redis.call('HGET', 'rql:lock:a', 'rql_token')}", 0)]
        check_equal([(token, left_ms > 10000, slots) for token, left_ms, slots in locks],
                    [(token, True, []) for token in tokens])
        check_equal(server.ask("HGET", "rql:lock:a", "reason"), "both")
        check_equal([two.call(*words) for words in (("RQL.LOCK", "a", "TRY"), ("RQL.SERIES", 2, "c", "b", "TRY"))],
                    [None, None])
        assert not server.is_locked("c")
        check_equal((refusal(one, "RQL.LOCK", "b"), refusal(one, "RQL.SERIES", 2, "c", "b")), ("HELD", "HELD"))
        check_equal([one.call("RQL.HELD", name) > 10000 for name in "ab"], [True, True])
        check_equal((refusal(one, "RQL.UNLOCK", "a", tokens[1]), refusal(two, "RQL.UNLOCKSERIES", series)),
                    ("NOTHELD", "NOTHELD"))
        two.tell("RQL.SERIES", 3, "c", "a", "b", "WAIT", 0)
        wait_until(lambda: server.queue_length("a") == 1, "it waits")
        check_equal((one.call("RQL.UNLOCKSERIES", series), refusal(one, "RQL.UNLOCKSERIES", series)), (1, "NOTHELD"))
        check_equal(len(two.read()), 4)
        two.close()
        for name in "abc":
            await_free(server, name)


def test_words_of_a_series_that_cannot_be(server, rql):
    with Agent(rql) as agent:
        line = agent.connect()
        for words in (("x", "a"), (0, "a"), (2, "a"), (-1, "a"), (65, *map(str, range(65))), (1, "a", "SHARED"),
                      (1, "a", "PERMITS", 2), (1, "a", "SLOTS"), (1, "a", "b")):
            check_equal(refusal(line, "RQL.SERIES", *words), "ERR", words)
        check_equal(len(line.call("RQL.SERIES", 64, *map(str, range(64)), "TTL", 60000)), 65)
        check_equal(line.call("RQL.UNLOCKSERIES", 1), 1)
        check_equal(refusal(line, "RQL.UNLOCKSERIES", "x"), "NOTHELD")
        check_equal(server.keys_left(), [])


def test_each_lock_of_a_detached_series_has_a_secret(server, rql):
    with Agent(rql) as agent:
        line = agent.connect()
        _, *locks = line.call("RQL.SERIES", 2, "a", "b", "DETACHED", "TTL", 60000)
        check_equal(refusal(line, "RQL.UNLOCKSERIES", 1), "NOTHELD")
        line.close()
        other = agent.connect()
        check_equal([other.call("RQL.UNLOCKSECRET", name, secret) for name, (*_, secret) in zip("ab", locks)], [1, 1])


def test_a_series_that_has_lost_a_lock_is_lost(server, rql):
    """A client of RESP2 is disconnected, and the rest is released when its process has ended."""
    with Agent(rql) as agent:
        line = agent.connect()
        line.call("HELLO", 3)
        series, (first, *_), (second, *_) = line.call("RQL.SERIES", 2, "a", "b", "TTL", 600)
        server.ask("DEL", "rql:lock:a")
        check_equal([line.read() for _ in range(2)], [["rql.lost", "a", first], ["rql.lost", "b", second]])
        check_equal((line.call("RQL.HELD", "b"), refusal(line, "RQL.UNLOCKSERIES", series)), (0, "NOTHELD"))
        with killed(agent.holder("RQL.SERIES 2 c d TTL 60000", "RQL.LOCK e TTL 600")) as process:
            server.ask("DEL", "rql:lock:e")
            check_equal(read_line(process.stdout), "closed\n")
            check_equal([server.is_locked(name) for name in "cd"], [True, True])
            process.kill()
            for name in "cd":
                await_free(server, name)


def test_who_holds_and_who_waits_is_told_in_json(server, rql):
    with Agent(rql) as agent:
        one, two, three = (agent.connect() for _ in range(3))
        for name in ("a", "b1", "b2"):
            one.call("RQL.LOCK", name, "TTL", 60000)
        two.tell("RQL.LOCK", "a", "WAIT", 0)
        wait_until(lambda: server.queue_length("a") == 1, "it waits")
        locks = json.loads(three.call("RQL.WHO"))
        check_equal([(lock["name"], lock["waiting"], lock["acquirer_id"]) for lock in locks],
                    [(lock["name"], lock["waiting"], lock["acquirer_id"]) for lock in rql("who", "--json").json()])
        check_equal([lock["name"] for lock in json.loads(three.call("RQL.WHO", "b?"))], ["b1", "b2"])
        check_equal(json.loads(three.call("RQL.WHO", "a"))[0]["holders"][0]["meta"], locks[0]["meta"])
        (waiter,) = json.loads(three.call("RQL.QUEUE", "a"))["requests"]
        check_equal(waiter["acquirer_id"], rql("queue", "a", "--json").json()["requests"][0]["acquirer_id"])
        check_equal((three.call("RQL.QUEUE", "b1"), refusal(three, "RQL.QUEUE", "")), (None, "INVALID"))
        server.ask("EVAL", "for i = 1, 3000 do redis.call('COPY', 'rql:lock:b1', 'rql:lock:many' .. i) end", 0)
        three.tell("RQL.WHO")
        three.tell("RQL.HELD", "a")  # behind it
        check_equal(refusal_read(three, whole=True),
                    "ERR the answer is too long: more than 960 KiB; ask for fewer locks, or run rql who")
        check_equal(three.read(), 0)
        check_equal(len(json.loads(three.call("RQL.WHO", "many1?"))), 10)


def test_a_long_queue_is_shown_up_to_a_length(server, rql):
    with Agent(rql) as agent:
        line = agent.connect()
        line.call("RQL.LOCK", "a", "TTL", 60000)

        def wait_more(count):
            for _ in range(count):
                agent.connect().tell("RQL.LOCK", "a", "WAIT", 0, "META", "m", "x" * 14000)

        wait_more(50)
        wait_until(lambda: server.queue_length("a") == 50, "all wait")
        told = line.call("RQL.QUEUE", "a")
        check_equal((len(json.loads(told)["requests"]), "\t" in told), (50, False))
        wait_more(25)
        wait_until(lambda: server.queue_length("a") == 75, "all wait")
        check_equal(refusal(line, "RQL.QUEUE", "a", whole=True),
                    "ERR the answer is too long: more than 960 KiB; rql queue shows all of it")


def test_fencelock(server, rql):
    with Agent(rql) as agent:
        one, two = agent.connect(), agent.connect()
        secret, token = one.call("FENCELOCK.ACQUIRE", "a", 60)
        check_equal((len(secret), two.call("FENCELOCK.ACQUIRE", "a", 60)), (32, None))
        one.close()
        other, later = two.call("FENCELOCK.ACQUIRE", "b", 60)
        assert server.is_locked("a") and later > token
        check_equal([two.call("FENCELOCK.RELEASE", "a", text) for text in (other, secret, secret)], [0, 1, 0])
        check_equal(refusal(two, "FENCELOCK.ACQUIRE", "c", 0), "ERR")
        check_equal(refusal(two, "FENCELOCK.RELEASE", "c", "x"), "INVALID")


def test_a_detached_hold_has_a_secret(server, rql):
    """Nothing renews it, and its connection may go."""
    with Agent(rql) as agent:
        line = agent.connect()
        *_, secret = line.call("RQL.LOCK", "a", "DETACHED", "TTL", 60000)
        line.close()
        other = agent.connect()
        check_equal(other.call("RQL.LOCK", "a", "TRY"), None)
        check_equal([other.call("RQL.UNLOCKSECRET", "a", secret) for _ in range(2)], [1, 0])
        other.call("RQL.LOCK", "b", "DETACHED", "TTL", 200)
        await_free(server, "b")


def test_a_detached_hold_that_was_released_takes_no_room(server, rql):
    """The next one has its number, long before its TTL is over; but not before all of its locks are released."""
    with Agent(rql) as agent:
        line = agent.connect()
        secret, _ = line.call("FENCELOCK.ACQUIRE", "a", 86400)
        first = server.holder("a")
        check_equal(line.call("FENCELOCK.RELEASE", "a", secret), 1)
        _, (*_, one), (*_, two) = line.call("RQL.SERIES", 2, "b", "c", "DETACHED", "TTL", 60000)
        check_equal([server.holder(name) for name in "bc"], [first] * 2)
        for secret, is_free in ((one, False), (two, True)):
            check_equal(line.call("RQL.UNLOCKSECRET", "b" if secret == one else "c", secret), 1)
            *_, other = line.call("RQL.LOCK", "d", "DETACHED", "TTL", 60000)
            check_equal(server.holder("d") == first, is_free)
            check_equal(line.call("RQL.UNLOCKSECRET", "d", other), 1)


def test_a_detached_hold_that_was_handed_over_is_claimed_first(server, rql):
    """A lock that is handed over lasts for a second until then, and its client cannot ask how long it has it."""
    with Agent(rql) as agent:
        one, two, three = (agent.connect() for _ in range(3))
        token = one.call("RQL.LOCK", "a", "TTL", 5000)[0]
        two.tell("RQL.LOCK", "a", "WAIT", 0, "DETACHED", "TTL", 60000)
        wait_until(lambda: server.queue_length("a") == 1, "it waits")
        one.call("RQL.UNLOCK", "a", token)
        _, remaining_ms, _, secret = two.read()
        assert remaining_ms > 30000, remaining_ms
        check_equal(two.call("RQL.UNLOCKSECRET", "a", secret), 1)
        held = rql("lock", "b", "--ttl", "1m", "--json").json()
        three.tell("RQL.LOCK", "b", "WAIT", 0, "DETACHED", "TTL", 60000)
        wait_until(lambda: server.queue_length("b") == 1, "it waits")
        check_equal(rql("unlock", "b", "--secret", held["secret"]).code, 0)
        _, remaining_ms, _, secret = three.read()
        assert remaining_ms > 30000, remaining_ms
        check_equal(three.call("RQL.UNLOCKSECRET", "b", secret), 1)


def test_a_release_by_secret_is_made_if_its_client_is_gone(server, rql):
    """There are fewer at once than these."""
    names = [f"{{a}}{i}" for i in range(6)]
    with Agent(rql) as agent:
        line = agent.connect()
        secrets = [line.call("RQL.LOCK", name, "DETACHED", "TTL", 60000)[-1] for name in names]
        for name, secret in zip(names, secrets):
            other = agent.connect()
            other.tell("RQL.UNLOCKSECRET", name, secret)
            other.close()
        wait_until(lambda: not any(server.is_locked(name) for name in names), "all are released")


def test_the_end_waits_for_releases_by_secret(server, rql):
    names = [f"{{a}}{i}" for i in range(6)]
    with Agent(rql) as agent:
        lines = [agent.connect() for _ in names]
        secrets = [line.call("RQL.LOCK", name, "DETACHED", "TTL", 60000)[-1] for line, name in zip(lines, names)]
        with server.frozen():
            for line, name, secret in zip(lines, names, secrets):
                line.tell("RQL.UNLOCKSECRET", name, secret)
            agent.connect().call("PING")  # it has read what was sent before
            agent.process.send_signal(signal.SIGTERM)
            wait_until(lambda: refusal_of_ending(agent), "it has read the signal")
        check_equal([line.read() for line in lines], [1] * len(names))
        agent.process.wait(PATIENCE_S)


def refusal_of_ending(agent):
    return refusal(agent.connect(), "RQL.LOCK", "b", "WAIT", 1) == "UNAVAILABLE"


def test_detached_holds_that_end_hold_up_nobody(_server, rql):
    """Their numbers are free again a minute after their TTL, and all of them at about the same time."""
    count = 30000
    if "RQL_TEST_LONG" not in os.environ:
        raise LeftOut("takes a minute: only with RQL_TEST_LONG")
    with Agent(rql) as agent:
        line = agent.connect()
        for first in range(0, count, 1000):
            for i in range(1000):
                line.tell("FENCELOCK.ACQUIRE", f"f{first + i}", 1)
            for i in range(1000):
                line.read()
        used_s, over = cpu_s(agent.process.pid), time.monotonic() + 66
        while time.monotonic() < over:
            line.call("PING")
            time.sleep(0.05)
        spent_s = cpu_s(agent.process.pid) - used_s
        assert spent_s < used_s / 4, f"{spent_s} s of processor time; {used_s} s for {count} locks"


def cpu_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_detached_hold_is_that_of_another(server, rql):
    with Agent(rql) as agent:
        line = agent.connect()
        line.call("RQL.LOCK", "a", "SHARED", "DETACHED")
        check_equal(line.call("RQL.LOCK", "a", "SHARED", "WAIT", 5000)[2], [])


def test_no_hold_is_entered_again_by_another_client(server, rql):
    """A new client may be the acquirer of a detached lock that was extended for long."""
    with Agent(rql, RQL_CONFLICT_STRATEGY="work_through") as agent:
        line, other = agent.connect(), agent.connect()
        other.call("RQL.LOCK", "a", "DETACHED", "TTL", 60000)
        line.call("RQL.LOCK", "b")
        server.ask("HSET", "rql:lock:a", "acq_id", server.ask("HGET", "rql:lock:b", "acq_id"))
        check_equal(line.call("RQL.LOCK", "a", "TRY"), None)


def test_what_is_behind_a_request_that_waits_is_done_after_it(server, rql):
    with Agent(rql) as agent:
        one, two = agent.connect(), agent.connect()
        one.call("RQL.LOCK", "a")
        for words in (("RQL.LOCK", "a", "WAIT", 0), ("PING",), ("RQL.UNLOCK", "a"), ("ECHO", "x" * 60000), ("ECHO", "y")):
            two.tell(*words)
        wait_until(lambda: server.queue_length("a") == 1, "it waits")
        one.call("RQL.UNLOCK", "a")
        told = [two.read() for _ in range(5)]
        check_equal(told[1:], ["PONG", 1, "x" * 60000, "y"])


def test_words_that_cannot_be(server, rql):
    with Agent(rql) as agent:
        line = agent.connect()
        for words in (("RQL.LOCK",), ("RQL.LOCK", "a", "TTL"), ("RQL.LOCK", "a", "TTL", "0"), ("RQL.LOCK", "a", "TTL", "-5"),
                      ("RQL.LOCK", "a", "WAIT", "x"), ("RQL.LOCK", "a", "TRY", "WAIT", "5"), ("RQL.LOCK", "a", "SLOTS"),
                      ("RQL.LOCK", "a", "UNITS", "2"), ("RQL.LOCK", "a", "SHARED", "PERMITS", "2"),
                      ("RQL.LOCK", "a", "PERMITS", "4097"), ("RQL.LOCK", "a", "META", "x"), ("RQL.LOCK", "a", "NOW"),
                      ("RQL.UNLOCK", "a", "1", "b"), ("RQL.LOCK", b"a\0b"), ("SET", "a", "b"), ("SUBSCRIBE", "a"),
                      ("CLUSTER", "SLOTS"), ("SELECT", "1"), ("AUTH", "x"), ("HELLO", "2", "X")):
            check_equal((words, refusal(line, *words)), (words, "ERR"))
        for words, code in ((("RQL.LOCK", ""), "INVALID"), (("RQL.LOCK", "a", "META", "rql_x", "1"), "INVALID"),
                            (("RQL.LOCK", "a", "PERMITS", "2", "UNITS", "3"), "INVALID"), (("HELLO", "4"), "NOPROTO"), (("HELLO", "x"), "ERR"),
                            (("HELLO", "3", "AUTH", "x", "y"), "WRONGPASS"), (("CLIENT", "SETNAME", "x" * 64), "ERR"),
                            (("AUTH", "x", "y"), "WRONGPASS"), (("RQL.UNLOCKSECRET", "a", "b"), "INVALID")):
            check_equal((words, refusal(line, *words)), (words, code))
        check_equal(server.ask("KEYS", "rql:lock*"), [])


def test_a_wrong_word_or_value_is_named(server, rql):
    """With the lock, because a word may have been taken for its name."""
    words = "words are TTL, WAIT, TRY, SHARED, PERMITS, UNITS, SLOTS, MAX, NESTED, META, DETACHED"
    with Agent(rql) as agent:
        line = agent.connect()
        for asked, said in (("RQL.LOCK a build", f"lock a: unknown word: build; {words}"),
                            ("RQL.LOCK WAIT 0 report", f"lock WAIT: unknown word: 0; {words}"),
                            ("RQL.SERIES 2 a b WAI 5", f"lock b: unknown word: WAI; {words}"),
                            ("RQL.LOCK a WAIT", "lock a: WAIT needs a number of milliseconds"),
                            ("RQL.LOCK a wait 5s", "lock a: WAIT needs a number of milliseconds, not 5s"),
                            ("RQL.LOCK a TRY TTL x", "lock a: TTL needs a number of milliseconds, not x"),
                            ("RQL.LOCK a TTL 0", "lock a: TTL needs a number of milliseconds from 1 to 2592000000, not 0"),
                            ("RQL.LOCK a PERMITS", "lock a: PERMITS needs a number"),
                            ("RQL.LOCK a PERMITS 4097", "lock a: PERMITS needs a number from 1 to 4096, not 4097"),
                            ("RQL.LOCK a META", "lock a: META needs a key and a value"),
                            ("RQL.LOCK a META reason", "lock a: META needs a key and a value"),
                            ("RQL.LOCK a" + " META k v" * 65, "lock a: META may be given 64 times"),
                            ("RQL.LOCK a TRY WAIT 5", "lock a: TRY and WAIT exclude each other"),
                            ("RQL.LOCK a DETACHED MAX 5", "lock a: DETACHED and MAX exclude each other: the lock is not renewed"),
                            ("RQL.SERIES 1 a MAX 5 DETACHED", "lock a: DETACHED and MAX exclude each other: the lock is not renewed"),
                            ("RQL.HOLDER a x", "a token is a number, not x"), ("RQL.UNLOCK a x", "a token is a number, not x"),
                            ("SET a b", "unknown command 'SET': this is an rql agent, not a Redis server")):
            check_equal((asked, refusal(line, *asked.split(), whole=True)), (asked, "ERR " + said))
        check_equal(server.ask("KEYS", "rql:lock*"), [])


def test_why_a_lock_is_not_unlocked_is_said(server, rql):
    with Agent(rql) as agent:
        line, other = agent.connect(), agent.connect()
        token = line.call("RQL.LOCK", "a")[0]
        line.call("RQL.SERIES", 1, "b")
        for one, words, said in ((line, ("a", token + 1), "this connection holds it with another token"),
                                 (line, ("b",), "this connection holds it in a series: RQL.UNLOCKSERIES releases all of it"),
                                 (other, ("a", token), "this connection does not hold it: it was lost or released, or another "
                                  "connection has it; RQL.HOLDER tells whether its token is in force"),
                                 (line, ("a", token + 1, "c", 1), "this connection holds it with another token")):
            check_equal(refusal(one, "RQL.UNLOCK", *words, whole=True), "NOTHELD " + said)
        check_equal(other.call("RQL.HOLDER", "a", token), 1)
        check_equal(refusal(line, "RQL.UNLOCK", "a", token, "b", "x"), "ERR")  # and nothing is unlocked
        assert server.is_locked("a")
        check_in("holds no such series", refusal(other, "RQL.UNLOCKSERIES", 1, whole=True))


def test_what_is_behind_a_refused_multi_is_not_run(server, rql):
    """A client that sends all of it at once would not know of its lock."""
    with Agent(rql) as agent:
        line = agent.connect()
        for end, answer in (("EXEC", "EXECABORT"), ("DISCARD", "OK"), ("RESET", "RESET")):
            for words in (("MULTI",), ("RQL.LOCK", "a"), ("PING",), (end,)):
                line.tell(*words)
            check_in("send the commands without MULTI", refusal_read(line, whole=True))
            check_equal([refusal_read(line, whole=True).split(":")[0] for _ in range(2)], ["ERR not run"] * 2)
            check_equal(refusal_read(line) if end == "EXEC" else line.read(), answer)
            check_equal((line.call("PING"), server.is_locked("a")), ("PONG", False))
        check_equal([refusal(line, word, whole=True) for word in ("EXEC", "DISCARD")],
                    ["ERR EXEC without MULTI", "ERR DISCARD without MULTI"])
        check_equal(refusal(line, "MULTI"), "ERR")
        check_equal(line.call("QUIT"), "OK")


def test_what_clients_of_redis_send(server, rql):
    with Agent(rql) as agent:
        line = agent.connect()
        check_equal([line.call(*words.split()) for words in ("PING", "PING x", "ECHO y", "SELECT 0", "AUTH default x",
                                                             "CLIENT GETNAME", "CLIENT SETNAME me", "CLIENT GETNAME",
                                                             "CLIENT SETINFO LIB-NAME x", "COMMAND COUNT", "COMMAND DOCS")],
                    ["PONG", "x", "y", "OK", "OK", None, "OK", "me", "OK", 0, []])
        check_in("loading:0", line.call("INFO"))
        said = line.call("hello", "3", "AUTH", "default", "x", "SETNAME", "other")
        check_equal(dict(zip(said[::2], said[1::2]))["proto"], 3)
        check_equal((line.call("CLIENT", "GETNAME"), line.call("COMMAND", "DOCS")), ("other", []))
        assert line.call("CLIENT", "ID") > 0
        line.send(b"PING\r\n  rql.lock   inline ttl 900 \nPING\n")
        check_equal([type(line.read()) for _ in range(3)], [str, list, str])


def counts(line):
    return dict(row.split(":") for row in line.call("INFO").split("\r\n") if ":" in row)


def test_info_counts_what_the_agent_does(server, rql):
    with Agent(rql) as agent:
        line, other = agent.connect(), agent.connect()
        first = counts(line)
        check_equal([first[name] for name in ("connected_clients", "held", "waiting", "acquired_total", "released_by_end_total")],
                    ["2", "0", "0", "0", "0"])
        for name in ("a", "b"):
            other.call("RQL.LOCK", name)
        waiting = agent.connect()
        waiting.tell("RQL.LOCK", "a", "WAIT", 0)
        wait_until(lambda: counts(line)["waiting"] == "1", "it waits")
        check_equal((counts(line)["held"], counts(line)["acquired_total"]), ("2", "2"))
        other.close()
        waiting.read()
        wait_until(lambda: counts(line)["held"] == "1", "one is left")
        last = counts(line)
        check_equal([last[name] for name in ("connected_clients", "waiting", "acquired_total", "released_by_end_total",
                                             "lost_total")], ["2", "0", "3", "2", "0"])
        one, two = waiting, agent.connect()
        for _ in range(20):
            two.tell("RQL.LOCK", "a", "WAIT", 0)
            wait_until(lambda: server.queue_length("a") == 1, "it waits")
            check_equal(one.call("RQL.UNLOCK", "a"), 1)
            two.read()
            one, two = two, one
        last = counts(line)
        assert last["acquired_total"] == "23" and int(last["handed_over_here_total"]) > 0, last


def test_what_is_no_request_ends_its_connection(server, rql):
    """At once, whatever it announces; and others are served all the while."""
    with Agent(rql) as agent:
        other = agent.connect()
        for data in (b"*1000000000\r\n", b"*257\r\n", b"PING\0x\n", b"*1\r\n$1000000000\r\n", b"*1\r\n:1\r\n", b"*1\r\n$4\r\nPINGxx",
                     b"*1\r\n$-1\r\n", b"*" + b"1" * 30, b"x" * 70000, b"*2\r\n$4\r\nECHO\r\n$65530\r\n" + b"x" * 65536):
            line = agent.connect()
            with contextlib.suppress(OSError):
                line.send(data)
            with contextlib.suppress(ConnectionResetError):
                check_error(line, data)
            wait_until(lambda line=line: is_closed(line), "it is closed")
            check_equal(other.call("PING"), "PONG")


def check_error(line, data):
    try:
        told = line.read()
    except Refused as refused:
        check_in("Protocol error", str(refused))
        return
    raise AssertionError(f"{data[:20]}: {told}")


def test_a_request_may_come_byte_by_byte(server, rql):
    with Agent(rql) as agent:
        line = agent.connect()
        for data in b"*2\r\n$4\r\nECHO\r\n$5\r\nhello\r\n*1\r\n$4\r\nPING\r\n":
            line.send(bytes([data]))
        check_equal((line.read(), line.read()), ("hello", "PONG"))


def test_a_client_that_reads_no_replies_is_disconnected(server, rql):
    with Agent(rql) as agent:
        line = agent.connect()
        try:
            for _ in range(100):
                line.tell("ECHO", "x" * 60000)
        except OSError:
            return
        raise AssertionError("it goes on")


def test_one_user_has_half_of_the_connections(server, rql):
    with Agent(rql, under=("sh", "-c", 'ulimit -n 400 && exec "$@"', "sh")) as agent:
        lines = []
        while not is_closed(agent.connect()):
            lines.append(agent.lines[-1])
        check_equal(len(lines), (400 - 64) // 2 // 2)
        refused = agent.connect()
        check_in("max number of clients", refusal_read(refused, whole=True))
        lines[0].close()
        wait_until(lambda: is_served(agent), "there is room")


def test_an_agent_without_room_for_clients_does_not_begin(_server, rql):
    with Folder() as folder:
        refused = finish(rql.start("agent", "--listen", folder.path("a"), under=("sh", "-c", 'ulimit -n 67 && exec "$@"', "sh")))
        check_equal((refused.code, refused.err),
                    (69, "rql: the hard limit of descriptors (ulimit -Hn) is too low: an agent needs 68\n"))
        check_equal(os.listdir(folder.path("")), [])
    with Agent(rql, under=("sh", "-c", 'ulimit -n 68 && exec "$@"', "sh")) as agent:
        check_equal(agent.connect().call("PING"), "PONG")


def is_served(agent):
    return not is_closed(agent.connect())


def test_a_signal_lets_holders_finish(server, rql):
    """No request is taken then, and those that wait end."""
    with Agent(rql) as agent:
        one, two, three = (agent.connect() for _ in range(3))
        token = one.call("RQL.LOCK", "a")[0]
        two.tell("RQL.LOCK", "a", "WAIT", 0)
        wait_until(lambda: server.queue_length("a") == 1, "it waits")
        agent.process.send_signal(signal.SIGTERM)
        check_equal((refusal_read(two, whole=True), refusal(three, "RQL.LOCK", "b", whole=True)),
                    ("UNAVAILABLE the agent is about to end",) * 2)
        check_equal(one.call("RQL.UNLOCK", "a", token), 1)
        agent.process.wait(PATIENCE_S)
        check_equal(os.listdir(agent.folder.name), [])  # neither the socket nor the file beside it


def test_a_request_that_waits_for_another_client_is_told_of_the_end(server, rql):
    """Although the agent holds nothing."""
    rql("lock", "a", "--ttl", "1m")
    with Agent(rql) as agent:
        line = agent.connect()
        line.tell("RQL.LOCK", "a", "WAIT", 0)
        wait_until(lambda: server.queue_length("a") == 1, "it waits")
        agent.process.send_signal(signal.SIGTERM)
        check_equal(refusal_read(line), "UNAVAILABLE")
        check_equal(server.queue_length("a"), 0)


def refusal_read(line, whole=False):
    try:
        told = line.read()
    except Refused as refused:
        return str(refused) if whole else str(refused).split()[0]
    raise AssertionError(told)


def test_what_is_held_at_the_end_is_left_to_its_ttl(server, rql):
    for words, n_signals in ((("--drain", "200ms"), 1), ((), 2)):
        with Agent(rql, *words) as agent:
            line = agent.connect()
            line.call("RQL.LOCK", "a")
            for _ in range(n_signals):
                agent.process.send_signal(signal.SIGTERM)
                time.sleep(0.05)  # two signals at once may be one
            agent.process.wait(PATIENCE_S)
            assert server.is_locked("a") and is_closed(line)
        server.ask("DEL", "rql:lock:a")


def test_a_request_that_waits_is_answered_if_the_agent_ends_at_once(server, rql):
    """Before it is withdrawn, which takes the server."""
    with Agent(rql, "--drain", "0s") as agent:
        agent.connect().call("RQL.LOCK", "a", "TTL", 60000)
        waits = agent.connect()
        waits.tell("RQL.LOCK", "a", "WAIT", 0)
        wait_until(lambda: server.queue_length("a") == 1, "it waits")
        with server.frozen():
            agent.process.send_signal(signal.SIGTERM)
            check_equal(refusal_read(waits), "UNAVAILABLE")
            assert is_closed(waits)


def test_a_killed_agent_leaves_its_locks_to_their_ttl(server, rql):
    with contextlib.suppress(AssertionError), Agent(rql) as agent:
        line = agent.connect()
        line.call("RQL.LOCK", "a", "TTL", 60000)
        agent.process.kill()
        agent.process.wait()
        assert is_closed(line) and server.is_locked("a")
        with Agent(rql) as other:
            check_equal(other.connect().call("RQL.LOCK", "a", "TRY"), None)


def test_the_socket(server, rql):
    """It is its user's alone. A dead one is replaced, one that answers is not, and no other file is; nor is one removed
    that has come in its place."""
    with Agent(rql) as agent:
        check_equal(stat.S_IMODE(os.stat(agent.path).st_mode) & 0o707, 0o600)
        result = rql("agent", "--listen", agent.path)
        check_equal((result.code, result.err), (69, f"rql: {agent.path}: another program listens there already\n"))
        dead = agent.folder.name + "/dead"
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(dead)
        process = rql.start("agent", "--listen", dead)
        check_in("listens at", read_line(process.stderr))
        process.send_signal(signal.SIGTERM)
        check_equal(finish(process).code, 0)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
            one.bind(agent.folder.name + "/datagrams")
            check_in("another program listens", rql("agent", "--listen", agent.folder.name + "/datagrams").err)
        file = agent.folder.name + "/file"
        pathlib.Path(file).touch()
        check_equal(rql("agent", "--listen", file).err, f"rql: {file}: exists, and is no socket\n")
        check_equal(rql("agent", "--listen", "/" + "x" * 200).code, 69)
        folder = agent.folder.name + "/own"
        process = rql.start("agent", RQL_LOCAL_DIR=folder)
        check_in(f"listens at {folder}/agent.sock", read_line(process.stderr))
        process.send_signal(signal.SIGTERM)
        check_equal(finish(process).code, 0)
        check_equal(stat.S_IMODE(os.stat(folder).st_mode), 0o700)
        for wrong in "own", "/" + 96 * "x":
            refused = rql("agent", RQL_LOCAL_DIR=wrong)
            check_equal((refused.code, refused.err), (64, "rql: RQL_LOCAL_DIR must start with '/' and have at most 96 bytes\n"))
            check_equal(rql("run", "a", "--agent", "--", "true", RQL_LOCAL_DIR=wrong).code, 64)
        os.chmod(folder, 0o777)
        check_in("is no folder of this user alone", rql("agent", RQL_LOCAL_DIR=folder).err)
        os.rename(agent.path, agent.path + ".moved")
        pathlib.Path(agent.path).touch()


def start_for(rql, channel, **more):
    """As systemd does, with a socket that it keeps."""
    with_socket = [sys.executable, "-c", AS_SYSTEMD, str(channel.fileno())]
    return rql.start("agent", under=with_socket, fds=[channel.fileno()], **more)


def test_a_socket_of_systemd_outlives_the_agent(_server, rql):
    """Who connects between two agents waits for the second one."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as channel, \
            listener(folder + "/notify") as told:
        path = folder + "/a"
        channel.bind(path)
        channel.listen()
        first = start_for(rql, channel, NOTIFY_SOCKET=folder + "/notify")
        check_equal((read_line(first.stderr), told.recv(64)), (f"rql: listens at {path}\n", b"READY=1"))
        line = Connection(path, PATIENCE_S)
        line.call("RQL.LOCK", "a")
        first.send_signal(signal.SIGTERM)
        check_equal(told.recv(64), b"STOPPING=1")
        later = Connection(path, PATIENCE_S)
        later.tell("RQL.LOCK", "a", "WAIT", 0)
        line.close()
        check_equal(finish(first).code, 0)
        second = start_for(rql, channel)
        check_equal(len(later.read()), 3)
        later.close()
        second.send_signal(signal.SIGTERM)
        check_equal(finish(second).code, 0)
        assert os.path.exists(path), "the agent has removed it"


def write_secret(folder, text, mode=0o600):
    path = folder.path("password")
    with open(path, "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        file.write(text)
    os.chmod(path, mode)
    return path


def test_by_tcp_clients_send_a_password(server, rql):
    for host, address in (("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")):
        port = free_port()
        with Folder() as folder:
            secret = write_secret(folder, "geheim\nmore\n")
            with Agent(rql, "--password-file", secret, path=f"{address}:{port}") as agent:
                lines = [Connection((host, port), PATIENCE_S) for _ in range(3)]
                agent.lines += lines
                for words in (("RQL.LOCK", "a"), ("PING",), ("RQL.WHO",), ("HELLO", "3"), ("CLIENT", "ID")):
                    check_equal(refusal(lines[0], *words), "NOAUTH")
                for words in (("AUTH", "geheime"), ("AUTH", "gehei"), ("AUTH", ""), ("AUTH", "other", "geheim"),
                              ("AUTH", "default", "Geheim"), ("HELLO", "3", "AUTH", "default", "geheim2")):
                    check_equal(refusal(lines[0], *words), "WRONGPASS")
                check_equal(lines[0].call("AUTH", "geheim"), "OK")
                check_equal(lines[1].call("AUTH", "default", "geheim"), "OK")
                check_in("proto", lines[2].call("HELLO", "3", "AUTH", "default", "geheim", "SETNAME", "me"))
                token = lines[2].call("RQL.LOCK", "a", "TRY")[0]
                check_in("tcp me", rql("who").out)
                check_equal(lines[0].call("RQL.LOCK", "a", "TRY"), None)
                check_equal(lines[2].call("RQL.UNLOCK", "a", token), 1)
                lines[0].call("RQL.LOCK", "a", "TRY")
                lines[1].tell("RQL.LOCK", "a", "WAIT", 0)
                wait_until(lambda: server.queue_length("a") == 1, "it waits")
                check_equal(lines[0].call("RESET"), "RESET")
                check_equal(refusal(lines[0], "PING"), "NOAUTH")
                assert lines[1].read()[0] > token
                lines[1].close()
                await_free(server, "a")
                check_equal(lines[0].call("QUIT"), "OK")


def test_a_password_may_be_asked_for_at_a_path_too(_server, rql):
    with Folder() as folder, Agent(rql, "--password-file", write_secret(folder, "geheim")) as agent:
        line = agent.connect()
        check_equal(refusal(line, "RQL.LOCK", "a"), "NOAUTH")
        check_equal((line.call("AUTH", "geheim"), line.call("RQL.LOCK", "a")[2]), ("OK", []))


def test_a_password_is_used_as_a_whole_or_not_at_all(_server, rql):
    with Folder() as folder:
        longest = "p" * 510
        with Agent(rql, "--password-file", write_secret(folder, longest)) as agent:
            line = agent.connect()
            check_equal(refusal(line, "AUTH", longest[:-1]), "WRONGPASS")
            check_equal(line.call("AUTH", longest), "OK")
        for text in (longest + "p", longest + "p\n", longest + "pppp"):
            refused = rql("agent", "--listen", "127.0.0.1:6390", "--password-file", write_secret(folder, text))
            check_equal(refused.code, 69)
            check_in("the password has more than 510 bytes", refused.err)


def test_an_agent_that_a_script_starts_leaves_sigint_to_others(_server, rql):
    """A shell without job control has it ignored in what it starts with &."""
    under = ("env", "--ignore-signal=INT")
    with Agent(rql, under=under) as agent:
        agent.process.send_signal(signal.SIGINT)
        line = agent.connect()
        check_equal(line.call("RQL.LOCK", "a")[2], [])
        agent.process.send_signal(signal.SIGTERM)
        wait_until(lambda: refusal_of_ending(agent), "that one it takes")
        line.close()
        agent.process.wait(PATIENCE_S)


def test_where_an_agent_does_not_listen(_server, rql):
    with Folder() as folder, Agent(rql, "--password-file", write_secret(folder, "x"), path=f"127.0.0.1:{free_port()}") as agent:
        secret = folder.path("password")
        for where in ("0.0.0.0:6390", "[::]:6390", "localhost:6390", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:7x", "6390",
                      "agent.sock", ""):
            refused = rql("agent", "--listen", where, "--password-file", secret)
            check_equal(refused.code, 64)
            check_in("can be listened at", refused.err)
        refused = rql("agent", "--listen", agent.path, "--password-file", secret)
        check_equal(refused.code, 69)
        assert re.fullmatch(rf"rql: {re.escape(agent.path)}: {IN_USE}\n", refused.err), refused.err
        refused = rql("agent", "--listen", "127.0.0.1:6390")
        check_equal(refused.code, 64)
        check_in("an address needs a --password-file", refused.err)
        for text, mode in (("", 0o600), ("\n", 0o600), ("x", 0o604)):
            refused = rql("agent", "--listen", "127.0.0.1:6390", "--password-file", write_secret(folder, text, mode))
            check_equal(refused.code, 69)
            check_in("has no password, or all users may read it", refused.err)
        check_in("No such file", rql("agent", "--password-file", folder.path("none")).err)


def test_an_agent_may_be_of_the_swarm(_server, rql):
    with Agent(rql, "--auto-swarm", "true") as agent:
        agent.connect().call("RQL.LOCK", "a")
        wait_until(lambda: [host["client"]["program"] for host in rql("hosts", "--json").json()] == ["rql"], "it is alive")


def test_what_is_no_socket_that_listens(_server, rql):
    with socket.socket(socket.AF_UNIX) as channel:
        result = finish(start_for(rql, channel))
        check_equal((result.code, result.err), (69, "rql: the socket of LISTEN_FDS is no Unix socket that listens\n"))
        result = finish(start_for(rql, channel, N_PASSED="2"))
        check_equal((result.code, result.err), (69, "rql: LISTEN_FDS is 2; one socket is taken\n"))


def sample(language, having=""):
    """The first one on the page with this text."""
    texts = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="ascii"), re.M | re.S)
    return next(text for text in texts if having in text)


class Shell:
    """Starts samples of the page for a shell, with `rql` in the PATH, and an agent at the usual path."""

    def __init__(self, server, rql):
        self.server, self.rql, self.folder = server, rql, Folder()

    def __enter__(self):
        self.folder.__enter__()
        os.symlink(PROGRAM, self.folder.path("rql"))
        self.agent = Agent(self.rql, path=self.folder.path("agent.sock")).__enter__()
        return self

    def __exit__(self, *failure):
        self.agent.__exit__(*failure)
        self.folder.__exit__()

    def start(self, text, *words, shell="sh"):
        for program in shell, "redis-cli":
            if not shutil.which(program):
                raise LeftOut(f"no {program} in PATH")
        file = self.folder.path("script.sh")
        text = text.replace("/tmp/rql-$(id -u)/agent.sock", self.agent.path)
        pathlib.Path(file).write_text(f"#!/usr/bin/env {shell}\n{text}", encoding="ascii")
        os.chmod(file, 0o755)
        return subprocess.Popen([file, *words], cwd=self.folder.path(""), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                start_new_session=True,
                                env=environment(self.server.url, RQL_LOCAL_DIR=self.folder.path(""), LOGNAME="me",
                                                PATH=f"{self.folder.path('')}:{os.environ['PATH']}"))

    def run(self, text, *words, **more):
        """(exit status, what it has printed)"""
        process = self.start(text, *words, **more)
        said, _ = process.communicate(timeout=PATIENCE_S)
        return process.returncode, said


def test_the_page_runs_a_command_under_a_lock(server, rql):
    with Shell(server, rql) as shell:
        pathlib.Path(shell.folder.path("report.sh")).write_text("#!/bin/sh\necho under $RQL_LOCK\n", encoding="ascii")
        os.chmod(shell.folder.path("report.sh"), 0o755)
        text = sample("sh", "./report.sh").replace("rql agent &", "")  # it runs
        check_equal(shell.run(text), (0, "under report\n"))
        assert not server.is_locked("report")


def test_the_page_runs_a_script_under_a_lock(server, rql):
    """Also under another lock; and once under its own, which it does not wait for then."""
    with Shell(server, rql) as shell:
        text = sample("sh", "exec rql run") + 'echo "$RQL_LOCK $1"\n[ $# -lt 2 ] || "$0" "$2"\n'
        check_equal(shell.run(text, "a b"), (0, "report a b\n"))
        check_equal(shell.run(text, "a", "b"), (0, "report a\nreport b\n"))
        with Shell(server, rql) as outer:
            other = f'{shell.folder.path("script.sh")} a'
            check_equal(outer.run(f"RQL_LOCAL_DIR={shell.folder.path('')} rql run other -- {other}"), (0, "report a\n"))


def test_the_page_holds_a_lock_until_a_process_ends(server, rql):
    with Shell(server, rql) as shell, subprocess.Popen(["sleep", "600"]) as session:
        try:
            check_equal(shell.run(f"PID={session.pid}\nexec >/dev/null\n" + sample("sh", "setsid")), (0, ""))
            wait_until(lambda: server.is_locked("build"), "it is held")
            check_in(" a session of me", rql("who").out)
        finally:
            session.kill()
        session.wait()
        await_free(server, "build")


def test_the_page_holds_a_lock_for_the_rest_of_a_script(server, rql):
    with Shell(server, rql) as shell:
        for is_killed in (False, True):
            with killed(shell.start(sample("bash") + 'echo "$token"\nread -r _', shell="bash")) as process:
                token = int(read_line(process.stdout))
                check_equal(int(server.ask("HGET", "rql:lock:report", "rql_token")), token)
                if is_killed:
                    process.kill()
                process.stdin.close()
                check_equal(process.wait(), -signal.SIGKILL if is_killed else 1)
                await_free(server, "report")


def test_the_page_holds_a_lock_without_a_connection(server, rql):
    with Shell(server, rql) as shell:
        before, after = sample("sh", "RQL.UNLOCKSECRET").split("# the work")
        check_equal(shell.run(before), (0, ""))
        check_equal(server.ask("HGET", "rql:lock:report", "reason"), "nightly run")
        check_equal(shell.run(before), (1, ""))  # it is held
        server.ask("DEL", "rql:lock:report")
        check_equal(shell.run(f"{before}#{after}"), (0, "1\n"))
        assert not server.is_locked("report")


def example(language):
    """A test of the example on the page, with the real client: it waits for its turn, and releases the lock."""
    def test(server, rql):
        words, probe = LANGUAGES[language]
        env = {**os.environ, "NODE_PATH": f"{NODE_PATH}:{os.environ.get('NODE_PATH', '')}"}
        if not shutil.which(words[0]) or subprocess.run([*words, probe], env=env, capture_output=True, check=False).returncode:
            raise LeftOut(f"{language} has no client of Redis")
        with Agent(rql) as agent:
            text = sample(language).removeprefix("<?php\n").replace("/tmp/rql-1000/agent.sock", agent.path)
            line = agent.connect()
            line.call("RQL.LOCK", "report")
            process = subprocess.Popen([*words, text], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            wait_until(lambda: server.queue_length("report") == 1 or process.poll() is not None, "it waits")
            line.call("RQL.UNLOCK", "report")
            said, _ = process.communicate(timeout=PATIENCE_S)
            check_equal((process.returncode, said), (0, b""))
            check_equal((server.is_locked("report"), int(server.ask("GET", "rql:fence")) > 0), (False, True))

    return test


WORKER = """
import os, socket, sys
path, file = sys.argv[1:]
line = socket.socket(socket.AF_UNIX)
line.connect(path)
answers = line.makefile("rb")
def lives(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False
while True:
    line.sendall(b"RQL.LOCK counter WAIT 0 TTL 60000\\r\\n")
    if answers.readline() != b"*3\\r\\n":
        sys.exit("no lock")
    token = int(answers.readline()[1:])
    answers.readline(), answers.readline()
    with open(file, "r+") as counter:
        inside, before, count = counter.read().split()
        if inside != "0" and lives(inside):
            sys.exit(f"{inside} is inside, too")
        if int(before) >= token:
            sys.exit(f"token {token} after {before}")
        counter.seek(0)
        counter.write(f"{os.getpid()} {token} {int(count) + 1} ")
        counter.flush()
        counter.seek(0)
        counter.write(f"0 {token} {int(count) + 1} " + " " * 10)
    line.sendall(b"RQL.UNLOCK counter %d\\r\\n" % token)
    if answers.readline() != b":1\\r\\n":
        sys.exit("not released")
"""


def test_processes_that_are_killed_exclude_each_other(server, rql):
    """By two agents of one server. The file is the witness: a process that finds another one inside that is alive, or a
    later token, says so and ends. RQL_TEST_LONG: a hundred processes, a thousand of them killed."""
    n_workers, n_kills = (100, 1000) if "RQL_TEST_LONG" in os.environ else (6, 20)
    with Agent(rql) as one, Agent(rql) as two:
        file = one.folder.name + "/counter"
        pathlib.Path(file).write_text("0 0 0 " + " " * 60, encoding="ascii")

        def begin(number):
            return subprocess.Popen([sys.executable, "-c", WORKER, (one, two)[number % 2].path, file],
                                    stderr=subprocess.PIPE)

        def count():
            return int((pathlib.Path(file).read_text(encoding="ascii").split() + ["0"] * 3)[2])

        workers = [begin(i) for i in range(n_workers)]
        try:
            for i in range(n_kills):
                goal = count() + 20
                wait_until(lambda goal=goal: count() >= goal, "they go on")
                victim = workers[i % n_workers]
                victim.kill()
                check_equal((victim.wait(), victim.stderr.read()), (-signal.SIGKILL, b""))
                victim.stderr.close()
                workers[i % n_workers] = begin(i)
            check_equal([worker.poll() for worker in workers], [None] * n_workers)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
                worker.stderr.close()
        await_gone([worker.pid for worker in workers])
        await_free(server, "counter")


for each in LANGUAGES:
    add(f"the example for {each}", example(each))

if __name__ == "__main__":
    main(skip="the agent is tested on a single server" if is_cluster() else None)
