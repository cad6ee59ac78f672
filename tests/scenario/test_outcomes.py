#!/usr/bin/env python3
"""rql_error after every outcome: its status is what the call returned, and its message names the lock, why it is not
the caller's, and the holder by the name that people know. (harness.py checks the status after every call.)"""
import itertools
import os
import socket
import time

from harness import FOREVER, STATUS, check, check_equal, main, once, scenario, wait_until
from sweeps import sweep

LONG_MS, TTL_MS = 60000, 200
RUBY = "rql:acq:4711/2/3/4/0123456789abcdef"
DETAILED = {"detailed_acq_timeout_error": True}
MINE = {"task": 7}


def name_of(remote):
    """As `rql ls` shows its clients."""
    return f"{socket.gethostname()} {os.path.basename(remote.process.args[-1])}[{remote.process.pid}]"


def check_says(outcome, status, *texts):
    check_equal(outcome.status, status)
    for text in texts:
        check(text in outcome.error, f"{outcome!r} does not say {text!r}")
    check("rql:acq:" not in outcome.error, f"{outcome!r} has an id where a name is known")
    return outcome.error


def refused(actor, names, **options):
    return actor.refused(*names, **{"timeout_ms": FOREVER, "retry_count": FOREVER, **options})


def of(names):
    """How a message about the first of them begins, if it names one of a series."""
    return f"{names[0]} (of a series of {len(names)}): " if len(names) > 1 else f"{names[0]}: "


REFUSALS = (
    ("not acquired within 0.16 s", "TIMED_OUT", {"timeout_ms": 155}),
    ("not acquired in 1 try", "RETRY_LIMIT", {"retry_count": 1}),
    ("not acquired in 2 tries", "RETRY_LIMIT", {"retry_count": 2, "retry_delay_ms": 10}),
    ("not acquired: it is held", "FAIL_FAST_NO_TRY", {"fail_fast": True}),
)


@scenario()
def the_holder_is_named_by_a_client_of_its_own_process(world, kind, names):
    """The answer to a waiter that is the first has the holder's id: the server is not asked for more."""
    client = world.client()
    holder, actor = world.actor("thread", client), world.actor(kind, client)
    held = holder.acquire(*names, ttl_ms=LONG_MS)
    actor.settle("connected")
    for text, status, options in REFUSALS:
        is_named = len(names) == 1 and "fail_fast" not in options
        outcome = refused(actor, names, also={"no_refusal": True}, **options)
        check_equal(check_says(outcome, status), of(names) + text + f"; held by {name_of(client.remote)}" * is_named)
    held.release().check()


@scenario()
def the_server_is_asked_for_the_name_if_that_is_wanted(world, kind, names):
    """With and without a refusal to fill; the holder is another process."""
    other, actor = world.remote(), world.actor(kind)
    held = world.actor("thread", world.client(other)).acquire(*names, ttl_ms=LONG_MS)
    actor.settle("connected")
    for (text, status, options), no_refusal in itertools.product(REFUSALS, (True, False)):
        outcome = refused(actor, names, also={"no_refusal": no_refusal}, **DETAILED, **options)
        check_equal(check_says(outcome, status), of(names) + text + f"; held by {name_of(other)}")
    held.release().check()


@scenario(counts=[1])
def no_read_is_added_unless_details_are_wanted(world, kind, names):
    held, actor = world.held_by_another(*names), world.actor(kind)
    actor.settle("connected")
    for n_more, options in ((0, {"timeout_ms": 50}), (0, {"fail_fast": True}), (1, {"fail_fast": True, **DETAILED})):
        before = world.n_calls("hgetall")
        refused(actor, names, **options)
        check_equal(world.n_calls("hgetall"), before + n_more)
    held.release().check()


@scenario(counts=[1])
def a_client_without_a_name_is_told_by_its_id(world, kind, names):
    actor = world.actor(kind)
    held = world.actor("thread", world.client(world.remote(), client_names=False)).acquire(*names, ttl_ms=LONG_MS)
    outcome = refused(actor, names, fail_fast=True, **DETAILED)
    check(outcome.error.endswith(f"held by {held.outcome.acq_id}"), f"{outcome!r}")
    held.release().check()
    world.ask("HSET", f"rql:lock:{names[0]}", "acq_id", RUBY, "hst_id", "rql:hst:1/2/3/4", "ts", "1", "ini_ttl", "1")
    check_says(refused(actor, names, fail_fast=True, **DETAILED), "FAIL_FAST_NO_TRY", "held by ruby[4711]")
    world.ask("DEL", f"rql:lock:{names[0]}")


@scenario(counts=[1])
def the_sharers_of_a_lock_are_not_named(world, kind, names):
    """A writer that is the first in the queue, and one that asks for details; and a reader that does not fit."""
    held = [world.held_by_another(*names, share_units=1, share_limit=2) for _ in range(2)]
    actor = world.actor(kind)
    actor.settle("connected")
    for options in ({}, {"share_units": 1, "share_limit": 2}):
        for text, status, refusal in REFUSALS:
            outcome = refused(actor, names, **DETAILED, **options, **refusal)
            check_equal(check_says(outcome, status), of(names) + text + "; shared by others")
    outcome = refused(actor, names, timeout_ms=155)
    check_equal(check_says(outcome, "TIMED_OUT"), of(names) + "not acquired within 0.16 s; shared by others")
    for hold in held:
        hold.release().check()


