#!/usr/bin/env python3
"""Grants that count when replicas have them: a real master, and replicas that stand still at times."""
import contextlib

from harness import (FOREVER, SLOW, Network, check, check_equal, check_served_in_order, delayed_ms,
                     leave_out_in_cluster, let_pass, main, once, scenario, wait_until)
from private_server import PrivateServer, free_port
from resp import Refused
from servers import servers

LONG_MS = 60000
SHORT_MS = 50


@contextlib.contextmanager
def replicated(world, n_replicas=1):
    """The server of the world has so many."""
    leave_out_in_cluster("replicas of a server")

    def listens():
        nonlocal port
        port = free_port()
        with contextlib.suppress(Refused):  # somebody else has it by now
            return world.ask("CONFIG", "SET", "port", port, "repl-diskless-sync", "no")
    port = None
    wait_until(listens, "it listens")
    try:
        with servers(*[PrivateServer("--replicaof", "127.0.0.1", str(port)) for _ in range(n_replicas)]) as replicas:
            wait_until(lambda: len(world.ask("ROLE")[2]) == n_replicas, "they are replicas")
            world.ask("WAIT", n_replicas, 0)  # they have said so, too: before that nothing is sent to them
            yield replicas
    finally:
        world.ask("CONFIG", "SET", "port", 0)


def n_held_at(replica, names):
    return replica.ask("EXISTS", *[f"rql:lock:{name}" for name in names])


def durable(**options):
    return {"replicas": 1, "replica_timeout_ms": SHORT_MS, "retry_delay_ms": SHORT_MS, "retry_jitter_ms": 0, **options}


def patient(**options):
    """It waits for replicas as long as the test does."""
    return durable(**{"replica_timeout_ms": LONG_MS, "ttl_ms": 2 * LONG_MS, "timeout_ms": FOREVER,
                      "queue_ttl_ms": FOREVER, **options})


@scenario()
def a_grant_is_there_when_the_replicas_have_it(world, kind, names):
    with replicated(world, 2) as replicas:
        held = world.actor(kind).acquire(*names, **durable(replicas=2, replica_timeout_ms=LONG_MS))
        for replica in replicas:
            check_equal(n_held_at(replica, names), len(names))
        if len(names) == 1:
            check_equal((held.outcome.replicas_acked, held.outcome.fsynced), (2, False))
        held.release().check()
        world.actor(kind).acquire(*names).release().check()
        world.await_nothing_left()


@scenario(is_timed=True)  # the withdrawal is confirmed by the deadline
def without_replicas_there_is_none(world, kind, names):
    """It is given back, and the caller hears why by its deadline."""
    actor = world.actor(kind)
    outcome = actor.ask(*names, **durable(timeout_ms=4 * SHORT_MS, ttl_ms=LONG_MS)).outcome().check("E_NOT_DURABLE")
    check("0 of 1 replicas" in outcome.error, outcome.error)
    world.await_nothing_left()
    actor.ask(*names, **durable(replica_timeout_ms=LONG_MS, timeout_ms=4 * SHORT_MS)).outcome().check("E_NOT_DURABLE")
    world.await_nothing_left()
    actor.ask(*names, **durable(fail_fast=True, ttl_ms=LONG_MS)).outcome().check("E_NOT_DURABLE")
    world.await_nothing_left()
    actor.ask(*names, **durable(retry_count=1, ttl_ms=LONG_MS)).outcome().check("E_NOT_DURABLE")
    world.await_nothing_left()


def crowd_of(world, kind, client, count):
    """On a loop all of them are its own; each thread is one."""
    one = world.actor(kind, client)
    return [one] * count if kind == "loop" else [one] + [world.actor(kind, client) for _ in range(1, count)]


def check_each_ends(actor, outcomes, limit_ms, before_ms):
    """A call that ends too late has stood behind the waits of others."""
    limit_ms += 100 + delayed_ms(actor.remote.process.pid) - before_ms
    for outcome in outcomes:
        outcome.check("E_NOT_DURABLE")
        check(outcome.took_us <= limit_ms * 1000, f"{outcome!r} after {outcome.took_us} us, limit {limit_ms} ms")


