#!/usr/bin/env python3
"""One compile command for each source file: several targets may compile the same one.

Usage: compile_once.py COMPILE_COMMANDS_JSON    prints the shortened list
"""

import json
import sys


def main(path):
    with open(path, encoding="utf-8") as file:
        commands = json.load(file)
    first = {command["file"]: command for command in reversed(commands)}
    json.dump(list(first.values()), sys.stdout, indent=1)


if __name__ == "__main__":
    main(sys.argv[1])
