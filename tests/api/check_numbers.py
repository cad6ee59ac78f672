"""House numbers: lines of a function and of a file, parameters of a function."""
import re

from source import code_only, files

MAX_LINES, MAX_PARAMETERS, MAX_FILE = 70, 5, 500
# Public by contract: a callback brings its data and its result.
MORE_PARAMETERS = {"rql_with_lock": 7}
# A definition as clang-format leaves it: head at the margin, braces alone at the margin.
FUNCTION = re.compile(r"^(?P<head>[A-Za-z_][^;{}=#]*?\b(?P<name>\w+)\((?P<parameters>[^;{}]*)\)[^;{}()]*)\n\{\n"
                      r"(?P<body>.*?)^\}", re.M | re.S)


def count_parameters(text):
    text = text.strip()
    while re.search(r"\([^()]*\)|\[[^][]*\]", text):
        text = re.sub(r"\([^()]*\)|\[[^][]*\]", "", text)
    return 0 if text in ("", "void") else text.count(",") + 1


def functions(text):
    """(name, first line, lines, parameters) of each definition."""
    for match in FUNCTION.finditer(code_only(text)):
        yield (match["name"], text.count("\n", 0, match.start()) + 1,
               match.group(0).count("\n") + 1, count_parameters(match["parameters"]))


def complaints_of(root, path):
    relative = path.relative_to(root).as_posix()
    text = path.read_text()
    if text.count("\n") > MAX_FILE and not relative.startswith("tests/"):
        yield f"{relative}: {text.count(chr(10))} lines, over {MAX_FILE}"
    for name, line, lines, parameters in functions(text):
        if lines > MAX_LINES:
            yield f"{relative}:{line}: {name}: {lines} lines, over {MAX_LINES}"
        most = MORE_PARAMETERS.get(name, MAX_PARAMETERS)
        if parameters > most:
            yield f"{relative}:{line}: {name}: {parameters} parameters, over {most}"


def complaints(root):
    for path in files(root, ["src", "swarm", "bench", "tests"]):
        yield from complaints_of(root, path)
