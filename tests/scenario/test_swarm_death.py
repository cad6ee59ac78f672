#!/usr/bin/env python3
"""Hosts that die, stop and come back, and flushers that do."""
from harness import FOREVER, MINUTE_MS, Network, check, check_equal, let_pass, main, once, scenario, wait_until
from swarms import (DAY_MS, DEAD, DEAD_HOST, FLUSHES, PROBES, ZOMBIE_TTL_MS, Bound, Swarm, await_hosts, await_known,
                    await_status, exists, host, leave, n_hosts, raw_host, raw_lock, status_of, swarm)

N_WAITERS, N_FLUSHERS, N_LOCKS = 60, 12, 300


def client_of_a_process(world):
    """With a swarm that sends heartbeats, which dies with it."""
    client = world.client(world.remote())
    Swarm(world, client, **PROBES)
    return client


# ---- processes that die ----

@scenario(counts=[1])
def requests_of_killed_waiters_go(world, kind, names):
    """More than one step of the script looks at. Nobody releases the lock, so only the flusher can have removed them."""
    raw_lock(world, names[0], "rql:acq:1/1/1/1/aaaaaaaaaaaaaaaa", "rql:hst:1/1/1/aaaaaaaaaaaaaaaa")
    dying = client_of_a_process(world)
    actors = [world.actor(kind, dying) for _ in range(N_WAITERS if kind == "thread" else 1)]
    for i in range(N_WAITERS):
        actors[i % len(actors)].ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, N_WAITERS)
    wait_until(lambda: n_hosts(world) > 0, "they are known")
    world.ask("PERSIST", f"rql:lock_queue:{names[0]}")
    with swarm(world, world.client(), **FLUSHES):
        bound = Bound(world)
        world.kill(dying)
        world.await_queue(names, 0)
        bound.check()
        await_hosts(world, 0)
        check_equal(exists(world, *names), [1])


@scenario()
def what_a_killed_process_held_goes_to_who_waits(world, kind, names):
    dying = client_of_a_process(world)
    held = world.actor(kind, dying).acquire(*names, ttl_ms=DAY_MS)
    await_known(world, held.outcome.hst_id)
    asking = world.actor(kind).ask(*names, timeout_ms=FOREVER, retry_delay_ms=MINUTE_MS)
    world.await_queue(names, 1)
    with swarm(world, world.client(), **FLUSHES):
        bound = Bound(world)
        world.kill(dying)
        mine = asking.hold()
        bound.check()
        check(mine.tokens[0] > held.tokens[0], "tokens fall")
        mine.release().check()


@scenario(counts=[1])
def the_permit_of_a_killed_process_goes_to_who_waits(world, kind, names):
    """The other permit stays with its holder."""
    permit = {"share_units": 1, "share_limit": 2, "timeout_ms": FOREVER}
    dying = client_of_a_process(world)
    theirs = world.held_by_another(*names, **permit, ttl_ms=DAY_MS)
    held = world.actor(kind, dying).acquire(*names, **permit, ttl_ms=DAY_MS)
    await_known(world, held.outcome.hst_id)
    asking = world.actor(kind).ask(*names, **permit, retry_delay_ms=MINUTE_MS)
    world.await_queue(names, 1)
    with swarm(world, world.client(), **FLUSHES):
        bound = Bound(world)
        world.kill(dying)
        mine = asking.hold()
        bound.check()
        await_hosts(world, 0)
        check_equal((theirs.verify().status, mine.verify().status), ("OK", "OK"))
        mine.release().check()
        theirs.release().check()


@scenario(kinds=["thread"], counts=[1], in_cluster=False)  # where the living one has left its partition, too
def what_an_ended_thread_left_is_kept_while_what_its_process_held_goes(world, kind, _names):
    """The thread that ended has been silent for longer than the process that died."""
    dying = client_of_a_process(world)
    ended, living = world.actor(kind, dying), world.actor(kind, dying)
    leave(ended, "of_the_ended")
    ended.end()
    world.actors.remove(ended)
    leave(living, "of_the_living")
    await_known(world, world.ask("HGET", "rql:lock:of_the_living", "hst_id"))
    await_hosts(world, 1)
    with swarm(world, world.client(), **FLUSHES):
        bound = Bound(world)
        world.kill(dying)
        wait_until(lambda: not world.holder("of_the_living"), "its lock is flushed")
        bound.check()
        await_hosts(world, 0)
    check(world.ask("PTTL", "rql:lock:of_the_ended") > DAY_MS / 2, "it is flushed as well")


# ---- processes that stop ----

def holder_and_waiter(world, kind):
    """The client of a process that waits for x, and y, which it holds."""
    raw_lock(world, "x", "rql:acq:1/1/1/1/aaaaaaaaaaaaaaaa", "rql:hst:1/1/1/aaaaaaaaaaaaaaaa")
    client = client_of_a_process(world)
    held = world.actor(kind, client).acquire("y", ttl_ms=DAY_MS)
    world.actor(kind, client).ask("x", timeout_ms=FOREVER)
    world.await_queue(["x"], 1)
    await_known(world, held.outcome.hst_id)
    return client, held


