"""The lines of a source file. clang-tidy counts those of a function, and its parameters.

A file is one noun, which may need as many; to cut it makes two files with one private struct. The longest file of
raft has 1,981 lines, of libuv 2,750, of dbus-broker 2,870, of libvalkey 3,394 and of nats.c 4,994.
"""
from source import files

MAX_LINES = 900


def complaints(root):
    for path in files(root, ["src", "swarm", "bench"]):
        n_lines = path.read_text().count("\n")
        if n_lines > MAX_LINES:
            yield f"{path.relative_to(root).as_posix()}: {n_lines} lines, over {MAX_LINES}"