@scenario(is_timed=True)
def a_crowd_that_waits_for_replicas_ends_by_its_deadline(world, kind, names):
    """All share one connection, where each batch waits for the replicas."""
    timeout_ms = 10 * SHORT_MS
    crowd = crowd_of(world, kind, world.client(), 16)
    with replicated(world) as (replica,):
        crowd[0].acquire(*names, **patient()).release().check()
        with replica.frozen():
            before_ms = delayed_ms(crowd[0].remote.process.pid)
            asked = [one.ask(*[f"{name}.{i}" for name in names],
                             **durable(timeout_ms=timeout_ms, ttl_ms=LONG_MS, replica_timeout_ms=LONG_MS))
                     for i, one in enumerate(crowd)]
            check_each_ends(crowd[0], [one.outcome() for one in asked], timeout_ms, before_ms)
            world.await_nothing_left()


@scenario(is_timed=True)
def an_impatient_call_does_not_wait_as_long_as_a_patient_one(world, kind, names):
    """It stands behind the wait of the patient one, and is refused by the server when its turn has come."""
    timeout_ms = 4 * SHORT_MS
    patient_one, impatient = crowd_of(world, kind, world.client(), 2)
    others = [f"{name}.other" for name in names]
    with replicated(world) as (replica,):
        patient_one.acquire(*names, **patient()).release().check()
        with replica.frozen():
            asking = patient_one.ask(*names, **patient())
            wait_until(lambda: world.holder(names[0]), "it is granted there")
            before_ms = delayed_ms(impatient.remote.process.pid)
            outcome = impatient.ask(*others, **durable(timeout_ms=timeout_ms, ttl_ms=LONG_MS)).outcome()
            check_each_ends(impatient, [outcome], timeout_ms, before_ms)
        asking.hold().release().check()
        impatient.acquire("another", **durable(replica_timeout_ms=LONG_MS)).release().check()  # comes behind its try
        world.await_nothing_left()


@scenario()
def a_call_that_ends_before_the_replicas_are_heard_of_is_not_safe(world, kind, names):
    """The server looks at its timeouts every 100 ms, so most of these end before it answers."""
    with replicated(world) as (replica,):
        actor = world.actor(kind)
        actor.acquire(*names, **patient()).release().check()
        with replica.frozen():
            for _ in range(10):
                outcome = actor.ask(*names, **durable(timeout_ms=40, ttl_ms=LONG_MS)).outcome()
                check(outcome.status != "OK", "it counts as safe")
        world.await_nothing_left()


@scenario()
def plain_calls_do_not_wait_for_replicas(world, kind, names):
    """Of the same client, while it waits for one that stands still."""
    client = world.client()
    one = world.actor(kind, client)
    other = one if kind == "loop" else world.actor(kind, client)
    with replicated(world) as (replica,):
        world.ask("SCRIPT", "FLUSH")  # who has to bring the text does so at once
        with replica.frozen():
            asking = one.ask(*names, **patient())
            wait_until(lambda: world.holder(names[0]), "it is granted there")
            held = other.acquire("another", auto_extend=True)
            held.extend(LONG_MS).check()
            held.release().check()
            check(not asking.is_over(), "it does not wait for the replica")
        held = asking.hold()
        if len(names) == 1:
            check_equal(held.outcome.replicas_acked, 1)
        held.release().check()
        world.await_nothing_left()


