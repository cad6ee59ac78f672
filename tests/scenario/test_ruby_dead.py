#!/usr/bin/env python3
"""A queue of both kinds in which some have died: no living one waits for them longer than it must, and nobody is
overtaken because of them."""
import time

from crowd import Crowd
from dead import plant_dead
from harness import FOREVER, Moment, as_they_end, check, main, scenario, wait_until
from others import Ruby
from pushes import line_up

POLL_US = 225000         # of a Ruby, at most
SLACK_US = 300000        # of a poll, on a busy machine
GRACE_US = 2000000
GRACE_MAX_US = 3000000   # of all dead Rubies together
N_DEAD = 5
LONG_IDENTITY = "0123456789abcdef" * 2


def check_nobody_waits(world, names):
    """What is known of the Rubies may stay for a while."""
    wait_until(lambda: not world.queue_length(names[0]), "the queue is empty")
    record = f"rql:req:{names[0]}"
    check(not world.ask("EXISTS", record) or world.ask("PTTL", record) > 0, "a record stays for ever")


def told_actor(world, kind):
    """Its client is told of hand-overs."""
    return world.actor(kind, world.told_clients(kind)[0])


def wait_as(world, actor, names, place):
    return line_up(world, [actor], *names, place=place)[0]


# ---- a living Ruby ----

def check_ruby_then_ours(world, names, ruby, behind, freed, limit_us=POLL_US + SLACK_US):
    """It was next, ours comes after it, and nobody lost a time that counts."""
    first = ruby.hold()
    check(not behind.is_over(), "ours came first")
    first.release()
    behind.hold().release().check()
    freed.check_soon(first, limit_us)
    check_nobody_waits(world, names)


def behind_dead_of_ours(count, **crowd):
    def case(world, kind, names):
        ours, held = told_actor(world, kind), world.held_by_another(*names)
        plant_dead(world, names, count, **crowd)
        ruby = world.actor("ruby").ask(*names)
        world.await_queue(names, count + 1)
        behind = wait_as(world, ours, names, count + 2)
        freed = Moment(world)
        held.release().check()
        check_ruby_then_ours(world, names, ruby, behind, freed)
    when = "just now" if crowd.get("is_fresh", True) else "long ago"
    process = " of one process" if "is_of_one" in crowd else ""
    case.__name__ = f"a ruby behind {count} of ours{process} killed {when} is next"
    return case


for one in ({"count": 1}, {"count": 1, "is_fresh": False}, {"count": 100}, {"count": 100, "is_of_one": True},
            {"count": 100, "is_fresh": False}):
    scenario(counts=[1], is_timed=True)(behind_dead_of_ours(**one))


@scenario(counts=[1], is_timed=True)
def a_ruby_behind_dead_of_ours_is_next_after_a_ruby(world, kind, names):
    """Nothing of ours frees the lock; the living one behind is told, or looks."""
    ours, holder = told_actor(world, kind), Ruby(world)
    check(holder.take(names[0]), "it is free")
    plant_dead(world, names, 1)
    ruby = world.actor("ruby").ask(*names)
    world.await_queue(names, 2)
    behind = wait_as(world, ours, names, 3)
    freed = Moment(world)
    holder.release(names[0])
    check_ruby_then_ours(world, names, ruby, behind, freed, GRACE_US + POLL_US)
    holder.close()


@scenario(counts=[1], is_timed=True)
def who_lives_and_does_not_hear_is_served_too(world, kind, names):
    """It asks by itself: nobody can keep its turn for it, but it comes back, and has one."""
    ours, held = told_actor(world, kind), world.held_by_another(*names)
    world.ask("ACL", "SETUSER", "limited", *"reset on >pw ~* &* +@all -subscribe".split())
    deaf = world.actor(kind, url=world.server.url_with("limited:pw@")).ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    ruby = world.actor("ruby").ask(*names)
    world.await_queue(names, 2)
    behind = wait_as(world, ours, names, 3)
    freed = Moment(world)
    held.release().check()
    for asking in as_they_end([deaf, ruby, behind]):
        mine = asking.hold()
        if asking is deaf:
            freed.check_soon(mine, GRACE_US)
        mine.release().check()
    check_nobody_waits(world, names)


# ---- dead Rubies ----

@scenario(counts=[1], is_timed=True)
def dead_rubies_cost_one_grace_together(world, kind, names):
    """From the release on; whoever waits has the lock when the time of the dead is over."""
    ours, held = told_actor(world, kind), world.held_by_another(*names)
    for i in range(N_DEAD):
        world.ask("ZADD", f"rql:lock_queue:{names[0]}", f"{time.time() - 1 + i / 1000000:.6f}",
                  f"rql:acq:30000/{i}/620/640/bbbbbbbbbbbbbbb1")
    asking = wait_as(world, ours, names, N_DEAD + 1)
    freed = Moment(world)
    held.release()
    mine = asking.hold()
    took_us = mine.outcome.ts_us - freed.us
    mine.release().check()
    check(took_us >= GRACE_US - 1000, f"after {took_us} us")
    freed.check_soon(mine, GRACE_MAX_US)
    check_nobody_waits(world, names)


# ---- both at work ----

@scenario(counts=[1])
def a_ruby_with_a_long_identity_does_not_starve(world, kind, names):
    """Beside three who hand over."""
    crowd = Crowd([world.actor(kind) for _ in range(3)], *names)
    world.actor("ruby", identity=LONG_IDENTITY).ask(*names).hold().release()
    crowd.end()


if __name__ == "__main__":
    main()
