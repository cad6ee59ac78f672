#!/usr/bin/env python3
"""The swarm in one process: its hosts, what it does by hand, what it tells, and what becomes of it without a server."""
import os
import pathlib

from harness import (FOREVER, MINUTE_MS, Network, check, check_equal, is_cluster, main, once, scenario,
                     wait_until)
from pushes import wait_told
from sweeps import share_as
from swarms import (DAY_MS, DEAD, DEAD_HOST, FLUSHES, PROBES, QUICK, ZOMBIE_TTL_MS, Swarm, await_flushed, await_hosts,
                    await_known, await_status, exists, host, n_hosts, raw_host, raw_lock, status_of, swarm)

OFF, RUNNING, HUNG, CLOSED = 0, 1, 2, 0


def used(actor, name="used"):
    """Its host is one from now on; in a cluster until the lock is released."""
    return actor.acquire(name, ttl_ms=10 * MINUTE_MS)


def ids(actor):
    return actor.begin("whoami").outcome()


# ---- by hand ----


@once
def a_heartbeat_says_again_what_its_client_is_called(world, kind, _names):
    """Each twenty minutes; the swarm's own connection has said so at its login. In a cluster it is who reads the map
    that says it."""
    remote, clock = world.remote_with_clock(suspends=True)
    client = world.client(remote, topology_refresh_ms=1000)
    identity = ids(world.actor(kind, client)).hst_id.rsplit("/", 1)[1]
    with swarm(world, client):
        world.actor(kind, client).begin("probe_hosts").outcome().check()
        wait_until(lambda: world.ask("HLEN", "rql:clients") >= 2, "both say it")
        world.ask("DEL", "rql:clients")
        clock.set_ahead(21 * 60 * 1000000)
        wait_until(lambda: world.ask("HEXISTS", "rql:clients", identity), "the client says it again")


@scenario(kinds=["thread"], counts=[1])
def a_heartbeat_that_fails_says_why(world, kind, _names):
    world.actor(kind, url="redis://127.0.0.1:1").begin("probe_hosts").outcome().check("E_IO")


def plant_zombies(world):
    """Two dead hosts, one that is young, and one that nobody knows."""
    hosts = [host(number) for number in range(1, 5)]
    for (name, _), age_s in zip(hosts, (100, 100, 2)):
        raw_host(world, name, age_s)
    for name, owner in ("z1", 0), ("z2", 0), ("young", 2), ("stranger", 3):
        raw_lock(world, name, hosts[owner][1], hosts[owner][0])
    for score, (_, acquirer) in enumerate(hosts, 1):
        world.ask("ZADD", "rql:lock_queue:young", score, acquirer)
    world.ask("SET", "rql:lock:foreign", "x")
    world.ask("SET", "rql:lock_queue:foreign", "x")
    return hosts


@once
def a_flush_by_hand_frees_what_the_dead_held(world, kind, _names):
    actor, hosts = world.actor(kind), plant_zombies(world)
    flushed = actor.begin("flush_zombies").outcome().check()
    check_equal((flushed.hosts, flushed.acquirers), ([hosts[0][0], hosts[1][0]], [DEAD]))
    check_equal((flushed.locks, flushed.rem_request_cnt), (["z1", "z2"], 2))
    check_equal(exists(world, "z1", "z2", "young", "stranger", "foreign"), [0, 0, 1, 1, 1])
    check_equal((world.queue_length("young"), n_hosts(world)), (2, 1))
    check_equal(world.ask("EXISTS", "rql:swarm:suspects", "rql:swarm:flusher"), 0)
    check_equal(actor.begin("flush_zombies").outcome().check().hosts, [])


