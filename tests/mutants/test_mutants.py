#!/usr/bin/env python3
"""Places are found by name and tokens, wherever the definition is. Prints TAP."""
import pathlib
import sys
import tempfile

from place import NoPlace, Sources
from table import Edit, changes_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from tap import run_tests  # noqa: E402

C = """#define LEAST 5
enum { MOST = 8, /* of them */ SOME = LEAST };
static const char *const words[] = {"one", "two"};

static int half(int of)
{
    return of / 2; /* return of / 3 */
}

int whole(int of)
{
    if (of > MOST) {
        return half(of) + half(of);
    }
    return of;
}
"""
LUA = """local n = 1 -- if n
local function next_of(n)
    if n == 1 then return 2 end
    return n + 1
end
-- @include more
if next_of(n) > n then
    return 1
end
"""


def sources_of(**files):
    """The sources of a tree that has these files: name, with _ for its dot -> text."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder, "src", *name.replace("_", ".").split("__"))
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return Sources(pathlib.Path(folder))


def changed(sources, place, tokens, instead):
    """The line that an edit changes, as it is then."""
    (path, text), = changes_of([Edit(place, tokens, instead)], sources).items()
    before = sources.files[path].text
    return next(new.strip() for new, old in zip(text.splitlines(), before.splitlines()) if new != old)


def refused(sources, place, tokens):
    try:
        changed(sources, place, tokens, "x")
    except NoPlace as wrong:
        return str(wrong)
    raise AssertionError(f"{place} is found")


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def definitions_of_every_kind_are_places():
    sources = sources_of(a_c=C, b_lua=LUA)
    equal(changed(sources, "LEAST", "5", "6"), "#define LEAST 6")
    equal(changed(sources, "MOST", "8", "9"), "enum { MOST = 9, /* of them */ SOME = LEAST };")
    equal(changed(sources, "SOME", "LEAST", "7"), "enum { MOST = 8, /* of them */ SOME = 7 };")
    equal(changed(sources, "words", '"two"', '"2"'), 'static const char *const words[] = {"one", "2"};')
    equal(changed(sources, "half", "2", "3"), "return of / 3; /* return of / 3 */")
    equal(changed(sources, "next_of", "2", "3"), "if n == 1 then return 3 end")
    equal(changed(sources, "src/b.lua", "> n", "< n"), "if next_of(n) < n then")


def line_breaks_and_comments_do_not_matter():
    sources = sources_of(a_c=C.replace("of > MOST", "of >\n        /* so many */ MOST"))
    equal(changed(sources, "whole", "of > MOST", "false"), "if (false) {")


def a_function_that_has_moved_keeps_its_place():
    function = C[C.index("static int half"):C.index("int whole")]
    sources = sources_of(a_c=C.replace(function, ""), b_h=function)
    equal(changed(sources, "half", "2", "3"), "return of / 3; /* return of / 3 */")


def a_name_of_two_files_needs_one_of_them():
    sources = sources_of(a_c=C, b_c=C.replace("whole", "all"))
    equal(refused(sources, "half", "2"), "half is in src/a.c and src/b.c: write src/a.c:half or the like")
    equal(changed(sources, "b.c:half", "2", "3"), "return of / 3; /* return of / 3 */")


def tokens_stand_in_their_place_exactly_once():
    sources = sources_of(a_c=C, b_lua=LUA)
    equal(refused(sources, "whole", "half(of)"), "whole has its tokens 2 times")
    equal(refused(sources, "whole", "half(of"), "whole has its tokens 2 times")
    equal(refused(sources, "whole", "double(of)"), "whole has its tokens 0 times")
    equal(refused(sources, "double", "of"), "nothing is called double")
    equal(refused(sources, "src/b.lua", "end if"), "src/b.lua has its tokens 0 times")  # the include is between them


if __name__ == "__main__":
    sys.exit(run_tests([
        definitions_of_every_kind_are_places,
        line_breaks_and_comments_do_not_matter,
        a_function_that_has_moved_keeps_its_place,
        a_name_of_two_files_needs_one_of_them,
        tokens_stand_in_their_place_exactly_once,
    ]))
