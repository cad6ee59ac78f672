"""Includes may only point down the layer list, and in no circle; vendor headers only where listed."""
from graphlib import CycleError, TopologicalSorter

from source import files, includes

BELOW_LOCK = ["base", "observe", "options", "wire", "net"]
MAY_USE = {
    "base": [],
    "observe": ["base"],
    "options": ["base"],
    "wire": ["base"],
    "net": ["base", "observe", "wire"],
    "lock": BELOW_LOCK,
    "admin": [*BELOW_LOCK, "lock"],
    "swarm": [*BELOW_LOCK, "lock", "admin"],
    "cli": [],
    "api": [*BELOW_LOCK, "lock", "admin", "swarm"],
}
# The folders of net: a file may use those in front of its own.
NET = ["sock", "login", "conn", "fleet", "op"]
VENDOR = {
    "hiredis": ["src/net/", "src/cli/agent_lock"],
    "uv.h": ["src/base/uv_start", "src/base/worker", "src/net/conn/conn_loop", "src/net/sock/local", "src/lock/loop",
             "src/cli/held", "src/cli/agent/"],
    "cJSON.h": ["src/cli/out"],
    "microhttpd": ["src/cli/serve/http"],
    "openssl": ["src/net/"],
}
# These decide: time and random numbers are their arguments, memory is their caller's.
PURE = ("src/lock/request.", "src/lock/lease.", "src/net/conn/clock_offset.",
        "src/net/conn/stream.")
NOT_IN_PURE = ["time.h", "stdlib.h", "pthread.h", "unistd.h", "sys/", "poll.h", "stdio.h",
               "base/random.h", "base/scope.h", "net/"]
# No socket outside net/.
SOCKET = ["sys/socket.h", "sys/un.h", "netinet/", "netdb.h", "arpa/"]


def layer_of(relative):
    parts = relative.split("/")
    if parts[0] == "swarm":
        return "swarm"
    if relative == "src/api.c":
        return "api"
    return parts[1] if len(parts) > 2 else ""


def floor_of(relative):
    """The place of its folder among those of net; -1: it is elsewhere."""
    parts = relative.split("/")
    return NET.index(parts[2]) if parts[:2] == ["src", "net"] and parts[2] in NET else -1


def file_of(target, root, path):
    """The file that a quoted include leads to; None: one that the build makes."""
    for base in path.parent, root / "src", root / "swarm", root / "src/cli":
        if (base / target).exists():
            return (base / target).resolve().relative_to(root).as_posix()
    return None


def owner_of(target, root, path):
    """The layer of that file."""
    file = file_of(target, root, path)
    if file:
        return layer_of(file)
    return target.split("/")[0] if "/" in target else None


def circle_complaints(root, paths):
    """x.c and x.h are one file here: what it knows must not know it."""
    known = {}
    for path in paths:
        own = path.relative_to(root).with_suffix("").as_posix()
        others = {file_of(target, root, path) for _, kind, target in includes(path) if kind == '"'}
        known.setdefault(own, set()).update(name.rsplit(".", 1)[0] for name in others if name)
        known[own].discard(own)
    try:
        TopologicalSorter(known).prepare()
    except CycleError as circle:
        yield "a circle of files: " + " <- ".join(circle.args[1])


def complaints_of(root, path):
    relative = path.relative_to(root).as_posix()
    layer = layer_of(relative)
    if layer not in MAY_USE:
        yield f"{relative}: belongs into the folder of a layer"
    for number, kind, target in includes(path):
        where = f"{relative}:{number}"
        if target.startswith(".."):
            yield f"{where}: no include goes up: {target}"
        elif kind == '"':
            owner = owner_of(target, root, path)
            if owner not in (None, layer, *MAY_USE.get(layer, [])):
                yield f"{where}: {layer} must not use {target}"
            if 0 <= floor_of(relative) < floor_of(f"src/{target}"):
                yield f"{where}: {target} is above net/{NET[floor_of(relative)]}"
        for vendor, places in VENDOR.items():
            if target.startswith(vendor) and not relative.startswith(tuple(places)):
                yield f"{where}: {target} may not be included here"
        is_own = relative.startswith(f"src/{target[:-1]}")
        if relative.startswith(PURE) and target.startswith(tuple(NOT_IN_PURE)) and not is_own:
            yield f"{where}: a pure state machine decides without {target}"
        if layer == "wire" and target.startswith(tuple(SOCKET)):
            yield f"{where}: {layer}/ knows no socket"


def public_complaints(root, path):
    for number, kind, target in includes(path):
        standard = kind == "<" and target in ("stdbool.h", "stddef.h", "stdint.h")
        if not standard and not (kind == "<" and target.startswith("rql/")):
            yield f"{path.relative_to(root).as_posix()}:{number}: a public header must not include {target}"


def complaints(root):
    sources = files(root, ["src", "swarm"])
    for path in sources:
        yield from complaints_of(root, path)
    yield from circle_complaints(root, sources)
    for path in files(root, ["include"]):
        yield from public_complaints(root, path)
