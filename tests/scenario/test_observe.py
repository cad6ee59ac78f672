#!/usr/bin/env python3
"""What a client tells of the life of locks: these lines and events, in this order, and no others."""
import itertools
import re

from harness import FOREVER, STATUS, check, check_equal, main, once, scenario, wait_until
from pushes import wait_told

MINE = {"task": 7}  # on a loop each request is an acquirer of its own, but for those of one task
TTL_MS = 60000
TRIES = 5
UNSET = {"rel_time_us": -1, "rel_key_cnt": -1, "tch_queue_cnt": -1, "at_us": -1, "lock_queue": None, "element": None}

ASKED = ["start_lock_obtaining", "start_try_to_lock_cycle"]
OBTAINED = ["lock_obtained", "! lock_obtained"]
SERIES_OBTAINED = ["lock_series_obtained", "! lock_series_obtained"]
GIVEN_UP = "fail_fast_or_limits_reached_or_deadlock__dequeue"


def begun(names):
    return ASKED if len(names) == 1 else ["start_lock_series_obtaining"]


def obtained(names):
    return begun(names) + OBTAINED * len(names) + (SERIES_OBTAINED if len(names) > 1 else [])


def released(names):
    if len(names) == 1:
        return ["expire_lock", "! lock_hold_and_release"]
    return ["expire_lock_series", "! lock_series_hold_and_release"]


class Tape:
    """What the clients of one remote tell."""

    def __init__(self, client):
        self.client, self.told, self.seen = client, client.remote.told, 0

    def new(self):
        """Lines as they are, events after "! ". The same several times on end is one: how often the server is asked
        is up to the clock."""
        lines, self.seen = self.told[self.seen:], len(self.told)
        entries = [words.get("line") or "! " + words["event"].split(".")[1]
                   for words in lines if "line" in words or "event" in words]
        return [entry for entry, _ in itertools.groupby(entries)]

    def check(self, *wanted):
        check_equal(self.new(), [entry for entry, _ in itertools.groupby(wanted)], "told")

    def last(self, name):
        return [words for words in self.told if words.get("event", "").endswith("." + name)][-1]

    def n_told(self, name=None):
        """Lines and events in the name of its client, or of a call that has listeners of its own."""
        told = [words for words in self.told if words.get("client") == (name or self.client.name)]
        return tuple(len([words for words in told if what in words]) for what in ("line", "event"))

    def check_counts(self, n_sampled, *n_told):
        check_equal((self.client.stats().n_sampled, self.n_told()), (n_sampled, n_told))


def told_actor(world, kind, listens=True, **options):
    """Of a remote of its own, and what is told of it."""
    client = world.client(world.remote(), events=listens, logs=listens, **options)
    return world.actor(kind, client), Tape(client)


def check_has(event, /, **wanted):
    check_equal({name: event[name] for name in wanted}, wanted, event["event"])


def check_is_of(event, outcome, names):
    """What all events of a held lock say, or of a series."""
    check_has(event, acq_id=outcome.acq_id, hst_id=outcome.hst_id, ttl_ms=outcome.ttl_ms, **UNSET)
    if len(names) == 1:
        check_has(event, lock_key=outcome.lock_key, lock_keys=[], ts_us=outcome.ts_us, token=outcome.tokens[0],
                  acq_time_us=outcome.waited_us)
    else:
        check_has(event, lock_key=None, lock_keys=[f"rql:lock:{name}" for name in names], token=-1)
        check(event["acq_time_us"] >= 0 and event["ts_us"] > 0, "no times")


# ---- a life ----

@scenario()
def locks_are_obtained_and_released(world, kind, names):
    actor, tape = told_actor(world, kind)
    held = actor.acquire(*names, ttl_ms=TTL_MS, instrument=True)
    tape.check(*obtained(names))
    event = tape.last(obtained(names)[-1][2:])
    check_is_of(event, held.outcome, names)
    check_has(event, hold_time_us=-1, instrument="marked")
    check(event["event"].startswith("redis_queued_locks."), event["event"])
    if kind == "thread":
        check_equal(event["thread"], actor.begin("whoami").outcome().thread, "its thread")
    held.release().check()
    tape.check(*released(names))
    ended = tape.last(released(names)[1][2:])
    check_has(ended, status=0, instrument="marked")
    check(ended["hold_time_us"] > 0, "it was not held")
    if len(names) == 1:
        check_is_of(ended, held.outcome, names)
    else:
        check_has(ended, acq_time_us=event["acq_time_us"])
        check(ended["ts_us"] > held.outcome.ts_us, f"ended at {ended['ts_us']}, held from {held.outcome.ts_us}")


