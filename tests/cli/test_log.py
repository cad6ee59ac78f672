#!/usr/bin/env python3
"""What rql tells of itself: --log of the commands that take locks."""
import contextlib
import datetime
import json
import os
import re
import signal
import time

from harness import PROGRAM, check_equal, check_in, finish, main, wait_until

TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
LIFE = ["start_lock_obtaining", "start_try_to_lock_cycle", "lock_obtained", "expire_lock"]


def names_in(text):
    return re.findall(TIME + r" \[redis_queued_locks\.(\S+)\] ", text, re.M)


def test_run_logs_the_life_of_its_lock(server, rql):
    result = rql("run", "a", "--log", "text", "--", "echo", "ran")
    check_equal((result.code, result.out), (0, "ran\n"))
    check_equal(names_in(result.err), LIFE)
    check_equal(result.err.count("\n"), len(LIFE))
    for line in result.err.splitlines():
        check_in("] lock_key => 'rql:lock:a' queue_ttl => forever acq_id => 'rql:acq:", line)


def test_log_can_be_json(server, rql):
    result = rql("run", "a", "--log=json", "--queue-ttl", "15000ms", "--", "true")
    lines = [json.loads(line) for line in result.err.splitlines()]
    check_equal([line["name"] for line in lines], LIFE)
    for line in lines:
        check_equal(list(line)[0], "time")
        assert re.fullmatch(TIME, line["time"]), line["time"]
        check_equal((line["lock_key"], line["queue_ttl"], line["acs_strat"]),
                    ("rql:lock:a", 15, "queued"))
    assert lines[2]["acq_time"] > 0


def test_a_swarm_logs_what_it_does(server, rql):
    service = rql.start("swarm", "run", "--log", "text", "--zombie-ttl", "500ms", "--zombie-flush-period", "200ms",
                        "--swarm-probe-period", "100ms")
    wait_until(lambda: server.ask("EXISTS", "rql:swarm:flusher") == 1, "a flusher is elected")
    server.ask("HSET", "rql:swarm:hsts", "dead", "1.5")
    server.ask("HSET", "rql:lock:lock", "acq_id", "a", "hst_id", "dead", "ts", "1.5", "ini_ttl", "5000")
    wait_until(lambda: server.ask("HEXISTS", "rql:swarm:hsts", "dead") == 0, "the host is flushed")
    service.send_signal(signal.SIGTERM)
    said = finish(service).err
    check_in("[redis_queued_locks.swarm_flusher_elected]", said)
    check_in("[redis_queued_locks.swarm_zombies_flushed] status => 'ok' hosts => 1 locks => 1 requests => 0 "
             "handed_over => 0 rel_time => ", said)
    check_in("[redis_queued_locks.swarm_flusher_retired]", said)


def test_the_time_is_that_of_the_line(server, rql):
    """In UTC, wherever the machine is."""
    before = time.time()
    result = rql("run", "a", "--log", "json", "--", "sleep", "0.2", TZ="JST-9")
    after = time.time()
    times = [datetime.datetime.fromisoformat(json.loads(line)["time"].replace("Z", "+00:00")).timestamp()
             for line in result.err.splitlines()]
    assert before - 0.01 <= times[0] <= times[-1] - 0.2 + 0.01, times
    assert times[-1] <= after


def test_a_name_as_long_as_can_be_is_logged_whole(server, rql):
    name, *others = ["{tag}" + letter * 507 for letter in "nmk"]
    for form in ("text", "json"):
        result = rql("series", name, *others, "--log", form, "--", "true")
        check_equal(result.code, 0)
        check_equal(result.err.count("\n"), 6)
        check_in("rql:lock:" + name, result.err)


@contextlib.contextmanager
def pipe_without_reader():
    reader, fd = os.pipe()
    os.close(reader)
    yield fd
    os.close(fd)


def test_work_goes_on_when_nobody_reads_the_log_any_more(server, rql):
    for words in (["run", "a", "--log", "text"], ["series", "a", "b{a}", "--log", "json"]):
        with pipe_without_reader() as pipe:
            result = rql(*words, "--", "sh", "-c", "sleep 0.1; echo ran; exit 7", popen={"stderr": pipe})
        check_equal((result.code, result.out), (7, "ran\n"))
        assert not server.is_locked("a")
    with pipe_without_reader() as pipe:
        result = rql("lock", "a", "--ttl", "1m", "--json", "--log", "text", popen={"stderr": pipe})
    check_equal((result.code, result.json()["name"]), (0, "a"))


@contextlib.contextmanager
def full_pipe():
    """A reader is there, but does not read, and there is no room for more."""
    reader, fd = os.pipe()
    os.set_blocking(fd, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(fd, bytes(4096)):
            pass
    os.set_blocking(fd, True)
    yield fd
    os.close(fd)
    os.close(reader)


def test_a_reader_that_reads_no_more_keeps_nobody(server, rql):
    lose = ["sh", "-c", f"'{PROGRAM}' unlock a --force > /dev/null; exec sleep 60"]
    for flags, command, code in ((["--log", "text"], ["true"], 0), ([], lose, 75)):
        with full_pipe() as pipe:
            check_equal(rql("run", "a", "--ttl", "3s", *flags, "--", *command, popen={"stderr": pipe}).code, code)


def test_a_reader_of_results_that_goes_ends_the_program(server, rql):
    rql("lock", "a", "--ttl", "1m")
    with pipe_without_reader() as pipe:
        for command in "ls", "help":
            result = rql(command, popen={"stdout": pipe})
            check_equal((result.code, result.err), (-signal.SIGPIPE, ""))


def test_the_command_has_the_disposition_of_sigpipe_that_rql_had(server, rql):
    for kept in (True, False):  # Python ignores it and restores it in what it starts, unless told not to
        said = rql("run", "a", "--", "grep", "SigIgn", "/proc/self/status", popen={"restore_signals": kept}).out
        ignored = int(said.split()[1], 16) >> (signal.SIGPIPE - 1) & 1
        check_equal(ignored, 0 if kept else 1)


if __name__ == "__main__":
    main()
