#!/usr/bin/env python3
"""What operators see and do in a cluster: lists and sweeps go over all its masters, what is about one lock to its own."""
import json

import shards
from cluster import PARTITION_SLOTS, clustered
from harness import check, check_equal, main, once, wait_until
from partitions import prefix_of, slot_of_lock
from shards import HELD, PATIENT
from sweeps import check_counts, sweep

DEAD_PORT = 1
HOUR_MS = 3600000
IO_TIMEOUT_MS = 500
EACH = 3          # locks of each master, in partitions of their own
TIMED = ("net.rtt", "use.handover")  # what a machine that is busy with others is warned of


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


def address(node):
    return f"127.0.0.1:{node.port}"


def keys(kind, names):
    return sorted(f"{prefix_of(name)}{kind}:{name}" for name in names)


@once
def what_the_library_lists_is_of_all_masters_and_one_lock_is_asked_of_its_own(world, _kind, _names):
    """Also when it has moved, and the operator knows its old place."""
    with clustered(world, 3) as cluster:
        scene = Scene(world, cluster)
        first, tokens = scene.names[0], {name: held.tokens[0] for name, held in scene.held.items()}
        check_equal(inspect(scene.operator, "locks"), sorted(scene.names))
        check_equal(inspect(scene.operator, "queues"), [first])
        check_equal(sorted(inspect(scene.operator, "keys")),
                    sorted(keys("lock", scene.names) + keys("lock_queue", [first])))
        (queue,) = inspect(scene.operator, "queues_info")
        check_equal((queue["name"], [request["hst_id"] is None for request in queue["requests"]]), (first, [False]))
        for moves in False, True:
            if moves:
                cluster.migrate(slot_of_lock(first), cluster.masters()[1])
            for name in scene.names:
                check_equal(inspect(scene.operator, "lock", name)["token"], tokens[name])
                check_equal((inspect(scene.operator, "is_locked", name), inspect(scene.operator, "is_queued", name)),
                            (True, name == first))
            check_equal(len(inspect(scene.operator, "queue", first)["requests"]), 1)
            infos = inspect(scene.operator, "locks_info")
            check_equal({info["name"]: info["token"] for info in infos}, tokens)
            some = scene.operator.begin("inspect", of="locks_info", names=scene.names).outcome().check().found
            check_equal({info["name"]: info["token"] for info in some}, tokens)
        scene.end()
        check_equal(inspect(scene.operator, "is_locked", scene.names[-1]), False)


@once
def a_lock_that_has_moved_is_unlocked_where_it_is(world, _kind, _names):
    """The operator knows its old place, and learns of the new one by a refusal: that leaves no fault in its rql_error."""
    with clustered(world, 2) as cluster:
        first, second = cluster.masters()[:2]
        (name,) = cluster.names_on(first, 1)
        holder, operator = (world.actor("thread", world.client(url=cluster.url())) for _ in range(2))
        held = holder.acquire(name, **HELD)
        check_equal(inspect(operator, "is_locked", name), True)
        cluster.migrate(slot_of_lock(name), second)
        operator.begin("force_unlock", name=name).outcome().check()
        check_equal(inspect(operator, "is_locked", name), False)
        held.release()


@once
def what_is_not_about_one_lock_is_read_where_it_has_moved(world, _kind, _names):
    """The clients, which are in the first partition, and the hosts. The operator knows their old place."""
    with clustered(world, 2) as cluster:
        operator, slot = world.actor("thread", world.client(url=cluster.url())), PARTITION_SLOTS[0]
        for words in {"do": "drain_host", "host": "rql:hst:1"}, {"do": "hosts"}:
            operator.begin(**words).outcome().check()
            cluster.migrate(slot, cluster.other_master(cluster.owner(slot)))
            operator.begin(**words).outcome().check()


def calls_about(name):
    """Those about one free lock that take nothing, each with its status."""
    return (({"do": "inspect", "of": "lock", "name": name}, "NOT_FOUND"),
            ({"do": "inspect", "of": "queue", "name": name}, "NOT_FOUND"),
            ({"do": "check_until_free", "names": [name], "options": {"fail_fast": True}}, "OK"),
            ({"do": "force_unlock", "name": name}, "OK"))


