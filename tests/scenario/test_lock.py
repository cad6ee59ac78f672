#!/usr/bin/env python3
"""One lock: what is written, what it costs, whose it is, and what an operator may do to it."""
import re

from harness import FOREVER, Network, check, check_equal, main, once, scenario, wait_until
from pushes import Monitor, pushed

LONG_MS = 60000
TTL_MAX_MS = 30 * 24 * 3600 * 1000
MINE = {"task": 7}  # the requests of a loop are acquirers of their own, unless they say who they are
RUBY = "rql:acq:1/2/3/4/0123456789abcdef"


def lock_of(names):
    return f"rql:lock:{names[0]}"


def seconds(ts_us):
    """In the shortest form, as Ruby prints it: without the zeros at its end, but ".0" if whole."""
    text = f"{int(ts_us) // 1000000}.{int(ts_us) % 1000000:06}".rstrip("0")
    return text + "0" if text.endswith(".") else text


# ---- what is written ----

@scenario(counts=[1])
def the_fields_are_the_gems_in_the_gems_order(world, kind, names):
    world.ask("CONFIG", "SET", "hash-max-listpack-value", 1024)  # keeps the order of writing
    actor = world.actor(kind)
    held = actor.acquire(*names, ttl_ms=LONG_MS, meta={"job": "42", "place": "a b\nc"}, **MINE)
    words = world.ask("HGETALL", lock_of(names))
    ids = actor.begin("whoami", **MINE).outcome()
    check_equal(list(zip(words[::2], words[1::2])), [
        ("acq_id", ids.acq_id if kind != "loop" else held.outcome.acq_id), ("hst_id", held.outcome.hst_id),
        ("ts", seconds(held.outcome.ts_us)), ("ini_ttl", str(LONG_MS)), ("rql_nonce", held.outcome.secrets[0]),
        ("rql_token", str(int(held.tokens[0]))), ("job", "42"), ("place", "a b\nc")])
    check(50000 < world.left_ms(names[0]) <= LONG_MS, "its ttl is another one")
    check_equal(world.keys_left(), [lock_of(names)])
    held.release().check()


@once
def a_lock_bears_the_names_of_who_takes_it(world, kind, names):
    """In the gem's form, with the library's numbers of threads. Handles are used again, by whoever comes next."""
    client, numbers = world.client(world.remote()), {}
    actors = [world.actor("thread", client) for _ in range(2)]
    for actor in (*actors, actors[0], world.actor(kind)):
        held, ids = actor.acquire(*names), actor.begin("whoami").outcome()
        check_equal((held.outcome.acq_id, held.outcome.hst_id), (ids.acq_id, ids.hst_id))
        held.release().check()
        number = numbers.setdefault(actor, ids.hst_id.split("/")[1])
        ids, process = actor.begin("whoami", task=7).outcome(), f"{actor.remote.process.pid}/{number}"
        check_equal((ids.acq_id, ids.hst_id), (f"rql:acq:{process}/7/0/{ids.identity}",
                                               f"rql:hst:{process}/0/{ids.identity}"))
    check(0 < int(numbers[actors[0]]) != int(numbers[actors[1]]) > 0, numbers)


@scenario(counts=[1])
def tokens_rise_across_locks_clients_and_lost_data(world, kind, names):
    actors, last = [world.actor(kind), world.actor("thread")], 0
    for i in range(20):
        held = actors[i % 2].acquire(names[0] if i % 3 else "other")
        check(last < held.tokens[0] < 2 ** 53, f"{held.tokens[0]} after {last}")
        last = held.tokens[0]
        held.release().check()
        if i == 10:
            world.ask("FLUSHALL")


# ---- what it costs ----

@scenario()
def acquiring_and_releasing_cost_one_command_each(world, kind, names):
    """A series is released one by one."""
    actor = world.actor(kind)
    actor.settle(*names)
    monitor = Monitor(world)
    for _ in range(20):
        actor.acquire(*names).release().check()
    check_equal(monitor.count(), 20 * (1 + len(names)))


@scenario()
def a_refused_try_costs_one_command(world, kind, names):
    holder, actor = world.actor("thread"), world.actor(kind)
    for one in holder, actor:
        one.settle(*names)
    held, monitor = holder.acquire(*names, ttl_ms=LONG_MS), Monitor(world)
    check_equal(actor.refused(*names, tries=True, fail_fast=True).status, "FAIL_FAST_NO_TRY")
    check_equal(monitor.count(), 1)
    held.release().check()
    actor.ask(*names, tries=True).hold().release().check()


# ---- whose it is ----


