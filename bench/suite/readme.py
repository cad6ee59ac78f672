"""Writes what was measured into README.md, between its two marks."""
import json
import pathlib

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
    command = "sh bench/run.sh --quick --figures" if about["mode"] == "quick" else (
        "sh bench/run.sh --figures")
    return (
        f"Measured on {about['date']} by `{command}`: {about['system']}, {about['processors']} x "
        f"{about['processor']}, {versions}. Medians of {about['cycles']} interleaved cycles; "
        f"{100 * about['quiet']:.0f} % of the slots had the machine for themselves.{missing}")


def target_lines(targets):
    yield "| Target | Wanted | Measured (quartiles) | |"
    yield "|---|---|---|---|"
    for row in targets:
        wanted = (">= " if row["at_least"] else "<= ") + f"{row['limit']:g}"
        yield f"| {row['target']} | {wanted} | {ratio_text(row)} | {verdict(row)} |"


def block(about, targets):
    lines = [BEGIN, about_text(about), ""]
    for name, caption in CAPTIONS:
        lines += [f"![{caption}](bench/figures/{name}.svg)", ""]
    return "\n".join([*lines, *target_lines(targets), END])


def write(about, cases, targets):
    folder = ROOT / "bench/figures"
    rows = [about, *cases, *targets]
    write_figures(rows, folder)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "results.jsonl").write_text(lines, encoding="ascii")
    path = ROOT / "README.md"
    text = path.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    path.write_text(before + block(about, targets) + rest.split(END)[1], encoding="utf-8")
