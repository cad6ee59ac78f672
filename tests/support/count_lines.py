#!/usr/bin/env python3
"""Counts the lines of the tests, by folder; prints the figures of a fixed start beside them.

Counted is every line, also blank ones and comments, of every file below tests/ that git knows, except data that no
person writes or reads as code: api/abi.xml, golden/recordings, fuzz/corpus and the table of mutants, of which a part
was explore/mutants.py at the start. The average length of a line is printed because joined lines would lower the count
without making anything simpler.

Usage: count_lines.py [COMMIT]     without COMMIT, the working tree"""
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEFT_OUT = re.compile(r"tests/(api/abi\.xml|golden/recordings/.*|fuzz/corpus/.*|mutants(/.*)?\.toml|explore/mutants\.py)")

# What `count_lines.py 4d15a09c` printed: the tests before they were made smaller, on 27 November 2026.
START_COMMIT = "4d15a09c"
START_BYTES = 2723454
START = collections.Counter({
    ".": 1546, "api": 1174, "bindings": 624, "budget": 1673, "cli": 5679, "consumer": 831, "examples": 642,
    "explore": 3972, "fuzz": 900, "golden": 1541, "remote": 2854, "scenario": 20230, "server": 8630, "support": 2812,
    "unit": 18203,
})


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], check=True, capture_output=True).stdout


def files(commit):
    """(name below tests/, content) of each file that counts."""
    listed = git("ls-tree", "-rz", "--name-only", commit, "tests/") if commit else git("ls-files", "-z", "tests/")
    for name in sorted(set(listed.decode().split("\0")) - {""}):
        path = ROOT / name
        if not LEFT_OUT.fullmatch(name) and (commit or path.is_file()):
            yield name.removeprefix("tests/"), git("show", f"{commit}:{name}") if commit else path.read_bytes()


def count(commit):
    """Lines by folder, and the bytes of all."""
    lines, size = collections.Counter(), 0
    for name, content in files(commit):
        lines[name.split("/")[0] if "/" in name else "."] += content.count(b"\n")
        size += len(content)
    return lines, size


def main(commit=None):
    now, size = count(commit)
    total, before = now.total(), START.total()
    print(f"start: {before:7,} lines of {START_BYTES / before:.1f} bytes on average ({START_COMMIT})")
    print(f"now:   {total:7,} lines of {size / total:.1f} bytes on average ({commit or 'the working tree'})")
    print(f"\n{'folder':12} {START_COMMIT:>9} {'now':>9} {'change':>9}")
    for name in sorted({*START, *now}):
        print(f"{name:12} {START[name]:9,} {now[name]:9,} {now[name] - START[name]:+9,}")


if __name__ == "__main__":
    main(*sys.argv[1:])
