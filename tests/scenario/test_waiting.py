#!/usr/bin/env python3
"""Who waits for a lock, and how the wait ends."""
import concurrent.futures
import time

from harness import FOREVER, MINUTE_MS, as_they_end, check, check_equal, let_pass, main, scenario, wait_until

POLL_US = 5000000 / 3  # between two polls, where pushes are seen to come


def serve_all(asked):
    """Each is released when it has the locks; the holds in the order of their tokens."""
    holds = []
    for asking in as_they_end(asked):
        holds.append(asking.hold())
        holds[-1].release().check()
    return sorted(holds, key=lambda hold: hold.tokens)


@scenario()
def whoever_comes_at_once_is_served_as_the_queue_says(world, kind, names):
    held = world.held_by_another(*names)
    clients = [world.client() for _ in range(2)]
    waiters = [world.actor(kind, clients[i % 2]) for i in range(16)]
    asked = [waiter.ask(*names, timeout_ms=FOREVER) for waiter in waiters]
    world.await_queue(names, 16)
    world.await_listeners(2)
    order = world.ask("ZRANGE", f"rql:lock_queue:{names[0]}", 0, -1)
    held.release().check()
    holds = serve_all(asked)
    check(len(names) > 1 or all(hold.outcome.handed_over for hold in holds), "somebody found it by a poll")
    check(len(names) > 1 or [hold.outcome.acq_id for hold in holds] == order, "another order")
    world.await_nothing_left()


@scenario()
def the_server_is_told_until_when_a_request_waits(world, kind, names):
    held = world.held_by_another(*names)
    asking = world.actor(kind).ask(*names, timeout_ms=MINUTE_MS)
    world.await_queue(names, 1)
    until_us = world.server.now_us() + MINUTE_MS * 1000
    for name in names:
        record = world.ask("HGET", f"rql:req:{name}", world.ask("ZRANGE", f"rql:lock_queue:{name}", 0, 0)[0])
        check(abs(int(record.split()[3]) - until_us) < MINUTE_MS * 500, record)
    held.release().check()
    asking.hold().release().check()


@scenario(is_timed=True)
def tries_are_used_up(world, kind, names):
    held = world.held_by_another(*names)
    for n_tries in (1, 3):
        waiter = world.actor(kind, retry_count=n_tries, retry_delay_ms=400, retry_jitter_ms=0)
        outcome = waiter.refused(*names)
        check_equal((outcome.status, outcome.refusal["tries"]), ("RETRY_LIMIT", n_tries))
        waited_us = outcome.refusal["waited_us"]
        check((n_tries - 1) * 400000 - 1000 <= waited_us < n_tries * 400000, f"waited for {waited_us} us")
        check_equal(outcome.refusal["position"], 1)
        check_equal(world.queue_length(names[0]), 0)
    held.release().check()


@scenario(counts=[1])
def jitter_lengthens_the_delay(world, kind, names):
    held = world.held_by_another(*names)
    waiter = world.actor(kind, retry_count=2, retry_delay_ms=1, retry_jitter_ms=60)
    waited_us = sum(waiter.refused(*names).refusal["waited_us"] for _ in range(20))
    check(waited_us > 20 * 10000, f"{waited_us} us for twenty; 30 ms each are expected")
    held.release().check()


@scenario(is_timed=True)
def tries_are_counted_while_it_waits(world, kind, names):
    """By timer, also where a hand-over ends the wait."""
    held = world.held_by_another(*names)
    asking = world.actor(kind, retry_delay_ms=50, retry_jitter_ms=0).ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    let_pass(0.5)
    held.release().check()
    mine = asking.hold()
    check(5 <= mine.outcome.tries <= 13, f"{mine.outcome.tries} tries")
    mine.release().check()


@scenario(counts=[1])
def a_random_request_may_overtake_at_a_hand_over(world, kind, names):
    """The head has at least half of the chances, a random request behind it some: 20 of 80 are expected."""
    head, behind = world.actor(kind), world.actor(kind)
    overtaken = 0
    for _ in range(80):
        held = world.held_by_another(*names)
        asked = []
        for count, (actor, access) in enumerate(((head, "queued"), (behind, "random")), 1):
            asked.append(actor.ask(*names, timeout_ms=FOREVER, access_strategy=access))
            world.await_queue(names, count)
        held.release().check()
        overtaken += serve_all(asked)[0].actor is behind
    check(1 <= overtaken <= 40, f"{overtaken} of 80")


# ---- who asks, and how often ----

