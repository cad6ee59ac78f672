#!/usr/bin/env python3
"""What a refusal tells: reason, place, holder, queue, and the gem's words."""
import time

from harness import FOREVER, STATUS, check, check_equal, main, scenario

LONG_MS = 60000
RUBY = "rql:acq:1/2/3/4/0123456789abcdef"
MESSAGE_SIZE = 1024  # RQL_REFUSAL_MESSAGE_SIZE
MINE = {"task": 7}
KINDS = ["thread", "loop"]


def lock_of(names):
    return f"rql:lock:{names[0]}"


def stand_in_front(world, names, score=None, acquirer=RUBY):
    world.ask("ZADD", f"rql:lock_queue:{names[0]}", score or int(time.time()), acquirer)


def check_refused(actor, names, status, message, **options):
    outcome = actor.refused(*names, **{"timeout_ms": FOREVER, **MINE, **options})
    refusal = outcome.refusal
    check_equal((outcome.status, refusal["reason"]), (status, STATUS[status]))
    check_equal(refusal["message"], message)
    check("holder" not in refusal and "queue" not in refusal, "it has details")
    return refusal


@scenario(kinds=KINDS, counts=[1])
def fail_fast_says_that_the_lock_is_obtained(world, kind, names):
    held, actor = world.held_by_another(*names), world.actor(kind)
    message = f'Lock "{lock_of(names)}" is already obtained.'
    refusal = check_refused(actor, names, "FAIL_FAST_NO_TRY", message, fail_fast=True)
    check_equal((refusal["position"], refusal["tries"]), (0, 1))
    held.release().check()
    stand_in_front(world, names)
    check_refused(actor, names, "FAIL_FAST_AFTER_TRY", message, fail_fast=True)


@scenario(kinds=KINDS, counts=[1])
def the_retry_limit_is_named(world, kind, names):
    held = world.held_by_another(*names)
    refusal = check_refused(
        world.actor(kind), names, "RETRY_LIMIT",
        f'Failed to acquire the lock "{lock_of(names)}" for the given retry_count limit (2 times).', retry_count=2,
        retry_delay_ms=10)
    check_equal((refusal["tries"], refusal["position"]), (2, 1))
    check(refusal["waited_us"] >= 10000, f"{refusal}")
    held.release().check()


@scenario(kinds=KINDS, counts=[1], is_timed=True)
def the_timeout_is_named_in_seconds(world, kind, names):
    """As Ruby prints an Integer or a Float of seconds, whatever the locale."""
    held, actor = world.held_by_another(*names), world.actor(kind)
    for timeout_ms, seconds in ((0, "0"), (50, "0.05"), (125, "0.125"), (1, "0.001"), (1000, "1")):
        check_refused(actor, names, "TIMED_OUT",
                      f'Failed to acquire the lock "{lock_of(names)}" for the given <{seconds} seconds> timeout.',
                      timeout_ms=timeout_ms)
    held.release().check()


@scenario(kinds=KINDS, counts=[1])
def a_conflict_names_the_acquirer(world, kind, names):
    actor = world.actor(kind)
    held = actor.acquire(*names, ttl_ms=LONG_MS, **MINE)
    check_refused(actor, names, "CONFLICT",
                  f'Lock Conflict: trying to acquire the lock "{lock_of(names)}" that is already acquired by the '
                  f'current acquirer (acq_id: "{held.outcome.acq_id}").', conflict_strategy="dead_locking")
    held.release().check()


# ---- with details ----

DETAILED = {"detailed_acq_timeout_error": True}


@scenario(kinds=KINDS, counts=[1])
def details_are_holder_and_queue(world, kind, names):
    """The secret is none of them."""
    held = world.held_by_another(*names, meta={"job": "42"})
    stand_in_front(world, names, "1795254268.25")
    refusal = world.actor(kind).refused(*names, fail_fast=True, **DETAILED).refusal
    check_equal((refusal["holder"], refusal["holder_acq_id"], refusal["queue"]),
                (names[0], held.outcome.acq_id, [RUBY]))
    begin = f'Lock "{lock_of(names)}" is already obtained. Details: <Lock Data> => {{"acq_id"=>"' \
            f'{held.outcome.acq_id}", "hst_id"=>"rql:hst:'
    check(refusal["message"].startswith(begin), refusal["message"])
    for part in (', "ini_ttl"=>60000, "job"=>"42"', f', "lock_key"=>"{lock_of(names)}", "rem_ttl"=>'):
        check(part in refusal["message"], refusal["message"])
    check(held.outcome.secrets[0] not in refusal["message"], "it tells the secret")
    end = f'}}; <Queue Data> => {{"lock_queue"=>"rql:lock_queue:{names[0]}", "queue"=>[{{"acq_id"=>"{RUBY}", ' \
          '"score"=>1795254268.25}]};'
    check(refusal["message"].endswith(end), refusal["message"])
    held.release().check()


# Who holds it, whether somebody stands in its queue, and how it is asked for.
REASONS = (
    ("FAIL_FAST_NO_TRY", "other", True, {"fail_fast": True}, 'Lock "{}" is already obtained.'),
    ("FAIL_FAST_AFTER_TRY", None, True, {"fail_fast": True}, 'Lock "{}" is already obtained.'),
    ("RETRY_LIMIT", "other", True, {"retry_count": 1}, 'Failed to acquire the lock "{}" for'),
    ("TIMED_OUT", "other", False, {"timeout_ms": 20}, 'Failed to acquire the lock "{}" for'),
    ("CONFLICT", "self", False, {"conflict_strategy": "dead_locking"}, "Lock Conflict: trying to acquire"),
)


@scenario(kinds=KINDS, counts=[1], is_timed=True)
def every_reason_has_its_details(world, kind, names):
    """They are read when the own request has left the queue."""
    actor, other = world.actor(kind), world.actor("thread")
    for status, holder, has_queue, options, words in REASONS:
        held = (actor if holder == "self" else other).acquire(*names, ttl_ms=LONG_MS, **MINE) if holder else None
        if has_queue:
            stand_in_front(world, names)
        outcome = actor.refused(*names, **{"timeout_ms": FOREVER, **MINE, **DETAILED, **options})
        refusal, message = outcome.refusal, outcome.refusal["message"]
        check_equal(outcome.status, status)
        check(message.startswith(words.format(lock_of(names))) and message.endswith(";"), message)
        details = message[message.index(" Details: <Lock Data> => "):]
        check_equal(refusal.get("holder_acq_id"), held.outcome.acq_id if held else None)
        check((held.outcome.acq_id if held else "<Lock Data> => <no_data>;") in details, details)
        check_equal(refusal.get("queue"), [RUBY] if has_queue else None)
        check((RUBY if has_queue else "<Queue Data> => <no_data>;") in details, details)
        if held:
            held.release().check()
        world.ask("FLUSHALL")


@scenario(kinds=KINDS, counts=[1], in_cluster=False)  # where the harness shortens names
def a_long_message_is_cut(world, kind, names):
    """It is longer than there is room for."""
    held = world.held_by_another(*names)
    for i in range(60):
        stand_in_front(world, names, i + 1, f"rql:acq:{i}/2/3/4/0123456789abcdef")
    refusal = world.actor(kind).refused(*names, fail_fast=True, **DETAILED).refusal
    check_equal((len(refusal["message"]), len(refusal["queue"])), (MESSAGE_SIZE - 1, 60))
    held.release().check()


if __name__ == "__main__":
    main()
