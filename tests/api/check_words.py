"""Words that do not belong: wall clocks, unsafe text functions, names of a system, unfinished work."""
import re

from source import code_only, files


def calls(names):
    return rf"(?<![\w.>])(?:{names.replace(' ', '|')})\s*\("


# Where -> (pattern, why not)
IN_CODE = {
    "src swarm": (
        (calls("time gettimeofday ftime localtime gmtime") + r"|\bCLOCK_REALTIME\b", "no wall clock: it jumps"),
        (calls("sprintf vsprintf strcpy strcat strtok gets"), "no bounds, or hidden state"),
        (calls("atoi atol atoll"), "cannot report an error"),
        (calls("rand srand random drand48"), "base/random.h"),
        (calls("system popen"), "no shell"),
        (calls("sleep usleep"), "wait for a condition"),
        (calls("printf puts putchar perror"), "the library never prints"),
        (calls("exit"), "nor ends the process"),
        (r"\bgoto\b", "scopes clean up (scope.h)"),
        (r"<linux/|\b(?:eventfd\w*|EFD_\w+|epoll_\w+|signalfd\w*|SFD_\w+|timerfd_\w+|pidfd_\w+|FUTEX_\w+|SYS_\w+|syscall|"
         r"prctl|PR_\w+|getrandom|madvise|MADV_\w+|SOCK_CLOEXEC|SOCK_NONBLOCK|accept4|SO_PEERCRED|SO_PASSCRED|ucred|"
         r"SCM_\w+|__WCLONE|CLOCK_BOOTTIME)\b", "base/os.h names the system, and cli/os.h for the program"),
    ),
    "src/lock/request.c src/lock/lease.c src/net/conn/clock_offset.c": (
        (calls("malloc calloc realloc free strdup"), "a pure state machine owns no memory"),
        (calls("clock_gettime rqli_now_us nanosleep"), "time is an argument"),
        (calls("rqli_random_u64 rqli_random_bytes"), "a random number is an argument"),
        (r"\bpthread_\w+", "a pure state machine knows no thread"),
    ),
}
# Also in comments, and in scripts.
IN_TEXT = {
    "src swarm include tests bench lua": (
        (r"\bTODO\b|\bFIXME\b|\bXXX\b", "finish it or leave it out"),
        (r"\b(?!README\b|(?<=lua/)optional\b)\w+\.md\b|\bF-\d+", "say the reason itself"),
    ),
}
# The program of the command line may talk, end itself and show dates. The server's clock is compared with this
# machine's, to say so.
FREE = {"src/cli": {"localtime", "gmtime", "time", "CLOCK_REALTIME", "printf", "puts", "putchar", "perror", "exit"},
        "src/base/must.c": {"printf", "exit"},
        "src/base/os.": {"<linux/", "eventfd", "eventfd_t", "eventfd_read", "eventfd_write", "EFD_CLOEXEC", "EFD_NONBLOCK",
                         "FUTEX_WAIT_PRIVATE", "FUTEX_WAKE_PRIVATE", "SYS_futex", "SYS_futex_time64", "SYS_gettid",
                         "SYS_tgkill", "syscall", "getrandom", "madvise", "MADV_DONTDUMP", "MADV_WIPEONFORK", "SOCK_CLOEXEC",
                         "SOCK_NONBLOCK", "CLOCK_BOOTTIME"},
        "src/cli/os.": {"eventfd", "eventfd_t", "eventfd_read", "eventfd_write", "EFD_CLOEXEC", "EFD_NONBLOCK", "signalfd",
                        "signalfd_siginfo", "SFD_CLOEXEC", "SFD_NONBLOCK", "SYS_pidfd_open", "SYS_pidfd_send_signal",
                        "SYS_close_range", "SYS_clone", "SYS_getdents64", "syscall", "prctl", "PR_SET_NAME", "PR_SET_PDEATHSIG",
                        "PR_SET_CHILD_SUBREAPER", "SOCK_CLOEXEC", "SOCK_NONBLOCK", "accept4", "SO_PEERCRED", "SO_PASSCRED",
                        "ucred", "SCM_CREDENTIALS", "__WCLONE", "CLOCK_BOOTTIME"},
        "src/cli/serve/http.c": {"epoll_fd"}}  # a field of libmicrohttpd


def in_file(relative, text, rules):
    for pattern, why in rules:
        for match in re.finditer(pattern, text):
            word = match.group(0).rstrip("( ")
            if not any(relative.startswith(place) and word in words for place, words in FREE.items()):
                yield f"{relative}:{text.count(chr(10), 0, match.start()) + 1}: {word}: {why}"


def complaints(root):
    for table, patterns, read in ((IN_CODE, ("*.c", "*.h"), code_only),
                                  (IN_TEXT, ("*.c", "*.h", "*.lua", "*.def"), lambda text: text)):
        for folders, rules in table.items():
            for path in files(root, folders.split(), patterns):
                yield from in_file(path.relative_to(root).as_posix(), read(path.read_text()), rules)
