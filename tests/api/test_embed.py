#!/usr/bin/env python3
"""lua/embed.py refuses scripts whose variables do not fit together, and accepts those that do; what it makes of them."""
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "lua"), str(ROOT / "tests" / "support")]

import embed  # noqa: E402
import tap  # noqa: E402
from checks import check, check_equal  # noqa: E402

ALL_BYTES, SCRIPT_BYTES = 68000, 38000
HEAD = "-- @keys lock\n-- @args\n"
ANSWER = "-- in: call lock\n-- out: answer\nlocal answer = call(\"GET\", lock)\n"
SCRIPT = (HEAD + "local call, lock = redis.call, KEYS[1]\n-- @include answer\n"
          "for i = 1, 2 do\n    local t = {i = i, [i] = {x = 1}}\n    answer = answer .. t.i .. #t[i]\nend\n"
          "return answer\n")

MORE = "-- after: answer\n-- out: more\nlocal function more(text)\n    return text .. answer\nend\n"

# (what is tested, what is complained of or None, {file: text, beside the good ones})
CASES = (
    ("scripts that fit together", None, {}),
    ("a fragment may hand on what it needs and what it gets", None, {
        "s.lua": SCRIPT.replace("include answer", "include more"),
        "more.lua": "-- in: call\n-- in: lock\n-- out: answer\n-- @include answer\n"}),
    ("a local function, its parameters and a loop's variables", None, {
        "s.lua": HEAD + "local function f(a, b)\n    return a .. b .. f(b, a)\nend\n"
                 "for _, x in ipairs(KEYS) do\n    f(x, x)\nend\nreturn 1\n"}),
    ("what is in a comment or a text is no variable", None, {"s.lua": HEAD + 'return "fence" -- not fence\n'}),
    ("an includer that lacks a variable", "s.lua:4: answer.lua needs lock", {
        "s.lua": SCRIPT.replace("call, lock = redis.call, KEYS[1]", "call = redis.call")}),
    ("an includer that declares it in another block", "s.lua:7: answer.lua needs lock", {
        "s.lua": HEAD + "local call = redis.call\nif call then\n    local lock = KEYS[1]\nend\n"
                 "-- @include answer\nreturn answer\n"}),
    ("an includer that has it of another function only", "s.lua:7: answer.lua needs lock", {
        "s.lua": HEAD + "local call = redis.call\nlocal function f(lock)\n    return lock\nend\n"
                 "-- @include answer\nreturn f(answer)\n"}),
    ("what a fragment leaves ends with the block that includes it", "s.lua:7: answer is not declared", {
        "s.lua": HEAD + "local call, lock = redis.call, KEYS[1]\ndo\n    -- @include answer\nend\nreturn answer\n"}),
    ("a fragment that uses what it does not list", "answer.lua:3: fence is not declared", {
        "answer.lua": ANSWER.replace("lock)", "lock, fence)")}),
    ("a fragment that lists what it does not use", "answer.lua:1: fence is listed as needed", {
        "answer.lua": ANSWER.replace("in: call", "in: fence call"),
        "s.lua": SCRIPT.replace("call, lock = redis.call,", "call, lock, fence = redis.call, KEYS[1],")}),
    ("a fragment that comes after another one", None, {
        "s.lua": SCRIPT.replace("return answer", "-- @include more\nreturn more(answer)"), "more.lua": MORE}),
    ("a fragment that comes before another one", "s.lua:4: more.lua needs answer", {
        "s.lua": SCRIPT.replace("-- @include answer", "-- @include more\n-- @include answer"), "more.lua": MORE}),
    ("a fragment that needs nothing of another one", "more.lua:1: nothing of answer is needed", {
        "s.lua": SCRIPT.replace("return answer", "-- @include more\nreturn more(answer)"),
        "more.lua": MORE.replace(".. answer", "")}),
    ("a fragment that does not declare what it leaves", "answer.lua:1: token is listed as left", {
        "answer.lua": ANSWER.replace("out: answer", "out: answer token")}),
    ("a script with a global variable", "s.lua:3: token is not declared", {"s.lua": HEAD + "return token\n"}),
)


def check_complaint(wanted, planted):
    """As the build would show it; None: it goes on."""
    with tempfile.TemporaryDirectory() as folder:
        root, complaint = pathlib.Path(folder), None
        for name, text in {"answer.lua": ANSWER, "s.lua": SCRIPT, **planted}.items():
            (root / name).write_text(text)
        try:
            embed.check([root / "s.lua"])
        except SystemExit as wrong:
            complaint = wrong.code
    check(complaint is None if wanted is None else wanted in (complaint or ""), complaint)


def check_bare():
    """A text that looks like a comment is none; each text is there once."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "s.lua").write_text('return "-- x" -- y\n\n    -- z\n    -- @include answer\n  -- @include answer\n')
        (root / "answer.lua").write_text("-- in: call\ncall(1) -- one\n")
        check_equal(list(embed.pieces(root / "s.lua")), ['return "-- x"\n', "call(1)\n", "call(1)\n"])


def check_sizes():
    """What the library has of text, and the longest script, which a server compiles at once."""
    scripts = [path for path in sorted((ROOT / "lua").glob("*.lua")) if "@keys" in path.read_text("ascii")]
    size = sum(map(len, {piece for script in scripts for piece in embed.pieces(script)}))
    longest = max(len(embed.expanded(script)) for script in scripts)
    print(f"# {size} bytes, of {ALL_BYTES}; the longest script has {longest}, of {SCRIPT_BYTES}")
    check(size <= ALL_BYTES and longest <= SCRIPT_BYTES, "the scripts are too long")


if __name__ == "__main__":
    tap.add("comments stay behind", check_bare)
    tap.add("the scripts are short", check_sizes)
    for title, what, files in CASES:
        tap.add(title, check_complaint, what, files)
    tap.main()
