#!/usr/bin/env python3
"""What operators see and do in a cluster: lists and sweeps go over all its masters, what is about one lock to its own."""
import json
import os
import subprocess
import sys

from cluster import clustered
from harness import FOREVER, MINUTE_MS, check_equal, main, once, wait_until
from partitions import prefix_of, slot_of_lock
from sweeps import check_counts, sweep

HELD = {"ttl_ms": MINUTE_MS}
PATIENT = {"timeout_ms": FOREVER, "queue_ttl_ms": MINUTE_MS}
EACH = 3          # locks of each master, in partitions of their own


def inspect(actor, of, name="", status="OK"):
    return actor.begin("inspect", of=of, name=name).outcome().check(status).found


class Scene:
    """Who holds locks on all masters, who waits for the first of them, and an operator who has asked nobody yet."""

    def __init__(self, world, cluster):
        self.cluster = cluster
        self.names = [name for master in cluster.masters() for name in cluster.names_on(master, EACH)]
        self.holder, self.waiter, self.operator = (
            world.actor("thread", world.client(events=True, url=cluster.url(cluster.nodes[0]))) for _ in range(3))
        self.held = {name: self.holder.acquire(name, **HELD) for name in self.names}
        self.asking = self.waiter.ask(self.names[0], **PATIENT)
        world.await_queue(self.names[:1], 1)

    def end(self):
        for held in self.held.values():
            held.release()
        self.asking.hold().release()


def keys(kind, names):
    return sorted(f"{prefix_of(name)}{kind}:{name}" for name in names)


@once
def lists_are_of_all_masters(world, _kind, _names):
    with clustered(world, 3) as cluster:
        scene = Scene(world, cluster)
        check_equal(sorted(inspect(scene.operator, "locks")), keys("lock", scene.names))
        check_equal(inspect(scene.operator, "queues"), keys("lock_queue", scene.names[:1]))
        check_equal(sorted(inspect(scene.operator, "keys")),
                    sorted(keys("lock", scene.names) + keys("lock_queue", scene.names[:1])))
        infos = {info["name"]: info for info in inspect(scene.operator, "locks_info")}
        check_equal({name: info["token"] for name, info in infos.items()},
                    {name: held.tokens[0] for name, held in scene.held.items()})
        (queue,) = inspect(scene.operator, "queues_info")
        check_equal((queue["name"], [request["hst_id"] is None for request in queue["requests"]]),
                    (scene.names[0], [False]))
        scene.end()


@once
def what_is_about_one_lock_is_asked_of_its_master(world, _kind, _names):
    with clustered(world, 3) as cluster:
        scene = Scene(world, cluster)
        for name in scene.names:
            check_equal(inspect(scene.operator, "lock", name)["token"], scene.held[name].tokens[0])
            check_equal((inspect(scene.operator, "is_locked", name), inspect(scene.operator, "is_queued", name)),
                        (True, name == scene.names[0]))
        check_equal(len(inspect(scene.operator, "queue", scene.names[0])["requests"]), 1)
        scene.end()
        check_equal(inspect(scene.operator, "is_locked", scene.names[-1]), False)


@once
def sweeps_go_over_all_masters(world, _kind, _names):
    """A waiter of ours comes back by its record, and is served."""
    with clustered(world, 3) as cluster:
        scene = Scene(world, cluster)
        check_counts(sweep(scene.operator, "all", dry_run=True), len(scene.names) + 1, 1, 1)
        check_counts(sweep(scene.operator, "all", batch_size=2), len(scene.names) + 1, 1, 1)
        mine = scene.asking.hold()
        check_equal([info["name"] for info in inspect(scene.operator, "locks_info")], scene.names[:1])
        mine.release().check()
        for held in scene.held.values():
            held.release().check("NOT_HELD")
        world.await_nothing_left()


def rql(cluster, *words):
    """What the program prints, which has asked one of the masters first."""
    url = cluster.url(cluster.nodes[-1])
    env = {name: value for name, value in os.environ.items() if not name.startswith("RQL_")}
    done = subprocess.run([os.environ["RQL_TEST_PROGRAM"], *words, "--url", url], capture_output=True, text=True,
                          check=False, env=env)
    check_equal((done.returncode, done.stderr), (0, ""))
    return done.stdout


@once
def it_is_told_where_each_is(world, _kind, _names):
    """By the library, and by the program, whose lists are in the order of the names."""
    with clustered(world, 3) as cluster:
        scene = Scene(world, cluster)
        nodes = {name: f"127.0.0.1:{cluster.owner_of(name).port}" for name in sorted(scene.names)}
        check_equal({info["name"]: info["node"] for info in inspect(scene.operator, "locks_info")}, nodes)
        check_equal({name: held.outcome.node for name, held in scene.held.items()}, nodes)
        check_equal(rql(cluster, "ls").split(), list(nodes))
        for words in (["ls", "--node"], ["who", "--node"]):
            found = json.loads(rql(cluster, *words, "--json"))
            check_equal([(lock["name"], lock["node"]) for lock in found], list(nodes.items()))
            check_equal([line.split()[-1] for line in rql(cluster, *words).splitlines()], ["NODE", *nodes.values()])
        waiting = {lock["name"]: lock["waiting"] for lock in json.loads(rql(cluster, "who", "--json"))}
        check_equal(waiting, {name: int(name == scene.names[0]) for name in nodes})
        wait_until(lambda: "rql:acq:" not in rql(cluster, "who"), "holders have names, which are on one of the masters")
        check_equal(rql(cluster, "ls", "--queues").split(), scene.names[:1])
        check_equal(json.loads(rql(cluster, "ls", "--queues", "--node", "--json"))[0]["node"], nodes[scene.names[0]])
        check_equal(json.loads(rql(cluster, "info", scene.names[0], "--node", "--json"))["node"],
                    nodes[scene.names[0]])
        check_equal(len(json.loads(rql(cluster, "queue", scene.names[0], "--json"))["requests"]), 1)
        rql(cluster, "unlock", scene.names[0], "--force")
        mine = scene.asking.hold()
        rql(cluster, "clear", "--force")
        check_equal(rql(cluster, "ls"), "")
        for held in mine, *scene.held.values():
            held.release().check("NOT_HELD")


@once
def what_has_moved_is_found_where_it_is(world, _kind, _names):
    """The operator has asked before, and knows the old place."""
    with clustered(world, 3) as cluster:
        scene = Scene(world, cluster)
        name = scene.names[0]
        token = inspect(scene.operator, "lock", name)["token"]
        cluster.migrate(slot_of_lock(name), cluster.masters()[1])
        check_equal(inspect(scene.operator, "lock", name)["token"], token)
        check_equal(inspect(scene.operator, "is_locked", name), True)
        check_equal(len(inspect(scene.operator, "locks_info")), len(scene.names))
        scene.end()


if __name__ == "__main__":
    sys.exit(main())
