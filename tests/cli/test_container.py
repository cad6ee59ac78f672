#!/usr/bin/env python3
"""rql as the first process of a PID namespace, as it is in a container."""
import os
import shutil
import signal
import subprocess

from harness import (PROGRAM, Folder, Missing, check_equal, environment, finish, is_gone, main, read_line, wait_until)

NOWHERE = "unix:///nonexistent/server"
PREFIX = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


def must_be_possible():
    """A namespace needs rights that a test in a container may not have."""
    for program in ("unshare", "nsenter"):
        if not shutil.which(program):
            raise Missing(program)
    said = subprocess.run([*PREFIX, "true"], stderr=subprocess.PIPE, text=True, check=False)
    if said.returncode:
        raise Missing(f"PID namespace: {said.stderr.strip()}")


class Container:
    """rql is its first process. The process that is known here only waits for it."""

    def __init__(self, rql, *words, url=None):
        must_be_possible()
        self.process = subprocess.Popen([*PREFIX, PROGRAM, *words], env=environment(url or rql.url),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)
        rql.started.append(self.process)
        self.pid = int(wait_until(self.children_of_unshare, "the first process is there"))

    def children_of_unshare(self):
        pid = self.process.pid
        try:
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                child = file.read().strip()
            with open(f"/proc/{child}/comm", encoding="ascii") as file:
                return child if child and file.read() == "rql\n" else None
        except FileNotFoundError:
            return None

    def send(self, number):
        os.kill(self.pid, number)

    def inside(self, *words):
        """Runs a command in the same namespaces, and the same root, as `docker exec` does. Returns what it prints."""
        return subprocess.run(["nsenter", f"--target={self.pid}", "--pid", "--mount", "--root", *words],
                              stdout=subprocess.PIPE, text=True, check=True).stdout

    def zombies(self):
        return self.inside("sh", "-c", "grep -h '^State:.*Z' /proc/[0-9]*/status 2>/dev/null || true").count("\n")


def waits(rql):
    """Each way in which a wait can go: no server, and a lock that is held. What awaits its begin."""
    for words in (("run", "a", "--wait", "1h", "--", "true"), ("lock", "a", "--wait", "1h"),
                  ("series", "a", "b{a}", "--wait", "1h", "--", "true")):
        yield NOWHERE, words
        yield rql.url, words


def await_wait(container, server, url):
    if url == NOWHERE:
        line = read_line(container.process.stderr)
        assert "waiting for the server" in line, line
    else:
        wait_until(lambda: server.queue_length("a") == 1, "it waits")


def test_a_signal_ends_a_wait_of_the_first_process(server, rql):
    rql("lock", "a", "--ttl", "10m")
    for url, words in waits(rql):
        for number in (signal.SIGTERM, signal.SIGINT):
            container = Container(rql, *words, url=url)
            await_wait(container, server, url)
            container.send(int(number))
            check_equal(finish(container.process).code, 128 + number, f"{url} {words}")
            check_equal(server.queue_length("a"), 0, f"{url} {words}")


def test_a_signal_reaches_the_command_of_the_first_process(server, rql):
    with Folder() as folder:
        container = Container(rql, "run", "a", "--", "sh", "-c",
                              f"trap 'exit 9' TERM; echo > {folder.path('up')}; while :; do sleep 0.01; done")
        folder.await_lines("up")
        container.send(int(signal.SIGTERM))
        check_equal(finish(container.process).code, 9)
        assert not server.is_locked("a")


def test_the_first_process_passes_the_exit_code_on(server, rql):
    must_be_possible()
    for script, code in (("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137)):
        container = subprocess.run([*PREFIX, PROGRAM, "run", "a", "--", "sh", "-c", script],
                                   env=environment(rql.url), check=False)
        check_equal(container.returncode, code)
    assert not server.is_locked("a")


def test_the_first_process_reaps_orphans(server, rql):
    orphans = "for i in 1 2 3 4 5 6 7 8; do (sleep 0.01 & ) ; done; sleep 0.1"
    rql("lock", "a", "--ttl", "10m")
    for url, words in ((NOWHERE, ("run", "a", "--wait", "1h", "--", "true")),
                       (rql.url, ("run", "a", "--", "true")),
                       (rql.url, ("run", "b", "--", "sh", "-c", f"{orphans}; exec sleep 600"))):
        container = Container(rql, *words, url=url)
        container.inside("sh", "-c", orphans)
        wait_until(lambda c=container: c.zombies() == 0, f"orphans are reaped under {words}")
        container.process.kill()  # and by --kill-child what is in it
        wait_until(lambda c=container: is_gone(c.pid), "the container ends")


if __name__ == "__main__":
    main()
