#!/usr/bin/env python3
"""Clusters with recovery_delay_ms: nobody gets what another still relies on, whatever a node loses and wherever slots
have moved; and a slot that has only moved keeps nobody waiting."""
import contextlib
import time

from cluster import clustered
from harness import FOREVER, KINDS, as_they_end, check, check_equal, check_served_in_order, main, scenario, wait_until
from partitions import prefix_of, slot_of_lock
from pushes import line_up

PAUSE_MS, SHORT_MS, RENEWED_MS = 6000, 1000, 5000
EARLY_MS = 50      # by so much two clocks, and two roundings, may differ
SIX = (3, 1)
NAME = "moving"
IN_PAUSE = {"timeout_ms": FOREVER, "ttl_ms": SHORT_MS}


def actor(world, kind, url, **options):
    return world.actor(kind, world.client(events=True, url=url, recovery_delay_ms=PAUSE_MS, **options))


def holder_apart(world, url):
    """One that can stand still."""
    remote = world.remote()
    return remote, world.actor("thread", world.client(remote, url=url, recovery_delay_ms=PAUSE_MS))


@contextlib.contextmanager
def paused(world, *numbers):
    """A cluster behind its first pause: that of one never used so."""
    with clustered(world, *numbers) as cluster:
        cluster.end_first_pauses()
        yield cluster


def settled(world, kind, url, *names):
    """An actor that has used these."""
    made = actor(world, kind, url)
    for name in names:
        check_at_once(made, name)
    return made


def now_us():
    return time.time_ns() // 1000


def fence(cluster, name):
    return cluster.owner_of(name).ask("GET", prefix_of(name) + "fence") or ""


def check_waits_for_pause(actors, name, held, began_us):
    """All who ask, and are served one after the other."""
    for asking in as_they_end([one.ask(name, **IN_PAUSE) for one in actors]):
        mine = asking.hold()
        check(mine.outcome.ts_us >= began_us + (PAUSE_MS - EARLY_MS) * 1000, "it was served in the pause")
        check(mine.tokens[0] > held.tokens[0], "the token does not rise")
        mine.release().check()


def check_at_once(one, name):
    """It is free, and there is no pause."""
    one.acquire(name, fail_fast=True, ttl_ms=SHORT_MS).release().check()


def dies(cluster, old, replica):
    old.kill()
    replica.go_on()
    cluster.await_successor(SLOT, old)


def starts_empty(cluster, old, replica):
    old.kill()
    old.launch()
    replica.go_on()
    wait_until(old.is_well, "it is back")


def is_taken_over(cluster, old, replica):
    """It has slept, and its connections stand all the time."""
    old.freeze()
    replica.go_on()
    replica.ask("CLUSTER", "FAILOVER", "TAKEOVER")
    cluster.await_successor(SLOT, old)
    old.come_back()
    wait_until(lambda: not old.is_master(), "it follows")


SLOT = slot_of_lock(NAME)
STRIKES = {"dies": dies, "starts empty": starts_empty, "is taken over": is_taken_over}


def of_a_master_that(words, strike):
    """The replica is behind, and the clients' connections to it, which they read the map by, stand all the time. The
    holder has never heard of it, for its process stands still."""
    def case(world, kind, _names):
        with paused(world, *SIX) as cluster:
            old = cluster.owner_of(NAME)
            (replica,) = cluster.replicas_of(old)
            url = cluster.url(replica)
            one = settled(world, kind, url, NAME)
            remote, holder = holder_apart(world, url)
            holder.acquire(NAME, ttl_ms=SHORT_MS).release().check()
            cluster.await_replicated()
            replica.fall_behind(old)
            held = holder.acquire(NAME, ttl_ms=PAUSE_MS, auto_extend=True)
            remote.stop()
            began_us = now_us()
            strike(cluster, old, replica)
            check_waits_for_pause([one, actor(world, kind, cluster.url())], NAME, held, began_us)
            remote.go_on()
            wait_until(lambda: held.state() == "GONE", "the loss is told")
            check_equal(held.release().status, "NOT_HELD")
            world.await_nothing_left()
    case.__name__ = f"nobody gets a lost lock while its holder relies on it and a master {words}"
    return case


# Each by one kind: a run takes its time already.
for number, (fault, do) in enumerate(STRIKES.items()):
    scenario(kinds=[KINDS[number % 2]], counts=[1])(of_a_master_that(fault, do))