@scenario(counts=[1])
def calls_that_come_one_by_one_wait_together(world, kind, names):
    """The server confirms one write after the other: a wait for each would take 12 s. On threads as far away as a login
    that takes its time."""
    del names
    n_calls, each_ms = 60, 200
    network = Network(world)
    if kind == "thread":
        network.fail("delay", n=8)
    client = network.client()
    n_before = world.n_calls("wait")
    actors = [world.actor(kind, client)] * n_calls if kind == "loop" else [world.actor(kind, client) for _ in range(n_calls)]
    asked = []
    for i, actor in enumerate(actors):
        asked.append(actor.ask(f"one{i}", timeout_ms=LONG_MS, durability_is_advice=True,
                               **durable(replica_timeout_ms=each_ms)))
        let_pass(0.005)
    held = [asking.hold() for asking in asked]
    n_waits = world.n_calls("wait") - n_before
    check(n_waits <= n_calls // 2, f"{n_waits} waits for {n_calls} calls")
    for hold in held:
        hold.release().check()
    world.await_nothing_left()


@scenario()
def advice_keeps_it_and_says_so(world, kind, names):
    with replicated(world) as (replica,), replica.frozen():
        held = world.actor(kind).acquire(*names, **durable(durability_is_advice=True, ttl_ms=LONG_MS))
        if len(names) == 1:
            check_equal(held.outcome.replicas_acked, 0)
        held.release().check()
        world.await_nothing_left()


def check_claimed(world, names, held, actor):
    """It waits for what is held; the replica stands still while that is handed over."""
    with replicated(world) as (replica,):
        # It may have asked just now, and the reply to that waits for the replica, too: not for long.
        asking = actor.ask(*names, **patient(replica_timeout_ms=2000))
        world.await_listeners(1)
        with replica.frozen():
            held.release().check()
            wait_until(lambda: world.holder(names[0]), "it is handed over")
            check(not asking.is_over(), "it does not wait for the replica")
        mine = asking.hold()
        check_equal(n_held_at(replica, names), len(names))
        mine.release().check()
        world.await_nothing_left()


@scenario()
def what_was_handed_over_is_claimed(world, kind, names):
    """The releaser's connection has written the grant: of it the waiter's own would say nothing."""
    check_claimed(world, names, world.held_by_another(*names), world.actor(kind))


@scenario()
def inside_the_client_too(world, kind, names):
    """It would be handed over without the server."""
    client = world.client()
    held = world.actor(kind, client).acquire(*names)
    check_claimed(world, names, held, world.actor(kind, client))


@scenario()
def it_keeps_its_place(world, kind, names):
    """While its grants are given back others are served, and behind them it is in front again."""
    with replicated(world) as (replica,):
        held = world.held_by_another(*names)
        first = world.actor(kind).ask(*names, **durable(timeout_ms=FOREVER, ttl_ms=LONG_MS))
        world.await_queue(names, 1)
        second = world.actor(kind).ask(*names, timeout_ms=FOREVER, ttl_ms=LONG_MS)
        world.await_queue(names, 2)
        third = world.actor(kind).ask(*names, timeout_ms=FOREVER, ttl_ms=LONG_MS)
        world.await_queue(names, 3)
        with replica.frozen():
            held.release().check()
            held = second.hold()
        world.await_queue(names, 2)
        check_served_in_order([first, third], held)
        world.await_nothing_left()


@scenario(is_timed=True)
def an_answer_that_was_lost_is_no_proof(world, kind, names):
    """The grant was written over a connection that is gone: the one that asks again has to write, too."""
    network = Network(world)
    with replicated(world) as (replica,):
        actor = world.actor(kind, network.client(retry_delay_ms=SHORT_MS))
        actor.acquire(*names, **patient()).release().check()  # it is connected, and the script is known
        with replica.frozen():
            network.fail("cut_reply", n=1)
            actor.ask(*names, **durable(timeout_ms=20 * SHORT_MS, ttl_ms=LONG_MS)).outcome().check("E_NOT_DURABLE")
        world.await_nothing_left()


@scenario(kinds=["loop"], counts=[3])
def a_series_is_in_no_conflict_with_a_grant_that_it_gives_back(world, kind, names):
    """The grant is withdrawn over a connection that cannot be made; the loop has its own."""
    network = Network(world)
    with replicated(world) as (replica,):
        actor = world.actor(kind, network.client())
        actor.acquire(*names, **durable()).release().check()
        network.fail("refuse")
        with replica.frozen():
            n_scripts = world.n_scripts()
            asking = actor.ask(*names, **durable(timeout_ms=FOREVER, ttl_ms=LONG_MS))
            wait_until(lambda: asking.is_over() or world.n_scripts() >= n_scripts + 3, "it has asked three times")
        check(not asking.is_over(), "it is over")
        network.heal()
        asking.hold().release().check()
        world.await_nothing_left()


@scenario(kinds=["thread"], counts=[3])
def a_series_that_is_asked_for_once_more_enters_again_what_is_held(world, kind, names):
    actor = world.actor(kind)
    outer = actor.acquire(names[-1], ttl_ms=LONG_MS)
    with replicated(world) as (replica,):
        with replica.frozen():
            n_scripts = world.n_scripts()
            asking = actor.ask(*names, **durable(timeout_ms=FOREVER, ttl_ms=LONG_MS, conflict_strategy="work_through"))
            wait_until(lambda: asking.is_over() or world.n_scripts() >= n_scripts + 3, "it has asked again")
        asking.hold().release().check()
        outer.release().check()
        world.await_nothing_left()


@scenario()
def a_grant_that_is_asked_for_once_more_is_written_once_more(world, kind, names):
    """Some servers speak of the writes of this connection only."""
    network = Network(world)
    actor = world.actor(kind, network.client(client_names="false"))  # a login would write, too
    actor.acquire(*names).release().check()
    n_written = world.n_calls("hset")
    network.fail("cut_reply", n=1)
    held = actor.acquire(*names)
    check_equal(world.n_calls("hset") - n_written, 2 * len(names))
    held.release().check()
    world.await_nothing_left()


@scenario(kinds=["thread"])
@scenario(kinds=["loop"], counts=[1])
def an_extension_counts_when_the_replicas_have_it(world, kind, names):
    with replicated(world) as (replica,):
        held = world.actor(kind).acquire(*names, **durable(ttl_ms=LONG_MS))
        with replica.frozen():
            outcome = held.extend(10 * LONG_MS).check("E_NOT_DURABLE")
            check("the deadline is as it was" in outcome.error, outcome.error)
            check(held.remaining_ms() <= LONG_MS, "it is extended")
        held.extend(10 * LONG_MS).check()
        check(held.remaining_ms() > LONG_MS, "it is not extended")
        held.release().check()
        world.await_nothing_left()


def a_renewal_that_waits(replica_timeout_ms):
    def case(world, kind, names):
        """Without them it ends, and one that did not ask for them goes on."""
        ttl_ms = 1000 * SLOW
        client = world.client()
        with replicated(world) as (replica,):
            held = world.actor(kind, client).acquire(*names, **durable(ttl_ms=ttl_ms, auto_extend=True,
                                                                       replica_timeout_ms=replica_timeout_ms))
            plain = world.actor(kind, client).acquire("plain", ttl_ms=ttl_ms, auto_extend=True)
            renewed = client.stats().renewals
            wait_until(lambda: client.stats().renewals >= renewed + 4 * (1 + len(names)), "all are renewed")
            check_equal((held.state(), plain.state()), ("HELD", "HELD"))
            with replica.frozen():
                wait_until(held.is_lost, "it is told as lost")
                renewed = client.stats().renewals
                wait_until(lambda: client.stats().renewals >= renewed + 4, "the other is renewed")
                check_equal(plain.state(), "HELD")
            held.release().check("NOT_HELD", "OK")
            plain.release().check()
            world.await_nothing_left()
    case.__name__ = f"a renewal counts when the replicas have it, for which it waits {replica_timeout_ms} ms"
    return case


for timeout_ms in SHORT_MS, LONG_MS:
    scenario(is_timed=True)(a_renewal_that_waits(timeout_ms))


@scenario(kinds=["thread"], is_timed=True)
def what_is_said_of_one_that_is_released_is_not_of_the_next(world, kind, names):
    """Its renewal is on the way while it is released, and its handle taken for another lock."""
    ttl_ms = 3000 * SLOW
    network = Network(world)
    actor = world.actor(kind, network.client())
    with replicated(world):
        actor.acquire(*names).release().check()
        # The first answer counts, however late it is: who asks again listens as well, by a connection that is newer.
        held = actor.acquire(*names, **durable(ttl_ms=ttl_ms, replica_timeout_ms=LONG_MS, auto_extend=True))
        network.fail("mute_last")  # the connection of what is durable
        wait_until(lambda: held.remaining_ms() < ttl_ms / 2, "it is to be renewed")
        held.release().check()
        later = actor.acquire(*names, ttl_ms=LONG_MS)
        n_asked = world.n_calls("wait")
        network.heal()
        wait_until(lambda: world.n_calls("wait") > n_asked, "it is renewed")
        actor.acquire("another", **durable()).release().check()  # its answer comes behind
        check_equal(later.state(), "HELD")
        later.release().check()
        world.await_nothing_left()


@scenario(kinds=["thread"])
def a_reentry_is_as_safe(world, kind, names):
    """Of what is held without: the grant that it shares is written once more."""
    with replicated(world) as (replica,):
        actor = world.actor(kind)
        held = actor.acquire(*names, ttl_ms=LONG_MS)
        with replica.frozen():
            actor.ask(*names, **durable(conflict_strategy="work_through")).outcome().check("E_NOT_DURABLE")
        inner = actor.acquire(*names, **patient(conflict_strategy="work_through"))
        inner.release().check()
        check_equal(held.state(), "HELD")
        held.release().check()
        world.await_nothing_left()


def disk_is_true(world, policy):
    """Whether what this server answers about its disk is to be believed."""
    said = world.ask("INFO", "server")
    is_new = "server_name:valkey" not in said and int(said.split("redis_version:")[1].split(".")[0]) >= 8
    return world.ask("COMMAND", "INFO", "waitaof") != [None] and (is_new or policy == "always")


@scenario()
def the_disk_needs_a_server_that_tells_of_it(world, kind, names):
    """Otherwise nothing is asked for."""
    actor = world.actor(kind)
    outcome = actor.ask(*names, fsync=True).outcome().check("E_UNSUPPORTED")
    check("fsync needs" in outcome.error, outcome.error)
    check_equal(world.keys_left(), [])


def a_disk_that_is_written(policy):
    def case(world, kind, names):
        world.ask("CONFIG", "SET", "appendonly", "yes", "appendfsync", policy)
        wait_until(lambda: "aof_rewrite_in_progress:0" in world.ask("INFO", "persistence"), "it has begun")
        asking = world.actor(kind).ask(*names, fsync=True, replica_timeout_ms=LONG_MS, ttl_ms=2 * LONG_MS)
        if not disk_is_true(world, policy):
            asking.outcome().check("E_UNSUPPORTED")
            check_equal(world.keys_left(), [])
            return
        held = asking.hold()
        if len(names) == 1:
            check_equal((held.outcome.fsynced, held.outcome.replicas_acked), (True, 0))
        world.server.kill()
        world.server.launch("--appendonly", "yes")
        world.reconnect()
        check_equal([world.token(name) for name in names], held.tokens)
        wait_until(lambda: held.state() == "HELD", "it is verified")
        held.release().check()
        world.await_nothing_left()
    case.__name__ = f"a grant is on a disk that is written {policy}"
    return case


for how_often in ("always", "everysec"):
    scenario()(a_disk_that_is_written(how_often))


@once
def who_may_not_wait_is_told(world, kind, names):
    """And what was granted by then is given back."""
    world.ask("ACL", "SETUSER", "one", "on", "nopass", "~*", "&*", "+@all", "-wait")
    client = world.client(url=world.server.url.replace("://", "://one:x@", 1))
    outcome = world.actor(kind, client).ask(*names, **durable(ttl_ms=LONG_MS)).outcome().check("E_AUTH")
    check("WAIT" in outcome.error, outcome.error)
    world.await_nothing_left()


if __name__ == "__main__":
    main()
