#!/usr/bin/env python3
"""The table of include/rql/deployments.md: may two hold a lock at once, whatever fails? A fleet increments a counter
that is fenced by the lock's token, while servers and processes fail at random. RQL_TEST_LONG: so many minutes of
each."""
import contextlib
import os
import re
import time

from cluster import NODE_TIMEOUT_MS, Cluster
from fenced import NAME, Fleet, Judgement
from harness import main, scenario, wait_until
from partitions import slot_of_lock
from private_server import PrivateServer
from watched import Watched

SECONDS = 60 * float(os.environ.get("RQL_TEST_LONG", 0)) or 1
N_PROCESSES = 3
NEVER, EVERY_S, ALWAYS = ((), ("--appendonly", "yes", "--appendfsync", "everysec"),
                          ("--appendonly", "yes", "--appendfsync", "always"))
LOSS_S = 1            # of `everysec`
PASSWORD = "sesame"
LAG_S = 1
WITH_REPLICAS = ("--min-replicas-to-write", "1", "--min-replicas-max-lag", str(LAG_S))


class Place:
    """Where the lock is, and what goes wrong there; `fleet` is set by who makes it."""
    fleet = None
    most_ttl_ms = pause_ms = 1000

    def __init__(self, world):
        self.random = world.random

    @staticmethod
    def now_us():
        return time.time_ns() // 1000

    @contextlib.contextmanager
    def holder_stands_still(self):
        """Until others have had the lock."""
        with self.fleet.holder().slot.stopped():
            yield
            self.fleet.await_uses(2)

    @contextlib.contextmanager
    def holder_stays(self):
        """Until it is told, if it is."""
        self.fleet.holder()
        yield

    def held(self):
        return self.random.choice((self.holder_stands_still, self.holder_stays))()

    def clients_fail(self):
        if self.random.random() < 0.5:
            self.random.choice(self.fleet.slots).kill()
        else:
            with self.holder_stands_still():
                pass


def end_first_pause(server):
    """As if somebody who wants pauses had been here before."""
    server.ask("SET", "rql:era", re.search(r"run_id:(\w+)", server.ask("INFO", "server")).group(1))


class Alone(Place):
    """One server, which does so much for its data."""

    def __init__(self, world, persistence):
        super().__init__(world)
        self.server = PrivateServer(*persistence, has_clock=True)
        end_first_pause(self.server)
        self.now_us = self.server.now_us
        self.urls = [lambda: self.server.url] * N_PROCESSES

    def end(self):
        self.server.stop()

    def clients_fail(self):
        if self.random.random() < 1 / 3:
            self.server.end_connections()
        else:
            super().clients_fail()

    def start_anew(self):
        with self.held():
            self.server.kill()
            self.server.launch()

    def lose_last_writes(self):
        """As when the power fails: what was not synced is gone."""
        file = f"{self.server.folder}/appendonlydir/appendonly.aof.1.incr.aof"
        size = os.path.getsize(file)
        time.sleep(self.random.uniform(0.1, LOSS_S))
        with self.held():
            self.server.kill()
            os.truncate(file, size)
            self.server.launch()

    def lose_all(self):
        n_told = self.fleet.n_told()
        with self.held():
            self.server.kill()
            self.server.launch()
        wait_until(lambda: self.fleet.n_told() > n_told, "lost writes are told")

    def empty_or_jump(self):
        if self.random.random() < 0.5:
            self.server.ask("FLUSHALL")
        else:
            self.server.set_ahead(self.server.ahead_us + self.random.randrange(1000000, 5000000))


class BySentinels(Place):
    """A master and its replica, which is behind when it dies. A ttl is longer than that takes."""
    most_ttl_ms = pause_ms = 2500

    def __init__(self, world, persistence=(), n_replicas=1, **options):
        super().__init__(world)
        self.watched = Watched(n_replicas=n_replicas, n_sentinels=1, arguments=persistence, **options)
        end_first_pause(self.watched.named())
        self.urls = [self.watched.url] * N_PROCESSES

    def end(self):
        self.watched.stop()

    def start_anew(self):
        self.watched.never_fails_over()
        with self.held():
            self.watched.named().kill()
            self.watched.named().launch()

    def fail_over(self):
        self.watched.await_replicas()
        old, (replica,) = self.watched.named(), self.watched.replicas()
        replica.fall_behind(old)
        with self.held():
            old.kill()
            replica.go_on()
            self.watched.await_next(old)
        old.follow(replica)

    def replace(self):
        """By hand, or while it stands still; it comes back, and believes to be the master until it is told."""
        self.watched.await_replicas()
        old = self.watched.named()
        if self.random.random() < 0.5:
            self.watched.failover()
        else:
            old.freeze()
            self.watched.await_next(old)
            self.fleet.await_uses(2)
            old.go_on()
        self.watched.await_demotion(old)