@once
def the_secret_releases_and_extends_from_any_client(world, kind, names):
    other = world.actor("thread")

    def use(secret, name=names[0], **words):
        return other.begin("use_secret", name=name, secret=secret, **words).outcome().status
    for bad in ("", "0" * 31, "0" * 33, "0" * 31 + "g", "0" * 16 + " " + "0" * 15):
        check_equal((use(bad), use(bad, ttl_ms=1000)), ("E_INVALID", "E_INVALID"))
    held = world.actor(kind).acquire(*names, ttl_ms=LONG_MS)
    secret = held.outcome.secrets[0]
    check(re.fullmatch("[0-9a-f]{32}", secret), secret)
    for words in ({}, {"ttl_ms": 1}):
        check_equal((use("0" * 32, **words), use(secret, "other", **words)), ("NOT_HELD", "NOT_HELD"))
    check_equal([use(secret, ttl_ms=ttl_ms) for ttl_ms in (0, TTL_MAX_MS + 1)], ["E_INVALID"] * 2)
    check_equal(use(secret, ttl_ms=1000), "OK")
    check(world.left_ms(names[0]) > 2000, "it was shortened")
    check_equal(use(secret, ttl_ms=3600000), "OK")
    check(3000000 < world.left_ms(names[0]) <= 3600000, "it was not extended")
    check_equal((use(secret), use(secret)), ("OK", "NOT_HELD"))
    check_equal(world.keys_left(), [])
    check_equal(held.release().status, "NOT_HELD")


@once
def acquired_locks_are_those_in_force(world, kind, names):
    actor, other = world.actor(kind), world.actor("thread")

    def listed(one):
        return sorted(one.begin("inspect", of="acquired_locks").outcome().check().found)
    first, second = (actor.acquire(name, ttl_ms=LONG_MS) for name in ("a", names[0]))
    check_equal((listed(actor), listed(other)), (["a", names[0]], []))
    again = actor.acquire("a", conflict_strategy="work_through")
    check_equal(listed(actor), ["a", "a", names[0]])
    again.release().check()
    world.ask("DEL", "rql:lock:a")
    first.verify().check("NOT_HELD")
    check_equal(listed(actor), names)
    second.forget()
    check_equal(listed(actor), [])
    check_equal(first.release().status, "NOT_HELD")


# ---- how it ends ----

@scenario(counts=[1])
def an_extension_is_of_what_is_held(world, kind, names):
    held = world.actor(kind).acquire(*names, ttl_ms=20000)
    for ttl_ms in (90000, 1):
        held.extend(ttl_ms).check()
        check(70000 < world.left_ms(names[0]) <= 90000, "it is another ttl")
        check(70000 < held.remaining_ms() <= 89100, "its holder believes in another")
    check_equal([held.extend(ttl_ms).status for ttl_ms in (0, TTL_MAX_MS + 1)], ["E_INVALID"] * 2)
    held.extend(TTL_MAX_MS).check()
    world.ask("DEL", lock_of(names))
    check_equal((held.extend(90000).status, held.state()), ("NOT_HELD", "GONE"))
    check_equal(world.keys_left(), [])
    check_equal(held.release().status, "NOT_HELD")


@scenario(kinds=["thread"])
@scenario(kinds=["loop"], counts=[1])  # no call extends a series on a loop
def what_is_gone_is_not_extended(world, kind, names):
    """Somebody lets it live on, and its holder does not know: it goes by its own clock. The locks of a series are
    asked for all the same: others of them may be held."""
    held = world.actor(kind).acquire(*names, ttl_ms=1000)
    for name in names:
        world.ask("PEXPIRE", f"rql:lock:{name}", LONG_MS)
    wait_until(lambda: held.state() == "GONE", "it is gone")
    check_equal(held.extend(2 * LONG_MS).status, "NOT_HELD")
    check_equal((held.state(), held.remaining_ms()), ("GONE", 0))
    check(len(names) > 1 or 0 < world.left_ms(names[0]) <= LONG_MS, "it was extended")
    held.release().check()
    check_equal(world.keys_left(), [])


@scenario(counts=[1], is_timed=True)
def a_claim_that_is_lost_is_repeated(world, kind, names):
    """Of a lock that was handed over and forgotten: it is left to its whole ttl. At the end of a client what is still
    to be done is done first."""
    network = Network(world)
    for fault, ends in (("cut_after", False), ("cut_after", True), ("refuse", False), ("refuse", True)):
        held = pushed(world, world.actor(kind, network.client()), *names, ttl_ms=LONG_MS)
        if fault == "refuse":
            network.fail("refuse")
            network.fail("cut")
        else:
            network.fail("cut_after", n=0, direction="up")
        held.forget()
        network.heal()
        if ends:
            world.free(held.actor.client)
        wait_until(lambda: world.left_ms(names[0]) > 5000, "it is claimed")
        check(world.left_ms(names[0]) <= LONG_MS, "it lives for longer")
        if not ends:
            world.free(held.actor.client)
        world.ask("FLUSHALL")


