#!/usr/bin/env python3
"""What a client has counted."""
import re

from harness import FOREVER, as_they_end, check, check_equal, is_cluster, main, once, scenario, wait_until

MINE = {"task": 7}  # on a loop each request is an acquirer of its own, but for those of one task


def numbers(stats):
    """All that was counted, flat."""
    for name, value in stats.words.items():
        if name in ("id", "status", "took_us", "openmetrics"):
            continue
        if isinstance(value, dict):
            yield from ((f"{name}.{part}", number) for part, number in value.items())
        else:
            yield name, value


def counted(client, *names):
    """What is not 0, but for times and what depends on how often the server was asked."""
    left_out = ("tries", "polls", "commands", "connections", "pushes",
                "tls_handshakes", "tls_resumed", *names)
    return {name: value for name, value in numbers(client.stats())
            if value and not name.endswith("_us") and name not in left_out}


@scenario()
def a_life_is_counted(world, kind, names):
    actor, n = world.actor(kind), len(names)
    check_equal([pair for pair in numbers(actor.client.stats()) if pair[1]], [], "before it")
    held = actor.acquire(*names)
    extends = kind == "thread" or n == 1
    if extends:
        held.extend(70000).check()
    held.release().check()
    stats = actor.client.stats()
    check_equal(counted(actor.client), {"acquisitions": n, "releases.released": n, "wait.count": n, "hold.count": n,
                                        **({"extensions": n} if extends else {})})
    check_equal((stats.tries, stats.polls, stats.connections), (1, 0, 1 + (kind == "loop" and is_cluster())))  # its map
    check(stats.commands >= 3 - (not extends), f"{stats.commands} commands")  # and scripts that it did not know
    check(stats.hold["sum_us"] > 0 and stats.wait["sum_us"] > 0, "it took no time")


COUNTERS = r'# TYPE (\w+) counter\n# HELP \1 .+\n(?:\1_total(?:\{[a-z]+="[a-z_]+"\})? \d+\n)+'
TIMES = (r'# TYPE (\w+_seconds) histogram\n# UNIT \2 seconds\n# HELP \2 .+\n(?:\2_bucket\{le="[\d.]+"\} \d+\n)+'
         r'\2_bucket\{le="\+Inf"\} (\d+)\n\2_count \3\n\2_sum [\d.]+\n')


@once
def counts_are_written_as_openmetrics(world, kind, names):
    """The lines of a family stand together, and bounds and counts of its buckets rise."""
    actor = world.actor(kind)
    for _ in range(3):
        actor.acquire(*names).release().check()
    text = actor.client.stats().openmetrics
    check(re.fullmatch(f"(?:{COUNTERS}|{TIMES})*# EOF\n", text), text)
    families = re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M)
    check_equal((len({name for name, _ in families}), [kind for _, kind in families].count("histogram")),
                (len(families), 3))
    for name, _ in families:
        buckets = [(float(bound), int(count)) for bound, count in
                   re.findall(rf'^{name}_bucket\{{le="(.+)"\}} (\d+)$', text, re.M)]
        check_equal(buckets, sorted(set(buckets)), name)
        check_equal([count for _, count in buckets], sorted(count for _, count in buckets), name)
    check("\nrql_wait_seconds_count 3\n" in text and len(families) > 15, text)


@scenario()
def refusals_are_counted_by_reason(world, kind, names):
    held, actor = world.held_by_another(*names), world.actor(kind)
    actor.refused(*names, retry_count=1, timeout_ms=FOREVER).check("RETRY_LIMIT")
    actor.refused(*names, timeout_ms=1).check("TIMED_OUT", "E_UNKNOWN")
    for _ in range(2):
        actor.refused(*names, fail_fast=True).check("FAIL_FAST_NO_TRY")
    held.release().check()
    world.ask("SET", f"rql:lock:{names[-1]}", "text")
    actor.refused(*names, fail_fast=True).check("E_WRONG_TYPE")
    world.ask("DEL", f"rql:lock:{names[-1]}")  # so that the request can be withdrawn
    actor.refused("").check("E_INVALID")  # it never began
    found = counted(actor.client, "refusals.timed_out", "faults.unknown")
    check_equal(found, {"refusals.retry_limit": 1, "refusals.fail_fast_no_try": 2, "faults.wrong_type": 1})


