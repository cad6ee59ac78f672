#!/usr/bin/env python3
"""Blocks that run under a lock or a series: a block runs until it is told to end."""
from harness import FOREVER, MINUTE_MS, check, check_equal, let_pass, main, scenario, wait_until

TTL_MS = 300
BY_RELEASE = 2  # rql_series_ending
VALUE = 42


class Block:
    """It begins to acquire, and runs until end()."""

    def __init__(self, actor, *names, **options):
        self.remote, self.name = actor.remote, f"block{next(actor.numbers)}"
        self.actor = actor
        self.call = actor.begin("block", names=names, lock=self.name, options=options)

    def runs(self):
        return any(words.get("runs") == self.name for words in self.remote.told)

    def await_running(self):
        wait_until(self.runs, "it runs")
        return self

    def end(self):
        if self.actor.kind == "loop":
            self.remote.do("end_block", lock=self.name, value=VALUE).check()
        else:
            self.actor.begin("leave", value=VALUE).outcome().check()
        outcome = self.call.outcome()
        check_equal(outcome.value, VALUE)
        return outcome


@scenario(kinds=["thread"])
@scenario(kinds=["loop"], counts=[1])  # no call runs a block under a series on a loop
def a_block_runs_under_its_locks(world, kind, names):
    block = Block(world.actor(kind), *names).await_running()
    check(all(world.holder(name) for name in names), "it runs without")
    check(not block.call.is_over(), "it is over")
    outcome = block.end().check()
    check_equal(world.keys_left(), [])
    if len(names) > 1:
        check_equal(outcome.result["ending"], BY_RELEASE)
        check(outcome.result["hold_time_us"] > 0, "it was not held")


@scenario(kinds=["thread"])
@scenario(kinds=["loop"], counts=[1])
def without_its_locks_a_block_does_not_run(world, kind, names):
    held, actor = world.held_by_another(*names), world.actor(kind)
    for status, options in (("FAIL_FAST_NO_TRY", {"fail_fast": True}), ("TIMED_OUT", {"timeout_ms": 20})):
        block = Block(actor, *names, **options)
        outcome = block.call.outcome().check(status, *["E_UNKNOWN"] * (status == "TIMED_OUT"))
        check_equal((outcome.value, block.runs()), (0, False))
    held.release().check()
    world.await_nothing_left()


@scenario(kinds=["thread"], is_timed=True)
@scenario(kinds=["loop"], counts=[1], is_timed=True)
def a_block_that_overran_is_told(world, kind, names):
    """Also if its lock was renewed all the time, and it did not last as long as that may."""
    actor = world.actor(kind)
    for status, text, options in (
            ("BLOCK_OVERRAN", f"the block ran longer than the ttl of {TTL_MS} ms", {"timed": True}),
            ("NOT_HELD", "not held any more", {})):
        block = Block(actor, *names, ttl_ms=TTL_MS, **options).await_running()
        wait_until(lambda: not world.keys_left(), "its time is over")
        outcome = block.end().check(status)
        check(text in outcome.error, outcome.error)
    block = Block(actor, *names, ttl_ms=TTL_MS, auto_extend=True, timed=True).await_running()
    let_pass(TTL_MS * 1.3 / 1000)
    block.end().check("BLOCK_OVERRAN")
    block = Block(actor, *names, ttl_ms=MINUTE_MS, timed=True).await_running()
    let_pass(2 * MINUTE_MS / 1000000)  # a mistake in the unit of time shows
    block.end().check()


@scenario(kinds=["thread"], counts=[3], is_timed=True)
def a_block_under_a_series_of_the_gem_has_the_bare_ttl(world, kind, names):
    """All locks live longer than that: it is told by the ttl that was asked for."""
    gem = {"mode": "gem", "ttl_ms": TTL_MS, "retry_count": 1, "retry_delay_ms": MINUTE_MS}
    actor = world.actor(kind)
    for status, is_timed in (("BLOCK_OVERRAN", True), ("OK", False)):
        block = Block(actor, *names, timed=is_timed, **gem).await_running()
        let_pass(TTL_MS * 1.3 / 1000)
        block.end().check(status)
    check_equal(world.keys_left(), [])


@scenario(kinds=["loop"], counts=[1])
def a_block_may_be_cancelled_before_it_runs(world, kind, names):
    held, actor = world.held_by_another(*names), world.actor(kind)
    block = Block(actor, *names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    actor.begin("cancel", of=block.call.number).outcome().check()
    block.call.outcome().check("CANCELLED")
    check(not block.runs(), "it ran")
    held.release().check()
    check_equal(world.keys_left(), [])


@scenario(counts=[1])
def a_block_is_told_of_as_it_goes(world, kind, names):
    client = world.client(world.remote(), events=True, logs=True)

    def n_told():
        return [len([words for words in client.remote.told if what in words]) for what in ("line", "event")]
    block = Block(world.actor(kind, client), *names).await_running()
    check_equal(n_told(), [3, 1])
    block.end().check()
    check_equal(n_told(), [4, 2])


if __name__ == "__main__":
    main()
