"""A generated mistake."""
import re
from collections import Counter
from typing import NamedTuple

TOKEN_MOST = 40  # letters


class Mutant(NamedTuple):
    definition: str  # that it is in, as places have it
    operator: str
    token: str       # what the operator is applied to, in short
    path: str
    start: int       # of what is replaced
    end: int
    instead: str     # empty: a statement is dropped
    number: int = 0  # among those of the same definition, operator and token

    @property
    def name(self):
        """Stands while the code around it changes."""
        return f"{self.definition}:{self.operator}:{self.token}:{self.number}"

    @property
    def what(self):
        return self.name

    @property
    def room(self):
        return self.path.rpartition("/")[0]

    def changed(self, text):
        return text[:self.start] + self.instead + text[self.end:]

    def diff(self, text):
        """Its lines, and one before and behind them."""
        first, last = text.rfind("\n", 0, self.start) + 1, text.find("\n", self.end)
        changed = text[first:self.start] + self.instead + text[self.end:last]
        before, behind = text[:first].splitlines()[-1:], text[last + 1:].splitlines()[:1]
        lines = [f" {line}" for line in before] + [f"-{line}" for line in text[first:last].splitlines()]
        lines += [f"+{line}" for line in changed.splitlines() if line.strip()] + [f" {line}" for line in behind]
        number = text.count("\n", 0, self.start) + 1
        return "\n".join("    " + line for line in [f"{self.path}:{number}", *lines])


def squeezed(text):
    """On one line, and not too long for a name."""
    text = re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", " ", text, flags=re.S)).strip()
    return text if len(text) <= TOKEN_MOST else text[:TOKEN_MOST - 3] + "..."


def numbered(found, sources):
    """In order, each once, with its number, and a file in front of the name of a function that several files have."""
    counts, mutants = Counter(), []
    for one in sorted(set(found), key=lambda one: (one.path, one.start, -one.end, one.operator, one.instead)):
        if len({source.path for source, _ in sources.named(one.definition)}) > 1:
            one = one._replace(definition="/".join(one.path.split("/")[1:]) + ":" + one.definition)
        what = one.definition, one.operator, one.token
        counts[what] += 1
        mutants.append(one._replace(number=counts[what]))
    return mutants
