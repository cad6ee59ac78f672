#!/usr/bin/env python3
"""Locks that several commands hold together: `rql run` and `rql lock` with --shared, --permits and --slots.
RQL_TEST_LONG: the commands that are killed at random, for a minute."""
import os
import random
import shutil
import signal
import subprocess
import time

from harness import (PROGRAM, SLOW, Folder, Missing, check_equal, check_in, environment, finish, main, start_waiting,
                     wait_until)

READS = ("run", "a", "--shared")
SHARED = "rql:acq:shared/0/0/0/" + "0" * 32
SECONDS = 60 if "RQL_TEST_LONG" in os.environ else 4
N_PERMITS, N_PROCESSES = 4, 8
TTL_S = 2
# From the end of a share until a waiter has started its command: 1.7 s between two polls, 1 s in which a waiter may
# miss its grant, and the start of a process on a busy machine.
REACTION_S = 5 * SLOW


def start_holding(rql, folder, *words):
    """A command that holds its lock until the file "end" exists. It has written its slots to "out"."""
    before = folder.read("out").count("\n")
    process = rql.start(*words, "-c", f"cd {folder.folder.name} || exit; echo ${{RQL_SLOTS-none}} >>out;"
                                      "until [ -e end ]; do sleep 0.02; done")
    wait_until(lambda: folder.read("out").count("\n") > before, "it runs")
    return process


def check_all_end(*processes):
    for process in processes:
        said = finish(process)
        check_equal((said.code, said.err), (0, ""))


def test_readers_run_together_and_a_writer_alone(server, rql):
    with Folder() as folder:
        readers = [start_holding(rql, folder, *READS) for _ in range(3)]
        check_equal(server.ask("HGET", "rql:lock:a", "rql_used"), "3")
        writer = start_waiting(server, rql, "run", "a", "--", "true")
        check_equal(rql(*READS, "--try", "--", "true").code, 1)  # it does not pass the writer
        folder.touch("end")
        check_all_end(*readers, writer)
    with Folder() as folder:
        writer = start_holding(rql, folder, "run", "a")
        check_equal(rql(*READS, "--try", "--", "true").code, 1)
        reader = start_waiting(server, rql, *READS, "--", "true")
        folder.touch("end")
        check_all_end(writer, reader)
    assert not server.is_locked("a")


def test_units_in_use_do_not_exceed_the_permits(server, rql):
    with Folder() as folder:
        held = [start_holding(rql, folder, "run", "a", "--permits", "4", *units) for units in ((), ("--units", "2"))]
        check_equal(server.ask("HGET", "rql:lock:a", "rql_used"), "3")
        check_equal(rql("run", "a", "--permits", "4", "--units", "2", "--try", "--", "true").code, 1)
        check_equal(rql("run", "a", "--permits", "4", "--try", "--", "true").code, 0)
        large = start_waiting(server, rql, "run", "a", "--permits", "4", "--units", "2", "--", "true")
        folder.touch("end")
        check_all_end(*held, large)
        check_equal(folder.read("out"), "none\n" * 2)
    assert not server.is_locked("a")


def test_a_command_finds_its_slots(_server, rql):
    permits = ("run", "a", "--permits", "8", "--slots")
    with Folder() as folder:
        one = start_holding(rql, folder, *permits)
        words = rql(*permits, "--units", "2", "--", "echo", "{slot}", "x{slot}y{slot}{", "slot")
        check_equal(words.out, "1 x1y1{ slot\n")
        check_equal(rql(*permits, "--units", "2", "-c", "echo {slot} $RQL_SLOTS").out, "1 1,2\n")
        folder.touch("end")
        check_all_end(one)
    check_equal(rql("run", "a", "--permits", "8", "--", "echo", "{slot}").out, "{slot}\n")


def test_slots_are_those_of_the_lock_that_the_command_runs_under(_server, rql):
    inner = f"'{PROGRAM}' run b -c 'echo $RQL_LOCK ${{RQL_SLOTS-none}}'; echo $RQL_LOCK $RQL_SLOTS"
    check_equal(rql("run", "a", "--permits", "8", "--slots", "-c", inner, RQL_SLOTS="7").out, "b none\na 0\n")


