#!/usr/bin/env python3
"""Servers that have lost their minds: each call ends in time with a fault, and all goes on when they are sane again."""
import contextlib
import os
import socket
import threading
import time

from harness import SLOW, STATUS, Proxy, check, check_equal, main, once, scenario, wait_until
from network import Link
from resp import end_of_reply
from shards import run_rql

IO_MS, WAIT_MS = 300 * SLOW, 300 * SLOW
SLACK_US = 2000000 * SLOW  # beyond what the call itself may take
AT_ONCE, SOME = 12, 12
PUSHED_WAIT_MS = 20000 * SLOW
WALKS, WALK = ("keys", "locks_info", "queues_info"), 8
STORM = 2000  # no call asks so often
N_SILENT, ASK_S = 64, 0.3  # masters, each of which has this time at least
HUGE = 1 << 25  # more than a client reads of one reply

# ---- a relay in front of a real server, which changes what that replies ----

class Relayed(Link):
    """What its client is told may be changed."""
    hears, n_sent, said = False, 0, b""  # hears: the client has subscribed; said: not a whole reply so far

    def change_replies(self, data):
        """Those that are whole now."""
        self.said += data
        while end := end_of_reply(self.said):
            reply, self.said = self.said[:end], self.said[end:]
            change = self.proxy.change
            if change and (self.hears or not self.proxy.changes_pushes_alone):
                self.proxy.n_changed += 1
                reply = change(self, reply)
            self.send(reply)

    def send(self, data):
        self.near.sendall(data)
        self.n_sent += len(data)

    def drip(self, data, pause_s):
        """Byte by byte, for as long as the relay is insane and the client stays."""
        for byte in data:
            self.send(bytes([byte]))
            if self.proxy.is_sane.wait(pause_s):
                return b""
        return b""


class Relay(Proxy):
    """`change` takes a connection and a reply, and answers what is sent in its place."""
    link = Relayed

    def __init__(self, path):
        self.change, self.changes_pushes_alone, self.n_changed = None, False, 0
        self.is_sane = threading.Event()
        super().__init__(path)

    def hand_on(self, link, sink, data):
        if sink is link.far:
            link.hears = link.hears or b"SUBSCRIBE\r\n" in data.upper()
            sink.sendall(data)
        else:
            link.change_replies(data)
        return True

    def go_mad(self, change, pushes_alone=False):
        self.is_sane.clear()
        self.changes_pushes_alone = pushes_alone
        self.change = change if callable(change) else lambda _connection, _reply: change

    def push(self, data):
        """Said at once to all who listen, and each time that the server tells them something."""
        self.go_mad(lambda _connection, reply: reply + data, pushes_alone=True)
        for link in [one for one in self.links if one.hears]:
            with contextlib.suppress(OSError):
                link.send(data)

    def heal(self):
        """Replies come as they are; what a client was told meanwhile may have broken its connections."""
        self.change = None
        self.is_sane.set()

    def stop(self):
        self.heal()
        super().stop()


# ---- what it says in place of each reply ----

# These are replies, but not of the command that was asked.
OF_ANOTHER_SHAPE = (b":7\r\n", b":-9223372036854775808\r\n", b"+OK\r\n", b"+\r\n", b"$-1\r\n", b"*-1\r\n", b"*0\r\n",
                    b"$0\r\n\r\n", b"$3\r\n\0\xff\n\r\n", b"*3\r\n:1\r\n$-1\r\n*0\r\n", b"*1\r\n*1\r\n*1\r\n:1\r\n",
                    b"*2\r\n$1\r\n0\r\n*-1\r\n", b"*7\r\n" + b"$-1\r\n" * 7,
                    b"$20\r\n1 -5 -5 -5 -5 -5 -5x\r\n", b"$11\r\n0 0 0 0 0 0\r\n", b"$1\r\n9\r\n",
                    b"$" + b"%d" % 38 + b"\r\n5 99999999999999999999999999999999999 \r\n",
                    b"*2000\r\n" + b"$1\r\nx\r\n" * 2000, b"$1000000\r\n" + b"1 " * 500000 + b"\r\n")
