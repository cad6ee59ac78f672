#!/usr/bin/env python3
"""Places are found by name and tokens, and each operator makes its mistake.

Without python3-clang the operators for C are not tested.
"""
import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile
from types import SimpleNamespace

import operators_lua
import play
import schemata
from mutant import numbered
from place import NoPlace, Sources
from table import Edit, changes_of

try:
    import operators_c
except ImportError:
    operators_c = None

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import tap  # noqa: E402
from checks import Failure, LeftOut, check_equal  # noqa: E402

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
    raise Failure(f"{place} is found")


FUNCTION = C[C.index("static int half"):C.index("int whole")]
# (files of a tree, place, tokens, what replaces them, the line that comes of it)
PLACES = (
    ({"a_c": C}, "LEAST", "5", "6", "#define LEAST 6"),
    ({"a_c": C}, "SOME", "LEAST", "7", "enum { MOST = 8, /* of them */ SOME = 7 };"),
    ({"a_c": C}, "words", '"two"', '"2"', 'static const char *const words[] = {"one", "2"};'),
    ({"b_lua": LUA}, "next_of", "2", "3", "if n == 1 then return 3 end"),
    ({"b_lua": LUA}, "src/b.lua", "> n", "< n", "if next_of(n) < n then"),
    # Line breaks and comments do not matter, nor does the file.
    ({"a_c": C.replace("of > MOST", "of >\n  /* so many */ MOST")}, "whole", "of > MOST", "false", "if (false) {"),
    ({"a_c": C.replace(FUNCTION, ""), "b_h": FUNCTION}, "half", "2", "3", "return of / 3; /* return of / 3 */"),
    ({"a_c": C, "b_c": C.replace("whole", "all")}, "b.c:half", "2", "3", "return of / 3; /* return of / 3 */"),
)
# (place, tokens, what is said)
NO_PLACES = (
    ("half", "2", "half is in src/a.c and src/b.c: write src/a.c:half or the like"),
    ("whole", "half(of)", "whole has its tokens 2 times"),
    ("whole", "half(of", "whole has its tokens 2 times"),
    ("whole", "double(of)", "whole has its tokens 0 times"),
    ("double", "of", "nothing is called double"),
    ("src/b.lua", "end if", "src/b.lua has its tokens 0 times"),  # an include is there
)


def test_places_are_found_by_definition_and_tokens():
    for files, place, tokens, instead, line in PLACES:
        check_equal(changed(sources_of(**files), place, tokens, instead), line, f"{place} {tokens}")


def test_a_place_that_is_not_there_exactly_once_is_refused():
    sources = sources_of(a_c=C, b_c=C.replace("whole", "all"), b_lua=LUA)
    for place, tokens, said in NO_PLACES:
        check_equal(refused(sources, place, tokens), said)


# operator of C -> (code, what its mutants are)
OPERATORS_C = {
    "negate": ("if (a && b) {}", ["!(a && b)", "!(a)", "!(b)"]),
    "logic": ("if (a && b) {}", ["(a || b)"]),
    "bound": ("while (a < b) {}", ["a <= b"]),
    "constant": ("a = 5 + LEAST + sizeof(int[7]) + 100 + MOST;", ["6", "(MOST + 1)"]),
    "sum": ("a = b - a;", ["b + a"]),
    "swap": ("a = f(a, b) - b;", ["b - f(a, b)", "f(b, a)"]),
    "return": ("return a;", ["0"]),
    "drop": ("f(a, b); (void)a; case 1: a = b; switch (b) { default: b++; }", [""] * 3),
}
FRAME = """#define LEAST 3
enum { MOST = 4 };
int f(int a, int b);
int frame(int a, int b) { switch (a) { %s } return 0; }
"""
OPERATORS_LUA = {
    "negate": ("if a == b then end", ["not (a == b)", "~="]),
    "logic": ("a = b and a", ["or"]),
    "bound": ("while a < b do end", ["<="]),
    "constant": ('f(9, "0", 100, "x1")', ["10", '"1"']),
    "sum": ("a = -a - b", ["+"]),
    "swap": ("a = f(a, b)", ["b, a"]),
    "drop": ("f(a)\na = {\n  1}\nlocal c = f(b)", [""]),
}
PROGRAM = """int half(int of)
{
    return of < 0 ? -1 : of / 2;
}

int unused(int of)
{
    return of + 1;
}

int main(void)
{
    return half(4) == 2 ? 0 : 1;
}
"""


