#!/usr/bin/env python3
"""What check_abi.py takes for a change that programs do not survive, by edits of abi.xml. Prints TAP."""
import re
import sys

import check_abi

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


# Where the edited dump is the later library's, but for "added", where it is the earlier one's.
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


def main():
    if check_abi.missing_tool():
        print(f"1..0 # SKIP there is no {check_abi.missing_tool()} in PATH (Debian: abigail-tools)")
        return 0
    kept = check_abi.DUMP.read_text(encoding="utf-8")
    results = [("a function is new", not check_abi.differences(without_function(kept), kept))]
    for title, edit, is_fine in CASES:
        edited = edit(kept)
        is_edited = is_fine and title.startswith("nothing") or edited != kept
        results.append((title, is_edited and is_fine == (not check_abi.differences(kept, edited))))
    print(f"1..{len(results)}")
    for number, (title, is_right) in enumerate(results, 1):
        print("ok" if is_right else "not ok", number, "-", title)
    return not all(is_right for _, is_right in results)


if __name__ == "__main__":
    sys.exit(main())