@once
def a_list_and_a_flush_agree_on_which_hosts_are_dead(world, kind, _names):
    """Whatever the heartbeats look like that other programs have written."""
    old = ("0", "1000", "1000.5", "+1000", "001000.5", "1.0e3", "1E+3", "+1.5e+03", "1e-3", "17960e-40")
    no_times = ("1000.", "-1000.5", " 1000", "1000 ", "1000\n", "", "nan", "inf", "0x10", "1000,5", ".5", "1.5.5", "5-3",
                "1e", "1e5.5", "1.e3", "+-1", "++1", "1e400", "1e-41", "9" * 20, f"1.{40 * '0'}e3")
    actor, dead = world.actor(kind), []
    for number, value in enumerate((*old, *no_times), 1):
        name, acquirer = host(number)
        world.ask("HSET", "rql:swarm:hsts", name, value)
        raw_lock(world, f"of {value!r}", acquirer, name)
        dead += [f"of {value!r}"] if value in old else []
    check_equal(actor.begin("zombies").outcome().check().locks, sorted(dead))
    check_equal(actor.begin("flush_zombies").outcome().check().locks, sorted(dead))


@scenario(counts=[1])
def what_is_flushed_goes_to_the_next_waiter(world, kind, names):
    raw_host(world, DEAD_HOST, 100)
    raw_lock(world, names[0], DEAD, DEAD_HOST)
    asking = wait_told(world, world.actor(kind), *names)
    check_equal(world.actor("thread").begin("flush_zombies").outcome().check().handed_over_cnt, 1)
    mine = asking.hold()
    check(mine.outcome.handed_over, "it had to ask")
    mine.release().check()


@scenario(counts=[1])
def the_shares_of_the_dead_are_flushed_and_waiters_come_in(world, kind, names):
    """More pages of them than one, with the living in between."""
    name, actor = names[0], world.actor(kind)
    living = [f"rql:acq:1/{i}/0/0/" + "a" * 32 for i in range(20)]
    dead = [f"rql:acq:2/{i}/0/0/" + "d" * 32 for i in range(70)]
    owners = {**{one: DEAD_HOST for one in dead[:50]}, **{one: "rql:hst:1/1/0/" + "a" * 32 for one in living},
              **{one: DEAD_HOST for one in dead[50:]}}
    share_as(world, name, owners, limit=90)
    share_as(world, "other", {dead[0]: DEAD_HOST, dead[1]: DEAD_HOST}, limit=2)
    raw_host(world, DEAD_HOST, 100)
    zombies = actor.begin("zombies").outcome().check()
    check_equal((zombies.locks, zombies.acquirers), ([name, "other"], sorted(dead)))
    asking = wait_told(world, actor, name, share_units=1, share_limit=90)
    flushed = world.actor("thread").begin("flush_zombies").outcome().check()
    check_equal((flushed.hosts, flushed.locks, flushed.handed_over_cnt), ([DEAD_HOST], [name, "other"], 1))
    check_equal(flushed.acquirers, sorted(dead))
    mine = asking.hold()
    check_equal(sorted(world.ask("ZRANGE", f"rql:shares:{name}", 0, -1)), sorted([*living, mine.outcome.acq_id]))
    check_equal((world.ask("HGET", f"rql:lock:{name}", "rql_used"), exists(world, "other")), ("21", [0]))
    mine.release().check()


@scenario(counts=[1])
def who_stands_behind_a_flushed_request_is_served(world, kind, names):
    held = world.held_by_another(*names)
    raw_host(world, DEAD_HOST, 100)
    asking = wait_told(world, world.actor(kind), *names)
    world.ask("ZADD", f"rql:lock_queue:{names[0]}", 1, DEAD)
    world.ask("DEL", f"rql:lock:{names[0]}")
    flushed = world.actor("thread").begin("flush_zombies").outcome().check()
    check_equal(flushed.handed_over_cnt, flushed.rem_request_cnt)  # 0: it came too late
    asking.hold().release().check()
    held.release().check("NOT_HELD")


