"""Measures librql beside its peers. Started by bench/run.sh, which says how."""
import argparse
import os
import signal
import sys

import plan
import readme
import report
from lineup import Lineup
from measure import Run
from players import PlayerError
from servers import Unavailable

GROUPS = ("pairs", "tcp", "handoff", "agent", "peers", "scale", "async", "tls", "durable", "cluster")
PRIORITY, RR_PRIORITY = -15, 10
FAILED = 3  # the exit status
QUICK_SECONDS, FULL_SECONDS = 150, 900


def arguments():
    parser = argparse.ArgumentParser(prog="run.sh", add_help=False)
    parser.add_argument("build")
    parser.add_argument("scratch")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--figures", action="store_true")
    parser.add_argument("--rr", action="store_true")
    parser.add_argument("--one-cpu", action="store_true")
    parser.add_argument("--only", choices=GROUPS)
    wanted = parser.parse_args()
    if wanted.figures and (wanted.only or wanted.one_cpu):
        parser.error("figures need all groups, and all processors")
    return wanted


def seconds_for(wanted, groups):
    """One group alone gets the share of the time that it needs, which is less than all of it."""
    total = QUICK_SECONDS if wanted.quick else FULL_SECONDS
    return total if len(groups) > 1 else total / 3


def schedule(wanted):
    """All that is measured alike, for it inherits that: who else works on this machine disturbs it less. What it
    is in the end, in words. Only root may; without it more slots are disturbed."""
    words = []
    if wanted.one_cpu:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        words.append("all on one processor")
    try:
        if wanted.rr or wanted.one_cpu:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(RR_PRIORITY))
            words.append("under SCHED_RR")
        else:
            os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    except PermissionError:
        words.append("with the priority of any program")
    return ", ".join(words)


def measure(wanted, scheduling):
    groups = [wanted.only] if wanted.only else GROUPS
    blocks = [block for block in plan.all_blocks() if block.group in groups]
    needed = {case.player for block in blocks for case in block.cases}
    with Lineup(wanted.build, wanted.scratch, needed) as lineup:
        run = Run(blocks, lineup, seconds_for(wanted, groups), 0.05 if wanted.quick else 1.0)
        run.run()
        about = report.environment(lineup, run, "quick" if wanted.quick else "full", scheduling)
    return about, report.case_rows(run), report.target_rows(run, groups), bool(run.lost)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    wanted = arguments()
    scheduling = schedule(wanted)
    try:
        about, cases, targets, broken = measure(wanted, scheduling)
    except (PlayerError, Unavailable, OSError) as error:
        print(f"run.sh: {error}", file=sys.stderr)
        return FAILED
    if wanted.figures:
        readme.write(about, cases, targets)
    if wanted.json:
        report.print_json([about, *cases, *targets])
    else:
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        report.print_report(about, cases, targets, colour)
    return FAILED if broken else 0


if __name__ == "__main__":
    sys.exit(main())
