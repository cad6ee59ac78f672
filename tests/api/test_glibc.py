#!/usr/bin/env python3
"""check_glibc.py finds what is newer than glibc 2.28, by name and by version.

Usage: test_glibc.py COMPILER        prints TAP. Standard library only.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))

import tap  # noqa: E402
from checks import LeftOut, check_equal, check_in  # noqa: E402

COMPILER = sys.argv[1]
CHECK = ROOT / "tests/api/check_glibc.py"
# In glibc since 2.34, with these arguments in every version.
NEWER = "int close_range(unsigned, unsigned, int);\nint main(void) { return close_range(9, 9, 0); }\n"


def check_program(source, *words):
    """What the check says of a program: (exit status, output). The path of the program is left out."""
    with tempfile.TemporaryDirectory(prefix="rql-glibc-") as folder:
        program = pathlib.Path(folder, "a")
        subprocess.run([COMPILER, "-x", "c", "-", "-o", program], input=source, text=True, check=True)
        done = subprocess.run([sys.executable, CHECK, *words, program], text=True, capture_output=True, check=False)
        return done.returncode, done.stdout.replace(f"{program}: ", "")


def need_glibc(major, minor):
    """Which of its versions the linker takes depends on the machine."""
    if tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")[:2])) < (major, minor):
        raise LeftOut(f"no glibc {major}.{minor}")


def test_a_name_that_is_old_passes():
    check_equal(check_program("int main(void) { return 0; }\n", COMPILER), (0, "\n"))


def test_a_name_that_is_newer_is_found():
    need_glibc(2, 34)
    check_equal(check_program(NEWER, COMPILER), (1, "close_range is of glibc 2.34\n"))


def test_a_version_that_is_newer_is_found():
    need_glibc(2, 34)
    code, said = check_program("int main(void) { return 0; }\n", "--by-version")
    check_equal((code, said.splitlines()[0]), (1, "glibc 2.34"))
    check_in("__libc_start_main is of glibc 2.34\n", said)


if __name__ == "__main__":
    tap.main(n_own=1)
