#!/usr/bin/env python3
"""What happens when the acquirer already holds the lock that it asks for."""

from harness import FOREVER, MINUTE_MS, Network, check, check_equal, main, once, scenario, wait_until

OUTER_MS = 50000
ADDED_MS = 200000
TASK = {"task": 7}  # the requests of a loop are acquirers of their own, unless they say who they are


def lock_of(names):
    return f"rql:lock:{names[0]}"


def field(world, names, name):
    return world.ask("HGET", lock_of(names), name)


def hold(world, kind, names, **options):
    """One who holds it, and may come again."""
    actor = world.actor(kind)
    return actor, actor.acquire(*names, **{"ttl_ms": OUTER_MS, **TASK, **options})


def enter(actor, names, strategy, ttl_ms=ADDED_MS, **options):
    return actor.acquire(*names, ttl_ms=ttl_ms, conflict_strategy=strategy, **{**TASK, **options})


def share(actor, names, **options):
    return enter(actor, names, "work_through", **options)


def extend(actor, names, **options):
    return enter(actor, names, "extendable_work_through", **options)


def give_back(*holds):
    for held in holds:
        held.release().check()


# ---- what a re-entry is ----

def check_added(world, actor, names, ttl_ms):
    """A server that is stalled within a script adds to the ttl."""
    before_ms, begun_us = world.end_ms(names[0]), world.server.now_us()
    inner = extend(actor, names, ttl_ms=ttl_ms)
    more_ms = world.end_ms(names[0]) - before_ms - ttl_ms
    check(0 <= more_ms <= (world.server.now_us() - begun_us) / 1000 + 1, f"{more_ms} ms more")
    return inner, begun_us


@scenario(counts=[1])
def extendable_work_through_adds_its_ttl(world, kind, names):
    actor, outer = hold(world, kind, names)
    second, _ = check_added(world, actor, names, 20000)
    check_equal((second.outcome.process, second.tokens), (2, outer.tokens))
    check_equal(round(float(field(world, names, "l_spc_ext_ts")) * 1000000), second.outcome.ts_us)
    third, _ = check_added(world, actor, names, 10000)
    fields = ("spc_cnt", "spc_ext_ttl", "l_spc_ext_ini_ttl", "ini_ttl", "l_spc_ts")
    check_equal([field(world, names, one) for one in fields], ["2", "30000", "10000", str(OUTER_MS), None])
    third.verify().check()
    before_ms = world.end_ms(names[0])
    third.forget()  # without a block the extension stays
    second.forget()
    check_equal(world.end_ms(names[0]), before_ms)
    outer.release().check()


@scenario(counts=[1])
def re_entries_keep_what_they_do_not_know(world, kind, names):
    """Metadata, and what another version or language may have written."""
    actor, outer = hold(world, kind, names)
    known = {"job": "42", "rql_newer": "7", "l_spc_newer": "odd", "rql_nonce": outer.outcome.secrets[0]}
    world.ask("HSET", lock_of(names), *[word for pair in known.items() for word in pair])
    share(actor, names).release().check()
    extend(actor, names).release().check()
    check_equal(field(world, names, "spc_cnt"), "2")
    check_equal({one: field(world, names, one) for one in known}, known)
    outer.release().check()


# ---- the end of an extension ----

def check_taken_back(world, names, inner, ttl_ms, begun_us, entered_us):
    """What was used stays; ttl - elapsed - 2 ms goes, as in the gem."""
    least_ms = (world.server.now_us() - entered_us) / 1000
    before_ms = world.end_ms(names[0])
    inner.release().check()
    back_ms = before_ms - world.end_ms(names[0])
    check(back_ms <= ttl_ms - least_ms - 1, f"{back_ms} ms were taken back")
    check(back_ms >= ttl_ms - (world.server.now_us() - begun_us) / 1000 - 4, f"only {back_ms} ms were taken back")


@scenario(counts=[1])
def the_end_of_an_extension_takes_back_what_was_not_used(world, kind, names):
    actor, outer = hold(world, kind, names)
    taken = []
    for ttl_ms in (20000, 10000):
        inner, begun_us = check_added(world, actor, names, ttl_ms)
        taken.append((inner, ttl_ms, begun_us, world.server.now_us()))
    end_us = world.server.now_us() + 100000
    wait_until(lambda: world.server.now_us() > end_us, "a part is used")
    for one in reversed(taken):
        check_taken_back(world, names, *one)
    check_equal([field(world, names, one) for one in ("spc_cnt", "spc_ext_ttl")], ["2", "30000"])
    outer.verify().check()
    outer.release().check()


@scenario(counts=[1])
def what_was_promised_outlives_the_end_of_an_extension(world, kind, names):
    actor, outer = hold(world, kind, names)
    inner, begun_us = extend(actor, names, ttl_ms=20000), world.server.now_us()
    outer.extend(MINUTE_MS).check()
    inner.release().check()
    check(world.left_ms(names[0]) <= MINUTE_MS, "more is left than was asked for")
    left_ms = world.left_ms(names[0])
    check(outer.remaining_ms() <= left_ms, f"it believes in more than {left_ms} ms")
    left_ms = outer.remaining_ms()  # the way of the release to the server is taken off once more
    check(left_ms >= 59398 - 2 * ((world.server.now_us() - begun_us) / 1000 + 1), f"{left_ms} ms are left")
    outer.release().check()


@scenario(counts=[1])
def who_relied_on_an_extension_is_told_of_its_end(world, kind, names):
    """It was to last for minutes: without the extension it ends with the outer hold."""
    actor, outer = hold(world, kind, names, ttl_ms=1000)
    extending, sharing = extend(actor, names), share(actor, names)
    check(sharing.remaining_ms() > ADDED_MS / 2, "it was not told of the extension")
    extending.release().check()
    wait_until(sharing.is_lost, "it is told")
    check_equal(sharing.release().status, "NOT_HELD")
    outer.forget()


