#!/usr/bin/env python3
"""The first wait of a client: it is in the queue only when it can be told of a hand-over."""
import re

from harness import FOREVER, MINUTE_MS, Network, check, check_equal, check_served_in_order, main, scenario, wait_until
from others import KINDS as OTHERS
from pushes import Monitor, wait_told

HOLD_BACK_S = 0.19  # a little less than it is, for it ends by the client's clock


def number_of(lines, pattern):
    """Of the first that has it; behind all others if there is none."""
    return next((number for number, line in enumerate(lines) if re.search(pattern, line)), len(lines))


def asks_for(name):
    return rf'"EVAL(SHA)?" .*"rql:[^"]*lock:{name}"'


def enters(name):
    """Its record is written first."""
    return rf' lua\] "HSET" "rql:[^"]*req:{name}"'


@scenario(kinds=["thread", "loop", "process"] + [kind for kind in OTHERS if kind == "program"])
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


@scenario(kinds=["thread", "loop"])
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


@scenario(kinds=["thread", "loop"], counts=[1])
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
