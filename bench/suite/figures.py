"""Draws what was measured, from the lines of --json:  python3 figures.py FOLDER <results.jsonl"""
import json
import math
import pathlib
import sys

from plan import IN_FLIGHT, NPM, PAIR_THREADS, QUEUES, WAITERS
from svg import Chart, Picture

NAMES = {"rql": "librql", "rql-spin": "librql, spinning", "postgres": "PostgreSQL"}
SHADES = {"rql": "rql", "rql-spin": "spin", "postgres": "postgres"}
BAR = 180  # pixels
QUARTILES = "thin bars: quartiles over the cycles"
PEERS = ("rql", "postgres", *NPM, "redis-py", "etcd")


class Table:
    """The rows of cases, found by block, case and number."""

    def __init__(self, rows):
        self.rows = {(row["block"], row["case"], row["threads"]): row for row in rows
                     if "block" in row}
        self.targets = [row for row in rows if "target" in row]

    def get(self, block, case, number, figure):
        row = self.rows.get((block, case, number))
        return row[figure] if row else None

    def ratios(self, blocks, case):
        """Number, ratio and its quartiles; blocks: number and block."""
        found = [(number, self.rows.get((block, case, number))) for number, block in blocks]
        return [(number, row["ratio"], row["ratio_q1"], row["ratio_q3"]) for number, row in found
                if row and row["ratio"] is not None]


    def promised(self, case, word):
        """Targets of a case whose text has the word: number, ratio and quartiles; and the limit."""
        rows = [row for row in self.targets if row["case"] == case and word in row["target"]]
        found = [(row["threads"], row["ratio"], row["ratio_q1"], row["ratio_q3"]) for row in rows
                 if row["ratio"] is not None]
        return found, rows[0]["limit"] if rows else None


def highest(*series):
    return max((row[3] for rows in series for row in rows), default=1)


def draw_pairs(table):
    picture = Picture(720, 360, "Acquire and release, uncontended: rate over the plain lock's")
    blocks = [(n, f"pair-{n}") for n in PAIR_THREADS]
    shared, own = (table.ratios(blocks, f"pair/{who}") for who in ("rql", "own"))
    spin = table.ratios(blocks[:1], "pair/rql-spin")
    chart = Chart(picture, (56, 76, 530, 306), PAIR_THREADS, max(highest(shared, own, spin), 1))
    chart.axes("", "threads", "x pairs/s of SET NX PX and compare-and-delete, as many connections "
               "as threads")
    chart.level(1, "plain lock")
    chart.series(own, "a client per thread", "own")
    chart.series(shared, "one client for all", "rql")
    chart.series(spin, "", "spin")
    if spin:
        picture.text(chart.x(1) + 9, chart.y(spin[0][1]) + 4, "spinning, alone", "spin", 11.5,
                     weight=600)
    chart.finish()
    picture.text(704, 348, QUARTILES, "quiet", 11, "end")
    return picture


def draw_handoff(table):
    picture = Picture(940, 380, "Hand-off: from the call of release to the next holder's return")
    panels = (("released at once", "hot", "turns", "p50, released", 60),
              ("held for 1 ms", "hold", "hold", "paced PING", 520))
    tails = {what: table.promised(f"{what}/rql", "p99")[0] for _, _, what, _, _ in panels}
    for title, prefix, what, word, left in panels:
        blocks = [(n, f"{prefix}-{n}") for n in WAITERS]
        own = table.ratios(blocks, f"{what}/rql")
        one = table.ratios(blocks, f"{what}/rql-one")
        theirs = table.ratios(blocks, f"{what}/postgres")
        limit = table.promised(f"{what}/rql", word)[1]
        chart = Chart(picture, (left, 98, left + 280, 326), WAITERS,
                      max([highest(own, one, theirs), *(row[1] for tail in tails.values()
                                                   for row in tail)]))
        chart.axes(title, "waiters on one lock",
                   "x PING" + (" after the same pause" if what == "hold" else ""))
        if limit:
            chart.level(limit, f"target {limit:g}")
        chart.series([row[:2] for row in tails[what]], "librql p99", "rql", "5 4")
        chart.series(theirs, "PostgreSQL p50", "postgres")
        chart.series(one, "one process", "spin")
        chart.series(own, "librql p50", "rql")
        chart.finish()
    picture.text(924, 370, QUARTILES, "quiet", 11, "end")
    return picture


def draw_queue(table):
    picture = Picture(720, 340, "Cost of one acquisition, by requests that wait before it")
    rows = [(n, table.get("queue", "queue/rql", n, "cpu_us")) for n in QUEUES]
    rows = [row for row in rows if row[1]]
    chart = Chart(picture, (56, 76, 600, 286), QUEUES,
                  1.15 * max((row[1] for row in rows), default=1))
    chart.axes("", "requests in the queue",
               "us of the server's processor: stand in line, release to the first")
    chart.series(rows, "librql", "rql")
    for n, value in rows:
        picture.text(chart.x(n), chart.y(value) - 10, f"{value:.0f}", "quiet", 11, "middle")
    chart.finish()
    return picture


