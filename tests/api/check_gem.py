"""The table "From the gem to C" in include/rql/gem.md: every call of the gem has a row without a gap, what
the row names exists, and one of its tests uses it."""
import re

# The gem's public calls.
CALLS = """lock lock! lock_series lock_series! unlock extend_lock_ttl locked? queued? lock_info
    queue_info locks locks_info queues queues_info keys clear_locks clear_locks_of
    clear_current_locks clear_dead_requests current_acquirer_id current_host_id possible_host_ids
    uniq_identity config configure logger instrumenter swarmize! deswarmize! swarm_status
    swarm_info probe_hosts flush_zombies zombies_info zombie_hosts zombie_locks zombie_acquirers""".split()


def rows(page):
    table = re.search(r"<!-- gem -->\n(.*?)<!-- /gem -->", page, re.S).group(1)
    for line in table.splitlines()[2:]:
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def code(cell):
    return re.findall(r"`([^`]+)`", cell)


def commands(root):
    """Of the program, by the tables of its commands."""
    sources = "".join(path.read_text(encoding="utf-8") for path in sorted(root.glob("src/cli/cmd_*")))
    return re.findall(r'^    \.name = "([\w-]+)",', sources, re.M)


def complaints_of(root, cells, headers):
    gem, functions, program, tests, _ = cells
    sources = []
    for test in tests.split(", "):
        path = root / "tests" / test
        if not path.is_file():
            yield f"{gem}: no test {test}"
        else:
            sources.append(path.read_text(encoding="utf-8"))
    for function in re.findall(r"rql_\w+", functions):
        if not re.search(rf"\b{function}\(", headers):
            yield f"{gem}: the headers have no {function}()"
        if not any(function in source for source in sources):
            yield f"{gem}: {tests} does not use {function}()"
    for command in code(program):
        if command.split()[1] not in ["help", *commands(root)]:
            yield f"{gem}: the program has no {command}"


def complaints(root):
    headers = "".join(path.read_text(encoding="utf-8") for path in sorted(root.glob("include/rql/*.h")))
    seen = set()
    for cells in rows((root / "include/rql/gem.md").read_text(encoding="utf-8")):
        if len(cells) != 5 or not all(cells):
            yield f"a gap in the row {cells}"
            continue
        seen.update(call.split("(")[0].split(":")[0] for call in code(cells[0]))
        yield from complaints_of(root, cells, headers)
    for call in CALLS:
        if call not in seen:
            yield f"no row for the gem's {call}"
