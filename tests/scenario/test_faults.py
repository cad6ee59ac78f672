#!/usr/bin/env python3
"""Every operation meets every fault, at every place; afterwards the same must hold of all of them.

A case is an operation, a fault, and the n-th reply that it strikes. What must hold: the call ends in
time, with a status that says what may be true on the server; who was told that he holds the locks
does hold them, and nobody else; later tokens are larger; and when the fault is over nothing is left
that nobody holds.

Usage: test_faults.py REMOTE [WORD...]. WORDs choose cases by their titles; without any a sample is
taken, which the day chooses: what fails today fails again with RQL_TEST_DATE=<its date>. All of them
with RQL_TEST_LONG.
"""
import datetime
import os
import random
import shutil
import time

import harness
from harness import FOREVER, MINUTE_MS, Network, as_they_end, check, delayed_ms, scenario, wait_until
from pushes import line_up

SAMPLE = 120
PLACES = 4
WAIT_MS = 500      # of an acquisition that is to time out
SILENCE_MS = 150   # after which a connection counts as broken
GRACE_MS = 50      # for the withdrawal, and two round trips
SLACK_MS = 150     # of this machine; what kept the processes from running comes on top

NETWORK = {"OK", "TIMED_OUT", "E_IO", "E_UNKNOWN"}
# After a fault. E_IO: on a slow machine no connection may be there again within the time of the call; the release goes
# on in the background, and the lock ends by its ttl at the latest.
RELEASED = "OK", "NOT_HELD", "E_UNKNOWN", "E_IO"
FINAL = {"E_AUTH", "E_WRONG_TYPE"}  # refused, and not tried again
NO_WRITES = {"OK", "E_UNAVAILABLE", "E_UNKNOWN", "TIMED_OUT"}


# ---- faults ----

class Fault:
    """Begins before the call, strikes within, and is ended when the call is over; or, if the call
    needs an end of it, when it has struck."""
    places = 1
    statuses = NETWORK
    loses_data = False

    def __init__(self, n):
        self.n = n

    def begin(self, scene):
        raise NotImplementedError

    def end(self, scene):
        scene.network.heal()

    def has_struck(self, scene):
        del scene
        return True


def by_network(fault, count=1):
    """A fault of the network that strikes at the first reply, the second one and so on."""
    class ByNetwork(Fault):
        places = count

        def begin(self, scene):
            scene.network.fail(fault, n=self.n)
    return ByNetwork


DropReply = by_network("drop_reply", PLACES)


class CutRequest(Fault):
    """In the middle of what is sent."""
    places = 3

    def begin(self, scene):
        scene.network.fail("cut_after", n=(0, 1, 100)[self.n - 1], direction="up")


class Freeze(Fault):
    def begin(self, scene):
        self.before = scene.network.count("connections")
        scene.network.fail("freeze", n=1)

    def has_struck(self, scene):
        return scene.network.count("connections") > self.before


class Refuse(Fault):
    def begin(self, scene):
        scene.network.fail("refuse", n=1)
        scene.network.fail("cut")


class KillServer(Fault):
    """It comes back without its data."""
    statuses = NETWORK | {"NOT_HELD"}
    loses_data = True

    def begin(self, scene):
        scene.world.server.kill()
        scene.world.server.forget()
        self.is_down = True

    def end(self, scene):
        if self.is_down:
            scene.relaunch()
            self.is_down = False


class RestartServer(KillServer):
    """It comes back with its data."""
    statuses = NETWORK
    loses_data = False

    def begin(self, scene):
        scene.world.save()
        scene.world.server.kill()
        self.is_down = True


def by_command(statuses, begin, end=None, loses_data=False):
    """A fault that the server is told to have, and to have no longer."""
    class ByCommand(Fault):
        def begin(self, scene):
            scene.world.ask(*begin.split())

        def end(self, scene):
            if end:
                scene.world.ask(*end.split())
            else:
                super().end(scene)
    ByCommand.statuses, ByCommand.loses_data = statuses, loses_data
    return ByCommand


