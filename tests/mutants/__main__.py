#!/usr/bin/env python3
"""Plant one mistake at a time, and see whether the tests find it.

Usage: python3 tests/mutants [--only TEXT]... [--not-missed] [--from FILE] [--json FILE] [--dir DIR] [--jobs N]
       python3 tests/mutants [--random N [--seed S]] [--limit S] [--cap S] [--tests NAME]... [--judged] FILE...
       python3 tests/mutants --check BUILD

Without a FILE the mistakes are a table, table.toml, whose head explains it. With files of C or Lua, or folders of them,
they are generated (operators_c.py, operators_lua.py); those that survive are printed. Verdicts on survivors are in
verdicts.toml: those that have one are not played again.

--only TEXT   those whose sentence or name has TEXT, or whose place begins with it; any of several
--not-missed  without those that are marked `missed`: they take longest, because all their tests are run
--from FILE   another table
--json FILE   write the result there
--random N    of those generated N, which the seed chooses (--seed S; default 1)
--limit S     play generated ones for so many seconds (default 3600); those that are left are skipped
--cap S       end the search for a program that finds one after so many seconds of tests (default 90)
--processes N test programs at once (default: two for each processor)
--tests NAME  only by this test program; any of several
--judged      also those that have a verdict
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
import planted
import table
from generated import Generated
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
    parser.add_argument("--random", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=3600)
    parser.add_argument("--cap", type=float, default=90)
    parser.add_argument("--processes", type=int, default=2 * os.cpu_count())
    parser.add_argument("--tests", action="append")
    parser.add_argument("--judged", action="store_true")
    parser.add_argument("files", nargs="*")
    words = parser.parse_args()
    words.dir = words.dir.resolve()
    return words


def main():
    words = arguments()
    try:
        if words.files:
            return Generated(words).play()
        sources = Sources(plant.ROOT)
        if words.check:
            wrong = list(table.check(sources, words.check, words.table))
            print("\n".join(wrong))
            return bool(wrong)
        return planted.play_table(table.read_table(words.table), sources, words)
    except table.Wrong as wrong:
        print(f"mutants: {wrong}", file=sys.stderr)
        print("0 passed, 1 failed")
        return 1


if __name__ == "__main__":
    sys.exit(main())
