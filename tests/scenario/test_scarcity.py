#!/usr/bin/env python3
"""Memory, threads or descriptors run out: calls say so, nothing is left behind, and the process goes on.

Each operation is done again and again, by a new client each time: the first allocation of the library, or of what it
is built on, fails, then the second, and so on until there is none that could fail. What libuv cannot do without
never fails (tests/remote/scarcity.c). Under a sanitizer, which has the allocator for itself, nothing fails.
"""
import os
import resource

from harness import FOREVER, MINUTE_MS, check_equal, main, scenario, wait_until

WHILE_MS = 3000  # a node of a cluster that cannot be reached is waited for
BRIEF_MS = 1500  # where what cannot be undone ends by its ttl: nor can it be noted to be undone later
FINE = {"OK", "E_NOMEM", "E_IO"}  # E_IO: a connection could not be made
MINE = {"task": 7}
FOR_GOOD = 1 << 30
TIMES = {1: "once", 2: "twice", FOR_GOOD: "for good"}
USUAL_DESCRIPTORS, ENOUGH_DESCRIPTORS = 1024, 12


class Scarce:
    """A remote that lacks something, while it is asked to do what an operation is about."""

    def __init__(self, world, operation, what, nth, times):
        self.world, self.operation, self.what, self.nth, self.times = world, operation, what, nth, times
        self.is_for_good = times == FOR_GOOD
        self.remote = world.shared
        self.has_struck = False

    def __enter__(self):
        if self.what == "descriptors":
            self.limit(n_descriptors(self.remote) + self.nth - 1)
        else:
            self.remote.do("scarce", what=self.what, nth=self.nth, times=self.times)

    def __exit__(self, *_):
        if self.what == "descriptors":
            self.limit(USUAL_DESCRIPTORS)
            self.has_struck = self.nth < ENOUGH_DESCRIPTORS
        else:
            self.has_struck = self.remote.do("enough").has_struck

    def limit(self, count):
        resource.prlimit(self.remote.process.pid, resource.RLIMIT_NOFILE, (count, USUAL_DESCRIPTORS))


def n_descriptors(remote):
    return len(os.listdir(f"/proc/{remote.process.pid}/fd"))


class Scene:
    """One try: a client of its own, which somebody else stands beside."""

    def __init__(self, world, kind, names, scarce, other):
        self.world, self.kind, self.names, self.scarce, self.other = world, kind, names, scarce, other
        is_given_up = scarce.is_for_good or scarce.times > 1 and scarce.operation is release_what_another_took
        self.ttl_ms = BRIEF_MS if is_given_up else MINUTE_MS
        history = "all" if scarce.operation is release else "off"
        self.client = world.client(world.shared, connect_timeout_ms=500, io_timeout_ms=500, history=history)
        self.actor = world.actor(kind, self.client)

    def release(self, held):
        """On a loop it may be refused; then it is held as before."""
        outcome = held.release()
        while outcome.words.get("is_kept"):
            outcome = held.release()
        outcome.check("OK", "NOT_HELD", "E_NOMEM")


def begin(scene):
    """A client, and a loop: of one server, and of several, which are not asked."""
    remote, begun = scene.world.shared, []
    with scene.scarce:
        for url in scene.world.server.url, "redis+shards://127.0.0.1:1,127.0.0.1:2":
            name = f"begun{next(scene.world.numbers)}"
            client = remote.do("client", client=name, options={"url": url}).check(*FINE)
            actor = client.status == "OK" and remote.do(scene.kind, name=name, client=name).check(*FINE)
            begun.append((name, client, actor))
    for name, client, actor in begun:
        if actor and actor.status == "OK":
            remote.do("end", name=name).check()
        if client.status == "OK":
            remote.do("free", client=name)


def acquire(scene, *also, **options):
    with scene.scarce:
        asking = scene.actor.ask(*scene.names, ttl_ms=scene.ttl_ms, timeout_ms=1000, **options)
        outcome = asking.outcome()
    if outcome.check(*FINE, "TIMED_OUT", *also).status == "OK":
        scene.release(asking.hold())


def acquire_and_renew(scene):
    acquire(scene, auto_extend=True)


def acquire_slots(scene):
    """Memory for them is needed when the server has granted them, and there may be none to give them back either."""
    acquire(scene, "E_UNKNOWN", share_units=2, share_limit=3, share_slots=True)


