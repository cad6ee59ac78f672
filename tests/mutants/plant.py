"""Plant the mistakes of the table one at a time, and see whether the tests find them.

They are planted in copies of the tree, one copy for each job; the working tree is never touched. Each test is first
run without a mistake: it has to pass, and how long it takes decides how long it may take with one. A test that fails
is repeated, so that one failure of a busy machine finds nothing; one that hangs has found it.
"""
import json
import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import NamedTuple

from place import NoPlace
from table import Wrong, tests_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXPLORED = "lua, explored"
AT_LEAST_S, TIMES = 20, 4  # a test may take this long, and as many times what it takes without a mistake
FINE = "OK", "SKIP"
FOUND, MISSED, STALE, BROKEN = "found", "not found", "stale", "no code"


class Outcome(NamedTuple):
    room: str
    what: str
    state: str
    is_missed: bool
    seconds: float
    told: str = ""

    @property
    def fails(self):
        return self.state in (STALE, BROKEN) or (self.state == MISSED and not self.is_missed)


def room_of(path):
    """The folder of a file: of src its part."""
    parts = pathlib.PurePath(path).parts
    return parts[1] if parts[0] == "src" and len(parts) > 2 else parts[0]


# ---- a copy of the tree ----

def files_below(root, without=()):
    """Of a tree: all but build trees and what begins with a dot; with .pkg, whose script is tested."""
    for folder, folders, names in os.walk(root):
        here = pathlib.Path(folder)
        folders[:] = [name for name in folders if (name == ".pkg" or not name.startswith((".", "build", "__pycache__")))
                      and here / name not in without]
        yield from ((here / name).relative_to(root) for name in names)


class Copy:
    """A copy of the tree with its build tree, in which at most one mistake is planted."""

    def __init__(self, folder):
        self.tree, self.build = folder / "tree", folder / "tree-build"
        self.planted = {}

    def prepare(self, *options):
        """What is there already is kept: only what has changed is built again. options: of meson, beside the usual."""
        self.tree.mkdir(parents=True, exist_ok=True)
        wanted = set(files_below(ROOT, {self.tree.parents[1]}))
        for path in set(files_below(self.tree)) - wanted:
            (self.tree / path).unlink()
        for path in wanted:
            old, new = self.tree / path, ROOT / path
            if not old.is_file() or old.read_bytes() != new.read_bytes():
                old.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(new, old)
        if not (self.build / "build.ninja").is_file():
            environ = dict(os.environ)
            if "CC" not in environ and shutil.which("ccache"):
                environ["CC"] = "ccache gcc"
            self.must("meson", "setup", str(self.build), str(self.tree), "-Dtests=enabled", "-Dbench=enabled",
                      f"-Dtest_server={os.environ.get('RQL_TEST_REDIS', '')}", *options, environ=environ)
        else:
            self.must("ninja", "-C", str(self.build), "build.ninja")
        self.tests = tests_of(self.build)

    def must(self, *words, environ=None):
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", env=environ, check=False)
        if done.returncode:
            raise Wrong(f"{' '.join(words)}:\n{done.stdout[-4000:]}")

    def plant(self, changes):
        """File -> text, in place of the changes before; without any: restores."""
        for path in self.planted:
            shutil.copy(ROOT / path, self.tree / path)
        self.planted = changes
        for path, text in changes.items():
            (self.tree / path).write_text(text)

    def compile(self, names, jobs=1):
        """What these tests need."""
        targets = sorted({target for name in names for target in self.tests[name][0]})
        if targets:
            self.must("ninja", "-C", str(self.build), "-j", str(jobs), *targets)

    def run(self, names, limit_s=None, jobs=1, env=None):
        """Name -> what meson noted of each test."""
        words = ["meson", "test", "-C", str(self.build), "--no-rebuild", "--logbase", "mutants",
                 "--num-processes", str(jobs)]
        if limit_s:
            words += ["--timeout-multiplier", str(limit_s / self.tests[names[0]][1])]
        log = self.build / "meson-logs" / "mutants.json"
        log.unlink(missing_ok=True)
        done = subprocess.run([*words, *names], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", check=False,
                              env={**os.environ, "RQL_TEST_FIRST_FAILURE": "yes", **(env or {})})
        if not log.is_file():
            raise Wrong(done.stdout[-4000:])
        noted = {}
        for test in map(json.loads, log.read_text().splitlines()):
            name = test["name"].split(" / ")[-1]
            if name not in noted or noted[name]["result"] in FINE:
                noted[name] = test
        return noted