def draw_async(table):
    picture = Picture(720, 340, "One loop, many requests in flight: pairs/s over the plain lock's")
    flights = table.ratios([(n, "async-pair") for n in IN_FLIGHT], "pair/rql-async")
    threads = table.get("async-pair", "pair/rql", 32, "ratio")
    chart = Chart(picture, (56, 76, 540, 286), IN_FLIGHT, max(highest(flights), threads or 0, 1))
    chart.axes("", "requests in flight", "x pairs/s of the plain lock with 32 threads")
    chart.level(1, "plain lock, 32 threads")
    if threads:
        chart.level(threads, "librql, 32 threads")
    chart.series(flights, "librql, one loop", "rql")
    chart.finish()
    picture.text(704, 328, QUARTILES, "quiet", 11, "end")
    return picture


def draw_bars(picture, corner, rows, scale):
    """rows: name, colour, value, label; scale turns a value into pixels. A length must begin at 0:
    where it does not (logarithms) there is a dot in place of the bar."""
    left, top = corner
    for at, (name, colour, value, label) in enumerate(rows):
        y = top + 14 + at * 24
        picture.text(left + 108, y + 12, name, "ink", 11.5, "end")
        if value is None:
            picture.text(left + 116, y + 12, "not available", "quiet", 11)
            continue
        length = scale(value)
        if scale(0) is None:
            picture.line([(left + 116, y + 8), (left + 116 + length, y + 8)], "grid")
            picture.dot(left + 116 + length, y + 8, colour, 5)
        else:
            picture.rect(left + 116, y, max(length, 2), 15, colour, 2)
        picture.text(left + 126 + length, y + 12, label, "quiet", 11)


def bar_rows(table, block, what, number, figure, label):
    rows = []
    for who in PEERS:
        row = table.rows.get((block, f"{what}/{who}", number), {})
        value = row.get(figure)
        text = label(row) if value else ""
        rows.append((NAMES.get(who, who), SHADES.get(who, "other"), value, text))
    return rows


def linear(rows):
    top = max((row[2] for row in rows if row[2]), default=1)
    return lambda value: BAR * value / top


def logarithmic(rows):
    """None at 0, which it cannot show."""
    values = [row[2] for row in rows if row[2]]
    low = math.log10(min(values, default=1)) - 0.2
    high = math.log10(max(values, default=10)) + 0.01
    return lambda value: BAR * (math.log10(value) - low) / (high - low) if value > 0 else None


def rate_text(row):
    return f"{round(row['ops_s']):,}/s"


def waited_text(row):
    return f"{rate_text(row)}, {100 * row['waited']:.0f} % waited"


def time_text(row):
    return f"{round(row['p50_us']):,} us, p99 {round(row['p99_us']):,}"


def draw_peers(table):
    picture = Picture(940, 500, "Beside others, in the same run")
    panels = (
        ("Uncontended pairs/s, 1 worker", "peers-pair-1", "pair", 1, "ops_s",
         rate_text, linear, (16, 58)),
        ("Uncontended pairs/s, 8 workers", "peers-pair-8", "pair", 8, "ops_s",
         rate_text, linear, (490, 58)),
        ("Acquisitions/s on one lock, 8 workers", "peers-turns-8", "turns", 8, "ops_s",
         waited_text, linear, (16, 276)),
        ("Hand-off, median, 32 workers, 1 ms hold (log scale)", "peers-hold-32", "hold", 32,
         "p50_us", time_text, logarithmic, (490, 276)),
    )
    for title, block, what, number, figure, label, scale, (left, top) in panels:
        rows = bar_rows(table, block, what, number, figure, label)
        picture.text(left, top, title, weight=600)
        draw_bars(picture, (left, top), rows, scale(rows))
    picture.text(132, 476, "0 % waited: who gives the lock back takes it again, the others starve",
                 "quiet", 11)
    return picture


FIGURES = {"pairs": draw_pairs, "handoff": draw_handoff, "peers": draw_peers, "queue": draw_queue,
           "async": draw_async}


def write_figures(rows, folder):
    table = Table(rows)
    folder = pathlib.Path(folder)
    folder.mkdir(exist_ok=True)
    for name, draw in FIGURES.items():
        (folder / f"{name}.svg").write_text(draw(table).render(), encoding="ascii")


if __name__ == "__main__":
    write_figures([json.loads(line) for line in sys.stdin], sys.argv[1])
