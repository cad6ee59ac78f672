#!/usr/bin/env python3
"""Several locks at once: all or nothing. A series that waits holds nothing, keeps its place in all queues, and is told
to look."""
import time

from harness import FOREVER, MINUTE_MS, Network, check, check_equal, main, scenario, wait_until

ACQUIRED, OPEN, HELD, BEHIND, OWN = 1, 3, 4, 5, 6     # what became of a lock: rql_series_fate
BY_TTL, BY_RELEASE = 1, 2                             # rql_series_ending
SERIES_MAX = 64


def lock_of(name):
    return f"rql:lock:{name}"


def queue_of(name):
    return f"rql:lock_queue:{name}"


def told(world, kind):
    """Three actors who are told of hand-overs, and do not ask meanwhile."""
    return [world.actor(kind, client) for client in world.told_clients(kind, retry_delay_ms=MINUTE_MS)]


def wait_for(world, actor, *names, place=1, **options):
    """One that waits as the n-th for the last of them."""
    asking = actor.ask(*names, **{"timeout_ms": FOREVER, "queue_ttl_ms": FOREVER, **options})
    world.await_queue(names[-1:], place)
    return asking


def check_one_score(world, names):
    """The same place in all queues. Who, and where."""
    found = [world.ask("ZRANGE", queue_of(name), 0, 0, "WITHSCORES") for name in names]
    check(all(one == found[0] for one in found), f"{found}")
    return found[0]


# ---- all or nothing ----

@scenario(counts=[3])
def all_are_taken_in_one_round_trip(world, kind, names):
    """Each has what the gem reads, and a token and a secret of its own; tokens rise in the order of the names."""
    actor = world.actor(kind)
    before = actor.acquire("before", ttl_ms=MINUTE_MS)
    actor.acquire(*names).release().check()
    n_calls = world.n_scripts()
    held = actor.acquire(*reversed(names), ttl_ms=MINUTE_MS)
    check_equal(world.n_scripts() - n_calls, 1)
    secrets = []
    for name, token in zip(reversed(names), held.tokens):
        fields = world.ask("HGETALL", lock_of(name))
        fields = dict(zip(fields[::2], fields[1::2]))
        check_equal(sorted(fields), ["acq_id", "hst_id", "ini_ttl", "rql_nonce", "rql_token", "ts"])
        check_equal((int(fields["ini_ttl"]), int(fields["rql_token"])), (MINUTE_MS, token))
        secrets.append(fields["rql_nonce"])
    check_equal(len(set(secrets)), len(names))
    check(before.tokens[0] < min(held.tokens) and held.tokens == sorted(held.tokens, reverse=True), f"{held.tokens}")
    check_equal(held.state(), "HELD")
    check(held.remaining_ms() > MINUTE_MS / 2, "it ends soon")
    held.release().check()
    check_equal(world.n_scripts() - n_calls, 1 + len(names))
    before.release().check()
    check_equal(world.keys_left(), [])


@scenario(counts=[1])
def the_most_locks_are_taken_and_given_back(world, kind, names):
    names = [f"{names[0]}.{i * 37 % SERIES_MAX}" for i in range(SERIES_MAX)]
    held = world.actor(kind).acquire(*names, ttl_ms=MINUTE_MS, meta={"k": "v"})
    check_equal(held.outcome.result["n_acquired"], SERIES_MAX)
    check_equal([world.token(name) for name in names], held.tokens)
    check_equal({world.ask("HGET", lock_of(name), "k") for name in names}, {"v"})
    held.release().check()
    check_equal(world.keys_left(), [])


@scenario(counts=[3])
def what_the_result_tells(world, kind, names):
    for mode in ("atomic", "gem"):
        held = world.actor(kind).acquire(*names, mode=mode)
        result = held.outcome.result
        check_equal((result["reason"], result["n_acquired"], result["failed_on"], result["fates"], result["ending"]),
                    (0, 3, 3, [ACQUIRED] * 3, BY_TTL))
        check(result["acq_time_us"] > 0 and result["hold_time_us"] == 0, f"{result}")
        result = held.release().check().result
        check(result["ending"] == BY_RELEASE and result["hold_time_us"] > 0, f"{result}")


@scenario(counts=[3], is_timed=True)
def a_held_lock_keeps_all_others_free(world, kind, names):
    """The result names it, and so does the refusal."""
    actor, names = world.actor(kind), names[::-1]
    for at, name in enumerate(names):
        held = world.held_by_another(name)
        for status, options in (("FAIL_FAST_NO_TRY", {"fail_fast": True}), ("RETRY_LIMIT", {"retry_count": 1}),
                                ("TIMED_OUT", {"timeout_ms": 50})):
            outcome = actor.refused(*names, **{"timeout_ms": FOREVER, "detailed_acq_timeout_error": True, **options})
            check_equal(outcome.status, status)
            result = outcome.result
            check_equal((result["failed_on"], result["n_acquired"]), (at, 0))
            check_equal(result["fates"], [HELD if i == at else OPEN for i in range(3)])
            check(f'"{lock_of(name)}"' in outcome.refusal["message"], outcome.refusal["message"])
            check_equal(outcome.refusal.get("holder", name), name)
        held.release().check()
        check_equal(world.keys_left(), [])