def test_rql_lock_prints_its_slots(server, rql):
    permits = ("lock", "a", "--ttl", "1m", "--permits", "4", "--slots")
    check_in("\nslots   0\n", rql(*permits).out)
    check_in("\nslots   1,2\n", rql(*permits, "--units", "2").out)
    check_equal(rql(*permits, "--json").json()["slots"], [3])
    check_equal(server.ask("HGET", "rql:lock:a", "acq_id"), SHARED)
    refused = rql(*permits, "--try", "--json")
    check_equal((refused.code, refused.json()), (1, None))
    alone = rql("lock", "b", "--json")
    check_equal(alone.json()["slots"], [])
    assert "slots" not in rql("lock", "c", "--shared").out


def test_wrong_combinations_are_refused_before_anything_is_sent(_server, rql):
    for flags, said in (("--units 1", "--units needs --permits"),
                        ("--slots", "--slots needs --permits"),
                        ("--shared --units 2", "--units needs --permits"),
                        ("--shared --slots", "--slots needs --permits"),
                        ("--shared --permits 2", "--shared does not go with --permits"),
                        ("--permits 0", "--permits must be 1 to 4096"),
                        ("--permits 4097", "--permits must be 1 to 4096"),
                        ("--permits 2 --units 0", "--units must be 1 to the number of --permits"),
                        ("--permits 2 --units 3", "--units must be 1 to the number of --permits"),
                        ("--permits 1025 --slots", "at most 64 units of 1024 permits can have --slots"),
                        ("--permits 100 --units 65 --slots", "at most 64 units of 1024 permits can have --slots")):
        for words in (("run", "a", *flags.split(), "--", "true"), ("lock", "a", *flags.split())):
            refused = rql(*words, RQL_URL="unix:///nowhere")
            check_equal((refused.code, refused.err), (64, f"rql: {words[0]}: {said}; see rql {words[0]} --help\n"))
    for flag in ("--shared", "--permits=2"):
        refused = rql("run", "a", flag, "--hold-at-least", "1s", "--", "true", RQL_URL="unix:///nowhere")
        check_equal(refused.code, 64)
        check_in("--hold-at-least does not go with " + flag.split("=", maxsplit=1)[0], refused.err)
        refused = rql("series", "a", "b", flag, "--", "true", RQL_URL="unix:///nowhere")
        check_equal(refused.code, 64)
        check_in("unknown flag " + flag.split("=", maxsplit=1)[0], refused.err)


def test_the_largest_numbers_are_accepted(_server, rql):
    check_equal(rql("run", "a", "--permits", "4096", "--units", "4096", "--", "true").code, 0)
    slots = rql("run", "a", "--permits", "1024", "--units", "64", "--slots", "-c", "echo $RQL_SLOTS").out
    check_equal(slots, ",".join(map(str, range(64))) + "\n")


def test_an_rql_inside_the_command_is_refused_the_lock(_server, rql):
    """The lock of several commands shows the token of none."""
    with Folder() as folder:
        other = start_holding(rql, folder, *READS)
        for words in ((*READS, "--"), ("run", "a", "--")):
            refused = rql(*READS, "--", PROGRAM, *words, "true")
            check_equal(refused.code, 1)
            check_in("this command already runs under the lock", refused.err)
        folder.touch("end")
        check_all_end(other)


def test_a_share_is_free_when_its_rql_is_killed(server, rql):
    """Its guard releases it, long before its TTL ends."""
    permits = ("run", "a", "--permits", "2", "--slots", "--ttl", "10m")
    with Folder() as folder:
        one, other = (start_holding(rql, folder, *permits) for _ in range(2))
        waiter = start_waiting(server, rql, *permits, "-c", "echo $RQL_SLOTS")
        one.send_signal(signal.SIGKILL)
        check_equal(finish(waiter).out, "0\n")
        finish(one)
        folder.touch("end")
        check_all_end(other)
    wait_until(lambda: not server.is_locked("a"), "it is free")


