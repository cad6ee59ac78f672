#!/usr/bin/env python3
"""A test program that is cut off leaves nothing behind.

Usage: test_tap.py    prints TAP. Standard library only.
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

SUPPORT = pathlib.Path(__file__).resolve().parent.parent / "support"
sys.path.insert(0, str(SUPPORT))

import tap  # noqa: E402
from checks import PATIENCE_S, check_equal, wait_until  # noqa: E402
from private_server import die_with_parent, find_server  # noqa: E402

# Tests that never end: each has a server, and starts and stops others.
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import tap
from private_server import PrivateServer

def work():
    PrivateServer()
    while True:
        PrivateServer().stop()

for number in range(at_once):
    tap.add(f"test {number}", work)
tap.main(n_own=1, at_once=at_once)
"""


def check_cut_off(at_once):
    with tempfile.TemporaryDirectory(prefix="rql-test-") as folder:
        words = [sys.executable, "-c", f"at_once = {at_once}\n{PROGRAM}", SUPPORT]
        with subprocess.Popen(words, env={**os.environ, "TMPDIR": folder}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent) as program:
            try:
                wait_until(lambda: len(os.listdir(folder)) > at_once, "each test has a server and makes another one")
                program.send_signal(signal.SIGTERM)
                status = program.wait(PATIENCE_S)
            finally:
                program.kill()
        check_equal((status, os.listdir(folder)), (1, []))


def test_a_program_that_is_cut_off_leaves_no_folder_of_a_server():
    check_cut_off(1)


def test_a_program_of_several_threads_that_is_cut_off_leaves_no_folder_of_a_server():
    for _ in range(5):
        check_cut_off(3)


if __name__ == "__main__":
    tap.main(skip=None if find_server() else "no redis-server")
