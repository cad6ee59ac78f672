#!/usr/bin/env python3
"""The private server of `local:`: who joins first starts it, and it ends by itself when nobody uses it."""
import contextlib
import errno
import fcntl
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time

from harness import SLOW, Connection, check, check_equal, find_server, main, once, wait_until

N_JOINERS = 20
JOIN_MS, SHORT_MS, SLACK_MS = 30000, 200, 1000
REPLACED_MS = 3000
GUARD_LOOKS = 12  # two a second
TTL_MS = 4000


class Place:
    """A folder for the server, one for programs, and one where the server under test has the name that is looked for
    first."""

    def __init__(self, world):
        self.world, self.base = world, tempfile.mkdtemp(prefix="rql-local-")
        self.folder, self.bin, tested = (f"{self.base}/{name}" for name in ("local", "bin", "tested"))
        self.socket, self.post = self.folder + "/redis.sock", self.folder + "/guard.lock"
        os.mkdir(self.bin)
        os.mkdir(tested)
        os.symlink(find_server(), tested + "/redis-server")
        self.env = {"PATH": tested + ":/usr/bin:/bin", "RQL_LOCAL_DIR": self.folder, "RQL_LOCAL_IDLE": "1"}

    def joiner(self, within_ms=JOIN_MS):
        """A thread of a process of its own, which connects if it is told to."""
        return self.world.actor("thread", self.world.client(self.world.remote(self.env), url="local:",
                                                            connect_timeout_ms=within_ms))

    def join(self):
        joined = self.joiner()
        joined.begin("connect").outcome(3 * JOIN_MS / 1000).check()
        return joined

    def leave(self, joined):
        self.world.free(joined.client)

    def check_refused(self, text, within_ms=JOIN_MS):
        """By an error of one line."""
        kept_ms = self.world.kept_ms()
        joiner = self.joiner(within_ms)
        outcome = joiner.begin("connect").outcome().check("E_IO")
        limit_ms = within_ms + SLACK_MS + self.world.kept_ms() - kept_ms
        self.leave(joiner)
        check(outcome.took_us < limit_ms * 1000, f"after {outcome.took_us} us")
        self.refusal = outcome.error
        check(text in outcome.error and "local: " in outcome.error and "\n" not in outcome.error, outcome.error)

    def ask(self, *words):
        connection = Connection(self.socket, JOIN_MS / 1000)
        try:
            return connection.call(*words)
        finally:
            connection.close()

    def is_deserted(self):
        """No server listens. The guard may not have noticed."""
        with socket.socket(socket.AF_UNIX) as joining:
            return joining.connect_ex(self.socket) == errno.ECONNREFUSED

    def info(self, name):
        lines = [line for line in self.ask("INFO").splitlines() if line.startswith(name + ":")]
        return int(lines[0].split(":")[1])

    def server(self):
        return self.info("process_id")

    def has_guard(self):
        try:
            with open(self.post, "r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False

    def is_empty(self):
        return not os.path.exists(self.folder) or not os.listdir(self.folder)

    def await_end(self, server):
        """It leaves nothing behind."""
        await_gone(server)
        wait_until(lambda: self.is_empty() and not self.has_guard(), "nothing is left")

    def program(self, name, text):
        with open(f"{self.bin}/{name}", "w", encoding="ascii", opener=lambda path, how: os.open(path, how, 0o700)) as file:
            file.write(text)

    def end(self):
        """Whatever a scenario that failed has left behind goes too."""
        with contextlib.suppress(Exception):
            self.ask("SHUTDOWN", "NOSAVE")
        wait_until(lambda: not self.has_guard(), "the guard has gone")
        if os.path.islink(self.folder):
            os.unlink(self.folder)
        shutil.rmtree(self.base)


def can_be_less_nice():
    return subprocess.run(["sh", "-c", "renice -n 7 -p $$ && renice -n 0 -p $$"], check=False,
                          capture_output=True).returncode == 0


def await_gone(pid):
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), f"{pid} has ended")


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read()


