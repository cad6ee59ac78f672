#!/usr/bin/env python3
"""What waiting costs, while nothing happens and when many begin at once; and what a call and a renewal cost beside many
renewed locks. RQL_TEST_CROWD: how many wait. RQL_TEST_HELD: how many are held."""
import os
import re
import statistics
import time

from harness import FOREVER, MINUTE_MS, Network, as_they_end, check, let_pass, main, scenario, wait_until
from delay import tasks_of

CROWD = int(os.environ.get("RQL_TEST_CROWD", 200))
PATIENCE_S = 60
WINDOW_S, WINDOWS = 3.4, 4      # in a window a waiter that polls for all polls twice, or three times at most
MOST_POLLS = 3 / WINDOW_S
TURNS, MANY = 200, 32
SERIES_MAX, HELD = 64, int(os.environ.get("RQL_TEST_HELD", 20000))
ROUNDS, PAIRS, MOST_OF_A_PAIR = 21, 50, 1.5
RENEWALS, BRIEF_MS = 3, 900
OPTIONS = {"ttl_ms": MINUTE_MS, "timeout_ms": FOREVER}
timed = scenario(kinds=["thread"], counts=[1], is_timed=True, in_cluster=False)


class Served:
    """Scripts since this was made. One that the server does not know yet is sent once more, as a text."""

    def __init__(self, world):
        self.world, self.begun_s, self.before = world, time.monotonic(), 0
        self.before = self.count()

    def count(self):
        return self.world.n_calls("evalsha") + self.world.n_calls("eval") - self.before

    def check(self, least, most, polls_s):
        """Besides, one waiter may poll for all: `polls_s` times a second."""
        count, took_s = self.count(), time.monotonic() - self.begun_s
        check(least <= count <= most + 20 + polls_s * took_s, f"{count} scripts in {took_s:.1f} s, not {least} to {most}")