@scenario(counts=[3])
def others_in_front_are_told_apart_from_holders(world, kind, names):
    """They are alive: fail_fast gives up, and leaves no trace."""
    held = world.held_by_another("other")
    first = told(world, kind)[0].ask(names[0], "other", timeout_ms=FOREVER)
    world.await_queue(["other"], 1)
    for order, failed_on, fates in ((names, 0, [BEHIND, OPEN, OPEN]), (names[::-1], 2, [OPEN, OPEN, BEHIND])):
        outcome = world.actor(kind).refused(*order, fail_fast=True)
        check_equal((outcome.status, outcome.result["failed_on"]), ("FAIL_FAST_AFTER_TRY", failed_on))
        check_equal(outcome.result["fates"], fates)
    check_equal([world.queue_length(name) for name in names], [1, 0, 0])
    held.release().check()
    first.hold().release().check()
    check_equal(world.keys_left(), [])


@scenario(kinds=["thread"], counts=[3])
def an_own_lock_is_a_conflict_unless_it_may_be_shared(world, kind, names):
    actor = world.actor(kind)
    own = actor.acquire(names[1], ttl_ms=MINUTE_MS)
    for strategy in ("wait_for_lock", "extendable_work_through", "dead_locking"):
        outcome = actor.refused(*names, conflict_strategy=strategy)
        check_equal((outcome.status, outcome.result["failed_on"], outcome.result["fates"][1]), ("CONFLICT", 1, OWN))
        check_equal([world.queue_length(name) for name in names], [0] * 3)
    outer = actor.acquire(*names, conflict_strategy="work_through")
    check_equal((outer.tokens[1], world.ask("HGET", lock_of(names[1]), "spc_cnt")), (own.tokens[0], "1"))
    inner = actor.acquire(*reversed(names), conflict_strategy="work_through")
    check_equal(inner.tokens, outer.tokens[::-1])
    inner.release().check()
    outer.release().check()
    own.verify().check()
    own.release().check()
    check_equal(world.keys_left(), [])


# ---- what is lost ----

@scenario(counts=[3])
def what_ended_before_is_told_and_the_rest_released(world, kind, names):
    """What another has taken since is his: nothing of it is touched."""
    for is_taken in (False, True):
        held = world.actor(kind).acquire(*names, ttl_ms=MINUTE_MS)
        world.ask("DEL", lock_of(names[1]))
        theirs = world.held_by_another(names[1]) if is_taken else None
        check_equal(held.release().status, "NOT_HELD")
        if theirs:
            theirs.verify().check()
            theirs.release().check()
        check_equal(world.keys_left(), [])


@scenario(kinds=["thread"], counts=[3])
def an_extension_is_of_all_locks(world, kind, names):
    """Also of those beside one that has ended, which is told. It never shortens what is left."""
    held = world.actor(kind).acquire(*names, ttl_ms=MINUTE_MS)
    for ttl_ms in 10 * MINUTE_MS, 1:
        held.extend(ttl_ms).check()
    check(all(world.ask("PTTL", lock_of(name)) > 9 * MINUTE_MS for name in names), "one was not extended")
    check(held.remaining_ms() > 9 * MINUTE_MS, "it is not known of")
    check_equal(held.extend(0).status, "E_INVALID")
    world.ask("DEL", lock_of(names[1]))
    check_equal(held.extend(15 * MINUTE_MS).status, "NOT_HELD")
    check(world.ask("PTTL", lock_of(names[2])) > 14 * MINUTE_MS, "the last was not extended")
    check_equal((held.state(), held.remaining_ms()), ("GONE", 0))
    check_equal(held.release().status, "NOT_HELD")


@scenario(counts=[3])
def the_loss_of_any_lock_is_told(world, kind, names):
    for name in names:
        held = world.actor(kind).acquire(*names, ttl_ms=1500, auto_extend=True)
        world.ask("DEL", lock_of(name))
        wait_until(held.is_lost, "the loss is told")
        check_equal([words["name"] for words in held.losses()], [name])
        check_equal(held.state(), "GONE")
        check_equal(held.release().status, "NOT_HELD")


@scenario(kinds=["thread"], counts=[3])
def a_grant_that_lost_a_part_on_the_way_is_made_anew(world, kind, names):
    """It was taken away before the answer came: the rest is not kept without it."""
    for at, name in enumerate(names):
        network = Network(world)
        actor = world.actor(kind, network.client(connect_timeout_ms=MINUTE_MS, io_timeout_ms=MINUTE_MS))
        actor.acquire(*names).release().check()
        network.fail("freeze", direction="down")
        asking = actor.ask(*names, timeout_ms=FOREVER)
        wait_until(lambda: world.holder(names[2]), "it is granted")
        world.ask("DEL", lock_of(name))
        held = world.held_by_another(name)
        network.fail("cut")
        network.heal()
        world.await_queue(names, 1)
        check_equal([bool(world.holder(one)) for one in names], [i == at for i in range(3)])
        held.release().check()
        asking.hold().release().check()
        world.await_nothing_left()
        world.free(actor.client)


