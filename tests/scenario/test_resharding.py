#!/usr/bin/env python3
"""Slots that move from one master of a cluster to another while locks in them are held, waited for and handed over."""
import os
import time

from cluster import PARTITION_SLOTS, clustered
from crowd import Crowd
from harness import FOREVER, MINUTE_MS, SLOW, check, check_equal, check_served_in_order, main, scenario, wait_until
from partitions import slot_of_lock
from pushes import line_up

SECONDS, N_USERS = (60, 32) if "RQL_TEST_LONG" in os.environ else (2, 8)
PAUSE_S = 0.1      # between two moves
KEY_PAUSE_S = 0.002
GAP_MS = 100       # beside the move itself
TOLD_MS = 500 * SLOW
LONG_MS = 1000 * SECONDS + MINUTE_MS
HELD = {"ttl_ms": LONG_MS}
PATIENT = {"timeout_ms": FOREVER, "queue_ttl_ms": LONG_MS}
RENEWED_MS = 3000
NAME = "moving"
OTHERS = [f"{{{NAME}}} {i}" for i in range(50)]  # of its partition


def crowd_of(world, kind, url, name, n_users=N_USERS):
    """Half of them by a client of their own."""
    clients = [world.client(url=url) for _ in range(2)]
    return Crowd([world.actor(kind, clients[i % 2]) for i in range(n_users)], name)


@scenario(counts=[1], is_timed=True)
def a_slot_that_moves_to_and_fro_costs_nobody_his_lock(world, kind, _names):
    """No call fails, nobody loses his place, no two have it at once, and it stands still for no longer than the move.
    Others do not wait for it. RQL_TEST_LONG: 32 of them, for a minute."""
    with clustered(world, 3) as cluster:
        slot, home = slot_of_lock(NAME), cluster.owner_of(NAME)
        url = cluster.url()
        one = world.actor(kind, url=url)
        keeping = [one.acquire(name, ttl_ms=RENEWED_MS, auto_extend=True) for name in OTHERS]
        held = one.acquire(OTHERS[0] + " held", **HELD)
        lined_up = line_up(world, [world.actor(kind, url=url) for _ in range(4)], OTHERS[0] + " held", **PATIENT)
        crowd = crowd_of(world, kind, url, NAME)
        beside = crowd_of(world, kind, url, cluster.names_on(cluster.other_master(home), 1)[0], n_users=2)
        figures, over = [], time.monotonic() + SECONDS
        while time.monotonic() < over and not crowd.have_failed():
            to = home if cluster.owner(slot) is not home else cluster.other_master(home)
            for each in crowd, beside:
                each.restart()
            kept_ms = world.kept_ms()
            took_s = cluster.migrate(slot, to, count=1, pause_s=KEY_PAUSE_S)
            crowd.await_uses(2 * len(crowd))
            time.sleep(PAUSE_S)
            figures.append((1000 * took_s, 1000 * crowd.restart(), 1000 * beside.restart(),
                            world.kept_ms() - kept_ms))
        for each in crowd, beside:
            each.end()
        check_served_in_order(lined_up, held)
        for kept in keeping:
            wait_until(lambda kept=kept: kept.state() == "HELD", "it is verified")  # where it has come to
            check_equal(kept.losses(), [])
            kept.release().check()
        world.await_nothing_left()
        moves, gaps, gaps_beside, _ = zip(*figures)
        print(f"# {len(figures)} moves of at most {max(moves):.0f} ms, {crowd.n_uses} uses with gaps of at most "
              f"{max(gaps):.0f} ms, others' {max(gaps_beside):.0f} ms", flush=True)
        late = [figure for figure in figures if figure[1] > figure[0] + GAP_MS * SLOW + figure[3]
                or figure[2] > GAP_MS * SLOW + figure[3]]
        check_equal(late, [], "move, gap, gap of others, kept from running; in ms")


@scenario(counts=[1])
def shares_go_with_their_slot(world, kind, _names):
    """Those that are renewed, and those of users that come and go, beside one that wants the lock alone."""
    permit = {"share_units": 1, "share_limit": 3}
    with clustered(world, 2) as cluster:
        url = cluster.url()
        keeping = [world.actor(kind, url=url).acquire(OTHERS[0], ttl_ms=RENEWED_MS, auto_extend=True, **permit)
                   for _ in range(3)]
        asking = world.actor(kind, url=url).ask(OTHERS[0], **permit, **PATIENT)
        users = [world.actor(kind, url=url) for _ in range(6)]
        crowd = Crowd(users, NAME, choose=lambda user: ((NAME,), {} if user is users[0] else permit))
        for _ in range(4):
            cluster.migrate(slot_of_lock(NAME), cluster.other_master(cluster.owner_of(NAME)), count=1, pause_s=KEY_PAUSE_S)
            crowd.await_uses(2 * len(crowd))
        crowd.end()
        for kept in keeping:
            wait_until(lambda kept=kept: kept.state() == "HELD", "it is verified")
            check_equal(kept.losses(), [])
        check(not asking.is_over(), "a fourth has one of three permits")
        for kept in keeping:
            kept.release().check()
        asking.hold().release().check()
        world.await_nothing_left()


