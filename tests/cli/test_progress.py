#!/usr/bin/env python3
"""The line on a terminal that says how the wait for a lock goes."""
import os
import re
import select
import signal
import time

from harness import (HOST, PATIENCE_S, PROGRAM, Server, Terminal, check_equal, check_in, environment, finish, main,
                     share_as, start_waiting, wait_until)

RUN = (PROGRAM, "run", "a", "--", "echo", "ran")
VERBOSE = (PROGRAM, "run", "a", "--verbose", "--", "echo", "ran")
SHOWN_AFTER_S = 2
KEPT = "rql:acq:kept/0/0/0/" + "0" * 32


class Progress(Terminal):
    """A program at a terminal of its own."""

    def __init__(self, url, words, **more):
        self.begun_s = time.monotonic()
        super().__init__(lambda: os.execve(words[0], words, environment(url, **{"TERM": "xterm", **more})))

    def lines(self):
        """As they stand there in the end."""
        text = re.sub(r"\x1b\[\?7[lh]", "", self.written.decode(errors="replace"))
        return [line.rsplit("\r\x1b[K", 1)[-1] for line in text.split("\r\n")]


def held(rql, name="a"):
    return rql("lock", name, "--ttl", "1m", "--json").json()["secret"]


def test_the_line_tells_place_and_holder_and_is_gone_in_the_end(server, rql):
    holder = rql.start("run", "a", "--ttl", "1m", "--", "sleep", "60")
    wait_until(lambda: server.is_locked("a"), "it is held")
    with Progress(server.url, RUN) as terminal:
        terminal.read_until(r"rql: a: place 1 of 1; held by " + re.escape(f"{HOST} rql[{holder.pid}] for ") +
                            r"\d+\.\ds; expected wait \?\x1b\[\?7h")
        shown_after_s = time.monotonic() - terminal.begun_s
        assert shown_after_s >= SHOWN_AFTER_S, shown_after_s
        check_equal(len(terminal.lines()), 1)
        holder.terminate()
        check_equal((terminal.finish(), terminal.lines()), (0, ["ran", ""]))
        check_in(b"\r\x1b[Kran\r\n", terminal.written)


def test_it_says_that_a_lock_is_shared_or_kept(server, rql):
    share_as(server, "a", 8, ("1", ""), ("1", ""))
    with Progress(server.url, VERBOSE) as terminal:
        terminal.read_until("place 1 of 1; shared by 2; expected wait")
        server.ask("DEL", "rql:shares:a")
        server.ask("HSET", "rql:lock:a", "acq_id", KEPT)
        terminal.read_until("place 1 of 1; kept after its release; expected wait")
        server.ask("DEL", "rql:lock:a")
        check_equal((terminal.finish(), terminal.lines()), (0, ["ran", ""]))


def test_it_is_rewritten_once_a_second_and_learns_how_fast_the_queue_is(server, rql):
    secret = held(rql)
    first = start_waiting(server, rql, "run", "a", "--", "sleep", "60")
    with Progress(server.url, VERBOSE) as terminal:
        terminal.read_until("place 2 of 2; ")
        begun_s = time.monotonic()
        terminal.read_until("(place 2 of 2; .*){3}")
        assert time.monotonic() - begun_s > 1.9, terminal.written
        check_equal(set(re.findall(r"wait (\S+?)\x1b", terminal.written.decode())), {"?"})
        rql("unlock", "a", "--secret", secret)
        terminal.read_until(r"place 1 of 1; held by .*; expected wait \d+\.\ds\x1b")
        first.terminate()
        check_equal((terminal.finish(), terminal.lines()), (0, ["ran", ""]))


def test_verbose_shows_it_at_once(server, rql):
    held(rql)
    with Progress(server.url, RUN) as late, Progress(server.url, VERBOSE) as early:
        ready = select.select([late.fd, early.fd], [], [], PATIENCE_S)[0]
        check_equal(ready, [early.fd])


def looks(server):
    """How often a lock, or a queue, was looked at as only the reader does."""
    calls = re.search(r"cmdstat_memory\|usage:calls=(\d+)", server.ask("INFO", "commandstats"))
    return int(calls[1]) if calls else 0


def test_a_pipe_and_a_terminal_that_cannot_rewrite_get_nothing(server, rql):
    """In the background the terminal is another's: there the reader looks, and in vain."""
    secret = held(rql)
    before = looks(server)
    process = rql.start(*VERBOSE[1:])
    with Progress(server.url, VERBOSE, TERM="dumb") as dumb:
        wait_until(lambda: server.queue_length("a") == 2, "they wait")
        with Progress(server.url, ("/bin/sh", "-mc", " ".join(VERBOSE) + " & wait")) as background:
            wait_until(lambda: looks(server) > before + 2, "it has looked, and looks again")
            rql("unlock", "a", "--secret", secret)
            background.finish()
        check_equal(dumb.finish(), 0)
    for terminal in (background, dumb):
        assert terminal.written.startswith(b"ran\r\n"), terminal.written
    result = finish(process)
    check_equal((result.code, result.out, result.err), (0, "ran\n", ""))


def test_what_else_is_said_takes_its_place(server, rql):
    secret = held(rql)
    with Progress(server.url, VERBOSE) as terminal:
        terminal.read_until("place 1 of 1")
        server.ask("REPLICAOF", "127.0.0.1", "1")
        try:
            terminal.read_until("\r\x1b\\[Krql: a: waiting: .*READONLY.*\r\n")
        finally:
            server.ask("REPLICAOF", "NO", "ONE")
        rql("unlock", "a", "--secret", secret)
        check_equal((terminal.finish(), terminal.lines()[1:]), (0, ["ran", ""]))
        assert terminal.lines()[0].startswith("rql: a: waiting: "), terminal.lines()


def test_an_interrupt_leaves_no_line(server, rql):
    held(rql)
    with Progress(server.url, VERBOSE) as terminal:
        terminal.read_until("place 1 of 1")
        terminal.type("\x03")
        check_equal((terminal.finish(), terminal.lines()), (-signal.SIGINT, [""]))
    check_equal(server.queue_length("a"), 0)


def test_names_of_strangers_do_nothing_to_the_terminal(server, _rql):
    server.ask("HSET", "rql:lock:a", "acq_id", "x\x1b[2Jy", "hst_id", "h", "ts", f"{time.time():.3f}", "ini_ttl", "5000")
    server.ask("PEXPIRE", "rql:lock:a", "4000")
    with Progress(server.url, VERBOSE) as terminal:
        terminal.read_until(r"held by x\\x1b\[2Jy for ")
        check_equal(terminal.finish(), 0)


def test_it_comes_back_with_the_server(_server, rql):
    with Server() as own:
        secret = rql("lock", "a", "--ttl", "1m", "--json", RQL_URL=own.url).json()["secret"]
        with Progress(own.url, (*VERBOSE[:4], "--io-timeout", "300ms", *VERBOSE[4:])) as terminal:
            terminal.read_until("place 1 of 1")
            with own.frozen():
                terminal.read_until("rql: a: waiting: ")
            terminal.read_until("(?s)rql: a: waiting: .*place 1 of 1")
            rql("unlock", "a", "--secret", secret, RQL_URL=own.url)
            check_equal((terminal.finish(), terminal.lines()[1:]), (0, ["ran", ""]))


if __name__ == "__main__":
    main()
