#!/usr/bin/env python3
"""A program that was linked with the library of abi.xml works with this one: abidiff finds additions alone.

Usage: check_abi.py [--write] LIBRARY HEADERS
The library has to have its debugging information. --write renews abi.xml: with each release, or where a change is
meant.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from xml.etree import ElementTree

HERE = pathlib.Path(__file__).resolve().parent
DUMP = HERE / "abi.xml"
SKIPPED = 77
TOOLS = "abidw", "abidiff"
# As short as may be: 160 KB in place of a megabyte.
SHORT = ("--exported-interfaces-only", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-elf-needed",
         "--no-parameter-names", "--no-write-default-sizes", "--drop-private-types")
# abidw takes a type for public if its file has the name of a public header. Structs that programs have pointers to, and
# no more, are in such files, too; this label makes them private.
PRIVATE = """[suppress_type]
  label = Artificial private types suppression specification
  name_regexp = ^(rqli_.*|uv_.*|{})$
  drop = yes
"""

# What may grow, at its end. Of the first a program says how large its own is, in their first member or beside them. The
# others the library alone makes, one by one: programs read them by pointers, and have none of their own, nor arrays.
# (A suppression of abidiff's for such growth would pass over other changes of these structs, too.)
GROW = re.compile(r"rql_(((lock_|series_|sweep_|swarm_)?options|stats|server_info)"
                  r"|((client|lock|queue)_info|host_info_list|event|report|zombies))")


def handles(headers):
    """Structs whose members no header tells."""
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(pathlib.Path(headers).glob("*.h")))
    return sorted(set(re.findall(r"^typedef struct (\w+) \1;", text, re.M)) - set(re.findall(r"struct (\w+) \{", text)))


def dump_of(library, headers):
    with tempfile.NamedTemporaryFile("w", suffix=".supp") as private:
        private.write(PRIVATE.format("|".join(handles(headers))))
        private.flush()
        return subprocess.run(["abidw", *SHORT, "--headers-dir", headers, "--suppressions", private.name, library],
                              check=True, capture_output=True, text=True).stdout


def form_of(dump):
    """Of which version of abidw, for which machine."""
    return re.match(r"<abi-corpus version='(.*?)' architecture='(.*?)'", dump).groups()


def structs_of(tree):
    return {struct.get("name"): struct for struct in tree.iter("class-decl")}


def fields_of(struct):
    """Their places and names."""
    return [(int(member.get("layout-offset-in-bits")), member.find("var-decl").get("name"))
            for member in struct.findall("data-member")]


def shrink(struct, before):
    """To what there was of it."""
    end = max(place for place, _ in fields_of(before))
    for member in struct.findall("data-member"):
        if int(member.get("layout-offset-in-bits")) > end:
            struct.remove(member)
    struct.set("size-in-bits", before.get("size-in-bits"))


def renamed(old, new):
    """Two fields of one type that have changed places are two harmless new names to abidiff."""
    for name in sorted(old.keys() & new.keys()):
        now = dict(fields_of(new[name]))
        for place, field in fields_of(old[name]):
            if now.get(place, field) != field:
                yield f"{name}: {now[place]} lies where {field} was\n"


def differences(old, new):
    """What is more than an addition."""
    trees = [ElementTree.ElementTree(ElementTree.fromstring(text)) for text in (old, new)]
    before, after = map(structs_of, trees)
    for name in filter(GROW.fullmatch, before.keys() & after.keys()):
        shrink(after[name], before[name])
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/{name}.xml" for name in ("old", "new")]
        for tree, path in zip(trees, paths):
            tree.write(path)
        found = subprocess.run(["abidiff", "--no-added-syms", *paths], check=False, capture_output=True, text=True)
    return (found.stdout + found.stderr if found.returncode else "") + "".join(renamed(before, after))


def missing_tool():
    return next((tool for tool in TOOLS if not shutil.which(tool)), None)


def main(arguments):
    library, headers = [word for word in arguments if word != "--write"]
    if missing_tool():
        print(f"skipped: there is no {missing_tool()} in PATH (Debian: abigail-tools)")
        return SKIPPED
    dump = dump_of(library, headers)
    if "--write" in arguments:
        DUMP.write_text(dump, encoding="utf-8")
        return 0
    kept = DUMP.read_text(encoding="utf-8")
    if form_of(kept) != form_of(dump):
        print(f"skipped: abi.xml has another form, {form_of(kept)} in place of {form_of(dump)}")
        return SKIPPED
    found = differences(kept, dump)
    if found:
        print(found, "If that is meant: ", " ".join([sys.argv[0], "--write", library, headers]), sep="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