def stat_of(pid):
    """Its fields behind its name."""
    return read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def parent_of(pid):
    return int(stat_of(pid)[1])


def at_place(function):
    """A scenario that has a place of its own; its joiners go before that does."""
    def case(world, _kind, _names):
        place = Place(world)
        try:
            function(place)
        finally:
            place.end()
    case.__name__ = function.__name__
    return once(case)


# ---- the server ----

@at_place
def the_server_ends_when_unused(place):
    joined, server = place.join(), place.server()
    place.leave(joined)
    place.await_end(server)


@at_place
def the_server_is_private_keeps_nothing_and_evicts_nothing(place):
    place.join()
    for path in (place.folder, place.socket):
        check_equal(stat.S_IMODE(os.stat(path).st_mode), 0o700, path)
    for name, wanted in (("port", "0"), ("save", ""), ("appendonly", "no"), ("maxmemory-policy", "noeviction"),
                         ("dir", place.folder)):
        check_equal(place.ask("CONFIG", "GET", name), [name, wanted])


def open_files(pid):
    """Those that the process closes while they are looked at do not count."""
    links = set()
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            links.add(os.readlink(f"/proc/{pid}/fd/{number}"))
    return {link for link in links if link != "/dev/null" and "anon_inode" not in link}


@at_place
def the_server_is_detached(place):
    """From who started it: neither a child of it, nor of its session, nor with its descriptors, of which one is there
    for all children."""
    place.program("remote", f"#!/bin/sh\nexec 9<{place.bin}\nexec {place.world.program}\n")
    place.world.program = place.bin + "/remote"
    joined = place.join()
    mine, server = joined.remote.process.pid, place.server()
    check(place.bin in open_files(mine), "it is not open")
    check_equal(read(f"/proc/{mine}/task/{mine}/children"), "")
    for pid in (server, parent_of(server)):
        check(os.getsid(pid) != os.getsid(mine) and os.getpgid(pid) != os.getpgid(mine), "it is not detached")
        check_equal(open_files(pid) & open_files(mine), set())


@at_place
def joiners_at_once_share_one_server(place):
    joiners = [place.joiner() for _ in range(N_JOINERS)]
    for call in [joiner.begin("connect") for joiner in joiners]:
        call.outcome(3 * JOIN_MS / 1000).check()
    check_equal(place.ask("CLIENT", "LIST").count(" name=rql:"), N_JOINERS)
    server = place.server()
    for joiner in joiners:
        place.leave(joiner)
    place.await_end(server)


@at_place
def a_client_keeps_the_server(place):
    place.join()
    looks = place.info("total_connections_received")
    wait_until(lambda: place.info("total_connections_received") - looks >= 2 * GUARD_LOOKS, "its guard looked often")


@at_place
def a_lock_keeps_the_server_until_it_expires(place):
    joined, server = place.join(), place.server()
    place.ask("SET", "rql:lock:a", "x", "PX", TTL_MS)
    begun_s = time.monotonic()
    place.leave(joined)
    place.await_end(server)
    check(time.monotonic() - begun_s >= TTL_MS / 1000 - 0.1, "it ended before")


# ---- the limits of its first starter ----

SPACE_KB = 4000000 if SLOW == 1 else 0  # a sanitizer reserves terabytes of addresses

def limits(pid):
    """(soft, hard) of open files and address space."""
    rows = {line[:26].strip(): tuple(line[26:].split()[:2]) for line in read(f"/proc/{pid}/limits").splitlines()}
    return rows["Max open files"], rows["Max address space"]


def start_limited(place, before):
    """The server's pid, and the program's words for it. The first joiner's program has no right to undo a limit."""
    drop = "setpriv --bounding-set=-sys_resource,-sys_nice --inh-caps=-sys_resource,-sys_nice" if os.geteuid() == 0 else ""
    place.program("remote", f"#!/bin/sh\n{before}\nexec {drop} {place.world.program}\n")
    place.world.program = place.bin + "/remote"
    place.join()
    return place.server()


