#!/usr/bin/env python3
"""A server that stands still for a while; no call waits for it beyond its deadline."""
from harness import FOREVER, MINUTE_MS, check, check_equal, main, once, scenario, wait_until

CROWD = 16
LIMIT_MS = 600
LONG_LIMIT_MS = 1000
GRACE_MS = 50   # after the deadline
SLACK_MS = 100  # of the machine
BULK = {"meta": {"bulk": "x" * 16000}}  # a few such requests are more than a socket takes
CALLS = 40
BRIEF_MS = 20


def check_in_time(outcome, limit_ms):
    check(outcome.took_us <= (limit_ms + GRACE_MS + SLACK_MS) * 1000, f"{outcome!r} after {outcome.took_us} us")


def crowd_of(world, kind, client):
    """A loop is a crowd by itself."""
    actors = [world.actor(kind, client) for _ in range(CROWD if kind == "thread" else 1)]
    actors[0].acquire("warm").release().check()
    return [actors[i % len(actors)] for i in range(CROWD)]


@scenario(is_timed=True)
def a_deadline_holds_where_the_server_stops_before_or_behind_the_request(world, kind, names):
    """It stands still before the requests are sent, or when some of them are in the queue."""
    crowd = crowd_of(world, kind, world.client(io_timeout_ms=1000))
    for is_queued in (False, True):
        held = world.held_by_another(*names)
        asked = [actor.ask(*names, timeout_ms=LIMIT_MS) for actor in crowd] if is_queued else []
        if is_queued:
            wait_until(lambda: world.queue_length(names[0]), "some are in the queue")
        with world.server.frozen():
            asked = asked or [actor.ask(*names, timeout_ms=LIMIT_MS) for actor in crowd]
            for asking in asked:  # E_IO: it waited for the answers of others, and was not sent
                outcome = asking.outcome().check("E_UNKNOWN", "TIMED_OUT", "E_IO")
                check_in_time(outcome, LIMIT_MS)
        world.await_queue(names, 0)
        held.release().check()
        world.await_nothing_left()


@scenario(is_timed=True)
def one_try_at_a_stopped_server_ends_with_its_withdrawal(world, kind, names):
    actor = world.actor(kind, io_timeout_ms=1000)
    actor.acquire("warm").release().check()
    with world.server.frozen():
        outcomes = [actor.refused(*names, timeout_ms=0).check("E_UNKNOWN") for _ in range(3)]
    took_us = min(outcome.took_us for outcome in outcomes)
    check(took_us <= (GRACE_MS + 30) * 1000, f"{took_us} us")
    world.await_nothing_left()


# ---- a socket that takes no more ----

def connections(world):
    """By their numbers; those that are told of hand-overs may be among them."""
    return [line.split(" ")[0] for line in world.ask("CLIENT", "LIST", "TYPE", "normal").splitlines()]


def call_and_call(actors):
    """What such calls leave behind fills the socket. Each ends by its deadline."""
    for asking in [actor.ask("full", timeout_ms=BRIEF_MS, **BULK) for _ in range(CALLS) for actor in actors]:
        outcome = asking.outcome()
        check_equal(outcome.status, "E_UNKNOWN")
        check_in_time(outcome, BRIEF_MS)


def check_all_is_done(world, actor, before):
    """What was sent in part goes on where it stopped, on the connection that there was."""
    actor.acquire("other").release().check()
    world.await_nothing_left()
    check(set(before) <= set(connections(world)), "a connection was given up")


@scenario(kinds=["thread"], counts=[1], is_timed=True)
def who_writes_for_others_ends_by_its_own_deadline(world, kind, names):
    client = world.client(io_timeout_ms=MINUTE_MS, connections=1)
    patient, *actors = (world.actor(kind, client) for _ in range(5))
    patient.begin("connect").outcome().check()
    before = connections(world)
    with world.server.frozen():
        asking = patient.ask(*names, timeout_ms=FOREVER)
        call_and_call(actors)
    asking.hold().release().check()
    check_all_is_done(world, patient, before)


