"""Reading C sources: for the checks."""
import functools
import pathlib
import re


def files(root, folders, patterns=("*.c", "*.h")):
    """The files named, and all sources below the folders named that exist, sorted."""
    found = []
    for name in folders:
        path = pathlib.Path(root) / name
        found += [path] if path.is_file() else []
        for pattern in patterns:
            found += path.rglob(pattern)
    return sorted(found)


def _blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def comments_of(text):
    """The comments, with the marks around them."""
    return [match.group(0) for match in COMMENT_OR_STRING.finditer(text) if match.group(0)[0] == "/"]


@functools.cache  # several checks read each file
def code_only(text, strings=False):
    """The text with comments (and the insides of strings) blanked; line numbers stay."""

    def keep_or_blank(match):
        is_string = match.group(0)[0] in "\"'"
        return match.group(0) if is_string and strings else _blank(match)

    return COMMENT_OR_STRING.sub(keep_or_blank, text)


def includes(path):
    """(line number, '<' or '"', target) of each include."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+([<"])([^>"]+)[>"]', line)
        if match:
            yield number, *match.groups()
