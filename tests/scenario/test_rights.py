#!/usr/bin/env python3
"""A server that says no: a right is missing, it is busy, it is loading."""
import collections
import contextlib

from harness import (FOREVER, Connection, LeftOut, Refused, Worker, check, check_equal, check_handed_over, is_cluster,
                     main, scenario, wait_until)
from private_server import PrivateServer

LONG_MS = 60000
LEASE_MS = 1000
IMPATIENT_MS = 150
IO_TIMEOUT_MS = 300  # and what the end of a client may take that cannot withdraw
IMPATIENT = {"connect_timeout_ms": IO_TIMEOUT_MS, "io_timeout_ms": IO_TIMEOUT_MS}
ALL = "~* &* +@all"

# Whatever the library sends or its scripts call, but for what it cannot log in without.
RIGHTS = ("evalsha eval exists time hset hmget hget hdel hincrby hsetnx hexists pexpire pttl set zadd zrem zscore "
          "zrange zrank zcard zremrangebyscore del persist").split()


def allow(world, *rights):
    world.ask("ACL", "SETUSER", "limited", *" ".join(rights).split())


def limited(world, kind, *rights):
    """An actor of a user that may do no more."""
    allow(world, "reset on >Pw", *rights)  # as no folder of a server is called
    return world.actor(kind, url=world.server.url_with("limited:Pw@"), io_timeout_ms=IO_TIMEOUT_MS)


def check_told(outcome, right, *others):
    """Redis 7.0 does not say which command a script may not call."""
    if outcome.status == "E_AUTH":
        check(f"'{right}' command" in outcome.error or "can't run this command" in outcome.error
              or f"ACL SETUSER limited +{right};" in outcome.error, outcome.error)
    elif outcome.status.startswith("E_"):
        outcome.check(*others)


def check_residue(world, names, right):
    """Nothing that would last for ever."""
    keys = [f"rql:{part}:{name}" for part in ("lock", "lock_queue", "req") for name in names]
    check_equal([key for key in keys if world.ask("PTTL", key) == -1], [], f"without {right}")


def use_free_locks(world, actor, names, right):
    asking = actor.ask(*names, ttl_ms=LEASE_MS, timeout_ms=FOREVER)
    outcome = asking.outcome()
    check_told(outcome, right)
    if outcome.status == "OK":
        held = asking.hold()
        if actor.kind != "loop" or len(names) == 1:
            extended = held.extend(LEASE_MS)
            while extended.status == "E_UNKNOWN":
                extended = held.extend(LEASE_MS)
            check_told(extended, right)
        check_told(held.release(), right, "E_UNKNOWN")
    check_residue(world, names, right)


def wait_for_held_locks(world, actor, names, right):
    """Who may not withdraw either is not told that the request is gone; and a connection that was slow is made anew,
    for which there may be no time."""
    held = world.actor("thread").acquire(*names, ttl_ms=LONG_MS)
    check_told(actor.refused(*names, timeout_ms=IMPATIENT_MS), right, "E_UNKNOWN", "E_IO")
    check_residue(world, names, right)
    held.release().check()


def without(right):
    def case(world, kind, names):
        actor = limited(world, kind, ALL, "-" + right)
        use_free_locks(world, actor, names, right)
        wait_until(lambda: not any(world.holder(name) for name in names), "what was not released has ended")
        wait_for_held_locks(world, actor, names, right)
        world.free(actor.client)
        world.actor("thread").acquire(*names, timeout_ms=FOREVER).release().check()

    case.__name__ = f"a user without {right} is told and leaves nothing"
    return case


def losing(right):
    def case(world, kind, names):
        """What it releases goes to another, by its rights."""
        actor = limited(world, kind, ALL)
        held = actor.acquire(*names, ttl_ms=LONG_MS)
        asking = world.actor("thread").ask(*names, ttl_ms=LEASE_MS, timeout_ms=FOREVER)
        world.await_queue(names, 1)
        world.await_listeners(1)
        for name in names:  # only now: it has not ended before another waits for it
            world.ask("PEXPIRE", f"rql:lock:{name}", LEASE_MS)
        allow(world, "-" + right)
        check_told(held.release(), right, "E_UNKNOWN")
        check_residue(world, names, right)
        asking.hold().release().check("OK", "NOT_HELD")  # so short that it need not be claimed; it may have ended
        allow(world, "+" + right)
        wait_until(lambda: not any(world.holder(name) for name in names), "it has ended")

    case.__name__ = f"a user who loses {right} hands over or not"
    return case


