#!/usr/bin/env python3
"""Servers that have lost their minds: each call ends in time with a fault, and all goes on when they are sane again."""
import os

from harness import SLOW, STATUS, check, check_equal, main, scenario, wait_until
from insane import Relay

SHOWS = "RQL_TEST_SHOW" in os.environ
IO_MS, WAIT_MS = 300 * SLOW, 300 * SLOW
SLACK_US = 2000000 * SLOW  # beyond what the call itself may take
AT_ONCE, SOME = 12, 12
PUSHED_WAIT_MS = 20000 * SLOW
WALKS, WALK = ("keys", "locks_info", "queues_info"), 8
STORM = 2000  # no call asks so often
HUGE = 1 << 25  # more than a client reads of one reply

# In place of each reply. These are replies, but not of the command that was asked.
OF_ANOTHER_SHAPE = (b":7\r\n", b":-9223372036854775808\r\n", b"+OK\r\n", b"+\r\n", b"$-1\r\n", b"*-1\r\n", b"*0\r\n",
                    b"$0\r\n\r\n", b"$3\r\n\0\xff\n\r\n", b"*3\r\n:1\r\n$-1\r\n*0\r\n", b"*1\r\n*1\r\n*1\r\n:1\r\n",
                    b"*2\r\n$1\r\n0\r\n*-1\r\n", b"*7\r\n" + b"$-1\r\n" * 7,
                    b"$20\r\n1 -5 -5 -5 -5 -5 -5x\r\n", b"$11\r\n0 0 0 0 0 0\r\n", b"$1\r\n9\r\n",
                    b"$" + b"%d" % 38 + b"\r\n5 99999999999999999999999999999999999 \r\n",
                    b"*2000\r\n" + b"$1\r\nx\r\n" * 2000, b"$1000000\r\n" + b"1 " * 500000 + b"\r\n")
# These are none.
NO_REPLIES = (b"$-5\r\n", b"*-5\r\n", b"$99999999999999999999\r\n", b"$9223372036854775807\r\n", b"$4294967295\r\n",
              b"*2147483647\r\n", b"*9223372036854775807\r\n", b"*131073\r\n", b"$5000000000\r\n",
              b"*1\r\n" * 9 + b":1\r\n",
              b":\r\n", b":1x\r\n", b"$\r\n", b"*\r\n", b"\r\n", b"\0" * 64, b"\x16\x03\x01\x02\x00\x01\x00",
              b"GET / HTTP/1.1\r\n\r\n",
              b"%1\r\n+a\r\n:1\r\n", b"_\r\n", b"#t\r\n", b",inf\r\n",
              b"(3492890328409238509324850943850943825024385\r\n",
              b"~1\r\n:1\r\n", b"=7\r\ntxt:abc\r\n", b"|1\r\n+k\r\n+v\r\n:1\r\n", b">3\r\n+message\r\n+x\r\n+y\r\n",
              b">0\r\n",
              b">-1\r\n", b">2\r\n$10\r\ninvalidate\r\n:1\r\n", b"!5\r\nERR x\r\n", b"$3\r\nabcdefgh", b"$4\r\nab\r\n")
ERRORS = (b"-\r\n", b"- \r\n", b"-MOVED\r\n", b"-MOVED 3999\r\n", b"-MOVED 3999 127.0.0.1:0\r\n",
          b"-MOVED 3999 127.0.0.1:99999\r\n",
          b"-MOVED 3999 :6379\r\n", b"-MOVED 3999 ::1:1\r\n", b"-MOVED 3999 [::1]:1\r\n",
          b"-MOVED 99999 127.0.0.1:1\r\n",
          b"-MOVED -1 127.0.0.1:1\r\n", b"-MOVED 3999 \r\n", b"-MOVED 3999 " + b"x" * 5000 + b":1\r\n",
          b"-ASK 3999 127.0.0.1:0\r\n", b"-TRYAGAIN x\r\n", b"-CLUSTERDOWN x\r\n", b"-NOSCRIPT No matching script\r\n",
          b"-LOADING x\r\n", b"-BUSY x\r\n", b"-READONLY x\r\n", b"-OOM x\r\n", b"-NOAUTH x\r\n", b"-NOPERM x\r\n",
          b"-WRONGTYPE x\r\n",
          b"-NOREPLICAS x\r\n", b"-ERR " + b"x" * 100000 + b"\r\n",
          b"-ERR Error running script @user_script:1: @user_script\r\n")