@once
def a_first_call_about_one_lock_asks_the_node_that_has_it(world, _kind, _names):
    """No node of the URL has the lock, and the first one may be dead."""
    with clustered(world, 3) as cluster:
        other, owner, _ = cluster.masters()
        url, n_moved = cluster.url(other), other.n_errors("MOVED")
        for words, status in calls_about(cluster.names_on(owner, 1)[0]):
            for first in url, url.replace("://", f"://127.0.0.1:{DEAD_PORT},"):
                world.actor("thread", url=first).begin(**words).outcome().check(status)
        check_equal(other.n_errors("MOVED"), n_moved)


@once
def a_call_about_one_lock_goes_to_the_successor_of_a_silent_node(world, _kind, _names):
    """Long before the map is due to be read: the node that has the client's name answers. A reading names the silent
    node."""
    with clustered(world, 3, 1) as cluster:
        keeper = cluster.owner(PARTITION_SLOTS[0])
        silent = cluster.other_master(keeper)
        (name,) = cluster.names_on(silent, 1)
        options = {"url": cluster.url(keeper), "topology_refresh_ms": HOUR_MS, "io_timeout_ms": IO_TIMEOUT_MS,
                   "connect_timeout_ms": 4 * IO_TIMEOUT_MS}
        calls = [(world.actor("thread", **options), words, status) for words, status in calls_about(name)]
        for actor, words, status in calls:
            actor.begin(**words).outcome().check(status)
        silent.freeze()
        for words, call in [(words, actor.begin(**words)) for actor, words, _ in calls]:
            outcome = call.outcome().check("E_IO" if words["do"] == "inspect" else "E_UNKNOWN")
            check(f"{address(silent)}: no answer" in outcome.error, outcome.error)
        cluster.await_successor(slot_of_lock(name), silent)
        for actor, words, status in calls:
            wait_until(lambda call=(actor, words), wanted=status: call[0].begin(**call[1]).outcome().status == wanted,
                       f"{words} is answered by the successor")
        cluster.bring_back(silent)


def look(actor, name, **options):
    return actor.begin("check_until_free", names=[name], options=options)


@once
def a_look_at_a_free_lock_follows_it_to_another_node(world, _kind, _names):
    """That is no try at which the lock was held. The old node refuses both commands, once."""
    with clustered(world, 2) as cluster:
        name = cluster.spread(1)[0]
        for options in {"fail_fast": True}, {"retry_count": 1}:
            one, owner = world.actor("thread", url=cluster.url()), cluster.owner_of(name)
            look(one, name).outcome().check()
            cluster.migrate(slot_of_lock(name), cluster.other_master(owner))
            n_moved = owner.n_errors("MOVED")
            look(one, name, **options).outcome().check()
            check_equal(owner.n_errors("MOVED"), n_moved + 2)


@once
def a_look_at_a_lock_that_no_node_has_waits_and_says_why_it_failed(world, _kind, _names):
    """Its pauses grow, and it can be cancelled. Once a node has the lock, the look is answered."""
    with clustered(world, 2, arguments=("--cluster-require-full-coverage", "no")) as cluster:
        name = cluster.spread(1)[0]
        slot, owner = slot_of_lock(name), cluster.owner_of(name)
        for node in cluster.nodes:
            node.ask("CLUSTER", "DELSLOTS", slot)
        before = sum(node.n_errors("CLUSTERDOWN") for node in cluster.nodes)
        outcome = look(world.actor("thread", url=cluster.url()), name, timeout_ms=1500, retry_count=1).outcome()
        check("CLUSTERDOWN" in outcome.check("E_UNAVAILABLE").error, outcome.error)
        n_asked = sum(node.n_errors("CLUSTERDOWN") for node in cluster.nodes) - before
        check(2 <= n_asked <= 40, f"asked {n_asked} times")
        looking = look(world.actor("thread", url=cluster.url()), name, **PATIENT)
        wait_until(lambda: sum(node.n_errors("CLUSTERDOWN") for node in cluster.nodes) > before + n_asked, "it looks")
        for node in cluster.nodes:
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", owner.id)
        looking.outcome().check()
        cluster.await_settled()


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


