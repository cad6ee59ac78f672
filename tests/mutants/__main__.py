#!/usr/bin/env python3
"""Plant one mistake at a time, and see whether the tests find it.

Usage: python3 tests/mutants [--only TEXT]... [--not-missed] [--from FILE] [--json FILE] [--dir DIR] [--jobs N]
       python3 tests/mutants --check BUILD

The mistakes are a table, table.toml, whose head explains it.

--only TEXT   those whose sentence has TEXT or whose place begins with it; any of several
--not-missed  without those that are marked `missed`: they take longest, because all their tests are run
--from FILE   another table
--json FILE   write the result there
--dir DIR     where the copies of the tree are built (default: build/mutants)
--check BUILD plant nothing: is every place there, and does the build tree have every test?
Environment: RQL_TEST_REDIS, CC (default: gcc, by ccache where that is installed)

Exit status 1: a mistake is not found that is not marked `missed`, a place is gone, or what replaces it does not
compile. The last line is "N passed, N failed".
"""
import argparse
import os
import pathlib
import sys

import plant
import table
from place import Sources


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--only", action="append")
    parser.add_argument("--not-missed", action="store_true")
    parser.add_argument("--from", dest="table", default=table.TABLE)
    parser.add_argument("--json")
    parser.add_argument("--dir", type=pathlib.Path, default=plant.ROOT / "build" / "mutants")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--check", type=pathlib.Path)
    words = parser.parse_args()
    words.dir = words.dir.resolve()
    return words


def main():
    words = arguments()
    try:
        sources = Sources(plant.ROOT)
        if words.check:
            wrong = list(table.check(sources, words.check, words.table))
            print("\n".join(wrong))
            return bool(wrong)
        return plant.play_table(table.read_table(words.table), sources, words)
    except table.Wrong as wrong:
        print(f"mutants: {wrong}", file=sys.stderr)
        print("0 passed, 1 failed")
        return 1


if __name__ == "__main__":
    sys.exit(main())
