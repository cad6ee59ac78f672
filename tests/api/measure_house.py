#!/usr/bin/env python3
"""Measure how many concepts a reader of src/ has to learn, and print the figures of a fixed start beside them.

Measured are base, wire, observe, options, net and lock. Lines of code are counted without blank lines, comments and
lone braces, so that neither deleting comments nor wrapping lines changes them.

  functions          definitions, static inline ones in headers included
  used once          static functions that one place calls and no other names; and how many of these have at most 10 lines
  types              definitions of struct, union and enum, anonymous members included; an enum that only names
                     constants is none
  booleans           members of structs that are bool, have one bit, or are of an enum of two values
  in an acquisition  the same in struct rqli_acquire and in every struct that it has inside
  strange headers    functions that a header declares and the file of another name defines
  circles            groups of files each of which calls every other, directly or not
  who clauses        sentences in comments that begin with "Who", "Whoever", "What" or "Whatever"
  comments           share of lines that have one

Usage: measure_house.py [COMMIT] [--names]     without COMMIT, the working tree; --names prints what was counted"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "mutants"))
from place import is_function, items_of, name_of_function  # noqa: E402
from source import code_only, comments_of  # noqa: E402

ROOMS = "base", "wire", "observe", "options", "net", "lock"
SHORT = 10
ACQUISITION = "rqli_acquire"
WHO = re.compile(r"(?:^|[.:;?!] )(?:Who(?:ever)?|What(?:ever)?) ")
TYPE = re.compile(r"\b(struct|union|enum) (?:(\w+) )?\{([^{}]*)\}")
KEYWORDS = {"if", "while", "for", "switch", "return", "sizeof", "defined"}

# What it printed for the version before the redesign, and what the redesign wants.
START_COMMIT = "4d15a09c"
START = {
    "lines of code": 18792, "files": 222, "functions": 1814, "used once": 459, "of these short": 167, "types": 231,
    "booleans": 154, "in an acquisition": 36, "strange headers": 168, "circles": 8, "who clauses": 255, "comments": 14.2,
}
WANTED = {
    "lines of code": "<= 15,500", "files": "<= 165", "functions": "<= 1,200", "used once": "<= 190",
    "types": "20 % fewer", "booleans": "<= 100", "in an acquisition": "<= 14", "strange headers": "0",
    "circles": "<= 2", "who clauses": "0", "comments": "not lower",
}


class File:
    """One source file: its comments, its items and the texts of their tokens, without directives."""

    def __init__(self, name, text):
        self.name, self.stem = name, name.rsplit(".", 1)[0]
        self.comments = comments_of(text)
        self.n_lines = text.count("\n")
        self.n_commented = sum(comment.count("\n") + 1 for comment in self.comments)
        code = code_only(text, strings=True)
        self.n_code = sum(line.strip() not in ("", "{", "}", "};") for line in code.splitlines())
        self.tokens, self.functions, self.prototypes = [], [], []
        for tokens, brace in items_of(text):
            if tokens[0].text.startswith("#"):
                continue
            words = [token.text for token in tokens]
            self.tokens += words
            if brace and is_function(tokens[:brace]):
                name, n_lines = name_of_function(tokens[:brace + 1]), 1 + text.count("\n", tokens[0].start, tokens[-1].end)
                self.functions.append(Function(self, name, "static" in words[:brace], n_lines))
            elif not brace and ")" in words and words[0] != "typedef" and "=" not in words:
                self.prototypes += filter(None, [name_of_function(tokens)])

    def sentences(self):
        """The comments' texts, without their stars; lines that follow each other are one."""
        for comment in self.comments:
            yield re.sub(r"\s*\n\s*\*?\s*", " ", comment.strip("/*").strip())


class Function(NamedTuple):
    file: File
    name: str
    is_static: bool
    n_lines: int


class Type(NamedTuple):
    kind: str
    name: str
    members: list


def types_of(file):
    """Those that a file defines, the innermost first. In the one around it a nested one is a member of its own name."""
    code = " ".join(file.tokens)
    while match := TYPE.search(code):
        kind, name, body = match.groups()
        before, behind = code[:match.start()], code[match.end():]
        is_typedef = before.endswith("typedef ")
        names_only_constants = kind == "enum" and not name and behind.startswith(" ;") and not is_typedef
        if not names_only_constants:
            members = [part.split() for part in body.split("," if kind == "enum" else ";")]
            yield Type(kind, name or re.search(r"\w*", behind.strip())[0], [words for words in members if words])
        code = f"{before}{kind} {name or ''}{behind}"


