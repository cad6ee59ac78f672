#!/usr/bin/env python3
"""Plant one mistake at a time and see whether the tests find it.

Usage: mutants.py [--only TEXT]... [--not-missed] [--from FILE] [--json FILE] [--dir DIR] [--jobs N]
       mutants.py --check BUILD

The mistakes are a table (mutants.toml): a sentence, a file, a text that occurs exactly once in it, what
replaces it, and the meson tests that should find it, the likeliest first. They are planted in copies of
the tree below DIR, one copy for each of N jobs; the working tree is never touched. Each test is first run
without a mistake: it has to pass, and how long it takes decides how long it may take with one. A test
that fails is repeated, so that one failure of a busy machine finds nothing; one that hangs has found it.

The mistakes of tests/explore/mutants.py, in scripts, are tried by the explorer and counted along.

--only TEXT   those whose sentence has TEXT or whose file begins with it; any of several
--not-missed  without those that are marked `missed`: they take longest, for all their tests are run
--from FILE   another table
--json FILE   write there what came out
--check BUILD plant nothing: does every text occur once, and does the build tree have every test?
Environment: RQL_TEST_REDIS, CC (default: gcc, by ccache where that is installed)

Exit status 1: a mistake is not found that is not marked `missed`, a text is stale, or what replaces it
does not compile. The last line is "N passed, N failed".
"""
import argparse
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
import tomllib
from collections import Counter
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "mutants.toml"
FIELDS = {"what": str, "file": str, "text": str, "with": str, "found_by": str, "missed": bool}
OPTIONAL = {"missed"}
EXPLORED = "lua, explored"
AT_LEAST_S, TIMES = 20, 4  # a test may take this long, and as many times what it takes without a mistake
FINE = "OK", "SKIP"
FOUND, MISSED, STALE, BROKEN = "found", "not found", "stale", "no code"


class Mistake(NamedTuple):
    what: str
    file: str
    text: str
    instead: str
    tests: tuple
    is_missed: bool

    @property
    def room(self):
        """The folder: of src its part."""
        parts = pathlib.PurePath(self.file).parts
        return parts[1] if parts[0] == "src" and len(parts) > 2 else parts[0]


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


class Wrong(Exception):
    """Something that keeps the mistakes from being tried at all."""


# ---- the table ----

def read_table(path):
    with open(path, "rb") as file:
        entries = tomllib.load(file).get("mistake", [])
    for number, entry in enumerate(entries, 1):
        for name in entry.keys() | FIELDS.keys() - OPTIONAL:
            if type(entry.get(name)) is not FIELDS.get(name):
                raise Wrong(f"{path}: mistake {number} ({entry.get('what')}): {name}: missing, unknown or of another type")
    return [Mistake(entry["what"], entry["file"], entry["text"], entry["with"],
                    tuple(entry["found_by"].split()), entry.get("missed", False)) for entry in entries]


def why_stale(root, mistake):
    """Why its text cannot be replaced; None: it can."""
    path = root / mistake.file
    if not path.is_file():
        return f"there is no {mistake.file}"
    count = path.read_text().count(mistake.text)
    if count != 1:
        return f"{mistake.file} has its text {count} times"
    return "its text is replaced by the same" if mistake.text == mistake.instead else None


def tests_of(build):
    """Name -> (files to build, its own limit in seconds) of each test of a build tree. Tests of one name,
    as of a unit and against a server, are run as one."""
    info = build / "meson-info"
    targets = {target["id"]: target["filename"] for target in json.loads((info / "intro-targets.json").read_text())}
    tests = {}
    for test in json.loads((info / "intro-tests.json").read_text()):
        files, limit_s = tests.get(test["name"], ([], test["timeout"]))
        files += [os.path.relpath(name, build) for id in test["depends"] for name in targets[id]]
        tests[test["name"]] = files, min(limit_s, test["timeout"])
    return tests