class Split(BySentinels):
    """A master that is cut off from replicas and sentinels, but not from some clients. If it wants replicas it goes on
    for a second more than they may lag, for it looks once a second."""
    pause_ms = BySentinels.most_ttl_ms + 1000 * (LAG_S + 1)

    def __init__(self, world, persistence=()):
        super().__init__(world, persistence, n_replicas=2, password=PASSWORD)
        self.urls = [lambda: self.watched.url(f":{PASSWORD}@")] * 2 + [self.url_of_master] * 2

    def url_of_master(self):
        return f"redis://:{PASSWORD}@127.0.0.1:{self.watched.named().port}"

    def cut_off(self):
        self.watched.await_replicas()
        old = self.watched.named()
        old.cut_off()
        self.watched.await_next(old)
        self.fleet.await_uses(10)
        old.let_in()
        self.watched.await_demotion(old)
        for slot in self.fleet.slots[2:]:
            slot.kill()


class Clustered(Place):
    """Three masters and their replicas; the lock is at one of them. A ttl is longer than a node that starts waits for."""
    most_ttl_ms = pause_ms = 2500
    slot = slot_of_lock(NAME)

    def __init__(self, world, persistence=()):
        super().__init__(world)
        self.cluster = Cluster(3, 1, persistence)
        self.cluster.end_first_pauses()
        self.urls = [self.cluster.url] * N_PROCESSES

    def end(self):
        self.cluster.stop()

    def owner(self):
        return wait_until(lambda: self.cluster.owner(self.slot), "somebody has the slot")

    def another(self):
        """A master that has other slots."""
        return self.random.choice([node for node in self.cluster.masters() if node is not self.owner()])

    def move(self):
        """Key by key, in as many steps."""
        self.cluster.migrate(self.slot, self.another(), 1)
        self.fleet.await_uses(2)

    def move_for_a_while(self):
        """To a node that comes for it, and goes again."""
        old, new = self.owner(), self.cluster.add()
        self.cluster.migrate(self.slot, new, 1)
        self.fleet.await_uses(2)
        self.cluster.remove(new, old)

    def resign(self):
        """In order: the master waits until its replica has all."""
        old = self.owner()
        with self.held():
            self.cluster.replicas_of(old)[0].ask("CLUSTER", "FAILOVER")
            self.cluster.await_successor(self.slot, old)
            self.cluster.await_settled()

    def fail_over(self):
        """To a replica that is behind."""
        self.cluster.await_replicated()
        old = self.owner()
        (replica,) = self.cluster.replicas_of(old)
        replica.fall_behind(old)
        with self.held():
            old.kill()
            replica.go_on()
            self.cluster.await_successor(self.slot, old)
        self.cluster.bring_back(old)

    def start_anew(self):
        """Before the others miss it."""
        old = self.owner()
        with self.held():
            old.kill()
            self.cluster.bring_back(old)

    def stand_still(self):
        """The same."""
        old = self.owner()
        old.freeze()
        time.sleep(self.random.uniform(0.1, NODE_TIMEOUT_MS / 4000))
        self.cluster.bring_back(old)

    def lose_another(self):
        """What happens to other partitions is nothing to this one."""
        other = self.another()
        slot = self.cluster.slots_of(other)[0]
        other.kill()
        self.cluster.await_successor(slot, other)
        self.cluster.bring_back(other)

    def anything(self):
        """Of all by which nothing is lost."""
        mishap = self.random.choice((self.clients_fail, self.move, self.move_for_a_while, self.resign, self.start_anew,
                                     self.stand_still, self.lose_another))
        mishap()


