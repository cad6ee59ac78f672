#!/usr/bin/env python3
"""A fleet of all kinds on the same locks: threads, loops, the gem, and a client of an earlier version."""
import sys

import others  # noqa: F401  the gem is one of the actors
from harness import (FOREVER, KINDS, MINUTE_MS, ROOT, check, check_equal, check_served_in_order, is_cluster, main,
                     scenario)
from pushes import line_up

sys.path.insert(0, str(ROOT / "lua"))
from embed import expanded  # noqa: E402

RUBIES = [] if is_cluster() else ["ruby"]
EVERYBODY = [*KINDS, *RUBIES]


def one_of_each(world, names, kinds, place=1):
    return line_up(world, [world.actor(kind) for kind in kinds], *names, place=place, ttl_ms=MINUTE_MS)


@scenario(kinds=EVERYBODY, counts=[1], is_timed=True)
def all_kinds_wait_in_one_queue(world, kind, names):
    """Behind one of this kind, and one of it at the end."""
    held = world.actor(kind).acquire(*names, ttl_ms=MINUTE_MS)
    check_served_in_order(one_of_each(world, names, [*EVERYBODY, kind]), held)
    check_equal(world.queue_length(names[0]), 0)
    check_equal(world.holder(names[0]), None)


@scenario(counts=[3])
def all_kinds_wait_for_several_locks(world, kind, names):
    held = world.actor(kind).acquire(*names, ttl_ms=MINUTE_MS)
    check_served_in_order(one_of_each(world, names, KINDS), held)
    world.await_nothing_left()


@scenario(kinds=["process", *RUBIES], counts=[1])
def a_waiter_that_dies_is_passed_by_all_kinds(world, kind, names):
    held = world.actor("thread").acquire(*names, ttl_ms=MINUTE_MS)
    dead = world.actor(kind)
    dead.ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    asked = one_of_each(world, names, KINDS, place=2)
    world.kill(dead)
    check_served_in_order(asked, held)
    world.await_nothing_left()


# ---- a client of an earlier version: its scripts have other texts, and so other ids, and its requests say less ----

TTL_MS = 20000
NOT_AFTER_US = 1 << 53


class Earlier:
    """What it sends. Its request bears no place, and both identities."""

    def __init__(self, world):
        self.world = world
        self.identity = f"{next(world.numbers):032x}"
        self.acq_id, self.hst_id = f"rql:acq:1/2/3/0/{self.identity}", f"rql:hst:1/2/0/{self.identity}"
        self.nonce = self.identity[::-1]
        self.subscriber = world.connection()
        self.subscriber.call("SUBSCRIBE", f"rql:wake:{self.identity}")

    def call(self, script, name, *words):
        text = expanded(ROOT / "lua" / f"{script}.lua") + "-- of before\n"
        sha = self.world.ask("SCRIPT", "LOAD", text)
        keys = [f"rql:{part}:{name}" for part in ("lock", "lock_queue", "req")] + ["rql:live", "rql:fence"]
        return [int(word) for word in self.world.ask("EVALSHA", sha, len(keys), *keys, *words).split()[:4]]

    def acquire(self, name):
        """Its token."""
        answer = self.call("acquire", name, self.acq_id, self.hst_id, TTL_MS, self.nonce, NOT_AFTER_US, "qw- -1 0 -1 0")
        return check_equal(answer[0], 1) or answer[3]

    def release(self, name):
        check_equal(self.call("release", name, self.nonce, 0)[0], 1)

    def wait(self, name):
        now_us = self.world.server.now_us()
        self.world.ask("HSET", f"rql:req:{name}", self.acq_id, f"{self.hst_id} {TTL_MS} {self.nonce} 0 q ")
        self.world.ask("ZADD", "rql:live", now_us, self.identity)
        self.world.ask("ZADD", f"rql:lock_queue:{name}", f"{now_us / 1000000:.6f}", self.acq_id)

    def granted(self):
        """Its token."""
        nonce, token, *_ = self.subscriber.read()[2].split()
        return check_equal(nonce, self.nonce) or int(token)


@scenario(counts=[1])
def an_earlier_version_takes_turns_with_this_one(world, kind, names):
    """Also when the server has forgotten the scripts of this one."""
    earlier = Earlier(world)
    tokens = [earlier.acquire(names[0])]
    asking = world.actor(kind).ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    world.await_listeners(2)
    earlier.release(names[0])
    held = asking.hold()
    earlier.wait(names[0])
    asking = world.actor(kind).ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 2)
    world.ask("SCRIPT", "FLUSH")
    held.release().check()
    tokens += [held.tokens[0], earlier.granted()]
    check_equal(world.holder(names[0]), earlier.acq_id)
    check(not asking.is_over(), "a later one came first")
    earlier.release(names[0])
    held = asking.hold()
    held.release().check()
    tokens += held.tokens
    check_equal(tokens, sorted(set(tokens)), "tokens")
    earlier.subscriber.close()
    world.await_nothing_left()


if __name__ == "__main__":
    main()
