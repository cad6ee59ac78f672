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


def function_of_other_parameters(dump):
    """The first two in the other order."""
    parameter = "(.*?<parameter type-id=')(.*?)(')"
    return re.sub(f"(<function-decl name='rql_lock_extend'){parameter}{parameter}", r"\1\2\6\4\5\3\7", dump, count=1,
                  flags=re.S)


def value_of_status(dump):
    return dump.replace("name='RQL_TIMED_OUT' value='1'", "name='RQL_TIMED_OUT' value='41'")


def new_status(dump):
    last = "      <enumerator name='RQL_E_NOT_DURABLE' value='-15'/>\n"
    return dump.replace(last, last + last.replace("NOT_DURABLE", "NEWER").replace("-15", "-99"))


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


def two_that_change_places(bits, members):
    swapped = {"queue_ttl_ms": "timeout_ms", "timeout_ms": "queue_ttl_ms"}
    return bits, re.sub("'(queue_ttl_ms|timeout_ms)'", lambda found: f"'{swapped[found[1]]}'", members)


def last_is_gone(bits, members):
    return bits - 64, members[:members.rindex("      <data-member")]


def another_type(bits, members):
    """Of the second field that of the first."""
    types = re.findall("type-id='(.*?)'", members)
    other = next(one for one in types if one != types[1])
    return bits, members.replace(f"type-id='{types[1]}'", f"type-id='{other}'", 1)


# The edited dump is the later library's.
CASES = [
    ("nothing is changed", lambda dump: dump, True),
    ("a status is new", new_status, True),
    ("a struct that says its size grows at its end", struct("rql_lock_options", grown_at_end), True),
    ("statistics grow at their end", struct("rql_stats", grown_at_end), True),
    ("a result that the library makes grows at its end", struct("rql_client_info", grown_at_end), True),
    ("a function is gone", without_function, False),
    ("a function takes other parameters", function_of_other_parameters, False),
    ("a status has another value", value_of_status, False),
    ("a struct that says its size grows within", struct("rql_lock_options", grown_within), False),
    ("a struct that says its size loses a field", struct("rql_options", last_is_gone), False),
    ("a field of such a struct has another type", struct("rql_lock_options", another_type), False),
    ("two fields change places", struct("rql_lock_options", two_that_change_places), False),
    ("a struct that does not say its size grows", struct("rql_error", grown_at_end), False),
    ("a result in an array grows", struct("rql_request_info", grown_at_end), False),
    ("a field of a result moves", struct("rql_lock_info", grown_within), False),
]


def check_edit(edit, is_fine, title):
    kept = check_abi.DUMP.read_text(encoding="utf-8")
    edited = edit(kept)
    check(edited != kept or title.startswith("nothing"), "the edit finds nothing to change")
    check_equal(not check_abi.differences(kept, edited), is_fine)


def test_a_function_is_new():
    kept = check_abi.DUMP.read_text(encoding="utf-8")
    check_equal(not check_abi.differences(without_function(kept), kept), True)


if __name__ == "__main__":
    for row, change, survives in CASES:
        tap.add(row, check_edit, change, survives, row)
    tool = check_abi.missing_tool()
    tap.main(skip=tool and f"there is no {tool} in PATH (Debian: abigail-tools)")
