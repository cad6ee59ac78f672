#!/usr/bin/env python3
"""Places in the queue: put back when somebody empties it, moved to the tail by queue_ttl; the watch behind a Ruby, who
tells nobody that a lock is free; and the first wait of a client."""
import re

from harness import FOREVER, MINUTE_MS, Network, check, check_equal, check_served_in_order, main, scenario, wait_until
from pushes import Monitor, line_up, wait_told
from sweeps import RUBY, hold_as

LONG_MS = 60000
OFTEN = {"timeout_ms": FOREVER, "retry_delay_ms": 50, "retry_jitter_ms": 0}


def places(world, name):
    """Members and scores, in order."""
    return world.ask("ZRANGE", f"rql:lock_queue:{name}", 0, -1, "WITHSCORES")


def wait_in_turn(world, kinds, names, **options):
    return line_up(world, [world.actor(kind) for kind in kinds], *names, **{**OFTEN, "queue_ttl_ms": FOREVER, **options})


@scenario()
def waiters_of_an_emptied_queue_come_back_with_their_scores(world, kind, names):
    held = world.actor("thread").acquire(*names, ttl_ms=LONG_MS)
    asked = wait_in_turn(world, [kind, "thread"] * 3, names)
    before = [places(world, name) for name in names]
    for name in names:
        world.ask("ZREMRANGEBYSCORE", f"rql:lock_queue:{name}", "-inf", "+inf")
    world.await_queue(names, 6)
    check_equal([places(world, name) for name in names], before)
    check_served_in_order(asked, held)
    world.await_nothing_left()


@scenario()
def a_waiter_survives_that_everything_is_deleted(world, kind, names):
    """As by the gem's unlock, and by FLUSHALL."""
    actor, other = world.actor(kind), world.actor("thread")
    for parts in (["lock", "lock_queue"], ["lock", "lock_queue", "req"], None):
        held = other.acquire(*names, ttl_ms=LONG_MS)
        asking = actor.ask(*names, **OFTEN)
        world.await_queue(names, 1)
        if parts:
            world.ask("DEL", "rql:live", *[f"rql:{part}:{name}" for part in parts for name in names])
        else:
            world.ask("FLUSHALL")
        mine = asking.hold()
        check_equal(held.release().status, "NOT_HELD")
        mine.release().check()
        world.await_nothing_left()


@scenario()
def queue_ttl_forever_keeps_the_place(world, kind, names):
    held = world.actor("thread").acquire(*names, ttl_ms=LONG_MS)
    asked = wait_in_turn(world, [kind, "thread"], names)
    before, begun = places(world, names[0]), world.n_scripts()
    wait_until(lambda: world.n_scripts() >= begun + 8, "they have asked often enough to have moved")
    check_equal(places(world, names[0]), before)
    check_served_in_order(asked, held)
    world.await_nothing_left()


@scenario()
def an_old_request_still_takes_a_free_lock(world, kind, names):
    """At queue_ttl a grant is tried first: the turn is not lost to the very moment."""
    held = world.actor("thread").acquire(*names, ttl_ms=LONG_MS)
    [asking] = wait_in_turn(world, [kind], names, queue_ttl_ms=1)
    world.ask("DEL", *[f"rql:lock:{name}" for name in names])
    asking.hold().release().check()
    check_equal(held.release().status, "NOT_HELD")
    world.await_nothing_left()


@scenario(counts=[1])
def a_queue_of_five_is_no_list_any_more(world, kind, names):
    """Redis walks a list for each newcomer: a fifth waiter makes it a tree. Nothing else changes."""
    held = world.actor("thread").acquire(*names, ttl_ms=LONG_MS)
    asked = []
    for count in range(1, 7):
        asked.append(world.actor(kind).ask(*names, **OFTEN))
        world.await_queue(names, count)
        check_equal(world.ask("OBJECT", "ENCODING", f"rql:lock_queue:{names[0]}"),
                    "listpack" if count < 5 else "skiplist")
        check_equal(world.ask("HLEN", f"rql:req:{names[0]}"), count)
    check(world.ask("PTTL", f"rql:lock_queue:{names[0]}") > 0, "it would never end")
    check_served_in_order(asked, held)
    world.await_nothing_left()


# ---- behind a Ruby ----

def who_is_told(world):
    """The connection that the server notifies of changes; 0: none that is there."""
    rows = world.ask("CLIENT", "LIST")
    there = set(re.findall(r"^id=(\d+) ", rows, re.MULTILINE))
    return max((int(told) for told in re.findall(r" redir=(\d+)", rows) if told in there), default=0)