@scenario(counts=[1], is_timed=True)
def a_host_that_stops_for_less_than_the_ttl_keeps_all(world, kind, _names):
    """The pause itself is what is tested."""
    client, held = holder_and_waiter(world, kind)
    known = n_hosts(world)
    with swarm(world, world.client(), **FLUSHES):
        client.remote.stop()
        let_pass(ZOMBIE_TTL_MS / 2000)
        client.remote.go_on()
        let_pass(ZOMBIE_TTL_MS / 1000)
        check_equal((held.state(), exists(world, "y"), world.queue_length("x")), ("HELD", [1], 1))
        check_equal(n_hosts(world), known)
    world.kill(client)


@scenario(counts=[1])
def a_host_that_stops_for_longer_loses_its_lock_and_waits_again(world, kind, _names):
    client, held = holder_and_waiter(world, kind)
    with swarm(world, world.client(), **FLUSHES):
        bound = Bound(world)
        client.remote.stop()
        await_hosts(world, 0)
        bound.check()
        check_equal((exists(world, "y"), world.queue_length("x")), ([0], 0))
        client.remote.go_on()
        wait_until(held.is_lost, "its loss is told")
        world.await_queue(["x"], 1)
        wait_until(lambda: n_hosts(world) > 0, "it is known again")
    world.kill(client)


@scenario(is_timed=True)
def a_host_that_is_cut_off_gives_up_before_it_is_flushed(world, kind, names):
    """It knows of its loss before another can have the locks."""
    network = Network(world)
    client = network.client(io_timeout_ms=500)
    made = Swarm(world, client, **PROBES)
    held = world.actor(kind, client).acquire(*names, ttl_ms=DAY_MS)
    await_known(world, held.outcome.hst_id)
    asking = world.actor(kind).ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    with swarm(world, world.client(), **FLUSHES):
        network.fail("freeze")
        mine = asking.hold()
        check_equal((held.state(), held.remaining_ms()), ("GONE", 0))
        wait_until(lambda: len(held.losses()) == len(names), "each is told")
        check(max(loss["at_us"] for loss in held.losses()) <= mine.outcome.ts_us, "it relied on what another had")
        network.heal()
        held.release()
        mine.release().check()
    made.end()


@once
def a_flusher_that_was_stopped_deletes_nothing_of_the_living(world, _kind, _names):
    """It stops between its look and its deletes; one host comes back meanwhile."""
    alive, alive_acquirer = host(2)
    for name, (of, acquirer) in ("x", (alive, alive_acquirer)), ("y", (DEAD_HOST, DEAD)):
        raw_host(world, of, 100)
        raw_lock(world, name, acquirer, of)
    world.ask("ZADD", "rql:lock_queue:z", 1, alive_acquirer)
    network = Network(world)
    actor = world.actor("thread", network.client(io_timeout_ms=MINUTE_MS))
    network.fail("delay", direction="up", n=200)
    flushing = actor.begin("flush_zombies")
    wait_until(lambda: world.ask("HLEN", "rql:swarm:suspects") == 2, "both are noted")
    network.fail("freeze")
    raw_host(world, alive, 1)
    network.heal()
    check_equal(flushing.outcome().check().locks, ["y"])
    check_equal((exists(world, "x", "y"), world.queue_length("z"), n_hosts(world)), ([1, 0], 1, 1))
    check_equal(world.ask("EXISTS", "rql:swarm:suspects"), 0)


# ---- flushers ----

@once
def many_flushers_are_one(world, _kind, _names):
    """When it goes another takes its place."""
    clients = [world.client() for _ in range(N_FLUSHERS)]
    for i in range(N_LOCKS):
        raw_lock(world, f"of_the_dead_{i}", DEAD, DEAD_HOST)
    world.ask("HSET", "rql:swarm:hsts", *"garbage x rql:hst:1/1/1/a nan rql:hst:2/1/1/a 0x10 b -5 c inf".split())
    raw_lock(world, "of_garbage", "rql:acq:1/1/1/1/a", "rql:hst:1/1/1/a")
    swarms = [Swarm(world, client, **FLUSHES) for client in clients]
    raw_host(world, DEAD_HOST, 100)
    await_hosts(world, 5)
    check_equal(world.ask("KEYS", "rql:lock:*"), ["rql:lock:of_garbage"])
    wait_until(lambda: sum(status_of(client).is_flusher for client in clients) == 1, "one is elected")
    for made in swarms[:-1]:
        made.end()
    raw_host(world, DEAD_HOST, 100)
    await_hosts(world, 5)
    swarms[-1].end()
    check_equal(world.ask("EXISTS", "rql:swarm:flusher"), 0)


@scenario(counts=[1])
def a_flusher_that_dies_is_flushed_by_the_next(world, kind, names):
    """Without a word, and before its hosts are overdue."""
    dying = world.client(world.remote())
    Swarm(world, dying)
    held = world.actor(kind, dying).acquire(*names, ttl_ms=DAY_MS)
    await_known(world, held.outcome.hst_id)
    await_status(dying, lambda now: now.is_flusher, "it is elected")
    with swarm(world, world.client(), **FLUSHES):
        bound = Bound(world)
        world.kill(dying)
        wait_until(lambda: not world.holder(names[0]), "its lock is flushed")
        bound.check()
        await_hosts(world, 0)


# ---- servers that go ----

if __name__ == "__main__":
    main()
