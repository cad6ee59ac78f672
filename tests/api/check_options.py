#!/usr/bin/env python3
"""The options table of the manual is the one of the library.

Usage: check_options.py [--write] PRINT_OPTIONS PAGE
The table stands between the lines <!-- options --> and <!-- /options -->.
"""
import pathlib
import subprocess
import sys

SKIPPED = 77
BEGIN, END = "<!-- options -->\n", "<!-- /options -->"


def main(arguments):
    write = "--write" in arguments
    program, page = [a for a in arguments if a != "--write"]
    page = pathlib.Path(page)
    table = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    text = page.read_text() if page.exists() else ""
    if BEGIN not in text or END not in text.split(BEGIN, 1)[1]:
        print(f"{page.name} has no table between {BEGIN.strip()} and {END}")
        return 1 if write else SKIPPED
    before, rest = text.split(BEGIN, 1)
    found, after = rest.split(END, 1)
    if found.strip() == table.strip():
        return 0
    if write:
        page.write_text(before + BEGIN + table + END + after)
        return 0
    print(f"{page.name}: the options table is not the library's; renew it with check_options.py --write")
    print(table)
    return 1


sys.exit(main(sys.argv[1:]))
