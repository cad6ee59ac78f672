#!/usr/bin/env python3
"""A soak: processes, threads and loops over locks and series, while everything goes wrong at random.

Usage: soak.py REMOTE. It prints its seed first, and in the end one line of figures. RQL_TEST_LONG says for how many
minutes it lasts.

An oracle judges that knows nothing of the library. It is told of each hold: name, token, the
server's time of the grant, and until when the holder relied on it; and it asks a witness, a server
of its own that no fault strikes, which takes a write only if no larger token wrote before.

  * Nobody is granted a lock while another relies on it, by the server's clock.
  * Tokens rise with the server's clock, and the witness refuses nobody who still believes to hold.
  * Every call ends within its time.
  * In the end nothing is left: no lock, no queue, no request; and each lock can be had at once.

Losing the server's data and setting its clock are breaks: what spans one is not judged, all else is.
"""
import contextlib
import os
import random
import sys
import threading
import time

from harness import (PATIENCE_S, Connection, Failure, Network, PrivateServer, World, check, delayed_ms, tap, wait_until,
                     why_skipped)

N_SLOTS = 3        # processes
N_THREADS = 3      # in each, beside a loop that N_ON_LOOP workers ask on
N_ON_LOOP = 3
NAMES = ["a", "b", "c", "d", "e", "f"]
TIMEOUT_MS = 1500
DELAY_MS = 30      # of the network, at most
LATE_MS = 50 + 4 * DELAY_MS + 200  # the withdrawal's time, two round trips, and the machine's
IO_TIMEOUT_MS = 300
ZOMBIE_TTL_MS = 8000
STOP_S = 2.0       # of a process, at most: shorter than a host may be silent
ALLOWED = ("OK", "TIMED_OUT", "FAIL_FAST_NO_TRY", "FAIL_FAST_AFTER_TRY", "CONFLICT", "NOT_HELD", "CANCELLED", "E_IO",
           "E_UNKNOWN", "E_UNAVAILABLE", "E_READ_ONLY", "E_AUTH")

WITNESS = """
local seen = tonumber(redis.call('GET', KEYS[1]) or 0)
if tonumber(ARGV[1]) < seen then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1
"""


class Soak:
    def __init__(self, program, seed):
        self.random = random.Random(seed)
        self.program = program
        self.server = PrivateServer("--appendonly", "yes", "--appendfsync", "always", has_clock=True)
        self.witness = PrivateServer()
        self.oracle = Oracle()
        self.is_over = threading.Event()
        self.mutex = threading.Lock()
        self.counts = {}
        self.slots = []
        for number in range(N_SLOTS):
            self.slots.append(Slot(self, number))

    def count(self, what):
        with self.mutex:
            self.counts[what] = self.counts.get(what, 0) + 1

    def run(self, seconds):
        workers = [Worker(self, slot, i) for slot in self.slots for i in range(N_THREADS + N_ON_LOOP)]
        nemesis = Nemesis(self)
        end = time.monotonic() + seconds
        for worker in workers:
            worker.start()
        try:
            while time.monotonic() < end and not self.oracle.violations:
                nemesis.strike()
        finally:
            self.is_over.set()
            for worker in workers:
                worker.join()
        self.oracle.judge()
        if not self.oracle.violations:
            self.check_end()

    def check_end(self):
        """The swarms are still there: what the dead have left goes."""
        world = World(self.program, self.server)
        wait_until(lambda: not world.keys_left(), "nothing is left", ZOMBIE_TTL_MS / 1000 + 3 * PATIENCE_S)
        for slot in self.slots:
            slot.end()
        world.actor("thread").acquire(*NAMES, timeout_ms=TIMEOUT_MS).release().check()
        world.end()

    def close(self):
        for slot in self.slots:
            slot.abandon()
        self.server.go_on()
        self.server.stop()
        self.witness.stop()