def mutants_of_c(folder, text):
    if not operators_c:
        raise LeftOut("no python3-clang")
    path = pathlib.Path(folder, "src", "a.c")
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return numbered(operators_c.mutants_of(path, [], pathlib.Path(folder), {"src/a.c"}), Sources(pathlib.Path(folder)))


def test_each_operator_changes_c():
    for operator, (code, expected) in OPERATORS_C.items():
        with tempfile.TemporaryDirectory() as folder:
            found = [one.instead for one in mutants_of_c(folder, FRAME % code) if one.operator == operator]
        frames = ["1"] if operator == "constant" else []  # return 0
        check_equal(found, expected + frames)


def test_each_operator_changes_lua():
    for operator, (code, expected) in OPERATORS_LUA.items():
        found = sorted(operators_lua.mutants_of("lua/a.lua", code), key=lambda one: one.start)
        check_equal([one.instead for one in found if one.operator == operator], expected)


def test_a_name_stands_while_code_around_it_changes():
    with tempfile.TemporaryDirectory() as folder:
        before = {one.name for one in mutants_of_c(folder, PROGRAM)}
        after = {one.name for one in mutants_of_c(folder, "int more;\n" + PROGRAM.replace("of / 2", "of  /\n 2"))}
    check_equal(after, before)
    assert "half:bound:<:1" in before, before


def test_an_unreachable_mutant_survives_and_a_reached_one_is_found():
    with tempfile.TemporaryDirectory() as folder:
        mutants = mutants_of_c(folder, PROGRAM)
        schemata.write_header(pathlib.Path(folder), len(mutants))
        source, program = pathlib.Path(folder, "src", "a.c"), pathlib.Path(folder, "a")
        source.write_text(schemata.instrumented(PROGRAM, list(enumerate(mutants, 1))))
        subprocess.run(["gcc", "-w", "-o", program, source], check=True)
        runner = play.Runner([play.Program("a", {"unit"}, [str(program)], folder, {})], {})
        with contextlib.redirect_stdout(io.StringIO()):
            runner.record_all(len(mutants), 1)
        states = {one.name: runner.play(number, one, 10).state for number, one in enumerate(mutants, 1)}
    check_equal(states["unused:return:of + 1:1"], play.UNREACHED)
    check_equal(states["half:constant:2:1"], play.FOUND)
    check_equal(states["half:bound:<:1"], play.SURVIVED)


def test_what_does_not_compile_is_no_mutant():
    with tempfile.TemporaryDirectory() as folder:
        mutants = mutants_of_c(folder, "int f(int of)\n{\n    return of;\n}\nint g(int of)\n{\n    return of;\n}\n")
        mutants = [one._replace(instead="none") if one.definition == "f" else one for one in mutants]
        schemata.write_header(pathlib.Path(folder), len(mutants))
        check = schemata.Check(pathlib.Path(folder), {"src/a.c": (folder, ["gcc"], "src/a.c")})
        text = pathlib.Path(folder, "src", "a.c").read_text()
        check_equal([one.definition for one in check.accepted("src/a.c", text, mutants)], ["g"])


def test_mutants_that_the_time_does_not_suffice_for_are_not_played():
    one = SimpleNamespace(what="f:drop:g:1", room="src")
    with contextlib.redirect_stdout(io.StringIO()):
        check_equal([result.state for result in play.play_all([None], [one], -1)], [play.LEFT])


if __name__ == "__main__":
    tap.main()
