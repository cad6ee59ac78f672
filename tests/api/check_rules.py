"""The rules of the protocol: each number is there once, and a comment that cites a rule names the page that has it."""
import re

from source import files

PAGES = ("lua/README.md", "lua/optional.md")
RULE = re.compile(r"^\* \*\*(\d+)\. ", re.M)
CITATION = re.compile(r"\b(lua/\w+\.md)`?,?[\s*#-]+(\d+)(?:(?:,| and| to)[\s*#-]+(\d+))?")
CITING = ("*.c", "*.h", "*.lua", "*.py", "*.md", "*.toml")


def complaints(root):
    pages = {name: [int(number) for number in RULE.findall((root / name).read_text(encoding="utf-8"))]
             for name in PAGES if (root / name).exists()}
    numbers = sorted(sum(pages.values(), []))
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"{' and '.join(pages)}: the numbers of the rules are {numbers}"
    for path in files(root, ["src", "swarm", "include", "tests", "bench", "lua", "CHANGELOG.md"], CITING):
        for page, *cited in CITATION.findall(path.read_text(encoding="utf-8")):
            for number in filter(None, cited):
                if int(number) not in pages.get(page, ()):
                    yield f"{path.relative_to(root).as_posix()}: {page} has no rule {number}"