# ---- trying them ----

def first_failure(test):
    points = re.findall(r"^not ok \d+ -? ?(.*)$", test.get("stdout", ""), re.M)
    return f"{test['result'].lower()}{': ' + points[0] if points else ''}"


def limits_of(copy, names, jobs):
    """Name -> how long a test may take; each has to pass while no mistake is planted."""
    copy.compile(names, jobs)
    limits, wanted = {}, names
    for _ in range(2):  # a busy machine may fail one of them once
        tests = copy.run(wanted, jobs=jobs) if wanted else {}
        limits |= {name: AT_LEAST_S + TIMES * test["duration"]
                   for name, test in tests.items() if test["result"] == "OK"}
        wanted = [name for name in names if name not in limits]
    if wanted:
        raise Wrong("without a mistake these tests do not pass: " + " ".join(wanted))
    return limits


def is_found(copy, name, limit_s):
    """(is it?, what the test told). What fails once and passes then has found nothing."""
    test = copy.run([name], limit_s)[name]
    if test["result"] in FINE:
        return False, ""
    told = f"{name}: {first_failure(test)}"
    if test["result"] == "TIMEOUT" or copy.run([name], limit_s)[name]["result"] not in FINE:
        return True, told
    return False, f"once, {told}"


def try_one(copy, mistake, changes, limits):
    begun = time.monotonic()
    state, told = MISSED, []
    copy.plant(changes)
    for name in mistake.tests:
        try:
            copy.compile([name])
        except Wrong as wrong:
            errors = [line for line in str(wrong).splitlines() if "error" in line]
            state, told = BROKEN, [errors[0] if errors else str(wrong)]
            break
        found, what = is_found(copy, name, limits[name])
        told += [what] if what else []
        if found:
            state, told = FOUND, [what]
            break
    return Outcome(room_of(next(iter(changes))), mistake.what, state, mistake.is_missed, time.monotonic() - begun,
                   "; ".join(told))


def try_explored(copy):
    """The mistakes that tests/explore/explore.py has to find, all by one run of it."""
    copy.plant({})
    copy.compile(["mutants"])
    test = copy.run(["mutants"], 1800, env={"RQL_TEST_LONG": "all of them"})["mutants"]
    points = re.findall(r"^(not )?ok \d+ - (.*) # (.*)$", test.get("stdout", ""), re.M)
    if not points:
        raise Wrong("the explorer: " + first_failure(test))
    each = test["duration"] / len(points)
    return [Outcome(EXPLORED, name, MISSED if missed else FOUND, False, each, told) for missed, name, told in points]


class Progress:
    def __init__(self, total):
        self.total, self.done = total, 0
        self.is_terminal = sys.stdout.isatty()

    def tell(self, outcome):
        self.done += 1
        line = f"{self.done:4}/{self.total} {outcome.state:9} {outcome.seconds:6.1f} s  {outcome.room}: {outcome.what}"
        if outcome.told:
            line += f" ({outcome.told})"
        if not self.is_terminal:
            print(line, flush=True)
            return
        print("\r\033[K" + (line if outcome.state != FOUND else line[:100]),
              end="" if outcome.state == FOUND else "\n", flush=True)

    def end(self):
        if self.is_terminal:
            print("\r\033[K", end="")


def changes_of(mistakes, sources):
    """(mistake, its changes) of each that has its place; outcomes of the others."""
    planted, stale = [], []
    for mistake in mistakes:
        try:
            planted.append((mistake, mistake.changes(sources)))
        except NoPlace as wrong:
            stale.append(Outcome("", mistake.what, STALE, False, 0, str(wrong)))
    return planted, stale