class Crowd:
    """Commands that want a slot, and write down which they have: "begin SLOT PROCESS", "end SLOT PROCESS". Each has a
    line of stdin to end at. The kernel is the witness: a command locks the file of its slot for as long as a process of
    it lives."""

    SCRIPT = ("cd {folder} || exit; exec 9>>slot-$RQL_SLOTS; flock -n 9 || echo {slot} >>twice;"
              "echo begin {slot} {number} >>log; read -r _; echo end {slot} {number} >>log")

    def __init__(self, rql, folder, choice):
        self.rql, self.folder, self.choice = rql, folder, choice
        self.processes = {}  # by number; without those that were killed
        self.killed = set()
        self.n_lines = 0
        self.holders = {}  # slot: the number of the process that began last
        self.open = {}  # slot: when its holder was killed
        self.ending = set()
        self.reused = 0

    def start(self):
        number = len(self.processes) + len(self.killed)
        script = self.SCRIPT.replace("{folder}", self.folder.folder.name).replace("{number}", str(number))
        self.processes[number] = subprocess.Popen(
            [PROGRAM, "run", "gpu", "--permits", str(N_PERMITS), "--slots", "--ttl", f"{TTL_S}s", "-c", script],
            env=environment(self.rql.url), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.rql.started.append(self.processes[number])

    def read(self):
        """Follows the log. A slot that begins again was given back, or its holder was killed not long ago."""
        lines = self.folder.read("log").splitlines()
        for line in lines[self.n_lines:]:
            what, slot, number = line.split()
            if what == "end":
                self.ending.discard(int(number))
                self.holders[slot] = None
                continue
            assert 0 <= int(slot) < N_PERMITS, line
            before = self.holders.get(slot)
            assert before is None or before in self.killed, f"{line}: process {before} has the slot"
            if slot in self.open:
                unused_s = time.monotonic() - self.open.pop(slot)
                assert unused_s < TTL_S + REACTION_S, f"slot {slot} was not used for {unused_s:.1f} s"
                self.reused += 1
            self.holders[slot] = int(number)
        found, self.n_lines = len(lines) > self.n_lines, len(lines)
        return found

    def idle(self):
        """Those with a slot whose end was not asked for."""
        return [number for number in self.holders.values() if number in self.processes and number not in self.ending]

    def end_one(self):
        number = self.choice.choice(self.idle())
        self.ending.add(number)
        self.processes[number].stdin.write("\n")
        self.processes[number].stdin.flush()

    def end_all(self):
        for process in self.processes.values():
            process.stdin.close()
            process.stdin = None  # communicate() would flush it

    def kill_one(self):
        """One that has a slot."""
        number = self.choice.choice(self.idle())
        slot = next(slot for slot, holder in self.holders.items() if holder == number)
        self.killed.add(number)
        self.open[slot] = time.monotonic()
        process = self.processes.pop(number)
        process.send_signal(signal.SIGKILL)
        finish(process)


def test_no_slot_is_held_twice_while_processes_are_killed(server, rql):
    if not shutil.which("flock"):
        raise Missing("flock")
    seed = random.randrange(1 << 32)
    print(f"# seed {seed}")
    with Folder() as folder:
        crowd = Crowd(rql, folder, random.Random(seed))
        for _ in range(N_PROCESSES):
            crowd.start()
        end_s = time.monotonic() + SECONDS
        while time.monotonic() < end_s or crowd.open:
            wait_until(lambda: crowd.read() or crowd.idle(), "a command has a slot")
            if not crowd.idle():
                continue
            if crowd.choice.random() < 0.2 and time.monotonic() < end_s:
                crowd.kill_one()
            else:
                crowd.end_one()
            crowd.start()
        crowd.end_all()
        for number, process in crowd.processes.items():
            said = finish(process)
            check_equal(said.code, 0, said.err)
        crowd.read()
        check_equal((folder.read("twice"), crowd.reused), ("", len(crowd.killed)))
        assert crowd.killed, "none was killed"
    wait_until(lambda: not server.is_locked("gpu"), "it is free")


if __name__ == "__main__":
    main()
