#!/usr/bin/env python3
"""A free lock at whose head a series stands is reserved for it. Who holds what the series waits for and asks for that
lock is served before it, or both would wait for ever; for everybody else a reservation ends after a while."""
import time

from harness import FOREVER, MINUTE_MS, Moment, Worker, check, check_equal, main, scenario
from others import Ruby

GIVE_UP_MS = 8000
SOON_US = 100000
RESERVED_US = 2000000
POLL_US = 225000     # of a Ruby, at most
SLACK_US = 700000    # a poll of ours, and what a busy machine adds
BRIEF_MS = 300       # less than a reservation lasts


class Field:
    """Three actors, each with a client that is told of hand-overs: `series` waits for a and b, `nested` holds b and
    wants a, and somebody else."""

    def __init__(self, world, kind, **options):
        self.world = world
        self.series, self.nested, self.third = (world.actor(kind, one) for one in world.told_clients(kind, **options))
        self.waiting = None

    def reserve(self):
        """b is held. a is free, and a series stands at its head."""
        self.waiting = self.series.ask("a", "b", timeout_ms=FOREVER)
        self.world.await_queue(["b"], 1)
        check_equal(self.world.holder("a"), None)

    def ask(self, actor, *names, place, **options):
        asking = actor.ask(*names, **{"timeout_ms": GIVE_UP_MS, **options})
        self.world.await_queue(["a"], place)
        return asking

    def end(self, *holds):
        """All are given back, and the series is served as well."""
        for held in holds:
            held.release().check()
        self.waiting.hold().release().check()
        self.world.await_nothing_left()


# ---- who holds what the series waits for ----

@scenario(counts=[1], is_timed=True)
def a_holder_has_what_is_reserved_for_who_waits_for_it(world, kind, _names):
    """What a loop holds counts for all its requests, and what a task holds for its own. It may ask by a series."""
    for wanted, options in ((["a"], {}), (["a"], {"task": 7}), (["a", "c"], {})):
        field = Field(world, kind)
        held = field.nested.acquire("b", ttl_ms=MINUTE_MS, **options)
        field.reserve()
        begun = Moment(world)
        inner = field.nested.acquire(*wanted, timeout_ms=GIVE_UP_MS, **options)
        begun.check_soon(inner, SOON_US)
        field.end(inner, held)


@scenario(counts=[1], is_timed=True)
def a_holder_that_left_its_lock_to_its_ttl_is_one(world, kind, _names):
    """As after the gem's lock without a block."""
    field = Field(world, kind)
    field.nested.acquire("b", ttl_ms=MINUTE_MS).forget()
    field.reserve()
    begun = Moment(world)
    inner = field.nested.acquire("a", timeout_ms=GIVE_UP_MS)
    begun.check_soon(inner, SOON_US)
    world.actor("thread").begin("force_unlock", name="b").outcome().check()
    field.end(inner)


@scenario(counts=[1], is_timed=True)
def a_holder_that_waits_already_is_served_first(world, kind, _names):
    """The circle is closed by a release: a was held by somebody else when both came. A Ruby between them may be a
    part of the circle; nobody can know."""
    for with_ruby in (False, True):
        field, ruby = Field(world, kind), Ruby(world)
        blocking = field.third.acquire("a", ttl_ms=MINUTE_MS)
        held = field.nested.acquire("b", ttl_ms=MINUTE_MS)
        field.waiting = field.series.ask("a", "b", timeout_ms=FOREVER)
        world.await_queue(["b"], 1)
        if with_ruby:
            check(not ruby.take("a"), "it took what is held")
        asking = field.ask(field.nested, "a", place=3 if with_ruby else 2)
        released = Moment(world)
        blocking.release().check()
        inner = asking.hold()
        released.check_soon(inner, SOON_US)
        ruby.give_up("a")
        ruby.close()
        field.end(inner, held)


@scenario(counts=[1], is_timed=True)
def a_series_of_a_holder_lets_another_holder_by(world, kind, _names):
    """It asks, and is marked itself: it may not keep for itself what it cannot take."""
    field, ruby = Field(world, kind), Ruby(world)
    check(ruby.take("a"), "it is free")
    held = field.nested.acquire("b", ttl_ms=MINUTE_MS)
    field.waiting = field.series.ask("a", "b", timeout_ms=FOREVER, nested=True)
    world.await_queue(["b"], 1)
    asking = field.ask(field.nested, "a", place=2)
    time.sleep(POLL_US / 1000000)  # the series watches: nothing shows when
    released = Moment(world)
    ruby.release("a")
    ruby.close()
    inner = asking.hold()
    released.check_soon(inner, SOON_US)
    field.end(inner, held)


