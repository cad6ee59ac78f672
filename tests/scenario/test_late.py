#!/usr/bin/env python3
"""Words that are long under way. A lease counts from the question: nobody may rely on a lock for longer than the
server keeps it. A question that nobody waits for any more does nothing, nor does one that comes once more."""
import concurrent.futures

from harness import FOREVER, MINUTE_MS, Network, check, check_equal, let_pass, main, once, scenario, wait_until
from pushes import pushed, wait_told

TTL_MS = 6000
LATE_MS = 300


def far_away(world, kind):
    network = Network(world)
    actor = world.actor(kind, network.client(retry_delay_ms=MINUTE_MS))
    actor.acquire("warm").release().check()
    return network, actor


def be_late(network):
    """What comes from now on is late by more than the margin of the leases here."""
    network.fail("delay", direction="down", n=LATE_MS)


def check_lease(world, network, held, *others, ppm=0):
    """Nothing is renewed while we look. The server's milliseconds may be shorter than ours."""
    network.fail("freeze")
    for one in (held, *others):
        left_ms = min(world.left_ms(name) for name in one.names) / (1 + ppm / 1000000)
        check(one.remaining_ms() <= left_ms, f"it believes in more than {left_ms} ms")
    network.heal()


@scenario()
def a_grant_counts_from_the_question(world, kind, names):
    network, actor = far_away(world, kind)
    be_late(network)
    held = actor.acquire(*names, ttl_ms=TTL_MS)
    check_lease(world, network, held)
    held.release().check()


@once
def a_re_entry_counts_from_the_question(world, kind, names):
    """And its end, which takes back what it did not use, of all."""
    network, actor = far_away(world, kind)
    outer = actor.acquire(*names, ttl_ms=TTL_MS)
    be_late(network)
    inner = actor.acquire(*names, ttl_ms=TTL_MS, conflict_strategy="extendable_work_through")
    check_lease(world, network, inner)
    be_late(network)
    sharing = actor.acquire(*names, ttl_ms=TTL_MS, conflict_strategy="work_through")
    check_lease(world, network, sharing)
    be_late(network)
    inner.release().check()
    check_lease(world, network, sharing, outer)
    sharing.release().check()
    outer.release().check()


@scenario(kinds=["thread"])
@scenario(kinds=["loop"], counts=[1])  # no call extends a series on a loop
def an_extension_counts_from_the_question(world, kind, names):
    network, actor = far_away(world, kind)
    held = actor.acquire(*names, ttl_ms=TTL_MS)
    be_late(network)
    held.extend(2 * TTL_MS).check()
    check_lease(world, network, held)
    held.release().check()


@scenario(is_timed=True)
def a_renewal_counts_from_the_question(world, kind, names):
    network, actor = far_away(world, kind)
    held = actor.acquire(*names, ttl_ms=2400, auto_extend=True)
    be_late(network)
    seen = [held.remaining_ms()]
    wait_until(lambda: seen.append(held.remaining_ms()) or seen[-1] > seen[-2], "it is renewed")
    check_lease(world, network, held)
    held.release().check()


@scenario(counts=[1], is_timed=True)
def a_push_that_was_late_tells_of_the_hand_over_all_the_same(world, kind, names):
    """A short lock needs no claim, so the server does not know any more. That it was had by the push is not so."""
    network, actor = far_away(world, kind)
    pushed(world, actor, *names).release().check()  # no look after a subscription is due any more
    before = actor.client.stats().hand_off["count"]
    held = world.actor("thread").acquire(*names, ttl_ms=MINUTE_MS)
    asking = wait_told(world, actor, *names, ttl_ms=900)
    network.fail("delay", direction="down", n=100)
    held.release().check()
    mine = asking.hold()
    check(mine.outcome.handed_over, "it took what was free")
    check_equal(actor.client.stats().hand_off["count"], before, "relied on")
    mine.release().check("OK", "NOT_HELD")  # it may have ended


