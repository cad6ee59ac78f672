#!/usr/bin/env python3
"""Our pages: README.md is short, what a link leads to exists, and so do the tests that tests/README.md names.
Usage: check_documents.py REPOSITORY"""
import pathlib
import re
import sys

from source import report

PAGES = ("README.md", ".github/*.md", "bench/README.md", "include/rql/*.md", "lua/README.md", "src/README.md",
         "tests/README.md", "tests/golden/README.md")
MOST_LINES, MOST_COLUMNS = 250, 120
NAMED_TEST = re.compile(r"(?<![/\w])(unit|server|cli|budget)/([a-z_]+)\b(?![./])")


def complaints_of_size(page, text):
    lines = text.splitlines()
    if len(lines) > MOST_LINES:
        yield f"{page} has {len(lines)} lines"
    for number, line in enumerate(lines, 1):
        if len(line) > MOST_COLUMNS:
            yield f"{page}:{number} has {len(line)} columns"


def complaints(root):
    for page in sorted(path for pattern in PAGES for path in root.glob(pattern)):
        text = page.read_text(encoding="utf-8")
        name = page.relative_to(root).as_posix()
        if name == "README.md":
            yield from complaints_of_size(name, text)
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            if not (page.parent / target).exists():
                yield f"{name}: there is no {target}"
        if name == "tests/README.md":
            for folder, test in NAMED_TEST.findall(text):
                if not any(page.parent.glob(f"{folder}/test_{test}.*")):
                    yield f"{name}: there is no test {folder}/{test}"


def main(root):
    return report(complaints(pathlib.Path(root).resolve()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
