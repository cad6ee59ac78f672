#!/usr/bin/env python3
"""A master that sentinels watch: found, followed, and left at once when another is. RQL_TEST_LONG: with a thousand
locks held and waited for."""
import contextlib
import itertools
import os
import re
import time

from harness import (FOREVER, MINUTE_MS, SLOW, Proxy, as_they_end, check, check_equal, check_served_in_order,
                     check_told_as_lost, main, once, scenario, wait_until)
from pushes import line_up
from servers import servers
from watched import NAME, Node, Sentinel, Watched, await_asked, await_replicated, behind

FAR_S = 0.1  # one way
FAR_TIMEOUT_MS = 3000
CHECK_MS = 100  # the least
BACK_S = 5 * SLOW  # from when another is the master


def actor(world, kind, watched, **options):
    return world.actor(kind, events=True, url=watched.url(), **options)


def held_and_waited_for(world, kind, names, watched):
    """For a minute; and three that wait."""
    held = actor(world, kind, watched).acquire(*names, ttl_ms=MINUTE_MS)
    waiters = [actor(world, kind, watched) for _ in range(3)]
    with behind(world, watched):
        asked = line_up(world, waiters, *names, queue_ttl_ms=MINUTE_MS)
        world.await_listeners(3)
    return held, asked


def await_back(world, watched, n_clients):
    """They have asked at the new master, and are told there of hand-overs: who is not may be passed by."""
    with behind(world, watched):
        world.await_listeners(n_clients)
        await_asked(world, n_clients)


class UnderWay:
    """Calls of a client, each by an actor of its own, which are said to a master that does not answer any more."""

    def __init__(self, world, kind, watched):
        self.world, self.client = world, world.client(url=watched.url())
        *holders, waiter, self.late = (world.actor(kind, self.client) for _ in range(5))
        self.freed, self.longer, self.handed_on = (one.acquire(one.name, ttl_ms=MINUTE_MS) for one in holders)
        self.waiting = waiter.ask(*self.handed_on.names, timeout_ms=FOREVER, queue_ttl_ms=MINUTE_MS)
        with behind(world, watched):
            world.await_queue(self.handed_on.names, 1)

    def say(self):
        self.ends = [one.begin("release") for one in (self.freed, self.handed_on)]
        self.extension = self.longer.begin("extend", ttl_ms=MINUTE_MS)
        self.asking = self.late.ask("asked", timeout_ms=FOREVER)

    def check(self):
        """An extension is for its caller to repeat."""
        for call in self.ends:
            call.outcome(BACK_S).check()
        self.extension.outcome(BACK_S).check("OK", "E_UNKNOWN", "E_IO")
        self.longer.extend(MINUTE_MS).check()
        served, granted = self.waiting.hold(), self.asking.hold()
        check(served.tokens[0] > self.handed_on.tokens[0], "the token does not rise")
        for one in served, granted, self.longer:
            wait_until(lambda one=one: one.state() == "HELD", "it is verified")
            one.release().check()
        self.world.free(self.client)


def a_master_that(how):
    def case(world, kind, names):
        with Watched(n_sentinels=1) as watched:
            held, asked = held_and_waited_for(world, kind, names, watched)
            under_way = UnderWay(world, kind, watched)
            await_replicated(watched)
            old = watched.named()
            old.freeze()
            under_way.say()
            if how == "killed":
                old.kill()
            new = watched.await_next(old)
            under_way.check()
            await_back(world, watched, 3)
            wait_until(lambda: held.state() == "HELD", "it is verified")
            check_served_in_order(asked, held)
            check_equal(held.actor.client.stats().failovers, 1, "failovers")
            told = [words["server"] for words in held.actor.remote.events("master_changed")
                    if words["client"] == held.actor.client.name]
            check_equal(told, [f"127.0.0.1:{new.port}"], "masters")
            if old.process.poll() is None:
                old.go_on()
                watched.await_demotion(old)
                check_equal(old.n_clients(), 0, "clients that stayed")
            check(new.n_clients() > 0, "they are elsewhere")
            with behind(world, watched):
                world.await_nothing_left()
    case.__name__ = f"a master that is {how} is replaced, and all go on"
    return case


scenario(counts=[3])(a_master_that("killed"))
scenario(kinds=["thread"], counts=[1])(a_master_that("stopped"))


