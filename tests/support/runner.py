"""What all stages of tests/run.sh share: build trees, test runs, progress, the count of what passed, and its cost."""
import contextlib
import ctypes
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

import tally
from build_tree import installed_in, tests_in
from tally import Failure

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = pathlib.Path(os.environ.get("RQL_BUILD_DIR", ROOT / "build")).absolute()
JOBS = int(os.environ.get("RQL_JOBS") or os.cpu_count())
SUDO = os.environ.get("RQL_SUDO", "").split()
TICK = os.sysconf("SC_CLK_TCK")
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LIBC = ctypes.CDLL(None)
MOMENT_S, STOOD_STILL_S = 0.02, 0.5


# ---- what it costs ----

def fields_of(process):
    """From the third on, as /proc/PID/stat has them: state, parent, ..."""
    return pathlib.Path("/proc", str(process), "stat").read_text("ascii", errors="replace").rsplit(")", 1)[1].split()


def own_and_children_s():
    """(user, system) of this process and of the children that it has waited for."""
    used = [resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime for one in used), sum(one.ru_stime for one in used)


def others_s(keeper):
    """(user, system) of the orphans that `keeper` has waited for, and of its descendants that still run: servers
    that a test has left to end by themselves. Read again if one of them has ended meanwhile: it may be in neither."""
    fields, waited_for = {}, None
    while waited_for != fields.get(keeper, [])[13:15]:
        waited_for, fields = fields_of(keeper)[13:15], {}
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                fields[int(path.name)] = fields_of(path.name)
        fields[keeper] = fields_of(keeper)
    user, system = (int(ticks) / TICK for ticks in waited_for)
    for process, words in fields.items():
        parent = process
        while parent in fields and parent not in (keeper, os.getpid()):
            parent = int(fields[parent][1])
        if parent == keeper and process != keeper:
            user += (int(words[11]) + int(words[13])) / TICK
            system += (int(words[12]) + int(words[14])) / TICK
    return user, system


def machine_s():
    """(worked, stolen by the host): seconds of all processors since the machine was started."""
    words = pathlib.Path("/proc/stat").read_text("ascii").splitlines()[0].split()[1:9]
    user, nice, system, _idle, _iowait, irq, softirq, steal = (int(word) / TICK for word in words)
    return user + nice + system + irq + softirq, steal


class Cost:
    """Processor time of all that this run starts, wall time, and what else the machine did meanwhile."""

    def __init__(self, keeper):
        self.keeper, self.began, self.machine = keeper, time.monotonic(), machine_s()
        self.before_s = others_s(keeper)  # the installation of packages

    def used_s(self):
        """(user, system)"""
        now_s = zip(own_and_children_s(), others_s(self.keeper), self.before_s)
        return [own + others - before for own, others, before in now_s]

    def text(self):
        wall_s = time.monotonic() - self.began
        user_s, system_s = self.used_s()
        worked_s, stolen_s = (now - then for now, then in zip(machine_s(), self.machine))
        percent_s = wall_s * os.cpu_count() / 100
        foreign_s = max(0, worked_s - user_s - system_s)
        return (f"processor time {user_s + system_s:.0f} s (user {user_s:.0f} s, system {system_s:.0f} s), "
                f"wall time {wall_s:.0f} s, foreign load {foreign_s / percent_s:.0f} %, steal {stolen_s / percent_s:.0f} %")


def keep_orphans():
    """Forks. The parent adopts each process that loses its own parent, so that its processor time is counted, and ends
    as the child does. Returns the parent's number, in the child."""
    keeper = os.getpid()
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        die_with_parent()
        return keeper
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal interrupts the child as well

    def forward(number, _):
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.kill(child, number)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, forward)
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))


def be_idle():
    """Runs only on a processor that has nothing else to do."""
    die_with_parent()
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


class Watch(threading.Thread):
    """When the machine stood still: a thread that sleeps for moments was woken far too late. A machine that is only
    slow is no excuse for a test that failed."""

    def __init__(self):
        super().__init__(daemon=True)
        self.stalls = []  # (when it ended, seconds)
        self.start()

    def run(self):
        while True:
            begun = time.monotonic()
            time.sleep(MOMENT_S)
            late_s = time.monotonic() - begun - MOMENT_S
            if late_s > STOOD_STILL_S:
                self.stalls.append((time.time(), late_s))

    def worst_s(self, begun, ended):
        """Of the time from `begun` to `ended`."""
        return max((late_s for when, late_s in self.stalls if when >= begun and when - late_s <= ended), default=0)


