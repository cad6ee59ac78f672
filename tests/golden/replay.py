#!/usr/bin/env python3
"""The recorded sessions of the gem, done by the library (README.md). A recording is a list of steps of up to three
processes, A, B and C; in a replay each is a client of the library or, when the cast says so, Ruby: then the commands
that the gem sent are sent again. Usage: replay.py REMOTE [WORD...], as for the scenarios. With RQL_TEST_BINDING, a
program that performs some of the calls of REMOTE in another language (tests/bindings), each process that makes no other
calls is played by it, one at a time."""
import json
import os
import pathlib
import shutil
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(1, str(HERE.parent / "scenario"))
import harness  # noqa: E402
from calls import NUMBERS, STRATEGIES, Run, fault_at  # noqa: E402
from compare import Comparison, dump  # noqa: E402
from differences import DIFFERENCES, apply, differences_of, parts_of  # noqa: E402
from harness import SLOW, Client, Failure, Network, Remote, check, let_pass, wait_until  # noqa: E402
from names import Names  # noqa: E402

TIMEOUT_MS = 20000   # only calls through a bad network may end by the silence of the server
SILENCE_MS = 500     # how long a server that is cut off is waited for
DELAY_MAX_MS = 20000  # longer than any delay that is recorded
AWAIT_S, PAUSE_S = 5 * SLOW, 0.001
BINDING = os.environ.get("RQL_TEST_BINDING")
BOUND_OPS = {"lock", "lock!", "lock_info", "queue_info", "locked?", "redis"}
BOUND_OPTIONS = {*NUMBERS, *STRATEGIES, "fail_fast"}


def io_timeout_ms(steps):
    """For a recording with faults in it; 0 if there are none."""
    if any(fault_at(step, command) for step in steps for command in ("EXPIRE", "ZRANGE")):
        return SILENCE_MS
    return DELAY_MAX_MS if any(fault_at(step, "MULTI") for step in steps) else 0


class Player:
    """A process of the library's: its client and its first thread."""

    def __init__(self, world, remote, network, options):
        url = network.url if network else world.server.url
        self.client = Client(remote, f"client{next(world.numbers)}", options={"url": url, **options})
        world.clients.append(self.client)
        self.has_swarm = False
        self.actor = world.actor("thread", self.client)
        self.actor.begin("connect").outcome().check()


class Binding:
    """The library as a program in another language has it. The program serves one replay after the other."""

    def __init__(self):
        self.remote = Remote(BINDING, {"RQL_LIBRARY": os.environ["RQL_TEST_LIBRARY"]})

    def stop(self):
        self.remote.kill()


