"""Measures librql beside its peers. Started by bench/run.sh, which says how."""
import argparse
import contextlib
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

GROUPS = ("pairs", "tcp", "handoff", "peers", "scale", "async")
PRIORITY = -15
QUICK_SECONDS, FULL_SECONDS = 150, 900


def arguments():
    parser = argparse.ArgumentParser(prog="run.sh", add_help=False)
    parser.add_argument("build")
    parser.add_argument("scratch")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--figures", action="store_true")
    parser.add_argument("--only", choices=GROUPS)
    wanted = parser.parse_args()
    if wanted.figures and wanted.only:
        parser.error("figures need all groups")
    return wanted


def seconds_for(wanted, groups):
    """One group alone gets the share of the time that it needs, which is less than all of it."""
    total = QUICK_SECONDS if wanted.quick else FULL_SECONDS
    return total if len(groups) > 1 else total / 3


def raise_priority():
    """Of all that is measured, alike: who else works on this machine disturbs it less. Only root
    may; without it more slots are disturbed."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)


def measure(wanted):
    groups = [wanted.only] if wanted.only else GROUPS
    blocks = [block for block in plan.all_blocks() if block.group in groups]
    needed = {case.player for block in blocks for case in block.cases}
    with Lineup(wanted.build, wanted.scratch, needed) as lineup:
        run = Run(blocks, lineup, seconds_for(wanted, groups), 0.05 if wanted.quick else 1.0)
        run.run()
        about = report.environment(lineup, run, "quick" if wanted.quick else "full")
    return about, report.case_rows(run), report.target_rows(run, groups), bool(run.lost)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    wanted = arguments()
    raise_priority()
    try:
        about, cases, targets, broken = measure(wanted)
    except (PlayerError, Unavailable, OSError) as error:
        sys.exit(f"run.sh: {error}")
    if wanted.figures:
        readme.write(about, cases, targets)
    if wanted.json:
        report.print_json([about, *cases, *targets])
    else:
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        report.print_report(about, cases, targets, colour)
    return 3 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
