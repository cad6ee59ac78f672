#!/usr/bin/env python3
"""The programs behind bench/run.sh and bench/demo.sh: how they exit, and what they count.

Usage: test_benchmarks.py BUILD_FOLDER    prints TAP. Standard library only.
"""
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "support"), str(TESTS.parent / "bench/suite")]

import plan  # noqa: E402
import servers  # noqa: E402
import tap  # noqa: E402
from checks import LeftOut, check, check_equal, check_in  # noqa: E402
from lineup import Lineup  # noqa: E402
from measure import Run  # noqa: E402
from private_server import die_with_parent  # noqa: E402

BUILD = sys.argv[1]
NO_SERVER = "no redis-server and no valkey-server\n"


def run(script, first, *words, **env):
    """(exit status, standard error) of a program of the suite."""
    with tempfile.TemporaryDirectory(prefix="rql-test-") as scratch:
        done = subprocess.run([sys.executable, TESTS.parent / "bench/suite" / script, first, scratch, *words], text=True,
                              env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, preexec_fn=die_with_parent, check=False)
    return done.returncode, done.stderr


def test_what_cannot_run_without_a_server_exits_with_3():
    check_equal(run("main.py", "no-build", PATH=""), (3, f"run.sh: {NO_SERVER}"))
    check_equal(run("demo.py", "no-demo", PATH=""), (3, f"demo.sh: {NO_SERVER}"))


def test_wrong_arguments_exit_with_2_before_anything_is_started():
    for word, why in (("abc", "invalid duration value"), ("nan", "nan: from 8"), ("7", "7: from 8"), ("61", "to 60")):
        status, said = run("demo.py", "no-demo", word, PATH="")
        check_equal(status, 2, said)
        check_in(why, said)
    for words in (["--nonsense"], ["--only", "nonsense"], ["--figures", "--one-cpu"]):
        check_equal(run("main.py", "no-build", *words, PATH="")[0], 2, words)


def test_the_status_of_the_demonstration_counts_before_that_of_its_cluster():
    """A demonstration that ends at once leaves no time to move the lock."""
    for demo, wanted in (("false", 1), ("true", 3)):
        status, said = run("demo.py", demo)
        check_equal(status, wanted, said)
        check_in("demo.sh: there was no time for it: 0 moves, killed: False\n", said)


def listens(port, *options):
    with socket.socket() as listener:
        for option in options:
            listener.setsockopt(socket.SOL_SOCKET, option, 1)
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen()
        except OSError:
            return False
    return True


def test_a_port_is_kept_for_the_server_that_it_was_chosen_for():
    port = servers.free_port()
    check_equal((listens(port), listens(port, socket.SO_REUSEADDR)), (False, True))


@contextlib.contextmanager
def lineup_of(*needed):
    with tempfile.TemporaryDirectory(prefix="rql-test-") as scratch, Lineup(BUILD, scratch, needed) as lineup:
        yield lineup


def case_of(name):
    """The first case of this name in the plan."""
    return next(case for block in plan.all_blocks() for case in block.cases if case.name == name)


def play(lineup, name):
    """(operations, commands of the server) of one slot of a case."""
    case = case_of(name)
    server = lineup.server_of(case.player)
    before = server.usage()["commands"]
    answer = lineup.players[case.player].order(case.shape, case.threads, case.slot_ms, case.pause_us)
    return answer["done"], server.usage()["commands"] - before


def test_a_turn_with_a_bare_token_is_two_commands():
    with lineup_of("token") as lineup:
        n_turns, n_commands = play(lineup, "turns/token")
    n_threads = case_of("turns/token").threads
    check(n_turns > 0 and 0 <= n_commands - 2 * n_turns <= 2 * n_threads, (n_turns, n_commands))


def test_each_login_is_counted():
    with lineup_of("shared-tls", "logins") as lineup:
        if lineup.missing:
            raise LeftOut(f"TLS: {lineup.missing}")
        (n_full, of_full), (n_resumed, of_resumed) = play(lineup, "login/full"), play(lineup, "login/resumed")
    check(of_full > 0, "a login sends commands")
    check_equal(of_resumed * n_full, of_full * n_resumed, "commands of a login")


def test_the_locks_of_a_dead_host_are_made_before_their_flush_is_measured():
    """The flush looks once at each of the other locks, too."""
    case = case_of("flush/rql")
    with lineup_of("locks") as lineup:
        sample = Run([], lineup, 0, 0).measured(case, case.slot_ms)
    n_commands = sample["commands"] * case.threads
    check(0 <= n_commands - plan.HELD - case.threads < case.threads / 2, n_commands)


if __name__ == "__main__":
    tap.main(n_own=1, skip=None if shutil.which("redis-server") or shutil.which("valkey-server") else NO_SERVER.strip())
