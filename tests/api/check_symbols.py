#!/usr/bin/env python3
"""Exported symbols == functions marked RQL_API."""
import pathlib
import re
import subprocess
import sys


def declared_functions(headers):
    names = set()
    for path in pathlib.Path(headers).glob("*.h*"):  # and version.h.in
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
        names |= set(re.findall(r"^RQL_API[^;]*?\b(rql_\w+)\s*\(", text, flags=re.M))
    return names


def exported_symbols(library):
    nm = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True)
    rows = [line.split() for line in nm.stdout.splitlines()]
    return {row[-1].split("@")[0] for row in rows if row[-2] != "A"}  # A: the version node itself


def main(library, headers):
    declared, exported = declared_functions(headers), exported_symbols(library)
    for name in sorted(declared ^ exported):
        print(name, "declared but not exported" if name in declared else "exported but not declared")
    if not declared:
        print("no function found in", headers)
    return not declared or declared != exported


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