@once
def a_verdict_ends_with_the_next_heartbeat(world, kind, _names):
    """It is on a host as it was; one that probed again is another matter."""
    actor = world.actor(kind)
    held = actor.acquire("x")
    world.ask("HSET", "rql:swarm:hsts", held.outcome.hst_id, "5.5")
    world.ask("HSET", "rql:swarm:suspects", held.outcome.hst_id, "x")
    actor.begin("probe_hosts").outcome().check()
    check_equal(world.ask("HLEN", "rql:swarm:suspects"), 0)
    world.actor("thread").begin("flush_zombies").outcome().check()
    held.verify().check()
    held.release().check()


# ---- suspicion ----

# A silence that is judged long after it was seen: time enough to look at what happens between.
SLOWLY = {**FLUSHES, "zombie_ttl_ms": 20000}


def await_suspects(world, count):
    wait_until(lambda: world.ask("HLEN", "rql:swarm:suspects") == count, f"{count} are noted")


@once
def one_sight_is_not_enough(world, _kind, _names):
    with swarm(world, world.client(), **SLOWLY):
        await_suspects(world, 1)
        raw_host(world, DEAD_HOST, 100)
        raw_lock(world, "x", DEAD, DEAD_HOST)
        await_suspects(world, 2)
        check(" S " in world.ask("HGET", "rql:swarm:suspects", DEAD_HOST), "it is not suspected")
        check_equal(exists(world, "x"), [1])
        raw_host(world, DEAD_HOST, 0)
        await_suspects(world, 1)
        check_equal((exists(world, "x"), n_hosts(world)), ([1], 1))


@once
def suspicions_from_before_a_pause_say_nothing(world, _kind, _names):
    """Nobody looked meanwhile, or the clock jumped: hosts had no chance to clear themselves."""
    client = world.client()
    for looked_us in 1, 9007199254740991:
        world.ask("FLUSHALL")
        raw_host(world, DEAD_HOST, 100)
        raw_lock(world, "x", DEAD, DEAD_HOST)
        heartbeat = world.ask("HGET", "rql:swarm:hsts", DEAD_HOST)
        world.ask("HSET", "rql:swarm:suspects", "", looked_us, DEAD_HOST, f"1 S {heartbeat}")
        with swarm(world, client, **SLOWLY):
            def news(before=f"1 S {heartbeat}"):
                said = world.ask("HGET", "rql:swarm:suspects", DEAD_HOST)
                return said != before and said
            said = wait_until(news, "it is suspected anew")
            check(" S " in said, f"it is called dead: {said}")
            await_suspects(world, 2)
            check_equal(exists(world, "x"), [1])


# ---- settings, and how it is ----

@once
def settings_are_checked(world, kind, _names):
    client = world.client()
    actor = world.actor(kind, client)

    def start(**options):
        return client.remote.do("swarm", client=client.name, name="refused", options={**QUICK, **options})

    outcome = start(probe_period_ms=ZOMBIE_TTL_MS).check("E_INVALID")
    check(outcome.error.startswith("swarm_probe_period_ms is ") and "half of zombie_ttl_ms" in outcome.error, outcome.error)
    start(zombie_ttl_ms=0).check("E_INVALID")
    start(flush_url="nonsense").check("E_INVALID")
    actor.begin("flush_zombies", options={"zombie_ttl_ms": 0}).outcome().check("E_INVALID")
    with swarm(world, client):
        start().check("E_BUSY")
    with swarm(world, client):
        pass


@once
def its_status_tells_how_it_is(world, _kind, _names):
    client = world.client()
    status = status_of(client)
    check_equal((status.is_running, status.supervisor["state"]), (False, OFF))
    made = Swarm(world, client)
    await_status(client, lambda now: now.probe_hosts["steps"] > 0 and now.flush_zombies["steps"] > 1
                 and now.is_flusher and now.supervisor["steps"] > 0, "all have taken steps")
    status = status_of(client)
    check_equal((status.is_running, status.auto_swarm, status.supervisor["restarts"]), (True, False, 0))
    check_equal([(one["enabled"], one["state"], one["breaker"]) for one in (status.probe_hosts, status.flush_zombies)],
                [(True, RUNNING, CLOSED)] * 2)
    check_equal(world.ask("EXISTS", "rql:swarm:flusher"), 1)
    for _ in range(2):
        made.stop()
        status = status_of(client)
        check_equal((status.is_running, status.flush_zombies["state"]), (False, OFF))
        check_equal(world.ask("EXISTS", "rql:swarm:flusher"), 0)
    made.end()
    check(not status_of(client).probe_hosts["enabled"], "its prober is enabled")