class ForeignType(Fault):
    """The key of the first lock holds a text. What was held is lost."""
    statuses = {"E_WRONG_TYPE", "E_UNKNOWN", "NOT_HELD", "TIMED_OUT"}
    loses_data = True

    def begin(self, scene):
        scene.world.ask("SET", f"rql:lock:{scene.names[0]}", "a text")

    def end(self, scene):
        if scene.world.ask("TYPE", f"rql:lock:{scene.names[0]}") == "string":
            scene.world.ask("DEL", f"rql:lock:{scene.names[0]}")


class ClockForward(Fault):
    """By more than any ttl: what is held expires. In the end the clock is right again, which sets it
    back; tokens rise all the same."""
    statuses = {"OK", "NOT_HELD", "TIMED_OUT"}
    loses_data = True

    def begin(self, scene):
        scene.world.server.set_ahead(10 * MINUTE_MS * 1000)

    def end(self, scene):
        scene.world.server.set_ahead(0)


class ClockBack(ClockForward):
    """By an hour, and forward again in the end: what began meanwhile ends then."""
    statuses = {"OK", "TIMED_OUT"}

    def begin(self, scene):
        scene.world.server.set_ahead(-60 * MINUTE_MS * 1000)


class FullDisk(Fault):
    """MISCONF: it could not save, and refuses to write."""
    statuses = NO_WRITES

    def begin(self, scene):
        server = scene.world.server
        server.forget()
        os.makedirs(server.folder + "/dump.rdb/in-the-way")
        scene.world.ask("CONFIG", "SET", "save", "3600 1")
        self.await_info(scene, "rdb_bgsave_in_progress:0")
        scene.world.ask("BGSAVE")
        self.await_info(scene, "rdb_last_bgsave_status:err")

    @staticmethod
    def await_info(scene, text):
        wait_until(lambda: text in scene.world.ask("INFO", "persistence"), text)

    def end(self, scene):
        shutil.rmtree(scene.world.server.folder + "/dump.rdb", ignore_errors=True)
        scene.world.ask("CONFIG", "SET", "save", "")


