"""In our pages: what a link leads to exists, and so do the tests that tests/README.md names."""
import re

PAGES = ("README.md", ".github/*.md", "bench/README.md", "include/rql/*.md", "lua/*.md", "src/README.md", "tests/README.md",
          "tests/golden/README.md")
NAMED_TEST = re.compile(r"(?<![/\w])(unit|server|cli|budget)/([a-z_]+)\b(?![./])")


def complaints(root):
    for page in sorted(path for pattern in PAGES for path in root.glob(pattern)):
        text = page.read_text(encoding="utf-8")
        name = page.relative_to(root).as_posix()
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            if not (page.parent / target).exists():
                yield f"{name}: there is no {target}"
        if name == "tests/README.md":
            for folder, test in NAMED_TEST.findall(text):
                if not any(page.parent.glob(f"{folder}/test_{test}.*")):
                    yield f"{name}: there is no test {folder}/{test}"