@once
def nothing_is_listed_or_swept_in_part_without_the_right_to_read_the_map(world, _kind, _names):
    with clustered(world, 3) as cluster:
        scene = Scene(world, cluster)
        for node in cluster.nodes:
            node.ask("ACL", "SETUSER", "poor", "on", ">pw", "~*", "&*", "+@all", "-cluster|slots")
        url = cluster.url(cluster.nodes[0], login="poor:pw@")
        poor = world.actor("thread", url=url)
        for of in "locks", "queues", "keys", "locks_info":
            inspect(poor, of, status="E_AUTH")
        done = sweep(poor, "all", status="E_AUTH")
        check("NOPERM" in done.error and "CLUSTER SLOTS" in done.error, done.error)
        check_counts(done, 0, 0, 0)
        poor.begin("connect").outcome().check("E_AUTH")
        poor.acquire("free").release().check()
        for words in ("ls",), ("clear", "--force"):
            done = run(cluster, *words, login="poor:pw@")
            check("NOPERM" in done.stderr and "cluster|slots" in done.stderr, done.stderr)
            check_equal((done.returncode > 0, done.stdout), (True, ""))
        check_equal(inspect(scene.operator, "locks"), sorted(scene.names))
        for node in cluster.nodes:
            node.ask("ACL", "SETUSER", "poor", "+cluster|slots")
        wait_until(lambda: poor.begin("connect").outcome().status == "OK", "the map is read")
        check_equal(inspect(poor, "locks"), sorted(scene.names))
        for node in cluster.nodes:
            node.ask("ACL", "DELUSER", "poor")
        scene.end()


def run(cluster, *words, login="", first=None):
    """The program, which asks one of the masters first."""
    return shards.run_rql(cluster.url(first or cluster.nodes[-1], login=login), *words)


def rql(cluster, *words, first=None):
    return shards.rql(cluster.url(first or cluster.nodes[-1]), *words)


@once
def it_is_told_where_each_is(world, _kind, _names):
    """By the library, and by the program, whose lists are in the order of the names."""
    with clustered(world, 3) as cluster:
        scene = Scene(world, cluster)
        nodes = {name: address(cluster.owner_of(name)) for name in sorted(scene.names)}
        check_equal({info["name"]: info["node"] for info in inspect(scene.operator, "locks_info")}, nodes)
        check_equal({name: held.outcome.node for name, held in scene.held.items()}, nodes)
        check_equal(rql(cluster, "ls").split(), list(nodes))
        for words in (["ls", "--node"], ["who", "--node"]):
            found = json.loads(rql(cluster, *words, "--json"))
            check_equal([(lock["name"], lock["node"]) for lock in found], list(nodes.items()))
            lines = [line.split() for line in rql(cluster, *words).splitlines()]
            column = lines[0].index("NODE") - len(lines[0])  # from the end: the name of a client has blanks
            check_equal([line[column] for line in lines], ["NODE", *nodes.values()])
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


def figures(master, **counted):
    """A row of rql stats --node."""
    return {"node": address(master), "locks": EACH, "queues": 0, "requests": 0, "hosts": 1, "damaged_keys": 0, **counted}


@once
def it_is_counted_what_each_has(world, _kind, _names):
    """Also one that has nothing; whoever holds or waits on several is one host there, and one of all."""
    with clustered(world, 3) as cluster:
        scene = Scene(world, cluster)
        first, second, third = cluster.masters()
        name = cluster.names_on(second, EACH + 1)[-1]
        second.ask("SET", cluster.key("lock:" + name, name), "no lock")
        for name in scene.names[-EACH:]:
            scene.held.pop(name).release()
        wanted = sorted((figures(first, queues=1, requests=1, hosts=2), figures(second, damaged_keys=1),
                         figures(third, locks=0, hosts=0)), key=lambda row: row["node"])
        for master in cluster.masters():
            said = json.loads(rql(cluster, "stats", "--node", "--json", first=master))
            check_equal(said.pop("nodes"), wanted)
        check_equal(said, json.loads(rql(cluster, "stats", "--json")))
        check_equal((said["locks"], said["requests"], said["hosts"], said["damaged_keys"]), (2 * EACH, 1, 2, 1))
        all_of_them, table = rql(cluster, "stats", "--node").split("\n\n")
        check_equal(all_of_them + "\n", rql(cluster, "stats"))
        check_equal([line.split() for line in table.splitlines()],
                    [["NODE", "LOCKS", "QUEUES", "REQUESTS", "HOSTS", "DAMAGED"],
                     *([str(value) for value in row.values()] for row in wanted)])
        lines = rql(cluster, "stats", "--node", "--openmetrics").splitlines()
        samples = [f'rql_node_{what}{{node="{row["node"]}"}} {row[what]}' for row in wanted for what in [*row][1:]]
        check_equal(sorted(line for line in lines if line.startswith("rql_node_")), sorted(samples))
        scene.end()
        third.kill()
        check_equal(run(cluster, "stats", "--node").returncode, 69)


