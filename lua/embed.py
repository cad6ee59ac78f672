#!/usr/bin/env python3
"""Turn Lua scripts into one C table: name, text, SHA-1 and declared arity of each.

Comments, indentation and blank lines stay here. The library has the text between two includes once, however many
scripts consist of it.

A script declares its contract in its head comment:
    -- @keys lock queue                    ("..." after them: these once for each of several locks)
    -- @args acquirer host ttl_ms          (a last "..." stands for any number more)
A line "-- @include name" stands for the text of name.lua in the same folder, a fragment. Its head says
which local variables it needs, after which other fragments it comes, because it calls their functions, and
what it leaves to its includer:
    -- in: call lock queue
    -- after: clock waiters
    -- out: serve
Checked: a fragment is included where all that it needs is declared, uses nothing else, needs all that it
lists, and declares what it leaves. So a script uses no global variable, which a server would refuse only
when it comes to that line.
"""
import hashlib
import pathlib
import re
import sys

GLOBALS = {"redis", "KEYS", "ARGV", "cmsgpack", "string", "math", "tonumber", "tostring", "type", "select",
           "unpack", "pairs", "ipairs"}
KEYWORDS = set("and break do else elseif end false for function if in local nil not or repeat return then "
               "true until while".split())
TOKEN = re.compile(r"""--\ @include\ (?P<include>\w+)$ | --.*?$ | "(?:\\.|[^"\\\n])*" | (?P<name>[A-Za-z_]\w*)
                       | \d[\w.]* | \.\.\.? | [=~<>]= | (?P<sign>[^\s\w])""", re.M | re.X)


INCLUDE = re.compile(r"-- @include (\w+)\n")
COMMENT = re.compile(r"""("(?:\\.|[^"\\\n])*") | --(?!\ @include\ ).*$""", re.M | re.X)


def c_literal(text):
    out = []
    for line in text.splitlines(keepends=True):
        body = line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        out.append(f'     "{body}"')
    return "\n".join(out)


def bare(text):
    """Without comments, indentation and blank lines."""
    lines = COMMENT.sub(lambda found: found[1] or "", text).splitlines()
    return "".join(line.strip() + "\n" for line in lines if line.strip())


def pieces(path, changed=None):
    """The texts that a script consists of, in their order. changed: texts by file name, in place of those in the
    files."""
    text = (changed or {}).get(path.name) or path.read_text("ascii")
    for i, part in enumerate(INCLUDE.split(bare(text))):
        if i % 2:
            yield from pieces(path.with_name(part + ".lua"), changed)
        elif part:
            yield part


def expanded(path, changed=None):
    """The text of a script."""
    return "".join(pieces(path, changed))


def declared(text, tag, path):
    found = re.findall(rf"^-- @{tag}[ \t]*(.*)$", text, re.M)
    if len(found) != 1:
        sys.exit(f"{path}: needs exactly one '-- @{tag}' line")
    return found[0].split()


def listed(text, tag):
    """The words of all lines "-- in: ...", "-- after: ..." or "-- out: ..."."""
    return [name for line in re.findall(rf"^-- {tag}: (.*)$", text, re.M) for name in line.split()]


def left_by(path, fragment):
    """What a fragment in the folder of this file leaves to its includer."""
    return listed(path.with_name(fragment + ".lua").read_text("ascii"), "out")


def needed_by(path):
    """What the includer of a fragment has to have declared."""
    text = path.read_text("ascii")
    return [*listed(text, "in"), *(name for one in listed(text, "after") for name in left_by(path, one))]


class Names:
    """Follows the blocks of a script or fragment: what it declares, and what it uses and does not declare."""

    def __init__(self, path, needed):
        self.path = path
        self.needed = set(needed)
        self.blocks = [set()]  # what is declared in each that is open, beside what is needed
        self.used = set()      # of what is needed
        self.faults = []

    def fault(self, line, what):
        self.faults.append(f"{self.path}:{line}: {what}")

    def use(self, name, line, why):
        if not any(name in block for block in self.blocks) and name not in GLOBALS:
            self.used.add(name)
            if name not in self.needed:
                self.fault(line, why)

    def include(self, name, line):
        for needed in needed_by(self.path.with_name(name + ".lua")):
            self.use(needed, line, f"{name}.lua needs {needed}, which is not declared here")
        self.blocks[-1].update(left_by(self.path, name))


def parameters(tokens, at):
    """The names up to the closing parenthesis."""
    names = set()
    while tokens[at][1] != ")":
        names.add(tokens[at][1])
        at += 1
    return names, at


