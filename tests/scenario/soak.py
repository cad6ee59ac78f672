#!/usr/bin/env python3
"""A soak: processes, threads and loops over locks and series, while everything goes wrong at random.

Usage: soak.py REMOTE. It prints its seed first, and in the end one line of figures. RQL_TEST_LONG says for how many
minutes it lasts.

An oracle judges that knows nothing of the library. It is told of each hold: name, token, the
server's time of the grant, and until when the holder relied on it; and it asks a witness, a server
of its own that no fault strikes, which takes a write only if no larger token wrote before.

  * Nobody is granted a lock while another relies on it, by the server's clock; or those who share it fit.
  * No slot is held twice.
  * Tokens rise with the server's clock, and the witness refuses nobody who still believes to hold.
  * Every call ends within its time.
  * In the end nothing is left: no lock, no queue, no request; and each lock can be had at once.

Losing the server's data and setting its clock are breaks: what spans one is not judged, all else is.
"""
import collections
import contextlib
import os
import threading
import time

import fenced
import harness
from harness import PATIENCE_S, Network, PrivateServer, Workers, check, once, tap, wait_until, why_skipped

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
if ARGV[2] == 'write' then redis.call('SET', KEYS[1], ARGV[1]) end
return 1
"""
SHARES = ({"share_units": 1}, {"share_units": 1, "share_limit": 2}, {"share_units": 2, "share_limit": 3},
          {"share_units": 1, "share_limit": 3, "share_slots": True}, {"share_units": 2, "share_limit": 3, "share_slots": True})


class Soak(fenced.Fleet):
    """Processes that acquire, hold for a while and release, again and again. After one was killed the next one does."""

    def __init__(self, world):
        super().__init__(world, (), world.server.now_us, 0, ["thread"] * N_THREADS + ["loop"],
                         connect_timeout_ms=IO_TIMEOUT_MS, retry_delay_ms=100, auto_swarm=True,
                         swarm_probe_period_ms=500, zombie_ttl_ms=ZOMBIE_TTL_MS, zombie_flush_period_ms=500)
        self.witness, self.oracle = PrivateServer(), Oracle()
        self.mutex, self.counts = threading.Lock(), collections.Counter()
        self.slots = [Slot(self) for _ in range(N_SLOTS)]

    def count(self, what):
        with self.mutex:
            self.counts[what] += 1

    def run(self, strike, seconds):
        over = time.monotonic() + seconds
        with Workers(*self.tasks()) as workers:
            while time.monotonic() < over and not self.oracle.violations and not workers.have_failed():
                strike()
        self.oracle.judge()
        if not self.oracle.violations:
            self.check_end()

    def check_end(self):
        """The swarms are still there: what the dead have left goes."""
        wait_until(lambda: not self.world.keys_left(), "nothing is left", ZOMBIE_TTL_MS / 1000 + 3 * PATIENCE_S)
        self.world.actor("thread").acquire(*NAMES, timeout_ms=TIMEOUT_MS).release().check()

    def options_for(self, kind):
        """Of one acquisition, with its names."""
        chance = self.random.random
        names = self.random.sample(NAMES, self.random.choice((1, 1, 1, 1, 2, 3)))
        options = {"timeout_ms": TIMEOUT_MS, "ttl_ms": self.random.choice((400, 1000, 3000)),
                   "tries": chance() < 0.05, "auto_extend": chance() < 0.2, "lazy_release": chance() < 0.3}
        if chance() < 0.1:
            options["access_strategy"] = "random"
        if len(names) == 1 and chance() < 0.4:
            options.update(self.random.choice(SHARES))
        if kind == "thread":  # on a loop each acquisition is an acquirer of its own
            options["task"] = self.random.randrange(3)
        return names, options

    def use_once(self, slot, actor):
        names, options = self.options_for(actor.kind)
        epoch, generation = self.oracle.epoch, self.oracle.generation
        lost_ms = slot.lost_ms()
        asking = actor.ask(*names, **options)
        if actor.kind == "loop" and self.random.random() < 0.05:
            asking.cancel()
        outcome = asking.outcome().check(*allowed(options))
        late_ms = outcome.took_us / 1000 - TIMEOUT_MS
        if late_ms > LATE_MS and late_ms > LATE_MS + slot.lost_ms() - lost_ms:
            self.oracle.complain(f"{late_ms:.0f} ms late: {outcome!r} of {names} {options}")
        self.count(outcome.status)
        if outcome.status == "OK":
            if len(names) > 1:
                self.count("series")
            self.use(asking.hold(), options, epoch, generation)

    def use(self, hold, options, epoch, generation):
        """The epoch and the generation are from before it asked."""
        now_us, names = self.now_us(), hold.names
        helds = [Held(name, token, epoch, hold.outcome, now_us) for name, token in zip(names, hold.tokens)]
        if self.random.random() < 0.1 and "task" in options:
            self.enter_again(hold.actor, names, options)
        if self.random.random() < 0.1 and (hold.actor.kind == "thread" or len(names) == 1):
            hold.extend(2000).check(*ALLOWED)
            self.count("extensions")
        if self.random.random() < 0.1 and len(names) == 1 and not helds[0].units:
            helds = self.lower(hold, helds)
        time.sleep(self.random.choice((0, 0, 0, 0.001, 0.005, 0.03, 0.3)))
        self.write(hold, helds, generation)
        until_us = self.now_us()
        if relies_on(hold):
            for held in helds:
                held.until_us = until_us
        self.oracle.note(helds)
        status = hold.release().check(*ALLOWED).status
        if status != "OK":
            self.count("releases: " + status)

    def lower(self, hold, helds):
        """It was held alone until then, as far as its holder relied on it, and is shared from then on."""
        share, before_us = self.random.choice(SHARES[:3]), self.now_us()
        status = hold.lower(**share).check(*ALLOWED).status
        if status not in ("OK", "E_UNKNOWN"):  # without an answer others may share it now
            return helds
        self.count("lowered" if status == "OK" else "lowered: E_UNKNOWN")
        lowered = Held(helds[0].name, helds[0].token, helds[0].epoch, hold.outcome, self.now_us())
        lowered.is_late = True  # since an earlier time, with an earlier token
        lowered.units, lowered.limit, lowered.from_us = share["share_units"], share.get("share_limit", 4096), self.now_us()
        helds[0].until_us = before_us
        self.oracle.note(helds)
        return [lowered]

    def enter_again(self, actor, names, options):
        again = {**options, "tries": True, "auto_extend": False,
                 "conflict_strategy": self.random.choice(("work_through", "extendable_work_through"))}
        asking = actor.ask(names[0], **again)
        if asking.outcome().check(*allowed(again)).status == "OK":
            self.count("re-entries")
            asking.hold().release().check(*ALLOWED)

    def write(self, hold, helds, generation):
        """To what the locks protect. A holder that is refused must know by then that it has lost them."""
        for held in helds:
            what = "read" if held.units else "write"
            if self.witness.ask("EVAL", WITNESS, 1, f"{generation}:{held.name}", held.token, what):
                continue
            self.count("late writes")
            if relies_on(hold) and self.oracle.is_in(held.epoch):
                self.oracle.complain(f"refused by the witness, and HELD: {held}")


def relies_on(hold):
    return hold.state() == "HELD" and not hold.is_lost()

class Oracle:
    """Holds, and what is wrong with them."""

    def __init__(self):
        self.mutex = threading.Lock()
        self.holds = []
        self.epoch = 0       # odd: within a break
        self.generation = 0  # of the witness: tokens may start anew
        self.violations = []

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

    def complain(self, what):
        with self.mutex:
            self.violations.append(what)

    def judge(self):
        """Of each lock in each epoch, in the order of the server's clock."""
        by_lock = {}
        for hold in self.holds:
            if hold.is_exact or hold.until_us > hold.from_us:  # else it was over before it was heard of
                by_lock.setdefault((hold.name, hold.epoch), []).append(hold)
        for holds in by_lock.values():
            holds.sort(key=lambda hold: (hold.from_us, hold.token))
            granted = [hold for hold in holds if not hold.is_late]
            for before, after in zip(granted, granted[1:]):
                if before.token >= after.token:
                    self.violations.append(f"tokens do not rise: {before} and {after}")
            for i, after in enumerate(holds):
                self.judge_together([before for before in holds[:i] if before.until_us > after.from_us], after)

    def judge_together(self, others, after):
        """Who is granted it while others rely on it shares it with them, within its own limit. One call may let several in
        at the same time: those with larger tokens have come later."""
        if others and not all(one.units for one in (*others, after)):
            self.violations.append(f"two at once: {others} and {after}")
        elif others and not after.is_late and after.units + sum(
                one.units for one in others if not (one.is_late and one.token > after.token)) > after.limit:
            self.violations.append(f"more than {after.limit} units at once: {others} and {after}")
        for other in others:
            if set(other.slots) & set(after.slots):
                self.violations.append(f"a slot is held twice: {other} and {after}")