@scenario(counts=[1])
def a_holder_keeps_its_lock_and_waiters_their_places_where_a_master_resigns(world, kind, _names):
    """Nothing is lost, which nobody can know: who waits does so until the pause is over."""
    with paused(world, *SIX) as cluster:
        url, old = cluster.url(), cluster.owner_of(NAME)
        one = settled(world, kind, url, NAME)
        held = one.acquire(NAME, ttl_ms=RENEWED_MS, auto_extend=True)
        asked = line_up(world, [actor(world, kind, url) for _ in range(3)], NAME, ttl_ms=SHORT_MS)
        cluster.await_replicated()
        began_us = now_us()
        cluster.replicas_of(old)[0].ask("CLUSTER", "FAILOVER")
        cluster.await_successor(SLOT, old)
        wait_until(lambda: fence(cluster, NAME).startswith("q "), "the pause has begun")
        wait_until(lambda: held.state() == "HELD", "it is verified")
        check_served_in_order(asked, held)
        check(now_us() >= began_us + (PAUSE_MS - EARLY_MS) * 1000, "they were served in the pause")
        check_equal(held.losses(), [])
        world.await_nothing_left()


@scenario(counts=[1])
def a_slot_that_moves_with_its_data_keeps_nobody_waiting(world, kind, _names):
    """To a node that clients are connected with, to one that is new, and back, which leaves that with nothing: those that
    were there before, and those that come first of all. What is held stands."""
    with paused(world, 3) as cluster:
        url, home = cluster.url(), cluster.owner_of(NAME)
        mine = "{" + NAME + "} mine"
        elsewhere = [cluster.names_on(master, 1)[0] for master in cluster.masters() if master is not home]
        one = settled(world, kind, url, NAME, *elsewhere)
        held = one.acquire(mine, ttl_ms=RENEWED_MS, auto_extend=True)
        for to in cluster.other_master(home), cluster.add(), home:
            cluster.migrate(SLOT, to)
            comers = [actor(world, kind, where) for where in (url, cluster.url(to))]
            for each in [one, *comers] if to is home else [*comers, one]:
                check_at_once(each, NAME)
            wait_until(lambda: held.state() == "HELD", "it is verified")
            check_equal((held.losses(), fence(cluster, NAME)[:2] == "q "), ([], False))
        held.release().check()
        world.await_nothing_left()


@scenario(counts=[1])
def what_is_lost_behind_a_move_is_not_granted_in_the_pause(world, kind, _names):
    """The connections of all clients to that node have stood since before the slot came to it."""
    with paused(world, *SIX) as cluster:
        url, home = cluster.url(), cluster.owner_of(NAME)
        to = cluster.other_master(home)
        (replica,) = cluster.replicas_of(to)
        (beside,) = cluster.names_on(to, 1)
        one = settled(world, kind, url, NAME, beside)
        remote, holder = holder_apart(world, url)
        holder.acquire(beside, ttl_ms=SHORT_MS).release().check()
        cluster.migrate(SLOT, to)
        check_at_once(one, NAME)
        check_at_once(holder, NAME)
        cluster.await_replicated()
        replica.fall_behind(to)
        held = holder.acquire(NAME, ttl_ms=PAUSE_MS)
        remote.stop()
        began_us = now_us()
        dies(cluster, to, replica)
        check_waits_for_pause([one, actor(world, kind, url)], NAME, held, began_us)
        remote.go_on()
        check_equal(held.release().status, "NOT_HELD")
        world.await_nothing_left()


def in_the_midst_of_a_move(who):
    """A node starts anew, empty: nothing can be said to it of a slot that it is to give away, and keeps in the end."""
    def case(world, kind, _names):
        with paused(world, 2) as cluster:
            home = cluster.owner_of(NAME)
            to, url = cluster.other_master(home), cluster.url(home)
            one = settled(world, kind, url, NAME)
            remote, holder = holder_apart(world, url)
            held = holder.acquire(NAME, ttl_ms=PAUSE_MS)
            remote.stop()
            cluster.begin_to_migrate(SLOT, to)
            if who == "comes":
                one = None
            home.kill()
            home.launch()
            began_us = now_us()
            one = one or actor(world, kind, url)
            asking = one.ask(NAME, **IN_PAUSE)
            home.await_error("ASK")
            for node in home, to:
                node.ask("CLUSTER", "SETSLOT", SLOT, "STABLE")
            mine = asking.hold()
            check(mine.outcome.ts_us >= began_us + (PAUSE_MS - EARLY_MS) * 1000, "it was served in the pause")
            mine.release().check()
            remote.go_on()
            check_equal(held.release().status, "NOT_HELD")
            world.await_nothing_left()
    case.__name__ = f"who {who} tells a node of a slot that it has kept after all"
    return case


for word in "stays", "comes":
    scenario(counts=[1])(in_the_midst_of_a_move(word))


if __name__ == "__main__":
    main(at_once=3, is_for_each_server=False)
