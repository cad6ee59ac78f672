#!/usr/bin/env python3
"""Plant one mistake at a time, and see whether the tests find it.

Without a FILE the mistakes are a table, table.toml, whose head explains it. With files of C or Lua, or folders of them,
they are generated (operators_c.py, operators_lua.py); those that survive are printed. Verdicts on survivors are in
verdicts.toml: those that have one are not played again.

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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE")
    add("--only", action="append", metavar="TEXT",
        help="those whose sentence or name has TEXT, or whose place begins with it; any of several")
    add("--json", metavar="FILE", help="write the result there")
    add("--dir", type=pathlib.Path, default=plant.ROOT / "build" / "mutants", help="where copies of the tree are built")
    add("--jobs", type=int, default=os.cpu_count(), metavar="N", help="compilations, and copies, at once")
    add("--processes", type=int, default=2 * os.cpu_count(), metavar="N", help="test programs at once")
    add = parser.add_argument_group("of a table").add_argument
    add("--from", dest="table", default=table.TABLE, metavar="FILE", help="another one")
    add("--not-missed", action="store_true", help="without those marked `missed`, which take longest: all tests run")
    add("--check", type=pathlib.Path, metavar="BUILD",
        help="plant nothing: is every place there, and does the build tree have every test?")
    add = parser.add_argument_group("of generated ones").add_argument
    add("--random", type=int, metavar="N", help="N of them, which the seed chooses")
    add("--seed", type=int, default=1)
    add("--limit", type=float, default=3600, metavar="S", help="play for S seconds; those that are left are skipped")
    add("--cap", type=float, default=90, metavar="S", help="end the search for one after S seconds of tests")
    add("--tests", action="append", metavar="NAME", help="only by this test program; any of several")
    add("--judged", action="store_true", help="also those that have a verdict")
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
