"""An agent of a test, and what connects to it."""
import os
import signal
import subprocess
import sys
import tempfile

from harness import PATIENCE_S, check_equal, check_in, finish, read_line, wait_until
from resp import Connection

HOLDER = """
import os, socket, sys, time
path, forks, words = sys.argv[1], sys.argv[2] == "forks", sys.argv[3:]
line = socket.socket(socket.AF_UNIX)
line.connect(path)
for word in words:
    line.sendall(word.encode() + b"\\r\\n")
    line.recv(1000)
if forks and os.fork() == 0:
    time.sleep(600)
print(os.getpid(), flush=True)
line.recv(1)
print("closed", flush=True)
time.sleep(600)
"""


class Agent:
    def __init__(self, rql, *words, path=None, **more):
        self.folder = tempfile.TemporaryDirectory()
        self.path, self.rql = path or self.folder.name + "/a", rql
        self.process = rql.start("agent", "--listen", self.path, *words, **more)
        check_in(f"listens at {self.path}", read_line(self.process.stderr))
        self.lines = []

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        self.is_own = not os.path.isfile(self.path)
        for line in self.lines:
            line.close()
        if failure:
            self.process.kill()
        wait_until(self.has_ended, "it has ended")
        result = finish(self.process)
        is_there = os.path.exists(self.path)
        self.folder.cleanup()
        if not failure:
            check_equal((result.code, result.err), (0, ""))

    def has_ended(self):
        """The second signal ends it at once; two that come together may be one."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.poll() is not None

    def connect(self):
        self.lines.append(Connection(self.path, PATIENCE_S))
        return self.lines[-1]

    def holder(self, *words, forks=False):
        """A process that has asked for something by a connection of its own."""
        process = subprocess.Popen([sys.executable, "-c", HOLDER, self.path, "forks" if forks else "", *words],
                                   stdout=subprocess.PIPE, start_new_session=True)
        process.pid_of_main = int(read_line(process.stdout))
        return process


def await_free(server, name):
    wait_until(lambda: not server.is_locked(name), f"{name} is free")