def allowed(options):
    """What may come of an acquisition. A single try may be granted, and be over when its reply comes."""
    return (*ALLOWED, "RETRY_LIMIT") if options["tries"] else ALLOWED


class Held:
    """One lock that was held: from when until when its holder relied on it, by the server's clock."""

    def __init__(self, name, token, epoch, outcome, now_us):
        self.name, self.token, self.epoch = name, token, epoch
        self.acq_id = outcome.acq_id
        # Others may have joined before a share is heard of: if it was handed over, or if a lost answer was asked for
        # again, which has the time of the grant unless the clock was set back before.
        self.is_late = outcome.share_units > 0 and (outcome.handed_over or token > outcome.ts_us)
        self.units, self.limit, self.slots = outcome.share_units, outcome.share_limit, outcome.slots
        # Of a hand-over inside the client the server's time is known about; it is relied on since it was told.
        self.is_exact = not outcome.handed_over or self.units > 0
        self.from_us = outcome.ts_us if self.is_exact else now_us
        self.until_us = self.from_us

    def __repr__(self):
        share = f" {self.units}/{self.limit} {self.slots}" if self.units else ""
        return f"{self.name} by {self.acq_id} token {self.token}{share} {self.from_us}..{self.until_us}"


class Slot(fenced.Slot):
    """A process, behind a network of its own; after it was killed, the next one."""

    def __init__(self, soak):
        super().__init__(soak, lambda: self.network.url)

    def make(self):
        self.network = Network(self.fleet.world)
        super().make()
        self.actors += self.actors[-1:] * (N_ON_LOOP - 1)


