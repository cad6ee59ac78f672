#!/usr/bin/env python3
"""What a loop tells and bears: threads beside it, crowds of requests, its end, what keeps a request waiting; and those
who wait beside each other. RQL_TEST_CROWD: how many requests, for a hundredth as many locks."""
import os

from harness import FOREVER, MINUTE_MS, check, check_equal, check_served_in_order, main, once, scenario, wait_until
from pushes import line_up

N_REQUESTS, PER_LOCK = int(os.environ.get("RQL_TEST_CROWD", 2000)), 100
PATIENCE_S = 60 + N_REQUESTS / 100
POLL_S = 5 / 3  # between two polls, where pushes are seen to come


@once
def locks_of_threads_are_released_and_extended_on_a_loop_and_the_reverse(world, kind, names):
    thread = world.actor(kind)
    loop = world.actor("loop", thread.client)
    for first, second in ((thread, loop), (loop, thread)):
        held = first.acquire(*names, ttl_ms=MINUTE_MS)
        second.begin("extend", lock=held.name, ttl_ms=2 * MINUTE_MS).outcome().check()
        check(world.left_ms(names[0]) > MINUTE_MS, "it is not extended")
        second.begin("verify", lock=held.name).outcome().check()
        second.begin("release", lock=held.name).outcome().check()
        check_equal(world.keys_left(), [])


@scenario(kinds=["loop"])
def closing_gives_up_what_waits_and_what_is_half_taken(world, kind, names):
    held, actor = world.held_by_another(names[-1]), world.actor(kind)
    asked = []
    for count, mode in enumerate(("gem", "atomic"), 1):
        asked.append(actor.ask(*names, timeout_ms=FOREVER, mode=mode))
        world.await_queue(names[-1:], count)
    world.actors.remove(actor)
    actor.end()
    for asking in asked:
        asking.outcome().check("CANCELLED")
    check_equal(world.keys_left(), [f"rql:lock:{names[-1]}"])
    held.release().check()


@scenario(kinds=["loop"])
def closing_beside_no_server_takes_no_answer(world, kind, names):
    actor = world.actor(kind, url="unix:///nonexistent/rql.sock")
    asking = actor.ask(*names, timeout_ms=FOREVER)
    world.actors.remove(actor)
    actor.end()
    asking.outcome().check("CANCELLED", "E_IO")


# ---- crowds ----