@scenario()
def a_question_that_comes_too_late_is_not_answered(world, kind, names):
    """The first try is held up, another is granted, and released; then the first one comes. Nobody may end its
    connection."""
    network = Network(world)
    world.ask("ACL", "SETUSER", "default", "-client|kill")
    actor = world.actor(kind, network.client(io_timeout_ms=100, connect_timeout_ms=2000))
    actor.acquire(*names).release().check()
    network.fail("mute_last")
    actor.acquire(*names, timeout_ms=FOREVER).release().check()
    let_pass(0.3)
    before = world.n_scripts()
    network.heal()
    wait_until(lambda: world.n_scripts() > before, "it comes")
    check_equal(world.keys_left(), [])
    world.ask("ACL", "SETUSER", "default", "+client|kill")


@scenario(counts=[1])
def a_try_that_comes_after_its_withdrawals_is_withdrawn_again(world, kind, names):
    """Its connection was given up. The server reads the try when it has answered twice, over another connection, that
    nothing of the request is there; but it does not refuse the try yet."""
    network = Network(world)
    world.ask("ACL", "SETUSER", "default", "-client|kill")
    actor = world.actor(kind, network.client(io_timeout_ms=1500))
    actor.acquire(*names).release().check()
    network.fail("mute_last")
    network.fail("refuse")
    actor.refused(*names, timeout_ms=1600, ttl_ms=MINUTE_MS).check("E_UNKNOWN")
    network.fail("refuse", n=0)
    let_pass(0.3)
    before = world.n_scripts()
    network.heal()
    wait_until(lambda: world.n_scripts() > before, "it comes")
    world.await_nothing_left()
    world.ask("ACL", "SETUSER", "default", "+client|kill")


@scenario(counts=[1])
def a_question_that_comes_a_little_late_is_answered(world, kind, names):
    """It may be under way for twice as long as an answer is waited for."""
    network = Network(world)
    actor = world.actor(kind, network.client(io_timeout_ms=MINUTE_MS))
    actor.acquire(*names).release().check()
    network.fail("delay", direction="up", n=LATE_MS)
    before = world.n_scripts()
    held = actor.acquire(*names, ttl_ms=MINUTE_MS)
    check_equal(world.n_scripts(), before + 1)
    held.release().check()


# ---- clocks that run at different rates ----

DRIFT_PPM = 9000  # the leases' margin is 1 %


def the_clocks_part(ppm):
    def case(world, kind, names):
        world.server.set_rate(ppm)
        network, actor = far_away(world, kind)
        held = actor.acquire(*names, ttl_ms=MINUTE_MS)
        check_lease(world, network, held, ppm=ppm)
        asking = world.actor(kind, network.client()).ask(*names, ttl_ms=MINUTE_MS, timeout_ms=FOREVER)
        world.await_queue(names, 1)
        if kind == "thread" or len(names) == 1:  # no call extends a series on a loop
            held.extend(2 * MINUTE_MS).check()
            check_lease(world, network, held, ppm=ppm)
        held.release().check()
        mine = asking.hold()
        check_lease(world, network, mine, ppm=ppm)
        mine.release().check()
        renewed = actor.acquire(*names, ttl_ms=900, auto_extend=True)
        for _ in range(20):
            let_pass(0.1)
            check_equal(renewed.state(), "HELD")
        check_lease(world, network, renewed, ppm=ppm)
        renewed.release().check()
    case.__name__ = f"nobody relies on what is gone though the server's clock is {ppm} ppm faster"
    return case


for drift_ppm in (DRIFT_PPM, -DRIFT_PPM):
    scenario(is_timed=True)(the_clocks_part(drift_ppm))


# ---- what comes twice ----