@scenario(counts=[1])
def shares_outlive_their_master(world, kind, _names):
    """Those that hold it keep their shares and slots, and those that wait get the next ones."""
    slot = {"share_units": 1, "share_limit": 2, "share_slots": True}
    patient = {"timeout_ms": FOREVER, "queue_ttl_ms": MINUTE_MS}
    with Watched(n_sentinels=1) as watched:
        held = [actor(world, kind, watched).acquire("gpu", ttl_ms=MINUTE_MS, **slot) for _ in range(2)]
        with behind(world, watched):
            asked = [one.ask("gpu", **slot, **patient) for one in [actor(world, kind, watched) for _ in range(2)]]
            world.await_queue(["gpu"], 2)
        await_replicated(watched)
        old = watched.named()
        old.kill()
        watched.await_next(old)
        await_back(world, watched, 2)
        for one in held:
            wait_until(lambda one=one: one.state() == "HELD", "it is verified")
            check_equal(one.losses(), [])
        with behind(world, watched):
            check_equal(world.ask("ZCARD", "rql:shares:gpu"), 2)
        check(not any(asking.is_over() for asking in asked), "a third has one of two slots")
        for one in held:
            one.release().check()
        late = [asking.hold() for asking in asked]
        check(min(one.tokens[0] for one in late) > max(one.tokens[0] for one in held), "the tokens do not rise")
        for one in late:
            one.release().check()
        with behind(world, watched):
            world.await_nothing_left()


@scenario(counts=[1])
def a_grant_that_was_not_replicated_is_told_as_lost(world, kind, names):
    """Soon after the new master answers, and not when it would be renewed. A later token is larger."""
    with Watched(n_replicas=1, n_sentinels=1) as watched:
        one = actor(world, kind, watched)
        one.acquire(*names).release().check()
        await_replicated(watched)
        old, replica = watched.nodes
        replica.fall_behind(old)
        held = one.acquire(*names, ttl_ms=MINUTE_MS)
        old.kill()
        replica.go_on()
        watched.await_next(old)
        check_told_as_lost(one, held)
        with behind(world, watched):
            world.await_nothing_left()


@once
def any_sentinel_that_answers_is_enough(world, kind, names):
    """The first one is gone, the second stands still; and later the one that was asked."""
    with Watched(n_replicas=0) as watched:
        first, second, third = watched.sentinels
        first.kill()
        second.freeze()
        one = actor(world, kind, watched)
        one.acquire(*names).release().check()
        second.go_on()
        third.kill()
        fresh = actor(world, kind, watched)
        fresh.acquire(*names).release().check()


@once
def sentinels_that_the_url_does_not_name_are_learned(world, kind, names):
    """The one that it names ends, and another answers when a connection is made anew."""
    with Watched(n_replicas=0) as watched:
        client = world.client(url=watched.url(sentinels=watched.sentinels[:1]))
        one = world.actor(kind, client)
        one.acquire(*names).release().check()
        watched.sentinels[0].kill()
        wait_until(lambda: any(sentinel.n_listeners() for sentinel in watched.sentinels[1:]), "another is asked")
        watched.nodes[0].end_connections("normal")
        one.acquire(*names).release().check()


@once
def sentinels_that_name_another_server_are_not_followed(world, kind, names):
    """One that is late names a replica, which says so itself; another a stranger that calls itself a master."""
    with Watched(n_replicas=1, n_sentinels=1) as watched, Node(None) as stranger:
        old, honest = watched.named(), watched.sentinels[0]
        new = watched.failover()
        wait_until(lambda: honest.state()["config-epoch"] != "0", "the failover is over")
        watched.await_demotion(old)
        old.ask("ACL", "SETUSER", "default", "resetchannels", "&rql:*")  # where sentinels would hear of each other
        with servers(Sentinel({NAME: old}, 1, None), Sentinel({NAME: stranger}, 1, None)) as (late, liar):
            fresh = world.actor(kind, url=watched.url(sentinels=[late, honest]))
            fresh.acquire(*names).release().check()
            one = world.actor(kind, url=watched.url(sentinels=[honest, late, liar]))
            one.acquire(*names).release().check()
            honest.freeze()

            def why_not():  # what was said a moment ago counts
                new.end_connections()
                return one.begin("connect").outcome().error
            why = wait_until(why_not, "nobody is believed")
            check("have not heard of its last failover" in why, why)
            honest.go_on()
            one.acquire(*names, timeout_ms=FOREVER).release().check()
            check_equal((one.client.stats().failovers, stranger.n_clients()), (0, 0))


