#!/usr/bin/env python3
"""What is held: extended, renewed, entered again, forgotten, lost."""

from harness import FOREVER, check, check_equal, main, scenario, wait_until

LONG_MS = 60000


def left_ms(world, names):
    return min(world.ask("PTTL", f"rql:lock:{name}") for name in names)


@scenario(kinds=["thread", "process"])
def an_extension_lasts_from_now_and_never_shortens(world, kind, names):
    held = world.actor(kind).acquire(*names, ttl_ms=2000)
    held.extend(LONG_MS).check()
    check(left_ms(world, names) > 50000, "it was not extended")
    held.extend(1000).check()
    check(left_ms(world, names) > 50000, "it was shortened")
    held.release().check()
    check_equal(world.keys_left(), [])


@scenario(kinds=["loop"], counts=[1])
def an_extension_on_a_loop_lasts_from_now(world, kind, names):
    held = world.actor(kind).acquire(*names, ttl_ms=2000)
    held.extend(LONG_MS).check()
    check(left_ms(world, names) > 50000, "it was not extended")
    held.release().check()


@scenario(is_timed=True)
def a_renewed_lock_outlives_its_ttl(world, kind, names):
    """Also if the server forgets the scripts again and again."""
    for forgets in (False, True):
        held = world.actor(kind).acquire(*names, ttl_ms=400, auto_extend=True)
        began = world.server.now_us()

        def time_passes(forgets=forgets, began=began):
            if forgets:
                world.ask("SCRIPT", "FLUSH")
            return world.server.now_us() - began > 1500000
        wait_until(time_passes, "three ttl pass")
        check_equal([world.holder(name) for name in names], [held.outcome.acq_id] * len(names))
        check_equal(held.state(), "HELD")
        held.release().check()
        check_equal(world.keys_left(), [])


@scenario(kinds=["thread", "process"])
def renewal_ends_with_its_thread(world, kind, names):
    actor = world.actor(kind)
    other = world.actor("thread", actor.client)
    held = actor.acquire(*names, ttl_ms=400, auto_extend=True)
    world.actors.remove(actor)
    actor.end()
    wait_until(lambda: not world.keys_left(), "it ends")
    held.actor = other
    check_equal(held.state(), "GONE")
    held.release().check("NOT_HELD")


@scenario(kinds=["process"])
def a_renewed_lock_of_the_dead_ends_by_its_ttl(world, kind, names):
    actor = world.actor(kind)
    actor.acquire(*names, ttl_ms=1000, auto_extend=True)
    world.kill(actor)
    left = [world.ask("PTTL", f"rql:lock:{name}") for name in names]
    check(all(ms <= 1000 and ms != -1 for ms in left), f"ms left of its ttl, or -1 for ever: {left}")
    world.actor("thread").acquire(*names, timeout_ms=FOREVER).release().check()
    world.await_nothing_left()


@scenario()
def what_is_taken_away_is_told_and_released_as_lost(world, kind, names):
    held = world.actor(kind).acquire(*names, ttl_ms=600, auto_extend=True)
    world.ask("DEL", *[f"rql:lock:{name}" for name in names])
    wait_until(held.is_lost, "the loss is told")
    check_equal(held.state(), "GONE")
    check_equal(held.release().status, "NOT_HELD")


@scenario()
def an_overrun_lock_is_gone_and_its_next_holder_keeps_it(world, kind, names):
    late = world.actor(kind).acquire(*names, ttl_ms=200)
    held = world.actor("thread").acquire(*names, ttl_ms=LONG_MS, timeout_ms=FOREVER)
    check_equal(late.state(), "GONE")
    check(held.tokens[0] > late.tokens[0], "the token does not rise")
    check_equal(late.release().status, "NOT_HELD")
    check_equal(world.holder(names[0]), held.outcome.acq_id)
    held.release().check()


@scenario(kinds=["thread", "process"], counts=[1])
def a_lock_is_entered_again_by_its_strategy(world, kind, names):
    actor = world.actor(kind)
    held = actor.acquire(*names, ttl_ms=2000)
    again = actor.acquire(*names, conflict_strategy="work_through")
    check_equal((again.outcome.process, again.tokens), (1, held.tokens))
    longer = actor.acquire(*names, conflict_strategy="extendable_work_through", ttl_ms=LONG_MS)
    check_equal(longer.outcome.process, 2)
    check(left_ms(world, names) > 50000, "what it asked for was not added")
    check_equal(actor.refused(*names, conflict_strategy="dead_locking").status, "CONFLICT")
    longer.release().check()
    check(left_ms(world, names) <= 2500, "what it did not use is still there")
    again.release().check()
    check_equal(world.holder(names[0]), held.outcome.acq_id)
    held.release().check()
    check_equal(world.keys_left(), [])


@scenario(kinds=["thread", "process"], is_timed=True)
def a_series_shares_what_its_acquirer_holds(world, kind, names):
    actor = world.actor(kind)
    held = actor.acquire(names[0], ttl_ms=LONG_MS)
    check_equal(actor.refused(*names, "more", timeout_ms=0).status, "CONFLICT")
    shared = actor.acquire(*names, "more", conflict_strategy="work_through")
    check_equal(shared.tokens[0], held.tokens[0])
    shared.release().check()
    check_equal(world.holder(names[0]), held.outcome.acq_id)
    held.release().check()
    check_equal(world.keys_left(), [])


@scenario()
def what_is_forgotten_lives_until_its_ttl(world, kind, names):
    world.actor(kind).acquire(*names, ttl_ms=1500).forget().check()
    check(0 < left_ms(world, names) <= 1500, "it is gone, or renewed")
    world.await_nothing_left()


@scenario(counts=[1])
def a_holder_may_ask_the_server_whether_it_still_holds(world, kind, names):
    held = world.actor(kind).acquire(*names, ttl_ms=LONG_MS)
    held.verify().check()
    world.ask("HSET", f"rql:lock:{names[0]}", "rql_nonce", "0" * 32)
    check_equal(held.verify().status, "NOT_HELD")
    check_equal(held.state(), "GONE")
    check_equal(held.release().status, "NOT_HELD")
    world.ask("DEL", f"rql:lock:{names[0]}")


if __name__ == "__main__":
    main()