@at_place
def the_server_has_no_limit_that_can_be_lifted(place):
    server = start_limited(place, "ulimit -S -n 80" + (f"; ulimit -S -v {SPACE_KB}" if SPACE_KB else ""))
    for soft, hard in limits(server):
        check_equal(soft, hard)
    log = read(place.folder + "/redis.log")
    check("at most" not in log, log)  # it may name a priority, that of the tests


@at_place
def the_server_says_what_it_keeps_of_its_starter(place):
    server = start_limited(place, "ulimit -n 80; renice -n 7 -p $$ >/dev/null; echo 300 >/proc/self/oom_score_adj"
                           + (f"; ulimit -v {SPACE_KB}" if SPACE_KB else ""))
    log = read(place.folder + "/redis.log")
    check_equal(limits(server)[0], ("80", "80"))
    of_space = [f"at most {SPACE_KB} kB of address space"] if SPACE_KB else []
    for words in ("at most 80 open files", "nice 7", *of_space):
        check_equal(log.count(f"kept from the program that started the server: {words}"), 1, log)
    # Only a score that was set with more rights stays.
    check_equal("oom_score_adj 300" in log, read(f"/proc/{server}/oom_score_adj") != "0\n")


@at_place
def the_server_of_a_nice_root_is_not_nice(place):
    """Where the rights suffice: a server in a container need not have them."""
    if os.geteuid() != 0 or not can_be_less_nice():
        return
    place.program("remote", f"#!/bin/sh\nrenice -n 7 -p $$ >/dev/null\nexec {place.world.program}\n")
    place.world.program = place.bin + "/remote"
    place.join()
    check_equal(stat_of(place.server())[16], "0", "its niceness")


# ---- what is lost ----

def server_without_guard(place):
    """It was joined, and runs on."""
    joined, server = place.join(), place.server()
    os.kill(parent_of(server), signal.SIGKILL)
    wait_until(lambda: not place.has_guard(), "it has no guard")
    place.leave(joined)
    return server


@at_place
def the_next_joiner_replaces_a_lost_guard(place):
    server = server_without_guard(place)
    joined = place.join()
    check_equal(place.server(), server)
    wait_until(place.has_guard, "it has a guard")
    place.leave(joined)
    place.await_end(server)


@at_place
def the_next_joiner_replaces_a_lost_server(place):
    joined, server = place.join(), place.server()
    os.kill(server, signal.SIGKILL)
    await_gone(server)
    place.leave(joined)
    joined = place.join()
    other = place.server()
    check(other != server, "it is the same")
    place.leave(joined)
    place.await_end(other)


@at_place
def a_lost_server_is_replaced_at_once(place):
    """Its guard looks every five seconds, and goes when the server does."""
    place.env["RQL_LOCAL_IDLE"] = "60"
    joined, server = place.join(), place.server()
    place.leave(joined)
    os.kill(server, signal.SIGKILL)
    wait_until(place.is_deserted, "it has ended")
    kept_ms = place.world.kept_ms()
    outcome = place.joiner().begin("connect").outcome(3 * JOIN_MS / 1000).check()
    limit_ms = REPLACED_MS + place.world.kept_ms() - kept_ms
    check(outcome.took_us < limit_ms * 1000, f"after {outcome.took_us} us")


@at_place
def a_stranger_with_the_number_of_the_server_is_left_alone(place):
    """As where the server and its next joiner are in two containers that share the folder."""
    server = server_without_guard(place)
    asked = place.base + "/asked"
    with subprocess.Popen(["sleep", "1000"]) as stranger:
        place.program("redis-cli", f"""#!/bin/sh
case $* in
*" INFO server") [ ! -S "$2" ] || echo process_id:{stranger.pid}; : >{asked} ;;
*) exec {shutil.which("redis-cli")} "$@" ;;
esac
""")
        place.env["PATH"] = place.bin + ":" + place.env["PATH"]
        joined = place.join()
        wait_until(lambda: os.path.exists(asked), "the number is asked for")
        os.unlink(place.socket)
        wait_until(lambda: not place.has_guard(), "the guard has gone")
        check_equal(stranger.poll(), None)
        stranger.kill()
    os.kill(server, signal.SIGKILL)