def count_booleans(members, two_valued):
    total = 0
    for words in members:
        n_names = 1 + words.count(",")
        if "bool" in words and "(" not in words:
            total += n_names
        elif ":" in words and words[-1] == "1":
            total += n_names
        elif "enum" in words and words[words.index("enum") + 1] in two_valued and "*" not in words:
            total += n_names
    return total


def inside(name, structs, seen):
    """The structs that one has by value, itself included."""
    if name in seen or name not in structs:
        return
    seen.add(name)
    for words in structs[name].members:
        if "*" not in words and "struct" in words:
            inside(words[words.index("struct") + 1], structs, seen)


def circles(graph):
    """Groups of more than one node that reach each other."""
    reached = {node: set(others) for node, others in graph.items()}
    for between in graph:
        for node in graph:
            if between in reached[node]:
                reached[node] |= reached[between]
    groups = {tuple(sorted(other for other in reached[node] if node in reached[other])) for node in graph}
    return sorted(group for group in groups if len(group) > 1)


def used_once(file):
    """Its static functions that one place calls and nothing else names."""
    uses = collections.Counter(file.tokens)
    calls = collections.Counter(a for a, b in zip(file.tokens, file.tokens[1:]) if b == "(" and a not in KEYWORDS)
    for one in file.functions:
        declared_here = 1 + file.prototypes.count(one.name)
        if one.is_static and uses[one.name] == calls[one.name] == declared_here + 1:
            yield one


def call_graph(files, owner):
    """File -> files whose functions it calls, x.c and x.h being one."""
    graph = {file.stem: set() for file in files}
    for file in files:
        for word in set(file.tokens):
            if word in owner and owner[word] != file.stem:
                graph[file.stem].add(owner[word])
    return graph


def measure(files):
    """(figure by name, what was counted by name)."""
    shared = {one.name: one for file in files for one in file.functions if not one.is_static}
    once = [one for file in files for one in used_once(file)]
    strange = sorted(f"{name} in {file.name}" for file in files if file.name.endswith(".h")
                     for name in set(file.prototypes)
                     if name in shared and shared[name].file.stem != file.stem)
    types = [one for file in files for one in types_of(file)]
    two_valued = {one.name for one in types if one.kind == "enum" and len(one.members) == 2}
    structs = {one.name: one for one in types if one.kind == "struct" and one.name}
    carried = set()
    inside(ACQUISITION, structs, carried)
    rings = circles(call_graph(files, {name: one.file.stem for name, one in shared.items()}))
    who = [f"{file.name}: {text[max(0, match.start() - 1):match.end() + 40]}" for file in files
           for text in file.sentences() for match in WHO.finditer(text)]
    figures = {
        "lines of code": sum(file.n_code for file in files),
        "files": len(files),
        "functions": sum(len(file.functions) for file in files),
        "used once": len(once),
        "of these short": sum(one.n_lines <= SHORT for one in once),
        "types": len(types),
        "booleans": sum(count_booleans(one.members, two_valued) for one in types if one.kind != "enum"),
        "in an acquisition": sum(count_booleans(structs[name].members, two_valued) for name in carried),
        "strange headers": len(strange),
        "circles": len(rings),
        "who clauses": len(who),
        "comments": round(100 * sum(file.n_commented for file in files) / sum(file.n_lines for file in files), 1),
    }
    names = {
        "used once": sorted(f"{one.file.name}: {one.name}, {one.n_lines} lines" for one in once),
        "in an acquisition": sorted(carried),
        "strange headers": strange,
        "circles": [" ".join(ring) for ring in rings],
        "who clauses": who,
    }
    return figures, names


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], check=True, capture_output=True, text=True).stdout


def read_files(commit):
    folders = [f"src/{room}" for room in ROOMS]
    listed = git("ls-tree", "-r", "--name-only", commit, *folders) if commit else git("ls-files", *folders)
    names = [name for name in listed.splitlines() if name.endswith((".c", ".h"))]
    return [File(name.removeprefix("src/"), git("show", f"{commit}:{name}") if commit else (ROOT / name).read_text())
            for name in names if commit or (ROOT / name).is_file()]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("commit", nargs="?")
    parser.add_argument("--names", action="store_true")
    words = parser.parse_args()
    figures, names = measure(read_files(words.commit))
    print(f"{'':18} {START_COMMIT:>9} {'now':>9}  wanted")
    for name, figure in figures.items():
        print(f"{name:18} {START.get(name, 0):>9,} {figure:>9,}  {WANTED.get(name, '')}")
    if words.names:
        for name, those in names.items():
            print(f"\n{name}:", *those, sep="\n  ")


if __name__ == "__main__":
    main()
