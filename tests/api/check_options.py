#!/usr/bin/env python3
"""The options table of the manual is the one of the library.

Usage: check_options.py [--write] LIBRARY PAGE
The table stands between the lines <!-- options --> and <!-- /options -->.
"""
import ctypes
import itertools
import pathlib
import re
import sys

BEGIN, END = "<!-- options -->\n", "<!-- /options -->"
HEAD = "| Option | Environment | Unit | Range | Default | Meaning |\n|---|---|---|---|---|---|\n"


def rows(library):
    """The members of each rql_option_row, which are all texts: name, env, unit, range, default_value, gem_value
    (None: the gem has the same), help. gem_value joins default_value here."""
    row_at = ctypes.CDLL(library).rql_option_row_at
    row_at.argtypes, row_at.restype = [ctypes.c_size_t], ctypes.POINTER(ctypes.c_char_p * 7)
    for index in itertools.count():
        row = row_at(index)
        if not row:
            return
        *texts, default, gem, meaning = [(text or b"").decode() for text in row.contents]
        yield [*texts, f"`{default}`" * bool(default) + f"; gem `{gem}`" * bool(gem), meaning]


def cells(row):
    """A bar would end the cell, and an at sign begins a command of Doxygen."""
    for number, text in enumerate(row):
        is_code = number in (0, 1)
        yield f"`{text}` " if is_code else re.sub(r"([|@])", r"\\\1", text) + " " * (number != 4 or bool(text))


def main(arguments):
    library, page = [word for word in arguments if word != "--write"]
    table = HEAD + "".join("| " + "| ".join(cells(row)) + "|\n" for row in rows(library))
    text = pathlib.Path(page).read_text()
    before, _, rest = text.partition(BEGIN)
    found, _, after = rest.partition(END)
    if found.strip() == table.strip():
        return 0
    if "--write" in arguments:
        pathlib.Path(page).write_text(before + BEGIN + table + END + after)
        return 0
    print(f"{page}: the options table is not the library's; renew it with check_options.py --write\n{table}")
    return 1


sys.exit(main(sys.argv[1:]))
