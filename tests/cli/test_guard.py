#!/usr/bin/env python3
"""The processes of `rql run`: descriptors, the command's group, and the guard, which outlives a killed rql."""
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time

from harness import (PROGRAM, PATIENCE_S, Folder, Missing, Program, Server, check_equal, check_in, environment, finish,
                     await_gone, is_gone, main, read_line, share_as, start_waiting, wait_until)

RUN = ("run", "a", "--", "true")
LEFT_OPEN = 60  # a descriptor


def run_without(rql, closed, words):
    """Runs rql while these descriptors are closed. Returns its exit code."""
    return rql(*words, popen={"preexec_fn": lambda: [os.close(fd) for fd in closed]}).code


def test_closed_descriptors_do_no_harm(server, rql):
    logged = [("--log-lock-try", "true", "run", "a", "--log", "text", "--", "true"),
              ("series", "a", "b{a}", "--log", "json", "--", "true")]
    if rql("run", "a", "--log", "text", "--", "true").code != 0:
        logged = []  # a light build has no log
    for closed in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        for words in (RUN, ("series", "a", "b{a}", "--", "true"), *logged):
            check_equal(run_without(rql, closed, words), 0, f"{closed} closed, {words}")
            check_equal([server.is_locked(name) for name in ("a", "b{a}")], [False, False], f"{closed} closed, {words}")


def test_a_result_without_stdout_is_a_failure(server, rql):
    for closed in ((1,), (0, 1), (0, 1, 2)):
        for words in (("ls", "--json"), ("ping", "--json"), ("--version",), ("help",), ("lock", "a", "--ttl", "1ms")):
            check_equal(run_without(rql, closed, words), 74, f"{closed} closed, {words}")


def test_a_command_that_writes_to_a_closed_stdout_fails_too(server, rql):
    check_equal(run_without(rql, (1,), ("run", "a", "--", "sh", "-c", "echo x || exit 9")), 9)


def test_a_nested_run_is_refused_at_once(server, rql):
    with Server() as plain:
        for outer in (("run", "a"), ("series", "b{a}", "a")):
            for inner in (("run", "a", "--", "true"), ("lock", "a"), ("series", "c{a}", "a", "--", "true")):
                result = rql(*outer, "--", PROGRAM, *inner, "-E", "9") if inner[0] == "lock" else \
                    rql(*outer, "--", PROGRAM, *inner[:-2], "-E", "9", *inner[-2:])
                check_equal(result.code, 9, f"{outer} {inner} {result.err}")
                check_in("rql: a: not acquired: this command already runs under the lock", result.err)
        check_equal(rql("run", "a", "--", PROGRAM, "run", "b", "--", "true").code, 0)
        between = ("--", PROGRAM, "run", "x{a}", "--", PROGRAM, "series", "y{a}", "z{a}", "--", PROGRAM)
        for innermost in (("run", "a", "-E", "9", "--", "true"), ("run", "x{a}", "-E", "9", "--", "true")):
            result = rql("run", "a", *between, *innermost)
            check_equal(result.code, 9, result.err)
        result = rql("run", "a", "--", PROGRAM, "wait", "a")
        check_equal(result.code, 1)
        check_in("this command already runs under the lock", result.err)
        check_equal(rql("run", "a", "--", PROGRAM, "--url", plain.url, "run", "a", "--", "true").code, 0)


def test_a_run_nested_in_a_share_is_refused_at_once(server, rql):
    share_as(server, "a", 8, ("1", ""), ("1", ""))
    token = rql("who", "a", "--json").json()[0]["holders"][1]["token"]
    result = rql("run", "a", "-E", "9", "--", "true", RQL_LOCK="a", RQL_TOKEN=str(token))
    check_equal(result.code, 9)
    check_in("rql: a: not acquired: this command already runs under the lock", result.err)
    server.ask("DEL", "rql:lock:a", "rql:shares:a")
    check_equal(rql("run", "a", "--", "true", RQL_LOCK="a", RQL_TOKEN=str(token)).code, 0)


def test_a_daemon_that_outlives_its_lock_waits_as_usual(server, rql):
    variables = rql("run", "a", "--", "sh", "-c", 'echo "$RQL_LOCK $RQL_TOKEN"').out.split()
    inherited = dict(zip(("RQL_LOCK", "RQL_TOKEN"), variables))
    check_equal(rql("run", "a", "--", "true", **inherited).code, 0)
    secret = rql("lock", "a", "--ttl", "1m", "--json").json()["secret"]
    process = rql.start("run", "a", "--", "echo", "ran", **inherited)
    wait_until(lambda: server.queue_length("a") == 1, "it waits")
    check_equal(rql("unlock", "a", "--secret", secret).code, 0)
    check_equal(finish(process).out, "ran\n")


