"""The table of mistakes that people wrote: table.toml, whose head explains it."""
import pathlib
import sys
import tomllib
from collections import Counter
from typing import NamedTuple

from place import NoPlace, words_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from build_tree import tests_in  # noqa: E402

TABLE = pathlib.Path(__file__).with_name("table.toml")
FIELDS = {"what", "in", "tokens", "with", "also", "found_by", "explored", "missed"}


class Wrong(Exception):
    """Something that keeps mistakes from being played at all."""


class Edit(NamedTuple):
    place: str
    tokens: str
    instead: str


class Mistake(NamedTuple):
    what: str
    edits: tuple
    tests: tuple    # that should find it; empty: the explorer should
    explored: str   # by which of its models, see tests/explore/explore.py; empty: by none
    is_missed: bool

    def changes(self, sources):
        return changes_of(self.edits, sources)


def changes_of(edits, sources):
    """File -> its text with these edits."""
    spans = {}
    for edit in edits:
        source, start, end = sources.find(edit.place, edit.tokens)
        if words_of(edit.tokens, source.language) == words_of(edit.instead, source.language):
            raise NoPlace(f"{edit.place}: its tokens are replaced by the same")
        spans.setdefault(source.path, []).append((start, end, edit.instead))
    return {path: replaced(sources.files[path].text, some) for path, some in spans.items()}


def replaced(text, spans):
    """A text with other words instead of some spans: (start, end, words)."""
    for start, end, words in sorted(spans, reverse=True):
        text = text[:start] + words + text[end:]
    return text


def read_table(path=TABLE):
    with open(path, "rb") as file:
        entries = tomllib.load(file).get("mistake", [])
    return [_read_mistake(entry, f"{path}: mistake {number} ({entry.get('what')})")
            for number, entry in enumerate(entries, 1)]


def _read_mistake(entry, where):
    if not entry.keys() <= FIELDS:
        raise Wrong(f"{where}: {', '.join(entry.keys() - FIELDS)} is unknown")
    if ("found_by" in entry) == ("explored" in entry):
        raise Wrong(f"{where}: either `found_by` or `explored` is needed")
    try:
        edits = tuple(Edit(one["in"], one["tokens"], one["with"]) for one in [entry, *entry.get("also", [])])
    except KeyError as missing:
        raise Wrong(f"{where}: {missing} is missing") from missing
    return Mistake(entry["what"], edits, tuple(entry.get("found_by", "").split()), entry.get("explored", ""),
                   entry.get("missed", False))


def tests_of(build):
    """Name -> (files to build, its own limit in seconds) of each test of a build tree. Tests of one name,
    as of a unit and against a server, are run as one."""
    tests = {}
    for test in tests_in(build):
        files, limit_s = tests.get(test["name"], ([], test["timeout"]))
        tests[test["name"]] = files + test["files"], min(limit_s, test["timeout"])
    return tests


def check(sources, build, path=TABLE):
    """What is wrong with the table, a line each."""
    mistakes = read_table(path)
    real = tests_of(build)
    for mistake, count in Counter(mistake.what for mistake in mistakes).items():
        if count > 1:
            yield f"{mistake}: {count} times in the table"
    for mistake in mistakes:
        try:
            mistake.changes(sources)
        except NoPlace as wrong:
            yield f"{mistake.what}: {wrong}"
        if not mistake.tests and not mistake.explored:
            yield f"{mistake.what}: no test is named"
        for name in mistake.tests:
            if name not in real:
                yield f"{mistake.what}: there is no test {name}"
