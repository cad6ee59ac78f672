"""Find a place in the sources by name: a definition, and a run of tokens inside it.

Whitespace, comments and line breaks do not matter, nor does the file in which a definition is. A tokenizer and a
look at what stands outside of all braces are enough for this: the sources are formatted by clang-format, and the
check of the table must not need more than Python.
"""
import pathlib
import re
from typing import NamedTuple

FOLDERS = "src", "swarm", "lua", "include", "bench"
C_SUFFIXES = {".c", ".h", ".def"}
GAP = {
    "c": r"(?:\s|\\\n|/\*.*?\*/|//[^\n]*)+",
    "lua": r"(?:\s|--(?! @include )[^\n]*)+",
    "text": r"\s+",
}
TOKEN = {
    "c": r"""L?"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.])*"""
         r"""|<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|&&|\|\||\#\#|[-+*/%&|^<>=!]=|.""",
    "lua": r'''-- @include \w+|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[A-Za-z_]\w*|\d[\w.]*|\.\.\.?|[=~<>]=|.''',
    "text": r"\w+|.",
}
PATTERN = {name: re.compile(f"(?P<gap>{GAP[name]})|{TOKEN[name]}", re.S) for name in TOKEN}
DIRECTIVE = re.compile(r"[ \t]*#(?:[^\\\n/]|\\.|/(?!\*)|/\*.*?\*/)*", re.S)
ATTRIBUTES = {"__attribute__", "_Alignas", "_Static_assert"}
OPEN, CLOSE = {"(", "[", "{"}, {")", "]", "}"}


class Token(NamedTuple):
    text: str
    start: int
    end: int


class Definition(NamedTuple):
    name: str
    start: int
    end: int


class NoPlace(Exception):
    """A place is named that is not there, or that is there more than once."""


def language_of(path):
    suffix = pathlib.PurePath(path).suffix
    return "c" if suffix in C_SUFFIXES else "lua" if suffix == ".lua" else "text"


def tokens_of(text, language, start=0, end=None):
    """The tokens of a part of a text."""
    match, found = PATTERN[language].match, []
    end = len(text) if end is None else end
    while start < end:
        one = match(text, start)
        if one.lastgroup is None:
            found.append(Token(one[0], start, one.end()))
        start = one.end()
    return found


def words_of(text, language):
    return [token.text for token in tokens_of(text, language)]


# ---- definitions in C ----

def _enumerators(tokens):
    """Those between the braces of an enum, with their values."""
    first, depth = None, 0
    for token in tokens:
        if depth == 0 and first and token.text == ",":
            yield Definition(first.text, first.start, last.end)
            first = None
            continue
        depth += (token.text in OPEN) - (token.text in CLOSE)
        first, last = first or token, token
    if first:
        yield Definition(first.text, first.start, last.end)


def name_of_function(tokens):
    """The name in front of the last parameters that are outside of all parentheses, None: there are none."""
    depth, name = 0, None
    for before, token in zip(tokens, tokens[1:]):
        if token.text == "(" and depth == 0 and re.match(r"[A-Za-z_]", before.text) and before.text not in ATTRIBUTES:
            name = before.text
        depth += (token.text in OPEN) - (token.text in CLOSE)
    return name


def _name_of_variable(tokens):
    """The name in front of its size, value or end; None: it is a prototype."""
    depth = 0
    for before, token in zip(tokens, tokens[1:]):
        if depth == 0 and token.text in ("=", "[", ";"):
            return before.text if re.match(r"[A-Za-z_]", before.text) else None
        if depth == 0 and token.text == "(":
            return None
        depth += (token.text in OPEN) - (token.text in CLOSE)
    return None


def is_function(head):
    """Is what stands before the first brace that of a function?"""
    words = {token.text for token in head}
    return ")" in words and "=" not in words and name_of_function([*head, Token("{", 0, 0)]) is not None


def items_of(text):
    """(tokens, index of the first brace, None: there is none) of each item outside of all braces; a directive is an item
    of one token."""
    match = PATTERN["c"].match
    item, body, depth, at = [], None, 0, 0
    while at < len(text):
        if text[at] == "#" and not text[text.rfind("\n", 0, at) + 1:at].strip():
            directive = DIRECTIVE.match(text, at)
            yield [Token(directive[0], at, directive.end())], None
            at = directive.end()
            continue
        one = match(text, at)
        at = one.end()
        if one.lastgroup:
            continue
        word = one[0]
        item.append(Token(word, one.start(), at))
        if word == "{":
            if depth == 0 and [token.text for token in item[:-1]] == ["extern", '"C"']:
                item = []
                continue
            body = len(item) - 1 if body is None and depth == 0 else body
        depth += (word in OPEN) - (word in CLOSE)
        if depth < 0:  # the end of extern "C"
            item, depth = [], 0
        elif depth == 0 and (word == ";" or (word == "}" and is_function(item[:body]))):
            yield item, body
            item, body = [], None