FAULTS = {
    "a lost reply": DropReply, "a reply that is cut off": by_network("cut_reply", PLACES),
    "a request that is cut off": CutRequest, "a cut": by_network("cut"), "silence": Freeze,
    "a refused connection": Refuse, "a killed server": KillServer, "a restarted server": RestartServer,
    "lost data": by_command(NETWORK | {"NOT_HELD"}, "FLUSHALL", loses_data=True),
    "forgotten scripts": by_command({"OK", "TIMED_OUT"}, "SCRIPT FLUSH"),
    "a key of another type": ForeignType,
    "a missing right": by_command({"E_AUTH", "E_UNKNOWN", "TIMED_OUT"}, "ACL SETUSER default -evalsha -eval",
                                  "ACL SETUSER default +@all"),
    "a full server": by_command(NO_WRITES, "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
    "too few replicas": by_command(NO_WRITES, "CONFIG SET min-replicas-to-write 1",
                                   "CONFIG SET min-replicas-to-write 0"),
    "a full disk": FullDisk,
    "a replica": by_command({"E_READ_ONLY", "E_UNKNOWN", "TIMED_OUT"}, "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
    "a clock set forward": ClockForward, "a clock set back": ClockBack,
}


# ---- the scene ----

class Scene:
    """One actor behind a bad network, and another one beside it."""

    def __init__(self, world, kind, names):
        self.world, self.names = world, names
        self.network = Network(world)
        client = self.network.client(connect_timeout_ms=SILENCE_MS, io_timeout_ms=SILENCE_MS, retry_delay_ms=100,
                                     retry_jitter_ms=10)
        self.actor = world.actor(kind, client)
        self.other = world.actor("thread")
        wait_until(self.is_warm, "it is connected, and the scripts are known")
        self.token = 0  # the largest so far
        self.delayed_ms = self.kept_ms()

    def is_warm(self):
        """A busy machine may take longer for a login than is waited for here."""
        asking = self.actor.ask("warm")
        return asking.outcome().status == "OK" and asking.hold().release().status == "OK"

    def kept_ms(self):
        """How long its process and the server were kept from running, in all."""
        return delayed_ms(self.network.remote.process.pid) + delayed_ms(self.world.server.process.pid)

    def statuses(self, fault):
        """On a machine that is too busy for its short time-outs any call may meet silence as well."""
        is_slow = self.kept_ms() - self.delayed_ms > SILENCE_MS / 4
        return fault.statuses | (NETWORK if is_slow else set())

    def relaunch(self):
        self.world.server.launch()
        self.world.reconnect()

    def held_by(self, outcome):
        """Whether the server says that it holds all."""
        return all(self.world.token(name) == token for name, token in zip(self.names, outcome.tokens))

    def end(self, fault):
        """Whatever happened: it can be acquired again, and nothing is left."""
        fault.end(self)
        self.network.heal()
        if not fault.loses_data:
            self.check_next()
        wait_until(lambda: not self.world.keys_left(), f"nothing is left of {self.world.keys_left()}")
        self.check_next()

    def check_next(self):
        held = self.other.acquire(*self.names, timeout_ms=MINUTE_MS, ttl_ms=MINUTE_MS)
        check(held.tokens[0] > self.token, f"token {held.tokens[0]} after {self.token}")
        self.token = held.tokens[0]
        held.release().check()


def in_time(scene, asked, limit_ms):
    """The outcome of a call, or of an acquisition, which has to be there in time."""
    before = delayed_ms(scene.network.remote.process.pid)
    outcome = asked.outcome()
    limit_ms += GRACE_MS + SLACK_MS + delayed_ms(scene.network.remote.process.pid) - before
    check(outcome.took_us <= limit_ms * 1000, f"{outcome!r} took {outcome.took_us} us; {limit_ms} ms are allowed")
    return outcome


def outcome_under(scene, fault, begin, limit_ms):
    """What is begun while the fault lasts, and its outcome; the fault is over then."""
    fault.begin(scene)
    asked = begin()
    outcome = in_time(scene, asked, limit_ms)
    outcome.check(*scene.statuses(fault))
    fault.end(scene)
    scene.network.heal()
    return asked, outcome


# ---- operations ----

def acquire(scene, fault):
    """A free lock, within a time that the fault may outlast."""
    asking, outcome = outcome_under(scene, fault, lambda: scene.actor.ask(*scene.names, timeout_ms=WAIT_MS, ttl_ms=MINUTE_MS),
                                    WAIT_MS + SILENCE_MS)
    if outcome.status == "OK":
        check(fault.loses_data or scene.held_by(outcome), "it does not hold what it was told it holds")
        scene.token = outcome.tokens[0]
        asking.hold().release().check(*RELEASED)


def extend(scene, fault):
    held = scene.actor.acquire(*scene.names, ttl_ms=MINUTE_MS)
    scene.token = held.tokens[0]
    _, outcome = outcome_under(scene, fault, lambda: held.begin("extend", ttl_ms=2 * MINUTE_MS), 4 * SILENCE_MS)
    left_ms = scene.world.ask("PTTL", f"rql:lock:{scene.names[0]}")
    check(left_ms <= 2 * MINUTE_MS, "it was extended twice")
    check(outcome.status != "OK" or fault.loses_data or left_ms > MINUTE_MS, "it was not extended")
    held.release().check(*RELEASED)


def end(scene, fault):
    held = scene.actor.acquire(*scene.names, ttl_ms=MINUTE_MS)
    scene.token = held.tokens[0]
    fault.begin(scene)
    outcome = in_time(scene, held.begin("release"), 4 * SILENCE_MS)
    outcome.check(*scene.statuses(fault))
    check(outcome.status != "OK" or not scene.world.server_is_up()
          or not scene.held_by(held.outcome), "released, and still there")
    if outcome.status in FINAL:  # it ends by its ttl
        fault.end(scene)
        for name in scene.names:
            scene.world.ask("PEXPIRE", f"rql:lock:{name}", 1)


def end_lazily(scene, fault):
    """A refusal is told; all else ends with the lock free, as Scene.end() finds."""
    held = scene.actor.acquire(*scene.names, ttl_ms=MINUTE_MS, lazy_release=True)
    scene.token = held.tokens[0]
    fault.begin(scene)
    in_time(scene, held.begin("release"), 4 * SILENCE_MS).check("OK", *scene.statuses(fault))
    if fault.statuses & FINAL:  # it ends by its ttl
        wait_until(held.is_lost, "it is told")
        fault.end(scene)
        for name in scene.names:
            scene.world.ask("PEXPIRE", f"rql:lock:{name}", 1)


def withdraw(scene, fault):
    """A request that times out while its lock is held by the other."""
    held = scene.other.acquire(*scene.names, ttl_ms=MINUTE_MS)
    scene.token = held.tokens[0]
    asking = scene.actor.ask(*scene.names, timeout_ms=WAIT_MS)
    scene.world.await_queue(scene.names, 1)
    fault.begin(scene)
    outcome = in_time(scene, asking, WAIT_MS + SILENCE_MS)
    outcome.check("TIMED_OUT", *scene.statuses(fault), *(["OK"] if fault.loses_data else []))
    fault.end(scene)
    if outcome.status == "OK":
        asking.hold().release().check(*RELEASED)
    held.release().check(*RELEASED)


def wait(scene, fault):
    """The fault strikes a request that waits; the lock is released, and it must get it."""
    held = scene.other.acquire(*scene.names, ttl_ms=MINUTE_MS)
    scene.token = held.tokens[0]
    asking = scene.actor.ask(*scene.names, timeout_ms=FOREVER, ttl_ms=MINUTE_MS)
    scene.world.await_queue(scene.names, 1)
    fault.begin(scene)
    wait_until(lambda: fault.has_struck(scene), "the fault strikes")
    fault.end(scene)
    held.release().check(*RELEASED)
    if asking.outcome().status in fault.statuses & FINAL:
        return
    mine = asking.hold()
    check(scene.held_by(mine.outcome), "it does not hold what it was told it holds")
    check(fault.loses_data or mine.tokens[0] > scene.token, "its token is not larger")
    scene.token = mine.tokens[0]
    mine.release().check()


def renew(scene, fault):
    """A lock that is renewed lives on, or its holder is told; nobody else has it before."""
    ttl_ms = 2000
    held = scene.actor.acquire(*scene.names, ttl_ms=ttl_ms, auto_extend=True)
    scene.token = held.tokens[0]
    fault.begin(scene)
    over = time.monotonic() + ttl_ms / 2000
    wait_until(lambda: time.monotonic() > over, "half a ttl passes")
    fault.end(scene)
    over += ttl_ms / 1000
    wait_until(lambda: held.is_lost() or time.monotonic() > over, "another ttl passes")
    is_there = scene.held_by(held.outcome)
    check(is_there or held.is_lost(), "it is gone, and nobody said so")
    check(is_there or held.state() == "GONE", f"it is gone and {held.state()}")
    held.release().check(*RELEASED)


def hand_on(scene, fault):
    """From one to the next inside the client, and on to a third: whoever relies on it holds it, or is told."""
    name = scene.names[0]
    held = scene.actor.acquire(name, ttl_ms=MINUTE_MS)
    scene.token = held.tokens[0]
    actors = [scene.actor if scene.actor.kind == "loop" else scene.world.actor("thread", scene.actor.client)
              for _ in range(2)]
    asked = line_up(scene.world, actors, name, ttl_ms=MINUTE_MS)
    _, released = outcome_under(scene, fault, lambda: held.begin("release"), 4 * SILENCE_MS)
    if released.status in FINAL:  # it ends by its ttl
        scene.world.ask("PEXPIRE", f"rql:lock:{name}", 1)
    for asking in as_they_end(asked):  # who does not listen when its turn comes is passed
        if asking.outcome().status in fault.statuses & FINAL:
            continue
        mine = asking.hold()
        # Who has lost it with the server's data, or by its clock, learns of it at his next call only.
        wait_until(lambda mine=mine: fault.loses_data or mine.state() == "GONE" or scene.held_by(mine.outcome),
                   "it holds what it was told it holds, or is told that it does not")
        check(fault.loses_data or mine.tokens[0] > scene.token, "its token is not larger")
        scene.token = max(scene.token, mine.tokens[0])
        mine.release().check(*RELEASED)


SHARE = {"share_units": 1, "share_limit": 2, "ttl_ms": MINUTE_MS}


def used(scene):
    """How many units are in use beside each other."""
    return int(scene.world.ask("HGET", f"rql:lock:{scene.names[0]}", "rql_used") or 0)


def share(scene, fault):
    """A share beside that of the other, within a time that the fault may outlast."""
    theirs = scene.other.acquire(*scene.names, **SHARE)
    scene.token = theirs.tokens[0]
    asking, outcome = outcome_under(scene, fault, lambda: scene.actor.ask(*scene.names, **SHARE, timeout_ms=WAIT_MS),
                                    WAIT_MS + SILENCE_MS)
    if outcome.status == "OK":
        check(fault.loses_data or used(scene) == 2, "it has no share, and was told that it has")
        scene.token = max(scene.token, outcome.tokens[0])
        asking.hold().release().check(*RELEASED)
    wait_until(lambda: fault.loses_data or used(scene) < 2, "its share has ended")
    theirs.release().check(*RELEASED)


def end_share(scene, fault):
    theirs = scene.other.acquire(*scene.names, **SHARE)
    mine = scene.actor.acquire(*scene.names, **SHARE)
    scene.token = mine.tokens[0]
    _, outcome = outcome_under(scene, fault, lambda: mine.begin("release"), 4 * SILENCE_MS)
    if outcome.status in FINAL:  # it ends by its ttl
        scene.world.ask("DEL", f"rql:lock:{scene.names[0]}", f"rql:shares:{scene.names[0]}")
    wait_until(lambda: used(scene) < 2, "its share has ended")
    theirs.release().check(*RELEASED)


def lower(scene, fault):
    """A lock that is held alone is shared, or held as before."""
    held = scene.actor.acquire(*scene.names, ttl_ms=MINUTE_MS)
    scene.token = held.tokens[0]
    _, outcome = outcome_under(scene, fault, lambda: held.begin("lower", names=held.names, options=SHARE), 4 * SILENCE_MS)
    is_shared = scene.world.ask("HEXISTS", f"rql:lock:{scene.names[0]}", "rql_share")
    check(fault.loses_data or is_shared or outcome.status != "OK", "it is not shared, and was told that it is")
    held.release().check(*RELEASED)


OPERATIONS = (acquire, extend, end, end_lazily, withdraw, wait, renew, hand_on, share, end_share, lower)


# ---- the table ----

def meets(operation, fault, word, n):
    """A scenario of one case."""
    def case(world, kind, names):
        scene = Scene(world, kind, names)
        struck = fault(n)
        operation(scene, struck)
        scene.end(struck)
    place = f" at {n}" if fault.places > 1 else ""
    case.__name__ = f"{operation.__name__} meets {word}{place}"
    return case


def is_possible(operation, fault, kind, count):
    """No call extends a series on a loop, and a series is not handed on, nor shared. TCP loses no reply of several without those
    that follow."""
    if operation is end_lazily:
        return count == 1 and kind == "thread"
    if operation in (share, end_share, lower):
        return count == 1
    if operation is hand_on:
        return count == 1 and fault is not DropReply
    return count == 1 or not (operation is extend and kind == "loop" or fault is DropReply)


def declare():
    for operation in OPERATIONS:
        for word, fault in FAULTS.items():
            for n in range(1, fault.places + 1):
                case = meets(operation, fault, word, n)
                for kind in ("thread", "loop"):
                    for count in (1, 3):
                        if is_possible(operation, fault, kind, count):
                            scenario([kind], [count], is_timed=True)(case)


def faults_of_the_day(cases):
    """All, or what the day says."""
    if "RQL_TEST_LONG" not in os.environ:
        day = os.environ.get("RQL_TEST_DATE") or datetime.date.today().isoformat()
        print(f"# {SAMPLE} of {len(cases)} cases: RQL_TEST_DATE={day}")
        cases = random.Random(day).sample(cases, SAMPLE)
    return harness.share_of_the_day(cases)


if __name__ == "__main__":
    declare()
    harness.main(sample=faults_of_the_day)
