"""The main function of every test program in Python: it chooses tests, runs them and reports them in TAP.

A test is a function of the program whose name begins with test_. The rest of the name is its title, a sentence. Tests
that a table makes are added by add(). The command line has the program's own arguments and then words: without words all
tests run, otherwise those whose titles contain all of the words.

Environment: RQL_TEST_SEED            the seed of a test that does something by chance
             RQL_TEST_FIRST_FAILURE   any value: the program ends with its first failure

Standard library only.
"""
import atexit
import concurrent.futures
import contextlib
import faulthandler
import itertools
import os
import random
import re
import shlex
import signal
import sys
import threading
import time
import traceback
from typing import NamedTuple

from checks import LeftOut

CASES = []
AGAIN_S = 5
# What the line that runs a test again passes on from the environment.
KEPT = re.compile("RQL_TEST_(?!AGAIN|FIRST_FAILURE|SEED|SHARE)|LD_LIBRARY_PATH$|.*SAN_OPTIONS$")


class Case(NamedTuple):
    title: str
    function: object
    arguments: tuple = ()


class Result(NamedTuple):
    case: Case
    took_s: float
    trace: str = ""     # of a failure
    left_out: str = ""  # why the test did not run
    seed: int = None    # if the test did something by chance


class Fixture:
    """What the tests of a program share. Each thread that runs tests has a fixture of its own."""
    seed = None

    def run(self, case):
        case.function(*case.arguments)

    def last_words(self):
        """What a failure is reported with."""
        return ""

    def excuse(self, case, n_tries, took_s):
        """Returns why a test that has failed is worth another try, or None."""

    def end(self):
        pass


def add(title, function, *arguments):
    CASES.append(Case(title, function, arguments))


def named_tests():
    """The title and the function of each test that is found by its name and has not been added."""
    added = [case.function for case in CASES]
    for name, function in list(vars(sys.modules["__main__"]).items()):
        if name.startswith("test_") and callable(function) and function not in added:
            yield name.removeprefix("test_").replace("_", " "), function


def new_seed():
    return int(os.environ.get("RQL_TEST_SEED") or random.randrange(1 << 32))


def note_again(what, why):
    """Reports a test that is worth another try; tests/run.sh shows the lines of the file RQL_TEST_AGAIN."""
    line = f"again: {what}: {why}\n"
    sys.stderr.write(line)
    if "RQL_TEST_AGAIN" in os.environ:
        with open(os.environ["RQL_TEST_AGAIN"], "a", encoding="utf-8") as file:
            file.write(line)


def run_once(fixture, case):
    begun = time.monotonic()
    trace = left_out = ""
    try:
        fixture.run(case)
    except LeftOut as what:
        left_out = str(what)
    except Exception:  # every failure of a test is one line of TAP and its trace
        trace = traceback.format_exc() + fixture.last_words()
    return Result(case, time.monotonic() - begun, trace, left_out, fixture.seed)


def run_case(fixture, case):
    for n_tries in itertools.count(1):
        result = run_once(fixture, case)
        excuse = result.trace and fixture.excuse(case, n_tries, result.took_s)
        if not excuse:
            return result
        sys.stderr.write(result.trace)
        note_again(case.title, excuse)


def report(number, result):
    note = f"SKIP {result.left_out}" if result.left_out else f"{result.took_s:.2f} s"
    print(f"{'not ok' if result.trace else 'ok'} {number} - {result.case.title} # {note}", flush=True)
    if result.trace:
        print("# " + result.trace.replace("\n", "\n# "), flush=True)


def run_all(cases, make_fixture=Fixture, n_own=0, at_once=1):
    """Runs the cases and reports them in their order; the last lines say how to run again those that failed, of which it
    returns the number. Several run at once where they spend most of their time waiting."""
    own, fixtures, failed = threading.local(), [], []

    def run(case):
        if not hasattr(own, "fixture"):
            own.fixture = make_fixture()
            fixtures.append(own.fixture)
        return run_case(own.fixture, case)

    with contextlib.ExitStack() as stack:
        stack.callback(lambda: [print("# once more: " + once_more(result, n_own)) for result in failed])
        stack.callback(lambda: [fixture.end() for fixture in fixtures])
        run_each = map
        if at_once > 1:
            run_each = stack.enter_context(concurrent.futures.ThreadPoolExecutor(at_once)).map
        print(f"1..{len(cases)}", flush=True)
        for number, result in enumerate(run_each(run, cases), 1):
            report(number, result)
            if result.trace:
                failed.append(result)
                if "RQL_TEST_FIRST_FAILURE" in os.environ:
                    break
    return len(failed)


def once_more(result, n_own):
    """The shell's line that runs a case again."""
    env = {name: value for name, value in os.environ.items() if KEPT.match(name)}
    if result.seed is not None:
        env["RQL_TEST_SEED"] = result.seed
    words = [sys.modules[result.case.function.__module__].__file__, *sys.argv[1:1 + n_own]]
    words = [os.path.abspath(word) if os.path.exists(word) else word for word in words]
    line = [f"{name}={shlex.quote(str(value))}" for name, value in sorted(env.items())]
    return " ".join([*line, "python3", *map(shlex.quote, [*words, result.case.title])])


def choose(cases, words):
    """Those with a title of all the words; if the words are a title, that one alone."""
    wanted = [word.replace("_", " ") for word in words]
    return ([case for case in cases if [case.title] == words]
            or [case for case in cases if all(word in case.title.replace("_", " ") for word in wanted)])


def leave(*_):
    """Once: a second SIGTERM must not interrupt the clean-up. But what is raised within a __del__() is lost, so it is
    raised a second time if the program is still there after a while."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(1))
    signal.alarm(AGAIN_S)
    sys.exit(1)


def leave_threads(signals):
    """As leave(), where an exit would wait for the threads that run tests: what is done at the exit is done here."""
    while os.read(signals, 1)[0] != signal.SIGTERM:
        pass
    try:
        atexit._run_exitfuncs()
    finally:
        os._exit(1)


def watch_signals():
    """A thread of its own takes SIGTERM: a signal that comes just before the main thread waits does not wake it."""
    signals, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda *_: None)
    threading.Thread(target=leave_threads, args=(signals,), daemon=True).start()


def main(make_fixture=Fixture, n_own=0, skip=None, at_once=1, sample=None):
    """Ends the program. `n_own`: number of the program's own arguments. `skip`: why no test can run. `sample`: takes the
    cases and returns those that run where no words are given."""
    if skip:
        print(f"1..0 # SKIP {skip}")
        sys.exit(0)
    for title, function in named_tests():
        add(title, function)
    words = sys.argv[1 + n_own:]
    cases = choose(CASES, words) if words else sample(CASES) if sample else CASES
    if words and not cases:
        sys.exit(f"{sys.argv[0]}: no title contains {' and '.join(map(repr, words))}")
    if at_once == 1:
        signal.signal(signal.SIGTERM, leave)
    else:
        watch_signals()
    faulthandler.register(signal.SIGTERM, chain=True)  # a test that takes too long shows where it is
    sys.exit(1 if run_all(cases, make_fixture, n_own, at_once) else 0)