class Play:
    """One replay of a recording."""

    def __init__(self, world, recording, ruby, bound):
        self.world, self.ruby, self.recording, self.bound = world, ruby, recording, bound
        self.steps = recording["steps"]
        self.names = Names()
        self.players, self.runs = {}, {}
        timeout_ms = io_timeout_ms(self.steps)
        self.network = Network(world) if timeout_ms else None
        self.remote = self.network.remote if self.network else world.remote()
        self.remote.do("options").check()  # it has begun, which takes its time under valgrind
        timeout_ms = timeout_ms or TIMEOUT_MS
        self.options = {"io_timeout_ms": timeout_ms, "connect_timeout_ms": timeout_ms}
        self.number, self.step, self.at_s, self.differences = 0, None, 0.0, []
        self.found, self.missed = set(), {}  # differences that there were, and those that there were not yet

    def run(self):
        if self.bound:
            self.begin_binding()
        for self.number in range(len(self.steps)):
            self.differences = differences_of(self.recording["scenario"], self.number, self.ruby)
            try:
                self.play_step()
            except AssertionError as failure:
                raise Failure(f"step {self.number}: {failure}") from failure
        if self.network:
            self.network.heal()
        for player in self.players.values():
            if player.has_swarm:
                self.remote.do("end_swarm", name=player.client.name).check()
        check(not self.missed, f"no longer differs: {list(self.missed.values())}")

    def play_step(self):
        self.step = apply(self.steps[self.number], self.differences)
        if not self.step:
            return
        self.at_s = self.step["at"]
        if self.network:
            self.network.heal()
        {"call": self.play_call, "start": self.play_start, "finish": self.play_finish, "look": self.play_look,
         "raw": self.play_raw}[self.step["do"]]()

    # ---- what was recorded, sent again ----

    def is_ruby(self, words):
        return words["by"] in self.ruby.split()

    def now_s(self):
        return self.world.server.now_us() / 1000000

    def send(self, commands):
        """Instants moved."""
        for command in commands:
            now_s = self.now_s()
            words = [self.names.move(word, self.at_s, now_s) for word in command]
            if command[0] == "PEXPIRE":
                words[2] = self.moved_ttl(*command[1:], commands, now_s)
            self.world.ask(*words)

    def moved_ttl(self, key, ttl_ms, commands, now_s):
        """So that it counts from the instant of its lock, however slow the machine. It was set when that was taken, or
        by this step."""
        ts = self.world.ask("HGET", key, "ts")
        taken_s = self.names.recorded_time(float(ts)) if ts else None
        if taken_s is None:
            return ttl_ms
        is_taken = any(command[:2] == ["HSET", key] and "ts" in command for command in commands)
        set_s = taken_s if is_taken else self.at_s
        return round(int(ttl_ms) + (set_s - taken_s - now_s + float(ts)) * 1000)

    def send_meanwhile(self):
        """What a process of Ruby's did while this step was going on."""
        for part in self.step.get("meanwhile", []):
            if self.is_ruby(part):
                self.send(part.get("gem", []))

    def inject(self):
        """The library has no moment between its reads and its writes: what happened there to the gem happens just
        before."""
        for fault in self.step.get("inject", []):
            self.send(fault.get("do", []))
        delay = fault_at(self.step, "MULTI")
        if delay:
            self.network.fail("delay", direction="down", n=delay["sleep_ms"])
        if fault_at(self.step, "ZRANGE"):
            self.network.fail("freeze", direction="down")

    # ---- comparing ----

    def compare(self, compare, now_s, keys):
        """With what the library is expected to answer. And without each difference: is it one?"""
        step, names = self.step, Names(self.names)
        compare(Comparison(names, self.at_s, now_s, True), step)
        for difference in self.differences:
            mark = id(difference), keys
            if mark in self.found or not parts_of(difference, keys):
                continue
            self.missed[mark] = difference
            others = [one for one in self.differences if one is not difference]
            try:
                compare(Comparison(Names(self.names), self.at_s, now_s, False), apply(self.steps[self.number], others))
            except Failure:
                self.found.add(mark)
                del self.missed[mark]
        self.names = names

    def compare_outcome(self, outcome):
        self.compare(lambda comparison, step: comparison.outcome(step, outcome), outcome["now_s"], False)

    def compare_keys(self, may_wait=False):
        """While calls are under way the state is where the recording was at some time."""
        end_s = time.monotonic() + AWAIT_S
        while True:
            now_s, keys = dump(self.world)
            try:
                return self.compare(lambda comparison, step: comparison.keys(step.get("state", {}), keys), now_s, True)
            except Failure:
                if not may_wait or time.monotonic() > end_s:
                    raise
            let_pass(PAUSE_S)

    # ---- steps ----

    def make_run(self):
        who = self.step["by"], self.step.get("options", {}).get("identity", "")
        if who not in self.players:
            self.players[who] = Player(self.world, self.remote, self.network, self.options)
        return Run(self, self.players[who], self.step)

    def begin_binding(self):
        """Before the first step, because it takes its time."""
        if BINDING not in self.world.kept:
            self.world.kept[BINDING] = Binding()
        self.players[self.bound, ""] = Player(self.world, self.world.kept[BINDING].remote, None, self.options)

    def play_call(self):
        self.send_meanwhile()
        may_wait = bool(self.network)
        if self.is_ruby(self.step):
            self.send(self.step.get("gem", []))
        else:
            run = self.make_run()
            self.inject()
            self.compare_outcome(run.perform())
            may_wait = may_wait or run.is_unsettled
        self.compare_keys(may_wait)

    def play_start(self):
        """In a thread of its own. Until it is in its block, in the queue or at its end: the server has heard of it."""
        if self.is_ruby(self.step):
            self.send(self.step.get("gem", []))
            return
        run = self.runs[self.step["id"]] = self.make_run()
        run.actor = self.world.actor("thread", run.player.client)
        run.is_async = True
        n_queued = self.world.queue_length(run.lock_name)
        run.start()
        wait_until(lambda: run.is_inside.is_set() or not run.is_alive()
                   or self.world.queue_length(run.lock_name) > n_queued, "it arrives", AWAIT_S)

    def play_finish(self):
        if self.is_ruby(self.step):
            self.send(self.step.get("gem", []))
        else:
            run = self.runs.pop(self.step["id"])
            outcome = run.finish()
            self.world.actors.remove(run.actor)
            run.actor.end()
            self.compare_outcome(outcome)
        self.send_meanwhile()
        self.compare_keys(may_wait=True)

    def play_look(self):
        """With commands: of a process of Ruby's that made no call which ended."""
        self.send(self.step.get("gem", []))
        self.send_meanwhile()
        self.compare_keys(may_wait=True)

    def play_raw(self):
        self.send([self.step["command"]])