@once
def ping_tells_of_each_master(world, _kind, _names):
    """Its replica is none; one that is down is told of, beside the others."""
    with clustered(world, 3, 1) as cluster:
        shares = {address(master): len(cluster.partitions_of(master)) for master in cluster.masters()}
        said = json.loads(rql(cluster, "ping", "--json"))
        check_equal({node["node"]: node["partitions"] for node in said}, shares)
        check_equal({(node["role"], node["replicas"], node["round_trip_us"] > 0) for node in said},
                    {("master", 1, True)})
        lines = [line.split() for line in rql(cluster, "ping").splitlines()]
        check_equal(lines[0], ["NODE", "ROLE", "SERVER", "VERSION", "ROUND", "TRIP", "PARTITIONS", "REFUSED"])
        check_equal({line[0]: int(line[5]) for line in lines[1:]}, shares)
        victim = cluster.masters()[0]
        victim.kill()
        done = run(cluster, "ping", "--json")
        check_equal((done.returncode, str(victim.port) in done.stderr), (69, True), done.stderr)
        check_equal({node["node"] for node in json.loads(done.stdout)}, {*shares} - {address(victim)})


def examined(cluster, login=""):
    """The checks, by what and whom they are about (the first master: None), that are amiss, and that are well."""
    checks = json.loads(run(cluster, "doctor", "--json", login=login).stdout)["checks"]
    found = {(check["id"], check["found"].get("node")): check for check in checks if check["id"] not in TIMED}
    amiss = {about: check for about, check in found.items() if check["level"] in ("warn", "fail")}
    return amiss, [about for about, check in found.items() if check["level"] == "ok"]


@once
def the_doctor_looks_at_each_master(world, _kind, _names):
    with clustered(world, 3) as cluster:
        first, second, third = cluster.masters()
        amiss, well = examined(cluster)
        check_equal(amiss, {})
        others = {node for name, node in well if node}
        check_equal(len(others), 2)
        for name in ("srv.role", "mem.policy", "acl.rights", "use.lock"):
            check_equal({node for each, node in well if each == name}, {None, *others}, name)
        sick = next(node for node in (first, second, third) if address(node) in others)
        sick.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        check_equal(list(examined(cluster)[0]), [("mem.policy", address(sick))])
        sick.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
        for node in cluster.nodes:
            node.ask("ACL", "SETUSER", "poor", "on", ">pw", "~*", "&*", "+@all")
        check_equal(examined(cluster, "poor:pw@")[0], {})
        sick.ask("ACL", "SETUSER", "poor", "-spublish", "-cluster|slots")
        amiss = examined(cluster, "poor:pw@")[0]
        said = amiss["acl.rights", address(sick)]
        check_equal((said["found"]["missing"], "+ssubscribe" in said["fix"]), ("spublish cluster|slots", True))
        check_equal({node for _, node in amiss}, {address(sick)})
        (name,) = cluster.names_on(sick, 1)
        sick.ask("SET", cluster.key("lock:" + name, name), "no lock")
        said = examined(cluster)[0]
        check_equal((list(said), said["keys.damaged", None]["found"]["damaged"]), ([("keys.damaged", None)], 1))
        sick.kill()
        check_equal(list(examined(cluster)[0]), [("srv.role", address(sick))])


@once
def the_doctor_does_not_report_the_fault_of_one_server_for_another(world, _kind, _names):
    """Nearly all names are of one that refuses them: in its time the doctor hardly finds one of another server."""
    with clustered(world, 3) as cluster:
        first, sick, _ = cluster.masters()
        for master in cluster.masters():
            for partition in sorted(cluster.partitions_of(master))[1:] if master is not sick else ():
                cluster.migrate(PARTITION_SLOTS[partition], sick)
        sick.ask("CONFIG", "SET", "min-replicas-to-write", 1)

        def levels(node, *words):
            """Of use.lock, by the server; and its title."""
            checks = json.loads(run(cluster, "doctor", "--json", *words, first=node).stdout)["checks"]
            return {check["found"].get("node", address(node)): (check["level"], check["title"])
                    for check in checks if check["id"] == "use.lock"}

        check(levels(first, "--quick")[address(first)][0] in ("ok", "skip"), "the first fails")
        found = levels(sick)
        check("fail" == found[address(sick)][0] and "NOREPLICAS" in found[address(sick)][1], str(found))
        check(all(level != "fail" for node, (level, _) in found.items() if node != address(sick)), str(found))
        sick.ask("CONFIG", "SET", "min-replicas-to-write", 0)
        check_equal(levels(sick)[address(sick)][0], "ok")


if __name__ == "__main__":
    main()
