#!/usr/bin/env python3
"""Swarms in a cluster of three masters: each partition has hosts of its own."""
from cluster import clustered
from harness import FOREVER, MINUTE_MS, check, check_equal, main, once, scenario, wait_until
from partitions import N_PARTITIONS
from swarms import DEAD, DEAD_HOST, FLUSHES, PROBES, QUICK, Swarm, await_status, host, status_of, swarm
from sweeps import hold_as

CLOSED = 0        # rql_breaker
LOOKS = 5         # for the dead
LOOK_CALLS = 130  # at most, of one look at all partitions
SLOW = {**PROBES, "zombie_ttl_ms": 20000, "probe_period_ms": 10000}  # one heartbeat within a test
BRIEF = {"ttl_ms": QUICK["zombie_ttl_ms"] // 2}  # known by a heartbeat, not because the lock would outlive its host
AGE_S = 100
NOT_COVERED = ("--cluster-require-full-coverage", "no", "--cluster-node-timeout", "600000")  # a node may stand still


class Scene:
    """A cluster, and names of locks on each of its masters in turn, each in a partition of its own."""

    def __init__(self, world, cluster):
        self.world, self.cluster, self.masters = world, cluster, cluster.masters()
        self.names = [name for each in zip(*(cluster.names_on(master, 4) for master in self.masters)) for name in each]

    def client(self, **options):
        """What it asks is counted: it does not say what it is called, nor makes a further connection."""
        return self.world.client(url=self.cluster.url(self.masters[0]), client_names=False, connections=1, **options)

    def ask(self, word, key, name, *words):
        """About a key of the partition of a lock."""
        return self.cluster.owner_of(name).ask(word, self.cluster.key(key, name), *words)

    def n_hosts(self, name):
        return self.ask("HLEN", "swarm:hsts", name)

    def await_hosts(self, name, count):
        wait_until(lambda: self.n_hosts(name) == count, f"{count} hosts are known where {name} is")

    def now_s(self):
        return self.masters[0].now_us() // 1000000

    def add_host(self, name, age_s, of=DEAD_HOST):
        """Whose last heartbeat in the partition is that old."""
        self.ask("HSET", "swarm:hsts", name, of, f"{self.now_s() - age_s}.5")

    def add_zombie(self, name):
        self.add_host(name, AGE_S)
        hold_as(self.world, (DEAD, DEAD_HOST), name, ttl_ms=MINUTE_MS)

    def exist(self, names):
        return [self.ask("EXISTS", f"lock:{name}", name) for name in names]

    def counts(self):
        """Scripts, and writes as the servers have read them, those of this question among them."""
        return (sum(master.n_scripts() for master in self.masters),
                sum(int(master.info("stats", "total_reads_processed")) for master in self.masters))

    def cost_of(self, function):
        """What it returns, and how many scripts and writes it took."""
        counts = [self.counts(), self.counts()]  # the difference is what counting costs
        result = function()
        counts.append(self.counts())
        return result, *(last - middle - (middle - first) for first, middle, last in zip(*counts))


def swarm_scenario(function):
    """For one kind and count; with a Scene."""
    def case(world, kind, _names):
        with clustered(world, 3, arguments=NOT_COVERED) as cluster:
            function(world, kind, Scene(world, cluster))
    case.__name__ = function.__name__
    return case


@once
@swarm_scenario
def a_probe_goes_to_the_partitions_of_what_is_held(world, kind, scene):
    actor, names = world.actor(kind, scene.client()), scene.names[:10]
    held = [actor.acquire(name, ttl_ms=MINUTE_MS) for name in names]

    def probed():
        return len(actor.begin("probe_hosts").outcome().check().hosts)
    check_equal(probed(), 1)  # one thread, in ten partitions
    check_equal([scene.n_hosts(name) for name in scene.names[:11]], [1] * 10 + [0])
    check_equal(scene.cost_of(probed), (1, 10, 3))
    for one in held:
        one.release().check()
    check_equal(probed(), 0)
    check_equal([scene.n_hosts(name) for name in names], [0] * 10)
    check_equal(scene.cost_of(probed), (0, 0, 0))


@scenario(counts=[1])
@swarm_scenario
def what_outlives_a_host_is_asked_for_by_one_that_is_known(world, kind, scene):
    """Before a heartbeat would come: who asks for more than a zombie's time is known where its lock is, by the same
    write."""
    client, (name, other, same_node) = scene.client(), scene.names[:2] + scene.names[3:4]
    actor = world.actor(kind, client)
    with swarm(world, client, **SLOW):
        await_status(client, lambda now: now.probe_hosts["steps"] > 0, "it has probed")
        first = actor.acquire(name, ttl_ms=MINUTE_MS)
        check_equal(scene.n_hosts(name), 1)
        second, scripts, writes = scene.cost_of(lambda: actor.acquire(same_node, ttl_ms=MINUTE_MS))
        check_equal((scene.n_hosts(same_node), scripts, writes), (1, 2, 1))
        second.release().check()
        second, scripts, _ = scene.cost_of(lambda: actor.acquire(same_node, ttl_ms=MINUTE_MS))
        check_equal(scripts, 1)  # it is known by now
        second.release().check()
        brief = actor.acquire(other, ttl_ms=SLOW["zombie_ttl_ms"])
        check_equal(scene.n_hosts(other), 0)
        first.release().check()
        brief.release().check()
    check_equal([scene.n_hosts(each) for each in (name, same_node)], [0, 0])


@once
@swarm_scenario
def a_swarm_needs_the_servers_of_its_client(world, _kind, scene):
    client = scene.client()
    client.remote.do("swarm", name="one", client=client.name,
                     options={**QUICK, "flush_url": f"redis://127.0.0.1:{scene.masters[0].port}"}).check("E_INVALID")


@scenario(counts=[1])
@swarm_scenario
def who_waits_is_a_host_where_it_waits(world, kind, scene):
    client, name = scene.client(), scene.names[0]
    actor = world.actor(kind, client)
    with swarm(world, client):
        held = world.actor("thread", scene.client()).acquire(name, ttl_ms=MINUTE_MS)
        check_equal(scene.n_hosts(name), 0)
        asking = actor.ask(name, timeout_ms=FOREVER, **BRIEF)
        scene.await_hosts(name, 1)
        held.release().check()
        asking.hold().release()
        scene.await_hosts(name, 0)
        held = actor.acquire(name, ttl_ms=MINUTE_MS)
        scene.await_hosts(name, 1)
        held.release().check()
        scene.await_hosts(name, 0)  # its thread lives on


@once
@swarm_scenario
def zombies_hold_what_they_have_where_they_are_dead(world, kind, scene):
    """What is dead in one partition is no zombie's in another."""
    actor, names = world.actor(kind, scene.client()), scene.names[:3]
    for name in names:
        scene.add_zombie(name)
    for name in names[1:]:
        scene.add_host(name, -AGE_S)
    told = actor.begin("zombies", zombie_ttl_ms=SLOW["zombie_ttl_ms"]).outcome().check()
    check_equal((len(told.hosts), [names[0] in lock for lock in told.locks]), (1, [True]))
    flushed = actor.begin("flush_zombies").outcome().check()
    check_equal((len(flushed.hosts), len(flushed.locks)), (1, 1))
    check_equal((scene.exist(names), [scene.n_hosts(name) for name in names]), ([0, 1, 1], [0, 1, 1]))


@once
@swarm_scenario
def a_silent_node_keeps_no_flush_from_the_others(world, _kind, scene):
    names = scene.names[:2]
    for name in names:
        scene.add_zombie(name)
    with scene.masters[2].frozen():
        made = Swarm(world, scene.client(), **FLUSHES)
        for name in names:
            scene.await_hosts(name, 0)
        wait_until(lambda: scene.exist(names) == [0, 0], "their locks are gone")
    made.end()


@once
@swarm_scenario
def a_node_that_stops_ends_the_leases_of_its_partitions_alone(world, kind, scene):
    client = scene.client()
    actor = world.actor(kind, client)
    with swarm(world, client, **PROBES):
        held = [actor.acquire(name, ttl_ms=MINUTE_MS) for name in scene.names[:3]]
        for name in scene.names[:3]:
            scene.await_hosts(name, 1)
        with scene.masters[1].frozen():
            wait_until(held[1].is_lost, "its lock is lost")
            actor.refused(scene.names[1], fail_fast=True).check("E_UNAVAILABLE")
            steps = status_of(client).probe_hosts["steps"] + LOOKS
            await_status(client, lambda now: now.probe_hosts["steps"] > steps, "longer than that took")
            check_equal(status_of(client).probe_hosts["breaker"], CLOSED)
            check_equal([one.state() for one in held], ["HELD", "GONE", "HELD"])
            actor.acquire(scene.names[3]).release().check()
        actor.acquire(scene.names[4], timeout_ms=FOREVER).release().check()
        for one in held:
            one.release()


@once
@swarm_scenario
def looking_for_the_dead_costs_little(world, _kind, scene):
    """One looks at all partitions; who is not elected asks the first one alone."""
    clients = [scene.client(), scene.client()]

    def look_on(client):
        before = status_of(client).flush_zombies["steps"]
        await_status(client, lambda now: now.flush_zombies["steps"] >= before + LOOKS, "it has looked")
        return status_of(client).flush_zombies["steps"] - before + 1
    first = Swarm(world, clients[0], **FLUSHES)
    await_status(clients[0], lambda now: now.is_flusher, "it is elected")
    second = Swarm(world, clients[1], **FLUSHES)
    await_status(clients[1], lambda now: now.flush_zombies["steps"], "the other has looked")
    looks, scripts, _ = scene.cost_of(lambda: look_on(clients[0]))
    check((LOOKS - 1) * N_PARTITIONS <= scripts <= looks * LOOK_CALLS, f"{scripts} scripts in {looks} looks")
    check_equal(status_of(clients[1]).is_flusher, False)
    first.end()
    await_status(clients[1], lambda now: now.is_flusher, "the other is elected")
    second.end()
    check_equal(scene.masters[0].ask("KEYS", "*swarm:flusher"), [])


@once
@swarm_scenario
def nobody_flushes_without_the_first_partition(world, _kind, scene):
    client = scene.client()
    with swarm(world, client, **FLUSHES), scene.masters[1].frozen():
        await_status(client, lambda now: now.is_flusher, "it is elected")
        with scene.masters[0].frozen():
            await_status(client, lambda now: not now.is_flusher, "it is elected no longer")
        await_status(client, lambda now: now.is_flusher, "it is elected again")  # though the other is silent


@once
@swarm_scenario
def a_host_of_several_partitions_is_listed_once(world, kind, scene):
    actor, (other, _) = world.actor(kind, scene.client()), host(2)
    scene.add_host(scene.names[0], AGE_S)
    scene.add_host(scene.names[1], -AGE_S)
    scene.add_host(scene.names[2], -AGE_S, other)
    told = actor.begin("hosts", zombie_ttl_ms=MINUTE_MS).outcome().check().hosts
    check_equal([(each["hst_id"], each["is_zombie"]) for each in told], [(DEAD_HOST, True), (other, False)])
    check(told[0]["last_probe_us"] > scene.now_s() * 1000000, "not by its last heartbeat")
    check_equal(actor.begin("zombies", of="hosts", zombie_ttl_ms=MINUTE_MS).outcome().check().found, [DEAD_HOST])


if __name__ == "__main__":
    main(at_once=2, is_for_each_server=False)