@scenario(counts=[1])
def nobody_is_told_of_what_was_forgotten(world, kind, names):
    network = Network(world)
    held = pushed(world, world.actor(kind, network.client()), *names, ttl_ms=3000, auto_extend=True)
    network.fail("refuse")
    network.fail("cut")
    held.forget()
    n_before = len(held.losses())
    wait_until(lambda: not world.keys_left(), "it has ended")
    world.free(held.actor.client)
    check_equal(len(held.losses()), n_before)


# ---- what an operator does ----

def unlock(world, actor, names):
    outcome = actor.begin("force_unlock", name=names[0]).outcome().check()
    check_equal(world.ask("EXISTS", lock_of(names), f"rql:lock_queue:{names[0]}"), 0)
    return outcome.lock_released, outcome.queue_released


@once
def an_unlock_says_what_was_there(world, kind, names):
    actor, other = world.actor(kind), world.actor("thread")
    check_equal(unlock(world, other, names), (False, False))
    held = actor.acquire(*names, ttl_ms=LONG_MS)
    check_equal(unlock(world, other, names), (True, False))
    check_equal(held.release().status, "NOT_HELD")
    world.ask("ZADD", f"rql:lock_queue:{names[0]}", 1, RUBY)
    check_equal(unlock(world, other, names), (False, True))
    world.ask("ZADD", f"rql:lock_queue:{names[0]}", 1, RUBY)
    world.ask("HSET", lock_of(names), "acq_id", RUBY)
    check_equal(unlock(world, other, names), (True, True))


@once
def an_unlock_that_is_not_possible_names_what_stands_in_the_way(world, kind, names):
    queue = f"rql:lock_queue:{names[0]}"
    world.ask("SET", queue, "foreign")
    outcome = world.actor(kind).begin("force_unlock", name=names[0]).outcome()
    check_equal(outcome.status, "E_WRONG_TYPE")
    check(lock_of(names) in outcome.error, outcome.error)
    check_equal(world.ask("GET", queue), "foreign")
    world.ask("DEL", queue)
    world.ask("SET", lock_of(names), "foreign")
    for call in {"call": "force_unlock"}, {"call": "force_extend", "add_ms": -LONG_MS}, {"call": "force_extend", "add_ms": 1}:
        outcome = world.actor(kind).begin(call.pop("call"), name=names[0], **call).outcome()
        check_equal((outcome.status, world.ask("GET", lock_of(names))), ("E_WRONG_TYPE", "foreign"))
        check(lock_of(names) in outcome.error, outcome.error)
        check_equal(world.left_ms(names[0]), -1)
    world.ask("DEL", lock_of(names))
    for right in ("multi", "zremrangebyscore", "expire", "exec"):
        world.ask("ACL", "SETUSER", "limited", *f"reset on >pw ~* &* +@all -{right}".split())
        actor = world.actor(kind, url=world.server.url_with("limited:pw@"))
        outcome = actor.begin("force_unlock", name=names[0]).outcome()
        check_equal(outcome.status, "E_AUTH")
        check(f"no permissions to run the '{right}' command" in outcome.error, outcome.error)


def force_extend(actor, names, add_ms):
    return actor.begin("force_extend", name=names[0], add_ms=add_ms).outcome().status


@scenario(counts=[1])
def an_operator_extends_whoever_holds_the_lock(world, kind, names):
    """A server that is stalled within the script adds to it."""
    held, other = world.actor(kind).acquire(*names, ttl_ms=LONG_MS), world.actor("thread")
    for add_ms in (30000, -50000, 1):
        before_ms, begun_us = world.end_ms(names[0]), world.server.now_us()
        check_equal(force_extend(other, names, add_ms), "OK")
        more_ms = world.end_ms(names[0]) - before_ms - add_ms
        check(0 <= more_ms <= (world.server.now_us() - begun_us) / 1000 + 1, f"{more_ms} ms more")
    check_equal(world.ask("HMGET", lock_of(names), "ini_ttl", "spc_ext_ttl"), [str(LONG_MS), None])
    before_ms = world.end_ms(names[0])
    check_equal([force_extend(other, names, ms) for ms in (TTL_MAX_MS + 1, -TTL_MAX_MS - 1)], ["E_INVALID"] * 2)
    check_equal(world.end_ms(names[0]), before_ms)
    check_equal(force_extend(other, names, TTL_MAX_MS), "OK")
    check(TTL_MAX_MS / 2 < world.left_ms(names[0]) <= TTL_MAX_MS, "it is not kept within 30 days")
    held.release().check()


