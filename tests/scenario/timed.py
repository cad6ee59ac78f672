#!/usr/bin/env python3
"""Every scenario that depends on time, fifty times, with far more of them at once than the machine has room for.

Usage: timed.py REMOTE DONE

DONE is a file that keeps how many rounds have passed: a run that was cut off goes on from there, and one that
has come to its end begins anew.
"""
import importlib
import os
import pathlib
import random
import sys

from harness import run_all, tap, why_skipped

ROUNDS = 50
AT_ONCE = 16  # for each processor; four times as many as in a usual run


def main():
    if why_skipped():
        tap.main(skip=why_skipped())
    done = pathlib.Path(sys.argv[2])
    for path in sorted(pathlib.Path(__file__).parent.glob("test_*.py")):
        importlib.import_module(path.stem)
    chosen = [case for case in tap.CASES if case.function.is_timed]
    first = int(done.read_text("ascii")) if done.exists() else 0
    for number in range(first + 1, ROUNDS + 1):
        random.shuffle(chosen)
        print(f"# round {number} of {ROUNDS}: {len(chosen)} scenarios", flush=True)
        if run_all(chosen, AT_ONCE * (os.cpu_count() or 1)):
            return 1
        done.write_text(str(number), "ascii")
    done.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
