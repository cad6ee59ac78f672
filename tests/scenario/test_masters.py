#!/usr/bin/env python3
"""Two servers behind one name: a split brain, and a replica with another clock that is promoted."""

from harness import FOREVER, MINUTE_MS, check, check_equal, main, scenario, wait_until
from private_server import PrivateServer, leave_out_in_cluster
from servers import master_and_replica, point

SHORT_MS = 3000
AHEAD_S = 30


class Resource:
    """Written to by who believes to hold the lock; it refuses a token that is older than one it has seen."""

    def __init__(self):
        self.last = 0

    def write(self, held):
        self.last = max(self.last, held.tokens[0])
        return held.tokens[0] == self.last


class Name:
    """What clients connect to, and who answers to it."""

    def __init__(self, world, server):
        leave_out_in_cluster("servers behind one name")
        self.world, self.link = world, world.server.folder + "/link"
        self.lead_to(server)

    def lead_to(self, server):
        point(self.link, server)

    def actor(self, kind):
        return self.world.actor(kind, url="unix://" + self.link, connect_timeout_ms=MINUTE_MS)


@scenario(is_timed=True)
def two_masters_grant_a_lock_twice_and_its_token_tells(world, kind, names):
    """Each client stays with the server that it has come to. What is left on the first ends by its ttl."""
    resource = Resource()
    with PrivateServer() as other:
        name = Name(world, world.server)
        first = name.actor(kind).acquire(*names, ttl_ms=SHORT_MS)
        check(resource.write(first), "the first is refused")
        name.lead_to(other)
        second = name.actor(kind).acquire(*names, ttl_ms=MINUTE_MS)
        check_equal((first.state(), second.state()), ("HELD", "HELD"))
        check(resource.write(second) and not resource.write(first), "the older token is taken")
        world.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        first.release().check("NOT_HELD", "OK")  # the first attempt may have found a broken connection
        name.lead_to(world.server)
        third = name.actor(kind).acquire(*names, timeout_ms=FOREVER)
        check(resource.write(third) and not resource.write(second), "the older token is taken")
        third.release().check()
        second.release().check()
        world.await_nothing_left()


@scenario()
def a_master_that_was_demoted_is_left(world, kind, names):
    """Its connections go on, and say that it takes no writes."""
    with PrivateServer() as other:
        name = Name(world, world.server)
        actor = name.actor(kind)
        actor.acquire(*names).release().check()
        world.ask("REPLICAOF", "127.0.0.1", 1)
        name.lead_to(other)
        actor.acquire(*names, timeout_ms=MINUTE_MS // 10).release().check()
        world.ask("REPLICAOF", "NO", "ONE")


def promoted(ahead_s):
    """It has the times at which keys end from the master, by whose clock they were set."""
    def case(world, kind, names):
        with master_and_replica(has_clock=True) as (master, replica), world.asking(replica.connection()):
            replica.set_ahead(ahead_s * 1000000)
            name = Name(world, master)
            actor = name.actor(kind)
            held = actor.acquire(*names, ttl_ms=AHEAD_S * 1000 // 2)
            wait_until(lambda: int(world.ask("GET", "rql:fence") or 0) == max(held.tokens), "it is replicated")
            master.kill()
            name.lead_to(replica)
            world.ask("REPLICAOF", "NO", "ONE")
            if ahead_s < 0:
                name.actor(kind).refused(*names, timeout_ms=200).check("TIMED_OUT", "E_UNKNOWN")
                actor.acquire("other", timeout_ms=FOREVER).release().check()
                held.release().check()
            later = name.actor(kind).acquire(*names)
            check(later.tokens[0] > held.tokens[0], f"{later.tokens[0]} after {held.tokens[0]}")
            if ahead_s > 0:
                actor.acquire("other", timeout_ms=FOREVER).release().check()
                wait_until(lambda: held.state() == "GONE", "any answer tells")
                held.release().check("NOT_HELD")
            later.release().check()
            world.await_nothing_left()
    case.__name__ = f"tokens rise on a replica whose clock is {ahead_s} s ahead"
    return case


for seconds in (AHEAD_S, -AHEAD_S):
    scenario(counts=[1])(promoted(seconds))


if __name__ == "__main__":
    main()