class Oracle:
    """Holds, and what is wrong with them."""

    def __init__(self):
        self.mutex = threading.Lock()
        self.holds = []
        self.epoch = 0       # odd: within a break
        self.generation = 0  # of the witness: tokens may start anew
        self.violations = []
        self.n_unjudged = 0

    @contextlib.contextmanager
    def broken(self, starts_anew=False):
        with self.mutex:
            self.epoch += 1
            self.generation += starts_anew
        yield
        with self.mutex:
            self.epoch += 1

    def is_in(self, epoch):
        """No break since."""
        return epoch % 2 == 0 and epoch == self.epoch

    def note(self, helds):
        with self.mutex:
            if self.is_in(helds[0].epoch):
                self.holds += helds
            else:
                self.n_unjudged += len(helds)

    def complain(self, what):
        with self.mutex:
            self.violations.append(what)

    def judge(self):
        """Of each lock in each epoch, in the order of the server's clock."""
        by_lock = {}
        for hold in self.holds:
            by_lock.setdefault((hold.name, hold.epoch), []).append(hold)
        for holds in by_lock.values():
            holds.sort(key=lambda hold: (hold.from_us, hold.token))
            for before, after in zip(holds, holds[1:]):
                if before.until_us > after.from_us:
                    self.violations.append(f"two at once: {before} and {after}")
                if before.token >= after.token:
                    self.violations.append(f"tokens do not rise: {before} and {after}")


def allowed(options):
    """What may come of an acquisition. A single try may be granted, and be over when its reply comes."""
    return (*ALLOWED, "RETRY_LIMIT") if options["tries"] else ALLOWED


class Held:
    """One lock that was held: from when until when its holder relied on it, by the server's clock."""

    def __init__(self, name, token, epoch, outcome, now_us):
        self.name, self.token, self.epoch = name, token, epoch
        self.acq_id = outcome.acq_id
        # Of a hand-over inside the client the server's time is known about; it is relied on since it was told.
        self.from_us = now_us if outcome.handed_over else outcome.ts_us
        self.until_us = self.from_us

    def __repr__(self):
        return f"{self.name} by {self.acq_id} token {self.token} {self.from_us}..{self.until_us}"


class Slot:
    """A process, behind a network of its own; after it was killed, the next one."""

    def __init__(self, soak, number):
        self.soak, self.number = soak, number
        self.mutex = threading.Lock()
        self.n_made = 0
        self.stopped_ms = 0  # in all
        self.make()

    def make(self):
        world = World(self.soak.program, self.soak.server)
        self.network = Network(world)
        self.client = self.network.client(
            connect_timeout_ms=IO_TIMEOUT_MS, io_timeout_ms=IO_TIMEOUT_MS, retry_delay_ms=100, auto_swarm=True,
            swarm_probe_period_ms=500, zombie_ttl_ms=ZOMBIE_TTL_MS, zombie_flush_period_ms=500)
        self.world, self.remote = world, self.network.remote
        self.loop = world.actor("loop", self.client)
        self.n_made += 1

    def kept_ms(self):
        """How long this process was kept from running, in all."""
        return self.stopped_ms + delayed_ms(self.remote.process.pid)

    def stop(self, seconds):
        self.remote.stop()
        time.sleep(seconds)
        self.stopped_ms += seconds * 1000
        self.remote.go_on()

    def kill(self):
        """And the next one."""
        with self.mutex:
            self.world.kill(self.loop)
            self.make()

    def end(self):
        self.world.end()

    def abandon(self):
        if self.remote.process.poll() is None:
            self.remote.go_on()
            self.world.abandon()