def check(table, build):
    """What is wrong with the table, a line each."""
    mistakes = read_table(table)
    real = tests_of(pathlib.Path(build))
    for mistake, count in Counter(mistake.what for mistake in mistakes).items():
        if count > 1:
            yield f"{mistake}: {count} times in the table"
    for mistake in mistakes:
        stale = why_stale(ROOT, mistake)
        if stale:
            yield f"{mistake.what}: {stale}"
        if not mistake.tests:
            yield f"{mistake.what}: no test is named"
        for name in mistake.tests:
            if name not in real:
                yield f"{mistake.what}: there is no test {name}"


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
        self.planted = None

    def prepare(self):
        """What is there already is kept: only what has changed is built again."""
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
                      f"-Dtest_server={os.environ.get('RQL_TEST_REDIS', '')}", environ=environ)
        else:
            self.must("ninja", "-C", str(self.build), "build.ninja")
        self.tests = tests_of(self.build)

    def must(self, *words, environ=None):
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", env=environ, check=False)
        if done.returncode:
            raise Wrong(f"{' '.join(words)}:\n{done.stdout[-4000:]}")

    def plant(self, mistake):
        """In place of the one before; None: restores."""
        if self.planted:
            shutil.copy(ROOT / self.planted.file, self.tree / self.planted.file)
        self.planted = mistake
        if mistake:
            path = self.tree / mistake.file
            path.write_text(path.read_text().replace(mistake.text, mistake.instead))

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


def try_one(copy, mistake, limits):
    begun = time.monotonic()
    state, told = MISSED, []
    stale = why_stale(ROOT, mistake)
    if stale:
        state, told = STALE, [stale]
    else:
        copy.plant(mistake)
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
    return Outcome(mistake.room, mistake.what, state, mistake.is_missed, time.monotonic() - begun, "; ".join(told))


def try_explored(copy):
    """The mistakes of tests/explore/mutants.py."""
    copy.plant(None)
    copy.compile(["mutants"])
    test = copy.run(["mutants"], 1800, env={"RQL_TEST_LONG": "all of them"})["mutants"]
    points = re.findall(r"^(not )?ok \d+ - (.*?): (.*)$", test.get("stdout", ""), re.M)
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


def try_all(mistakes, with_explored, folder, jobs):
    copies = [Copy(folder / str(number)) for number in range(min(jobs, max(1, len(mistakes))))]
    for copy in copies:
        copy.prepare()
    names = sorted({name for mistake in mistakes for name in mistake.tests})
    unknown = [name for name in names if name not in copies[0].tests]
    if unknown:
        raise Wrong("there are no tests " + " ".join(unknown))
    limits = limits_of(copies[0], names, jobs)
    work, outcomes, wrongs = queue.SimpleQueue(), [], []
    for job in ([try_explored] if with_explored else []) + mistakes:
        work.put(job)
    progress, lock = Progress(len(mistakes)), threading.Lock()

    def labour(copy):
        try:
            while not wrongs:
                job = work.get_nowait()
                some = [try_one(copy, job, limits)] if isinstance(job, Mistake) else job(copy)
                with lock:
                    outcomes.extend(some)
                    if isinstance(job, Mistake):
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


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--only", action="append")
    parser.add_argument("--not-missed", action="store_true")
    parser.add_argument("--from", dest="table", default=TABLE)
    parser.add_argument("--json")
    parser.add_argument("--dir", type=pathlib.Path, default=ROOT / "build" / "mutants")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--check")
    words = parser.parse_args()
    try:
        if words.check:
            wrong = list(check(words.table, words.check))
            print("\n".join(wrong))
            return bool(wrong)

        def is_wanted(what, file):
            return not words.only or any(text in what or file.startswith(text) for text in words.only)

        mistakes = [mistake for mistake in read_table(words.table) if is_wanted(mistake.what, mistake.file)
                    and not (words.not_missed and mistake.is_missed)]
        return report(try_all(mistakes, is_wanted(EXPLORED, "lua/"), words.dir.resolve(), words.jobs), words.json) > 0
    except Wrong as wrong:
        print(f"mutants.py: {wrong}", file=sys.stderr)
        print("0 passed, 1 failed")
        return 1


if __name__ == "__main__":
    sys.exit(main())