@scenario(kinds=["thread"], counts=[1], is_timed=True)
def who_is_alone_with_a_full_socket_ends_by_its_deadline(world, kind, names):
    del names
    actor = world.actor(kind, io_timeout_ms=MINUTE_MS)
    actor.begin("connect").outcome().check()
    before = connections(world)
    with world.server.frozen():
        call_and_call([actor])
    check_all_is_done(world, actor, before)


# ---- those that go on ----

@scenario(kinds=["thread"], counts=[1], is_timed=True)
def a_look_at_a_stopped_server_ends_in_time(world, kind, names):
    actor = world.actor(kind, io_timeout_ms=MINUTE_MS)
    actor.begin("connect").outcome().check()
    with world.server.frozen():
        outcome = actor.begin("check_until_free", names=names, options={"timeout_ms": LIMIT_MS}).outcome()
    check(outcome.status.startswith("E_"), repr(outcome))
    check_in_time(outcome, LIMIT_MS)


@scenario(kinds=["thread"], counts=[1], is_timed=True)
def a_last_look_without_an_answer_says_what_the_one_before_saw(world, kind, names):
    held, before = world.held_by_another(*names), world.n_calls("hexists")
    actor = world.actor(kind, io_timeout_ms=MINUTE_MS)
    asking = actor.begin("check_until_free", names=names, options={"timeout_ms": LONG_LIMIT_MS, "retry_delay_ms": 50})
    wait_until(lambda: world.n_calls("hexists") > before + 1, "a look was answered")
    with world.server.frozen():
        outcome = asking.outcome()
    check_equal(outcome.status, "TIMED_OUT")
    check_in_time(outcome, LONG_LIMIT_MS)
    held.release().check()


@scenario()
def a_stop_for_longer_than_the_silence_allowed_costs_no_grant(world, kind, names):
    """Connections are given up, and what they carried is done late."""
    client = world.client(io_timeout_ms=150)
    actor, other = world.actor(kind, client), world.actor("thread", client)
    held = other.acquire("other", ttl_ms=MINUTE_MS)
    with world.server.frozen():
        asking = actor.ask(*names, ttl_ms=MINUTE_MS, timeout_ms=FOREVER)
        held.verify().check("E_UNKNOWN")
    mine = asking.hold()
    check_equal([world.token(name) for name in names], mine.tokens)
    mine.release().check()
    held.release().check()
    world.await_nothing_left()


@scenario(counts=[1], is_timed=True)
def a_grant_to_the_dead_is_not_lost_for_long(world, kind, names):
    """An operator listens to all channels: publishing to the dead looks like being heard."""
    listener = world.server.connection()
    listener.call("PSUBSCRIBE", "rql:wake:*")
    held = world.actor("thread").acquire(*names, ttl_ms=MINUTE_MS)
    dead = world.actor("process")
    dead.ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    living = world.actor(kind).ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 2)
    world.kill(dead)
    begun_us = world.server.now_us()
    held.release().check()
    mine = living.hold()
    took_ms = (mine.outcome.ts_us - begun_us) / 1000
    check(took_ms <= 1667 + SLACK_MS, f"after {took_ms} ms")  # the claim's time, or the next question
    mine.release().check()
    listener.close()


@once
def a_client_that_is_freed_leaves_the_list_without_waiting(world, kind, names):
    """The server reads that it leaves when it goes on; the answer would take the client's whole io_timeout."""
    client = world.client(io_timeout_ms=MINUTE_MS)
    actor = world.actor(kind, client)
    actor.settle(*names)
    held = actor.acquire(*names)
    identity = held.outcome.hst_id.rsplit("/", 1)[1]
    held.release().check()
    check_equal(world.ask("HEXISTS", "rql:clients", identity), 1)
    with world.server.frozen():
        outcome = world.free(client).check()
        check(outcome.took_us < MINUTE_MS * 1000 / 2, f"it took {outcome.took_us} us")
    wait_until(lambda: world.ask("HEXISTS", "rql:clients", identity) == 0, "it has left")


if __name__ == "__main__":
    main()