for one in RIGHTS:
    scenario()(without(one))
    scenario(counts=[1])(losing(one))


OF_KEYS = ("resetkeys ~other:* &*", "~* &* -time")
OF_CHANNELS = ("~* resetchannels", "~* &* -publish -spublish")


@scenario()
def a_user_without_keys_or_channels_is_told(world, kind, names):
    """A node of a cluster is not asked about channels when nobody waits."""
    for limits in OF_KEYS if is_cluster() else OF_KEYS + OF_CHANNELS:
        actor = limited(world, kind, "+@all", limits)
        outcome = actor.refused(*names, timeout_ms=FOREVER)
        check_equal(outcome.status, "E_AUTH")
        check("Pw" not in outcome.error, outcome.error)
        check_residue(world, names, limits)
        world.free(actor.client)
    check_equal([world.holder(name) for name in names], [None] * len(names))


@scenario()
def a_user_without_channels_in_a_cluster_hands_over_to_who_asks(world, kind, names):
    """And asks by itself while it waits."""
    if not is_cluster():
        raise LeftOut("who may not publish is told: only in a cluster he is not")
    for limits in OF_CHANNELS:
        actor = limited(world, kind, "+@all", limits)
        check_handed_over(world, actor, world.actor(kind), names)
        check_handed_over(world, world.actor(kind), actor, names)
    world.await_nothing_left()


@scenario(in_cluster=False)  # where nobody gets in without it
def who_may_not_say_hello_or_finds_nobody_who_knows_it_logs_in(world, kind, names):
    """To some servers HELLO is a right like others, to ours it is none: only a new name takes it away."""
    with PrivateServer("--rename-command", "HELLO", "") as old:
        for url in (world.server.path, old.path):
            connection = Connection(url)
            connection.call("ACL", "SETUSER", "limited", "reset", "on", ">pw", *ALL.split(), "-hello")
            connection.close()
            actor = world.actor(kind, url=f"unix://limited:pw@{url}")
            actor.acquire(*names, timeout_ms=FOREVER).release().check()
            check_equal(world.actor(kind, url=f"unix://limited:no@{url}").refused(*names).status, "E_AUTH")


@scenario(kinds=["thread"])
def rights_that_come_back_are_used(world, kind, names):
    """While they are gone, the lock stands until its deadline."""
    actor = limited(world, kind, ALL)
    held = actor.acquire(*names, ttl_ms=LONG_MS)
    allow(world, "-evalsha -eval")
    check_equal(held.extend(2 * LONG_MS).status, "E_AUTH")
    check_equal(held.state(), "HELD")
    allow(world, "+@all")
    held.extend(2 * LONG_MS).check()
    held.release().check()


@scenario(counts=[1])
def a_full_server_still_hands_over(world, kind, names):
    """A hand-over takes no more memory than was there: a full server would keep a free lock from its waiters."""
    held = world.actor(kind).acquire(*names, ttl_ms=LONG_MS)
    asking = world.actor(kind).ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    world.await_listeners(1)
    world.ask("CONFIG", "SET", "maxmemory", 1)
    try:
        held.release().check()
        asking.hold().release().check()
    finally:
        world.ask("CONFIG", "SET", "maxmemory", 0)
    check_equal(world.keys_left(), [])


# ---- a server that is busy with a script ----

BUSY_FOR_10_S = "local begun = redis.call('TIME')[1] while redis.call('TIME')[1] - begun < 10 do end"


def is_busy(world):
    try:
        world.ask("PING")
    except Refused:
        return True
    return False