class Worker(threading.Thread):
    """Acquires, holds for a while and releases, again and again. Where its process is killed it goes
    on in the next one."""

    def __init__(self, soak, slot, number):
        super().__init__()
        self.soak, self.slot, self.number = soak, slot, number
        self.random = random.Random(soak.random.random())
        self.witness = Connection(soak.witness.path, PATIENCE_S)
        self.made = 0
        self.actor = None

    def run(self):
        try:
            while not self.soak.is_over.is_set():
                self.turn()
        except Exception as failure:  # the soak ends, and says why
            self.soak.oracle.complain(f"worker {self.number} of process {self.slot.number}: {failure!r}")
        self.witness.close()

    def turn(self):
        self.join_process()
        try:
            self.hold_once()
        except Failure:
            if not self.actor.remote.is_killed:
                raise
            self.soak.count("calls of the killed")

    def join_process(self):
        with self.slot.mutex:
            if self.made != self.slot.n_made:
                self.actor = (self.slot.world.actor("thread", self.slot.client) if self.number < N_THREADS
                              else self.slot.loop)
                self.made = self.slot.n_made

    def options(self):
        """Of one acquisition, with its names."""
        chance = self.random.random
        names = self.random.sample(NAMES, self.random.choice((1, 1, 1, 1, 2, 3)))
        options = {"timeout_ms": TIMEOUT_MS, "ttl_ms": self.random.choice((400, 1000, 3000)),
                   "tries": chance() < 0.05, "auto_extend": chance() < 0.2, "lazy_release": chance() < 0.3}
        if chance() < 0.1:
            options["access_strategy"] = "random"
        if self.actor.kind == "thread":  # on a loop each acquisition is an acquirer of its own
            options["task"] = self.random.randrange(3)
        return names, options

    def hold_once(self):
        soak = self.soak
        names, options = self.options()
        epoch, generation = soak.oracle.epoch, soak.oracle.generation
        kept_ms = self.slot.kept_ms()
        asking = self.actor.ask(*names, **options)
        if self.actor.kind == "loop" and self.random.random() < 0.05:
            asking.cancel()
        outcome = asking.outcome().check(*allowed(options))
        late_ms = outcome.took_us / 1000 - TIMEOUT_MS
        if late_ms > LATE_MS and late_ms > LATE_MS + self.slot.kept_ms() - kept_ms:
            soak.oracle.complain(f"{late_ms:.0f} ms late: {outcome!r} of {names} {options}")
        soak.count(outcome.status)
        if outcome.status == "OK":
            if len(names) > 1:
                soak.count("series")
            self.use(asking.hold(), names, options, (epoch, generation))

    def use(self, hold, names, options, when):
        """When: epoch and generation from before it asked."""
        oracle, server = self.soak.oracle, self.soak.server
        epoch, generation = when
        now_us = server.now_us()
        helds = [Held(name, token, epoch, hold.outcome, now_us) for name, token in zip(names, hold.tokens)]
        if self.random.random() < 0.1 and "task" in options:
            self.enter_again(names, options)
        if self.random.random() < 0.1 and (self.actor.kind == "thread" or len(names) == 1):
            hold.extend(2000).check(*ALLOWED)
            self.soak.count("extensions")
        time.sleep(self.random.choice((0, 0, 0, 0.001, 0.005, 0.03, 0.3)))
        self.write(hold, helds, generation)
        until_us = server.now_us()
        if self.relies_on(hold):
            for held in helds:
                held.until_us = until_us
        oracle.note(helds)
        status = hold.release().check(*ALLOWED).status
        if status != "OK":
            self.soak.count("releases: " + status)

    def enter_again(self, names, options):
        again = {**options, "tries": True, "auto_extend": False,
                 "conflict_strategy": self.random.choice(("work_through", "extendable_work_through"))}
        asking = self.actor.ask(names[0], **again)
        if asking.outcome().check(*allowed(again)).status == "OK":
            self.soak.count("re-entries")
            asking.hold().release().check(*ALLOWED)

    def relies_on(self, hold):
        return hold.state() == "HELD" and not hold.is_lost()

    def write(self, hold, helds, generation):
        """To what the locks protect. Who is refused must know by then that he holds them no more."""
        for held in helds:
            if self.witness.call("EVAL", WITNESS, 1, f"{generation}:{held.name}", held.token):
                continue
            self.soak.count("late writes")
            if self.relies_on(hold) and self.soak.oracle.is_in(held.epoch):
                self.soak.oracle.complain(f"refused by the witness, and HELD: {held}")