def try_all(mistakes, with_explored, sources, folder, jobs):
    copies = [Copy(folder / str(number)) for number in range(min(jobs, max(1, len(mistakes))))]
    for copy in copies:
        copy.prepare()
    names = sorted({name for mistake in mistakes for name in mistake.tests})
    unknown = [name for name in names if name not in copies[0].tests]
    if unknown:
        raise Wrong("there are no tests " + " ".join(unknown))
    limits = limits_of(copies[0], names, jobs)
    planted, outcomes = changes_of(mistakes, sources)
    work, wrongs = queue.SimpleQueue(), []
    for job in ([None] if with_explored else []) + planted:
        work.put(job)
    progress, lock = Progress(len(planted)), threading.Lock()

    def labour(copy):
        try:
            while not wrongs:
                job = work.get_nowait()
                some = [try_one(copy, *job, limits)] if job else try_explored(copy)
                with lock:
                    outcomes.extend(some)
                    if job:
                        progress.tell(some[0])
        except queue.Empty:
            pass
        except Exception as wrong:  # ends the others too
            wrongs.append(wrong)

    workers = [threading.Thread(target=labour, args=(copy,)) for copy in copies]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    progress.end()
    if wrongs:
        raise wrongs[0]
    return outcomes


# ---- what came out ----

def print_table(outcomes):
    columns = "room", "planted", FOUND, MISSED, STALE, "seconds"
    rows = []
    for room in [*sorted({outcome.room for outcome in outcomes}), "all"]:
        those = [outcome for outcome in outcomes if room in (outcome.room, "all")]
        counts = Counter(outcome.state for outcome in those)
        rows.append((room, counts[FOUND] + counts[MISSED], counts[FOUND], counts[MISSED],
                     counts[STALE] + counts[BROKEN], round(sum(outcome.seconds for outcome in those))))
    widths = [max(len(str(row[i])) for row in [columns, *rows]) for i in range(len(columns))]
    for row in [columns, *rows]:
        print("  ".join(str(cell).ljust(width) if i == 0 else str(cell).rjust(width)
                        for i, (cell, width) in enumerate(zip(row, widths))))


def print_names(outcomes):
    titles = (
        ("not found:", lambda o: o.state == MISSED and not o.is_missed),
        ("not found, as written down:", lambda o: o.state == MISSED and o.is_missed),
        ("found, but written down as missed:", lambda o: o.state == FOUND and o.is_missed),
        ("stale, or no code:", lambda o: o.state in (STALE, BROKEN)),
    )
    for title, is_one in titles:
        those = [outcome for outcome in outcomes if is_one(outcome)]
        if those:
            print(title)
        for outcome in those:
            print(f"  {outcome.room}: {outcome.what}{f' ({outcome.told})' if outcome.told else ''}")


def report(outcomes, json_path):
    failed = sum(outcome.fails for outcome in outcomes)
    skipped = sum(outcome.state == MISSED and outcome.is_missed for outcome in outcomes)
    passed = len(outcomes) - failed - skipped
    print_table(outcomes)
    print_names(outcomes)
    if json_path:
        result = {"passed": passed, "failed": failed, "skipped": skipped,
                  "mistakes": [outcome._asdict() for outcome in outcomes]}
        pathlib.Path(json_path).write_text(json.dumps(result, indent=1) + "\n")
    if skipped:
        print(f"{skipped} skipped")
    print(f"{passed} passed, {failed} failed")
    return failed


def play_table(mistakes, sources, words):
    """Plays those that --only and --not-missed choose; whether one of them fails."""
    def is_wanted(mistake):
        return not words.only or any(text in mistake.what or any(edit.place.startswith(text) for edit in mistake.edits)
                                     for text in words.only)

    wanted = [mistake for mistake in mistakes if is_wanted(mistake) and not (words.not_missed and mistake.is_missed)]
    tested = [mistake for mistake in wanted if mistake.tests]
    return report(try_all(tested, len(tested) < len(wanted), sources, words.dir, words.jobs), words.json) > 0
