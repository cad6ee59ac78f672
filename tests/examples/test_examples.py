#!/usr/bin/env python3
"""The examples and the programs of our pages, compiled as their reader would: by pkg-config, against an installed copy;
and what they do.

Usage: test_examples.py BUILD CC CXX [WORD...]
BUILD may be "installed": the system has the library, as from a package. A compiler is one argument, also if it is several
words. CXX may be empty."""
import contextlib
import fcntl
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))
BUILD, CC, CXX = sys.argv[1:4]
ROOT = HERE.parents[1]
PAGES = {"README.md": "c99", "include/rql/event_loop.md": "gnu99"}  # what libuv's header needs
TTL_MS = 3000  # of leader.c

import harness  # noqa: E402
from harness import check_equal, check_in, finish, wait_until  # noqa: E402


class Examples:
    """All of them, in a folder of their own. `start` and calling one are as of the program `rql`."""

    def __init__(self, folder):
        self.folder, self.root = folder, "" if BUILD == "installed" else f"{folder}/root"
        if self.root:
            subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet"], check=True,
                           env={**os.environ, "DESTDIR": self.root}, stdout=subprocess.DEVNULL)
        self.pc = next(pathlib.Path(self.root + "/usr").rglob("rql.pc"))
        self.sources = sorted(pathlib.Path(self.root + "/usr").glob("**/share/doc/librql*/examples/*.c"))
        for source in self.sources:
            self.compile(source)

    def flags(self, *words):
        own = {"PKG_CONFIG_PATH": str(self.pc.parent), "PKG_CONFIG_SYSROOT_DIR": self.root,
               "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1", "PKG_CONFIG_ALLOW_SYSTEM_LIBS": "1"}
        said = [subprocess.run(["pkg-config", *words, name], env={**os.environ, **env}, check=True, text=True,
                               stdout=subprocess.PIPE).stdout for name, env in (("rql", own), ("libuv", {}))]
        return shlex.split(" ".join(said))

    def compile(self, source, compiler=CC, words=("-std=gnu99",), libraries=None):
        """Returns the path of the program."""
        program = f"{self.folder}/{source.stem}"
        subprocess.run([*shlex.split(compiler), *words, "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                        *self.flags("--cflags"), str(source), "-x", "none", "-o", program,
                        *(libraries or self.flags("--libs")), f"-Wl,-rpath,{self.pc.parent.parent}"], check=True)
        return program


class Running(harness.Program):
    """Whatever example the words begin with, in place of the program."""

    def __init__(self, url, examples):
        super().__init__(url)
        self.examples = examples

    def start(self, name, *words, **more):
        process = subprocess.Popen([f"{self.examples.folder}/{name}", *words], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=harness.environment(self.url, **more))
        self.started.append(process)
        return process

    def __call__(self, *words, **more):
        process = self.start(*words, **more)
        return finish(process)


def check_left(server, *names):
    """No lock, and nobody who waits: but for what lasts."""
    check_equal(sorted(server.ask("KEYS", "rql:lock*")), sorted(names))


def test_each_is_installed(_server, run):
    check_equal([source.name for source in run.examples.sources], sorted(source.name for source in HERE.glob("*.c")))


@contextlib.contextmanager
def own_local_server(folder):
    """The environment of programs that share a private server, which ends soon after them."""
    yield {**{name: value for name, value in os.environ.items() if not name.startswith("RQL_")},
           "RQL_URL": "local:", "RQL_LOCAL_DIR": folder + "/local", "RQL_LOCAL_IDLE": "1"}
    with open(folder + "/local/guard.lock", "rb") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)  # its guard holds it as long


