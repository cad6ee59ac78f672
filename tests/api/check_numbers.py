"""The lines of a source file. clang-tidy counts those of a function, and its parameters."""
from source import files

MAX_LINES = 500


def complaints(root):
    for path in files(root, ["src", "swarm", "bench"]):
        n_lines = path.read_text().count("\n")
        if n_lines > MAX_LINES:
            yield f"{path.relative_to(root).as_posix()}: {n_lines} lines, over {MAX_LINES}"
