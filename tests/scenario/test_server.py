#!/usr/bin/env python3
"""What a server does that is alive: it loses a part, is restored, takes no writes."""
import itertools
import socket

from crowd import Crowd
from harness import (FOREVER, MINUTE_MS, NO_WRITES, Refused, check, check_equal, check_handed_over, is_cluster, main,
                     once, scenario, wait_until)
from private_server import PrivateServer, Sentinel, free_port
from servers import cluster_node, servers


@scenario()
def an_evicted_lock_is_a_loss_that_is_told(world, kind, names):
    """Any policy but noeviction may take locks; see README."""
    held = world.actor(kind).acquire(*names, ttl_ms=900, auto_extend=True)
    world.ask("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
    world.ask("CONFIG", "SET", "maxmemory", 1)
    world.ask("GET", "anything")
    try:
        wait_until(held.is_lost, "the loss is told")
    finally:
        world.ask("CONFIG", "SET", "maxmemory", 0)
        world.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
    check_equal(held.release().status, "NOT_HELD")
    later = world.actor("thread").acquire(*names)
    check(later.tokens[0] > held.tokens[0], "the token does not rise")
    later.release().check()


@scenario()
def a_server_that_was_restored_from_an_old_copy_gives_no_token_twice(world, kind, names):
    """As a replica that is promoted without the latest writes."""
    actor = world.actor(kind, connect_timeout_ms=MINUTE_MS)
    actor.acquire(*names).release().check()
    world.save()
    lost = actor.acquire(*names)
    world.server.kill()
    world.server.launch()
    world.reconnect()
    held = world.actor("thread").acquire(*names, ttl_ms=MINUTE_MS)
    check(held.tokens[0] > lost.tokens[0], f"{held.tokens[0]} after {lost.tokens[0]}")
    lost.release().check("NOT_HELD", "OK")  # its first attempt may have found a broken connection
    check_equal(world.holder(names[0]), held.outcome.acq_id)
    held.release().check()
    check_equal(world.keys_left(), [])
    world.server.forget()


@scenario(counts=[1])
def nobody_who_asks_at_random_starves(world, kind, names):
    """Eight take the lock again and again; each has had it before there were twenty times as many uses."""
    crowd = Crowd([world.actor(kind) for _ in range(8)], *names, access_strategy="random")
    check(crowd.n_uses < 8 * 20, f"one had nothing in {crowd.n_uses} uses")
    crowd.end()
    world.await_nothing_left()


# ---- a server that takes no writes ----

@scenario()
def who_does_not_wait_is_told_at_once(world, kind, names):
    """One question, and the withdrawal of what that may have done."""
    actor = world.actor(kind)
    actor.acquire("warm").release().check()
    modes = [{}, {"tries": True}, *([{"mode": "gem"}] if len(names) > 1 else [])]
    for (status, (begin, end)), mode in itertools.product(NO_WRITES.items(), modes):
        world.ask(*begin)
        before = world.n_scripts()
        outcome = actor.refused(*names, fail_fast=True, timeout_ms=FOREVER, **mode)
        n_asked = world.n_scripts() - before
        world.ask(*end)
        check_equal(outcome.status, status)
        check(1 <= n_asked <= 2, f"asked {n_asked} times")
    check_equal(world.keys_left(), [])


@once
def who_connects_is_told_of_a_replica(world, kind, names):
    """The connection stays usable, for looking. What may be asked for beyond need hides nothing."""
    for rights in ("+@all", "-client|info"):
        world.ask("ACL", "SETUSER", "default", *rights.split(), *(["-info"] if rights != "+@all" else []))
        actor = world.actor(kind)
        world.ask("REPLICAOF", "127.0.0.1", 1)
        for _ in range(2):
            outcome = actor.begin("connect").outcome()
            check_equal(outcome.status, "E_READ_ONLY")
            check("READONLY" in outcome.error, outcome.error)
            check_equal(actor.begin("inspect", of="is_locked", name=names[0]).outcome().check().found, False)
        world.ask("ACL", "SETUSER", "default", "+@all")
        world.ask("REPLICAOF", "NO", "ONE")
        actor.begin("connect").outcome().check()


@scenario()
def the_database_of_the_url_is_used(world, kind, names):
    """By commands and by whoever is told of hand-overs; also after the server was away."""
    for database in 1, 15:
        url = world.server.url_of(database)
        holder, waiter = world.actor("thread", url=url), world.actor(kind, url=url)
        held = holder.acquire(*names, ttl_ms=MINUTE_MS)
        check_equal(world.keys_left(), [])
        world.ask("SELECT", database)
        asking = waiter.ask(*names, timeout_ms=FOREVER)
        world.await_queue(names, 1)
        world.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        check_equal([bool(world.holder(name)) for name in names], [True] * len(names))
        held.release().check()
        asking.hold().release().check()
        world.await_nothing_left()
        world.ask("SELECT", 0)


def free_port_of_ipv6():
    """None where the machine has no IPv6."""
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
            return one.getsockname()[1]
    except OSError:
        return None


def listens_on_ipv6(world):
    """At which port; None if another has it by now."""
    port = world.server.port if is_cluster() else free_port_of_ipv6()  # its map would say the old one
    try:
        world.ask("CONFIG", "SET", "port", port)
    except Refused:
        return None
    return port


def on_ipv6(world, kind, port):
    return world.actor(kind, url=f"{'redis+cluster' if is_cluster() else 'redis'}://[::1]:{port}")


@scenario(kinds=["thread", "loop"] if free_port_of_ipv6() else [])
def a_server_is_found_by_its_ipv6_address(world, kind, names):
    world.ask("CONFIG", "SET", "bind", "::1")
    port = wait_until(lambda: listens_on_ipv6(world), "a port is found that nobody else has taken")
    check_handed_over(world, on_ipv6(world, "thread", port), on_ipv6(world, kind, port), names)
    check_equal(world.keys_left(), [])
    # The port goes first: what is free on ::1 can be taken on 127.0.0.1, and the server would refuse the bind.
    world.ask("CONFIG", "SET", "port", world.server.port if is_cluster() else 0)
    world.ask("CONFIG", "SET", "bind", "127.0.0.1")


@scenario(counts=[1], by_tls=False)  # to which servers without it speak otherwise
def who_is_no_server_of_our_kind_says_so(world, kind, names):
    """Whatever was asked for: nobody waits for it to become one."""
    port = free_port()
    with servers(cluster_node(), Sentinel(), PrivateServer("--port", str(port))) as (node, sentinel, _plain):
        for url, told in ((node.url, "is a node of a cluster"), (sentinel.url, "sentinel"),
                          (f"redis+cluster://127.0.0.1:{port}", "is no node of a cluster")):
            outcome = world.actor(kind, url=url).refused(*names, timeout_ms=FOREVER)
            check_equal(outcome.status, "E_UNSUPPORTED", told)
            check(told in outcome.error, outcome.error)


if __name__ == "__main__":
    main()