class Crowd:
    """Requests of one loop, of which a hundred each wait for one lock."""

    def __init__(self, world):
        self.world, self.locks = world, [f"crowd{i}" for i in range(N_REQUESTS // PER_LOCK)]
        self.holder, self.actor = world.actor("thread"), world.actor("loop", io_timeout_ms=20000)
        self.held = [self.holder.acquire(name, ttl_ms=60 * MINUTE_MS) for name in self.locks]
        self.asked = [self.actor.ask(name, timeout_ms=FOREVER, queue_ttl_ms=FOREVER, ttl_ms=60 * MINUTE_MS)
                      for name in self.locks for _ in range(PER_LOCK)]
        self.await_all()

    def n_waiting(self):
        return sum(self.world.queue_length(name) for name in self.locks)

    def await_all(self):
        wait_until(lambda: self.n_waiting() == N_REQUESTS, "all wait", PATIENCE_S)

    def in_order(self):
        """As they stand in their queues. Those that were asked before the loop was subscribed enter up to 200 ms
        later than they were asked, so that others may be in front of them."""
        for name in self.locks:
            for acquirer in self.world.ask("ZRANGE", f"rql:lock_queue:{name}", 0, -1):
                yield self.asked[int(acquirer.split("/")[2]) - 1]  # the number of the loop's request

    def rate(self, for_us):
        """Commands a second, and how many more may be of a busy machine."""
        before, begun_us = self.world.n_scripts(), self.world.server.now_us()
        wait_until(lambda: self.world.server.now_us() > begun_us + for_us, "the time passes")
        return (self.world.n_scripts() - before) * 1000000 / (self.world.server.now_us() - begun_us)

    def await_quiet(self):
        """Nobody asks who does not lead: the looks after the subscription are over."""
        most = len(self.locks) / POLL_S
        wait_until(lambda: self.rate(200000) <= most * 1.3 + 50, "there are few questions", PATIENCE_S)
        rate = self.rate(5000000)
        check(0 < rate <= most * 1.3 + 10, f"{rate} questions a second")
        print(f"# {N_REQUESTS} requests for {len(self.locks)} locks: {rate:.0f} commands a second", flush=True)


@scenario(kinds=["loop"], counts=[1], is_timed=True)
def a_crowd_waits_for_little(world, _kind, _names):
    crowd = Crowd(world)
    crowd.await_quiet()
    check_equal(len(world.listeners()), 1)
    waiting = list(crowd.in_order())
    for held in crowd.held:
        held.release().check()
    for asking in waiting:
        asking.hold().release().check()
    world.await_nothing_left()


# ---- what keeps a request from its lock ----

def await_fault(actor, asking, status, words=""):
    def is_told():
        outcome = actor.begin("fault_of", of=asking.call.number).outcome()
        return outcome.status == status and words in outcome.error
    wait_until(is_told, f"{status} {words}")


@scenario(kinds=["loop"])
def a_request_tells_what_keeps_it(world, kind, names):
    """Also one for a series of the gem."""
    for mode in ("atomic", "gem") if len(names) > 1 else ("atomic",):
        actor, held = world.actor(kind), world.held_by_another(names[-1])
        world.ask("CONFIG", "SET", "maxmemory", 1)
        asking = actor.ask(*names, timeout_ms=FOREVER, mode=mode)
        await_fault(actor, asking, "E_UNAVAILABLE", "OOM")
        world.ask("CONFIG", "SET", "maxmemory", 0)
        await_fault(actor, asking, "OK")
        world.await_queue(names[-1:], 1)
        await_fault(actor, asking, "OK")
        world.ask("REPLICAOF", "127.0.0.1", 1)
        await_fault(actor, asking, "E_READ_ONLY", "READONLY")
        world.ask("REPLICAOF", "NO", "ONE")
        await_fault(actor, asking, "OK")
        check(not asking.is_over(), "it is over")
        held.release().check()
        asking.hold().release().check()


@scenario(kinds=["loop"], is_timed=True)
def a_silent_server_is_told(world, kind, names):
    """While the connection still counts as good, but not before half of its limit."""
    held, actor = world.held_by_another(*names), world.actor(kind, io_timeout_ms=1000)
    patient = world.actor(kind, io_timeout_ms=MINUTE_MS)
    asking, later = line_up(world, [actor, patient], *names)
    world.server.freeze()
    await_fault(actor, asking, "E_UNKNOWN", ": no answer so far")
    await_fault(patient, later, "OK")
    world.server.go_on()
    await_fault(actor, asking, "OK")
    held.release().check()
    for one in asking, later:
        one.hold().release().check()


# ---- waiters of one client, beside each other and beside whoever empties their queue ----

BESIDE = 8
SOON_US = 1000000
N_MESSAGES, MESSAGE = 400, "x" * 8000  # as many bytes as the pushes of many hand-overs


def n_listening(world):
    """Connections that are told of hand-overs, by their channels: those of a client share one."""
    return [world.ask("PUBSUB", "NUMSUB", channel)[1] for channel in world.listeners()]


@scenario(is_timed=True)
def whose_record_was_removed_too_hears_of_it_from_the_first(world, kind, names):
    """Nobody else can put it back, and it sleeps while the first of its client asks for all."""
    held = world.held_by_another(*names)
    client = world.client()
    actors = [world.actor(kind, client) for _ in range(BESIDE if kind == "thread" else 1)]
    asked = line_up(world, (actors * BESIDE)[:BESIDE], *names, retry_delay_ms=MINUTE_MS)
    world.await_listeners(1)
    world.ask("DEL", *[f"rql:{part}:{name}" for part in ("lock_queue", "req") for name in names])
    begun_us = world.server.now_us()
    world.await_queue(names, BESIDE)
    took_us = world.server.now_us() - begun_us
    check(took_us < 1000000 * POLL_S + SOON_US, f"after {took_us} us")
    check_served_in_order(asked, held)


def wait_by_a_thread(world, client):
    held = world.held_by_another("thread")
    asking = world.actor("thread", client).ask("thread", timeout_ms=FOREVER)
    world.await_queue(["thread"], 1)
    world.await_listeners(1)
    held.release().check()
    asking.hold().release().check()


def nothing_is_kept(world, channel):
    """What the server has for those who do not read. What is left in the threads' connection when the loop has
    read its own goes with the next push."""
    world.ask("PUBLISH", channel, "hello")
    listed = world.ask("CLIENT", "LIST", "TYPE", "pubsub")
    return listed.count(" omem=0 ") == listed.count(" omem=")


@scenario(kinds=["loop"])
def a_loop_reads_what_no_thread_reads(world, kind, names):
    """Or the server would keep it, and cut the connection."""
    client = world.client()
    wait_by_a_thread(world, client)
    held = world.held_by_another(*names)
    asking = world.actor(kind, client).ask(*names, timeout_ms=FOREVER)
    wait_until(lambda: n_listening(world) == [2], "the loop listens, too")
    channel = world.listeners().pop()
    for _ in range(N_MESSAGES):
        world.ask("PUBLISH", channel, MESSAGE)
    wait_until(lambda: nothing_is_kept(world, channel), "all is read")
    held.release().check()
    asking.hold().release().check()
    wait_by_a_thread(world, client)
    check_equal(n_listening(world), [2])  # on the same connections
    world.await_nothing_left()


if __name__ == "__main__":
    main()