@scenario(counts=[1])
def other_reasons_are_told(world, kind, names):
    actor = world.actor(kind)
    held = actor.acquire(*names, ttl_ms=LONG_MS, **MINE)
    for details in ({}, DETAILED):
        outcome = refused(actor, names, conflict_strategy="dead_locking", **MINE, **details)
        check_says(outcome, "CONFLICT", f"{names[0]}: not acquired: this acquirer holds it already")
    held.release().check()
    world.ask("ZADD", f"rql:lock_queue:{names[0]}", int(world.server.now_us() / 1e6), RUBY)
    check_says(refused(actor, names, fail_fast=True), "FAIL_FAST_AFTER_TRY", f"{names[0]}: not acquired: it is free")
    world.ask("FLUSHALL")


@scenario(kinds=["loop"])
def a_cancellation_is_told(world, kind, names):
    held, actor = world.held_by_another(*names), world.actor(kind)
    for options in ({}, {"mode": "gem"}) if len(names) > 1 else ({},):
        asking = actor.ask(*names, timeout_ms=FOREVER, retry_count=FOREVER, **options)
        wait_until(lambda: world.queue_length(names[0]) == 1, "it waits")
        asking.cancel().check()
        check_says(asking.outcome(), "CANCELLED", f"{names[0]}", "not acquired: cancelled by its caller")
    held.release().check()


@scenario(kinds=["thread"])
@scenario(kinds=["loop"], counts=[1])  # no call extends a series on a loop
def a_hold_that_has_ended_is_told(world, kind, names):
    """By release and extension, and by those of the secret."""
    actor = world.actor(kind)
    held = actor.acquire(*names, ttl_ms=LONG_MS)
    world.ask("DEL", f"rql:lock:{names[0]}")
    check_says(held.extend(LONG_MS), "NOT_HELD", f"{names[0]}: not held any more", "before this extension")
    check_says(held.release(), "NOT_HELD", f"{names[0]}: not held any more", "before this release")
    held = actor.acquire(*names, ttl_ms=TTL_MS)
    wait_until(lambda: held.state() == "GONE" and not world.keys_left(), "its time is over")
    check_says(held.extend(LONG_MS), "NOT_HELD", ": not held any more")
    check_says(held.release(), "NOT_HELD", ": not held any more")


@once
def calls_without_a_handle_tell_of_what_is_not_there(world, kind, names):
    actor, name = world.actor(kind), names[0]
    held = actor.acquire(name, ttl_ms=LONG_MS)
    world.ask("DEL", f"rql:lock:{name}")
    check_says(held.verify(), "NOT_HELD", f"{name}: not held any more")
    held.release().check("NOT_HELD")
    secret = held.outcome.secrets[0]
    for words in ({}, {"ttl_ms": LONG_MS}):
        check_says(actor.begin("use_secret", name=name, secret=secret, **words).outcome(), "NOT_HELD", f"{name}: ")
    check_says(actor.begin("force_extend", name=name, add_ms=1).outcome(), "NOT_FOUND", f"{name}: the lock is free")
    check_says(actor.begin("inspect", of="lock", name=name).outcome(), "NOT_FOUND", f"{name}: the lock is free")
    check_says(actor.begin("inspect", of="queue", name=name).outcome(), "NOT_FOUND", f"{name}: no request waits")


@once
def a_sweep_that_was_stopped_tells_how_far_it_was(world, kind, names):
    held, actor = world.held_by_another(*names), world.actor(kind)
    check_says(actor.begin("sweep", of="all", stops_at=0).outcome(), "STOPPED", "when 0 keys were done")
    held.release().check()


# ---- what a refusal tells: reason, place, holder, queue, and the gem's words ----

MESSAGE_SIZE = 1024  # RQL_REFUSAL_MESSAGE_SIZE


def lock_of(names):
    return f"rql:lock:{names[0]}"


def stand_in_front(world, names, score=None, acquirer=RUBY):
    world.ask("ZADD", f"rql:lock_queue:{names[0]}", score or int(time.time()), acquirer)


@scenario(counts=[1], is_timed=True)
def the_timeout_is_named_in_seconds(world, kind, names):
    """As Ruby prints an Integer or a Float of seconds, whatever the locale."""
    held, actor = world.held_by_another(*names), world.actor(kind)
    for timeout_ms, seconds in ((0, "0"), (50, "0.05"), (125, "0.125"), (1, "0.001"), (1000, "1")):
        outcome = actor.refused(*names, timeout_ms=timeout_ms).check("TIMED_OUT")
        message = f'Failed to acquire the lock "{lock_of(names)}" for the given <{seconds} seconds> timeout.'
        refusal = {name: outcome.refusal.get(name) for name in ("reason", "message", "holder", "queue")}
        check_equal(refusal, {"reason": STATUS["TIMED_OUT"], "message": message, "holder": None, "queue": None})
    held.release().check()