@scenario(kinds=["thread"], counts=[1], is_timed=True)
def a_contended_lock_costs_two_commands(world, kind, names):
    """Of two clients that listen already. A release that wakes another client looks for pushes first, by a PING; one
    inside the client is told to the server, at first by the script's text. Who waits for long may poll."""
    clients = world.told_clients(kind, retry_delay_ms=3600000)[:2]
    actors = [world.actor(kind, clients[i % 2]) for i in range(16)]
    handed_over = []

    def contend(actor):
        for _ in range(20):
            mine = actor.acquire(*names, timeout_ms=FOREVER)
            handed_over.append(mine.outcome.handed_over)
            mine.release().check()
    before, begun_s = [world.n_calls(command) for command in ("evalsha", "eval", "ping")], time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(len(actors)) as pool:
        list(pool.map(contend, actors))
    took_s = time.monotonic() - begun_s
    n_calls, n_texts, n_pings = (world.n_calls(what) - n for what, n in zip(("evalsha", "eval", "ping"), before))
    check(sum(handed_over) > 160, f"{sum(handed_over)} were handed over")
    most = 656 + len(actors) * took_s * 1000000 / POLL_US
    check(640 <= n_calls + n_texts <= most, f"{n_calls} and {n_texts} commands in {took_s:.1f} s")
    n_by_server = sum(handed_over) - sum(client.stats().local_hand_overs for client in clients)
    # Those that were not handed over may have handed on themselves.
    check(n_by_server <= n_pings <= n_by_server + handed_over.count(False) + 16, f"{n_pings} pings for {n_by_server}")
    world.await_nothing_left()


@scenario(counts=[1], is_timed=True)
def the_next_one_leads_when_the_leader_goes(world, kind, names):
    """No script frees the lock, so nobody is told: it is found by polling."""
    held = world.held_by_another(*names)
    client = world.client()
    first = world.actor(kind, client)
    leader = first.ask(*names, timeout_ms=300 if kind == "thread" else FOREVER)
    world.await_queue(names, 1)
    second = world.actor("thread", client) if kind == "thread" else first
    asking = second.ask(*names, timeout_ms=FOREVER)
    if kind == "loop":
        world.await_queue(names, 2)
        leader.cancel().check()
    leader.outcome().check("TIMED_OUT" if kind == "thread" else "CANCELLED")
    world.ask("DEL", f"rql:lock:{names[0]}")
    asking.hold().release().check()
    check_equal(held.release().status, "NOT_HELD")
    world.await_nothing_left()


@scenario(is_timed=True)
def a_refusal_names_the_holder(world, kind, names):
    """Where that was asked for; of several locks the first by its name."""
    held = world.held_by_another(*sorted({names[0], names[-1]}))
    for is_asked in (False, True):
        outcome = world.actor(kind).refused(*reversed(names), timeout_ms=50, detailed_acq_timeout_error=is_asked)
        check_equal(outcome.refusal.get("holder"), names[0] if is_asked else None)
    held.release().check()


# ---- requests on a loop ----

@scenario(kinds=["loop"])
def a_request_that_is_cancelled_leaves_nothing(world, kind, names):
    """Before it begins, while it is asked, and while it waits."""
    actor = world.actor(kind)
    actor.acquire("warm").release().check()
    asking = actor.ask(*names, timeout_ms=FOREVER)
    asking.cancel().check("OK", "NOT_FOUND")  # it may have been granted
    if asking.outcome().check("CANCELLED", "OK").status == "OK":
        asking.hold().release().check()
    world.await_nothing_left()
    before = actor.client.stats().commands
    world.server.freeze()
    asking = actor.ask(*names, timeout_ms=FOREVER)
    wait_until(lambda: actor.client.stats().commands > before, "it is sent")
    asking.cancel().check()
    world.server.go_on()
    check_equal(asking.outcome().status, "CANCELLED")
    world.await_nothing_left()
    held = world.held_by_another(*names)
    asking = actor.ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    asking.cancel().check()
    outcome = asking.outcome()
    check_equal(outcome.status, "CANCELLED")
    check("was cancelled" in outcome.refusal["message"], outcome.refusal["message"])
    check_equal([world.queue_length(name) for name in names], [0] * len(names))
    held.release().check()
    check_equal(world.keys_left(), [])


@scenario(kinds=["loop"])
def a_grant_and_a_cancellation_at_once_leak_nothing(world, kind, names):
    actor = world.actor(kind)
    for _ in range(20):
        held = world.held_by_another(*names)
        asking = actor.ask(*names, timeout_ms=FOREVER)
        world.await_queue(names, 1)
        world.await_listeners(1)
        releasing = held.begin("release")
        asking.cancel()
        releasing.outcome().check()
        if asking.outcome().check("OK", "CANCELLED").status == "OK":
            asking.hold().release().check()
        world.await_nothing_left()


@scenario(is_timed=True)
def a_process_that_stalls_loses_no_place(world, kind, names):
    """For as long as a heartbeat may be late."""
    held = world.held_by_another(*names)
    remote = world.remote()
    asking = world.actor(kind, world.client(remote)).ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    world.await_listeners(1)
    behind = world.actor("thread").ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 2)
    remote.stop()
    let_pass(2.5)
    remote.go_on()
    let_pass(0.02)
    held.release().check()
    mine = asking.hold()
    check(not behind.is_over(), "the later one came first")
    mine.release().check()
    behind.hold().release().check()


if __name__ == "__main__":
    main()