# ---- what is replayed ----

class Replay:
    """A recording with one cast, as a scenario of the harness."""
    is_timed = True

    def __init__(self, recording, ruby, bound=None):
        self.recording, self.ruby, self.bound = recording, ruby, bound
        self.title = (recording["scenario"] + (f", Ruby is {ruby}" if ruby else "")
                      + (f", {bound} by {pathlib.Path(BINDING).name}" if bound else ""))

    def __call__(self, world, _kind, _names):
        play = Play(world, self.recording, self.ruby, self.bound)
        try:
            play.run()
        finally:
            for run in play.runs.values():  # only after a failure
                run.may_end.set()


class List:
    """Every difference names a recording and steps that are there, and says why."""
    is_timed = False
    title = "the list is in order"

    def __init__(self, recordings):
        self.n_steps = {recording["scenario"]: len(recording["steps"]) for recording in recordings}

    def __call__(self, _world, _kind, _names):
        for difference in DIFFERENCES:
            steps = difference.get("steps", [difference.get("from")])
            check(max(steps) < self.n_steps.get(difference["scenario"], 0), f"no such recording or step: {difference}")
            check(difference.get("why"), f"it does not say why: {difference}")


def casts(recording):
    """All processes are ours; then, if there are two, one of them is Ruby."""
    processes = {step["by"] for step in recording["steps"] if "op" in step}
    return ["", "A", "B"] if {"A", "B"} <= processes else [""]


def all_calls(step):
    """With those in its blocks."""
    yield step
    for call in step.get("block", []):
        yield from all_calls(call)


def is_bound(call):
    """The binding has it, with its options."""
    return call["op"] in BOUND_OPS and call.get("options", {}).keys() <= BOUND_OPTIONS and "fiber" not in call


def bound_replays(recording, ruby):
    """One for each process of ours that makes no other calls; none with a network that fails."""
    calls = {}
    for step in recording["steps"]:
        if "op" in step and step["by"] != ruby:
            calls.setdefault(step["by"], []).extend(all_calls(step))
    for process, made in sorted(calls.items()):
        if not io_timeout_ms(recording["steps"]) and all(map(is_bound, made)):
            yield Replay(recording, ruby, process)


def main():
    if BINDING and not shutil.which("ruby"):
        harness.tap.main(skip="no ruby in PATH")
    recordings = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(HERE.glob("recordings/*.json"))]
    cases = [Replay(recording, ruby) for recording in recordings for ruby in casts(recording)]
    if BINDING:
        cases = [replay for case in cases for replay in bound_replays(case.recording, case.ruby)]
        n_played = len({case.recording["scenario"] for case in cases})
        print(f"# {n_played} recordings; {len(recordings) - n_played} need other calls and are left to `remote`")
    else:
        cases.append(List(recordings))
    for case in cases:
        harness.tap.add(case.title, case, "thread", ["lock0"])
    harness.main()


if __name__ == "__main__":
    main()
