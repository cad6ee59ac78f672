"""The lines of a source file, and the functions of rql.h. clang-tidy counts a function's lines and its parameters.

A file is one noun, which may need as many; to cut it makes two files with one private struct. The longest file of
raft has 1,981 lines, of libuv 2,750, of dbus-broker 2,870, of libvalkey 3,394 and of nats.c 4,994.

A worker includes rql.h alone, and a person can read through 60 functions. What only a tool needs is in admin.h.
"""
import re

from source import files

MAX_LINES = 900
WORKER = "rql.h"
MAX_FUNCTIONS = 60


def functions(folder, name, seen):
    """The public functions that a program sees which includes the header."""
    if name in seen or not (folder / name).exists():
        return 0  # version.h is made when the library is built, and declares none
    seen.add(name)
    text = (folder / name).read_text()
    return len(re.findall("^RQL_API", text, re.M)) + sum(
        functions(folder, other, seen) for other in re.findall(r"^#include <rql/(\S+)>", text, re.M))


def complaints(root):
    for path in files(root, ["src", "swarm", "bench"]):
        n_lines = path.read_text().count("\n")
        if n_lines > MAX_LINES:
            yield f"{path.relative_to(root).as_posix()}: {n_lines} lines, over {MAX_LINES}"
    n_functions = functions(root / "include" / "rql", WORKER, set())
    if n_functions > MAX_FUNCTIONS:
        yield f"include/rql/{WORKER}: {n_functions} functions, over {MAX_FUNCTIONS}"