def _in_c(text):
    """What each item defines."""
    for tokens, body in items_of(text):
        start, end = tokens[0].start, tokens[-1].end
        head = [token.text for token in tokens[:body]] if body else []
        macro = re.match(r"#\s*define\s+(\w+)", tokens[0].text)
        if macro:
            yield Definition(macro[1], start, end)
        elif body and is_function(tokens[:body]):
            yield Definition(name_of_function(tokens[:body + 1]), start, end)
        else:
            if "=" not in head and {"struct", "union", "enum"} & set(head):
                if re.match(r"[A-Za-z_]", head[-1]) and head[-1] not in ("struct", "union", "enum"):
                    yield Definition(head[-1], start, end)
                if "enum" in head:
                    close = next(i for i in range(len(tokens) - 1, body, -1) if tokens[i].text == "}")
                    yield from _enumerators(tokens[body + 1:close])
            name = _name_of_variable(tokens)
            if name and tokens[0].text != "extern":
                yield Definition(name, start, end)


# ---- definitions in Lua ----

def _in_lua(text):
    tokens = tokens_of(text, "lua")
    blocks = []  # (name, start) of each that is open; no name: it is no function with one
    for i, token in enumerate(tokens):
        if token.text == "function":
            name = tokens[i + 1].text if tokens[i + 1].text != "(" else None
            is_local = i > 0 and tokens[i - 1].text == "local"
            blocks.append((name, tokens[i - 1].start if is_local else token.start))
        elif token.text in ("do", "if", "repeat"):
            blocks.append((None, 0))
        elif token.text in ("end", "until"):
            name, start = blocks.pop()
            if name:
                yield Definition(name, start, token.end)


def definitions_of(text, language):
    return list({"c": _in_c, "lua": _in_lua}.get(language, lambda text: ())(text))


# ---- the sources ----

class Source:
    """A file: its text and definitions."""

    def __init__(self, root, path):
        self.path, self.language = path, language_of(path)
        self.text = (root / path).read_text()
        self.definitions = definitions_of(self.text, self.language)


class Sources:
    """All files in which a definition is looked for."""

    def __init__(self, root, folders=FOLDERS):
        self.root = root
        self.files = {}
        self._by_name = {}
        for folder in folders:
            for path in sorted((root / folder).rglob("*")):
                if language_of(path) != "text":
                    self.add(str(path.relative_to(root)))
        for source in self.files.values():
            for one in source.definitions:
                self._by_name.setdefault(one.name, []).append((source, one))

    def add(self, path):
        if path not in self.files:
            self.files[path] = Source(self.root, path)
        return self.files[path]

    def named(self, name):
        """(file, definition) of all that are called so."""
        return self._by_name.get(name, [])

    def parts_of(self, place):
        """(file, start, end) of each part of what a place names: FILE, NAME or FILE:NAME. FILE is the path, in front
        of a name its end will do. Parts are in one file, as those of a function that #if has twice."""
        file, _, name = place.rpartition(":")
        if not file and ("/" in place or "." in place):
            if place not in self.files and not (self.root / place).is_file():
                raise NoPlace(f"there is no file {place}")
            return [(self.add(place), 0, None)]
        suffix = f"/{file}" if file else ""
        found = [(source, one) for source, one in self.named(name) if f"/{source.path}".endswith(suffix)]
        if not found:
            raise NoPlace(f"nothing is called {place}")
        paths = sorted({source.path for source, _ in found})
        if len(paths) > 1:
            raise NoPlace(f"{place} is in {' and '.join(paths)}: write {paths[0]}:{name} or the like")
        return sorted({(source, one.start, one.end) for source, one in found}, key=lambda part: part[1:])

    def find(self, place, words):
        """(file, start, end) of a run of tokens, which has to be in its place exactly once."""
        found = []
        for source, start, end in self.parts_of(place):
            tokens = tokens_of(source.text, source.language, start, end)
            texts = [token.text for token in tokens]
            wanted = words_of(words, source.language)
            if not wanted:
                raise NoPlace("no tokens are given")
            first, length = wanted[0], len(wanted)
            found += [(source, tokens[i].start, tokens[i + length - 1].end) for i, text in enumerate(texts)
                      if text == first and texts[i:i + length] == wanted]
        if len(found) != 1:
            raise NoPlace(f"{place} has its tokens {len(found)} times")
        return found[0]
