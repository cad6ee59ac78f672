"""What was measured, as rows; rows as JSON lines or as tables for people."""
import datetime
import json
import os
import platform

from measure import spread
from targets import all_targets

FIGURES = ("ops_s", "p50_us", "p99_us", "waited", "commands", "wakes", "cpu_us", "bytes", "bus", "least", "most")


def environment(lineup, run, mode, scheduling):
    return {
        "case": "environment",
        "date": datetime.date.today().isoformat(),
        "mode": mode,
        "scheduling": scheduling,
        "cycles": run.cycles,
        "quiet": rounded(run.results.quiet_share()),
        "processors": os.cpu_count(),
        "processor": processor(),
        "system": system(),
        "kernel": platform.release().split("-")[0],
        "versions": lineup.versions,
        "missing": {**lineup.missing, **run.lost},
    }


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as text:
            return next(line.split(":", 1)[1].strip() for line in text if "model name" in line)
    except (OSError, StopIteration):
        return platform.machine()


def system():
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return platform.system()


def rounded(value):
    return None if value is None else float(f"{value:.5g}")


def medians(results, block, key):
    found = {figure: spread(results.alone(block, (*key, figure))) for figure in FIGURES}
    return {figure: rounded(values[0]) if values else None for figure, values in found.items()}


def case_row(results, block, case):
    row = {"case": case.name, "group": block.group, "block": block.name, "threads": case.threads,
           **medians(results, block.name, case.key)}
    ratio = None
    if case.against:
        figure = case.against[2]
        ratio = spread(results.ratios(block.name, (*case.key, figure), [case.against]))
    row["ratio"], row["ratio_q1"], row["ratio_q3"] = map(rounded, ratio or (None, None, None))
    row["against"] = "{0} at {1}: {2}".format(*case.against) if case.against else None
    return row


def case_rows(run):
    return [case_row(run.results, block, case)
            for block in run.blocks for case in block.cases if case.player in run.players]


def target_row(results, target):
    measured = target.measured(results)
    row = {**medians(results, target.block, target.above[:2]),
           "case": target.above[0], "group": target.group, "threads": target.above[1],
           "target": target.text, "limit": target.limit, "at_least": target.at_least,
           "against": ", ".join(f"{one[0]}: {one[2]}" for one in target.below) or None}
    row["ratio"], row["ratio_q1"], row["ratio_q3"] = map(rounded, measured or (None, None, None))
    row["pass"] = target.met(measured[0]) if measured else None
    return row


def target_rows(run, groups):
    return [target_row(run.results, target)
            for target in all_targets() if target.group in groups]


def print_json(rows):
    for row in rows:
        print(json.dumps(row))


# ---- tables ----

def number(value, digits=0):
    return "" if value is None else f"{value:,.{digits}f}"


def ratio_text(row):
    if row["ratio"] is None:
        return ""
    return f"{row['ratio']:.2f} ({row['ratio_q1']:.2f} .. {row['ratio_q3']:.2f})"


def print_table(head, rows, parts=None):
    """The first and the last column are texts. A blank line where the part changes."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    parts = [None, *(parts or [None] * len(rows))]
    for at, row in enumerate([head, *rows]):
        cells = [cell.ljust(width) if i in (0, len(row) - 1) else cell.rjust(width)
                 for i, (cell, width) in enumerate(zip(row, widths))]
        if at > 0 and parts[at] != parts[at - 1]:
            print()
        print("  " + "  ".join(cells).rstrip())


def print_cases(rows):
    head = ["case", "number", "ops/s", "p50 us", "p99 us", "waited", "commands", "server us",
            "bytes", "ratio (quartiles)", "to"]
    lines = []
    for row in rows:
        waits = row["case"].startswith(("turns/", "hold/", "login/", "idle/")) and row["waited"] is not None
        waited = number(100 * row["waited"]) + " %" if waits else ""
        lines.append([
            row["case"], number(row["threads"]), number(row["ops_s"]), number(row["p50_us"], 1),
            number(row["p99_us"], 1), waited, number(row["commands"], 2), number(row["cpu_us"], 1),
            number(row["bytes"]), ratio_text(row), row["against"] or ""])
    print_table(head, lines, [row["block"] for row in rows])


def verdict(row, colour=False):
    words = {True: ("pass", "32"), False: ("MISS", "31"), None: ("not available", "33")}
    word, shade = words[row["pass"]]
    return f"\033[{shade}m{word}\033[0m" if colour else word


def print_targets(rows, colour):
    head = ["target", "wanted", "measured (quartiles)", ""]
    lines = [[row["target"], (">= " if row["at_least"] else "<= ") + f"{row['limit']:.2f}",
              ratio_text(row), verdict(row, colour)] for row in rows]
    print_table(head, lines)
    counts = {word: sum(row["pass"] is word for row in rows) for word in (True, False, None)}
    print(f"\n  {counts[True]} passed, {counts[False]} missed, {counts[None]} not available")


LEGEND = """
  number    threads, workers or waiters; async: requests in flight; queue: requests in it; list,
            flush, memory: locks; clients
  pair      acquire and release of a lock that nobody else wants; each thread its own
  turns     all workers after one lock, given back at once; p50 and p99: from the call of release to
            the return of the next holder's acquire
  hold      the same, each holder keeps the lock for 1 ms; libraries that poll are made to wait for
            another holder before they ask again
  waited    share of acquisitions that had asked before the lock was given back: where it is small,
            the one that gave it back took it again
  floor     SET NX PX and compare-and-delete over blocking hiredis, one connection for each thread
  rql, own  librql: one client for all threads of a process (turns and hold: two processes); one
            client for each thread; rql-one: turns and hold in one process
  agent     each worker is a process, and a client of rql agent; rql-each: each has a client of its own
  token     one element in a list, popped by BLPOP: the least that a hand-over by the server costs
  async     rql_lock_acquire_async() and rql_lock_release_async(), all on one loop in one thread
  queue     a newcomer stands at the end, the holder hands over to the first; pipelined
  list      of all locks, against a bare SCAN; flush: the locks of a dead host among 100 000 others
  tls       rql-tls and rql-clear: one server, one client for all threads, by TLS and in the clear;
            login: p50 is processor time of the client, waited the share that resumed a session
  many      acquire and release of one of 3,000 locks, drawn each time; threads of four processes
  idle      two threads after one lock, which each holds for 4 s: the other waits
  cluster   rql-single and rql-cluster: one server, and a cluster of three, both by TCP
  durable   rql-durable and rql-plain: one server with a replica, which has each grant before it counts
  server us processor time of the Redis server for each operation
"""


def print_report(about, cases, targets, colour):
    print(f"  {about['system']}, {about['processors']} x {about['processor']}, {about['date']}; "
          + ", ".join(about["versions"].values()))
    print(f"  medians of {about['cycles']} interleaved cycles; ratios are taken within a cycle; "
          f"{100 * about['quiet']:.0f} % of the slots had the machine for themselves"
          + (f"; {about['scheduling']}" if about["scheduling"] else "") + "\n")
    print_cases(cases)
    print(LEGEND)
    if targets:
        print_targets(targets, colour)
    for name, why in about["missing"].items():
        print(f"  {name}: not available ({why})")