@once
def what_is_left_to_its_ttl_is_not_told_of(world, kind, names):
    actor, tape = told_actor(world, kind)
    held = actor.acquire(*names)
    tape.check(*obtained(names))
    held.forget().check()
    tape.check()


@scenario(counts=[1])
def steps_of_a_try_are_logged_when_wanted(world, kind, names):
    actor, tape = told_actor(world, kind)
    held = actor.acquire(*names, log_lock_try=True)
    tape.check(*ASKED, "try_lock.start", "try_lock.rconn_fetched", "try_lock.obtain__free_to_acquire", *OBTAINED)
    held.release().check()
    tape.check(*released(names))


@scenario(counts=[3])
def locks_of_a_series_do_not_log_tries_of_their_own(world, kind, names):
    actor, tape = told_actor(world, kind)
    actor.acquire(*names, log_lock_try=True).release().check()
    tape.check(*obtained(names), *released(names))
    held = world.held_by_another(*names)
    asking = actor.ask(*names, log_lock_try=True, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    held.release().check()
    asking.hold().release().check()
    tape.check(*obtained(names), *released(names))


@scenario(counts=[1])
def re_entries_are_told(world, kind, names):
    """One that adds its ttl takes back what it has not used."""
    actor, tape = told_actor(world, kind)
    outer = actor.acquire(*names, **MINE)
    tape.check(*obtained(names))
    for strategy, word, ending in ("work_through", "reentrant_lock_obtained", []), (
            "extendable_work_through", "extendable_reentrant_lock_obtained", ["decrease_lock"]):
        inner = actor.acquire(*names, conflict_strategy=strategy, ttl_ms=20000, **MINE)
        tape.check(*ASKED, word, "! " + word)
        check_is_of(tape.last(word), inner.outcome, names)
        inner.release().check()
        tape.check(*ending, "! reentrant_lock_hold_completes")
        check_has(tape.last("reentrant_lock_hold_completes"), ttl_ms=20000)
    outer.release().check()
    tape.check(*released(names))


@scenario(counts=[1])
def extensions_are_told(world, kind, names):
    actor, tape = told_actor(world, kind)
    held = actor.acquire(*names)
    held.extend(90000).check()
    tape.check(*obtained(names), "! lock_extended")
    check_has(tape.last("lock_extended"), ttl_ms=90000, event="rql.lock_extended")
    held.release().check()
    tape.check(*released(names))


@scenario(counts=[1])
def what_is_shared_is_told(world, kind, names):
    actor, tape = told_actor(world, kind)
    held = actor.acquire(*names, ttl_ms=30000)
    check_has(tape.last("lock_obtained"), share_units=0)
    held.lower(share_units=2).check()
    tape.check(*obtained(names), "! lock_lowered")
    check_has(tape.last("lock_lowered"), share_units=2, token=held.tokens[0], event="rql.lock_lowered")
    held.release().check()
    tape.check(*released(names))
    held = actor.acquire(*names, share_units=3, share_limit=5)
    check_has(tape.last("lock_obtained"), share_units=3)
    held.release().check()
    stats = actor.client.stats()
    check_equal((stats.shares, stats.lowered, stats.acquisitions), (1, 1, 2))


# ---- the text of each line, as the gem prints it ----

IDS = "acq_id => 'A' hst_id => 'H' acs_strat => 'queued'"
TRIED = ["start_lock_obtaining", "start_try_to_lock_cycle", "try_lock.start", "try_lock.rconn_fetched"]
CONFLICT = [*TRIED, "try_lock.same_process_conflict_detected"]
ANALYZED = "try_lock.same_process_conflict_analyzed {common} spc_status => "
COMMON = f"lock_key => 'rql:lock:x' queue_ttl => 15 {IDS}"
LEFT = f"{GIVEN_UP} {COMMON[:-1]}"  # the gem leaves this quote open
THROUGH, EXTENDED, DEAD = "'conflict_work_through'", "'extendable_conflict_work_through'", "'conflict_dead_lock'"


VARYING = ((r"rql:acq:[^']*", "A"), (r"rql:hst:[^']*", "H"), (r"\d+\.\d+ \(ms\)", "T (ms)"),
           (r"last_(spc|ext)_ts => '\d{10}\.\d+'", r"last_\1_ts => 'S'"),
           (r"decreased_ttl => \d+", "decreased_ttl => N"))


def texts_of(tape):
    """The new lines, without what differs from run to run."""
    lines = [words["log"] for words in tape.told[tape.seen:] if "log" in words]
    tape.seen = len(tape.told)
    for pattern, instead in VARYING:
        lines = [re.sub(pattern, instead, line) for line in lines]
    return lines


def check_texts(tape, *wanted):
    """A name alone stands for a line that says only what all lines do."""
    check_equal(texts_of(tape), [f"[redis_queued_locks.{line.split()[0]}] "
                                 + (line.partition(" ")[2].format(common=COMMON) or COMMON) for line in wanted])


def refused_in_time(world, actor, tape, name, **options):
    """As actor.refused(). If a busy server has not confirmed the withdrawal in 50 ms, the outcome is not known. Then
    the actor asks once more, after the withdrawal."""
    for _ in range(TRIES):
        outcome = actor.refused(name, **options)
        if outcome.status != "E_UNKNOWN":
            break
        wait_until(lambda: world.queue_length(name) == 0, "it is withdrawn")
        texts_of(tape)
    return outcome


@once
def each_line_has_the_text_that_the_gem_prints(world, kind, _names):
    actor, tape = told_actor(world, kind)
    options = {"log_lock_try": True, "queue_ttl_ms": 15000, **MINE}
    outer = actor.acquire("x", **options)
    check_texts(tape, *TRIED, "try_lock.obtain__free_to_acquire", "lock_obtained {common} acq_time => T (ms)")
    actor.acquire("x", conflict_strategy="work_through", **options).release().check()
    check_texts(tape, *CONFLICT, ANALYZED + THROUGH, "try_lock.reentrant_lock__work_through {common} "
                f"spc_status => {THROUGH} last_spc_ts => 'S'", "reentrant_lock_obtained {common} acq_time => T (ms)")
    actor.acquire("x", conflict_strategy="extendable_work_through", ttl_ms=20000, **options).release().check()
    check_texts(tape, *CONFLICT, ANALYZED + EXTENDED, "try_lock.reentrant_lock__extend_and_work_through {common} "
                f"spc_status => {EXTENDED} last_ext_ttl => 20000 last_ext_ts => 'S'",
                "extendable_reentrant_lock_obtained " + IDS.replace("hst_id", "host_id").join(
                    ["lock_key => 'rql:lock:x' queue_ttl => 15 ", " acq_time => T (ms)"]),
                f"decrease_lock lock_key => 'rql:lock:x' decreased_ttl => N queue_ttl => 15 {IDS}")
    actor.refused("x", conflict_strategy="dead_locking", **options).check("CONFLICT")
    check_texts(tape, *CONFLICT, ANALYZED + DEAD, "try_lock.single_process_lock_conflict__dead_lock {common} "
                f"spc_status => {DEAD} last_spc_ts => 'S'", LEFT)
    refused = refused_in_time(world, actor, tape, "x", timeout_ms=0, log_lock_try=True, queue_ttl_ms=15000, task=8)
    refused.check("TIMED_OUT")
    check_texts(tape, *TRIED, "try_lock.acq_added_to_queue",
                "try_lock.get_first_from_queue {common} first_acq_id_in_queue => 'A'", LEFT)
    outer.release().check()
    check_texts(tape, "expire_lock")
    actor.acquire("b", "a", queue_ttl_ms=15000).release().check()
    lines = texts_of(tape)
    keys = """lock_keys => '["rql:lock:b", "rql:lock:a"]'"""
    check_equal([lines[0], *lines[3:]],
                [f"[redis_queued_locks.start_lock_series_obtaining] {keys}queue_ttl => 15 {IDS}",
                 f"[redis_queued_locks.lock_series_obtained] {keys} queue_ttl => 15 {IDS} acq_time => T (ms)",
                 f"[redis_queued_locks.expire_lock_series] {keys} queue_ttl => 15 {IDS}"])


# ---- refusals ----

@scenario()
def a_refusal_says_why(world, kind, names):
    """It tells of a series as one."""
    held, (actor, tape) = world.held_by_another(*names), told_actor(world, kind)
    foreign = f"rql:lock:{names[-1]}"

    def check_refused(status, *lines, event="lock_failed", **options):
        outcome = actor.refused(*names, ttl_ms=TTL_MS, **options).check(status, "E_UNKNOWN")
        if outcome.status != status:  # no answer to its withdrawal
            tape.new()
            return
        tape.check(*begun(names), *lines, "! " + event)
        check_has(tape.last(event), status=outcome.words["status"], ttl_ms=TTL_MS, token=-1, ts_us=-1, **UNSET)
        check_has(tape.last(event), lock_key=f"rql:lock:{names[0]}" if len(names) == 1 else None)
        check(tape.last(event)["acq_time_us"] >= 0, "it did not wait")

    given_up = [GIVEN_UP] if len(names) == 1 else []
    check_refused("FAIL_FAST_NO_TRY", fail_fast=True)
    check_refused("TIMED_OUT", *given_up, event="lock_timed_out", timeout_ms=200)
    check_refused("RETRY_LIMIT", *given_up, retry_count=1, timeout_ms=FOREVER)
    if len(names) == 1:
        check_refused("QUEUE_FULL", max_waiters=0, timeout_ms=FOREVER)
    held.release().check()
    world.ask("SET", foreign, "text")
    check_refused("E_WRONG_TYPE", timeout_ms=FOREVER)
    world.ask("DEL", foreign)  # so that the request can be withdrawn


@scenario(counts=[1])
def a_conflict_is_a_refusal(world, kind, names):
    """A wait for oneself that never began has queued nothing."""
    actor, tape = told_actor(world, kind)
    held = actor.acquire(*names, auto_extend=True, **MINE)
    tape.check(*obtained(names))
    actor.refused(*names, conflict_strategy="dead_locking", **MINE).check("CONFLICT")
    tape.check(*ASKED, GIVEN_UP, "! lock_failed")
    actor.refused(*names, timeout_ms=FOREVER, **MINE).check("CONFLICT")
    tape.check("start_lock_obtaining", "! lock_failed")
    held.release().check()


@scenario(counts=[3])
def all_lines_of_a_series_name_one_acquirer(world, kind, names):
    for mode in "atomic", "gem":
        actor, tape = told_actor(world, kind)
        held = actor.acquire(*names, mode=mode)
        held.release().check()
        named = {re.search("rql:acq:[^']*", words["log"])[0] for words in tape.told if "log" in words}
        check_equal(named, {held.outcome.acq_id}, mode)


@once
def a_series_of_the_gem_tells_of_each_lock(world, kind, _names):
    held, (actor, tape) = world.held_by_another("c"), told_actor(world, kind)
    actor.refused("a", "b", "c", tries=True, mode="gem").check("FAIL_FAST_NO_TRY")
    each = ASKED + OBTAINED
    tape.check("start_lock_series_obtaining", *each, *each, *ASKED, "! lock_failed")
    check_has(tape.last("lock_failed"), lock_key="rql:lock:c")
    held.release().check()
    mine = actor.acquire("a", "b", "c", mode="gem")
    tape.check("start_lock_series_obtaining", *each * 3, *SERIES_OBTAINED)
    mine.release().check()
    tape.check(*released("abc"))


# ---- waiting, and losses ----

@scenario(counts=[1])
def a_hand_over_is_told(world, kind, names):
    held, (actor, tape) = world.held_by_another(*names), told_actor(world, kind)
    asking = wait_told(world, actor, *names, ttl_ms=TTL_MS)
    held.release().check()
    mine = asking.hold()
    handed_over = ["! lock_handed_over"] if mine.outcome.handed_over else []
    tape.check(*ASKED, "lock_obtained", *handed_over, "! lock_obtained")
    check(handed_over, "it had to ask")
    check_is_of(tape.last("lock_handed_over"), mine.outcome, names)
    mine.release().check()


@scenario(counts=[1])
def a_place_that_was_lost_is_told_and_counted(world, kind, names):
    held, (actor, tape) = world.held_by_another(*names), told_actor(world, kind)
    asking = actor.ask(*names, timeout_ms=FOREVER, queue_ttl_ms=30, retry_delay_ms=10, **MINE)
    wait_until(lambda: actor.remote.events("request_requeued"), "it goes to the tail")
    held.release().check()
    mine = asking.hold()
    check(actor.client.stats().requeued > 0, "it is not counted")
    check_equal(tape.new()[:4], [*ASKED, "dead_score_reached__reset_acquirer_position", "! request_requeued"])
    check_has(tape.last("request_requeued"), lock_key=f"rql:lock:{names[0]}", acq_id=mine.outcome.acq_id, token=-1)
    mine.release().check()


@scenario()
def a_loss_is_told_before_its_callback_runs(world, kind, names):
    """By a thread of the library's."""
    actor, tape = told_actor(world, kind)
    held = actor.acquire(*names, ttl_ms=3000, auto_extend=True)
    tape.check(*obtained(names))
    world.ask("DEL", *[f"rql:lock:{name}" for name in names])
    wait_until(lambda: len(held.losses()) == len(names), "each is told")
    told = ["event" if "event" in words else "callback" for words in actor.remote.told
            if words.get("lost") or words.get("event") == "rql.lock_lost"]
    check_equal(told, ["event", "callback"] * len(names))
    tape.check("! lock_lost")
    lost = tape.last("lock_lost")
    check_equal(lost["lock_key"], f"rql:lock:{held.losses()[-1]['name']}")
    if len(names) == 1:
        check_is_of(lost, held.outcome, names)
    if kind == "thread":
        check(lost["thread"] != actor.begin("whoami").outcome().thread, "it is the caller's thread")
    held.release().check("NOT_HELD")
    tape.check(*released(names))
    check_has(tape.last(released(names)[1][2:]), status=STATUS["NOT_HELD"])


# ---- operators ----

@once
def calls_for_operators_are_told(world, kind, _names):
    actor, tape = told_actor(world, kind)
    held = world.held_by_another("x")
    actor.begin("force_unlock", name="x").outcome().check()
    tape.check("! explicit_lock_release")
    event = tape.last("explicit_lock_release")
    check_has(event, lock_key="rql:lock:x", lock_queue="rql:lock_queue:x", acq_id=None)
    check(event["rel_time_us"] > 0 and event["at_us"] > 0, "no times")
    held.release().check("NOT_HELD")


@once
def sweeps_are_told(world, kind, _names):
    """But for a dry run."""
    actor, tape = told_actor(world, kind)
    held = world.held_by_another("x")
    owner = {"acq_id": held.outcome.acq_id, "hst_id": held.outcome.hst_id}
    actor.begin("sweep", of="all", dry_run=True).outcome().check()
    tape.check()
    for of, words, name, wanted in (
            ("owner", owner, "release_locks_of", {"rel_key_cnt": 1, "tch_queue_cnt": 0, **owner}),
            ("all", {}, "explicit_all_locks_release", {"rel_key_cnt": 0, "tch_queue_cnt": -1}),
            ("dead", {}, "swept", {"rel_key_cnt": -1, "tch_queue_cnt": 1, "event": "rql.swept"})):
        world.ask(*"ZADD rql:lock_queue:y 1.5 rql:acq:1/2/3/4/0123456789abcdef".split())
        if of == "all":
            world.ask("DEL", "rql:lock_queue:y")
        actor.begin("sweep", of=of, **words).outcome().check()
        tape.check("! " + name)
        check_has(tape.last(name), status=0, **wanted)
        check(tape.last(name)["rel_time_us"] > 0 and tape.last(name)["at_us"] > 0, "no times")
    actor.begin("sweep", of="all", stops_at=0).outcome().check("STOPPED")
    tape.check("! explicit_all_locks_release")
    check_has(tape.last("explicit_all_locks_release"), status=STATUS["STOPPED"])
    held.release().check("NOT_HELD")


# ---- sampled once for each acquisition; and nobody is asked when nobody listens ----

MANY = 300


def sampling(percent):
    return {"log_sampling_enabled": True, "log_sampling_percent": percent, "instr_sampling_enabled": True,
            "instr_sampling_percent": percent}


def sampled_actor(world, kind, answer, listens=True):
    """Its client has a sampler of its own, which always answers that."""
    return told_actor(world, kind, listens, also={"sampler": answer}, **sampling(15))


def live(actor, *names, **options):
    """If it is sampled, four lines and two events of a lock are written."""
    actor.acquire(*names, **options).release().check()


@scenario(counts=[1])
def no_percent_is_nearly_nothing(world, kind, names):
    """The gem's 0 is one of 101: more than 40 of 300 does not happen in the life of the universe, nor none of 4000. The
    whole life is told, or nothing of it."""
    actor, tape = told_actor(world, kind, **sampling(0))
    for _ in range(MANY):
        live(actor, *names)
    n_lines, n_events = tape.n_told()
    check(n_lines < 4 * 40 and n_events < 2 * 40, f"{n_lines} lines, {n_events} events")
    check_equal((n_lines % 4, n_events % 2), (0, 0))
    n_lives = MANY
    while tape.n_told()[0] == 0:
        check(n_lives < 4000, "nothing is ever told")
        live(actor, *names)
        n_lives += 1


@scenario(counts=[1])
def an_own_sampler_is_asked_once_for_a_life(world, kind, names):
    """And not at all for what is wanted anyway."""
    for answer in (False, True):
        actor, tape = sampled_actor(world, kind, answer)
        live(actor, *names)
        tape.check_counts(2, 4 * answer, 2 * answer)
        live(actor, *names, log_sample_this=True, instr_sample_this=True)
        tape.check_counts(2, 4 + 4 * answer, 2 + 2 * answer)


@scenario(counts=[3])
def a_series_is_sampled_as_one(world, kind, names):
    """Of the gem's all is told: 1 line of the series, 3 of each lock, 1 and 1 of the series."""
    for answer, mode in ((False, "atomic"), (True, "gem")):
        actor, tape = sampled_actor(world, kind, answer)
        live(actor, *names, mode=mode)
        tape.check_counts(2, *(12, 5) if answer else (0, 0))


@once
def calls_for_operators_are_sampled_each_if_somebody_listens(world, kind, names):
    """They have events only."""
    for answer, listens in ((False, True), (True, True), (True, False)):
        actor, tape = sampled_actor(world, kind, answer, listens)
        for n_calls, (do, words) in enumerate((("force_unlock", {"name": names[0]}), ("sweep", {"of": "all"})), 1):
            actor.begin(do, **words).outcome().check()
            tape.check_counts(n_calls * listens, 0, n_calls * (answer and listens))


@once
def no_sampler_is_asked_when_nobody_listens(world, kind, names):
    actor, tape = sampled_actor(world, kind, True, listens=False)
    live(actor, *names)
    tape.check_counts(0, 0, 0)


@scenario(counts=[1])
def one_call_may_have_listeners_of_its_own(world, kind, names):
    actor, tape = told_actor(world, kind)
    own = actor.ask(*names, also={"logs": True}).hold()
    own.release().check()
    check_equal((tape.n_told(own.name), tape.n_told()), ((4, 0), (0, 0)))
    live(actor, *names)
    check_equal((tape.n_told(own.name), tape.n_told()), ((4, 0), (4, 2)))


@scenario(counts=[1])
def a_listener_may_call_the_library(world, kind, names):
    """With the same client: it takes and releases another lock."""
    actor, tape = told_actor(world, kind, also={"calls_back": True})
    live(actor, *names)
    check_equal((tape.n_told()[1], actor.client.stats().acquisitions), (2, 3))


if __name__ == "__main__":
    main()
