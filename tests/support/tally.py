"""What a meson test run proved: its sub-tests one by one, and what is to be told of those that failed."""
import json
import pathlib
import re
import shlex
from typing import NamedTuple

PLAN = re.compile(r"^1\.\.(\d+)(?:\s*#\s*(SKIP)?.*)?$", re.I)
POINT = re.compile(r"^(not )?ok\b(?:[^#]*#\s*(SKIP|TODO)\b)?", re.I)
FAILED_POINT = re.compile(r"^not ok\b\s*\d*[ -]*(.*?)\s*(?:#.*)?$")
SEED = re.compile(r"RQL_TEST_SEED=(\d+)")
SKIPPED, FINE = ("SKIP",), ("OK", "EXPECTEDFAIL", "SKIP")


class Failure(NamedTuple):
    """One test that failed, of a program that meson knows or of another command. `sentence` and `seed` are empty where
    it names none. `again`: the command that runs it once more."""
    stage: str
    program: str
    sentence: str
    seed: str
    log: str
    again: str


def count_tap(text):
    """(passed, failed, skipped) of a TAP stream; points that the plan promised and that never came
    have failed. None: no TAP."""
    passed = failed = skipped = 0
    planned = None
    for line in text.splitlines():
        plan, point = PLAN.match(line), POINT.match(line)
        if plan:
            planned = int(plan[1])
        elif point and point[2]:
            skipped += 1
        elif point:
            failed += bool(point[1])
            passed += not point[1]
    if planned is None:
        return None
    return passed, failed + max(0, planned - passed - failed - skipped), skipped


def count(test):
    """(passed, failed, skipped) of one test program; at least one of them is not 0."""
    counted = count_tap(test.get("stdout", "")) or (0, 0, 0)
    passed, failed, skipped = counted
    if test["result"] in SKIPPED:
        return passed, failed, skipped or 1
    if has_failed(test):
        return passed, failed or 1, skipped
    return (passed, failed, skipped) if any(counted) else (1, 0, 0)


def has_failed(test):
    return test["result"] not in FINE


def read(logs):
    """The tests by name, from the files that `meson test --logbase` leaves in meson-logs/. Of a test that is in
    several the last one counts."""
    lines = [line for log in logs for line in pathlib.Path(log).read_text().splitlines()]
    return {test["name"]: test for test in map(json.loads, lines)}


def short(name):
    """Without its suites."""
    return name.rsplit(" / ", 1)[-1]


def output_of(test):
    return "".join(test[part].rstrip() + "\n" for part in ("stdout", "stderr") if test.get(part))


def failed_points(text):
    """(sentence, its lines) of each point of a TAP stream that failed: the line, and the comments before the next one.
    cmocka reports a failure above its line."""
    found, above = [], []
    in_failure = False
    for line in text.splitlines():
        point = FAILED_POINT.match(line)
        if point:
            found.append((point[1], [*above, line]))
        elif not POINT.match(line):
            (found[-1][1] if in_failure else above).append(line)
            continue
        in_failure, above = bool(point), []
    return found


def failures(stage, name, test, log, one, env):
    """One Failure for each sentence that failed, or one for the program. `one`: the command that runs one program."""
    output = output_of(test)
    points = failed_points(output) or [("", [output])]
    seeds = [SEED.search("\n".join(lines + [line for line in output.splitlines() if sentence and sentence in line]))
             or SEED.search(output) for sentence, lines in points]
    return [Failure(stage, name, sentence, seed[1] if seed else "", log,
                    command({**env, **({"RQL_TEST_SEED": seed[1]} if seed else {})}, one, name, sentence))
            for (sentence, _), seed in zip(points, seeds)]


def command(env, one, name, sentence):
    """For a shell."""
    settings = [f"{key}={shlex.quote(value)}" for key, value in sorted(env.items()) if key != "RQL_TEST_SHARE"]
    return " ".join([*settings, one, name, *([f'"{sentence}"'] if sentence else [])])


def excerpt(test, at_most=60):
    """The last lines of what each sentence that failed has printed, or of the program's output."""
    output = output_of(test)
    points = failed_points(output) or [("", output.splitlines())]
    return "\n".join(line for _, lines in points for line in lines[-at_most:])
