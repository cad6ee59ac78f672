"""Writes what was measured into bench/README.md, between its two marks."""
import json
import pathlib
import textwrap

from figures import write_figures
from report import ratio_text, verdict

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BEGIN, END = "<!-- measured -->", "<!-- /measured -->"

CAPTIONS = (
    ("pairs", "Rate of uncontended acquire and release over the plain lock's, by threads; bars are "
              "quartiles over the cycles."),
    ("handoff", "Hand-off in PING round trips, by waiters, released at once and after 1 ms."),
    ("peers", "librql, PostgreSQL, redlock, redis-semaphore, redislock, redis-py and etcd: "
              "uncontended, on one lock, and hand-off."),
    ("async", "Uncontended pairs on one loop by requests in flight, over the plain lock's with 32 "
              "threads."),
    ("queue", "Server time of one acquisition by the length of the queue: flat up to 100 000."),
)


def about_text(about):
    versions = ", ".join(about["versions"].values())
    missing = "".join(f" Not available: {name} ({why})." for name, why in about["missing"].items())
    flags = [flag for flag, is_there in (("--quick", about["mode"] == "quick"), ("--rr", "SCHED_RR" in about["scheduling"]))
             if is_there]
    command = " ".join(["sh bench/run.sh", *flags, "--figures"])
    text = (
        f"Measured on {about['date']} by `{command}`: {about['system']}, {about['processors']} x "
        f"{about['processor']}, {versions}. Medians of {about['cycles']} interleaved cycles; "
        f"{100 * about['quiet']:.0f} % of the slots had the machine for themselves.{missing}")
    return textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False)


def table(head, targets, name_of):
    yield f"| {head} | Wanted | Measured (quartiles) | |"
    yield "|---|---|---|---|"
    for row in targets:
        wanted = (">= " if row["at_least"] else "<= ") + f"{row['limit']:g}"
        yield f"| {name_of(row['target'])} | {wanted} | {ratio_text(row)} | {verdict(row)} |"


def picture(name, caption, folder):
    return [f"![{caption}]({folder}/{name}.svg)", ""]


def whole(about, targets):
    figures = [line for name, caption in CAPTIONS for line in picture(name, caption, "figures")]
    return [about_text(about), "", *figures, *table("Target", targets, str)]


def renew(path, lines):
    before, rest = path.read_text(encoding="utf-8").split(BEGIN)
    text = "\n".join([BEGIN, *lines, END])
    path.write_text(before + text + rest.split(END)[1], encoding="utf-8")


def write(about, cases, targets):
    folder = ROOT / "bench/figures"
    rows = [about, *cases, *targets]
    write_figures(rows, folder)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "results.jsonl").write_text(lines, encoding="ascii")
    renew(ROOT / "bench/README.md", whole(about, targets))
