#!/usr/bin/env python3
"""What check_abi.py takes for a change that programs do not survive, by edits of abi.xml."""
import pathlib
import re
import sys

import check_abi

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import tap  # noqa: E402
from checks import check, check_equal  # noqa: E402

MEMBER = """      <data-member access='public' layout-offset-in-bits='{at}'>
        <var-decl name='added' type-id='{type}' visibility='default'/>
      </data-member>
"""


def without_function(dump):
    symbol = re.compile(r" *<elf-symbol name='rql_lock_extend'.*\n")
    return re.sub(r" *<function-decl name='rql_lock_extend'.*?</function-decl>\n", "", symbol.sub("", dump), flags=re.S)


def struct(name, change):
    """change() of the size in bits and the members."""
    def changed(found):
        bits, members = change(int(found[2]), found[4])
        return f"{found[1]}{bits}{found[3]}{members}{found[5]}"
    return lambda dump: re.sub(rf"(<class-decl name='{name}' size-in-bits=')(\d+)('.*?>\n)(.*?)(    </class-decl>)",
                               changed, dump, count=1, flags=re.S)


def grown_at_end(bits, members):
    return bits + 64, members + MEMBER.format(at=bits, type=re.search("type-id='(.*?)'", members)[1])


def grown_within(bits, members):
    """Behind the first member."""
    first = members.index("</data-member>\n") + len("</data-member>\n")
    added = MEMBER.format(at=64, type=re.search("type-id='(.*?)'", members)[1])
    moved = re.sub(r"(offset-in-bits=')(\d+)", lambda found: found[1] + str(int(found[2]) + 64), members[first:])
    return bits + 64, members[:first] + added + moved


def another_type(bits, members):
    """Of the second field that of the first."""
    types = re.findall("type-id='(.*?)'", members)
    other = next(one for one in types if one != types[1])
    return bits, members.replace(f"type-id='{types[1]}'", f"type-id='{other}'", 1)


# The edited dump is the later library's.
CASES = [
    ("a struct that says its size grows at its end", struct("rql_lock_options", grown_at_end), True),
    ("a result that the library makes grows at its end", struct("rql_client_info", grown_at_end), True),
    ("a function is gone", without_function, False),
    ("a struct that says its size grows within", struct("rql_lock_options", grown_within), False),
    ("a field of such a struct has another type", struct("rql_lock_options", another_type), False),
    ("a struct that does not say its size grows", struct("rql_error", grown_at_end), False),
]


def check_edit(edit, is_fine):
    kept = check_abi.DUMP.read_text(encoding="utf-8")
    edited = edit(kept)
    check(edited != kept, "the edit finds nothing to change")
    check_equal(not check_abi.differences(kept, edited), is_fine)


def test_a_function_is_new():
    kept = check_abi.DUMP.read_text(encoding="utf-8")
    check_equal(check_abi.differences(without_function(kept), kept), "")


if __name__ == "__main__":
    for row, change, survives in CASES:
        tap.add(row, check_edit, change, survives)
    tool = check_abi.missing_tool()
    tap.main(skip=tool and f"there is no {tool} in PATH (Debian: abigail-tools)")