class Crowd:
    """Threads of one client, each of which waits for one of the locks that another client holds, and releases it."""

    def __init__(self, world, client, n_locks=1):
        self.world, self.names = world, [f"lock{i}" for i in range(n_locks)]
        self.actors = [world.actor("thread", client) for _ in range(CROWD)]
        self.threads = [actor.begin("whoami").outcome().thread for actor in self.actors]
        holder = world.actor("thread")
        self.held = [holder.acquire(name, ttl_ms=10 * MINUTE_MS) for name in self.names]
        self.served = Served(world)
        self.calls = [actor.begin("turns", names=[self.names[i % n_locks]], options=OPTIONS, n=1)
                      for i, actor in enumerate(self.actors)]
        for name in self.names:
            wait_until(lambda name=name: world.queue_length(name) == CROWD // n_locks, f"all wait for {name}", PATIENCE_S)

    def n_sleeps(self):
        """How often they have gone to sleep."""
        return sum(int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", self.status_of(thread), re.M)[1])
                   for thread in self.threads)

    def status_of(self, thread):
        with open(f"/proc/{self.actors[0].remote.process.pid}/task/{thread}/status", encoding="ascii") as file:
            return file.read()

    def await_asleep(self):
        """No waiter was woken for a while."""
        seen = []

        def are_asleep():
            seen.append(self.n_sleeps())
            let_pass(0.05)
            return len(seen) > 1 and seen[-1] == seen[-2]
        wait_until(are_asleep, "all sleep")

    def check_idle(self, most_sleeps, most_polls):
        """In a second in which nothing happens, of the best of some windows: the machine may still have to do with the
        beginning."""
        for _ in range(WINDOWS):
            n_sleeps, n_polls, begun_s = self.n_sleeps(), self.world.n_scripts(), time.monotonic()
            let_pass(WINDOW_S)
            took_s = time.monotonic() - begun_s
            sleeps, polls = (self.n_sleeps() - n_sleeps) / took_s, (self.world.n_scripts() - n_polls) / took_s
            if sleeps <= most_sleeps and polls <= most_polls:
                break
        print(f"# {CROWD} threads, {len(self.names)} locks: {sleeps:.1f} sleeps/s, {polls:.1f} scripts/s", flush=True)
        check(sleeps <= most_sleeps and polls <= most_polls, f"{sleeps} sleeps and {polls} scripts a second")

    def end(self):
        for held in self.held:
            held.release().check()
        for call in self.calls:
            call.outcome().check()


@timed
def who_waits_for_one_lock_sleeps(world, kind, names):
    crowd = Crowd(world, world.client())
    crowd.check_idle(50, 2)
    crowd.end()


@timed
def the_first_of_each_queue_polls_seldom(world, kind, names):
    """A few sleeps for each poll."""
    crowd = Crowd(world, world.client(), CROWD)
    crowd.check_idle(CROWD * MOST_POLLS * 5, CROWD * MOST_POLLS)
    crowd.end()


@timed
def a_burst_of_a_client_that_listens_asks_once_each(world, kind, names):
    """Then each is released: several hand-overs may be told together."""
    crowd = Crowd(world, world.told_clients(kind)[0])
    crowd.served.check(CROWD, CROWD, MOST_POLLS)
    crowd.end()
    crowd.served.check(0, 2 * CROWD, MOST_POLLS)


@timed
def a_burst_that_cannot_listen_yet_asks_three_times_each(world, kind, names):
    """The subscription cannot be opened at first. Each is refused once, enters the queue with its second try, and asks
    once more when pushes have begun to come. The first polls at each delay until then."""
    network, delay_ms = Network(world), 200
    client = network.client(client_names=False, retry_delay_ms=delay_ms)  # each login would bring a script
    world.actor(kind, client).acquire("connects").release().check()       # the script is known
    network.fail("refuse")
    crowd = Crowd(world, client)
    crowd.await_asleep()
    crowd.served.check(CROWD, 2 * CROWD, 1000 / delay_ms)
    network.heal()
    world.await_listeners(1)
    crowd.await_asleep()
    crowd.served.check(2 * CROWD, 3 * CROWD, 1000 / delay_ms)
    crowd.end()
    crowd.served.check(0, 4 * CROWD, 1000 / delay_ms)


@timed
def a_burst_on_a_loop_asks_twice_each_at_first_and_then_once(world, kind, names):
    """At most, until it is in the queue. The second burst finds a loop that listens. Each is handed the lock, and
    releases it."""
    holder, loop = world.actor("thread"), world.actor("loop")
    for n_tries in (2, 1):
        held, served = holder.acquire(*names, ttl_ms=10 * MINUTE_MS), Served(world)
        asked = [loop.ask(*names, **OPTIONS) for _ in range(CROWD)]
        world.await_queue(names, CROWD)
        world.await_listeners(1)
        held.release().check()
        for asking in as_they_end(asked):
            asking.hold().release().check()
        served.check(2 * CROWD, (n_tries + 1) * CROWD, MOST_POLLS)


def take_turns(world, names, count):
    """Threads of a client that has never waited before."""
    client, served = world.client(), Served(world)
    actors = [world.actor("thread", client) for _ in range(count)]
    for call in [actor.begin("turns", names=names, options=OPTIONS, n=TURNS) for actor in actors]:
        call.outcome().check()
    return served


@timed
def each_in_turn_asks_once_for_each_acquisition(world, kind, names):
    """And once to hand it on; once more at first, until pushes come."""
    for count in (2, MANY):
        take_turns(world, names, count).check(0, (2 * TURNS + 1) * count, 0)


# ---- beside many that are held ----

def hold_many(actor):
    return [actor.acquire(*(f"held-{i}-{j}" for j in range(SERIES_MAX)), ttl_ms=60 * MINUTE_MS, auto_extend=True)
            for i in range(HELD // SERIES_MAX)]


def let_go(held):
    for hold in held:
        hold.forget()


def processor_us(remote, threads=None):
    """Processor time of these threads of the process, or of all. It does not depend on what else the machine does."""
    total_ns = 0
    for thread in threads or tasks_of(remote.process.pid):
        with open(f"/proc/{remote.process.pid}/task/{thread}/schedstat", encoding="ascii") as file:
            total_ns += int(file.read().split()[0])
    return total_ns / 1000


def pairs_us(actor, thread):
    """(processor time, time) of some acquisitions and releases."""
    before_us = processor_us(actor.remote, [thread])
    took_us = actor.begin("turns", names=["pair"], options=OPTIONS, n=PAIRS).outcome().check().took_us
    return processor_us(actor.remote, [thread]) - before_us, took_us


@timed
def a_pair_beside_many_renewed_locks_costs_what_it_costs_alone(world, kind, names):
    """In turn, for the machine is not always equally fast."""
    actors = [world.actor(kind) for _ in range(2)]
    threads = [actor.begin("whoami").outcome().thread for actor in actors]
    held = hold_many(actors[1])
    rounds = [[pairs_us(*one) for one in zip(actors, threads)] for _ in range(ROUNDS)]
    of_processor, of_time = (statistics.median(beside[i] / alone[i] for alone, beside in rounds) for i in range(2))
    print(f"# {PAIRS} pairs beside {HELD} over {PAIRS} alone: {of_processor:.2f} of the processor, {of_time:.2f} of the time",
          flush=True)
    check(of_processor <= MOST_OF_A_PAIR, f"{of_processor} times the processor's time")
    check("RQL_TEST_HELD" not in os.environ or of_time <= MOST_OF_A_PAIR, f"{of_time} times the time")
    let_go(held)


def renewals_us(world, remote):
    """Processor time of some renewals of a short lock. Nothing else happens in the process."""
    until, before_us = world.n_scripts() + RENEWALS, processor_us(remote)
    wait_until(lambda: world.n_scripts() >= until, "it is renewed")
    return processor_us(remote) - before_us


@timed
def a_renewal_beside_many_costs_what_it_costs_alone(world, kind, names):
    actor = world.actor(kind)
    short = actor.acquire(*names, ttl_ms=BRIEF_MS, auto_extend=True)
    alone_us = renewals_us(world, actor.remote)
    held = hold_many(actor)
    beside_us = renewals_us(world, actor.remote)
    print(f"# {RENEWALS} renewals: alone {alone_us:.0f} us, beside {HELD} {beside_us:.0f} us", flush=True)
    check(beside_us <= 5 * alone_us, f"{beside_us} us beside others, {alone_us} us alone")
    short.release().check()
    let_go(held)


if __name__ == "__main__":
    main()