@at_place
def a_server_that_cannot_be_joined_any_more_ends(place):
    """Clients of both would hold the same locks."""
    for lost in ((place.socket,), (place.socket, place.post)):
        before, server = place.join(), place.server()
        for path in lost:
            os.unlink(path)
        after = place.join()
        check(place.server() != server, "it is the same")
        await_gone(server)
        server = place.server()
        for joined in (before, after):
            place.leave(joined)
        place.await_end(server)


# ---- what is refused ----

def without_rights(place):
    """The next joiners may not look into what belongs to others: as any user but root."""
    place.program("remote", "#!/bin/sh\nexec setpriv --bounding-set=-dac_override,-dac_read_search "
                            f"--inh-caps=-dac_override,-dac_read_search {place.world.program}\n")
    place.world.program = place.bin + "/remote"


@at_place
def a_folder_that_is_not_ones_own_is_refused(place):
    os.mkdir(place.folder, 0o700)
    for mode in (0o702, 0o720):
        os.chmod(place.folder, mode)
        place.check_refused("other users can write to the folder")
    os.chmod(place.folder, 0o700)
    if os.geteuid() == 0:
        os.chown(place.folder, 12345, 12345)
        place.check_refused("belongs to another user (12345)")
        without_rights(place)
        place.check_refused("belongs to another user (12345)")
    os.rmdir(place.folder)
    os.symlink(place.bin, place.folder)
    place.check_refused("is a symbolic link, not a folder")
    place.env["RQL_LOCAL_DIR"] = "/nonexistent/rql"
    place.check_refused("cannot make the folder /nonexistent/rql: No such file or directory")


@at_place
def a_folder_that_cannot_be_written_to_is_refused(place):
    os.mkdir(place.folder, 0o500)
    if os.geteuid() == 0:
        without_rights(place)
    place.check_refused("cannot write to the folder")


@at_place
def a_busy_folder_costs_the_deadline(place):
    os.mkdir(place.folder, 0o700)
    busy = os.open(place.folder, os.O_RDONLY)
    fcntl.flock(busy, fcntl.LOCK_EX)
    place.check_refused("another process is busy in the folder", SHORT_MS)
    os.close(busy)


@at_place
def a_wrong_idle_time_is_refused(place):
    for wrong in ("0", "-1", "x", "1s", "86401", "01"):
        place.env["RQL_LOCAL_IDLE"] = wrong
        place.check_refused("RQL_LOCAL_IDLE")


@at_place
def missing_programs_are_said(place):
    place.env["PATH"] = place.bin
    place.check_refused("no redis-server or valkey-server in PATH; install redis-server or set RQL_URL")
    place.program("valkey-server", "#!/bin/sh\n")
    place.check_refused("no redis-cli or valkey-cli in PATH; install redis-tools or set RQL_URL")


@at_place
def a_server_that_does_not_come_up_costs_the_deadline(place):
    for name in ("redis-server", "redis-cli"):
        place.program(name, "#!/bin/sh\nexit 1\n")
    place.env["PATH"] = place.bin
    place.check_refused("the server did not answer in time", SHORT_MS)
    log = place.folder + "/redis.log"  # it may name a priority: the one that the tests run with
    check_equal("redis.log" in place.refusal, os.path.getsize(log) > 0, place.refusal)
    with open(log, "a", encoding="ascii") as file:
        file.write("no memory\n")
    place.check_refused("redis.log beside it may say why", SHORT_MS)


if __name__ == "__main__":
    main(is_for_each_server=False)
