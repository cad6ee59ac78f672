#!/usr/bin/env python3
"""Lines and branches that the tests of a build tree have passed, by folder. Fails below the bounds. Not counted are the
ways of exceptions, and of our own checks that end the process. Usage: ROOT BUILD-TREE"""
import collections
import json
import pathlib
import subprocess
import sys

BOUNDS = {folder: (97.0, 88.0) for folder in ("src/lock", "src/net", "src/wire")}


def passed(root, tree):
    """How often each line, and each branch, in all objects that it is in."""
    lines, branches = collections.Counter(), collections.Counter()
    data = [str(path) for path in tree.glob("src/**/*.gcda")]
    said = subprocess.run(["gcov", "--json-format", "--branch-probabilities", "--stdout", *data], cwd=tree, check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    for file in (file for words in said.splitlines() for file in json.loads(words)["files"]):
        path = (tree / file["file"]).resolve()
        if root in path.parents and tree not in path.parents:
            text = path.read_text("utf-8").splitlines()
            for line in file["lines"]:
                at = path, line["line_number"]
                lines[at] += line["count"]
                ways = [] if "rqli_must" in text[at[1] - 1] else [way for way in line["branches"] if not way["throw"]]
                branches.update({(*at, line.get("function_name"), i): way["count"] for i, way in enumerate(ways)})
    return lines, branches


def main():
    root, tree = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    counted = collections.defaultdict(lambda: ([], []))
    for i, counts in enumerate(passed(root, tree)):
        for (path, *_), count in counts.items():
            counted[str(path.parent.relative_to(root))][i].append(count > 0)
    figures = {folder: [100 * sum(met) / max(len(met), 1) for met in both] for folder, both in counted.items()}
    for folder in sorted(figures):
        print("     {}: {:.1f} % of lines, {:.1f} % of branches".format(folder, *figures[folder]))
    return any(got < least for folder, bounds in BOUNDS.items() for got, least in zip(figures[folder], bounds))


if __name__ == "__main__":
    sys.exit(main())