@scenario(counts=[1])
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


@scenario(counts=[1], in_cluster=False)  # where the harness shortens names
def a_long_message_is_cut(world, kind, names):
    """It is longer than there is room for."""
    held = world.held_by_another(*names)
    for i in range(60):
        stand_in_front(world, names, i + 1, f"rql:acq:{i}/2/3/4/0123456789abcdef")
    refusal = world.actor(kind).refused(*names, fail_fast=True, **DETAILED).refusal
    check_equal((len(refusal["message"]), len(refusal["queue"])), (MESSAGE_SIZE - 1, 60))
    held.release().check()


# ---- what is refused before anything is sent: names, ttls, metadata, options ----

TTL_MAX_MS = 2592000000
NAME_MAX, META_MAX_PAIRS, META_MAX_BYTES = 512, 64, 16384
BAD_NAMES = ("", "\x01", "a\nb", "a\x1f", "\x7f", "a\x7f b", "tab\t", "\r\nDEL", "\x1b[m", "n" * (NAME_MAX + 1))
GOOD_NAMES = ("x", " ", "%s%n", "{tag}:1", "\u00e4\u20ac", "a:b/c*[d]?\\\"'", "n" * NAME_MAX)
OF_THE_LOCK = ("acq_id", "hst_id", "ts", "ini_ttl", "lock_key", "rem_ttl", "spc_cnt", "spc_ext_ttl", "l_spc_ts",
               "l_spc_ext_ini_ttl", "rql_", "rql_nonce", "rql_token", "", "l_spc_ext_ts")
BAD_OPTIONS = (
    *({"ttl_ms": ttl_ms} for ttl_ms in (0, -1, -2 ** 63, TTL_MAX_MS + 1, 2 ** 62)),
    {"meta": {f"m{i}": "v" for i in range(META_MAX_PAIRS + 1)}},
    {"meta": {"m": "v" * META_MAX_BYTES}},
    *({"meta": {name: "v"}} for name in OF_THE_LOCK),
)
SECRET = "0" * 32


def check_invalid(actor, *names, **options):
    for tries in (False, True):
        outcome = actor.ask(*names, tries=tries, **options).outcome().check("E_INVALID")
        check(outcome.error, "it does not say why")


@scenario(in_cluster=False)  # where names are not as they are given
def bad_names_are_refused_by_every_call(world, kind, names):
    """In every place of a series."""
    actor = world.actor(kind)
    for bad in BAD_NAMES:
        for i in range(len(names)):
            check_invalid(actor, *names[:i], bad, *names[i + 1:])
        for do, words in (("force_unlock", {}), ("force_extend", {"add_ms": 1}), ("use_secret", {"secret": SECRET}),
                          ("inspect", {"of": "is_locked"}), ("inspect", {"of": "is_queued"}),
                          ("inspect", {"of": "lock"}), ("inspect", {"of": "queue"})):
            actor.begin(do, name=bad, **words).outcome().check("E_INVALID")
        actor.begin("check_until_free", names=[bad], options={}).outcome().check("E_INVALID")
    if len(names) > 1:
        check_invalid(actor, *names, names[0])  # twice
    check_equal(world.ask("DBSIZE"), 0)


@scenario()
def bad_options_are_refused(world, kind, names):
    actor = world.actor(kind)
    for bad in BAD_OPTIONS:
        check_invalid(actor, *names, **bad)
    check_equal(world.ask("DBSIZE"), 0)


@scenario(counts=[1], in_cluster=False)
def all_else_is_a_name(world, kind, _names):
    actor = world.actor(kind)
    for good in GOOD_NAMES:
        held = actor.acquire(good)
        check_equal((held.outcome.name, world.ask("EXISTS", f"rql:lock:{good}")), (good, 1))
        held.release().check()


@scenario()
def limits_may_be_reached(world, kind, names):
    actor = world.actor(kind)
    for options in ({"ttl_ms": TTL_MAX_MS}, {"meta": {f"m{i}": "v" for i in range(META_MAX_PAIRS)}},
                    {"meta": {"m": "v" * (META_MAX_BYTES - 1)}}):
        held = actor.acquire(*names, **{"ttl_ms": LONG_MS, **options})
        for name, value in options.get("meta", {}).items():
            check_equal(world.ask("HGET", f"rql:lock:{names[0]}", name), value)
        check(world.left_ms(names[0]) > options.get("ttl_ms", LONG_MS) - 20000, "another ttl")
        held.release().check()


@once
def bad_sweeps_are_refused(world, kind, _names):
    actor = world.actor(kind)
    for acq_id, hst_id in (("", "h"), ("a", ""), ("a", "i" * (NAME_MAX + 1))):
        sweep(actor, "owner", "E_INVALID", acq_id=acq_id, hst_id=hst_id)
    sweep(actor, "owner", acq_id="a", hst_id="i" * NAME_MAX)
    for of in ("all", "current", "dead"):
        sweep(actor, of, "E_INVALID", batch_size=0)
        sweep(actor, of)


if __name__ == "__main__":
    main()