def moved_to_itself(connection, _reply):
    return b"-MOVED 3999 127.0.0.1:%d\r\n" % connection.proxy.port


def asked_at_itself(connection, _reply):
    return b"-ASK 3999 127.0.0.1:%d\r\n" % connection.proxy.port


def unasked_as_well(_connection, reply):
    return reply + b"+surprise\r\n"


def said_twice(_connection, reply):
    return reply + reply


def said_often(_connection, reply):
    return reply * 10000


def silence(_connection, _reply):
    return b""


def half(_connection, reply):
    return reply[:len(reply) // 2]


def text_without_end(connection, _reply):
    """Whoever kept all of it would have no memory left in the end."""
    connection.send(b"$%d\r\n" % (HUGE * 64))
    return flood(connection, b"x" * 65536)


def list_without_end(connection, _reply):
    connection.send(b"*%d\r\n" % 131072)
    return flood(connection, b"$65536\r\n" + b"x" * 65536 + b"\r\n")


def error_without_end(connection, _reply):
    connection.send(b"-ERR ")
    return flood(connection, b"x" * 65536)


def flood(connection, data):
    before = connection.n_sent
    while connection.n_sent - before < HUGE * 4 and not connection.proxy.is_sane.is_set():
        connection.send(data)
    return b""


def dripping_reply(connection, reply):
    return connection.drip(b"$1000000\r\n" + b"x" * 1000000, 0.02)


def dripping_line(connection, reply):
    return connection.drip(b":" + b"0" * 1000000, 0.02)


TRICKS = (moved_to_itself, asked_at_itself, unasked_as_well, said_twice, said_often, silence, half, text_without_end,
          list_without_end, error_without_end, dripping_reply, dripping_line)
MADNESS = OF_ANOTHER_SHAPE + NO_REPLIES + ERRORS + TRICKS


def name_of(change):
    return change.__name__ if callable(change) else repr(change[:60])


def some_of(world, changes):
    """All of them where RQL_TEST_LONG is set; some, others each time, where not."""
    return list(changes) if "RQL_TEST_LONG" in os.environ else world.random.sample(changes, SOME)


class Caller:
    """Of such a server: an actor with a relay of its own, that holds a lock."""

    def __init__(self, world, kind, change, name=None):
        self.world, self.kind, self.change, self.name = world, kind, change, name or name_of(change)
        self.relay = self.begin_relay()
        self.client = world.client(url=self.relay.url, connect_timeout_ms=IO_MS, io_timeout_ms=IO_MS)
        self.actor = world.actor(kind, self.client)
        self.lock = f"{kind}.{self.relay.port}"
        self.begun, self.asked = [], []
        self.held = self.get_well(self.lock)

    asks_all = True

    def begin_relay(self):
        return Relay(self.world.server.path)

    def heal(self):
        self.relay.heal()

    def recover(self):
        """All is as it was; it leaves."""
        self.heal()
        for asking in self.asked:
            if asking.outcome().status == "OK":  # or it believes so
                asking.hold().release()
        if not self.begun:
            self.held.release()
        self.get_well("well." + self.lock).release()
        self.world.free(self.client)
        self.relay.stop()

    def get_well(self, lock):
        """A lock is had, at the latest when its connections have been made anew."""
        asked = []

        def is_held():
            asked.append(self.actor.ask(f"{lock}.{len(asked)}", ttl_ms=60000, timeout_ms=5000))
            return asked[-1].outcome().status == "OK"
        wait_until(is_held, f"it works again after {self.name}")
        return asked[-1].hold()

    def begin(self):
        """Several calls of each kind that it knows."""
        def ask(what, call):
            self.begun.append((what, call))
        self.asked = [self.actor.ask(*names, timeout_ms=WAIT_MS)
                      for names in (("a" + self.lock,), ("b" + self.lock, "c" + self.lock))]
        for asking in self.asked:
            ask(f"acquisition of {len(asking.names)}", asking)
        ask("extend", self.held.begin("extend", ttl_ms=5000))
        if self.kind == "thread":
            ask("verify", self.held.begin("verify"))
            ask("force_extend", self.actor.begin("force_extend", name=self.lock + ".0", add_ms=1))
            for of in ("is_locked", "lock", "queue"):
                ask(of, self.actor.begin("inspect", of=of, name=self.lock + ".0"))
            for of in WALKS:
                ask(of, self.actor.begin("inspect", of=of))
            if self.asks_all:
                ask("diagnosis", self.actor.begin("inspect", of="diagnosis", time_limit_ms=WAIT_MS))

    def begin_release(self):
        """Not before its extension has ended, as async.h demands."""
        self.begun = [("release", self.held.begin("release"))]

    def check(self):
        for what, call in self.begun:
            outcome = call.outcome()
            if SHOWS:
                print(f"# {self.kind} {self.name} {what}: {outcome} {outcome.took_us // 1000} ms", flush=True)
            place = f"{what} after {self.name}"
            check(STATUS[outcome.status] >= 0 or outcome.error, f"{place}: {outcome.status} without a word")
            n_times = WALK if what in WALKS else 1  # of each page of a walk
            check(outcome.took_us < n_times * (2 * IO_MS + WAIT_MS) * 1000 + SLACK_US,
                  f"{place} took {outcome.took_us} us")


def check_all(callers):
    for caller in callers:
        caller.relay.go_mad(caller.change)
        caller.begin()
    for caller in callers:
        caller.check()
    for caller in callers:
        caller.begin_release()
    for caller in callers:
        caller.check()
        check(caller.relay.n_changed < STORM, f"{caller.relay.n_changed} replies of {caller.name}")
    for caller in callers:
        caller.recover()


@scenario(counts=[1], in_cluster=False)
def what_no_server_says_ends_each_call_in_time(world, kind, _names):
    changes = some_of(world, MADNESS)
    for first in range(0, len(changes), AT_ONCE):
        check_all([Caller(world, kind, change) for change in changes[first:first + AT_ONCE]])


# ---- a cluster ----

def node(host, port):
    """As it is in a map."""
    return b"*2\r\n$%d\r\n%s\r\n:%d\r\n" % (len(host), host, port)


def row(first, last, master):
    return b"*3\r\n:%d\r\n:%d\r\n" % (first, last) + master


def map_of(*rows):
    return b"*%d\r\n" % len(rows) + b"".join(rows)


NOBODY = node(b"127.0.0.1", 1)
MAPS = (map_of(), b"*-1\r\n", b":1\r\n", b"$3\r\nabc\r\n", b"-ERR x\r\n", map_of(b":1\r\n"), map_of(b"*0\r\n"),
        map_of(b"*-1\r\n"),
        map_of(row(0, 16383, NOBODY)), map_of(row(0, 16383, node(b"::1", 1))), map_of(row(0, 16383, node(b"[::1]", 1))),
        map_of(row(0, 16383, node(b"127.0.0.1", 0))), map_of(row(0, 16383, node(b"127.0.0.1", -1))),
        map_of(row(0, 16383, node(b"127.0.0.1", 1 << 40))), map_of(row(0, 16383, node(b"x" * 5000, 1))),
        map_of(row(0, 16383, node(b"a\0b", 1))), map_of(row(0, 16383, node(b"no.such.host.invalid", 1))),
        map_of(row(5, 2, NOBODY)), map_of(row(-1, 2, NOBODY)), map_of(row(0, 16384, NOBODY)), map_of(row(0, 1 << 62,
        NOBODY)),
        map_of(row(0, 16383, b":1\r\n")), map_of(row(0, 16383, b"*0\r\n")), map_of(row(0, 16383,
        b"*2\r\n:1\r\n:1\r\n")),
        map_of(row(0, 16383, b"*2\r\n$1\r\nx\r\n$1\r\n1\r\n")), map_of(*[row(0, 16383, NOBODY)] * 20000),
        map_of(*[row(number % 16384, number % 16384, node(b"10.0.%d.%d" % (number >> 8 & 255, number & 255), 6379))
                 for number in range(20000)]),
        map_of(*[row(number % 16384, number % 16384, node(b"10.%d.0.1" % (number % 256), 1 + number % 65535))
                 for number in range(100000)]))
WAYS = ERRORS + (moved_to_itself, asked_at_itself)


class OfCluster(Caller):
    """Its server is alone, and says that it is a cluster of one node. `is_map`: it is the map that is mad, while all
    calls are sent elsewhere, so that it is read."""
    asks_all = False  # a diagnosis has a budget for each partition

    def __init__(self, world, kind, change, is_map):
        self.instead, self.is_map = change, is_map
        super().__init__(world, kind, self.mad_reply, name_of(change))

    def begin_relay(self):
        relay = super().begin_relay()
        relay.go_mad(self.sane_reply)
        relay.url = relay.url.replace("redis://", "redis+cluster://")
        return relay

    def sane_reply(self, connection, reply):
        if b"cluster support disabled" in reply:
            return map_of(row(0, 16383, node(b"127.0.0.1", connection.proxy.port)))
        return reply.replace(b"$10\r\nstandalone\r\n", b"$7\r\ncluster\r\n")

    def mad_reply(self, connection, reply):
        of_map = b"cluster support disabled" in reply
        if of_map == self.is_map and (of_map or reply[:1] == b"$"):  # scripts answer with texts
            return self.instead(connection, reply) if callable(self.instead) else self.instead
        if reply[:1] == b"$":
            return b"-CLUSTERDOWN x\r\n"
        return self.sane_reply(connection, reply)

    def heal(self):
        self.relay.change = self.sane_reply


@scenario(counts=[1], in_cluster=False)
def a_mad_map_or_way_ends_each_call_in_time(world, kind, _names):
    cases = [(change, True) for change in some_of(world, MAPS)] + [(change, False) for change in some_of(world, WAYS)]
    for first in range(0, len(cases), AT_ONCE):
        check_all([OfCluster(world, kind, *case) for case in cases[first:first + AT_ONCE]])


# ---- pushes ----

def message(channel, payload):
    return b"*3\r\n$7\r\nmessage\r\n$%d\r\n%s\r\n" % (len(channel), channel) + payload


CHANGES = b"__redis__:invalidate"
PUSHES = NO_REPLIES + OF_ANOTHER_SHAPE + (
    b"*3\r\n:1\r\n:2\r\n:3\r\n", b"*3\r\n$-1\r\n$-1\r\n$-1\r\n", b"*3\r\n*0\r\n*-1\r\n*0\r\n",
    message(CHANGES, b":5\r\n"), message(CHANGES, b"*-1\r\n"), message(CHANGES, b"*0\r\n"), message(CHANGES,
    b"*1\r\n:1\r\n"),
    message(CHANGES, b"*1\r\n$-1\r\n"), message(CHANGES, b"*1\r\n$0\r\n\r\n"), message(CHANGES, b"*1\r\n*0\r\n"),
    message(CHANGES, b"*1000\r\n" + b"$1\r\nx\r\n" * 1000), message(CHANGES, b"*-1\r\n") * 5000,
    message(b"", b"$0\r\n\r\n"), message(b"rql:wake:x", b"$37\r\n" + b"0" * 32 + b" look\r\n") * 5000,
    message(b"rql:wake:x", b"$38\r\n" + b"0" * 32 + b" 1 1 1\r\n"), message(b"rql:wake:x", b"$5\r\n     \r\n"),
    message(b"rql:wake:x", b"$60\r\n" + b"0" * 32 + b" -9 99999999999999999999999\r\n"[:30] + b"\r\n"),
    b"*3\r\n$9\r\nsubscribe\r\n$-1\r\n:-1\r\n", b"*3\r\n$12\r\nsunsubscribe\r\n$12\r\nrql:{0}:wake\r\n:0\r\n",
    b"*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\na\r\n$1\r\nb\r\n", b"-ERR x\r\n", b"-NOAUTH x\r\n")


@scenario(counts=[1], in_cluster=False)
def what_no_server_pushes_keeps_nobody_from_a_lock(world, kind, _names):
    """Whatever it is taken for: who waits asks from time to time."""
    holder = world.actor("thread")
    changes = some_of(world, PUSHES)
    for first in range(0, len(changes), AT_ONCE):
        callers = [Caller(world, kind, change) for change in changes[first:first + AT_ONCE]]
        held = [holder.acquire("p" + caller.lock) for caller in callers]
        asked = [caller.actor.ask("p" + caller.lock, timeout_ms=PUSHED_WAIT_MS) for caller in callers]
        for caller in callers:
            world.await_queue(["p" + caller.lock], 1)
            wait_until(lambda caller=caller: any(one.hears for one in caller.relay.links), "it listens")
            caller.relay.push(caller.change)
        for one in held:
            one.release().check()
        for caller, asking in zip(callers, asked):
            check_equal(asking.outcome().status, "OK", f"after {caller.name}")
            asking.hold().release().check("OK", "E_UNKNOWN")
            caller.recover()


if __name__ == "__main__":
    main()
