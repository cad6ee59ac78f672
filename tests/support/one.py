#!/usr/bin/env python3
"""Runs one test program with all that it needs, which is built first.

Usage: one.py BUILD PROGRAM [WORD...]    what `sh tests/run.sh one` calls

PROGRAM is a test's name, as meson has it, or suite/name as tests/README.md has it. WORDS: only the tests whose titles
contain all of them; of a program in C that they follow each other there.
"""
import os
import subprocess
import sys

from build_tree import tests_in


def tests_called(build, wanted):
    suite, _, name = wanted.rpartition("/")
    return [test for test in tests_in(build)
            if test["name"] in (name, f"test_{name}", f"{suite or 'scenario'}-{name}")
            and (not suite or any(suite in one for one in test["suite"]))]


def find_test(build, wanted):
    found = tests_called(build, wanted)
    if not found:  # its file may be new
        subprocess.run(["meson", "setup", "--reconfigure", build], stdout=subprocess.DEVNULL, check=True)
        found = tests_called(build, wanted)
    if len(found) != 1:
        sys.exit(" ".join([f"{len(found)} tests are called {wanted}", *(test["name"] for test in found)]))
    return found[0]


def main(build, wanted, *words):
    build = os.path.realpath(build)
    test = find_test(build, wanted)
    files = test["files"]
    built = files and subprocess.run(["ninja", "-C", build, *files], stdout=subprocess.PIPE, text=True, check=False)
    if built and built.returncode != 0:
        return built.stdout
    ours = {name: value for name, value in os.environ.items() if name.startswith("RQL_TEST_")}
    command, env = test["cmd"], {**os.environ, **test["env"], **ours}
    if words and command[0].endswith(".py"):
        command = [*command, *words]
    elif words:
        env["RQL_TEST_ONLY"] = f"*{'_'.join(words).replace(' ', '_')}*"
    os.chdir(test["workdir"] or build)
    os.execve(command[0], command, env)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) > 2 else __doc__)
