#!/usr/bin/env python3
"""Run a test program, and once more if it failed while the machine stood still.

Usage: again.py PROGRAM ARGUMENTS..., as `meson test --wrapper` calls it.

A claim of a second, a heartbeat of five: where nothing runs for that long, the server rightly gives up who
is silent, and a test that had not expected it fails. A machine that is only slow is no excuse: what counts is
a thread that sleeps for moments and is woken far too late. Only the last run is told on standard output;
RQL_TEST_AGAIN names a file that gets a line for each repetition, a scenario's (harness.py) too.
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

from private_server import die_with_parent

MOMENT_S = 0.02
STOOD_STILL_S = 0.5


class Watch(threading.Thread):
    """How long the machine stood still at most."""

    def __init__(self):
        super().__init__(daemon=True)
        self.is_over = threading.Event()
        self.worst_s = 0.0
        self.start()

    def run(self):
        while not self.is_over.is_set():
            begun = time.monotonic()
            time.sleep(MOMENT_S)
            self.worst_s = max(self.worst_s, time.monotonic() - begun - MOMENT_S)

    def end(self):
        self.is_over.set()
        self.join()
        return self.worst_s


def run(command, told):
    """Its exit code, and for how long the machine stood still meanwhile."""
    watch = Watch()
    code = subprocess.call(command, stdout=told, preexec_fn=die_with_parent)
    return code, watch.end()


def show(told):
    told.flush()
    sys.stdout.buffer.write(pathlib.Path(told.name).read_bytes())
    sys.stdout.buffer.flush()


def note(what, why):
    line = f"again: {what}: {why}\n"
    sys.stderr.write(line)
    if "RQL_TEST_AGAIN" in os.environ:
        with open(os.environ["RQL_TEST_AGAIN"], "a", encoding="utf-8") as file:
            file.write(line)


def main(*command):
    with tempfile.NamedTemporaryFile() as told:
        def on_timeout(_number, _frame):
            show(told)
            os._exit(1)

        signal.signal(signal.SIGTERM, on_timeout)
        code, worst_s = run(command, told)
        if code != 0 and worst_s > STOOD_STILL_S:
            sys.stderr.write(pathlib.Path(told.name).read_text(errors="replace"))
            note(pathlib.Path(command[0]).name, f"the machine stood still for {worst_s:.1f} s")
            told.truncate(0)
            told.seek(0)
            code, _ = run(command, told)
        show(told)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