def test_programs_of_our_pages_take_a_lock(_server, run):
    """In C and in C++, with the shared library and with the archive."""
    source = pathlib.Path(run.examples.folder, "report.c")
    with own_local_server(run.examples.folder) as env:
        for page, standard in PAGES.items():
            blocks = re.findall(r"^```c\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.M | re.S)
            source.write_text(next(block for block in blocks if "int main" in block), encoding="utf-8")
            ways = [(CC, ("-x", "c", f"-std={standard}"))] + [(CXX, ("-x", "c++", "-std=c++17"))] * bool(CXX)
            for compiler, words in ways:
                subprocess.run(run.examples.compile(source, compiler, words), env=env, check=True)
        if next(run.examples.pc.parents[1].glob("librql.a"), None):
            libraries = [re.sub("^-lrql$", "-l:librql.a", word) for word in run.examples.flags("--static", "--libs")]
            program = run.examples.compile(source, CC, ("-std=gnu99",), libraries)
            needed = subprocess.run(["readelf", "-d", program], check=True, text=True, stdout=subprocess.PIPE).stdout
            assert "librql" not in needed, needed
            subprocess.run(program, env=env, check=True)


def test_each_says_how_it_is_used_and_what_is_wrong(server, run):
    for name in ("mutex", "transfer", "permits", "reader_writer", "job_queue", "leader", "once_a_day", "fencing", "drain"):
        said = run(name)
        assert said.code in (1, 2) and said.err.startswith("Usage: " + name), said.err
    said = run("mutex", "a", RQL_URL="unix:///nowhere/at/all")
    check_equal(said.code, 1)
    check_in("/nowhere/at/all", said.err)
    said = run("mutex", "a", RQL_URL="nothing")
    check_equal(said.code, 1)
    assert said.err.strip(), "it is not said what is wrong"


def test_a_mutex_is_taken_and_released(server, run):
    said = run("mutex", "report")
    assert re.fullmatch(r"report: acquired, token \d+\n", said.out), said.out
    check_equal((said.code, said.err), (0, ""))
    check_left(server)


def test_two_accounts_are_taken_in_any_order(server, run):
    both = [run.start("transfer", *names) for names in (("a", "b"), ("b", "a")) * 4]
    for process in both:
        said = finish(process)
        check_equal((said.code, said.err), (0, ""))
        check_in(": acquired", said.out)
    check_left(server)


def test_no_resource_of_a_pool_is_used_twice_at_once(server, run):
    said = run("permits", "gpu", "3")
    check_equal((said.code, said.err), (0, ""))
    in_use, used = set(), []
    for line in said.out.splitlines():
        number, what = line.split(" ", maxsplit=1)
        assert (what == "given back") == (number in in_use), said.out
        in_use ^= {number}
        used += [number] if what == "in use" else []
    check_equal((len(used), set(used)), (6, {"0", "1", "2"}))
    check_left(server)


def test_readers_run_together_and_a_writer_becomes_a_reader(server, run):
    readers = [run.start("reader_writer", "settings", "read") for _ in range(2)]
    check_equal([reader.stdout.readline() for reader in readers], ["reading\n"] * 2)
    writer = run.start("reader_writer", "settings", "write")
    wait_until(lambda: server.queue_length("settings") == 1, "the writer waits")
    check_equal([finish(reader).code for reader in readers], [0, 0])
    check_equal(writer.stdout.readline(), "writing\n")
    late = run.start("reader_writer", "settings", "read")
    wait_until(lambda: server.queue_length("settings") == 1, "a reader waits for the writer")
    writer.stdin.write("\n")
    writer.stdin.flush()
    check_equal([process.stdout.readline() for process in (writer, late)], ["reading\n"] * 2)
    check_equal([finish(process).code for process in (writer, late)], [0, 0])
    check_left(server)


def test_a_job_is_refused_where_enough_wait(server, run):
    working = run.start("job_queue", "export", "1")
    check_equal(working.stdout.readline(), "working\n")
    waiting = run.start("job_queue", "export", "1")
    wait_until(lambda: server.ask("ZCARD", "rql:lock_queue:export") == 1, "it waits")
    refused = run("job_queue", "export", "1")
    check_equal(refused.code, 75)
    check_in("1 or more requests wait for it already", refused.err)
    for process in (working, waiting):
        said = process.communicate("\n", timeout=60)
        assert process.returncode == 0 and said[0].endswith("done\n"), said
    check_left(server)


def test_another_leads_when_the_leader_has_died_or_lost_the_lock(server, run):
    first, second = (run.start("leader", "scheduler") for _ in range(2))
    wait_until(lambda: server.queue_length("scheduler") == 1, "one leads, and one waits")
    leads, waits = (second, first) if server.ask("HGET", "rql:lock:scheduler", "acq_id").startswith(
        f"rql:acq:{second.pid}/") else (first, second)
    term = leads.stdout.readline()
    assert re.fullmatch(r"leading, term \d+\n", term), term
    leads.kill()
    later = waits.stdout.readline()
    assert int(later.split()[-1]) > int(term.split()[-1]), (term, later)
    server.ask("DEL", "rql:lock:scheduler")
    check_equal(waits.stdout.readline(), "no longer leading\n")
    check_in("leading, term", waits.stdout.readline())


def test_it_is_done_once_a_day(server, run):
    check_equal([(said.code, said.out) for said in (run("once_a_day", "digest"), run("once_a_day", "digest"))],
                [(0, "to be done\n"), (1, "already done\n")])
    assert 0 < server.ask("PTTL", "rql:lock:digest") <= 24 * 3600 * 1000
    check_left(server, "rql:lock:digest")


def test_who_is_too_late_is_refused_by_the_file(server, run):
    path = f"{run.examples.folder}/ledger.txt"
    late = run.start("fencing", path, "late", FENCING_SLEEPS="1")
    wait_until(lambda: server.is_locked("ledger"), "it has the lock")
    server.ask("DEL", "rql:lock:ledger")  # as if its machine had slept for longer than the lock lives
    check_equal(run("fencing", path, "in time").out, "written\n")
    said = finish(late)
    check_equal((said.code, said.out), (1, "refused: a later holder has already written\n"))
    check_equal(pathlib.Path(path).read_text(encoding="ascii").split("\n")[1], "in time")


def test_what_has_begun_is_finished_before_the_end(server, run):
    process = run.start("drain", "jobs")
    check_equal(process.stdout.readline(), "job started\n")
    process.send_signal(signal.SIGTERM)
    said = finish(process)
    check_equal((said.code, said.out.split("\n")[0]), (0, "job finished"))
    check_in("no lock and no request is left", said.out)
    check_left(server)


def test_what_has_not_begun_leaves_the_queue_before_the_end(server, run):
    server.ask("HSET", "rql:lock:jobs", "acq_id", "rql:acq:1/2/3/4/0123456789abcdef", "ini_ttl", 60000)
    server.ask("PEXPIRE", "rql:lock:jobs", 60000)
    process = run.start("drain", "jobs")
    wait_until(lambda: server.ask("ZCARD", "rql:lock_queue:jobs") == 1, "it waits")
    process.send_signal(signal.SIGTERM)
    said = finish(process)
    check_equal((said.code, said.err), (0, ""))
    check_in("no more jobs: jobs: ", said.out)
    check_left(server, "rql:lock:jobs")


def test_a_service_has_its_turn_on_a_loop(server, run):
    process = run.start("service")
    wait_until(lambda: server.ask("EXISTS", "rql:fence") == 1, "it has its turn")
    process.send_signal(signal.SIGTERM)
    said = finish(process)
    check_equal((said.code, said.err), (0, ""))
    check_in("billing: acquired", said.out)
    check_left(server)


class Fixture(harness.Fixture):
    def __init__(self):
        self.work = tempfile.TemporaryDirectory(prefix="rql-test-")
        super().__init__()

    def make_program(self, url):
        return Running(url, Examples(self.work.name))

    def end(self):
        super().end()
        self.work.cleanup()


if __name__ == "__main__":
    harness.main(Fixture, n_own=3)