class Nemesis:
    """One mishap after the other. What it begins it ends, but for what heals by itself."""

    def __init__(self, soak):
        self.soak, self.random = soak, random.Random(soak.random.random())
        self.raw = Connection(soak.server.path, PATIENCE_S)
        self.was_ahead = False
        self.mishaps = [
            (6, self.cut), (6, self.lose_reply), (4, self.freeze), (4, self.delay), (2, self.refuse),
            (2, self.mute), (6, self.stop_process), (4, self.kill_process), (3, self.stop_server),
            (3, self.kill_server), (2, self.forget_scripts), (3, self.end_connections),
            (2, self.fill_memory), (2, self.make_replica), (2, self.take_replicas), (2, self.take_right),
            (1, self.lose_data), (1, self.set_clock),
        ]

    def strike(self):
        mishap = self.random.choices([one for _, one in self.mishaps], [weight for weight, _ in self.mishaps])[0]
        mishap()
        self.soak.count("mishaps")
        self.soak.is_over.wait(self.random.uniform(0.05, 0.5))

    def slot(self):
        return self.random.choice(self.soak.slots)

    def pause(self, most_s):
        time.sleep(self.random.uniform(0.02, most_s))

    # ---- of one process and its network ----

    def cut(self):
        self.slot().network.fail("cut")

    def lose_reply(self):
        """With the connection: a network that swallows one reply and goes on is none."""
        self.slot().network.fail("cut_reply", n=self.random.randrange(1, 4))

    def freeze(self):
        slot = self.slot()
        slot.network.fail("freeze", n=1, direction=self.random.choice(("up", "down", "both")))
        self.pause(1.5)
        slot.network.fail("freeze", n=0)

    def delay(self):
        slot = self.slot()
        slot.network.fail("delay", n=self.random.randrange(1, DELAY_MS))
        self.pause(1)
        slot.network.fail("delay", n=0)

    def refuse(self):
        slot = self.slot()
        slot.network.fail("refuse", n=1)
        slot.network.fail("cut")
        self.pause(1)
        slot.network.fail("refuse", n=0)

    def mute(self):
        slot = self.slot()
        slot.network.fail("mute_last")
        self.pause(1)
        slot.network.heal()

    def stop_process(self):
        self.slot().stop(self.random.uniform(0.05, STOP_S))
        self.soak.count("stops")

    def kill_process(self):
        self.slot().kill()
        self.soak.count("kills")

    # ---- of the server ----

    def stop_server(self):
        self.soak.server.freeze()
        self.pause(0.7)
        self.soak.server.go_on()

    def launch_server(self):
        self.soak.server.launch()
        self.raw.close()
        self.raw = Connection(self.soak.server.path, PATIENCE_S)

    def kill_server(self):
        """Nothing is lost: it syncs what it says."""
        self.soak.server.kill()
        self.pause(0.5)
        self.launch_server()
        self.soak.count("server kills")

    def forget_scripts(self):
        self.raw.call("SCRIPT", "FLUSH")

    def end_connections(self):
        self.raw.call("CLIENT", "KILL", "TYPE", self.random.choice(("normal", "pubsub")), "SKIPME", "yes")

    def configure(self, name, value, usual):
        self.raw.call("CONFIG", "SET", name, value)
        self.pause(0.5)
        self.raw.call("CONFIG", "SET", name, usual)

    def fill_memory(self):
        self.configure("maxmemory", 1, 0)

    def take_replicas(self):
        self.configure("min-replicas-to-write", 1, 0)

    def make_replica(self):
        self.raw.call("REPLICAOF", "127.0.0.1", "1")
        self.pause(0.5)
        self.raw.call("REPLICAOF", "NO", "ONE")

    def take_right(self):
        self.raw.call("ACL", "SETUSER", "default", "-evalsha", "-eval")
        self.pause(0.3)
        self.raw.call("ACL", "SETUSER", "default", "+@all")

    # ---- breaks ----

    def lose_data(self):
        """Where the clock was set back, tokens may begin below the lost ones."""
        with self.soak.oracle.broken(starts_anew=self.was_ahead):
            self.raw.call("FLUSHALL")
        self.soak.count("data losses")

    def set_clock(self):
        self.was_ahead = True
        with self.soak.oracle.broken():
            self.soak.server.set_ahead(self.random.randrange(0, 20) * 1000000)
        self.soak.count("clock jumps")


def figures(soak, seed, seconds):
    """One line."""
    counts = dict(soak.counts)
    said = [f"seed {seed}", f"{seconds:.0f} s", f"{counts.pop('OK', 0)} grants", f"{len(soak.oracle.holds)} holds judged"]
    said += [f"{counts[name]} {name}" for name in sorted(counts)]
    return f"soak: {', '.join(said)}: {len(soak.oracle.violations)} violations"


class Fixture(tap.Fixture):
    def run(self, case):
        self.seed = tap.new_seed()
        print(f"# seed {self.seed}", flush=True)
        case.function(self.seed)


def test_locks_are_kept_while_everything_goes_wrong(seed):
    seconds = float(os.environ.get("RQL_TEST_LONG", 1)) * 60
    soak = Soak(os.path.abspath(sys.argv[1]), seed)
    try:
        soak.run(seconds)
    except Exception as failure:  # of the end, mostly
        soak.oracle.complain(repr(failure))
    finally:
        log = soak.server.log()[-2000:]
        soak.close()
    print("# " + figures(soak, seed, seconds))
    check(not soak.oracle.violations, "\n".join([*map(str, soak.oracle.violations[:20]), log]))


if __name__ == "__main__":
    tap.main(Fixture, n_own=1, skip=why_skipped())
