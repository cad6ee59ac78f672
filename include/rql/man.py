#!/usr/bin/env python3
"""Manual pages of the library in the language of man(7).

Usage: man.py VERSION DATE MAN3 MAN7 README PROTOCOL FILE...

The files are headers and pages in Markdown. MAN3 is a folder with a page for each function, of the comments of the
headers, and with librql(3), whose example is README's. MAN7 is a folder with rql-NAME(7) for each page NAME.md, and
with rql(7), which lists them and has the table of keys of PROTOCOL. Exit status 1: a public function has no comment of
the form that is read here.
"""
import pathlib
import re
import shutil
import sys
import textwrap
from typing import NamedTuple

ESCAPES = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"}
DOCUMENTED = re.compile(r"^/\*\*(.*?)\*/\n(#define (?:[^\n]*\\\n)*[^\n]*|[^;{\n][^;{]*)?", re.M | re.S)
TAG = re.compile(r"^@(param|retval|return|owner|threads)(?:\[[a-z,]+\])?[ \n]+", re.M)
TITLES = {"param": "PARAMETERS", "return": "RETURN VALUE", "retval": "RETURN VALUE", "owner": "OWNERSHIP",
          "threads": "THREADS"}
NAME = re.compile(r"(?:#define |\(\*|(?:struct|enum) |\b(?=rql_\w+\())(\w+)")
MARKUP = re.compile(r"`([^`]+)`|\*\*(.+?)\*\*|(?<!\w)::(\w+)|(\w+::\w+)|@p (?P<argument>\w+)|(\brql_\w+\(\))|"
                    r"\[(?P<link>[^]]+)\]\([^)]+\)", re.S)
REST = "<!-- the rest is not in the manual -->"
KEYS = re.compile(r"<!-- rql\(7\): Keys -->\n(.*?)<!-- /rql\(7\) -->", re.S)


class Entry(NamedTuple):
    """What a comment documents: a function, perhaps with the macro to call it by; or a type, or a constant."""
    names: tuple  # the one to be called first
    code: str     # of a function: its declaration
    header: str
    text: str
    tags: list    # (tag, text)

    def purpose(self):
        """The first sentence, without markup."""
        words = re.sub(r"@p |::|`|\(\)", "", self.text.split("\n\n")[0]).split()
        return re.split(r"(?<=[.:]) ", " ".join(words))[0].rstrip(".:")


# ---- text ----

def escaped(text):
    return "".join(ESCAPES.get(c) or (c if c.isascii() else f"\\[u{ord(c):04X}]") for c in text)


def marked(match):
    text = match[match.lastindex].replace("`", "")
    if match["link"]:
        return escaped(text)
    if re.fullmatch(r"rql_\w+\(\)", text):
        return f"\\fB{escaped(text[:-2])}\\fR(3)"
    return f"\\f{'I' if match['argument'] else 'B'}{escaped(text)}\\fR"


def filled(text):
    """The lines of a paragraph. Each sentence begins one: so roff knows it for a sentence."""
    at, parts = 0, []
    for match in MARKUP.finditer(text):
        parts += [escaped(text[at:match.start()]), marked(match)]
        at = match.end()
    parts.append(escaped(text[at:]))
    for sentence in re.split(r"(?<=[.?!]) ", " ".join("".join(parts).split())):
        for line in textwrap.wrap(sentence, 78, break_long_words=False, break_on_hyphens=False):
            yield "\\&" + line if line[0] in ".'" else line


def as_list(table):
    """Its first column, and what the others say of it."""
    heads, _, *rows = [cells_of(row) for row in table.splitlines()]
    for first, *others in rows:
        told = [f"{head}: {cell}" for head, cell in zip(heads[1:], others, strict=True) if cell]
        yield from item(first, ". ".join(told).rstrip(".") + ".")


def cells_of(row):
    """Of a table: a bar in a cell, and an at sign, have a backslash."""
    return [re.sub(r"\\([|@])", r"\1", cell.strip()) for cell in re.split(r"(?<!\\)\|", row.strip())[1:-1]]


