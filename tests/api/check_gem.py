#!/usr/bin/env python3
"""The table "From the gem to C" in include/rql/gem.md: every call of the gem has a row without a gap, what
the row names exists, and one of its tests uses it. Usage: check_gem.py REPOSITORY"""
import os
import re
import sys

from source import report

# The gem's public calls.
CALLS = """lock lock! lock_series lock_series! unlock extend_lock_ttl locked? queued? lock_info
    queue_info locks locks_info queues queues_info keys clear_locks clear_locks_of
    clear_current_locks clear_dead_requests current_acquirer_id current_host_id possible_host_ids
    uniq_identity config configure logger instrumenter swarmize! deswarmize! swarm_status
    swarm_info probe_hosts flush_zombies zombies_info zombie_hosts zombie_locks zombie_acquirers""".split()


def read(*parts):
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return file.read()


def rows(page):
    table = re.search(r"<!-- gem -->\n(.*?)<!-- /gem -->", page, re.S).group(1)
    for line in table.splitlines()[2:]:
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def code(cell):
    return re.findall(r"`([^`]+)`", cell)


def commands(root):
    """Of the program, by the tables of its commands."""
    folder = os.path.join(root, "src/cli")
    sources = "".join(read(folder, name) for name in sorted(os.listdir(folder)) if name.startswith("cmd_"))
    return re.findall(r'^    \.name = "([\w-]+)",', sources, re.M)


def complaints_of(root, cells, headers):
    gem, functions, program, tests, _ = cells
    sources = []
    for test in tests.split(", "):
        path = os.path.join(root, "tests", test)
        if not os.path.isfile(path):
            yield f"{gem}: no test {test}"
        else:
            sources.append(read(path))
    for function in re.findall(r"rql_\w+", functions):
        if not re.search(rf"\b{function}\(", headers):
            yield f"{gem}: the headers have no {function}()"
        if not any(function in source for source in sources):
            yield f"{gem}: {tests} does not use {function}()"
    for command in code(program):
        if command.split()[1] not in ["help", *commands(root)]:
            yield f"{gem}: the program has no {command}"


def complaints(root):
    headers = "".join(read(root, "include/rql", name)
                      for name in sorted(os.listdir(os.path.join(root, "include/rql")))
                      if name.endswith(".h"))
    seen = set()
    for cells in rows(read(root, "include/rql/gem.md")):
        if len(cells) != 5 or not all(cells):
            yield f"a gap in the row {cells}"
            continue
        seen.update(call.split("(")[0].split(":")[0] for call in code(cells[0]))
        yield from complaints_of(root, cells, headers)
    for call in CALLS:
        if call not in seen:
            yield f"no row for the gem's {call}"


def main(root):
    return report(complaints(root))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