@scenario(counts=[1])
def an_extension_below_zero_ends_the_lock(world, kind, names):
    """One without ttl has -1, as far as the gem knows."""
    held, other = world.actor(kind).acquire(*names, ttl_ms=LONG_MS), world.actor("thread")
    check_equal([force_extend(other, names, ms) for ms in (-TTL_MAX_MS, 30000, -1)], ["OK", "NOT_FOUND", "NOT_FOUND"])
    check_equal(world.keys_left(), [])
    check_equal(held.release().status, "NOT_HELD")
    world.ask("HSET", lock_of(names), "acq_id", RUBY)
    check_equal(force_extend(other, names, 20000), "OK")
    check(0 < world.left_ms(names[0]) <= 19999, "it has no ttl")


# ---- waiting until it is free, without taking it ----

def look(actor, names, **options):
    return actor.begin("check_until_free", names=names, options={"timeout_ms": FOREVER, **options})


@scenario(kinds=["thread"], counts=[1], is_timed=True)
def a_look_at_a_held_lock_comes_to_its_limits(world, kind, names):
    held, actor = world.actor("thread").acquire(*names, ttl_ms=LONG_MS), world.actor(kind, retry_jitter_ms=0)
    for status, text, n_looks, least_us, options in (
            ("FAIL_FAST_NO_TRY", "held, as seen 1 time", 1, 0, {"fail_fast": True}),
            ("RETRY_LIMIT", "held, as seen 3 times", 3, 199000, {"retry_count": 3, "retry_delay_ms": 100}),
            ("TIMED_OUT", "still held after 200 ms", 2, 199000, {"retry_delay_ms": 3600000, "timeout_ms": 200})):
        before = world.n_calls("hexists")
        outcome = look(actor, names, **options).outcome()
        check_equal((outcome.status, outcome.error), (status, f"{names[0]}: {text}"))
        check_equal(world.n_calls("hexists") - before, n_looks)
        check(outcome.took_us >= least_us, f"after {outcome.took_us} us")
    check_equal(world.keys_left(), [lock_of(names)])
    held.release().check()
    look(actor, names).outcome().check()


@once
def a_look_without_the_right_to_see_the_ttl_is_refused(world, kind, names):
    """A ttl of ages is one all the same."""
    held, actor = world.held_by_another(*names), world.actor(kind)
    world.ask("ACL", "SETUSER", "default", "-pttl")
    status = look(actor, names, retry_count=2, retry_delay_ms=10).outcome().status
    world.ask("ACL", "SETUSER", "default", "+@all")
    check_equal(status, "E_AUTH")
    world.ask("PEXPIRE", lock_of(names), 9 * 10 ** 18)
    look(actor, names, retry_count=2, retry_delay_ms=10).outcome().check("RETRY_LIMIT")
    held.release().check()


@once
def the_possible_hosts_are_those_of_the_live_threads(world, kind, names):
    """A thread that was joined is one of them until the kernel has cleared it away."""
    actor = world.actor(kind)
    others = [world.actor(kind, actor.client) for _ in range(4)]

    def hosts():
        return actor.begin("inspect", of="possible_hosts").outcome().check().found
    mine, *theirs = [one.begin("whoami").outcome().hst_id for one in (actor, *others)]
    check_equal([hosts().count(host) for host in (mine, *theirs)], [1] * 5)
    for one in others:
        world.actors.remove(one)
        one.end()
    wait_until(lambda: not set(theirs) & set(hosts()), "they have gone")
    check_equal(hosts().count(mine), 1)


@once
def a_look_ends_when_the_lock_does(world, kind, names):
    """By a release, or at the end of its ttl: not at the next look."""
    actor = world.actor(kind)
    held, before = world.actor("thread").acquire(*names, ttl_ms=LONG_MS), world.n_calls("hexists")
    looking = look(actor, names, retry_delay_ms=20)
    wait_until(lambda: world.n_calls("hexists") >= before + 3, "it looks")
    held.release().check()
    looking.outcome().check()
    world.ask("HSET", lock_of(names), "acq_id", RUBY)
    world.ask("PEXPIRE", lock_of(names), 400)
    look(actor, names, retry_delay_ms=3600000).outcome().check()
    check_equal(world.keys_left(), [])
    world.ask("SET", lock_of(names), "foreign")
    check_equal(look(actor, names).outcome().status, "E_WRONG_TYPE")


if __name__ == "__main__":
    main()