# ---- a killed rql ----

class Job(Folder):
    """rql with a command that leaves its processes' numbers in a file. The default ttl is so long that the lock ends
    only when it is released."""

    def __init__(self, rql, *command, words=("run", "a"), ttl=("--ttl", "10m"), prefix=(), **more):
        super().__init__()
        self.rql, self.command, self.prefix = rql, command, prefix
        self.words, self.more = (*words, *ttl), more

    def __enter__(self):
        super().__enter__()
        words = [*self.prefix, PROGRAM, *self.words, "--", *self.command]
        more = {"env": environment(self.rql.url, PIDS=self.path("pids"), SIGNS=self.folder.name), **self.more}
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, **more)
        self.rql.started.append(self.process)
        return self

    def __exit__(self, *more):
        """Ends what the command has left, some of which may just be ending."""
        for pid in map(int, self.read("pids").split()):
            if name_of(pid) in ("sh", "setsid", "sleep", "setpriv"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        super().__exit__(*more)

    def pids(self, count):
        return [int(word) for word in self.await_lines("pids", count)]

    def children(self, pid=None):
        pid = pid or self.process.pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]

    def guard(self):
        return wait_until(lambda: next((pid for pid in self.children() if name_of(pid) == "rql-guard"), None),
                          "the guard is there")

    def leader(self):
        guard = self.guard()
        return wait_until(lambda: next((pid for pid in self.children(guard) if name_of(pid) == "rql-group"), None),
                          "the leader is there")

    def kill(self):
        self.process.kill()
        self.process.wait()


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii") as file:
            return file.read().strip()
    except (FileNotFoundError, ProcessLookupError):  # it may end between open() and read()
        return ""


def start_next(server, rql, job):
    """A waiter for the lock that leaves a sign when it has it."""
    start_waiting(server, rql, "run", "a", "--", "touch", job.path("next"))


def await_next(rql, job, pids):
    """The next waiter has the lock soon after the last process has ended, and not before."""
    ended_at = granted_at = None
    begun_at = time.monotonic()
    while granted_at is None:
        is_granted = os.path.exists(job.path("next"))  # in this order: who lives afterwards lived then
        left = [pid for pid in pids if not is_gone(pid)]
        assert not (is_granted and left), f"granted while {left} of {pids} live"
        if not left:
            ended_at = ended_at or time.monotonic()
        if is_granted:
            granted_at = time.monotonic()
        assert time.monotonic() < begun_at + 3 * PATIENCE_S, f"never granted; {left} live"
        time.sleep(0.002)
    begun_at = time.monotonic()
    check_equal(rql("run", "other", "--", "true").code, 0)
    limit_s = max(1, 10 * (time.monotonic() - begun_at))  # a busy machine takes longer for everything
    assert granted_at - ended_at < limit_s, f"{granted_at - ended_at} s after the last of {pids} had ended"


def await_looks(guard):
    """The guard looks again every few milliseconds whether something is left. Afterwards one that would not wait for
    that has released, and ended."""
    def switches():
        try:
            with open(f"/proc/{guard}/status", encoding="ascii") as file:
                return int(file.read().split("\nvoluntary_ctxt_switches:")[1].split()[0])
        except (FileNotFoundError, ProcessLookupError):
            return 1 << 60

    before = switches()
    wait_until(lambda: is_gone(guard) or switches() > before + 50, "the guard looks")


IGNORES = "trap '' TERM HUP INT; echo $$ >> $PIDS; while :; do sleep 0.05; done"
FAMILY = "sleep 600 & echo $! >> $PIDS; sh -c 'sleep 600 & echo $! >> $PIDS; wait' & echo $$ >> $PIDS; wait"


def test_next_waiter_gets_the_locks_of_a_killed_rql(server, rql):
    run, of_setsid = ("sh", "-c"), ("setsid", "sh", "-c")
    for command, script, count, words, is_stopped in (
            (run, IGNORES, 1, ("run", "a"), False), (of_setsid, IGNORES, 1, ("run", "a"), False),
            (run, FAMILY, 3, ("run", "a"), False), (of_setsid, FAMILY, 3, ("run", "a"), False),
            (run, FAMILY, 3, ("run", "a"), True), (run, FAMILY, 3, ("series", "a", "b{a}"), False)):
        with Job(rql, *command, script, words=words) as job:
            pids = job.pids(count)
            for pid in pids if is_stopped else ():
                os.kill(pid, signal.SIGSTOP)
            start_next(server, rql, job)
            job.kill()
            await_next(rql, job, pids)
            wait_until(lambda: not server.is_locked("b{a}"), "the other lock of a series is released")