def item(name, text):
    yield ".TP"
    yield from filled(name)
    yield from filled(text)


def blocks(text):
    """Headings, paragraphs, lists, tables and code."""
    for code in re.split(r"^(```.*?^```)$", re.sub("<!--.*?-->\n?", "", text), flags=re.M | re.S):
        if code.startswith("```"):
            yield ".PP"
            yield from verbatim(code.partition("\n")[2].removesuffix("\n```"))
        else:
            yield from prose(code)


def prose(text):
    for block in re.split(r"\n\s*\n|\n(?=[*-] |[0-9]\. )", text.strip()):
        if heading := re.match(r"(##+) ", block):
            yield f".S{'H' if heading[1] == '##' else 'S'} {escaped(block[heading.end():])}"
        elif point := re.match(r"[*-] |[0-9]\. ", block):
            yield f".IP {escaped(point[0].strip()) if point[0][0].isdigit() else chr(92) + '(bu'} 3"
            yield from filled(block[point.end():])
        elif block.startswith("|"):
            yield from as_list(block)
        elif block:
            yield ".PP"
            yield from filled(block)


def section(title, lines):
    """A title begins a paragraph itself."""
    lines = list(lines)
    return [f".SH {escaped(title)}", *(lines[1:] if lines[:1] == [".PP"] else lines)]


def verbatim(text):
    return [".EX", *("\\&" * line.startswith((".", "'")) + escaped(line) for line in text.splitlines()), ".EE"]


# ---- headers ----

def uncommented(text):
    return re.sub(r"^ \* ?", "", text, flags=re.M).strip()


def entry_of(header, comment, code):
    text, *tags = TAG.split(uncommented(comment))
    plain = " ".join(re.sub(r"RQL_API |RQL_MUST_CHECK |static inline |\\\n", "", code).split())
    return Entry((NAME.search(code)[1],), plain, header, text.strip(), list(zip(tags[::2], tags[1::2])))


def read_header(path):
    """What the file says of itself, its functions, and all else that it declares."""
    text, functions, others = path.read_text(), [], []
    about = re.search(r"@brief (.*?)\n \*/", text, re.S)[1]
    for comment, code in DOCUMENTED.findall(text):
        entry = None if "@file" in comment else entry_of(f"rql/{path.name}", comment, code)
        if entry and code.startswith(("RQL_API", "static inline")):
            functions.append(entry)
        elif entry and code.startswith("#define rql_"):
            # The macro that hands on the size of a struct is what programs call.
            function = functions.pop()
            macro = entry.code.split("#define ")[1].split(")")[0] + ")"
            functions.append(function._replace(names=entry.names + function.names,
                                               code=f"{macro}\n{function.code}"))
        elif entry:
            others.append(entry)
    if len(functions) != len(re.findall("^(?:RQL_API|static inline)", text, re.M)):
        sys.exit(f"{path}: a function has no comment of its own")
    return uncommented(about), functions, others


# ---- pages ----

def page(name, number, names, purpose, *sections):
    lines = [f'.TH {escaped(name.upper())} {number} {DATE} "librql {VERSION}"', ".nr HY 0", ".nh", ".ad l",
             ".SH NAME", *filled(", ".join(names) + " - " + purpose)]
    return "\n".join(lines + sum(sections, [])) + "\n"


def see_also(names):
    return section("SEE ALSO", [",\n".join(f".BR {escaped(name)} ({number})" for name, number in names)])


def declared(code):
    """Each declaration in lines that fit, which end behind a parameter."""
    for part in code.splitlines():
        head, _, rest = part.partition("(")
        yield from (line.replace("\xa0", " ") for line in textwrap.wrap(
            head + "(" + re.sub("(?<!,) ", "\xa0", rest) + ";", 72, subsequent_indent=" " * 8))


