#!/usr/bin/env python3
"""A server that is far away: what times out is withdrawn, and known to be, within two round trips of the deadline."""
import concurrent.futures

from harness import FOREVER, Network, check, check_equal, main, scenario

LONG_MS = 60000
WAY_MS = 100
ROUND_TRIP_MS = 2 * WAY_MS
TIMEOUT_MS = 1200  # it asks once, and again when it listens; nothing is under way at the deadline
SLACK_MS = 150
CROWD = 24
SPREAD_MS = 400
KINDS = ["thread", "loop"]


class Far:
    """The last of the locks is held by somebody near. The server knows the scripts, or each would take two round trips
    the first time."""

    def __init__(self, world, kind, names):
        self.world, self.names = world, names
        near = world.actor("thread")
        self.held = near.acquire(names[-1], ttl_ms=LONG_MS)
        near.refused(*names, retry_count=1, task=1)  # it is in the queue for a moment
        world.await_queue(names, 0)
        network = Network(world)
        network.fail("delay", n=WAY_MS)
        self.client = network.client(retry_delay_ms=LONG_MS, connect_timeout_ms=LONG_MS, io_timeout_ms=LONG_MS)
        self.actor = world.actor(kind, self.client)

    def look(self, **options):
        return self.actor.begin("check_until_free", names=self.names[-1:], options=options).outcome()

    def check_known(self, outcome, timeout_ms=TIMEOUT_MS):
        check_equal(outcome.status, "TIMED_OUT")
        limit_ms = timeout_ms + 2 * ROUND_TRIP_MS + SLACK_MS
        check(outcome.took_us <= limit_ms * 1000, f"after {outcome.took_us} us")
        check_equal([self.world.queue_length(name) for name in self.names], [0] * len(self.names))
        check_equal([bool(self.world.holder(name)) for name in self.names[:-1]], [False] * (len(self.names) - 1))


@scenario(kinds=KINDS, is_timed=True)
def a_time_out_is_known(world, kind, names):
    far = Far(world, kind, names)
    far.check_known(far.actor.refused(*names, timeout_ms=TIMEOUT_MS))
    far.held.release().check()


@scenario(kinds=["thread"], counts=[1], is_timed=True)
def the_time_out_of_a_look_is_known(world, kind, names):
    far = Far(world, kind, names)
    far.check_known(far.look(timeout_ms=TIMEOUT_MS))
    far.held.release().check()


@scenario(kinds=KINDS, counts=[1], is_timed=True)
def a_try_that_the_deadline_finds_under_way_is_known(world, kind, names):
    """What was asked before tells how far the server is, and has made the connection."""
    far = Far(world, kind, names)
    far.actor.refused(*names, timeout_ms=TIMEOUT_MS)
    far.check_known(far.actor.refused(*names, timeout_ms=WAY_MS), WAY_MS)
    far.held.release().check()


@scenario(kinds=KINDS, counts=[1], is_timed=True)
def a_poll_under_way_keeps_nobody(world, kind, names):
    """The withdrawal of a thread follows the deadline at once, that of a loop the answer to the poll."""
    far, delay_ms = Far(world, kind, names), 300
    other = world.actor("thread").acquire("other", ttl_ms=LONG_MS)
    listening = world.actor(kind, far.client).ask("other", timeout_ms=FOREVER)
    world.await_listeners(1)
    far.actor.refused(*names, timeout_ms=TIMEOUT_MS)
    timeout_ms = ROUND_TRIP_MS + delay_ms + 20
    outcome = far.actor.refused(*names, timeout_ms=timeout_ms, retry_delay_ms=delay_ms, retry_jitter_ms=0)
    check_equal(outcome.status, "TIMED_OUT")
    limit_ms = timeout_ms + ROUND_TRIP_MS + (WAY_MS if kind == "thread" else ROUND_TRIP_MS + SLACK_MS)
    check(outcome.took_us <= limit_ms * 1000, f"after {outcome.took_us} us")
    other.release().check()
    listening.hold().release().check()
    far.held.release().check()


@scenario(kinds=KINDS, counts=[1], is_timed=True)
def many_know_it_as_well(world, kind, names):
    """They send and withdraw beside each other, and none waits for the answers of others."""
    far, near = Far(world, kind, names), world.actor("thread")
    held = [near.acquire(f"of {i}", ttl_ms=LONG_MS) for i in range(CROWD)]
    actors = [world.actor(kind, far.client) for _ in range(CROWD if kind == "thread" else 1)]
    actors[0].refused("of 0", timeout_ms=TIMEOUT_MS).check("TIMED_OUT")  # a login may take as long as the shortest try

    def time_out_often(i):
        limits_ms = [SPREAD_MS + (i * 53 + turn * 131) % SPREAD_MS for turn in range(3)]
        return [actors[i % len(actors)].refused(f"of {i}", timeout_ms=limit_ms).status for limit_ms in limits_ms]

    with concurrent.futures.ThreadPoolExecutor(CROWD) as pool:
        statuses = sum(pool.map(time_out_often, range(CROWD)), [])
    check_equal(statuses, ["TIMED_OUT"] * 3 * CROWD)
    for one in (*held, far.held):
        one.release().check()


if __name__ == "__main__":
    main()