@once
def sentinels_that_were_set_up_anew_are_believed_after_a_while(world, kind, names):
    """They have forgotten the failovers before, which one that is late has, too."""
    with Watched(n_replicas=1, n_sentinels=1) as watched:
        one = actor(world, kind, watched)
        one.acquire(*names).release().check()
        sentinel = watched.sentinels[0]
        watched.failover()
        wait_until(lambda: sentinel.state()["config-epoch"] != "0", "the failover is over")
        new = watched.failover()  # of the next epoch
        wait_until(lambda: one.client.stats().failovers == 2, "they are followed, though nobody asks")
        sentinel.kill()
        other = sentinel.masters[NAME] = next(node for node in watched.nodes if node is not new)
        other.ask("REPLICAOF", "NO", "ONE")
        sentinel.launch()
        begun = time.monotonic()
        wait_until(lambda: one.client.stats().failovers == 3, "the other one is believed")
        check(time.monotonic() - begun > 8, "it was at once")
        one.acquire(*names).release().check()


def connecting(world, url):
    """What a client of its own is told."""
    return world.actor("thread", url=url).begin("connect").outcome()


@once
def what_sentinels_cannot_say_is_told(world, kind, names):
    """In one line: who was asked, and why it was in vain."""
    with Watched(n_replicas=0, n_sentinels=1) as watched:
        lonely = watched.sentinels[0]
        url = watched.url()
        unknown = connecting(world, url.replace(NAME, "other"))
        check_equal(unknown.status, "E_UNAVAILABLE")
        check("other" in unknown.error and "knows no master" in unknown.error, unknown.error)
        server = connecting(world, url.replace(f":{lonely.port}/", f":{watched.nodes[0].port}/"))
        check_equal(server.status, "E_SERVER")
        watched.nodes[0].kill()
        dead = connecting(world, url)
        check_equal(dead.status, "E_IO")
        check(str(watched.nodes[0].port) in dead.error and url[-40:] in dead.error, dead.error)
        lonely.kill()
        nobody = connecting(world, url)
        check_equal(nobody.status, "E_IO")
        check("cannot find the master" in nobody.error and "refused" in nobody.error, nobody.error)


@once
def sentinels_have_a_login_of_their_own(world, kind, names):
    with Watched(n_replicas=0, n_sentinels=1, password="sesame", sentinel_password="mustard") as watched:
        fine = world.actor(kind, url=watched.url(":sesame@", "?sentinel_password=mustard"))
        fine.acquire(*names).release().check()
        for login, query in ((":sesame@", ""), (":sesame@", "?sentinel_password=sesame"),
                             ("", "?sentinel_password=mustard")):
            said = connecting(world, watched.url(login, query))
            check_equal(said.status, "E_AUTH")
            check("sesame" not in said.error and "mustard" not in said.error, said.error)


@once
def a_user_of_a_sentinel_needs_few_rights(world, kind, names):
    with Watched(n_replicas=0, n_sentinels=1) as watched:
        watched.sentinels[0].ask("ACL", "SETUSER", "few", "on", ">mustard", "&+switch-master", "+subscribe",
                                 "+sentinel|get-master-addr-by-name", "+sentinel|master", "+sentinel|sentinels")
        one = world.actor(kind, url=watched.url("", "?sentinel_user=few&sentinel_password=mustard"))
        one.acquire(*names).release().check()
        wait_until(lambda: watched.sentinels[0].n_listeners() == 1, "it is subscribed")
        refused = [line for line in watched.sentinels[0].ask("ACL", "LOG") if "few" in line]
        check_equal(refused, [])


