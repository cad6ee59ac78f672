"""Play mutants: run test programs with one, in turn, until one of them fails.

The programs are run as meson would run them, but without it. First all of them run without a mutant: they have to
pass, and how long they take decides how long they may take with one. They note which of the mutants they reach that are
compiled in; one that no program reaches survives at once. A program that fails runs once more: a busy machine may have
failed it.
"""
import json
import os
import pathlib
import queue
import re
import signal
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from plant import ROOT
from build_tree import tests_in  # plant.py has made its folder known

OF_SCRIPTS = {"explore", "golden", "scenario"}
LEFT_OUT = {"source", "soak", "consumer", "pages", "api", "guarantees"}
AT_LEAST_S, TIMES = 12, 4  # a program may take this long, and as many times what it takes without a mutant
FIRST_FAILURE = {"RQL_TEST_FIRST_FAILURE": "yes"}  # programs in Python end with it
FOUND, SURVIVED, UNREACHED, LEFT = "found", "survived", "not reached", "not played"


class Program(NamedTuple):
    name: str
    suites: set
    command: list
    folder: str
    environ: dict

    @property
    def is_unit(self):
        """Has it neither a server nor anything to wait for?"""
        return "unit" in self.suites

    @property
    def is_explorer(self):
        return "explore" in self.suites


class Result(NamedTuple):
    mutant: object
    state: str
    seconds: float
    told: str = ""

    @property
    def line(self):
        return f"{self.mutant.room}: {self.mutant.what}{f' ({self.told})' if self.told else ''}"


def programs_of(build, is_wanted):
    """Those of a build tree whose name and suites are wanted."""
    found = []
    for test in tests_in(build):
        suites = {suite.split(":")[-1] for suite in test["suite"]}
        if is_wanted(test["name"], suites):
            found.append(Program(test["name"], suites, test["cmd"], test["workdir"] or str(build), test["env"]))
    return found


def first_failure(output):
    points = re.findall(r"^not ok \d+ -? ?((?:(?!# SKIP|# TODO).)*)$", output, re.M)
    return points[0] if points else ""


class Run(NamedTuple):
    passed: bool
    seconds: float
    told: str
    output: str


class Runner:
    """Runs programs of a build tree."""

    def __init__(self, programs, environ):
        self.programs, self.environ = programs, environ
        self.durations, self.reached = {}, {}

    def run(self, program, limit_s, **environ):
        """In a session of its own, which ends with it."""
        begun = time.monotonic()
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *program.command], cwd=program.folder, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                env={**os.environ, **program.environ, **self.environ, **environ})
            try:
                code = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                self.end(process.pid)
                process.wait()
            output.seek(0)
            said = output.read().decode(errors="replace")
        told = first_failure(said)
        passed = code in (0, 77) and not told
        what = told or ("timeout" if code is None else f"exit code {code}")
        return Run(passed, time.monotonic() - begun, "" if passed else f"{program.name}: {what}", said)

    @staticmethod
    def end(pid):
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    # ---- without a mutant ----

    def record(self, program, count):
        """How long it takes and what it reaches; it may fail once on a busy machine."""
        with tempfile.NamedTemporaryFile() as map_file:
            map_file.write(bytes(count + 1))
            map_file.flush()
            for _ in range(2):
                run = self.run(program, 600, MUTANT_MAP=map_file.name)
                if run.passed:
                    break
            reached = pathlib.Path(map_file.name).read_bytes()
        return run, {number for number, byte in enumerate(reached) if byte}

    def record_all(self, count, jobs):
        """Of all programs; those that do not pass are left out, and named."""
        with ThreadPoolExecutor(jobs) as pool:
            records = pool.map(lambda one: self.record(one, count), self.programs)
            for program, (run, reached) in zip(self.programs, records):
                if run.passed:
                    self.durations[program.name], self.reached[program.name] = run.seconds, reached
                else:
                    print(f"left out, because it does not pass: {run.told}", flush=True)
        self.programs = [program for program in self.programs if program.name in self.durations]

    # ---- with one ----

    def those_that_reach(self, number, mutant):
        """Unit tests first, then those that are called like what is changed, then the explorer; of others those that are
        short and reach little else."""
        words = set(re.findall(r"[a-z]+", pathlib.PurePath(mutant.path).stem + " " + mutant.definition))

        def cost(program):
            is_related = bool(words & set(re.findall(r"[a-z]+", program.name)) - {"scenario", "test"})
            n_reached = len(self.reached[program.name])
            return (not program.is_unit, not is_related, not program.is_explorer,
                    self.durations[program.name] * n_reached)

        return sorted((program for program in self.programs if number in self.reached[program.name]), key=cost)

    def play(self, number, mutant, cap_s, before=lambda program: None):
        """before: what is to be done before a program is run."""
        programs = self.those_that_reach(number, mutant)
        if not programs:
            return Result(mutant, UNREACHED, 0)
        return self.try_in_turn(programs, mutant, cap_s, before, MUTANT_CHOSEN=str(number))

    def try_in_turn(self, programs, mutant, cap_s, before, **environ):
        """Until one finds the mutant, or the time is up."""
        spent_s, doubts = 0, []
        for program in programs:
            before(program)
            limit_s = AT_LEAST_S + TIMES * self.durations[program.name]
            run = self.run(program, limit_s, **environ)
            spent_s += run.seconds
            if not run.passed:
                hangs = program.is_unit and run.seconds >= limit_s
                if hangs or not self.run(program, limit_s, **environ).passed:
                    return Result(mutant, FOUND, spent_s, run.told)
                doubts.append(f"once, {run.told}")
            if spent_s > cap_s:
                doubts.append(f"after {programs.index(program) + 1} of {len(programs)} programs")
                break
        return Result(mutant, SURVIVED, spent_s, "; ".join(doubts))


