#!/usr/bin/env python3
"""Servers that are none, that say what nobody asked for, or fall silent."""
import contextlib

from harness import CONNECT_MS, Network, check, check_equal, main, once, scenario, wait_until
from network import PlayedServer

# The replies to a login without user and database: HELLO, TIME, PUBLISH; and CLIENT INFO, INFO, four SCRIPT EXISTS
# and what the client is called, which may be refused.
HELLO = "*6\r\n$2\r\nid\r\n:7\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
LOGIN = HELLO + "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n:0\r\n" + 7 * "-ERR no\r\n"
NO_AUTH = "-NOAUTH Authentication required.\r\n" * 12  # more than a login without a password asks
SILENCE_MS = 200
NUMBERS = 50  # more clients than a server has seen at its start


# What it says at login and to the first command, whether it resets the connection then, and what comes of that.
STRANGE = (
    ("a reset within a reply", LOGIN, "$12\r\ntwel", True, "E_UNKNOWN"),
    ("a reset at login", "", "", True, "E_IO"),
    ("garbage", LOGIN, "\x01\xff\x7fgarbage\r\n", False, "E_UNKNOWN"),
    ("garbage at login", "\x01\xff\x7fgarbage\r\n", "", False, "E_PROTOCOL"),
    ("loading", "-LOADING Redis is loading the dataset in memory\r\n", "", False, "E_UNAVAILABLE"),
    ("a password is wanted", NO_AUTH, NO_AUTH, False, "E_AUTH"),
    ("half a reply, and silence", LOGIN, "$12\r\ntwel", False, "E_UNKNOWN"),
    ("a redirection", LOGIN, "-MOVED 3999 127.0.0.1:0\r\n", False, "E_UNAVAILABLE"),
    ("a reply of another shape", LOGIN, "*3\r\n:1\r\n$-1\r\n*0\r\n", False, "E_PROTOCOL"),
    ("a login and a reply too many", LOGIN + "+surprise\r\n", "$4\r\nmine\r\n", False, "E_PROTOCOL"),
)
# Behind a reply, whole or in part.
EXTRAS = ("+surprise\r\n", "*2\r\n$1\r\na\r\n", "*2\r\n", "$40\r\nabc", "+half")


@contextlib.contextmanager
def actor_at(world, *lines, **options):
    """Of such a server."""
    stand_in = PlayedServer(*lines, **options)
    actor = world.actor("thread", world.client(url=stand_in.url, connect_timeout_ms=3000, io_timeout_ms=500))
    yield actor, stand_in
    world.free(actor.client)
    stand_in.stop()


@once
def strange_servers_are_told_apart(world, _kind, _names):
    for name, greeting, answer, resets, wanted in STRANGE:
        with actor_at(world, greeting, answer, resets=resets) as (actor, _):
            check_equal(actor.begin("force_extend", name="x", add_ms=1).outcome().status, wanted, name)


@once
def a_reply_that_nobody_asked_for_ends_the_connection(world, _kind, _names):
    """It counts: what is asked for next is asked for on a new connection, whose script begins anew."""
    for extra in EXTRAS:
        with actor_at(world, LOGIN, ":1\r\n" + extra, ":0\r\n:0\r\n:0\r\n") as (actor, stand_in):
            for _ in range(2):
                check_equal(actor.begin("inspect", of="is_locked", name="x").outcome().check().found, True, extra)
            check_equal(len(stand_in.came_s), 2, extra)


@scenario(kinds=["thread", "loop"], counts=[1], in_cluster=False)
def a_script_that_is_never_known_is_a_fault(world, kind, _names):
    """Scripts may be flushed in between, but no server goes on like this."""
    with actor_at(world, LOGIN, *["-NOSCRIPT No matching script.\r\n"] * 50) as (actor, _):
        actor = world.actor(kind, actor.client)
        error = actor.refused("x", timeout_ms=3000).check("E_SERVER").error
        check_equal(error, "acquire on rql:lock:x: NOSCRIPT No matching script.")


# ---- a connection that has fallen silent ----

def links(world):
    """The numbers of our connections."""
    lines = [line for line in world.ask("CLIENT", "LIST").splitlines() if " name=rql:" in line]
    return [int(line.split()[0].split("=")[1]) for line in lines]


def look(actor):
    return actor.begin("inspect", of="is_locked", name="x").outcome().status