# ---- what is shown ----

class Progress(threading.Thread):
    """On a terminal one line that is rewritten each second; elsewhere the last line of the log now and then, where it
    is a new one."""

    def __init__(self):
        super().__init__(daemon=True)
        self.is_terminal = sys.stderr.isatty()
        self.every_s = 1 if self.is_terminal else float(os.environ.get("RQL_PROGRESS_S", 30))
        self.lock = threading.Lock()
        self.stage, self.log, self.began, self.said = "", None, 0, ""
        self.start()

    def run(self):
        while True:
            time.sleep(self.every_s)
            with self.lock, contextlib.suppress(OSError, IndexError):
                self.tell(self.log.read_text(errors="replace").splitlines()[-1][:120] if self.log else "")

    def tell(self, last):
        if self.is_terminal:
            done = re.match(r"\s*\[?(\d+)/(\d+)\]?\s", last)  # of ninja and of meson
            parts = [self.log.stem if self.log else self.stage, *([f"{done[1]} of {done[2]}"] if done else []),
                     f"{time.monotonic() - self.began:.0f} s"]
            sys.stderr.write("\r\033[K" + ", ".join(parts))
        elif last and last != self.said:
            sys.stderr.write(f"     {self.log.stem}: {last}\n")
            self.said = last
        sys.stderr.flush()

    def say(self, text):
        """Prints a line of the run's own output."""
        with self.lock:
            if self.is_terminal:
                sys.stderr.write("\r\033[K")
                sys.stderr.flush()
            print(text, flush=True)


# gold, which not every Debian has, links the sanitizers' large libraries in half the time.
GOLD = {"CC_LD": "gold", "CXX_LD": "gold"} if shutil.which("ld.gold") else {}
COMPILERS = {"gcc": {"CC": "gcc", "CXX": "g++"}, "clang": {"CC": "clang", "CXX": "clang++", **GOLD}}


class Builder:
    """Makes build trees by commands, of which `quietly` says whether they succeeded."""
    prepare = staticmethod(die_with_parent)  # runs in each process that is started

    def __init__(self, server, set_up):
        self.server, self.set_up = server, set_up  # build tree -> options that it was set up with in this run

    def start(self, *words, env=None, **more):
        """What is started ends when this program does. `env`: in addition to this program's."""
        return subprocess.Popen([str(word) for word in words], stdin=more.pop("stdin", subprocess.DEVNULL),
                                env={**os.environ, **(env or {})}, preexec_fn=self.prepare, **more)

    def build(self, tree, compiler, *options, targets=(), suites=()):
        """A fresh or refreshed build tree, warnings fatal: all of it, or the targets that are named and those that the
        tests of these suites need. It is set up once in a run."""
        words = ["-Dtests=enabled", f"-Dtest_server={self.server}", *options, "--werror", OUT / tree, ROOT]
        if (OUT / tree / "meson-private/cmd_line.txt").is_file():  # what meson writes last
            words = ["--reconfigure", *words]
        else:  # what is there is of a set-up that was ended early
            shutil.rmtree(OUT / tree, ignore_errors=True)
        is_set_up = self.set_up.get(tree) == options or self.quietly(f"{tree}-setup", "meson", "setup", *words,
                                                                     env=COMPILERS[compiler])
        self.set_up[tree] = options if is_set_up else None
        is_built = is_set_up and self.quietly(f"{tree}-compile", "ninja", "-C", OUT / tree, "-j", JOBS, *targets,
                                              *(targets_of(OUT / tree, suites) if suites else ()))
        return is_built or self.fail_build(tree, OUT / f"{tree}-{'compile' if is_set_up else 'setup'}.log")


class Ahead(Builder):
    """Builds what the stages to come need while the tests of one wait, when the processors have nothing else to do.
    A stage does itself what is not done when it begins, so nothing counts here, and nothing is shown."""
    prepare = staticmethod(be_idle)

    def __init__(self, run):
        super().__init__(run.server, run.set_up)
        self.builds, self.lock, self.is_over, self.process = run.coming, threading.Lock(), False, None
        self.thread = threading.Thread(target=self.build_all)

    def build_all(self):
        for build in self.builds:
            build(self)

    def quietly(self, name, *words, **more):
        with self.lock:
            if self.is_over:
                return False
            with open(OUT / f"{name}.log", "w", encoding="utf-8") as log:
                self.process = self.start(*words, stdout=log, stderr=subprocess.STDOUT, **more)
        return self.process.wait() == 0

    def fail_build(self, *_):
        return False

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        """The stage repeats a command that is ended early: all of them can be repeated."""
        with self.lock:
            self.is_over = True
            if self.process:
                self.process.terminate()
        self.thread.join()