def function_page(entry, known):
    called = {name for name in re.findall(r"rql_\w+(?=\(\))", entry.text + str(entry.tags)) if name in known}
    parts = {}
    for tag, text in entry.tags:
        name, _, meaning = text.partition(" ")
        lines = item(f"@p {name}" if tag == "param" else f"::{name}", meaning) if tag in ("param", "retval") \
            else blocks(text)
        parts.setdefault(TITLES[tag], []).extend(lines)
    return page(entry.names[0], 3, entry.names, entry.purpose(),
                section("SYNOPSIS", [f".B #include <{entry.header}>", ".PP"]
                        + verbatim("\n".join(declared(entry.code)))),
                section("DESCRIPTION", blocks(entry.text)),
                *(section(title, lines) for title, lines in parts.items()),
                see_also([("librql", 3), *((name, 3) for name in sorted(called - set(entry.names)))]))


def overview(headers, readme):
    example = re.search(r"^```c\n(.*?)^```$", readme, re.M | re.S)[1]
    sections = [section("SYNOPSIS", [".B #include <rql/rql.h>", ".br", ".B #include <rql/admin.h>", ".PP",
                                     *verbatim("cc ... $(pkg-config --cflags --libs rql)")]),
                section("EXAMPLES", verbatim(example))]
    for name, (about, functions, others) in headers.items():
        lines = list(blocks(about))
        for entry in functions:
            lines += item(entry.names[0] + "()", entry.purpose() + ".")
        for entry in others:
            lines += item("::" + entry.names[0], entry.purpose() + ".")
        sections.append(section(f"<{name}>", lines))
    return page("librql", 3, ["librql"], "Fair distributed locks on Redis and Valkey", *sections,
                see_also([("rql", 1), ("rql", 7)]))


def name_of(path):
    return "rql-" + path.stem.replace("_", "-")


def long_page(path):
    """A page of section 7. It begins with its title; what is before the first heading is its description."""
    title, _, text = path.read_text().partition("\n")
    about, *parts = re.split(r"^(?=## )", text.partition(REST)[0], flags=re.M)
    return page(name_of(path), 7, [name_of(path)], title.removeprefix("# "),
                section("DESCRIPTION", blocks(about)),
                *(section(part[3:part.index("\n")].upper(), blocks(part[part.index("\n"):])) for part in parts),
                see_also([("rql", 1), ("rql", 7), ("librql", 3)]))


def map_page(pages, protocol):
    """rql(7). "(4)" leads to a rule of the protocol."""
    keys = re.sub(r" \(\d+\)", "", KEYS.search(protocol.read_text())[1])
    lines = sum((list(item(f"`{name_of(path)}` (7)", path.read_text().partition("\n")[0].removeprefix("# ") + "."))
                 for path in pages), [])
    return page("rql", 7, ["rql"], "The pages of librql, and the keys on the server", section("PAGES", lines),
                section("KEYS", blocks(keys)),
                see_also([("rql", 1), *((name_of(path), 7) for path in pages), ("librql", 3)]))


def main(man3, man7, readme, protocol, *files):
    files = [pathlib.Path(name) for name in files]
    pages = [path for path in files if path.suffix == ".md"]
    headers = {f"rql/{path.name}": read_header(path) for path in files if path.suffix == ".h"}
    functions = [entry for _, of_header, _ in headers.values() for entry in of_header]
    known = {name for entry in functions for name in entry.names}
    folder, of_pages = pathlib.Path(man3), pathlib.Path(man7)
    for made in folder, of_pages:
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
    (folder / "librql.3").write_text(overview(headers, pathlib.Path(readme).read_text()))
    for entry in functions:
        (folder / f"{entry.names[0]}.3").write_text(function_page(entry, known))
        for name in entry.names[1:]:
            (folder / f"{name}.3").write_text(f".so man3/{entry.names[0]}.3\n")
    (of_pages / "rql.7").write_text(map_page(pages, pathlib.Path(protocol)))
    for path in pages:
        (of_pages / f"{name_of(path)}.7").write_text(long_page(path))


VERSION, DATE = sys.argv[1:3]
main(*sys.argv[3:])