@scenario(counts=[1])
def an_auto_swarm_runs_with_its_client(world, kind, names):
    actor = world.actor(kind, auto_swarm=True)
    status = status_of(actor.client)
    check_equal((status.auto_swarm, status.is_running), (True, True))
    held = used(actor, names[0])
    await_hosts(world, 1)
    held.release().check()
    world.free(actor.client)
    check_equal(n_hosts(world), 0)


# ---- hosts ----

@scenario(kinds=["thread"], counts=[1], in_cluster=False)  # there while it holds
def a_thread_is_a_host_from_its_first_use_to_its_end(world, kind, _names):
    client = world.client()
    with swarm(world, client, **PROBES):
        first, second = world.actor(kind, client), world.actor(kind, client)
        check_equal(n_hosts(world), 0)
        used(first, "first").release().check()
        await_hosts(world, 1)
        await_known(world, ids(first).hst_id)
        used(second, "second").release().check()
        await_hosts(world, 2)
        second.end()
        world.actors.remove(second)
        await_hosts(world, 1)
        await_known(world, ids(first).hst_id)
    check_equal(n_hosts(world), 0)


@scenario(counts=[1], in_cluster=False)  # there it does, unless its lock would outlive it
def a_new_host_does_not_wait_for_the_next_heartbeat(world, kind, names):
    """That comes in a minute."""
    client = world.client()
    with swarm(world, client, **PROBES, probe_period_ms=MINUTE_MS, zombie_ttl_ms=10 * MINUTE_MS):
        for number in range(1, 4):
            held = world.actor(kind, client).acquire(f"{names[0]}{number}")
            await_known(world, held.outcome.hst_id)
            held.release().check()


@scenario(counts=[1], in_cluster=False)  # there the server knows each host whose lock would outlive it
def what_died_before_its_first_heartbeat_is_left_to_its_ttl(world, kind, names):
    """Its heartbeats cannot be sent, so that the moment before the first one lasts."""
    dying, flushing = world.client(world.remote()), world.client()
    probing = Network(world)
    probing.fail("refuse")
    Swarm(world, dying, **PROBES, probe_url=probing.url)
    actor = world.actor(kind, dying)
    actor.acquire(*names, ttl_ms=DAY_MS)
    with swarm(world, flushing, **FLUSHES):
        world.kill(actor)
        killed_us = world.server.now_us()
        wait_until(lambda: world.server.now_us() > killed_us + 2000 * ZOMBIE_TTL_MS, "a dead host is flushed by now")
        n_steps = status_of(flushing).flush_zombies["steps"]
        await_status(flushing, lambda now: now.flush_zombies["steps"] > n_steps + 1, "the flusher has looked since")
        check_equal((exists(world, *names), n_hosts(world)), ([1], 0))
        check(world.ask("PTTL", f"rql:lock:{names[0]}") > DAY_MS / 2, "its ttl is another one")


@once
def a_host_stays_while_it_holds(world, kind, _names):
    """A lock outlives the thread that took it, and heartbeats go on while it is held, also when the swarm stops."""
    client = world.client()
    holder, other = world.actor(kind, client), world.actor(kind, client)
    made = Swarm(world, client, **PROBES)
    held = holder.acquire("x")
    holder.end()
    world.actors.remove(holder)
    await_known(world, held.outcome.hst_id)
    made.stop()
    heartbeat = world.ask("HGET", "rql:swarm:hsts", held.outcome.hst_id)
    check(heartbeat, "it is not known any more")
    wait_until(lambda: world.ask("HGET", "rql:swarm:hsts", held.outcome.hst_id) != heartbeat, "it is told again")
    other.begin("release", lock=held.name).outcome().check()
    await_hosts(world, 0)
    made.end()


