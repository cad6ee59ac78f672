"""Words that do not belong: wall clocks, unsafe text functions, unfinished work."""
import re

from source import code_only, files

PURE = "src/lock/request.c src/lock/lease.c src/net/clock_offset.c"
# Where -> (what, why)
CALLS = {
    "src swarm": {
        "time gettimeofday ftime localtime gmtime": "no wall clock: it jumps",
        "sprintf vsprintf strcpy strcat strtok gets": "no bounds, or hidden state",
        "atoi atol atoll": "cannot report an error",
        "rand srand random drand48": "base/random.h",
        "system popen": "no shell",
        "sleep usleep": "wait for a condition",
    },
    PURE: {
        "malloc calloc realloc free strdup": "a pure state machine owns no memory",
        "clock_gettime rqli_now_us nanosleep": "time is an argument",
        "rqli_random_u64 rqli_random_bytes": "a random number is an argument",
    },
}
# The program of the command line may talk, end itself and show dates.
# And the server's clock is compared with this machine's, to say so.
FREE = {"src/cli": {"localtime", "gmtime", "time", "CLOCK_REALTIME"}, "src/admin/diagnose_clock.c": {"CLOCK_REALTIME"}}
LIBRARY = {"printf puts putchar perror": "the library never prints", "exit": "nor ends the process"}
NAMES = {
    "src swarm": {"CLOCK_REALTIME": "no wall clock: it jumps", "goto": "scopes clean up (scope.h)"},
    PURE: {r"pthread_\w+": "a pure state machine knows no thread"},
}
TEXT = {
    "src swarm include tests bench lua": {r"\bTODO\b|\bFIXME\b|\bXXX\b": "finish it or leave it out"},
    "include src swarm lua tests bench": {
        r"\b(?!README\b)\w+\.md\b|\bF-\d+": "say the reason itself",
    },
}


def in_file(root, path, patterns, text):
    relative = path.relative_to(root).as_posix()
    for pattern, why in patterns:
        for match in re.finditer(pattern, text):
            word = match.group(0).rstrip("( ")
            if not any(relative.startswith(f) and word in words for f, words in FREE.items()):
                line = text.count("\n", 0, match.start()) + 1
                yield f"{relative}:{line}: {word}: {why}"


def call_patterns(table):
    return [(rf"(?<![\w.>])(?:{words.replace(' ', '|')})\s*\(", why) for words, why in table.items()]


def complaints(root):
    for folders, table in CALLS.items():
        for path in files(root, folders.split()):
            yield from in_file(root, path, call_patterns(table), code_only(path.read_text()))
    for path in files(root, ["src", "swarm"]):
        if not path.is_relative_to(root / "src/cli") and path.name != "must.c":
            yield from in_file(root, path, call_patterns(LIBRARY), code_only(path.read_text()))
    for folders, table in NAMES.items():
        for path in files(root, folders.split()):
            patterns = [(rf"\b{name}\b", why) for name, why in table.items()]
            yield from in_file(root, path, patterns, code_only(path.read_text()))
    for folders, table in TEXT.items():
        for path in files(root, folders.split(), ("*.c", "*.h", "*.lua", "*.def")):
            yield from in_file(root, path, table.items(), path.read_text())
