"""Requests behind which nobody stands any more: copies of one that a killed process has left, so that they are as the
library writes them."""
from harness import FOREVER

LONG_MS = 60000


def dead_request(world):
    """The name of a process that was killed while it waited, and its record."""
    world.ask("HSET", "rql:lock:pattern", "acq_id", "a", "hst_id", "h", "ts", "1.0", "ini_ttl", LONG_MS)
    dead = world.actor("process")
    dead.ask("pattern", timeout_ms=FOREVER)
    world.await_queue(["pattern"], 1)
    world.kill(dead)
    acquirer = world.ask("ZRANGE", "rql:lock_queue:pattern", 0, 0)[0]
    record = world.ask("HGET", "rql:req:pattern", acquirer)
    world.ask("DEL", *[f"rql:{part}:pattern" for part in ("lock", "lock_queue", "req")])
    return acquirer, record


def plant_dead(world, names, count, is_fresh=True, is_of_one=False, pattern=None):
    """Copies of it, in front of all who come from now on. The fresh ones still count as alive, and nobody hears
    them; all may be of one process. `pattern`: what dead_request() gave, where it is asked for only once."""
    acquirer, record = pattern or dead_request(world)
    identity = acquirer[-32:]
    nonce = next(part for part in record.split() if len(part) == 32 and part != identity)
    now_us = world.server.now_us()
    scores, records, alive = [], [], []
    for i in range(count):
        new_nonce = f"dead{i + 1:028x}"
        new_identity = f"dead{0:028x}" if is_of_one else new_nonce
        copy = f"rql:acq:90002/{i + 1}/1/1/{new_identity}"
        scores += [f"{(now_us + i) / 1000000 - 10:.6f}", copy]
        records += [copy, record.replace(identity, new_identity).replace(nonce, new_nonce)]
        alive += [now_us, new_identity]
    world.ask("ZADD", f"rql:lock_queue:{names[0]}", *scores)
    world.ask("HSET", f"rql:req:{names[0]}", *records)
    if is_fresh:
        world.ask("ZADD", "rql:live", *alive)