@scenario()
def conflicts_and_re_entries_are_counted(world, kind, names):
    actor, n = world.actor(kind), len(names)
    outer = actor.acquire(*names, **MINE)
    actor.refused(*names, conflict_strategy="dead_locking", **MINE).check("CONFLICT")
    check_equal(counted(actor.client), {"acquisitions": n, "refusals.conflict": 1, "wait.count": n})
    actor.acquire(*names, conflict_strategy="work_through", **MINE).release().check()
    outer.release().check()
    stats = actor.client.stats()
    check_equal((stats.acquisitions, stats.reentries, stats.releases["released"]), (n, n, 2 * n))


@scenario()
def a_request_that_was_removed_is_counted_when_it_is_back(world, kind, names):
    held, actor = world.held_by_another(*names), world.actor(kind)
    asking = actor.ask(*names, timeout_ms=FOREVER, retry_delay_ms=10, queue_ttl_ms=FOREVER)
    world.await_queue(names, 1)
    world.ask("DEL", f"rql:lock_queue:{names[0]}")
    world.await_queue(names, 1)
    held.release().check()
    asking.hold().release().check()
    stats = actor.client.stats()
    check_equal((stats.restored, stats.requeued), (1, 0))
    check(stats.polls >= 1, "it never asked again")


@scenario()
def renewals_and_losses_are_counted(world, kind, names):
    """Where the machine stands still for as long as that it is lost too early, and there is one more."""
    actor, n = world.actor(kind), len(names)
    held = actor.acquire(*names, ttl_ms=1500, auto_extend=True)
    wait_until(lambda: actor.client.stats().renewals >= 2 * n, "it is renewed")
    check_equal(counted(actor.client, "renewals"), {"acquisitions": n, "wait.count": n})
    world.ask("DEL", *[f"rql:lock:{name}" for name in names])
    wait_until(lambda: actor.client.stats().lost == n, "its loss is told")
    held.release().check("NOT_HELD")
    check_equal(counted(actor.client, "renewals", "hold.count"),
                {"acquisitions": n, "wait.count": n, "lost": n, "releases.not_held": n})


@once
def swept_keys_are_counted(world, kind, _names):
    actor = world.actor(kind)
    for name in "yz":
        world.ask("HSET", f"rql:lock:{name}", "acq_id", "a", "hst_id", "h", "ts", "1.5", "ini_ttl", 1)
    actor.begin("force_unlock", name="y").outcome().check()
    actor.begin("sweep", of="all").outcome().check()
    check_equal(counted(actor.client), {"swept_keys": 2})


@once
def a_series_of_the_gem_counts_its_locks(world, kind, _names):
    """Those that it had taken before it failed as well; a series of one step has taken none."""
    actor = world.actor(kind)
    for mode, n_taken in ("gem", 2), ("atomic", 0):
        before = counted(actor.client)
        held = world.held_by_another("c")
        actor.refused("a", "b", "c", tries=True, mode=mode).check("FAIL_FAST_NO_TRY")
        held.release().check()
        after = counted(actor.client)
        more = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}
        taken = dict.fromkeys(("acquisitions", "releases.released", "wait.count", "hold.count"), n_taken)
        check_equal(more, {"refusals.fail_fast_no_try": 1, **(taken if n_taken else {})}, mode)


@scenario(counts=[1])
def counts_of_many_add_up(world, kind, _names):
    """Every other round at a lock of its own."""
    client = world.client()
    actors = [world.actor(kind, client) for _ in range(8)]
    for i in range(20):
        names = [f"own{number}" if i % 2 else "shared" for number in range(8)]
        asked = [actor.ask(name, timeout_ms=FOREVER) for actor, name in zip(actors, names)]
        for asking in as_they_end(asked):
            asking.hold().release().check()
    stats = client.stats()
    check_equal([stats.acquisitions, stats.releases["released"], stats.wait["count"], stats.hold["count"]], [160] * 4)
    check(stats.hand_off["count"] <= stats.hand_overs, "more were timed than handed over")
    check(stats.tries >= 160 and stats.commands >= 320 - stats.hand_overs, "some were not counted")


if __name__ == "__main__":
    main()