@scenario(counts=[1], is_timed=True)
def a_gem_series_has_what_is_reserved_for_who_waits_for_it(world, kind, _names):
    """One after the other, and the last is reserved for a series that waits for the first."""
    field = Field(world, kind)
    blocking = field.third.acquire("c", ttl_ms=MINUTE_MS)
    asking = field.nested.ask("b", "c", "a", timeout_ms=GIVE_UP_MS, mode="gem")
    world.await_queue(["c"], 1)
    field.reserve()
    released = Moment(world)
    blocking.release().check()
    mine = asking.hold()
    released.check_soon(mine, SOON_US)
    field.end(mine)


@scenario(counts=[1], is_timed=True)
def a_ruby_that_holds_has_what_is_reserved(world, kind, _names):
    """lock { lock } of the gem: as soon as the series polls, and those between them have been served."""
    for with_company in (False, True):
        field, actor = Field(world, kind), world.actor("ruby")
        check(actor.ruby.take("b"), "it is free")
        field.reserve()
        idle = field.ask(field.third, "a", place=2, timeout_ms=FOREVER) if with_company else None
        begun = Moment(world)
        asking = actor.ask("a", timeout_ms=GIVE_UP_MS)
        if idle:
            idle.hold().release().check()
        mine = asking.hold()
        begun.check_soon(mine, (3 if with_company else 2) * POLL_US + SLACK_US)
        mine.release()
        actor.ruby.release("b")
        field.waiting.hold().release().check()
        world.ask("FLUSHALL")


# ---- for everybody else it ends ----

@scenario(counts=[1], is_timed=True)
def a_reservation_ends_for_others_later_each_time(world, kind, _names):
    field = Field(world, kind)
    held = field.third.acquire("b", ttl_ms=MINUTE_MS)
    field.reserve()
    times = []
    for _ in range(2):
        begun = Moment(world)
        mine = field.nested.acquire("a", timeout_ms=GIVE_UP_MS)
        times.append(mine.outcome.ts_us - begun.us)
        mine.release().check()
    check(RESERVED_US / 2 < times[0] < RESERVED_US + SLACK_US < times[1] < 2 * RESERVED_US + SLACK_US,
          f"after {times} us")
    field.end(held)


# ---- others come and go meanwhile ----

def reserved(world, kind):
    """a is reserved for a series that asks seldom; b and c are held for long."""
    for name in "bc":
        world.ask("HSET", f"rql:lock:{name}", "acq_id", "o", "hst_id", "h", "ts", "1.0", "ini_ttl", MINUTE_MS)
    field = Field(world, kind, retry_delay_ms=MINUTE_MS)
    field.reserve()
    return field


def end_reserved(world, field):
    world.ask("DEL", "rql:lock:b", "rql:lock:c")
    field.waiting.hold().release().check()


def wait_briefly(actor):
    outcome = actor.ask("a", timeout_ms=BRIEF_MS)
    if outcome.outcome().status == "OK":
        outcome.hold().release().check()


def wait_briefly_for_several(actor):
    actor.refused("a", "c", timeout_ms=BRIEF_MS)


def take_at_random(actor):
    mine = actor.acquire("a", timeout_ms=FOREVER, access_strategy="random")
    time.sleep(BRIEF_MS / 1000)
    mine.release().check()


def not_prolonged_by(do, what):
    """Somebody who holds nothing waits for a beside it."""
    def case(world, kind, _names):
        field = reserved(world, kind)
        begun = Moment(world)
        asking = field.ask(field.nested, "a", place=2)
        nuisance = Worker(lambda: do(field.third)) if do else None
        if not do:
            world.ask("HSET", "rql:req:a", "ruby", "9795370457159169 1795370454830280 0 1795370454.83 gone")
        mine = asking.hold()
        mine.release().check()
        if nuisance:
            nuisance.end()
        begun.check_soon(mine, RESERVED_US + SLACK_US + 200000)
        end_reserved(world, field)
    case.__name__ = f"a reservation is not prolonged by {what}"
    return case


for act, text in ((wait_briefly, "one who gives up"), (wait_briefly_for_several, "a series that gives up"),
                  (take_at_random, "one who takes at random"), (None, "a Ruby of the future")):
    scenario(counts=[1], is_timed=True)(not_prolonged_by(act, text))


if __name__ == "__main__":
    main()
