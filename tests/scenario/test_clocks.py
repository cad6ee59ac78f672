#!/usr/bin/env python3
"""Clocks that are wrong or set, of servers and clients, and machines that were suspended."""
import time

import others  # noqa: F401  the gem is one of the actors
from chain import Chain
from harness import FOREVER, MINUTE_MS, check, check_equal, check_served_in_order, let_pass, main, scenario, wait_until
from private_server import STANDS_STILL

HOUR_US = 3600 * 1000000


def actor_with_clock(world, kind, suspends=False, **options):
    remote, clock = world.remote_with_clock(suspends)
    return world.actor(kind, world.client(remote, **options)), clock


@scenario()
def a_machine_that_was_suspended_knows_whether_its_leases_are_over(world, kind, names):
    actor, clock = actor_with_clock(world, kind, suspends=True)
    held = actor.acquire(*names, ttl_ms=2 * MINUTE_MS)
    for one in (clock, world.server):
        one.set_ahead(MINUTE_MS * 1000)
    check_equal(held.state(), "HELD")
    check_equal([world.holder(name) for name in names], [held.outcome.acq_id] * len(names))
    clock.set_ahead(3 * MINUTE_MS * 1000)
    check_equal(held.state(), "GONE")
    world.server.set_ahead(3 * MINUTE_MS * 1000)
    other = world.actor("thread").acquire(*names, ttl_ms=MINUTE_MS)
    check_equal(held.release().status, "NOT_HELD")
    check(other.tokens[0] > held.tokens[0], "tokens fall")
    other.release().check()