@scenario(counts=[1], in_cluster=False)
def each_new_subscriber_is_told_of_a_rubys_lock(world, kind, names):
    hold_as(world, RUBY, names[0])
    asking = world.actor(kind).ask(*names, timeout_ms=FOREVER, retry_delay_ms=3600000)
    before = 0
    for _ in range(3):
        wait_until(lambda before=before: who_is_told(world) > before, "the new one is told")
        before = who_is_told(world)
        world.ask("CLIENT", "KILL", "TYPE", "pubsub")
    world.ask("DEL", f"rql:lock:{names[0]}")
    asking.hold().release().check()
    world.await_nothing_left()


# ---- the first wait of a client: it is in the queue only when it can be told of a hand-over ----

HOLD_BACK_S = 0.19  # a little less than it is, for it ends by the client's clock


def number_of(lines, pattern):
    """Of the first that has it; behind all others if there is none."""
    return next((number for number, line in enumerate(lines) if re.search(pattern, line)), len(lines))


def asks_for(name):
    return rf'"EVAL(SHA)?" .*"rql:[^"]*lock:{name}"'


def enters(name):
    """Its record is written first."""
    return rf' lua\] "HSET" "rql:[^"]*req:{name}"'


@scenario()
def who_waits_for_the_first_time_listens_before_it_is_in_the_queue(world, kind, names):
    """Or a hand-over would remove it like a dead one. It waits for that for 200 ms, which a busy machine may need."""
    held, monitor = world.held_by_another(*names), Monitor(world)
    asking = world.actor(kind).ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    lines = monitor.lines()
    asked, entered = number_of(lines, asks_for(names[0])), number_of(lines, enters(names[0]))
    check(asked < entered < len(lines), "it is in the queue, and has not asked")
    if number_of(lines, '"S?SUBSCRIBE" "rql:[^"]*wake:') > entered:
        passed_s = float(lines[entered].split()[0]) - float(lines[asked].split()[0])
        check(passed_s > HOLD_BACK_S, f"it is in the queue after {passed_s} s, and does not listen")
    held.release().check()
    asking.hold().release().check()
    world.await_nothing_left()


@scenario()
def a_client_that_listens_enters_the_queue_with_its_first_question(world, kind, names):
    actor, held = world.actor(kind), world.held_by_another("other")
    listening = wait_told(world, actor, "other")
    held.release().check()
    listening.hold().release().check()
    actor.settle(*names)
    held, monitor = world.held_by_another(*names), Monitor(world)
    asking = actor.ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    lines = monitor.lines()
    before = lines[:number_of(lines, enters(names[0]))]
    check_equal(sum(bool(re.search(asks_for(names[0]), line)) for line in before), 1)
    held.release().check()
    asking.hold().release().check()


@scenario(counts=[1])
def who_was_passed_over_is_back_when_its_client_listens_for_the_first_time(world, kind, names):
    """Also one that leaves the asking to another, who has kept its place and so learns of nothing."""
    [name] = names
    network, held = Network(world), world.held_by_another(name)
    client = network.client(retry_delay_ms=60 * MINUTE_MS)
    actors = [world.actor(kind, client) for _ in range(2 if kind == "thread" else 1)]
    actors[0].settle("other")
    network.fail("refuse")
    asked, members = [], []
    for count in range(2):
        asked.append(actors[count % len(actors)].ask(name, timeout_ms=FOREVER))
        world.await_queue(names, count + 1)
        members = world.ask("ZRANGE", f"rql:lock_queue:{name}", 0, -1)
    between = wait_told(world, world.actor("thread"), name, place=3)
    tail_s = float(world.ask("ZRANGE", f"rql:lock_queue:{name}", -1, -1, "WITHSCORES")[1])
    world.ask("ZADD", f"rql:lock_queue:{name}", tail_s + 0.001, members[0])
    held.release().check()
    held = between.hold()
    check_equal(world.ask("ZRANGE", f"rql:lock_queue:{name}", 0, -1), members[:1])
    network.heal()
    wait_until(lambda: world.ask("ZRANGE", f"rql:lock_queue:{name}", 0, -1) == members[::-1], "both wait again")
    check_served_in_order(asked[::-1], held)
    world.await_nothing_left()


if __name__ == "__main__":
    main()