class Nemesis:
    """One mishap after the other. What it begins it ends, but for what heals by itself."""

    def __init__(self, soak):
        self.soak, self.world, self.server, self.random = soak, soak.world, soak.world.server, soak.random
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
        time.sleep(self.random.uniform(0.05, 0.5))

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
        with self.slot().stopped():
            time.sleep(self.random.uniform(0.05, STOP_S))
        self.soak.count("stops")

    def kill_process(self):
        self.slot().kill()
        self.soak.count("kills")

    # ---- of the server ----

    def stop_server(self):
        self.server.freeze()
        self.pause(0.7)
        self.server.go_on()

    def kill_server(self):
        """Nothing is lost: it syncs what it says."""
        self.server.kill()
        self.pause(0.5)
        self.server.launch()
        self.world.reconnect()
        self.soak.count("server kills")

    def forget_scripts(self):
        self.world.ask("SCRIPT", "FLUSH")

    def end_connections(self):
        self.world.ask("CLIENT", "KILL", "TYPE", self.random.choice(("normal", "pubsub")), "SKIPME", "yes")

    def configure(self, name, value, usual):
        self.world.ask("CONFIG", "SET", name, value)
        self.pause(0.5)
        self.world.ask("CONFIG", "SET", name, usual)

    def fill_memory(self):
        self.configure("maxmemory", 1, 0)

    def take_replicas(self):
        self.configure("min-replicas-to-write", 1, 0)

    def make_replica(self):
        self.world.ask("REPLICAOF", "127.0.0.1", "1")
        self.pause(0.5)
        self.world.ask("REPLICAOF", "NO", "ONE")

    def take_right(self):
        self.world.ask("ACL", "SETUSER", "default", "-evalsha", "-eval")
        self.pause(0.3)
        self.world.ask("ACL", "SETUSER", "default", "+@all")

    # ---- breaks ----

    def lose_data(self):
        """Where the clock was set back, tokens may begin below the lost ones."""
        with self.soak.oracle.broken(starts_anew=self.was_ahead):
            self.world.ask("FLUSHALL")
        self.soak.count("data losses")

    def set_clock(self):
        self.was_ahead = True
        with self.soak.oracle.broken():
            self.server.set_ahead(self.random.randrange(0, 20) * 1000000)
        self.soak.count("clock jumps")


def figures(soak, seconds):
    """One line."""
    counts = dict(soak.counts)
    said = [f"seed {soak.world.seed}", f"{seconds:.0f} s", f"{counts.pop('OK', 0)} grants"]
    said += [f"{len(soak.oracle.holds)} holds judged", *(f"{counts[name]} {name}" for name in sorted(counts))]
    return f"soak: {', '.join(said)}: {len(soak.oracle.violations)} violations"


class Fixture(harness.Fixture):
    """The server syncs what it says, so nothing is lost when it is killed. No failure is excused."""

    def run(self, case):
        # A long file of writes would take the server long to read when it is started again.
        self.server = self.server or PrivateServer("--appendonly", "yes", "--appendfsync", "always",
                                                   "--auto-aof-rewrite-min-size", "1mb", has_clock=True)
        super().run(case)

    def excuse(self, case, n_tries, took_s):
        return None


@once
def locks_are_kept_while_everything_goes_wrong(world, _kind, _names):
    print(f"# seed {world.seed}", flush=True)
    seconds, soak = float(os.environ.get("RQL_TEST_LONG", 1)) * 60, Soak(world)
    try:
        soak.run(Nemesis(soak).strike, seconds)
    finally:
        soak.witness.stop()
        print("# " + figures(soak, seconds), flush=True)
    check(not soak.oracle.violations, "\n".join(map(str, soak.oracle.violations[:20])))


if __name__ == "__main__":
    tap.main(Fixture, n_own=1, skip=why_skipped())
