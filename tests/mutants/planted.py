"""Play the mistakes of the table, planted one at a time, by the tests that it names or by the explorer."""
import functools
import math
import re
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import play
from place import NoPlace
from plant import Copy
from table import Mistake, Wrong

ENVIRON = {"RQL_TEST_FIRST_FAILURE": "yes"}
EXPLORER_S = 1800
STALE, BROKEN = "stale", "no code"  # a place is gone; what replaces it does not compile


class Planted(NamedTuple):
    mistake: Mistake
    changes: dict  # file -> its text; empty: the explorer plants it

    @property
    def what(self):
        return self.mistake.what

    @property
    def room(self):
        return next(iter(self.changes), "lua/explored").rpartition("/")[0]


def planted(mistakes, sources):
    """(those that have their places, results of the others)"""
    found, stale = [], []
    for mistake in mistakes:
        try:
            found.append(Planted(mistake, mistake.changes(sources)))
        except NoPlace as wrong:
            stale.append(play.Result(Planted(mistake, {}), STALE, 0, str(wrong)))
    return found, stale


def try_one(copy, runner, one):
    copy.plant(one.changes)
    programs = [program for name in one.mistake.tests for program in runner.programs if program.name == name]
    try:
        return runner.try_in_turn(programs, one, math.inf, lambda program: copy.compile([program.name]))
    except Wrong as wrong:
        errors = [line for line in str(wrong).splitlines() if "error" in line]
        return play.Result(one, BROKEN, 0, errors[0] if errors else str(wrong))


def try_explored(copy, mistakes):
    """The mistakes that tests/explore/explore.py has to find, all by one run of it."""
    copy.prepare()
    copy.compile(["mutants"])
    explorer, = play.programs_of(copy.build, lambda name, _: name == "mutants")
    run = play.Runner([], ENVIRON).run(explorer, EXPLORER_S, RQL_TEST_LONG="all of them")
    lines = re.findall(r"^(not )?ok \d+ - (.*) # (.*)$", run.output, re.M)
    points = {what: (missed, told) for missed, what, told in lines}
    if not points:
        raise Wrong(f"the explorer: {run.told}")
    of_it = [Planted(mistake, {}) for mistake in mistakes if mistake.what in points]
    return [play.Result(one, play.SURVIVED if points[one.what][0] else play.FOUND, run.seconds / len(points),
                        points[one.what][1]) for one in of_it]


def try_all(mistakes, sources, words):
    tested, explored = ([one for one in mistakes if bool(one.tests) == is_tested] for is_tested in (True, False))
    names = {name for mistake in tested for name in mistake.tests}
    found, results = planted(tested, sources)
    with ThreadPoolExecutor(1) as pool:
        exploring = explored and pool.submit(try_explored, Copy(words.dir / "explorer"), explored)
        copies = [Copy(words.dir / str(number)) for number in range(min(words.jobs, len(found)))]
        runners = play.runners_of(copies, lambda name, _: name in names, ENVIRON, words)
        missing = names - set(runners[0].durations if runners else names)
        if missing:
            raise Wrong("these tests do not pass without a mistake, or are not there: " + " ".join(sorted(missing)))
        jobs = [functools.partial(try_one, copy, runner) for copy, runner in zip(copies, runners)]
        results += play.play_all(jobs, found, math.inf) if found else []
        return results + (exploring.result() if explored else [])


def play_table(mistakes, sources, words):
    """Plays those that --only and --not-missed choose; whether one of them fails."""
    def is_wanted(mistake):
        is_chosen = any(text in mistake.what or any(edit.place.startswith(text) for edit in mistake.edits)
                        for text in words.only or [""])
        return is_chosen and not (words.not_missed and mistake.is_missed)

    def fails(one):
        return one.state != play.FOUND and not is_known(one)

    def is_known(one):
        return one.state == play.SURVIVED and one.mutant.mistake.is_missed

    results = try_all([mistake for mistake in mistakes if is_wanted(mistake)], sources, words)
    for title, is_one in (("not found, as noted", is_known), ("fails", fails),
                          ("noted as missed", lambda one: one.state == play.FOUND and one.mutant.mistake.is_missed)):
        for one in filter(is_one, results):
            print(f"{title}: {one.state}: {one.line}")
    return play.report(results, fails, is_known, words.json)