def test_a_descendant_outside_the_group_is_waited_for(server, rql):
    script = "setsid sh -c 'echo $$ >> $PIDS; while [ ! -e $SIGNS/stop ]; do sleep 0.01; done' & echo $$ >> $PIDS; wait"
    for words in (("sh", "-c", script), ("sh", "-c", f"({script}) & sleep 600")):
        with Job(rql, *words) as job:
            pids = job.pids(2)
            guard = job.guard()
            command = job.children(guard)
            token = server.ask("HGET", "rql:lock:a", "rql_token")
            start_next(server, rql, job)
            job.kill()
            wait_until(lambda p=pids, c=command: sum(is_gone(pid) for pid in {*p, *c}) == len({*p, *c}) - 1,
                       "all but one have ended")
            await_looks(guard)
            check_equal(server.ask("HGET", "rql:lock:a", "rql_token"), token)
            job.touch("stop")
            await_next(rql, job, pids)


def test_a_command_that_has_ended_does_not_end_what_it_left(server, rql):
    with Job(rql, "sh", "-c", "setsid sleep 600 & echo $! >> $PIDS; sleep 600 & echo $! >> $PIDS") as job:
        pids = job.pids(2)
        check_equal(job.process.wait(timeout=PATIENCE_S), 0)  # what it left may keep the pipes open
        assert not server.is_locked("a")
        assert not any(is_gone(pid) for pid in pids)


def test_a_kill_of_the_whole_group_of_rql_spares_the_guard(server, rql):
    with Job(rql, "sh", "-c", FAMILY, start_new_session=True) as job:
        pids = job.pids(3)
        start_next(server, rql, job)
        os.killpg(job.process.pid, signal.SIGKILL)
        job.process.wait()
        await_next(rql, job, pids)


def test_the_guard_shows_neither_url_nor_secret(server, rql):
    with Server("--requirepass", "geheim") as closed:
        url = closed.url_with("default:geheim@")
        with Job(Program(url), "sh", "-c", FAMILY) as job:
            pids = job.pids(3)
            fields = closed.ask("HGETALL", "rql:lock:a")
            shown = ""
            for pid in (job.guard(), job.leader()):
                for kind in ("cmdline", "environ"):
                    with open(f"/proc/{pid}/{kind}", encoding="utf-8", errors="replace") as file:
                        shown += file.read()
            for hidden in (url, "geheim", "RQL_URL", *(word for word in fields if len(word) == 32)):
                assert hidden not in shown, f"{hidden!r} in {shown!r}"
            check_in("rql-guard", shown)
            job.kill()
            await_gone(pids)
            wait_until(lambda: not closed.is_locked("a"), "the lock is released with the password")


def test_a_guard_gives_up_when_the_server_is_silent(server, rql):
    with Server() as other:
        with Job(Program(other.url), "sh", "-c", IGNORES,
                 words=("run", "a", "--connect-timeout", "200ms", "--io-timeout", "200ms")) as job:
            pid, guard = job.pids(1)[0], job.guard()
            with other.frozen():
                job.kill()
                wait_until(lambda: is_gone(pid) and is_gone(guard), "command and guard end")
            assert other.is_locked("a")


# Answers ENOSYS to close_range(), as an old kernel does; and leaves a descriptor open that is above the limit.
OLD_KERNEL = f"""
import ctypes, os, resource, struct, sys
os.dup2(os.open("/dev/null", os.O_RDONLY), {LEFT_OPEN})
resource.setrlimit(resource.RLIMIT_NOFILE, ({LEFT_OPEN}, {LEFT_OPEN}))
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in (
    (0x20, 0, 0, 0), (0x15, 0, 1, 436), (6, 0, 0, 0x50000 + 38), (6, 0, 0, 0x7fff0000))))
program = ctypes.create_string_buffer(struct.pack("HP", 4, ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, program, 0, 0) != 0:
    sys.exit(77)
os.execvp(sys.argv[1], sys.argv[1:])
"""