@scenario()
def what_a_freed_swarm_leaves_behind_has_its_ttl(world, kind, names):
    client = world.client()
    with swarm(world, client, **PROBES):
        held = world.actor(kind, client).acquire(*names, ttl_ms=MINUTE_MS)
        await_hosts(world, 1)
    check_equal((n_hosts(world), exists(world, *names)), (0, [1] * len(names)))
    check(held.remaining_ms() > 10 * ZOMBIE_TTL_MS, "it depends on a heartbeat")
    held.release().check()


# ---- what it costs, and its connections ----

@once
def elements_have_connections_of_their_own(world, kind, _names):
    client = world.client()
    probing, flushing = Network(world), Network(world)
    with swarm(world, client, probe_url=probing.url, flush_url=flushing.url):
        held = used(world.actor(kind, client))
        await_hosts(world, 1)
        await_status(client, lambda now: now.probe_hosts["steps"] > 0 and now.flush_zombies["steps"] > 1, "both step")
        for network in probing, flushing:  # and where each reads the map of its cluster
            check_equal(network.count("connections"), 1 + is_cluster())
        held.release().check()


def threads_of(client):
    """The names of the library's, but of those that read the map of a cluster."""
    tasks = f"/proc/{client.remote.process.pid}/task"
    names = [pathlib.Path(tasks, task, "comm").read_text("ascii") for task in os.listdir(tasks)]
    return sorted(name.strip() for name in names if name.startswith("rql-") and "cluster" not in name)


@once
def a_client_has_two_threads_at_most(world, _kind, names):
    """Beside libuv's pool, which connects."""
    actor = world.actor("process")
    with swarm(world, actor.client):
        held = actor.acquire(*names, ttl_ms=200, auto_extend=True)
        await_hosts(world, 1)
        await_status(actor.client, lambda status: all(element["steps"] for element in (
            status.probe_hosts, status.flush_zombies, status.supervisor)), "all have made a step")
        check_equal([name.startswith("rql-swarm") for name in threads_of(actor.client)], [False, True])
        held.release().check("OK", "NOT_HELD")
    check_equal([name for name in threads_of(actor.client) if name.startswith("rql-swarm")], [])


# ---- what it tells ----

def told(client, *names):
    """Its log lines and events, of these."""
    return [words.get("line") or words["event"].replace("rql.", "! ") for words in client.remote.told
            if words.get("line") in names or words.get("event") in [f"rql.{name}" for name in names]]


def event(client, name):
    return client.remote.events("." + name)[-1]


def told_client(world, **options):
    """Sampling would leave out nearly all: news of a swarm are not sampled."""
    return world.client(world.remote(), events=True, logs=True, log_sampling_enabled=True, log_sampling_percent=0,
                        instr_sampling_enabled=True, instr_sampling_percent=0, **options)


def plant_dead(world):
    raw_host(world, DEAD_HOST, 100)
    raw_lock(world, "x", DEAD, DEAD_HOST)
    raw_lock(world, "y", DEAD, DEAD_HOST)
    world.ask("ZADD", "rql:lock_queue:z", 1, DEAD)


def check_flushed(client):
    names = ("status", "host_cnt", "rel_key_cnt", "rem_request_cnt", "handed_over_cnt")
    flushed, stats = event(client, "swarm_zombies_flushed"), client.stats()
    check_equal([flushed[name] for name in names], [0, 1, 2, 1, 0])
    check(flushed["rel_time_us"] >= 0, "it took no time")
    check_equal([stats.zombie_hosts, stats.zombie_locks, stats.zombie_requests, stats.zombie_hand_overs,
                 stats.swarm_failures], [1, 2, 1, 0, 0])


