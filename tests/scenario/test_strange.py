#!/usr/bin/env python3
"""Servers that are none, that say what nobody asked for, or fall silent."""
import contextlib

from harness import CONNECT_MS, Network, check, check_equal, main, once, scenario, wait_until
from network import PlayedServer

# The replies to a login without user and database: HELLO, TIME, PUBLISH; and CLIENT INFO, INFO and what the
# client is called, which may be refused.
HELLO = "*6\r\n$2\r\nid\r\n:7\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
LOGIN = HELLO + "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n:0\r\n-ERR no\r\n-ERR no\r\n-ERR no\r\n"
NO_AUTH = "-NOAUTH Authentication required.\r\n" * 8  # more than a login without a password asks
SILENCE_MS = 200
NUMBERS = 50  # more clients than a server has seen at its start


# What it says at login and to the first command, whether it resets the connection then, and what comes of that.
STRANGE = (
    ("a reset within a reply", LOGIN, "$12\r\ntwel", True, "E_UNKNOWN"),
    ("a reset in place of a reply", LOGIN, "", True, "E_UNKNOWN"),
    ("a reset at login", "", "", True, "E_IO"),
    ("garbage", LOGIN, "\x01\xff\x7fgarbage\r\n", False, "E_UNKNOWN"),
    ("garbage at login", "\x01\xff\x7fgarbage\r\n", "", False, "E_PROTOCOL"),
    ("HTTP", "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "", False, "E_PROTOCOL"),
    ("a huge text", LOGIN, "$9223372036854775807\r\n", False, "E_UNKNOWN"),
    ("a huge array", LOGIN, "*1000000000\r\n", False, "E_UNKNOWN"),
    ("a deep array", LOGIN, "*1\r\n" * 6 + ":1\r\n", False, "E_UNKNOWN"),
    ("RESP3", LOGIN, ">2\r\n+x\r\n+y\r\n", False, "E_UNKNOWN"),
    ("loading", "-LOADING Redis is loading the dataset in memory\r\n", "", False, "E_UNAVAILABLE"),
    ("a password is wanted", NO_AUTH, NO_AUTH, False, "E_AUTH"),
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
