#!/usr/bin/env python3
"""The demo says FAIL only of a promise that was broken, whatever else keeps the machine busy.

Usage: test_demo.py DEMO              prints TAP: a few short runs
       test_demo.py DEMO RUNS         so many runs of full length, a third of them beside two busy loops; reports each
                                      run that failed, and the rest by a line now and then. Ends with the line
                                      "N passed, N failed".
DEMO is the program rql-demo. Standard library only.
"""
import concurrent.futures
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "support"), str(TESTS.parent / "bench/suite")]

import demo  # noqa: E402
import tap  # noqa: E402
from checks import Failure, check, check_equal, wait_until  # noqa: E402
from cluster import Cluster  # noqa: E402
from private_server import PrivateServer, die_with_parent, find_server  # noqa: E402

DEMO = sys.argv[1]
SHORT_S, FULL_S = 3, 6
PATIENCE_S = 120
FIRST_LINE = r"^   \d\.\d s "  # after half a second, or later on a busy machine
PAUSE_S = 1.3  # longer than the demo's ttl of a second
FAILOVER_LEAST_MS = 2000  # more than what is left of a short run when a holder has been killed
N_PROCESSES = 4
AT_ONCE = os.cpu_count() or 1
EVERY = 10  # runs, for a line of progress


class Run:
    """One demo, with a server of its own unless another one is named; ended at the end of the block."""

    def __init__(self, seconds, url=None, **env):
        self.server = None if url else PrivateServer()
        self.process = subprocess.Popen([DEMO, url or self.server.url, str(seconds)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        env={**os.environ, **env}, preexec_fn=die_with_parent)
        self.said, self.status = "", None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        if self.server:
            self.server.stop()

    def children(self):
        """The processes that contend, once all are there."""
        pid = self.process.pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            pids = [int(word) for word in file.read().split()]
        return pids if len(pids) == N_PROCESSES else None

    def await_line(self, pattern):
        for line in self.process.stdout:
            self.said += line
            if re.search(pattern, line):
                return
        raise Failure(f"no line {pattern}:\n{self.said}")

    def finish(self):
        """It is read to its end, which is not awaited for ever."""
        self.said += self.process.communicate(timeout=PATIENCE_S)[0]
        self.status = self.process.returncode
        return self

    def is_good(self):
        return self.status == 0 and "FAIL" not in self.said

    def check(self):
        if not self.is_good():
            raise Failure(f"exit status {self.status}\n{self.said}")


@contextlib.contextmanager
def busy_loops():
    """Two processes that take what time they get."""
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"], preexec_fn=die_with_parent) for _ in range(2)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def pause(pids):
    """As a machine that is suspended, or swaps: all at once or one of them."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(PAUSE_S)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_all_promises_are_kept_beside_busy_loops():
    with busy_loops(), Run(SHORT_S) as run:
        run.finish().check()
        kept = re.findall(r"^  ok    (.*?)  ", run.said, re.M)
        check_equal(len(kept), 5, run.said)


def test_waits_of_a_process_that_stood_still_are_left_out():
    with Run(FULL_S) as run:
        children = wait_until(run.children, "its processes")
        run.await_line(FIRST_LINE)
        pause(children[:1])
        run.finish().check()
        check(re.search(r"order was kept.*left out: their process was paused", run.said), run.said)


def test_no_promise_is_broken_when_all_stand_still():
    with Run(FULL_S) as run:
        children = wait_until(run.children, "its processes")
        run.await_line(FIRST_LINE)
        pause(children)
        run.finish().check()


def test_a_run_without_its_server_gives_no_verdict():
    with Run(SHORT_S) as run:
        run.await_line(FIRST_LINE)
        run.server.kill()
        run.finish()
        check_equal((run.status, re.findall("^  (?:ok|FAIL|--) ", run.said, re.M)), (3, []), run.said)


@contextlib.contextmanager
def masters():
    """A cluster of three masters, each with a replica."""
    with tempfile.TemporaryDirectory(prefix="rql-test-") as scratch:
        cluster = Cluster(scratch, 3, 1, FAILOVER_LEAST_MS)
        try:
            yield cluster.start()
        finally:
            cluster.stop()


def test_waits_during_a_failover_after_the_last_look_are_left_out():
    with masters() as cluster, Run(SHORT_S, cluster.url(), **demo.SETTINGS) as run:
        run.await_line("SIGKILL")
        slot = wait_until(demo.Fate(cluster, SHORT_S).find_slot, "the lock is held")
        cluster.kill(cluster.owner(slot))
        run.finish().check()
        check(re.search(r"order was kept.*left out: the lock moved to another server", run.said), run.said)


def run_once(_number):
    with Run(FULL_S) as run:
        return run.finish()


def run_often(wanted):
    """Returns whether one of the runs failed."""
    n_bad, n_busy = 0, wanted // 3
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for beside, count, where in ((contextlib.nullcontext, wanted - n_busy, "beside nothing else"),
                                     (busy_loops, n_busy, "beside two busy loops")):
            with beside():
                for number, run in enumerate(pool.map(run_once, range(count)), 1):
                    if not run.is_good():
                        n_bad += 1
                        print(f"exit status {run.status}, {where}:\n{run.said}", flush=True)
                    if number % EVERY == 0:
                        print(f"demo: {number} of {count} runs {where}; {n_bad} of all failed", flush=True)
    print(f"{wanted - n_bad} passed, {n_bad} failed")
    return n_bad > 0


if __name__ == "__main__":
    if sys.argv[2:] and sys.argv[2].isdigit():
        sys.exit(run_often(int(sys.argv[2])))
    tap.main(n_own=1, skip=None if find_server() else "no redis-server")