@contextlib.contextmanager
def busy(world):
    """It ends by itself, whatever becomes of the test."""
    script = world.server.connection(None)
    world.ask("CONFIG", "SET", "busy-reply-threshold", 1)
    script.tell("EVAL", BUSY_FOR_10_S, 0)
    wait_until(lambda: is_busy(world), "it is busy")
    try:
        yield
    finally:
        world.ask("SCRIPT", "KILL")
        with contextlib.suppress(Refused):  # that it was killed
            script.read()
        script.close()
        world.ask("CONFIG", "SET", "busy-reply-threshold", 5000)


@scenario()
def a_release_at_a_busy_server_is_made_up_for(world, kind, names):
    """It says no for longer than the caller waits. The lock would stay for the rest of its ttl."""
    client = world.client(**IMPATIENT)
    held = world.actor(kind, client).acquire(*names, ttl_ms=10 * LONG_MS)
    with busy(world):
        held.release().check("E_UNAVAILABLE", "E_UNKNOWN", "E_IO")  # it was slow to say so, or we to ask once more
    world.await_nothing_left()


# ---- a server that loads ----

SLOWLY = ("--key-load-delay", "300", "--loading-process-events-interval-bytes", "1024")


def knock(world, remote):
    """Returns the status that a fresh client is told. It is not patient: a node of a cluster says that it is down while
    it loads, for which a call waits as long as it may."""
    actor = world.actor("thread", world.client(remote, **IMPATIENT))
    outcome = actor.begin("force_extend", name="y", add_ms=1000).outcome()
    world.free(actor.client)
    return outcome.status


@scenario(counts=[1])
def a_server_that_loads_is_waited_for(world, kind, names):
    """What was held and waited for goes on where it was: it has refused, and lost nothing."""
    held = world.actor(kind).acquire(*names, ttl_ms=LONG_MS)
    asking = world.actor(kind).ask(*names, ttl_ms=LONG_MS, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    world.ask("EVAL", "for i = 1, 4000 do redis.call('set', 'k' .. i, i) end", 0)
    world.save()
    world.server.kill()
    remote, statuses = world.remote(), set()  # a process ends with the thread that started it
    knocker = Worker(lambda: statuses.add(knock(world, remote)))
    world.server.launch(*SLOWLY)
    knocker.end()
    world.reconnect()
    world.server.forget()
    check("E_UNAVAILABLE" in statuses, f"nobody was told that it loads: {statuses}")
    check(statuses <= {"E_UNAVAILABLE", "E_IO", "E_UNKNOWN", "NOT_FOUND"}, f"{statuses}")
    wait_until(lambda: held.state() == "HELD", "it is verified: a login without an answer leaves doubt")
    held.release().check()
    asking.hold().release().check()
    world.await_nothing_left()


def refusals(world):
    """What the server has refused: how often, by command, key or channel."""
    count = collections.Counter()
    for entry in world.ask("ACL", "LOG", 100):
        words = dict(zip(entry[::2], entry[1::2]))
        count[words["object"]] += words["count"]
    return count


@scenario(counts=[1], in_cluster=False)
def what_a_login_can_do_without_is_asked_once(world, kind, names):
    """However often the connections break: the server logs each refusal. Each wait also needs a subscription."""
    actor = limited(world, kind, "~rql:lock* ~rql:req:* ~rql:live ~rql:fence ~rql:era &rql:wake:*",
                    "+@all -info -client|info -client|kill")
    other = world.actor("thread")
    logged = None
    for _ in range(4):
        held = other.acquire(*names, ttl_ms=LONG_MS)
        asking = actor.ask(*names, timeout_ms=FOREVER)
        wait_until(lambda asking=asking: asking.is_over() or world.queue_length(names[0]) == 1, "it waits")
        check(not asking.is_over(), f"it does not wait: {asking.call.words}")
        held.release().check()
        asking.hold().release().check("OK", "E_UNKNOWN")
        logged = logged or refusals(world)  # connections that log in at the same moment each ask
        world.ask("CLIENT", "KILL", "USER", "limited")
    check({"info", "client|info"} <= set(logged), f"{logged}")
    check_equal(refusals(world), logged)


if __name__ == "__main__":
    main()