def test_the_guard_keeps_no_descriptors_on_an_old_kernel(server, rql):
    with Job(rql, "sh", "-c", FAMILY, prefix=(sys.executable, "-c", OLD_KERNEL)) as job:
        wait_until(lambda: job.process.poll() == 77 or job.read("pids").count("\n") == 3, "the command runs")
        if job.process.poll() == 77:
            raise Missing("seccomp")
        pids, guard, leader = job.pids(3), job.guard(), job.leader()
        check_in(str(LEFT_OPEN), os.listdir(f"/proc/{pids[0]}/fd"))
        assert str(LEFT_OPEN) not in os.listdir(f"/proc/{guard}/fd")
        wait_until(lambda: os.listdir(f"/proc/{leader}/fd") == [], "the leader has none")
        job.kill()
        await_gone(pids)
        wait_until(lambda: not server.is_locked("a"), "the lock is released")


def test_nothing_is_left_of_a_guard(server, rql):
    with Job(rql, "sh", "-c", "echo $$ >> $PIDS; while [ ! -e $SIGNS/stop ]; do sleep 0.01; done") as job:
        pids = [*job.pids(1), job.guard(), job.leader()]
        job.touch("stop")
        check_equal(finish(job.process).code, 0)
        await_gone(pids)


# ---- when something of it is missing ----

def test_a_group_whose_leader_was_killed_is_killed_but_not_released(server, rql):
    with Job(rql, "sh", "-c", FAMILY) as job:
        pids, guard, leader = job.pids(3), job.guard(), job.leader()
        os.kill(leader, signal.SIGKILL)
        wait_until(lambda: is_gone(leader), "the leader ends")
        job.kill()
        await_gone([*pids, guard])
        assert server.is_locked("a")


def test_a_command_whose_guard_was_killed_ends(server, rql):
    with Job(rql, "sh", "-c", FAMILY) as job:
        pids = job.pids(3)
        os.kill(job.guard(), signal.SIGKILL)
        result = finish(job.process)
        check_equal(result.code, 137, result.err)
        check_in("rql: the guard of the command has been killed; ending the command", result.err)
        await_gone(pids)
        assert not server.is_locked("a")


def test_without_proc_the_command_is_killed_and_nothing_released(server, rql):
    must_be_root()
    folder = os.path.dirname(os.path.dirname(PROGRAM))  # $ORIGIN needs /proc
    hide = ("env", f"LD_LIBRARY_PATH={folder}", "unshare", "--mount", "sh", "-c",
            'mount -t tmpfs none /proc || exit 77; exec "$@"', "sh")
    with Job(rql, "sh", "-c", FAMILY, prefix=hide) as job:
        wait_until(lambda: job.process.poll() == 77 or job.read("pids").count("\n") == 3, "the command runs")
        if job.process.poll() == 77:
            raise Missing("mount namespace")
        pids, guard = job.pids(3), job.children()[0]
        job.kill()
        await_gone([*pids, guard])
        assert server.is_locked("a")


# ---- a command with other rights ----

NOBODY = ("setpriv", "--reuid=65534", "--clear-groups")
POWERLESS = ("setpriv", "--bounding-set=-kill", "--inh-caps=-kill")  # root, but may not signal others


def must_be_root():
    if os.getuid() != 0:
        raise Missing("rights of root")
    for program in ("setpriv", "unshare"):
        if not shutil.which(program):
            raise Missing(program)


def await_stranger(pid):
    wait_until(lambda: name_of(pid) == "sleep", "it has changed its user")


@contextlib.contextmanager
def command_of_nobody(rql, **more):
    """A job whose command rql may not signal, and the number of its process."""
    script = 'trap "" TERM; echo $$ >> $PIDS; exec "$@"'
    with Job(rql, "sh", "-c", script, "sh", *NOBODY, "sleep", "600", prefix=POWERLESS, **more) as job:
        pid = job.pids(1)[0]
        await_stranger(pid)
        yield job, pid


def check_is_kept_for(server, rql, job, survivor):
    """Until the survivor ends, which the guard may not kill."""
    command, guard = job.pids(1)[-1], job.guard()
    await_stranger(survivor)
    token = server.ask("HGET", "rql:lock:a", "rql_token")
    start_next(server, rql, job)
    job.kill()
    wait_until(lambda: is_gone(command), "the command ends")
    await_looks(guard)
    check_equal(server.ask("HGET", "rql:lock:a", "rql_token"), token)
    assert not is_gone(survivor)
    os.kill(survivor, signal.SIGKILL)
    await_next(rql, job, [survivor])


