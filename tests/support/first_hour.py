#!/usr/bin/env python3
"""README's commands for a new machine, as a shell script: what a reader types, in README's order.

Usage: first_hour.py README >SCRIPT    SCRIPT runs in a clone; its arguments are passed to `sh tests/run.sh`

The script reports each command as it begins and stops at the first command that fails. Its last line counts commands:
"N passed, N failed".
"""
import pathlib
import re
import shlex
import sys

HEAD = """\
#!/bin/sh
# Made from README.md by tests/support/first_hour.py.
passed=0

run() {
    printf '%s\n' "$1" | sed '1s/^/bare: /;1q'
    began=$(date +%s)
    sh -c "$1" </dev/null || {
        echo "bare: that failed, exit status $?"
        echo "$passed passed, 1 failed"
        exit 1
    }
    passed=$((passed + 1))
    echo "bare: done in $(($(date +%s) - began)) s"
}

"""


def code_blocks(text, language):
    """Each block of that language with its offset in the text."""
    return [(found.start(), found.group(1)) for found in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)]


def the_one(found, what):
    if not found:
        sys.exit(f"first_hour.py: README has no {what}")
    return found[0]


def commands(text):
    """Whole lines of shell, without remarks. What the program does with scripts of the reader's is not tried."""
    program_at, program = the_one([block for block in code_blocks(text, "c") if "int main" in block[1]], "program in C")
    for start, block in code_blocks(text, "sh"):
        if start < program_at:
            yield from (line.split(" #")[0].rstrip() for line in block.splitlines() if line and not line.startswith("rql "))
    compiler = the_one(re.findall(r"`(cc [^`]*)`", text[program_at:]), "command that compiles the program")
    source = the_one(re.findall(r"\S+\.c\b", compiler), "name for the program")
    yield f"cat >{source} <<'END'\n{program}END\n"
    yield compiler
    yield "RQL_URL=local: ./a.out"
    yield the_one(re.findall(r"^(rql ping)\b", text, re.M), "line for the program")
    yield the_one(re.findall(r"^`(sh tests/run\.sh)`", text, re.M), "command that runs the tests")


def script(text):
    for command in commands(text):
        words = shlex.quote(command.rstrip("\n"))
        yield f'run {words}" $*"\n' if command.startswith("sh tests/run.sh") else f"run {words}\n"
    yield 'echo "$passed passed, 0 failed"\n'


if __name__ == "__main__":
    sys.stdout.write(HEAD + "".join(script(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))))