def release(scene, taker=None):
    held = (taker or scene.actor).acquire(*scene.names, ttl_ms=scene.ttl_ms)
    with scene.scarce:
        outcome = scene.actor.begin("release", lock=held.name).outcome().check(*FINE)
    if outcome.words.get("is_kept"):
        scene.release(held)


def release_what_another_took(scene):
    """Of the client: nothing is ready for it yet."""
    release(scene, scene.world.actor("thread" if scene.kind == "loop" else "loop", scene.client))


def extend(scene):
    held = scene.actor.acquire(*scene.names, ttl_ms=scene.ttl_ms)
    if scene.kind == "thread" or len(scene.names) == 1:
        with scene.scarce:
            held.extend(2 * MINUTE_MS).check(*FINE)
    scene.release(held)


def enter_again(scene):
    held = scene.actor.acquire(*scene.names, ttl_ms=scene.ttl_ms, **MINE)
    with scene.scarce:
        asking = scene.actor.ask(*scene.names, conflict_strategy="extendable_work_through", ttl_ms=1000, **MINE)
        outcome = asking.outcome().check(*FINE)
    if outcome.status == "OK":
        scene.release(asking.hold())
    scene.release(held)


def wait(scene):
    """Until it is handed over."""
    held = scene.other.acquire(*scene.names, ttl_ms=MINUTE_MS)
    with scene.scarce:
        asking = scene.actor.ask(*scene.names, ttl_ms=scene.ttl_ms, timeout_ms=WHILE_MS)
        wait_until(lambda: asking.is_over() or scene.world.queue_length(scene.names[0]), "it waits, or cannot")
        held.release().check()
        outcome = asking.outcome().check("E_UNKNOWN", "TIMED_OUT", *FINE)
    if outcome.status == "OK":
        scene.release(asking.hold())


def give_up(scene):
    held = scene.other.acquire(*scene.names, ttl_ms=MINUTE_MS)
    with scene.scarce:
        scene.actor.refused(*scene.names, timeout_ms=20).check("TIMED_OUT", "E_UNKNOWN", *FINE)
    if not scene.scarce.is_for_good:  # else its place is its until its client is gone
        wait_until(lambda: not any(scene.world.queue_length(name) for name in scene.names), "it has withdrawn")
    held.release().check()


def give_back_in_turn(scene):
    """The gem's series: the last of its locks is somebody else's."""
    held = scene.other.acquire(scene.names[-1], ttl_ms=MINUTE_MS)
    with scene.scarce:
        scene.actor.refused(*scene.names, mode="gem", fail_fast=True, ttl_ms=MINUTE_MS).check("FAIL_FAST_NO_TRY", *FINE)
    held.release().check()


OPERATIONS = (begin, acquire, acquire_and_renew, acquire_slots, release, release_what_another_took, extend, enter_again,
              wait, give_up)
OF_ONE_LOCK = acquire_slots, enter_again


def lacking(operation, what, times):
    def case(world, kind, names):
        world.shared = world.remote()
        other = world.actor("thread", world.client(world.remote()))
        nth, n_before = 1, None
        while True:
            scarce = Scarce(world, operation, what, nth, times)
            scene = Scene(world, kind, names, scarce, other)
            operation(scene)
            world.free(scene.client)
            other.acquire(*names, timeout_ms=FOREVER).release().check()
            world.await_nothing_left()
            n_before = n_before or n_descriptors(world.shared)  # libuv keeps two for the process
            check_equal(n_descriptors(world.shared), n_before, "descriptors")
            if not scarce.has_struck:
                break
            nth += 1 + scarce.is_for_good * nth // 3
    case.__name__ = f"{operation.__name__} lacks {what} {TIMES[times]}"
    return case


for one in OPERATIONS:
    for how_often in TIMES:
        n_locks = [1] if one in OF_ONE_LOCK or how_often == 2 else [1, 3]
        scenario(counts=n_locks, by_tls=False)(lacking(one, "memory", how_often))
    for lacked in "threads", "descriptors":
        scenario(counts=[1], by_tls=False)(lacking(one, lacked, FOR_GOOD))
scenario(counts=[3], by_tls=False)(lacking(give_back_in_turn, "memory", 1))


if __name__ == "__main__":
    main()