class ClusteredApart(Clustered):
    """A master that the other nodes cannot hear. It goes on until the node timeout is over."""
    pause_ms = Clustered.most_ttl_ms + NODE_TIMEOUT_MS

    def cut_off(self):
        old = self.owner()
        self.cluster.bus.split([old])
        self.cluster.await_successor(self.slot, old)
        self.fleet.await_uses(2)
        self.cluster.bring_back(old)


def never_two(judgement):
    judgement.check_order()
    judgement.check_none()


def two_are_told(judgement):
    judgement.check_order()
    judgement.check_seen()


def two_may_be(judgement):
    judgement.check_order()


def two_servers(_judgement):
    """Of each the tokens rise."""


ROWS = (
    # what fails, where, what is kept there, by what, with a pause? may two hold it?
    ("clients fail", Alone, ALWAYS, "clients_fail", False, never_two),
    ("a server keeps its data", Alone, ALWAYS, "start_anew", False, never_two),
    ("a server loses its last writes", Alone, EVERY_S, "lose_last_writes", False, two_are_told),
    ("a server loses its last writes", Alone, EVERY_S, "lose_last_writes", True, never_two),
    ("a server loses everything", Alone, NEVER, "lose_all", False, two_are_told),
    ("a server loses everything", Alone, NEVER, "lose_all", True, never_two),
    ("a server is emptied, or its clock jumps", Alone, NEVER, "empty_or_jump", False, two_may_be),
    ("a master keeps its data", BySentinels, ALWAYS, "start_anew", False, never_two),
    ("a master loses everything", BySentinels, NEVER, "start_anew", False, two_are_told),
    ("a master loses everything", BySentinels, NEVER, "start_anew", True, never_two),
    ("a master dies", BySentinels, NEVER, "fail_over", False, two_are_told),
    ("a master dies", BySentinels, NEVER, "fail_over", True, never_two),
    ("a master is replaced", BySentinels, NEVER, "replace", False, two_are_told),
    ("a master is cut off", Split, NEVER, "cut_off", False, two_servers),
    ("a master is cut off", Split, WITH_REPLICAS, "cut_off", True, never_two),
    ("a slot moves", Clustered, NEVER, "move", False, never_two),
    ("a node of a cluster resigns", Clustered, NEVER, "resign", False, never_two),
    ("a node of a cluster loses everything", Clustered, NEVER, "start_anew", True, never_two),
    ("a node of a cluster dies", Clustered, NEVER, "fail_over", False, two_are_told),
    ("a node of a cluster dies", Clustered, NEVER, "fail_over", True, never_two),
    ("a node of a cluster is cut off", ClusteredApart, NEVER, "cut_off", True, never_two),
    ("a cluster keeps its data", Clustered, ALWAYS, "anything", False, never_two),
)
# A pause, where none is needed. What it does there is tested in test_eras.py and test_cluster_eras.py, too.
WITH_PAUSE = tuple((*row[:4], True, never_two) for row in ROWS
                   if row[0] in ("a server keeps its data", "a slot moves", "a node of a cluster resigns",
                                 "a cluster keeps its data"))


def row(what, where, persistence, mishap, has_pause, verdict):
    def case(world, _kind, _names):
        place = where(world, persistence)
        try:
            # Where a lock that was lost is handed on inside a client the next one is told, and not who had it.
            kinds = ("thread", "loop") if verdict is never_two else ("thread",)
            place.fleet = Fleet(world, place.urls, place.now_us, place.most_ttl_ms, kinds,
                                recovery_delay_ms=place.pause_ms if has_pause else 0)
            n_strikes = place.fleet.run(getattr(place, mishap), SECONDS)
            judgement = Judgement(place.fleet)
            print(f"# {case.title}: {n_strikes} times, {judgement}", flush=True)
            judgement.check_fence()
            verdict(judgement)
        finally:
            place.end()
    case.title = f"{what}{', with a pause' if has_pause else ''}: {verdict.__name__.replace('_', ' ')}"
    return case


for one in ROWS + (WITH_PAUSE if "RQL_TEST_LONG" in os.environ else ()):
    scenario(kinds=["thread"], counts=[1])(row(*one))


if __name__ == "__main__":
    main()