@scenario(counts=[1], is_timed=True)
def who_waits_is_told_at_the_new_place(world, kind, _names):
    """The slot moves with an empty hand: nobody asks while it does. The old node tells that it has moved: by their polls
    they would find out within 1.7 s."""
    with clustered(world, 2) as cluster:
        url = cluster.url()
        held = world.actor(kind, url=url).acquire(NAME, **HELD)
        asked = line_up(world, [world.actor(kind, url=url) for _ in range(3)], NAME, **PATIENT)
        to = cluster.other_master(cluster.owner_of(NAME))
        cluster.migrate(slot_of_lock(NAME), to)
        moved_s, kept_ms = time.monotonic(), world.kept_ms()
        wait_until(lambda: len(to.ask("PUBSUB", "SHARDCHANNELS")) == len(asked), "they listen there")
        told_ms = 1000 * (time.monotonic() - moved_s) - (world.kept_ms() - kept_ms)
        check(told_ms < TOLD_MS, f"they listened there after {told_ms:.0f} ms")
        check_served_in_order(asked, held)
        world.await_nothing_left()


@scenario(counts=[1])
def a_call_in_the_middle_of_a_move_waits_for_its_end(world, kind, _names):
    """Where some keys have left (TRYAGAIN), and where all have (ASK): nothing runs at either, and all goes on then."""
    with clustered(world, 2) as cluster:
        url, slot = cluster.url(), slot_of_lock(NAME)
        one, two, other = (world.actor(kind, url=url, io_timeout_ms=MINUTE_MS) for _ in range(3))
        held = one.acquire(NAME, **HELD)
        kept = two.acquire(OTHERS[0], **HELD)
        home = cluster.owner_of(NAME)
        to = cluster.other_master(home)
        cluster.begin_to_migrate(slot, to)
        cluster.migrate_keys(slot, home, to, 1)
        asking = other.ask(NAME, **PATIENT)
        releasing = held.begin("release")
        home.await_error("TRYAGAIN")
        extending = kept.begin("extend", ttl_ms=2 * LONG_MS)  # it is sent once
        while cluster.migrate_keys(slot, home, to):
            pass
        home.await_error("ASK")
        check_equal((asking.is_over(), releasing.is_over(), extending.is_over()), (False,) * 3)
        cluster.end_to_migrate(slot, home, to)
        releasing.outcome().check()
        extending.outcome().check()
        asking.hold().release().check()
        kept.release().check()
        world.await_nothing_left()


@scenario(kinds=["loop"], counts=[1])
def a_node_is_added_and_one_is_removed_while_locks_are_used(world, kind, _names):
    """All partitions of one master move to the new one, and to another when that goes."""
    with clustered(world, 3) as cluster:
        url = cluster.url()
        giving, taking, _ = cluster.masters()
        names = [name for master in cluster.masters() for name in cluster.names_on(master, 2)]
        stale = world.actor(kind, url=url)
        held = [stale.acquire(name + " held", **HELD) for name in names]
        crowds = [crowd_of(world, kind, url, name, n_users=2) for name in names]
        added = cluster.add()
        for partition in cluster.partitions_of(giving):
            cluster.migrate(PARTITION_SLOTS[partition], added)
        for crowd in crowds:
            crowd.await_uses(2 * len(crowd))
        check(added.n_scripts() > 0, "nobody asks the new one")
        cluster.remove(added, taking)
        for crowd in crowds:
            crowd.await_uses(2 * len(crowd))
            crowd.end()
        for one in held:
            check_equal((one.state(), one.losses()), ("HELD", []))
            one.release().check()
        world.await_nothing_left()


@scenario(counts=[1])
def all_locks_of_a_series_go_with_their_slot(world, kind, _names):
    """They are more than one call is sent on for."""
    with clustered(world, 2) as cluster:
        held = world.actor(kind, url=cluster.url()).acquire(*OTHERS[:12], **HELD)
        ends = [lambda: held.extend(2 * LONG_MS)] if kind == "thread" else []
        for call in (*ends, held.release):
            cluster.migrate(slot_of_lock(NAME), cluster.other_master(cluster.owner_of(NAME)))
            call().check()
        world.await_nothing_left()


@scenario(counts=[1], kinds=["thread"])
def a_renewal_follows_its_lock(world, kind, _names):
    """Nobody asks for anything else meanwhile, nor reads the map."""
    with clustered(world, 2) as cluster:
        client = world.client(url=cluster.url(), topology_refresh_ms=MINUTE_MS)
        held = world.actor(kind, client).acquire(NAME, ttl_ms=RENEWED_MS // 2, auto_extend=True)
        cluster.migrate(slot_of_lock(NAME), cluster.other_master(cluster.owner_of(NAME)))
        goal = client.stats().renewals + 6
        wait_until(lambda: client.stats().renewals >= goal, "it is renewed there")
        check_equal((held.state(), held.losses()), ("HELD", []))
        held.release().check()


@scenario(counts=[1], kinds=["thread"])
def a_lazy_release_goes_after_its_lock(world, kind, _names):
    """The old place answers MOVED, for which nobody waits."""
    with clustered(world, 2) as cluster:
        held = world.actor(kind, url=cluster.url()).acquire(NAME, lazy_release=True, **HELD)
        home = cluster.owner_of(NAME)
        cluster.migrate(slot_of_lock(NAME), cluster.other_master(home))
        held.release().check()
        world.await_nothing_left()
        home.await_error("MOVED")
        world.free(held.actor.client)  # all is told by then
        check_equal(held.losses(), [])


if __name__ == "__main__":
    main(at_once=2, is_for_each_server=False)
