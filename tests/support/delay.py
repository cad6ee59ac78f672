"""How long processes were ready and did not run. A test that fails then is worth another try. Standard library only."""
import collections
import contextlib
import os

STALL_MS = 500  # of all processes of a test, in all
DELAYED_NS = {}  # by process and thread, as last seen, and "ended"


def delayed_ms(pid):
    """Returns how long the threads of a process were ready and did not run, in all. A process that has ended keeps the
    value that was read last. The value never falls, also where another thread has got the number of one that ended."""
    known = DELAYED_NS.setdefault(pid, collections.Counter())
    for task in tasks_of(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
                now = int(file.read().split()[1])
                if now < known[task]:
                    known["ended"] += known[task]
                known[task] = now
    return sum(list(known.values())) // 1000000


def tasks_of(pid):
    try:
        return os.listdir(f"/proc/{pid}/task")
    except FileNotFoundError:
        return []


def stolen_ms():
    """Returns how long the processors of a virtual machine were ready and did not run, in all."""
    with open("/proc/stat", encoding="ascii") as file:
        return int(file.readline().split()[8]) * 1000 // os.sysconf("SC_CLK_TCK")


def excuse(stalled_ms, least_ms=STALL_MS):
    """Returns why a test is worth another try whose processes were kept from running for so long, or None."""
    if stalled_ms >= least_ms:
        return f"its processes were kept from running for {stalled_ms} ms in all"
    return None