@scenario()
def what_comes_twice_is_done_once(world, kind, names):
    """As from a proxy that tries again. Of two releases one finds nothing, and it may be the one that is answered."""
    network = Network(world)
    network.fail("repeat")
    actor, other = world.actor(kind, network.client()), world.actor(kind, network.client())
    for one in (actor, other):
        one.acquire(*names).release().check("OK", "NOT_HELD")
    before = world.n_scripts()
    held = actor.acquire(*names, ttl_ms=TTL_MS)
    wait_until(lambda: world.n_scripts() == before + 2, "it is asked twice")
    check_equal([world.token(name) for name in names], held.tokens)
    if kind == "thread" or len(names) == 1:  # no call extends a series on a loop
        held.extend(TTL_MS).check()
    if kind == "thread":  # another acquisition on a loop is another acquirer's
        strategy = "extendable_work_through" if len(names) == 1 else "work_through"
        inner = actor.acquire(*names, ttl_ms=TTL_MS, conflict_strategy=strategy)
        left_ms = max(world.left_ms(name) for name in names)
        check(left_ms <= (2 if len(names) == 1 else 1) * TTL_MS, f"{left_ms} ms are left")
        inner.release().check("OK", "NOT_HELD")
    asking = other.ask(*names, timeout_ms=FOREVER)
    world.await_queue(names, 1)
    world.actor(kind, network.client()).refused(*names, timeout_ms=100).check("TIMED_OUT", "E_UNKNOWN")
    world.await_queue(names, 1)
    held.release().check("OK", "NOT_HELD")
    mine = asking.hold()
    check(mine.tokens[0] > held.tokens[0], "the token does not rise")
    mine.release().check("OK", "NOT_HELD")
    check_equal(world.keys_left(), [])


# ---- a server that is far away: what times out is withdrawn, and known to be, in two round trips ----

WAY_MS = 100
ROUND_TRIP_MS = 2 * WAY_MS
TIMEOUT_MS = 1200  # it asks once, and again when it listens; nothing is under way at the deadline
SLACK_MS = 150
CROWD = 24
SPREAD_MS = 400


class Far:
    """The last of the locks is held by somebody near. The server knows the scripts, or each would take two round trips
    the first time."""

    def __init__(self, world, kind, names):
        self.world, self.names = world, names
        near = world.actor("thread")
        self.held = near.acquire(names[-1], ttl_ms=MINUTE_MS)
        near.refused(*names, retry_count=1, task=1)  # it is in the queue for a moment
        world.await_queue(names, 0)
        network = Network(world)
        network.fail("delay", n=WAY_MS)
        self.client = network.client(retry_delay_ms=MINUTE_MS, connect_timeout_ms=MINUTE_MS, io_timeout_ms=MINUTE_MS)
        self.actor = world.actor(kind, self.client)

    def look(self, **options):
        return self.actor.begin("check_until_free", names=self.names[-1:], options=options).outcome()

    def check_known(self, outcome, timeout_ms=TIMEOUT_MS):
        check_equal(outcome.status, "TIMED_OUT")
        limit_ms = timeout_ms + 2 * ROUND_TRIP_MS + SLACK_MS
        check(outcome.took_us <= limit_ms * 1000, f"after {outcome.took_us} us")
        check_equal([self.world.queue_length(name) for name in self.names], [0] * len(self.names))
        check_equal([bool(self.world.holder(name)) for name in self.names[:-1]], [False] * (len(self.names) - 1))


@scenario(is_timed=True)
def a_time_out_is_known(world, kind, names):
    far = Far(world, kind, names)
    far.check_known(far.actor.refused(*names, timeout_ms=TIMEOUT_MS))
    far.held.release().check()


@scenario(kinds=["thread"], counts=[1], is_timed=True)
def the_time_out_of_a_look_is_known(world, kind, names):
    far = Far(world, kind, names)
    far.check_known(far.look(timeout_ms=TIMEOUT_MS))
    far.held.release().check()


@scenario(counts=[1], is_timed=True)
def a_try_that_the_deadline_finds_under_way_is_known(world, kind, names):
    """What was asked before tells how far the server is, and has made the connection."""
    far = Far(world, kind, names)
    far.actor.refused(*names, timeout_ms=TIMEOUT_MS)
    far.check_known(far.actor.refused(*names, timeout_ms=WAY_MS), WAY_MS)
    far.held.release().check()


@scenario(counts=[1], is_timed=True)
def many_know_it_as_well(world, kind, names):
    """They send and withdraw beside each other, and none waits for the answers of others."""
    far, near = Far(world, kind, names), world.actor("thread")
    held = [near.acquire(f"of {i}", ttl_ms=MINUTE_MS) for i in range(CROWD)]
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