@once
def a_right_to_subscribe_that_is_missing_is_seldom_asked_for(world, kind, names):
    """The master is found without it, but each time costs the sentinel a connection."""
    with Watched(n_replicas=0, n_sentinels=1) as watched, contextlib.closing(
            watched.sentinels[0].connection()) as sentinel:
        sentinel.call("ACL", "SETUSER", "few", "on", ">mustard", "+sentinel")
        one = world.actor(kind, url=watched.url("", "?sentinel_user=few&sentinel_password=mustard"),
                          sentinel_check_ms=CHECK_MS)

        def n_commands():
            return int(re.search(r"total_commands_processed:(\d+)", sentinel.call("INFO", "stats"))[1])
        one.acquire(*names).release().check()
        mine = itertools.count(n_commands())
        wait_until(lambda: n_commands() - next(mine) > 40, "it is often asked for the master")
        refused = [dict(zip(entry[::2], entry[1::2])) for entry in sentinel.call("ACL", "LOG")]
        check_equal([(entry["object"], entry["count"]) for entry in refused], [("subscribe", 1)])


@once
def sentinels_that_are_far_away_are_waited_for(world, kind, names):
    """Each takes two round trips to answer, which is more than it has while another could be asked."""
    with Watched(n_replicas=0, n_sentinels=2, sentinel_password="mustard") as watched, contextlib.ExitStack() as stack:
        ways = [stack.enter_context(Proxy(sentinel.port, delay_s=FAR_S)) for sentinel in watched.sentinels]
        hosts = ",".join(f"127.0.0.1:{way.port}" for way in ways)
        client = world.client(url=f"redis+sentinel://{hosts}/{NAME}?sentinel_password=mustard",
                              connect_timeout_ms=FAR_TIMEOUT_MS)
        world.actor(kind, client).acquire(*names).release().check()
        world.free(client)


# ---- many locks at once ----

N_LOCKS = 1000 if "RQL_TEST_LONG" in os.environ else 50
N_IN_ORDER = 10
LISTENING_S = 0.3  # from when the sentinels say who the master is


def since_ms(begun):
    return round(1000 * (time.monotonic() - begun))


@scenario(kinds=["thread"], counts=[1], is_timed=True)
def nobody_hangs_and_nobody_is_lost(world, _kind, _names):
    """Locks that are held stay held, each waiter is served, and those of one lock in their order."""
    held_names = [f"held {i}" for i in range(N_LOCKS)]
    wanted = [f"wanted {i}" for i in range(N_LOCKS)]
    options = {"ttl_ms": 10 * MINUTE_MS, "queue_ttl_ms": MINUTE_MS}
    with Watched(n_sentinels=1) as watched:
        url = watched.url()
        holder, blocker, waiter = (world.actor("loop", url=url) for _ in range(3))
        held = [holder.acquire(name, **options) for name in held_names]
        blocking = [blocker.acquire(name, **options) for name in [*wanted, "in order"]]
        with behind(world, watched):
            asked = [waiter.ask(name, timeout_ms=FOREVER, **options) for name in wanted]
            lined_up = line_up(world, [world.actor("loop", url=url) for _ in range(N_IN_ORDER)], "in order", **options)
            wait_until(lambda: len(world.ask("KEYS", "rql:lock_queue:*")) == N_LOCKS + 1, "all wait")
        await_replicated(watched)
        old = watched.named()
        old.kill()
        begun = time.monotonic()
        watched.await_next(old)
        named, named_ms = time.monotonic(), since_ms(begun)
        kept_ms = world.kept_ms()
        with behind(world, watched):
            world.await_listeners(1 + N_IN_ORDER)
            back_ms = since_ms(named)
            kept_ms = world.kept_ms() - kept_ms
            await_asked(world, 1)
        wait_until(lambda: all(one.state() == "HELD" for one in held), "they are verified")
        freed = time.monotonic()
        for one in blocking[:-1]:
            one.release().check()
        for asking in as_they_end(asked):
            asking.hold().release().check()
        served_ms = since_ms(freed)
        check_served_in_order(lined_up, blocking[-1])
        for one in held:
            one.release().check()
        with behind(world, watched):
            world.await_nothing_left()
    print(f"# {N_LOCKS} held, {N_LOCKS + N_IN_ORDER} waiting: the sentinel named another master after {named_ms} ms, "
          f"all listened there {back_ms} ms later; {N_LOCKS} released and served in {served_ms} ms", flush=True)
    check(back_ms < 1000 * LISTENING_S * SLOW + kept_ms, f"they came back after {back_ms} ms")


if __name__ == "__main__":
    main()
