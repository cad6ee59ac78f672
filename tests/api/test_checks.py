#!/usr/bin/env python3
"""The checks of this folder find nothing in the repository, and what they are for in a tree where it is planted."""
import pathlib
import sys
import tempfile

import check_calls
import check_documents
import check_gem
import check_layers
import check_numbers
import check_partitions
import check_promises
import check_rules
import check_words

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import tap  # noqa: E402
from checks import check, check_equal  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECKS = (check_calls, check_documents, check_gem, check_layers, check_numbers, check_partitions, check_promises,
          check_rules, check_words)

CLEAN = {
    "include/rql/a.h": "#include <stdint.h>\nRQL_API int rql_a(int x);\n",
    "src/lock/a.c": '#include "net/l.h"\n#include <rql/a.h>\n\nint rql_a(int x)\n{\n    return x;\n}\n',
    "src/net/l.h": "#include <hiredis.h>\n",
    "src/base/b.c": "/* time() and sprintf() are words here */\nconst char *b = \"goto gets()\";\n",
    "tests/t.c": "int t(void);\n\nint t(void)\n{\n    return rql_a(1);\n}\n",
}
ROW = "| `lock` | `rql_a()` | `rql lock` | t.c | Same. |\n"
OTHERS = "".join(f"| `{call}` | - | - | t.c | Same. |\n" for call in check_gem.CALLS if call != "lock")


def table(row):
    return {"include/rql/gem.md": f"<!-- gem -->\nhead\n-----\n{row}{OTHERS}<!-- /gem -->\n",
            "src/cli/cmd_hold.c": '    .name = "lock",\n'}


PAGES = {"README.md": "[b](src/base/b.c#L1) [gem](https://rubygems.org)\n", "tests/server/test_a.c": "",
         "tests/README.md": "| a fault | server/a | `server/faults.h` |\n"}
TAGS = {"src/wire/make_partitions.py": "print('PARTITION(1)')\n", "src/wire/partitions.def": "PARTITION(1)\n"}
PROMISE = "* **Order.** Waiters are served in order. Condition: none dies.\n"
TESTED = "| Order | served in order | unit/t: a_waiter_is_served |\n"
RULES = {"lua/README.md": "* **1. The lock.**\n* **2. The queue** has waiters (1).\n",
         "lua/optional.md": "* **3. A share.**\n"}
WAITER = "TEST(a_waiter_is_served)\n"


def cited(page, numbers):
    """A comment of two lines."""
    return {**RULES, "src/base/b.c": f"/* A share (lua/{page}.md\n * {numbers}). */\n"}


def promised(promise=PROMISE, row=TESTED, test=WAITER):
    return {"include/rql/guarantees.md": f"## What is promised\n{promise}\n{check_promises.TITLE}"
                                         f"| Promise | Words | Tests |\n|---|---|---|\n{row}",
            "tests/unit/test_t.c": test}


CASES = [
    (None, {}, check_layers),
    (None, {}, check_words),
    (None, {}, check_numbers),
    (None, {}, check_calls),
    ("base uses nothing", {"src/base/b.c": '#include "net/l.h"\n'}, check_layers),
    ("every file has a layer", {"src/a.c": "int a;\n"}, check_layers),
    ("net has floors", {"src/net/sock/b.c": '#include "net/op/a.h"\n', "src/net/op/a.h": ""}, check_layers),
    ("nobody includes upwards", {"src/net/l.c": '#include "../a.h"\n'}, check_layers),
    ("no two files know each other", {"src/lock/b.c": '#include "lock/a.h"\n', "src/lock/a.h": '#include "lock/b.h"\n',
                                      "src/lock/b.h": ""}, check_layers),
    ("hiredis stays in net", {"src/lock/a.c": "#include <hiredis.h>\n"}, check_layers),
    ("public headers are plain", {"include/rql/a.h": "#include <hiredis.h>\n"}, check_layers),
    ("no wall clock", {"src/lock/a.c": "int f(void)\n{\n    return time (0);\n}\n"}, check_words),
    ("the system is named in one file", {"src/lock/a.c": "    fd = eventfd(0, 0);\n"}, check_words),
    ("no goto", {"src/lock/a.c": "    goto out;\n"}, check_words),
    ("the library never prints", {"src/lock/a.c": "    printf(x);\n"}, check_words),
    ("no unfinished work", {"src/lock/a.c": "/* TO" + "DO */\n"}, check_words),
    ("no long file", {"src/lock/a.c": "int a;\n" * 901}, check_numbers),
    ("no long list of functions", {"include/rql/rql.h": "#include <rql/many.h>\n",
                                   "include/rql/many.h": "RQL_API int rql_a(int x);\n" * 61}, check_numbers),
    (None, PAGES, check_documents),
    ("a link to what is not there", {"README.md": "[map](src/map.svg)\n"}, check_documents),
    ("a named test that is not there", {"tests/README.md": "| a fault | server/faults |\n"}, check_documents),
    ("a function that nobody tests", {"tests/t.c": "/* rql_a() */\n"}, check_calls),
    (None, table(ROW), check_gem),
    ("a call of the gem without a row", table(""), check_gem),
    ("a row with a gap", table(ROW.replace("t.c", "")), check_gem),
    ("a row with a test that is not there", table(ROW.replace("t.c", "u.c")), check_gem),
    (None, promised(), check_promises),
    ("a promise without a name", promised(PROMISE + "* Waiters are happy.\n"), check_promises),
    ("a promise that no test holds", promised(row=""), check_promises),
    ("a sentence that no test holds", promised("* **Order.** Waiters are served in order. They are happy.\n"),
     check_promises),
    ("a test of what is not promised", promised(row=TESTED + "| | in no time | unit/t: a_waiter_is_served |\n"),
     check_promises),
    ("a promise whose test is not there", promised(test="TEST(a_waiter_is_not_served)\n"), check_promises),
    ("a promise whose program is not there", promised(row=TESTED.replace("unit/t", "unit/u")), check_promises),
    ("a promise that names no test", promised(row=TESTED.replace(": a_waiter_is_served", "")), check_promises),
    (None, RULES, check_rules),
    (None, cited("README", "1 and 2"), check_rules),
    ("a rule that is cited from the other page", cited("README", "3"), check_rules),
    ("a rule that is not there", cited("optional", "3 to 4"), check_rules),
    ("two rules with one number", {**RULES, "lua/optional.md": "* **2. A share.**\n"}, check_rules),
    (None, {**RULES, "lua/grant.lua": "-- As lua/" + "optional.md 3 says.\n"}, check_words),
    ("a page that is not of the protocol", {"lua/grant.lua": "-- As optional" + ".md says.\n"}, check_words),
    (None, TAGS, check_partitions),
    ("a tag that the script does not print", {**TAGS, "src/wire/partitions.def": "PARTITION(2)\n"}, check_partitions),
    ("a row whose test is of something else", {**table(ROW), "tests/t.c": "int t;\n"}, check_gem),
]


def check_repository(finder):
    found = list(finder.complaints(ROOT))
    check(not found, "\n".join(found))


def check_finding(planted, finder, is_clean):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**CLEAN, **planted}.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        check_equal(not list(finder.complaints(pathlib.Path(folder))), is_clean)


if __name__ == "__main__":
    for one in CHECKS:
        tap.add(f"the repository passes {one.__name__}", check_repository, one)
    for title, what, finder in CASES:
        tap.add(title or f"a clean tree passes {finder.__name__}", check_finding, what, finder, title is None)
    tap.main()