def follow(names, tokens):
    """Adds to `names` what the tokens, (kind, text, line) of each, declare and use."""
    open_signs, at, waits_for_do = [], 0, False
    while at < len(tokens):
        kind, text, line = tokens[at]
        before, after = tokens[at - 1][1] if at else "", tokens[at + 1][1] if at + 1 < len(tokens) else ""
        if kind == "include":
            names.include(text, line)
        elif text in ("local", "for") and after != "function":
            if text == "for":
                names.blocks.append(set())
                waits_for_do = True
            while tokens[at + 1][0] == "name" and tokens[at + 1][1] not in KEYWORDS:
                names.blocks[-1].add(tokens[at + 1][1])
                at += 1 + (tokens[at + 2][1] == "," if at + 2 < len(tokens) else 0)
                if tokens[at][1] != ",":
                    break
        elif text == "function":
            if kind == "name" and before == "local":
                names.blocks[-1].add(after)
            while tokens[at][1] != "(":
                at += 1
            own, at = parameters(tokens, at + 1)
            names.blocks.append(own)
        elif text in ("then", "repeat", "else") or (text == "do" and not waits_for_do):
            if text == "else":
                names.blocks.pop()
            names.blocks.append(set())
        elif text in ("end", "elseif", "until"):
            names.blocks.pop()
        elif text == "do":
            waits_for_do = False
        elif kind == "sign" and text in "({[":
            open_signs.append(text)
        elif kind == "sign" and text in ")}]":
            open_signs.pop()
        elif kind == "name" and text not in KEYWORDS and before not in (".", ":"):
            is_field = open_signs[-1:] == ["{"] and before in ("{", ",") and after == "="
            if not is_field:
                names.use(text, line, f"{text} is not declared here")
        at += 1


def faults_of(path):
    """What is wrong with the variables of a script or of a fragment."""
    text = path.read_text("ascii")
    tokens = []
    for found in TOKEN.finditer(text):
        kind = found.lastgroup or ("" if found[0].startswith("--") else "other")
        if kind:
            tokens.append((kind, found[kind] if kind != "other" else found[0], text.count("\n", 0, found.start()) + 1))
    names = Names(path, needed_by(path))
    follow(names, tokens)
    for name in listed(text, "in"):
        if name not in names.used:
            names.fault(1, f"{name} is listed as needed, and is not")
    for fragment in listed(text, "after"):
        if not names.used.intersection(left_by(path, fragment)):
            names.fault(1, f"nothing of {fragment} is needed")
    for name in listed(text, "out"):
        if name not in names.blocks[0]:
            names.fault(1, f"{name} is listed as left to the includer, and is not declared")
    return names.faults


def included(path):
    """All fragments that a script consists of."""
    for name in re.findall(r"^ *-- @include (\w+)$", path.read_text("ascii"), re.M):
        fragment = path.with_name(name + ".lua")
        yield fragment
        yield from included(fragment)


def check(scripts):
    paths = sorted({*scripts, *(fragment for script in scripts for fragment in included(script))})
    faults = [fault for path in paths for fault in faults_of(path)]
    if faults:
        sys.exit("\n".join(faults))


def main():
    out_c, out_h, *inputs = map(pathlib.Path, sys.argv[1:])
    check(inputs)
    enum, rows, lists, numbers = [], [], [], {}
    for path in sorted(inputs):
        text, raw = path.read_text("ascii"), expanded(path).encode("ascii")
        keys, args = declared(text, "keys", path), declared(text, "args", path)
        ident = "RQLI_SCRIPT_" + path.stem.upper()
        more = args[-1:] == ["..."]
        args = args[:-1] if more else args
        n_repeated = keys.index("...") if "..." in keys else 0
        keys = [key for key in keys if key != "..."]
        of_script = [numbers.setdefault(piece, len(numbers)) for piece in pieces(path)]
        lists.append(f"static const uint8_t {path.stem}[] = {{{', '.join(map(str, of_script))}}};")
        enum.append(f"    {ident}, /* {len(keys)} keys, {len(args)}{'+' if more else ''} args */")
        rows.append(
            f"    [{ident}] = {{\n"
            f'        .name = "{path.stem}",\n'
            f'        .sha1 = "{hashlib.sha1(raw).hexdigest()}",\n'
            f"        .pieces = {path.stem},\n"
            f"        .n_pieces = {len(of_script)},\n"
            f"        .length = {len(raw)},\n"
            f"        .n_keys = {len(keys)},\n"
            f"        .n_repeated = {n_repeated},\n"
            f"        .n_args = {len(args)},\n"
            f"        .takes_more = {'true' if more else 'false'},\n    }},"
        )
    texts = [f"    {{{c_literal(piece).strip()}, {len(piece)}}}," for piece in numbers]
    note = "/* Generated by lua/embed.py; do not edit. */\n"
    out_h.write_text(
        note + "#ifndef RQLI_SCRIPT_IDS_H\n#define RQLI_SCRIPT_IDS_H\n\n"
        "enum rqli_script_id {\n" + "\n".join(enum) + "\n    RQLI_SCRIPT_COUNT\n};\n\n#endif\n"
    )
    out_c.write_text(
        note + '#pragma GCC diagnostic ignored "-Woverlength-strings"\n\n#include "wire/command.h"\n\n'
        "const struct rqli_slice rqli_script_pieces[] = {\n" + "\n".join(texts) + "\n};\n\n"
        + "\n".join(lists) + "\n\n"
        "const struct rqli_script rqli_scripts[RQLI_SCRIPT_COUNT] = {\n" + "\n".join(rows) + "\n};\n"
    )


if __name__ == "__main__":
    main()
