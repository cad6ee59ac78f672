"""Words that do not belong: wall clocks, unsafe text functions, unfinished work."""
import re

from source import code_only, files


def calls(names):
    return rf"(?<![\w.>])(?:{names.replace(' ', '|')})\s*\("


LIBRARY = "src swarm"
PURE = "src/lock/request.c src/lock/lease.c src/net/clock_offset.c"
# (where, pattern, why not)
IN_CODE = (
    (LIBRARY, calls("time gettimeofday ftime localtime gmtime") + r"|\bCLOCK_REALTIME\b", "no wall clock: it jumps"),
    (LIBRARY, calls("sprintf vsprintf strcpy strcat strtok gets"), "no bounds, or hidden state"),
    (LIBRARY, calls("atoi atol atoll"), "cannot report an error"),
    (LIBRARY, calls("rand srand random drand48"), "base/random.h"),
    (LIBRARY, calls("system popen"), "no shell"),
    (LIBRARY, calls("sleep usleep"), "wait for a condition"),
    (LIBRARY, calls("printf puts putchar perror"), "the library never prints"),
    (LIBRARY, calls("exit"), "nor ends the process"),
    (LIBRARY, r"\bgoto\b", "scopes clean up (scope.h)"),
    (PURE, calls("malloc calloc realloc free strdup"), "a pure state machine owns no memory"),
    (PURE, calls("clock_gettime rqli_now_us nanosleep"), "time is an argument"),
    (PURE, calls("rqli_random_u64 rqli_random_bytes"), "a random number is an argument"),
    (PURE, r"\bpthread_\w+", "a pure state machine knows no thread"),
)
# Also in comments, and in scripts.
IN_TEXT = (
    ("src swarm include tests bench lua", r"\bTODO\b|\bFIXME\b|\bXXX\b", "finish it or leave it out"),
    ("src swarm include tests bench lua", r"\b(?!README\b)\w+\.md\b|\bF-\d+", "say the reason itself"),
)
# The program of the command line may talk, end itself and show dates. The server's clock is compared with this
# machine's, to say so.
FREE = {"src/cli": {"localtime", "gmtime", "time", "CLOCK_REALTIME", "printf", "puts", "putchar", "perror", "exit"},
        "src/base/must.c": {"printf", "exit"}, "src/admin/diagnose_clock.c": {"CLOCK_REALTIME"}}


def complaints(root):
    for rules, patterns, read in ((IN_CODE, ("*.c", "*.h"), code_only),
                                  (IN_TEXT, ("*.c", "*.h", "*.lua", "*.def"), lambda text: text)):
        for folders, pattern, why in rules:
            for path in files(root, folders.split(), patterns):
                relative, text = path.relative_to(root).as_posix(), read(path.read_text())
                for match in re.finditer(pattern, text):
                    word = match.group(0).rstrip("( ")
                    if not any(relative.startswith(place) and word in words for place, words in FREE.items()):
                        yield f"{relative}:{text.count(chr(10), 0, match.start()) + 1}: {word}: {why}"