@once
def a_flusher_tells_what_it_does(world, kind, _names):
    client = told_client(world)
    news = "swarm_flusher_elected", "swarm_zombies_flushed", "swarm_flusher_retired"
    plant_dead(world)
    began_us = world.server.now_us()
    with swarm(world, client, **FLUSHES):
        wait_until(lambda: client.remote.events("swarm_zombies_flushed"), "it tells of a flush")
    check_equal(told(client, *news), [text for name in news for text in (name, "! " + name)])
    times = [event(client, name)["at_us"] for name in news]  # of a client that has made no call itself
    check(min(times) >= began_us, f"the events are of {times}")
    check_flushed(client)
    by_hand = told_client(world)
    plant_dead(world)
    actor = world.actor(kind, by_hand)
    for _ in range(2):
        actor.begin("flush_zombies").outcome().check()
    check_equal(told(by_hand, *news), ["swarm_zombies_flushed", "! swarm_zombies_flushed"])
    check_equal(event(by_hand, "swarm_zombies_flushed")["thread"], ids(actor).thread)
    check_flushed(by_hand)


@once
def a_flusher_that_finds_verdicts_tells_first_that_it_is_elected(world, _kind, _names):
    """Those of a flusher that has just ended."""
    client, news = told_client(world), ("swarm_flusher_elected", "swarm_zombies_flushed")
    plant_dead(world)
    heartbeat, now_us = world.ask("HGET", "rql:swarm:hsts", DEAD_HOST), world.server.now_us()
    world.ask("HSET", "rql:swarm:suspects", "", now_us, DEAD_HOST, f"1 D {heartbeat}")
    with swarm(world, client, **FLUSHES):
        wait_until(lambda: client.remote.events("swarm_zombies_flushed"), "it tells of a flush")
    check_equal(told(client, *news), [text for name in news for text in (name, "! " + name)])


@once
def a_breaker_tells_of_an_outage_once(world, kind, _names):
    """A server that is away is not hammered, and found again."""
    client = told_client(world)
    probing = Network(world)
    with swarm(world, client, **PROBES, probe_url=probing.url):
        held = used(world.actor(kind, client))
        await_hosts(world, 1)
        probing.fail("refuse")
        probing.fail("cut")
        wait_until(lambda: client.remote.events("swarm_breaker_opened"), "it opens")
        check(status_of(client).probe_hosts["failures"] >= 3, "it opened too early")
        probing.heal()
        wait_until(lambda: client.remote.events("swarm_breaker_closed"), "it closes")
        await_status(client, lambda now: now.probe_hosts["breaker"] == CLOSED, "it is closed")
        held.release().check()
    news = "swarm_breaker_opened", "swarm_breaker_closed"
    check_equal(told(client, *news), [text for name in news for text in (name, "! " + name)])
    opened, stats = event(client, "swarm_breaker_opened"), client.stats()
    check_equal((opened["element"], opened["status"] < 0), ("probe_hosts", True))
    check(stats.swarm_failures >= 3 and stats.probes >= 2, "they are not counted")


def hanging_client(world):
    """Its listener hangs in the middle of the flusher's first step, and with it the loop that the swarm lives on. What
    a step may take follows from the times."""
    return world.client(world.remote(), also={"hangs_at": "flusher_elected"}, connect_timeout_ms=200,
                        io_timeout_ms=200)


@once
def an_element_that_hangs_is_replaced(world, _kind, _names):
    client = hanging_client(world)
    with swarm(world, client, **FLUSHES):
        await_status(client, lambda status: status.flush_zombies["state"] == HUNG, "it hangs")
        check_equal(client.remote.events("element_hung"), [])  # it holds up the loop
        client.remote.do("listen_on", client=client.name)
        for name in ("element_hung", "element_restarted"):
            wait_until(lambda name=name: client.remote.events(name), f"{name} is told")
        await_status(client, lambda status: (status.flush_zombies["state"], status.flush_zombies["restarts"])
                     == (RUNNING, 1), "it works again")
        check_equal((client.remote.events("element_hung")[-1]["element"], client.stats().swarm_restarts),
                    ("flush_zombies", 1))
        raw_host(world, DEAD_HOST, 100)
        await_flushed(world)