def test_a_survivor_of_another_user_keeps_the_lock(server, rql):
    must_be_root()
    script = "echo $$ >> $PIDS; wait; sleep 600"
    descendant = " ".join(NOBODY) + " sleep 600 & echo $! >> $PIDS; "
    with Job(rql, "sh", "-c", descendant + script, prefix=POWERLESS) as job:
        check_is_kept_for(server, rql, job, job.pids(2)[0])
    with Job(rql, "sh", "-c", script, prefix=POWERLESS) as job:
        job.pids(1)
        group = job.leader()
        stranger = subprocess.Popen([*NOBODY, "sleep", "600"], preexec_fn=lambda: os.setpgid(0, group))
        try:
            check_is_kept_for(server, rql, job, stranger.pid)
        finally:
            stranger.kill()
            stranger.wait()


def test_a_refused_signal_is_told_once(server, rql):
    must_be_root()
    with command_of_nobody(rql) as (job, pid):
        for _ in range(2):
            os.kill(job.process.pid, signal.SIGTERM)
            os.kill(job.process.pid, signal.SIGUSR1)
        line = read_line(job.process.stderr)
        check_in("rql: a: the command has other rights than rql", line)
        os.kill(pid, signal.SIGINT)
        result = finish(job.process)
        check_equal((result.code, result.err), (130, ""))
        assert not server.is_locked("a")


def test_a_command_that_cannot_be_signalled_runs_on_without_its_lock(server, rql):
    must_be_root()
    for words, why in ((("run", "a", "--max-hold", "4s", "--kill-after", "500ms"), "its --max-hold"),
                       (("run", "a", "--no-auto-extend", "--ttl", "4s", "--kill-after", "500ms"), "its ttl")):
        with command_of_nobody(rql, words=words, ttl=()) as (job, pid):
            said = [read_line(job.process.stderr) for _ in range(3)]
            check_in(f"a: {why} is nearly over; ending the command", said[0])
            check_in("a: the command has other rights than rql", said[1])
            check_in("a: the lock has ended; the command runs on without it", said[2])
            wait_until(lambda: not server.is_locked("a"), "the lock ends")
            assert job.process.poll() is None
            os.kill(pid, signal.SIGKILL)
            result = finish(job.process)
            check_equal((result.code, result.err), (75, ""))


def test_a_command_that_cannot_be_signalled_keeps_its_lock(server, rql):
    must_be_root()
    with command_of_nobody(rql, ttl=("--ttl", "1500ms")) as (job, pid):
        token = server.ask("HGET", "rql:lock:a", "rql_token")
        job.process.terminate()
        check_in("the command has other rights", read_line(job.process.stderr))
        told_at = time.monotonic()
        wait_until(lambda: time.monotonic() > told_at + 3, "two ttl pass")
        check_equal(server.ask("HGET", "rql:lock:a", "rql_token"), token)
        os.kill(pid, signal.SIGKILL)
        check_equal(finish(job.process).code, 137)


# ---- the command's group ----

def test_a_command_may_call_setsid(server, rql):
    script = "import os; os.setsid(); print(os.getpgrp() == os.getpid())"
    check_equal(rql("run", "a", "--", sys.executable, "-c", script).out, "True\n")
    script = "import os; print(os.getpgrp() == os.getpid(), os.getpgrp() == os.getpgid(os.getppid()))"
    check_equal(rql("run", "a", "--", sys.executable, "-c", script).out, "False False\n")


def test_rql_stays_with_a_command_that_setsid_starts(server, rql):
    script = "trap 'exit 6' TERM; echo $$ >> $PIDS; while [ ! -e $SIGNS/stop ]; do sleep 0.01; done; exit 5"
    with Job(rql, "setsid", "sh", "-c", script) as job:
        job.pids(1)
        assert server.is_locked("a") and job.process.poll() is None
        job.touch("stop")
        check_equal(finish(job.process).code, 5)
    with Job(rql, "setsid", "sh", "-c", script) as job:
        job.pids(1)
        job.process.terminate()
        check_equal(finish(job.process).code, 6)


def test_a_lost_lock_ends_a_command_that_setsid_started(server, rql):
    with Job(rql, "setsid", "sh", "-c", IGNORES, ttl=("--ttl", "600ms", "--kill-after", "200ms")) as job:
        pid = job.pids(1)[0]
        server.ask("DEL", "rql:lock:a")
        check_equal(finish(job.process).code, 75)
        wait_until(lambda: is_gone(pid), "the command ends")


if __name__ == "__main__":
    main()