class Run(Builder):
    """All stages of this run, and the words of the one that takes some. Of the stage that runs: its name, the
    environment of its tests, what they run under, its tests as meson noted them, and how the stages behind it build."""

    def __init__(self, words):
        super().__init__(self.find_server(), {})
        self.words = words
        self.cost = Cost(keep_orphans())
        self.progress, self.watch = Progress(), Watch()
        self.counts = [0, 0, 0]  # passed, failed, skipped
        self.failures = []
        self.name, self.test_env, self.under, self.tests, self.coming = "", {}, [], {}, []

    @staticmethod
    def find_server():
        """The server that RQL_TEST_REDIS names, or "": meson looks for one."""
        wanted = os.environ.get("RQL_TEST_REDIS")
        found = wanted and shutil.which(wanted)
        if wanted and not found:
            sys.exit(f"run.sh: RQL_TEST_REDIS: there is no {wanted}")
        return os.path.abspath(found) if found else ""

    def say(self, text):
        self.progress.say(text)

    # ---- counting ----

    def add(self, counts):
        self.counts = [a + b for a, b in zip(self.counts, counts)]
        return counts[1] == 0

    def note_failure(self, program, log, sentence=""):
        self.failures.append(Failure(self.name, program, sentence, "", str(log), f"sh tests/run.sh {self.name}"))

    def verdict(self, is_good, what, log):
        """Counts one test that is no test of meson's."""
        if not is_good:
            self.note_failure(what, log)
        return self.add((int(is_good), int(not is_good), 0))

    def fail_build(self, tree, log):
        """Keeps the log under a name of its own, because a later stage builds the same tree once more."""
        return self.verdict(False, f"build of {tree}", shutil.copy(log, OUT / f"{tree}-failed.log"))

    # ---- commands ----

    def log_of(self, name):
        self.progress.log = OUT / f"{name}.log"
        return self.progress.log

    def call(self, log, *words, env=None, cwd=None, mode="w"):
        """The exit status; what it prints is in the log."""
        with open(log, mode, encoding="utf-8") as file:
            return self.start(*words, stdout=file, stderr=subprocess.STDOUT, cwd=cwd, env=env).wait()

    def quietly(self, name, *words, **more):
        """Whether it succeeded; its last words are shown if it did not."""
        log = self.log_of(name)
        if self.call(log, *words, **more) == 0:
            return True
        self.show_end(log)
        return False

    def show_end(self, log, lines=100):
        self.say("\n".join(pathlib.Path(log).read_text(errors="replace").splitlines()[-lines:]))

    def one_test(self, name, *words, **more):
        """A command that is a test of its own."""
        return self.verdict(self.quietly(name, *words, **more), name, OUT / f"{name}.log")

    def follow(self, name, pattern, *words, env=None):
        """Shows the lines that match as they come. The log's sum of lines "N passed, N failed" is counted; a log that
        does not end with such a line is a failure."""
        log = OUT / f"{name}.log"
        self.progress.log = None
        last = ""
        with open(log, "w", encoding="utf-8") as file:
            process = self.start(*words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                 env=env)
            for last in process.stdout:
                file.write(last)
                file.flush()
                if re.search(pattern, last):
                    self.say(last.rstrip("\n"))
            process.wait()
        found = re.findall(r"^(\d+) passed, (\d+) failed$", log.read_text(errors="replace"), re.M)
        failed = sum(int(n) for _, n in found)
        if failed or not re.match(r"\d+ passed, \d+ failed$", last):
            self.show_end(log, 200)
            self.note_failure(name, log)
            failed = max(failed, 1)
        return self.add((sum(int(n) for n, _ in found), failed, 0))

    # ---- tests of build trees ----

    def meson_test(self, tree, base, log, *words, mode="w"):
        """(exit status, its tests)"""
        for old in (OUT / tree / "meson-logs").glob(f"{base}*"):
            old.unlink()
        env = {"RQL_TEST_AGAIN": str(OUT / f"{self.name}-again"), **self.test_env}
        status = self.call(log, *self.under, *WITH_FIXED_ADDRESSES, "meson", "test", "-C", OUT / tree, "--no-rebuild",
                           "--logbase", base, *words, env=env, mode=mode)
        return status, tally.read((OUT / tree / "meson-logs").glob(f"{base}*.json"))

    def check(self, tree, *chosen, options=(), at_once=3 * JOBS):
        """Runs tests of a build tree, all or those that are chosen by suite or name, and counts them. Returns whether
        all have passed. Most of them usually wait, so that many run at once."""
        log, again = self.log_of(f"{self.name}-test"), OUT / f"{self.name}-again"
        again.unlink(missing_ok=True)
        with Ahead(self):
            status, tests = self.meson_test(tree, f"run-{self.name}", log, f"--num-processes={at_once}", *options,
                                            *chosen)
        is_unexplained = not tests or (status and not any(map(tally.has_failed, tests.values())))
        for _ in range(2):
            stalled = self.stalled_of(tests)
            if stalled:
                self.say(f"again, alone: {' '.join(stalled)}")
                _, more = self.meson_test(tree, f"alone-{self.name}", log, *options, "--num-processes=1",
                                          "--timeout-multiplier=4", *stalled, mode="a")
                tests |= {name: test for name, test in more.items() if name in tests}
        if again.exists():
            self.say(again.read_text().rstrip())
        self.tests = tests
        failed = {name: test for name, test in tests.items() if tally.has_failed(test)}
        for name, test in failed.items():
            self.tell_failed(tree, tally.short(name), test)
        if is_unexplained:  # meson itself failed
            self.show_end(log)
            self.verdict(False, f"tests of {tree}", log)
        counts = [sum(column) for column in zip(*map(tally.count, tests.values()))]
        return self.add(counts or (0, 0, 0)) and not is_unexplained

    def stalled_of(self, tests):
        """The names of the tests that failed on a machine that kept them from running."""
        return sorted({tally.short(name) for name, test in tests.items() if tally.has_failed(test)
                       and (self.watch.worst_s(test["starttime"], test["starttime"] + test["duration"])
                            or "\nagain: " in "\n" + tally.output_of(test))})

    def say_lines(self, pattern):
        """Of what the tests of the stage have printed."""
        said = "".join(tally.output_of(test) for test in self.tests.values())
        self.say("\n".join(re.findall(pattern, said, re.M)))

    def tell_failed(self, tree, name, test):
        log = OUT / "failed" / f"{self.name}-{name}.log"
        log.parent.mkdir(exist_ok=True)
        log.write_text(tally.output_of(test))
        self.say(f"--- {name}: {test['result']}, exit status {test.get('returncode')}\n{tally.excerpt(test)}")
        by_itself = " ".join([*map(str, self.under), f"python3 tests/support/one.py {OUT / tree}"])
        one = "sh tests/run.sh one" if tree == "gcc" else by_itself
        self.failures += tally.failures(self.name, name, test, str(log), one, self.test_env)

    # ---- the stages, and the end ----

    def stage(self, name, function, coming):
        """One line, below what was wrong. `coming`: how the stages behind it build."""
        before, begun = self.counts, time.monotonic()
        self.name, self.test_env, self.under, self.tests, self.coming = name, {}, [], {}, coming
        self.progress.stage, self.progress.began, self.progress.log = name, begun, None
        is_good = function(self)
        passed, failed, skipped = (now - then for now, then in zip(self.counts, before))
        self.say(f"{'ok  ' if is_good else 'FAIL'} {name}: {passed} passed, {failed} failed, {skipped} skipped, "
                 f"{time.monotonic() - begun:.0f} s")

    def end(self):
        """The failures, what the run cost, and the counts. The exit status."""
        passed, failed, skipped = self.counts
        if self.failures:
            self.say("\nfailures:")
        for failure in self.failures:
            seed = f" (seed {failure.seed})" if failure.seed else ""
            self.say(f"  {failure.stage}: {failure.program}{': ' * bool(failure.sentence)}{failure.sentence}{seed}\n"
                     f"    log:   {failure.log}\n    again: {failure.again}")
        self.say(self.cost.text())
        if skipped:
            self.say(f"{skipped} skipped")
        self.say(f"{passed} passed, {failed} failed")
        return failed > 0


def targets_of(build, suites):
    """What the tests of these suites need, and what is installed, because some of them install it."""
    needed = {name for test in tests_in(build) if any(suite.rsplit(":")[-1] in suites for suite in test["suite"])
              for name in test["files"]}
    return sorted(needed.union(installed_in(build)))


def may_fix_addresses():
    """Sanitizers want an address space that clang 14 knows; a container may forbid to ask for it."""
    return subprocess.call(["setarch", "-R", "true"], stderr=subprocess.DEVNULL) == 0


WITH_FIXED_ADDRESSES = ["setarch", "-R"] if may_fix_addresses() else []
