#!/usr/bin/env python3
"""A program that was linked with the library of abi.xml works with this one: abidiff finds additions alone (abi.supp).

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
DUMP, ALLOWED = HERE / "abi.xml", HERE / "abi.supp"
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


def fields_of(dump):
    """The name of each field, by its struct and place."""
    return {(struct.get("name"), member.get("layout-offset-in-bits")): member.find("var-decl").get("name")
            for struct in ElementTree.fromstring(dump).iter("class-decl") for member in struct.iter("data-member")}


def renamed(old, new):
    """Two fields of one type that have changed places are two harmless new names to abidiff."""
    now = fields_of(new)
    return "".join(f"{struct}: {now[struct, place]} lies where {name} was\n" for (struct, place), name
                   in fields_of(old).items() if now.get((struct, place), name) != name)


def differences(old, new):
    """What is more than an addition."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder) / name for name in ("old.xml", "new.xml")]
        for path, text in zip(paths, (old, new)):
            path.write_text(text, encoding="utf-8")
        found = subprocess.run(["abidiff", "--no-added-syms", "--suppressions", ALLOWED, *paths], check=False,
                               capture_output=True, text=True)
    return (found.stdout + found.stderr if found.returncode else "") + renamed(old, new)


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