@scenario(counts=[3])
def a_fault_at_a_release_is_told_whatever_else_has_ended(world, kind, names):
    actor = world.actor(kind)
    for gone, foreign in (names[:2], names[1::-1]):
        held = actor.acquire(*names, ttl_ms=MINUTE_MS)
        world.ask("DEL", lock_of(gone), lock_of(foreign))
        world.ask("SET", lock_of(foreign), "foreign")
        held.release().check("E_WRONG_TYPE")
        world.ask("DEL", lock_of(foreign))
        check_equal(world.keys_left(), [])


@scenario(counts=[3])
def a_foreign_key_under_any_name_ends_it(world, kind, names):
    """Nothing else is touched. Also one of those that all locks share."""
    actor = world.actor(kind)
    for key in [f"rql:{part}:{name}" for part in ("lock", "lock_queue", "req") for name in names]:
        world.ask("SET", key, "foreign")
        outcome = actor.refused(*names, timeout_ms=FOREVER)
        check_equal((outcome.status, outcome.result["reason"]), ("E_WRONG_TYPE", outcome.words["status"]))
        world.ask("DEL", key)
        check_equal(world.keys_left(), [])
    for key in ("rql:fence", "rql:live"):
        held = world.held_by_another(names[1])
        world.ask("DEL", key)
        world.ask("LPUSH", key, "foreign")
        if key == "rql:fence":
            held.release().check()
        check_equal(actor.refused(*names, timeout_ms=FOREVER).status, "E_WRONG_TYPE")
        world.ask("DEL", key)
        if key == "rql:live":
            held.release().check()
        world.await_nothing_left()


# ---- it waits ----

@scenario(counts=[3])
def a_release_calls_the_series_that_waits(world, kind, names):
    actor = told(world, kind)[0]
    for name in names:
        held = world.held_by_another(name)
        asking = wait_for(world, actor, *reversed(names))
        world.await_queue(names, 1)
        check_equal([bool(world.holder(one)) for one in names], [one == name for one in names])
        check_one_score(world, names)
        held.release().check()
        asking.hold().release().check()
        check_equal(world.keys_left(), [])


@scenario(kinds=["loop"], counts=[3])
def a_series_that_is_cancelled_leaves_all_queues(world, kind, names):
    for mode in ("atomic", "gem"):
        held = world.held_by_another(names[1])
        asking = wait_for(world, world.actor(kind), *names[:2], mode=mode)
        asking.cancel().check()
        check_equal(asking.outcome().status, "CANCELLED")
        held.release().check()
        check_equal(world.keys_left(), [])


@scenario(kinds=["loop"], counts=[3])
def a_series_that_was_granted_too_late_tells_what_it_had(world, kind, names):
    actor = world.actor(kind)
    actor.acquire(*names).release().check()
    world.server.freeze()
    asking = actor.ask(*names, timeout_ms=FOREVER)
    time.sleep(0.05)  # it is sent: nothing shows when
    asking.cancel().check()
    world.server.go_on()
    outcome = asking.outcome()
    check_equal((outcome.status, outcome.result["n_acquired"]), ("CANCELLED", 3))
    world.await_nothing_left()


@scenario(counts=[3])
def queue_ttl_moves_it_to_the_tail_of_all_queues(world, kind, names):
    held = world.held_by_another(names[1])
    old = wait_for(world, world.actor(kind, retry_delay_ms=50), *names, queue_ttl_ms=300)
    acquirer = check_one_score(world, names)[0]
    young = wait_for(world, world.actor(kind), *reversed(names), place=2)
    wait_until(lambda: all(world.ask("ZRANK", queue_of(name), acquirer) == 1 for name in names), "it is at the tail")
    held.release().check()
    mine = young.hold()
    check(not old.is_over(), "the first came first")
    mine.release().check()
    old.hold().release().check()
    world.await_nothing_left()


@scenario(counts=[3])
def a_random_series_takes_free_locks_whoever_waits(world, kind, names):
    held, (first, second, _) = world.held_by_another(names[1]), told(world, kind)
    series = wait_for(world, first, *names)
    second.acquire(names[0], names[2], access_strategy="random").release().check()
    check_equal(world.queue_length(names[0]), 1)
    held.release().check()
    series.hold().release().check()
    check_equal(world.keys_left(), [])


@scenario(kinds=["loop"], counts=[3])
def a_named_task_waits_once(world, kind, names):
    """One place in a queue is one request's: a second one would take it along when it goes."""
    held, actor = world.held_by_another(names[1]), world.actor(kind)
    first = wait_for(world, actor, *names, task=7)
    check_equal(actor.refused(*names, timeout_ms=FOREVER, task=7).status, "E_BUSY")
    check_equal(actor.refused(names[1], timeout_ms=FOREVER, task=7).status, "E_BUSY")
    actor.acquire("other", task=7).release().check()
    held.release().check()
    first.hold().release().check()
    world.await_nothing_left()


if __name__ == "__main__":
    main()
