"""All mutants of a tree in one build: each is compiled in, and a variable of the environment chooses one.

An expression becomes `(rqlm(7) ? (the mutant) : (the expression))`, a statement `if (rqlm(7)) {} else { it }`. Text is
only inserted, so that mutants inside of others need no care, and lines keep their numbers. A unit of the build reads
MUTANT_CHOSEN once, when the program starts. MUTANT_MAP names a file in which each number that is asked for is noted.
(Their names do not begin with RQL_, because the tests of the program rql drop such variables.)
"""
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

HEADER = "src/rql_mutant.h"
TEXT = """#ifndef RQL_MUTANT_H
#define RQL_MUTANT_H

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((weak, visibility("hidden"))) int rqlm_chosen;
__attribute__((weak, visibility("hidden"))) unsigned char *rqlm_map;

static inline int rqlm(int number)
{
    if (__builtin_expect(rqlm_map != NULL, 0)) {
        rqlm_map[number] = 1;
    }
    return number == rqlm_chosen;
}

__attribute__((constructor(101), unused)) static void rqlm_begin(void)
{
    const char *chosen = getenv("MUTANT_CHOSEN");
    const char *path = rqlm_map ? NULL : getenv("MUTANT_MAP");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

    rqlm_chosen = chosen ? atoi(chosen) : 0;
    if (fd >= 0) {
        void *map = mmap(NULL, RQL_MUTANT_COUNT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        rqlm_map = map == MAP_FAILED ? NULL : map;
        close(fd);
    }
}

#endif
"""
CONDITIONS = {"negate", "return"}  # whose mutant may be of another type


def write_header(tree, count):
    (tree / HEADER).write_text(TEXT.replace("RQL_MUTANT_COUNT", str(count + 1)))


def _around(mutant, number):
    """What is inserted in front of it and behind it, on one line."""
    instead = " ".join(mutant.instead.split("\n"))
    if not mutant.instead:
        return f"if (rqlm({number})) {{}} else {{ ", " }"
    if mutant.operator in CONDITIONS and instead.startswith("!("):
        return f"(rqlm({number}) ? {instead} : !!(", "))"
    return f"(rqlm({number}) ? ({instead}) : (", "))"


def instrumented(text, mutants):
    """A file's text with (number, mutant) of each compiled in."""
    inserted = []
    for order, (number, mutant) in enumerate(mutants):
        before, behind = _around(mutant, number)
        inserted.append(((mutant.start, 1, -mutant.end, order), before))
        inserted.append(((mutant.end, 0, -mutant.start, -order), behind))
    header = os.path.relpath(HEADER, os.path.dirname(mutants[0][1].path))
    parts, last = [f'#include "{header}"\n#line 1\n'], 0
    for (at, *_), words in sorted(inserted):
        parts += [text[last:at], words]
        last = at
    return "".join(parts) + text[last:]


class Check:
    """Which mutants the compiler accepts. It looks at a file in the tree, which is put back."""

    def __init__(self, tree, commands):
        self.tree, self.commands = tree, commands  # path -> (folder, words, source) that compile it

    def faults(self, path, text):
        """The numbers of the lines that the compiler complains of, and its words."""
        folder, words, source = self.commands[path]
        original = (self.tree / path).read_bytes()
        (self.tree / path).write_text(text, "latin-1")
        try:
            command = [*words, "-w", "-fsyntax-only", "-fdiagnostics-color=never", str(self.tree / source)]
            done = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  check=False)
        finally:
            (self.tree / path).write_bytes(original)
        lines = re.findall(r"^[^:\n]*" + re.escape(path) + r":(\d+):\d+: (?:fatal )?error:", done.stderr, re.M)
        return {int(line) for line in lines} or ({0} if done.returncode else set()), done.stderr

    def accepted(self, path, text, mutants):
        """Without those in lines that do not compile with them. Most do; what is left is looked at again."""
        while mutants:
            lines, told = self.faults(path, instrumented(text, list(enumerate(mutants, 1))))
            if not lines:
                break
            kept = [one for one in mutants if not lines & set(_lines_of(text, one))]
            if len(kept) == len(mutants):
                raise ValueError(f"{path} does not compile: {told[:2000]}")
            mutants = kept
        return mutants

    def all_accepted(self, texts, by_path, jobs):
        """path -> its mutants that compile. Headers first, each while nothing else is compiled."""
        found = {path: self.accepted(path, texts[path], some) for path, some in by_path.items() if path.endswith(".h")}
        rest = [path for path in by_path if path not in found]
        with ThreadPoolExecutor(jobs) as pool:
            found.update(zip(rest, pool.map(lambda path: self.accepted(path, texts[path], by_path[path]), rest)))
        return found


def _lines_of(text, mutant):
    first = text.count("\n", 0, mutant.start) + 1
    return range(first, first + text.count("\n", mutant.start, mutant.end) + 1)