@scenario()
def what_a_client_is_called_is_said_again_after_twenty_minutes(world, kind, names):
    """By a renewal, and by who waits and puts its subscription to the test; in a cluster by whoever reads its map."""
    holder, of_holder = actor_with_clock(world, kind, suspends=True, topology_refresh_ms=1000)
    held = holder.acquire(*names, ttl_ms=HOUR_US // 1000, auto_extend=True)
    waiter, of_waiter = actor_with_clock(world, kind, suspends=True, retry_delay_ms=100, topology_refresh_ms=1000)
    asking = waiter.ask(*names, timeout_ms=FOREVER, ttl_ms=HOUR_US // 1000)
    world.await_queue(names, 1)
    check_equal(world.ask("HLEN", "rql:clients"), 2)
    world.ask("DEL", "rql:clients")
    for clock in (of_holder, of_waiter, world.server):
        clock.set_ahead(21 * 60 * 1000000)
    wait_until(lambda: world.ask("HLEN", "rql:clients") == 2, "both say it again")
    held.release().check()
    asking.hold().release().check()


@scenario(is_timed=True)
def a_waiter_that_was_suspended_beyond_its_deadline_gives_up(world, kind, names):
    held = world.actor("thread").acquire(*names, ttl_ms=10 * MINUTE_MS)
    actor, clock = actor_with_clock(world, kind, suspends=True, retry_delay_ms=100)
    asking = actor.ask(*names, timeout_ms=MINUTE_MS)
    world.await_queue(names, 1)
    clock.set_ahead(2 * MINUTE_MS * 1000)
    check_equal(asking.outcome().status, "TIMED_OUT")
    world.await_queue(names, 0)
    held.release().check()
    world.await_nothing_left()


@scenario(is_timed=True, by_tls=False)  # by which no certificate is valid
def a_wrong_wall_clock_changes_nothing(world, kind, names):
    """An hour ahead and an hour behind: order, tokens and renewals are of the server's time."""
    held = world.actor("thread").acquire(*names, ttl_ms=MINUTE_MS)
    asked = []
    for count, ahead_us in enumerate((HOUR_US, -HOUR_US, 0), 1):
        actor, clock = actor_with_clock(world, kind)
        clock.set_ahead(ahead_us)
        asked.append(actor.ask(*names, timeout_ms=FOREVER, ttl_ms=400, auto_extend=True))
        world.await_queue(names, count)
    for i, asking in enumerate(asked):
        token = held.tokens[0]
        held.release().check()
        held = asking.hold()
        check(held.tokens[0] > token, "tokens fall")
        check(not any(later.is_over() for later in asked[i + 1:]), "a later one came first")
        end_us = world.server.now_us() + 600000
        wait_until(lambda: world.server.now_us() > end_us, "its ttl passes")
        check_equal(held.state(), "HELD")
    held.release().check()
    world.await_nothing_left()


@scenario()
def a_servers_clock_set_forward_makes_holders_ask(world, kind, names):
    """The lock has ended there; its holder would rely on it for a minute. Any answer tells."""
    for also in (["y"], ["y", "z"]):
        actor = world.actor(kind)
        held = actor.acquire(*names, ttl_ms=MINUTE_MS)
        world.server.set_ahead(world.server.ahead_us + HOUR_US)
        check_equal(world.holder(names[0]), None)
        actor.acquire(*also).release().check()
        check(held.state() != "HELD", "it goes on as if nothing had happened")
        wait_until(lambda held=held: held.state() == "GONE", "it has asked")
        check_equal(held.release().status, "NOT_HELD")


@scenario()
def a_servers_clock_set_back_leaves_locks_to_their_holders(world, kind, names):
    """They live for longer there now: who asks is reassured."""
    actor = world.actor(kind)
    held = actor.acquire(*names, ttl_ms=MINUTE_MS)
    world.server.set_ahead(-HOUR_US)
    actor.acquire("y").release().check()
    wait_until(lambda: held.state() == "HELD" and held.remaining_ms() > HOUR_US / 1000, "it has asked")
    held.release().check()
    world.await_nothing_left()


# ---- the server's clock is set back while many wait ----

POLL_S = 2


def waiting(world, kind, names):
    """How one begins to wait, by its place."""
    clients = world.told_clients(kind)

    def wait(place):
        asking = world.actor(kind, clients[place % 3]).ask(*names, timeout_ms=FOREVER)
        world.await_queue(names, place)
        return asking
    return wait


def came_before_and_after(step_s, heard_s, empties=False):
    """`heard_s` is how long all live on before the release. A request whose queue was emptied comes back with the
    place that it had."""
    def case(world, kind, names):
        wait = waiting(world, kind, names)
        held = world.actor("thread").acquire(*names, ttl_ms=10 * HOUR_US // 1000)
        asked = [wait(number) for number in (1, 2, 3)]
        world.server.set_ahead(step_s * 1000000)
        if empties:
            world.ask("DEL", *[f"rql:lock_queue:{name}" for name in names])
            world.await_queue(names, 3)
        asked += [wait(number) for number in (4, 5, 6)]
        let_pass(heard_s)
        check_served_in_order(asked, held)
        world.await_queue(names, 0)
    after = f" heard of for {heard_s} s" if heard_s else " in a queue that was emptied" if empties else ""
    case.__name__ = f"all are served as they came{after} though the clock went back by {-step_s} s"
    return case


for step in (-2, -3600):
    scenario(counts=[1])(came_before_and_after(step, POLL_S))
    scenario(counts=[1])(came_before_and_after(step, 0))
scenario(counts=[1])(came_before_and_after(-3600, 0, empties=True))


@scenario(counts=[1])
def a_ruby_is_not_overtaken_when_the_servers_clock_goes_back(world, kind, names):
    """Its own clock is right, and its score is from the future for as long as the step was."""
    wait = waiting(world, kind, names)
    held = world.actor("thread").acquire(*names, ttl_ms=MINUTE_MS)
    world.server.set_ahead(-HOUR_US)
    ruby = world.actor("ruby").ask(*names)
    world.await_queue(names, 1)
    check_served_in_order([ruby, wait(2), wait(3)], held)


@scenario(counts=[1])
def the_dead_from_before_a_step_back_keep_nobody_waiting(world, kind, names):
    """A dead one must not keep newcomers away until the clock has come so far."""
    wait = waiting(world, kind, names)
    held = world.actor("thread").acquire(*names, ttl_ms=MINUTE_MS)
    world.ask("ZADD", f"rql:lock_queue:{names[0]}", time.time(), "rql:acq:1/2/3/4/0123456789abcdef")
    world.server.set_ahead(-HOUR_US)
    check_served_in_order([wait(2), wait(3)], held)


@scenario(counts=[3])
def a_series_stands_behind_all_who_wait_though_the_clock_went_back(world, kind, names):
    """With one score, also where only the queue of its first lock is from before."""
    held = world.held_by_another(*names)
    asking = world.actor(kind).ask(names[0], timeout_ms=FOREVER)
    world.await_queue(names[:1], 1)
    world.server.set_ahead(-2000000)
    series = world.actor(kind).ask(*names, timeout_ms=FOREVER)
    world.await_queue(names[1:], 1)
    check_equal(len({world.ask("ZRANGE", f"rql:lock_queue:{name}", -1, -1)[0] for name in names}), 1)
    held.release().check()
    asking.hold().release().check()
    series.hold().release().check()


@scenario(counts=[1])
def a_clock_behind_its_tokens_leaves_the_hand_over_to_the_server(world, kind, names):
    """A token of the client's own could be that of the server's next grant: which is the last token it knows and one."""
    chain = Chain(world, kind)
    held = chain.actors[0].acquire(*names, ttl_ms=MINUTE_MS)
    world.server.set_ahead(-HOUR_US)
    chain.await_asleep()
    before = chain.handed_on()
    asking = chain.queued(names[0])
    chain.await_asleep()
    held.release().check()
    mine = asking.hold()
    check_equal(chain.handed_on(), before)
    check(mine.tokens[0] > held.tokens[0], "tokens fall")
    mine.release().check()
    world.server.set_ahead(0)
    chain.await_asleep()
    released, mine = chain.hand_on(names[0])
    released.outcome().check()
    mine.release().check()
    world.await_nothing_left()


# ---- the server's clock stands still ----

@scenario()
def a_servers_clock_that_stands_still_stops_no_hand_over(world, kind, names):
    """No key expires there. Leases and deadlines are of the clients' clocks; order and tokens need none."""
    wait = waiting(world, kind, names)
    held = world.actor(kind).acquire(*names, ttl_ms=1000)
    world.server.set_rate(STANDS_STILL)
    asked = [wait(number) for number in (1, 2, 3)]
    world.actor(kind).refused(*names, timeout_ms=300).check("TIMED_OUT", "E_UNKNOWN")
    wait_until(lambda: held.state() == "GONE", "its lease is over")
    check_equal([world.holder(name) for name in names], [held.outcome.acq_id] * len(names))
    check_served_in_order(asked, held)
    world.await_nothing_left()


if __name__ == "__main__":
    main()
