"""Each promise of include/rql/guarantees.md names the tests that hold it, and they exist.

A promise is a point of the lists under a heading "What ...", and begins with its name. A row of the table at the end of
the page has the name (none: that of the row before), words of the promise, and the tests of what they say: `FOLDER/PROGRAM: sentence, sentence; ...`, where a sentence is the name of the function in
tests/FOLDER/test_PROGRAM.py, test_PROGRAM.c or PROGRAM.py, without the word test_. Each sentence of a promise has a row,
but for those that begin with "Condition:"."""
import re

PAGE = "include/rql/guarantees.md"
TITLE = "## Which tests hold each promise\n"
LISTED = re.compile(r"^## What [^\n]+\n(.*?)(?=^## |\Z)", re.M | re.S)
POINT = re.compile(r"^\* (.*(?:\n  .*)*)", re.M)
NAMED = re.compile(r"\*\*(.+?)\.?\*\*\s+(.*)")
END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`(])")
PROGRAMS = ("test_{}.py", "test_{}.c", "{}.py")
FUNCTION = r"^(@.*\n)*(?: *def (test_)?{0}\(|TEST(?:_BETWEEN)?\({0}\b)"


def promises(page):
    """Name -> text, in the order of the page; what has no name has None."""
    for region in LISTED.findall(page):
        for point in POINT.findall(region):
            named = NAMED.fullmatch(" ".join(point.split()))
            yield named.groups() if named else (None, point)


def rows(page):
    """(name, words, tests) of the table."""
    name = None
    for line in page.partition(TITLE)[2].splitlines():
        if line.startswith("|") and not re.match(r"\| Promise |\|---", line):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            name = cells[0] or name
            yield name, cells[1], cells[2]


def sentences(text):
    """(begin, end) of each that needs a test."""
    begin = 0
    for end in [match.start() for match in END_OF_SENTENCE.finditer(text)] + [len(text)]:
        if not text[begin:end].strip().startswith("Condition:"):
            yield begin, end
        begin = end


def is_test(name, file, text):
    """Returns whether the file defines the test, and runs it: in a Python test program its name begins with test_, it
    has a decorator, or its name occurs once more. A C compiler warns of unused functions by itself."""
    found = re.search(FUNCTION.format(re.escape(name)), text, re.M)
    if not found or not re.fullmatch(r"test_.*\.py", file):
        return bool(found)
    return bool(found[1] or found[2]) or len(re.findall(rf"\b{name}\b", text)) > 1


def complaints_of_tests(root, cell):
    """The named tests that do not exist."""
    found = re.findall(r"([a-z]+)/(\w+): ([\w, ]+)", cell)
    if not found or "; ".join(f"{folder}/{program}: {names}" for folder, program, names in found) != cell:
        yield f"'{cell}' does not name tests"
    for folder, program, names in found:
        files = [root / "tests" / folder / pattern.format(program) for pattern in PROGRAMS]
        texts = {path.name: path.read_text(encoding="utf-8") for path in files if path.is_file()}
        if not texts:
            yield f"there is no program {folder}/{program}"
            continue
        for name in names.split(", "):
            if not any(is_test(name, file, text) for file, text in texts.items()):
                yield f"{folder}/{program} has no test {name}"


def complaints_of_promise(name, text, quotes):
    """Words that are not there, and sentences without words."""
    spans = []
    for words in quotes:
        begin = text.find(words)
        if begin < 0:
            yield f"{name} does not say '{words}'"
        spans.append((begin, begin + len(words)))
    for begin, end in sentences(text):
        if not any(first < end and last > begin for first, last in spans):
            yield f"{name}: no test is named for '{text[begin:end].strip()}'"


def complaints(root):
    page = (root / PAGE).read_text(encoding="utf-8")
    table = list(rows(page))
    known = list(promises(page))
    for name, text in known:
        if not name:
            yield f"a promise without a name: {text}"
        elif [other for other, _ in known].count(name) > 1:
            yield f"two promises are called {name}"
        else:
            yield from complaints_of_promise(name, text, [words for of, words, _ in table if of == name])
    for name, _, tests in table:
        if name not in dict(known):
            yield f"the table has {name}, which is no promise"
        yield from (f"{name}: {complaint}" for complaint in complaints_of_tests(root, tests))
