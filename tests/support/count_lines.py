#!/usr/bin/env python3
"""Counts the lines of the tests, by folder and by language; prints the figures of a fixed start beside them.

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
LANGUAGES = {".c": "C", ".h": "C", ".cpp": "C", ".py": "Python", ".sh": "shell", ".build": "meson", ".md": "documents"}

# What `count_lines.py 4d15a09c` printed: the tests before they were made smaller, on 27 November 2026.
START_COMMIT = "4d15a09c"
START = {
    "bytes": 2723454,
    "folders": {
        ".": 1546, "api": 1174, "bindings": 624, "budget": 1673, "cli": 5679, "consumer": 831, "examples": 642,
        "explore": 3972, "fuzz": 900, "golden": 1541, "remote": 2854, "scenario": 20230, "server": 8630,
        "support": 2812, "unit": 18203,
    },
    "languages": {"C": 34160, "Python": 34395, "documents": 402, "meson": 771, "other": 525, "shell": 1058},
}


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
    """Lines by (folder, language), and the bytes of all."""
    lines, size = collections.Counter(), 0
    for name, content in files(commit):
        folder = name.split("/")[0] if "/" in name else "."
        lines[folder, LANGUAGES.get(pathlib.Path(name).suffix, "other")] += content.count(b"\n")
        size += len(content)
    return lines, size


def totals(lines, part):
    found = collections.Counter()
    for key, number in lines.items():
        found[key[part]] += number
    return found


def print_table(title, start, now):
    print(f"\n{title:12} {START_COMMIT:>9} {'now':>9} {'change':>9}")
    for name in sorted({*start, *now}):
        print(f"{name:12} {start[name]:9,} {now[name]:9,} {now[name] - start[name]:+9,}")


def main(commit=None):
    lines, size = count(commit)
    total, before = lines.total(), sum(START["folders"].values())
    print(f"start: {before:7,} lines of {START['bytes'] / before:.1f} bytes on average ({START_COMMIT})")
    print(f"now:   {total:7,} lines of {size / total:.1f} bytes on average ({commit or 'the working tree'})")
    print_table("folder", collections.Counter(START["folders"]), totals(lines, 0))
    print_table("language", collections.Counter(START["languages"]), totals(lines, 1))


if __name__ == "__main__":
    main(*sys.argv[1:])
