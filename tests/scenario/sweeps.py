"""Sweeps, and what they find: locks and requests of the gem, and requests of ours as acquire.lua writes them."""
from harness import MINUTE_MS, check_equal

RUBY = ("rql:acq:18466/600/620/640/aaaaaaaaaaaaaaa1", "rql:hst:18466/600/640/aaaaaaaaaaaaaaa1")
OTHER = ("rql:acq:18524/600/620/640/bbbbbbbbbbbbbbb2", "rql:hst:18524/600/640/bbbbbbbbbbbbbbb2")
DEAD = "rql:acq:90001/1/2/3/ffffffffffffff01"
OURS, SILENT = "0123456789abcdef" * 2, "fedcba9876543210" * 2


def sweep(actor, of, status="OK", **words):
    """Of an actor that is a thread."""
    if of in (RUBY, OTHER):
        words, of = {"acq_id": of[0], "hst_id": of[1], **words}, "owner"
    done = actor.begin("sweep", of=of, **words).outcome().check(status)
    if status == "OK" and done.rel_time_us <= 0:
        raise AssertionError("it took no time")
    return done


def n_keys(world):
    """All but the list of what clients are called."""
    return world.ask("DBSIZE") - world.ask("EXISTS", "rql:clients")


def check_counts(done, keys, queues, requests):
    check_equal((done.rel_key_cnt, done.tch_queue_cnt, done.rem_request_cnt), (keys, queues, requests), "counts")


def hold_as(world, owner, *names, ttl_ms=MINUTE_MS, ts="1795255163.1190374"):
    """As the gem writes it."""
    for name in names:
        world.ask("HSET", f"rql:lock:{name}", "acq_id", owner[0], "hst_id", owner[1], "ts", ts, "ini_ttl", ttl_ms)
        world.ask("PEXPIRE", f"rql:lock:{name}", ttl_ms)


def share_as(world, name, owners, limit=4096):
    """A lock of several, one unit each: {acquirer: host}. Its shares end one after the other, in this order."""
    end_us = world.server.now_us() + 1000 * MINUTE_MS
    lock = {"acq_id": "rql:acq:shared/0/0/0/" + "0" * 32, "hst_id": "rql:hst:shared/0/0/" + "0" * 32,
            "ts": "1795255163.1190374", "ini_ttl": MINUTE_MS, "rql_nonce": "shared", "rql_used": len(owners)}
    for i, (acquirer, of_host) in enumerate(owners.items()):
        lock[f"rql_h:{acquirer}"] = f"{i:032x} 1 {limit} {end_us + i} {MINUTE_MS} - {of_host} "
        world.ask("ZADD", f"rql:shares:{name}", end_us + i, acquirer)
    world.ask("HSET", f"rql:lock:{name}", *sum(lock.items(), ()))
    for key in f"rql:lock:{name}", f"rql:shares:{name}":
        world.ask("PEXPIRE", key, MINUTE_MS)


def queue_as(world, name, *acquirers, score=1795255163.5):
    """In this order, all of the gem."""
    for i, acquirer in enumerate(acquirers):
        world.ask("ZADD", f"rql:lock_queue:{name}", score + i, acquirer)


def ours(number, identity=OURS):
    return f"rql:acq:1/{number}/0/0/{identity}"


def wait_as(world, name, number, identity=OURS, until_us=0):
    """One of ours; until_us 0: without end."""
    record = f"rql:hst:1/{number}/0/{identity} 1000 {number:032d} {until_us} q "
    world.ask("ZADD", f"rql:lock_queue:{name}", number, ours(number, identity))
    world.ask("HSET", f"rql:req:{name}", ours(number, identity), record)


def live(world, identity=OURS):
    world.ask("ZADD", "rql:live", world.server.now_us() + 1000000, identity)
