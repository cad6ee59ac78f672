#!/usr/bin/env python3
"""What is guaranteed, in figures: what the dead cost the living, that no living host is flushed, and that each has its
share. RQL_TEST_LONG: the gem's periods, and as often as the guarantees say."""
import os
import random
import signal
import statistics
import threading
import time

from harness import FOREVER, MINUTE_MS, Workers, check, check_equal, main, once, scenario, wait_until
from swarms import DAY_MS, FLUSHES, GRACE_S, PROBES, QUICK, Swarm, await_hosts, await_known, raw_lock, status_of, swarm

IS_LONG = "RQL_TEST_LONG" in os.environ
GEMS = {"liveness_probing_period_ms": 2000, "probe_period_ms": 2000, "zombie_ttl_ms": 15000,
        "zombie_flush_period_ms": 10000}
PACE = GEMS if IS_LONG else QUICK
N_LOCKS, N_SERVED = 1000, 5
N_DEAD, N_ROUNDS = (50, 50) if IS_LONG else (20, 1)
DELAY_MS = 100


def count(world, pattern):
    return len(world.ask("KEYS", pattern))


@once
def locks_of_a_killed_process_are_had_in_time(world, _kind, _names):
    locks = [f"lock {i}" for i in range(N_LOCKS)]
    dying = world.actor("process")
    Swarm(world, dying.client, **PACE, **PROBES)
    for name in locks:
        dying.acquire(name, ttl_ms=DAY_MS)
    await_hosts(world, 1)
    with swarm(world, world.client(), **PACE, **FLUSHES):
        waiter = world.actor("loop")
        asked = [waiter.ask(name, timeout_ms=FOREVER) for name in locks[::N_LOCKS // N_SERVED]]
        wait_until(lambda: count(world, "rql:lock_queue:*") == N_SERVED, "they wait")
        world.kill(dying)
        killed_us, kept_ms = world.server.now_us(), world.kept_ms()
        holds = [asking.hold() for asking in asked]
        served_ms = (max(held.outcome.ts_us for held in holds) - killed_us) // 1000
        for held in holds:
            held.release().check()
        bound_ms = PACE["zombie_ttl_ms"] + PACE["zombie_flush_period_ms"] + 1000 * GRACE_S
        wait_until(lambda: not count(world, "rql:lock:*"), "all are free", 2 * bound_ms / 1000)
        free_ms = (world.server.now_us() - killed_us) // 1000
        await_hosts(world, 0)
    print(f"# zombie_ttl {PACE['zombie_ttl_ms']} ms, flush period {PACE['zombie_flush_period_ms']} ms: waiters served "
          f"after {served_ms} ms, {N_LOCKS} locks free after {free_ms} ms", flush=True)
    bound_ms += world.kept_ms() - kept_ms
    check(served_ms < bound_ms and free_ms < bound_ms, f"more than {bound_ms} ms")


def time_behind_the_dead(world, holder, living):
    """From the release to the grant, by the server's clock; and how long it was kept from running meanwhile."""
    held, n_listeners = holder.acquire("x", ttl_ms=MINUTE_MS), len(world.listeners())
    dying = [world.actor("process") for _ in range(N_DEAD)]
    for actor in dying:
        actor.ask("x", timeout_ms=FOREVER)
    world.await_queue(["x"], N_DEAD)
    asking = living.ask("x", timeout_ms=FOREVER, retry_delay_ms=MINUTE_MS)
    world.await_queue(["x"], N_DEAD + 1)
    world.await_listeners(max(n_listeners, 1) + N_DEAD)
    for actor in dying:
        world.kill(actor)
    world.await_listeners(1)
    kept_ms, freed_us = world.kept_ms(), world.server.now_us()
    held.release().check()
    mine = asking.hold()
    took_us = mine.outcome.ts_us - freed_us
    mine.release().check()
    return took_us, world.kept_ms() - kept_ms


@once
def killed_processes_do_not_delay_the_living(world, _kind, _names):
    holder, living = world.actor("thread"), world.actor("thread")
    times = [time_behind_the_dead(world, holder, living) for _ in range(N_ROUNDS)]
    print(f"# {N_DEAD} processes killed, {N_ROUNDS} times: the live one behind them had the lock "
          f"{max(took_us for took_us, _ in times)} us after its release at the latest", flush=True)
    for took_us, kept_ms in times:
        check(took_us < (DELAY_MS + kept_ms) * 1000, f"after {took_us} us")


# ---- the living ----

# Hosts are stopped at random, but never for as long as the zombie ttl by the server's clock, and a machine is suspended
# as a whole for longer. A round in which a machine made the pause too long is counted and says nothing.

N_HOSTS, N_PAUSES, N_SUSPENSIONS = (24, 10000, 40) if IS_LONG else (8, 80, 2)
TRIES_FOR_EACH = 4
TTL_MS = 600
HOUR_MS = 3600000
PERIODS = {"zombie_ttl_ms": TTL_MS, "probe_period_ms": TTL_MS // 12, "zombie_flush_period_ms": TTL_MS // 3}
LOOKS = 4  # of the flusher, until it has seen twice what there is


class Field:
    """All that is going on, and what came of it."""

    def __init__(self):
        self.gate = threading.Condition()
        self.n_active = self.n_tried = self.n_judged = self.n_flushed = self.n_too_long = self.n_suspended = 0

    def goes_on(self):
        return self.n_judged < N_PAUSES and self.n_tried < TRIES_FOR_EACH * N_PAUSES

    def judge(self, host, silence_us):
        """The silence is that between two heartbeats, as the server dates them."""
        is_there = host.has_lock()
        with self.gate:
            if silence_us >= TTL_MS * 1000:
                self.n_too_long += 1
            else:
                self.n_judged += 1
                self.n_flushed += not is_there
        if not is_there:
            host.plant_lock()


class Host:
    """A process with a client that sends heartbeats, for it holds something, and a lock that bears its name."""

    def __init__(self, world, field):
        self.world, self.field, self.connection = world, field, world.connection()
        self.actor = world.actor("process")
        Swarm(world, self.actor.client, **PERIODS, **PROBES)
        held = self.actor.acquire(f"held by {self.actor.name}", ttl_ms=HOUR_MS)
        self.name = held.outcome.hst_id
        await_known(world, self.name)
        self.plant_lock()

    def plant_lock(self):
        raw_lock(self, self.name, "a", self.name)

    def ask(self, *words):
        return self.connection.call(*words)

    def has_lock(self):
        return self.ask("EXISTS", f"rql:lock:{self.name}") == 1

    def sign_us(self):
        return int(float(self.ask("HGET", "rql:swarm:hsts", self.name) or 0) * 1000000)

    def await_sign(self, after_us):
        wait_until(lambda: self.sign_us() > after_us, f"{self.name} comes back")
        return self.sign_us()

    def stop(self):
        self.actor.remote.stop()
        os.waitid(os.P_PID, self.actor.remote.process.pid, os.WSTOPPED)

    def pause(self):
        """A round."""
        field = self.field
        with field.gate:
            if not field.goes_on():
                time.sleep(0.001)
                return
            field.n_tried += 1
            field.n_active += 1
        try:
            self.stop()
            first_us = self.sign_us()
            time.sleep(TTL_MS * random.uniform(0.25, 0.95) / 1000)
            last_us = max(self.sign_us(), first_us)  # flushed: none
            self.actor.remote.go_on()
            field.judge(self, self.await_sign(last_us) - last_us)
        finally:
            with field.gate:
                field.n_active -= 1
                field.gate.notify_all()


def await_looks(client, count):
    wanted = status_of(client).flush_zombies["steps"] + count
    wait_until(lambda: status_of(client).flush_zombies["steps"] >= wanted, "the flusher looks")


def suspend_machine(world, client, hosts, field):
    """The flusher is the first that goes on. Who is back within half of the ttl keeps what it has."""
    for host in hosts:
        host.stop()
    world.server.process.send_signal(signal.SIGSTOP)
    time.sleep(TTL_MS * 1.5 / 1000)
    world.server.go_on()
    resumed_us = world.server.now_us()
    await_looks(client, 1)
    for host in hosts:
        host.actor.remote.go_on()
    for host in hosts:
        field.judge(host, 2 * (host.await_sign(resumed_us) - resumed_us))
        field.n_suspended += 1
    await_looks(client, LOOKS)


def suspend_now_and_then(world, client, hosts, field):
    for i in range(1, N_SUSPENSIONS + 1):
        wait_until(lambda i=i: field.n_judged >= N_PAUSES * i // (N_SUSPENSIONS + 1) or not field.goes_on(),
                   "hosts were stopped", 600)
        with field.gate:  # no round begins
            field.gate.wait_for(lambda: not field.n_active)
            suspend_machine(world, client, hosts, field)
    wait_until(lambda: not field.goes_on(), "there were enough rounds", 600)


@once
def living_hosts_are_never_flushed(world, _kind, _names):
    client, field = world.client(), Field()
    hosts = [Host(world, field) for _ in range(N_HOSTS)]
    with swarm(world, client, **PERIODS, **FLUSHES):
        with Workers(*(host.pause for host in hosts)):
            suspend_now_and_then(world, client, hosts, field)
        for host in hosts:
            world.kill(host.actor)
            host.connection.close()
    print(f"# zombie_ttl {TTL_MS} ms, {N_HOSTS} hosts: {field.n_judged} rounds of pauses below it, {field.n_flushed} "
          f"flushed; {field.n_too_long} more too long to judge; {field.n_suspended} of the rounds were suspended "
          "machines", flush=True)
    check(field.n_judged >= N_PAUSES, "the machine is too slow")
    check_equal(field.n_flushed, 0)


# ---- shares of a lock, also where a client hands it on by itself ----

N_PROCESSES, N_THREADS = 4, 4
ROUNDS = 7
BEGIN_MS, TURN_MS = 150, 300
SHARE = 1.03
WAIT = 1.2
# So many pairs that a client hands on no lock that has them (lua/README.md 39).
PLAIN = {f"pair{i}": "of metadata" for i in range(9)}


def compete(world, actors, name, **options):
    """(how often each has had it, the longest that one of them waited); all in the same time."""
    begin_us = time.monotonic_ns() // 1000 + BEGIN_MS * 1000
    calls = [actor.begin("turns", names=[name], begin_us=begin_us, end_us=begin_us + TURN_MS * 1000,
                         options={"timeout_ms": FOREVER, "ttl_ms": MINUTE_MS, **options}) for actor in actors]
    outcomes = [call.outcome().check() for call in calls]
    world.await_nothing_left()
    return [outcome.count for outcome in outcomes], max(outcome.longest_us for outcome in outcomes)


def kept_ms(clients):
    """How long the process of each was kept from running, in all."""
    return [client.remote.kept_ms() for client in clients]


def missed(rounds):
    """For how much longer than another one process was kept from running, over the time in which shares are counted.
    Of each round, how long each was."""
    of_each = [sum(of_one) for of_one in zip(*rounds)]
    return (max(of_each) - min(of_each)) / (ROUNDS * TURN_MS)


@scenario(kinds=["thread"], counts=[1], is_timed=True)
def each_has_its_share_and_waits_no_longer_than_in_a_plain_queue(world, kind, names):
    clients = [world.client(world.remote()) for _ in range(N_PROCESSES)]
    actors = [world.actor("thread", client) for client in clients for _ in range(N_THREADS)]
    compete(world, actors, *names)
    handed_on = [client.stats().local_hand_overs for client in clients]
    counts, longest_us, plain_us, kept = [], [], [], []
    for _ in range(ROUNDS):
        plain_us.append(compete(world, actors, *names, meta=PLAIN)[1])
        check_equal([client.stats().local_hand_overs for client in clients], handed_on, "a plain queue")
        before = kept_ms(clients)
        count, longest = compete(world, actors, *names)
        kept.append([now - then for then, now in zip(before, kept_ms(clients))])
        counts.append(count)
        longest_us.append(longest)
        handed_on = [client.stats().local_hand_overs for client in clients]
    shares, lost = [sum(of_one) for of_one in zip(*counts)], missed(kept)
    check(min(handed_on) > 0, f"none was handed on: {handed_on}")
    check(max(shares) <= (SHARE + lost) * min(shares), f"shares: {shares}, {lost:.3f} kept from running")
    ratio = statistics.median(longest_us) / statistics.median(plain_us)
    check(ratio <= WAIT, f"the longest waits: {longest_us} us, in a plain queue {plain_us} us")
    print(f"# shares {max(shares) / min(shares):.3f}, {lost:.3f} kept from running, longest wait {ratio:.2f} of the "
          "plain queue's")


if __name__ == "__main__":
    main(at_once=1)