def play_all(jobs, mutants, ends):
    """Results of mutants. jobs: functions that play one; each plays one at a time. Those that the time does not suffice
    for, which ends then, are not played."""
    results, free, lock = [], queue.SimpleQueue(), threading.Lock()
    for job in jobs:
        free.put(job)

    def play(mutant):
        job = free.get()
        try:
            result = job(mutant) if time.monotonic() < ends else Result(mutant, LEFT, 0)
        finally:
            free.put(job)
        with lock:
            results.append(result)
            print(f"{len(results):4}/{len(mutants)} {result.state:9} {result.seconds:6.1f} s  {result.line}", flush=True)

    with ThreadPoolExecutor(len(jobs)) as pool:
        try:
            for future in [pool.submit(play, one) for one in mutants]:
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return results


def play_c(copy, mutants, words):
    """Of a copy that has them all."""
    programs = programs_of(copy.build, lambda name, suites: not suites & {*LEFT_OUT, "explore"} and
                           name in (words.tests or [name]))
    runner = Runner(programs, FIRST_FAILURE)
    print(f"{len(programs)} programs run without a mutant", flush=True)
    copy.compile([program.name for program in programs], words.jobs)
    runner.record_all(len(mutants), words.processes)
    number_of = {mutant: number for number, mutant in enumerate(mutants, 1)}
    jobs = [lambda mutant: runner.play(number_of[mutant], mutant, words.cap)] * words.processes
    return play_all(jobs, mutants, time.monotonic() + words.limit)


def runners_of(copies, is_wanted, environ, words):
    """One for each copy; how long the programs take is recorded in the first."""
    runners = []
    for copy in copies:
        copy.prepare()
        runner = Runner(programs_of(copy.build, is_wanted), environ)
        copy.compile([program.name for program in runner.programs], words.jobs)
        if not runners:
            runner.record_all(0, words.processes)
        first = (runners or [runner])[0]
        runner.programs = [one for one in runner.programs if one.name in first.durations]
        runner.durations, runner.reached = first.durations, dict.fromkeys(first.durations, {0})
        runners.append(runner)
    return runners


def play_scripts(copies, mutants, words):
    """Scripts are part of the build: each copy has one mutant at a time."""
    def job_of(copy, runner):
        def play(mutant):
            copy.plant({mutant.path: mutant.changed((ROOT / mutant.path).read_text())})
            return runner.play(0, mutant, words.cap, lambda program: build(copy, program))
        return play

    runners = runners_of(copies, lambda name, suites: suites & OF_SCRIPTS and name != "mutants" and
                         name in (words.tests or [name]), FIRST_FAILURE, words)
    return play_all(list(map(job_of, copies, runners)), mutants, time.monotonic() + words.limit)


def build(copy, program):
    """The explorer reads the scripts themselves."""
    if not program.is_explorer:
        copy.compile([program.name])


# ---- what came out ----

def share(results):
    found = sum(one.state == FOUND for one in results)
    played = found + sum(one.state in (SURVIVED, UNREACHED) for one in results)
    return f"{found} of {played} found" + (f", {100 * found / played:.1f} %" if played else "")


def report(results, fails, skips, path):
    """Prints how many were found of each room, and writes the results to a file if one is named. Returns whether one
    fails."""
    rooms = sorted({one.mutant.room for one in results})
    for room in rooms if len(rooms) > 1 else []:
        print(f"{room}: {share([one for one in results if one.mutant.room == room])}")
    print(f"all: {share(results)}")
    failed, skipped = sum(map(fails, results)), sum(map(skips, results))
    passed = len(results) - failed - skipped
    if path:
        rows = [{"what": one.mutant.what, "room": one.mutant.room, "state": one.state, "seconds": round(one.seconds, 1),
                 "told": one.told} for one in results]
        counts = {"passed": passed, "failed": failed, "skipped": skipped}
        pathlib.Path(path).write_text(json.dumps({**counts, "mutants": rows}, indent=1) + "\n")
    if skipped:
        print(f"{skipped} skipped")
    print(f"{passed} passed, {failed} failed")
    return failed > 0
