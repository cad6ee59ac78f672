"""What tests demand, and how they wait. Standard library only."""
import os
import time

SLOW = int(os.environ.get("RQL_TEST_SLOW", "1"))  # a factor for all times, under valgrind
PATIENCE_S = 20 * SLOW


class Failure(AssertionError):
    """Something that a test demands does not hold."""


class LeftOut(Exception):
    """The test cannot run here because something that it needs is missing."""


def check(holds, what):
    if not holds:
        raise Failure(what)


def check_equal(got, wanted, what=""):
    if got != wanted:
        raise Failure(f"{what}: got {got!r}, wanted {wanted!r}")


def check_in(part, whole):
    if part not in whole:
        raise Failure(f"{part!r} is not in {whole!r}")


def wait_until(condition, what, patience_s=PATIENCE_S):
    """Waits for a condition and returns its value; a test never sleeps for a fixed time. The longer it waits, the less
    often it looks."""
    begun = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited_s = time.monotonic() - begun
        if waited_s > patience_s:
            raise Failure("never happened: " + what)
        time.sleep(min(max(waited_s / 10, 0.001), 0.02))