@once
def a_listener_may_stop_its_swarm(world, _kind, _names):
    """It cannot wait for itself."""
    client = hanging_client(world)
    with swarm(world, client, **FLUSHES) as made:
        client.remote.do("listen_on", client=client.name, stop=made.name)
        wait_until(lambda: client.remote.events("flusher_retired"), "it has retired")
    check_equal(world.ask("EXISTS", "rql:swarm:flusher"), 0)


@scenario(counts=[1])
def a_host_that_was_declared_dead_is_told(world, kind, names):
    client = told_client(world)
    actor = world.actor(kind, client)
    with swarm(world, client, **PROBES):
        held = actor.acquire(*names)
        await_known(world, held.outcome.hst_id)
        # In a partition the acquisition writes the host, too, while a probe that brings it as new is on its way.
        n_steps = status_of(client).probe_hosts["steps"]
        await_status(client, lambda status: status.probe_hosts["steps"] > n_steps, "that probe has ended")
        world.ask("HDEL", "rql:swarm:hsts", held.outcome.hst_id)
        wait_until(lambda: client.remote.events("swarm_hosts_declared_dead"), "it is told")
        held.release()
    check_equal(event(client, "swarm_hosts_declared_dead")["host_cnt"], 1)
    check_equal(client.stats().hosts_declared_dead, 1)


# ---- without a server ----

@scenario()
def nothing_is_acquired_while_the_host_may_count_as_dead(world, kind, names):
    """It may be flushed at any moment: a lock that it took now would be lost at once."""
    client = world.client()
    actor = world.actor(kind, client)
    probing = Network(world)
    made = Swarm(world, client, **PROBES, probe_url=probing.url)
    held = actor.acquire(*names)
    await_hosts(world, 1)
    for fault in "refuse", "cut":
        probing.fail(fault)
    wait_until(held.is_lost, "its loss is told")
    check_equal(held.state(), "GONE")
    held.release()
    outcome = actor.refused(*names, timeout_ms=50).check("E_UNAVAILABLE")
    check("count as dead" in outcome.error, outcome.error)
    check_equal(exists(world, *names), [0] * len(names))
    check_equal([world.queue_length(name) for name in names], [0] * len(names))
    probing.heal()
    held = actor.acquire(*names, timeout_ms=FOREVER)
    check_equal(held.state(), "HELD")
    held.release().check()
    for fault in "refuse", "cut":
        probing.fail(fault)
    made.end()  # it cannot say goodbye; the client goes on without a swarm
    held = actor.acquire(*names, timeout_ms=FOREVER)
    check_equal(held.state(), "HELD")
    held.release().check()


@scenario(counts=[1])
def a_first_heartbeat_without_answer_binds_the_locks(world, kind, names):
    """The server knows the host, and the client does not know that it does."""
    client = world.client()
    held = world.actor(kind, client).acquire(*names, ttl_ms=MINUTE_MS)
    world.actor("thread", client).begin("probe_hosts").outcome().check()  # the server knows the script now
    world.ask("DEL", "rql:swarm:hsts")
    probing = Network(world)
    visitor = probing.client()
    world.actor("thread", visitor).begin("connect").outcome().check()
    n_login = probing.count("replies")
    world.free(visitor)
    probing.fail("cut_reply", n=n_login + 1)
    with swarm(world, client, **PROBES, probe_url=probing.url):
        wait_until(lambda: n_hosts(world) > 0, "its heartbeat is sent")
        for fault in "refuse", "cut":
            probing.fail(fault)
        wait_until(held.is_lost, "its loss is told")
        check_equal(held.state(), "GONE")
        held.release()


if __name__ == "__main__":
    main()