def fall_silent(world, network):
    """An actor whose connection is silent, and stays so, at the server's end too; and its number."""
    actor = world.actor("thread", network.client(io_timeout_ms=SILENCE_MS))
    check_equal(look(actor), "OK")
    number, = links(world)
    network.fail("mute_last")
    outcome = actor.begin("inspect", of="is_locked", name="x").outcome().check("E_IO")
    check(outcome.took_us < CONNECT_MS * 500, f"it is given up after {outcome.took_us} us")
    return actor, number


def recover(actor):
    """What has ended unused may be noticed by the next command only."""
    check("OK" in (look(actor), look(actor)), "it does not come back")


@once
def a_silent_connection_is_left_and_killed(world, _kind, _names):
    """But not by who may not see which run of the server it is, or its own address, or may not kill."""
    for right in ("", "info", "client|info", "client|kill"):
        network = Network(world)
        if right:
            world.ask("ACL", "SETUSER", "default", "-" + right)
        actor, _ = fall_silent(world, network)
        recover(actor)
        if right:
            check(len(links(world)) > 1, "it was killed")
            world.ask("ACL", "SETUSER", "default", "+@all")
        else:
            wait_until(lambda: len(links(world)) == 1, "the old one is killed")
        world.free(actor.client)
        network.fail("cut")
        wait_until(lambda: not links(world), "all are closed")


# Not in a cluster: whoever reads its map takes numbers meanwhile.
@scenario(kinds=["thread"], counts=[1], in_cluster=False)
def a_stranger_with_the_number_of_a_silent_connection_lives(world, _kind, _names):
    """A server that was started anew gives the same numbers again, and behind a Unix socket all have the same
    address."""
    def number_of(connection):
        return connection.call("CLIENT", "ID")

    def connection_with(number):
        connection = world.connection()
        while number_of(connection) < number:
            connection.close()
            connection = world.connection()
        return connection
    connection_with(NUMBERS).close()
    actor, number = fall_silent(world, Network(world))
    world.server.kill()
    world.server.launch()
    world.reconnect()
    stranger = connection_with(number)
    check_equal(number_of(stranger), number)
    recover(actor)
    check_equal(number_of(stranger), number)
    stranger.close()


# ---- replies about keys that no server gives ----

TIME = "*2\r\n$1\r\n1\r\n$1\r\n0\r\n"
ONE = ":1\r\n:1\r\n"  # how many items a key has, and its bytes
EMPTY, NIL, PAIR = "*0\r\n", "$-1\r\n", "*2\r\n$1\r\na\r\n$1\r\n1\r\n"
NO_RIGHT = "-NOPERM no\r\n"


def page(cursor, keys=EMPTY):
    return f"*2\r\n${len(cursor)}\r\n{cursor}\r\n{keys}"