@scenario()
def the_end_of_the_outer_hold_is_that_of_its_re_entries(world, kind, names):
    """Another acquirer may have the lock. Re-entries of other locks stand."""
    for options in ({}, {"lazy_release": True}):
        actor, outer = hold(world, kind, names, **options)
        other = actor.acquire("other", **TASK)
        inner, stays = share(actor, names), share(actor, ["other"])
        outer.release().check()
        check_equal([inner.state(), stays.state()], ["GONE", "HELD"])
        check_equal(inner.release().status, "NOT_HELD")
        give_back(stays, other)


# ---- who may not enter ----

@scenario(counts=[1], is_timed=True)
def waiting_for_a_lock_that_one_keeps_extending_is_a_conflict(world, kind, names):
    """Others wait. What was lost keeps nothing any more."""
    actor, outer = hold(world, kind, names, auto_extend=True)
    check_equal(actor.refused(*names, timeout_ms=FOREVER, **TASK).status, "CONFLICT")
    check_equal(actor.refused(*names, timeout_ms=50, task=8).status, "TIMED_OUT")
    world.ask("DEL", lock_of(names))
    wait_until(outer.is_lost, "the loss is told")
    actor.acquire(*names, timeout_ms=FOREVER, **TASK).release().check()
    check_equal(outer.release().status, "NOT_HELD")


@scenario(counts=[1], is_timed=True)
def a_lock_without_ttl_is_not_asked_for_in_a_loop(world, kind, names):
    """By an operator's PERSIST, for one. It cannot be relied on, and asking at once does not help."""
    actor, outer = hold(world, kind, names)
    world.ask("PERSIST", lock_of(names))
    before = world.n_scripts()
    outcome = actor.refused(*names, conflict_strategy="work_through", timeout_ms=500, **TASK)
    check_equal(outcome.status, "TIMED_OUT")
    check(world.n_scripts() - before < 60, f"{world.n_scripts() - before} questions")
    outer.release().check()


# ---- an answer is lost: asked for again, it is one all the same ----

class Lossy:
    """One behind a network that has just lost an answer: the server has done all, and nobody heard of it."""

    def __init__(self, world, kind):
        self.world, self.network = world, Network(world)
        self.actor = world.actor(kind, self.network.client())
        self.before = 0

    def lose_an_answer(self):
        self.before = self.network.count("connections")
        self.network.fail("cut_reply", n=1)

    def check_lost(self):
        check(self.network.count("connections") > self.before, "no answer was lost")


@scenario()
def a_re_entry_whose_answer_is_lost_counts_once(world, kind, names):
    """Also into a part of a series: an own lock, and others that are new."""
    lossy = Lossy(world, kind)
    for n_own in {1, len(names)}:
        own = [lossy.actor.acquire(name, ttl_ms=MINUTE_MS, **TASK) for name in names[:n_own]]
        lossy.lose_an_answer()
        inner = share(lossy.actor, names)
        lossy.check_lost()
        counts = [world.ask("HGET", f"rql:lock:{name}", "spc_cnt") for name in names]
        check_equal(counts, ["1"] * n_own + [None] * (len(names) - n_own))
        check_equal([world.token(name) for name in names], inner.tokens)
        give_back(inner, *own)
        check_equal(world.keys_left(), [])


@scenario(counts=[1])
def the_end_of_a_re_entry_takes_back_its_own_once(world, kind, names):
    """What another re-entry has added stays."""
    lossy = Lossy(world, kind)
    outer = lossy.actor.acquire(*names, ttl_ms=OUTER_MS, **TASK)
    first, second = extend(lossy.actor, names), extend(lossy.actor, names)
    lossy.lose_an_answer()
    second.release().check()
    lossy.check_lost()
    check(world.left_ms(names[0]) > OUTER_MS + ADDED_MS / 2, "what another added was taken back")
    give_back(first, outer)


@once
def a_release_by_secret_whose_answer_is_lost_has_released(world, kind, names):
    """The second attempt finds nothing: the first one has released it."""
    lossy = Lossy(world, kind)
    held = lossy.actor.acquire(*names, ttl_ms=MINUTE_MS)
    lossy.actor.acquire("warm").release().check()
    lossy.lose_an_answer()
    secret = held.outcome.secrets[0]
    lossy.actor.begin("use_secret", name=names[0], secret=secret).outcome().check()
    lossy.check_lost()
    check_equal(world.keys_left(), [])
    check_equal(held.release().status, "NOT_HELD")


@scenario(counts=[1])
def one_that_is_granted_while_the_outer_hold_is_released_is_lost(world, kind, names):
    """By another thread, or by the loop that waits for the answer."""
    network = Network(world)
    client = network.client(io_timeout_ms=MINUTE_MS)
    actor = world.actor(kind, client)
    releaser = actor if kind == "loop" else world.actor("thread", client)
    held = actor.acquire(*names, ttl_ms=OUTER_MS, **TASK)
    network.fail("freeze", direction="down")
    asking = actor.ask(*names, ttl_ms=OUTER_MS, conflict_strategy="work_through", **TASK)
    wait_until(lambda: field(world, names, "spc_cnt"), "it has entered")
    releasing = releaser.begin("release", lock=held.name)
    wait_until(lambda: not world.holder(names[0]), "the lock is released")
    network.heal()
    inner = asking.hold()
    releasing.outcome().check()
    wait_until(lambda: inner.state() == "GONE", "it is told")
    inner.release().check("NOT_HELD")


if __name__ == "__main__":
    main()
