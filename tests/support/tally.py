#!/usr/bin/env python3
"""Count what a meson test run proved, sub-tests one by one, and show the logs of what failed.

Usage: tally.py [--stalled] LOG.json..., as `meson test --logbase LOG` leaves them in meson-logs/. Of a test
that is in several the last one counts. Failing logs go to standard error; standard output is one line: PASSED
FAILED SKIPPED, or with --stalled the tests that failed on a machine that kept them from running (again.py).
"""
import json
import pathlib
import re
import sys

PLAN = re.compile(r"^1\.\.(\d+)(?:\s*#\s*(SKIP)?.*)?$", re.I)
POINT = re.compile(r"^(not )?ok\b(?:[^#]*#\s*(SKIP|TODO)\b)?", re.I)
SKIPPED, FINE = ("SKIP",), ("OK", "EXPECTEDFAIL", "SKIP")


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
    if test["result"] not in FINE:
        return passed, failed or 1, skipped
    return (passed, failed, skipped) if any(counted) else (1, 0, 0)


def show(test):
    print(f"--- {test['name']}: {test['result']}, exit status {test.get('returncode')}", file=sys.stderr)
    for part in "stdout", "stderr":
        if test.get(part):
            print(test[part].rstrip(), file=sys.stderr)


def read(logs):
    """The tests by name."""
    lines = [line for log in logs for line in pathlib.Path(log).read_text().splitlines()]
    return {test["name"]: test for test in map(json.loads, lines)}


def was_stalled(test):
    return test["result"] not in FINE and "\nagain: " in "\n" + test.get("stdout", "") + test.get("stderr", "")


def main(*logs):
    if logs[0] == "--stalled":
        print(*[name.rsplit(" / ", 1)[-1] for name, test in read(logs[1:]).items() if was_stalled(test)])
        return
    totals = [0, 0, 0]
    for test in read(logs).values():
        if test["result"] not in FINE:
            show(test)
        totals = [a + b for a, b in zip(totals, count(test))]
    print(*totals)


main(*sys.argv[1:])