# What is looked at, the replies behind those about its size, and what comes of that.
ABOUT_KEYS = (
    ("a lock that ended behind its fields", "lock", (PAIR + ":-2\r\n",), "NOT_FOUND"),
    ("a lock that was taken behind its fields", "lock", (EMPTY + ":5000\r\n",), "NOT_FOUND"),
    ("a field without a value", "lock", ("*3\r\n" + "$1\r\na\r\n" * 3 + ":-1\r\n",), "E_PROTOCOL"),
    ("a number for a value", "lock", ("*2\r\n$1\r\na\r\n:1\r\n:-1\r\n",), "E_PROTOCOL"),
    ("no fields", "lock", (NIL + ":-1\r\n",), "E_PROTOCOL"),
    ("a text for a ttl", "lock", (PAIR + "$1\r\n5\r\n",), "E_PROTOCOL"),
    ("no right to the ttl", "lock", (PAIR + NO_RIGHT,), "E_AUTH"),
    ("no right to the fields", "lock", (NO_RIGHT + ":-1\r\n",), "E_AUTH"),
    ("loading", "lock", ("-LOADING wait\r\n:-1\r\n",), "E_UNAVAILABLE"),
    ("a member without a score", "queue", ("*3\r\n" + "$1\r\n1\r\n" * 3,), "E_PROTOCOL"),
    ("a number for a score", "queue", ("*2\r\n$1\r\na\r\n:1\r\n",), "E_PROTOCOL"),
    ("a score that is too long", "queue", ("*2\r\n$1\r\na\r\n$40\r\n" + "1" * 40 + "\r\n",), "E_PROTOCOL"),
    ("more members than were asked for", "queue", ("*20\r\n" + "$1\r\n1\r\n" * 20,), "E_PROTOCOL"),
    ("no members", "queue", (NIL,), "E_PROTOCOL"),
    ("no right to the members", "queue", (NO_RIGHT,), "E_AUTH"),
    ("no records", "queue", (PAIR, NIL), "E_PROTOCOL"),
    ("a record too many", "queue", (PAIR, "*2\r\n" + NIL + NIL), "E_PROTOCOL"),
    ("as many records as were asked for", "queue", (PAIR, "*1\r\n" + NIL), "OK"),
    ("a number for a key", "keys", (page("0", "*1\r\n:1\r\n"),), "E_PROTOCOL"),
    ("no keys", "keys", (page("0", NIL),), "E_PROTOCOL"),
    ("a number for a cursor", "keys", ("*2\r\n:0\r\n*0\r\n",), "E_PROTOCOL"),
    ("an empty cursor", "keys", (page(""),), "E_PROTOCOL"),
    ("a cursor that is too long", "keys", (page("1" * 24),), "E_PROTOCOL"),
    ("a cursor with a NUL", "keys", (page("1\0"),), "E_PROTOCOL"),
    ("the longest cursor", "keys", (page("18446744073709551615"), page("0")), "OK"),
    ("a cursor alone", "keys", ("*1\r\n$1\r\n0\r\n",), "E_PROTOCOL"),
    *(("no page", "keys", (said,), "E_PROTOCOL")
      for said in (NIL, EMPTY, ":5\r\n", "$1\r\n0\r\n", "*3\r\n$1\r\n0\r\n" + EMPTY + EMPTY)),
    ("no right to pages", "keys", (NO_RIGHT,), "E_AUTH"),
    ("a host without a time", "hosts", (TIME + page("0", "*1\r\n$1\r\na\r\n"),), "E_PROTOCOL"),
    *((f"the time {seconds} {rest}", "hosts",
       (f"*2\r\n${len(seconds)}\r\n{seconds}\r\n${len(rest)}\r\n{rest}\r\n" + page("0", PAIR),), "E_PROTOCOL")
      for seconds, rest in (("-1", "2"), ("9223372036854", "x"), ("9223372036855", "2"))),
    ("a number in the time", "hosts", ("*2\r\n$1\r\n1\r\n:2\r\n" + page("0", PAIR),), "E_PROTOCOL"),
)


@once
def what_no_server_says_of_keys_is_a_fault(world, _kind, _names):
    for name, of, replies, wanted in ABOUT_KEYS:
        said = replies if of in ("keys", "hosts") else (ONE, replies[0] + TIME, *replies[1:])
        with actor_at(world, LOGIN, *said) as (actor, _):
            asked = actor.begin("hosts") if of == "hosts" else actor.begin("inspect", of=of, name="x")
            check_equal(asked.outcome().status, wanted, name)


def texts(*words):
    return f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)


@once
def what_pages_name_twice_is_listed_once_and_in_order(world, _kind, _names):
    """Of a host with its latest time; a time that cannot be read is unknown. Other keys, and those with a NUL, are left
    out."""
    pages = (page("9", texts("rql:lock:b", "rql:lock:", "rql:lock:a", "other")),
             page("0", texts("rql:lock:a", "rql:lock:aa", "rql:lock:b", "rql:lock:a\0b")))
    with actor_at(world, LOGIN, *pages) as (actor, _):
        check_equal(actor.begin("inspect", of="locks").outcome().check().found,
                    ["", "a", "aa", "b"])
    pages = page("9", texts("b", "2.5", "a", "soon")), page("0", texts("b", "7", "c", "-1"))
    with actor_at(world, LOGIN, *(TIME + one for one in pages)) as (actor, _):
        check_equal([(one["hst_id"], one["last_probe_us"]) for one in actor.begin("hosts").outcome().check().hosts],
                    [("a", -1), ("b", 7000000), ("c", -1)])


# ---- too many ----

@once
def a_full_server_is_a_fault_that_passes(world, _kind, _names):
    actor = world.actor("thread")
    world.ask("CONFIG", "SET", "maxclients", 1)
    check(look(actor) != "OK", "there is room")
    world.ask("CONFIG", "SET", "maxclients", 1000)
    check_equal(look(actor), "OK")


if __name__ == "__main__":
    main()
