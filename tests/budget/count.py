#!/usr/bin/env python3
"""Count the instructions of client and server for one round of each case, and compare with what is
written down.

Usage: count.py [--refresh] BUILD=PROGRAM...     PROGRAM: budget-pairs of the build called BUILD

A count of the client is that of the calling thread from the call to its return, in the library and
all that it uses, by callgrind: the kernel and other threads do not count, nor does the machine's
load. That of the server is what its scripts take, of all who take part in a round. Both change with
the compiler, its flags and the libraries; where these are others than those written down nothing
can be compared: that is a skip, and the figures are shown all the same. A count that is beyond its
bound above what is written down is a failure. So is one below, because the file then allows too
much: refresh it. The bound is 1 %, and 2 % for the server. The client's lazy-pair has 5 %: its
releases meet their answers earlier or later. In the server's hand-off a waiter asks once more when a
push comes late, so its count is that of an average script, times the scripts of a round without
such a question. A case beyond its bound is counted twice more, and the median of the three counts.

Standard error has one line for each case, standard output one in all: PASSED FAILED SKIPPED.
"""
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

CASES = ("pair", "renewed-pair", "pair-with-options", "lazy-pair", "nested-pair", "hand-off", "shared-pair",
         "shared-beside-8", "permit-hand-off")
ROUNDS = 300
WARM_UP = 100  # of pairs.c; the server counts them too
SERVER = os.environ["RQL_TEST_REDIS"]
PERCENT = 1  # six counts of one case lie within 0.8 %
SERVER_PERCENT = 2  # and within 1.0 % of what is written down, beside three more test runs
LOOSE_PERCENT = 5
LOOSE = ("release lazy-pair", "light lazy-pair")
SCRIPTS = {"hand-off": 4, "permit-hand-off": 4}  # of a round: each of the two takes the lock and gives it back
FILE = pathlib.Path(__file__).with_name("instructions.json")


def count(program, case):
    """(what it was made with, instructions a round)."""
    with tempfile.TemporaryDirectory() as folder:
        return count_in(program, case, folder)


def count_in(program, case, folder):
    out = pathlib.Path(folder, case)
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--quiet", "--toggle-collect=counted_round",
         f"--callgrind-out-file={out}", program, case, str(ROUNDS)],
        capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"count.py: {case}: {done.stdout}{done.stderr}")
    return done.stdout.splitlines()[0], round(total_in(out) / ROUNDS)


def total_in(out):
    return int(re.search(r"^(?:totals|summary): (\d+)", out.read_text(), re.M)[1])


def version_of(program):
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def count_server(program, case):
    """Instructions a round, in its scripts: a server under callgrind takes the place of the real one."""
    with tempfile.TemporaryDirectory() as folder:
        return count_server_in(program, case, folder)


def count_server_in(program, case, folder):
    out = pathlib.Path(folder, "server-" + case)
    stand_in = pathlib.Path(folder, "redis-server")
    stand_in.write_text(
        "#!/bin/sh\nexec valgrind --tool=callgrind --quiet --toggle-collect=evalShaCommand "
        f"--callgrind-out-file='{out}' '{SERVER}' \"$@\"\n")
    stand_in.chmod(0o700)
    done = subprocess.run([program, case, str(ROUNDS)], capture_output=True, text=True, check=False,
                          env={**os.environ, "RQL_TEST_REDIS": str(stand_in)})
    if done.returncode != 0:
        sys.exit(f"count.py: server, {case}: {done.stdout}{done.stderr}")
    n_scripts = int(done.stdout.splitlines()[1])
    n_wanted = SCRIPTS.get(case)
    return round(total_in(out) / (n_scripts / n_wanted if n_wanted else WARM_UP + ROUNDS))


def count_all_of_server(program):
    counts = {case: count_server(program, case) for case in CASES}
    return {"made_with": f"{version_of(SERVER)}, {version_of('valgrind')}", "instructions": counts}


def flags_of(program):
    """What the compiler was told about code, of one file for all."""
    tree = pathlib.Path(program).resolve().parents[2]
    commands = json.loads(pathlib.Path(tree, "compile_commands.json").read_text())
    words = next(c["command"] for c in commands if c["file"].endswith("budget/pairs.c")).split()
    flags = (word for word in words if re.match(r"-([Ofm]|DNDEBUG)", word))
    return " ".join(flag for flag in flags if not flag.startswith("-fdiagnostics"))


def count_all(program):
    """{"made_with": ..., "instructions": {case: number}}, as for the server"""
    counts = {case: count(program, case) for case in CASES}
    made_with = {with_what for with_what, _ in counts.values()}
    return {
        "made_with": f"{made_with.pop()}, {version_of('valgrind')}, {flags_of(program)}",
        "instructions": {case: number for case, (_, number) in counts.items()},
    }


def is_beyond(case, number, wanted):
    percent = LOOSE_PERCENT if case in LOOSE else SERVER_PERCENT if case.startswith("server ") else PERCENT
    return wanted is not None and abs(number - wanted) * 100 > percent * wanted


def verdict(case, number, wanted):
    """(0 passed, 1 failed, 2 skipped; why)"""
    if wanted is None:
        return 2, "nothing to compare with"
    change = 100 * (number - wanted) / wanted
    return int(is_beyond(case, number, wanted)), f"{change:+.1f} % of {wanted}"


def compare(build, found, known, count_again):
    """Prints a line for each case; returns [passed, failed, skipped]."""
    verdicts = [0, 0, 0]
    comparable = known.get("made_with") == found["made_with"]
    for case, number in found["instructions"].items():
        wanted = known["instructions"].get(case) if comparable else None
        name = f"{build} {case}"
        if is_beyond(name, number, wanted):
            number = statistics.median((number, count_again(case), count_again(case)))
        which, why = verdict(name, number, wanted)
        verdicts[which] += 1
        print(f"{('ok', 'FAILED', 'skipped')[which]:8}{name}: {number} ({why})",
              file=sys.stderr)
    if not comparable:
        print(f"        counted with {found['made_with']}; written down: {known.get('made_with')}",
              file=sys.stderr)
    return verdicts


def main(args):
    refresh = args[:1] == ["--refresh"]
    programs = dict(arg.split("=", 1) for arg in args[refresh:])
    with_server = next(iter(programs.values()))
    again = {build: lambda case, program=program: count(program, case)[1]
             for build, program in programs.items()}
    again["server"] = lambda case: count_server(with_server, case)
    found = {build: count_all(program) for build, program in programs.items()}
    found["server"] = count_all_of_server(with_server)
    if refresh:
        FILE.write_text(json.dumps(found, indent=2) + "\n")
    known = json.loads(FILE.read_text())
    rows = [compare(build, found[build], known.get(build, {}), again[build]) for build in found]
    print(*(sum(column) for column in zip(*rows)))


main(sys.argv[1:])