# These are none.
NO_REPLIES = (b"$-5\r\n", b"*-5\r\n", b"$99999999999999999999\r\n", b"$9223372036854775807\r\n", b"$4294967295\r\n",
              b"*2147483647\r\n", b"*9223372036854775807\r\n", b"*262145\r\n", b"$5000000000\r\n",
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


def flood(link, head, data):
    """Without end. A client that kept all of it would have no memory left."""
    before = link.n_sent
    link.send(head)
    while link.n_sent - before < HUGE * 4 and not link.proxy.is_sane.is_set():
        link.send(data)
    return b""


# What is sent in place of a reply, by its link and the reply.
TRICKS = {
    "MOVED to itself": lambda link, _: b"-MOVED 3999 127.0.0.1:%d\r\n" % link.proxy.port,
    "ASK at itself": lambda link, _: b"-ASK 3999 127.0.0.1:%d\r\n" % link.proxy.port,
    "a reply too many": lambda _, reply: reply + b"+surprise\r\n",
    "two replies": lambda _, reply: reply * 2,
    "ten thousand replies": lambda _, reply: reply * 10000,
    "silence": lambda _, __: b"",
    "half a reply": lambda _, reply: reply[:len(reply) // 2],
    "a text without end": lambda link, _: flood(link, b"$%d\r\n" % (HUGE * 64), b"x" * 65536),
    "a list without end": lambda link, _: flood(link, b"*131072\r\n", b"$65536\r\n" + b"x" * 65536 + b"\r\n"),
    "an error without end": lambda link, _: flood(link, b"-ERR ", b"x" * 65536),
    "a text, byte by byte": lambda link, _: link.drip(b"$1000000\r\n" + b"x" * 1000000, 0.02),
    "a line, byte by byte": lambda link, _: link.drip(b":" + b"0" * 1000000, 0.02),
}
NAMES = {trick: name for name, trick in TRICKS.items()}
MADNESS = (*OF_ANOTHER_SHAPE, *NO_REPLIES, *ERRORS, *TRICKS.values())


def name_of(change):
    return NAMES[change] if callable(change) else repr(change[:60])


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
            ask("command", self.actor.begin("inspect", of="command"))

    def begin_release(self):
        """Not before its extension has ended, as async.h demands."""
        self.begun = [("release", self.held.begin("release"))]

    def check(self):
        for what, call in self.begun:
            outcome = call.outcome()
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


@once
def a_count_that_no_server_has_is_a_fault(world, _kind, names):
    """Of all replies only the integers are changed: sizes of keys, and how many records were removed."""
    relay = Relay(world.server.path)
    client = world.client(url=relay.url)
    held = world.actor("thread", client).acquire(*names)
    operator = world.actor("thread", client)
    for count in (b":-9223372036854775808\r\n", b":9223372036854775807\r\n"):
        world.ask("XADD", "rql:history", "*", "name", "x", "ended", "lost", "token", 1)
        relay.go_mad(lambda _link, reply, count=count: count if reply[:1] == b":" else reply)
        operator.begin("inspect", of="locks_info").outcome().check("E_PROTOCOL")
        done = run_rql(relay.url, "history", "x", "--forget")
        check_equal((done.returncode, done.stdout), (69, ""), done.stderr)
        relay.heal()
    held.release().check()
    world.free(client)
    relay.stop()
    world.ask("DEL", "rql:history")


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
WAYS = (*ERRORS, TRICKS["MOVED to itself"], TRICKS["ASK at itself"])


class OfCluster(Caller):
    """Its server is alone, and says that it is a cluster of one node. `is_map`: it is the map that is mad, while all
    calls are sent elsewhere, so that it is read."""

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


def whole_node(port):
    """As a server of today has it in its map."""
    return b"*4\r\n$9\r\n127.0.0.1\r\n:%d\r\n$40\r\n%s\r\n*0\r\n" % (port, b"0" * 40)


class InPieces(OfCluster):
    """Its map has a row for each slot, with a master and a replica; and that is no madness."""

    def sane_reply(self, connection, reply):
        if b"cluster support disabled" in reply:
            nodes = whole_node(connection.proxy.port) + whole_node(1)
            return map_of(*[b"*4\r\n:%d\r\n:%d\r\n" % (slot, slot) + nodes for slot in range(16384)])
        return super().sane_reply(connection, reply)


@scenario(kinds=["thread"], counts=[1], in_cluster=False)
def a_map_with_a_row_for_each_slot_is_read(world, kind, _names):
    caller = InPieces(world, kind, b"", is_map=False)
    caller.actor.begin("connect").outcome().check()
    caller.recover()


@scenario(kinds=["thread"], counts=[1], in_cluster=False)
def a_client_with_a_pause_ends_in_time_though_many_masters_are_silent(world, kind, _names):
    """Each of them has its time when it is to be given keys, but not when the client ends."""
    n_slots = 16384 // N_SILENT
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(N_SILENT)]
        said = map_of(*[row(i * n_slots, (i + 1) * n_slots - 1, node(b"127.0.0.1", one.getsockname()[1]))
                        for i, one in enumerate(silent)])
        relay = stack.enter_context(Relay(world.server.path))
        relay.go_mad(lambda _connection, reply: said if b"cluster support disabled" in reply
                     else reply.replace(b"$10\r\nstandalone\r\n", b"$7\r\ncluster\r\n"))
        client = world.client(url=relay.url.replace("redis://", "redis+cluster://"), connect_timeout_ms=IO_MS,
                              io_timeout_ms=IO_MS, recovery_delay_ms=60000)
        world.actor(kind, client).begin("connect").outcome()
        begun_s = time.monotonic()
        world.free(client)
        took_s = time.monotonic() - begun_s
        check(took_s < N_SILENT * ASK_S / 2, f"{took_s} s")


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
