#!/usr/bin/env python3
"""Includes may only point down the layer list; vendor headers only where listed."""
import pathlib
import sys

from source import files, includes

CORE = ["base", "script", "acquire", "link"]
MAY_USE = {
    "base": [],
    "script": ["base"],
    "acquire": ["base"],
    "link": ["base", "script"],
    "carry": ["base", "script", "link"],
    "options": ["base"],
    "stats": ["base"],
    "client": CORE,
    # What it is told of, it has to read: a call, a series, a sweep.
    "observe": [*CORE, "options", "stats", "client", "call", "series", "sweep"],
    "keeper": [*CORE, "carry", "client", "observe"],
    "call": [*CORE, "carry", "options", "stats", "client", "observe", "keeper"],
    "series": [*CORE, "carry", "options", "client", "observe", "keeper", "call"],
    "async": [*CORE, "carry", "options", "client", "observe", "keeper", "call", "series"],
    "inspect": [*CORE, "stats", "client", "keeper", "async"],
    "sweep": [*CORE, "carry", "options", "client", "observe", "keeper", "inspect"],
    "swarm": [*CORE, "options", "client", "observe", "keeper", "call", "inspect", "sweep"],
    "cli": [],
}
VENDOR = {
    "hiredis": ["src/link/"],
    "uv.h": ["src/base/uv_start", "src/keeper/", "src/link/line", "src/link/local", "src/async/loop",
             "src/cli/waiting", "swarm/"],
    "cJSON.h": ["src/cli/"],
    "openssl": ["src/link/"],
}
# acquire/ decides: time and chance are its arguments, memory is its caller's.
NOT_IN_ACQUIRE = ["time.h", "stdlib.h", "pthread.h", "unistd.h", "sys/", "poll.h", "stdio.h",
                  "base/random.h", "base/scope.h"]
# No socket outside link/.
SOCKET = ["sys/socket.h", "sys/un.h", "netinet/", "netdb.h", "arpa/"]


def layer_of(relative):
    parts = relative.split("/")
    if parts[0] == "swarm":
        return "swarm"
    return parts[1] if len(parts) > 2 else ""


def owner_of(target, root, path):
    """The layer that a quoted include leads to; None: a file that the build makes."""
    for base in path.parent, root / "src", root / "swarm":
        if (base / target).exists():
            return layer_of((base / target).resolve().relative_to(root).as_posix())
    return target.split("/")[0] if "/" in target else None


def complaints(root, path):
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
        for vendor, places in VENDOR.items():
            if target.startswith(vendor) and not relative.startswith(tuple(places)):
                yield f"{where}: {target} may not be included here"
        if layer == "acquire" and target.startswith(tuple(NOT_IN_ACQUIRE)):
            yield f"{where}: acquire/ decides without {target}"
        if layer in ("acquire", "script") and target.startswith(tuple(SOCKET)):
            yield f"{where}: {layer}/ knows no socket"


def public_complaints(root, path):
    for number, kind, target in includes(path):
        standard = kind == "<" and target in ("stdbool.h", "stddef.h", "stdint.h")
        if not standard and not (kind == "<" and target.startswith("rql/")):
            yield f"{path.relative_to(root).as_posix()}:{number}: a public header must not include {target}"


def main(root):
    root = pathlib.Path(root).resolve()
    found = [c for path in files(root, ["src", "swarm"]) for c in complaints(root, path)]
    found += [c for path in files(root, ["include"]) for c in public_complaints(root, path)]
    print("\n".join(found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
