#!/usr/bin/env python3
"""What locks and requests cost the server: memory of each, and time of its scripts behind a long queue.

The scripts are called as clients would call them, in long pipelines. Ids are as long as those of Linux are."""
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "lua"), str(ROOT / "tests" / "support")]
import tap  # noqa: E402
from checks import check, check_equal  # noqa: E402
from embed import expanded  # noqa: E402
from private_server import PrivateServer, find_server  # noqa: E402
from resp import encoded  # noqa: E402

HELD_BYTES, WAITING_BYTES = 400, 450  # budgets of a lock, and of a request whose client has several
LIFE_BYTES = 150                      # and of each client's heartbeat
LOCKS, REQUESTS, PER_CLIENT = 20000, 10000, 50
HOUR_MS, NEVER, RANDOM = 3600000, 2 ** 53, 65535
# The target is printed with the figure. The bound has to hold on any machine, and to tell what grows with the queue
# from what does not: a walk through the queue takes a thousand times as long.
MANY, ROUNDS, AT_ONCE, TARGET, BOUND = 20000, 500, 10, 1.15, 1.50
BATCH = 20


def request(name, client, index, known_us=0):
    """The index-th request of a client. known_us: its place, if it waits already."""
    ids = f"{4000000 + client}/{4100000 + index}", f"{client + 1:032x}"
    return name, "acquire", (f"rql:acq:{ids[0]}/99999/0/{ids[1]}", f"rql:hst:{ids[0]}/{ids[1]}", HOUR_MS,
                             nonce(client, index), NEVER, f"qw- {HOUR_MS} {known_us} {HOUR_MS} {RANDOM}")


def nonce(client, index):
    return f"{client + 1:016x}{index + 1:016x}"


class Scripts:
    def __init__(self, server):
        self.server, self.line = server, server.connection()
        self.hashes = {name: self.line.call("SCRIPT", "LOAD", expanded(ROOT / "lua" / f"{name}.lua"))
                       for name in ("acquire", "release")}
        self.run([request("warm", 0, 0), request("warm", 1, 1)])  # counts of commands are there from their first use

    def run(self, calls):
        """The answers to calls (name of the lock, script, words)."""
        answers = []
        for at in range(0, len(calls), BATCH):
            some = calls[at:at + BATCH]
            self.line.send(b"".join(encoded((
                "EVALSHA", self.hashes[script], 5, f"rql:lock:{name}", f"rql:lock_queue:{name}", f"rql:req:{name}",
                "rql:live", "rql:fence", *words)) for name, script, words in some))
            answers += [self.line.read() for _ in some]
        return answers

    def expect(self, calls, beginning):
        """All their answers begin like this."""
        check_equal({answer[:len(beginning)] for answer in self.run(calls)}, {beginning})

    def number(self, section, pattern):
        return int(re.search(pattern, self.server.ask("INFO", section))[1])

    def used_memory(self):
        """A hash table that has just grown is there twice until it was used as often as it has places."""
        self.line.call("EVAL", "for i = 1, ARGV[1] do redis.call('EXISTS', 'x' .. i) end", 0, LOCKS)
        return self.number("memory", r"used_memory:(\d+)")

    def time_us(self):
        """How long the server has run: its clock goes on while a processor is taken from it."""
        return sum(float(took_s) for took_s in re.findall(r"used_cpu_(?:sys|user):(\S+)",
                                                          self.server.ask("INFO", "cpu"))) * 1000000


def hold(scripts, n_locks):
    scripts.expect([request(f"orders:customer:{i:05}", 0, i) for i in range(n_locks)], "1 ")


def check_bytes(what, n_bytes, count, budget):
    print(f"# {what}: {n_bytes // count} bytes, of {budget}", flush=True)
    check(n_bytes <= count * budget, f"{what} takes {n_bytes / count} bytes, and may take {budget}")


def check_requests(scripts, what, n_locks, per_client, budget):
    hold(scripts, n_locks)
    before = scripts.used_memory()
    scripts.expect([request(f"orders:customer:{i % n_locks:05}", 1 + i // per_client, LOCKS + i)
                    for i in range(REQUESTS)], "0 ")
    check_bytes(what, scripts.used_memory() - before, REQUESTS, budget)


def test_memory_of_a_held_lock(scripts):
    before = scripts.used_memory()
    hold(scripts, LOCKS)
    check_bytes("a held lock", scripts.used_memory() - before, LOCKS, HELD_BYTES)


def test_memory_of_a_request_in_one_long_queue(scripts):
    check_requests(scripts, "a request, of 10000 for one lock, 50 of each client", 1, PER_CLIENT, WAITING_BYTES)


def test_memory_of_a_request_in_one_of_many_queues(scripts):
    check_requests(scripts, "a request, of 1000 for each of 10 locks, 50 of each client", 10, PER_CLIENT, WAITING_BYTES)


def test_memory_of_the_only_request_of_its_client(scripts):
    check_requests(scripts, "a request and a client, of 10000 for one lock", 1, 1, WAITING_BYTES + LIFE_BYTES)


class Line:
    """One lock, held and waited for by requests of one client, whose numbers are in the order of the queue."""

    def __init__(self, scripts, name, holder, n_waiting):
        self.scripts, self.name, self.holder, self.newest, self.took_us = scripts, name, holder, holder + n_waiting, []
        scripts.expect([request(name, 0, holder)], "1 ")
        scripts.expect([request(name, 0, holder + i) for i in range(1, n_waiting + 1)], "0 ")

    def round(self):
        """The calls of a round, with the beginnings of their answers: another queues up, the next in line polls, the
        holder releases, and the new holder claims the lock. As many wait as before."""
        self.newest, self.holder = self.newest + 1, self.holder + 1
        return (request(self.name, 0, self.newest), "0 "), (request(self.name, 0, self.holder, 1), "0 "), \
            ((self.name, "release", (nonce(0, self.holder - 1), RANDOM)), "1 1"), (request(self.name, 0, self.holder), "1 ")

    def run(self, n_rounds):
        wanted = [one for _ in range(n_rounds) for one in self.round()]
        before_us = self.scripts.time_us()
        answers = self.scripts.run([call for call, _ in wanted])
        self.took_us.append((self.scripts.time_us() - before_us) / n_rounds)
        check_equal([answer[:len(beginning)] for answer, (_, beginning) in zip(answers, wanted)],
                    [beginning for _, beginning in wanted])


def test_an_acquisition_in_a_long_queue_takes_no_longer_than_in_a_short_one(scripts):
    """Both locks are in one server and take turns: a machine that is slow for a while is slow to both. Of their turns
    the medians are compared."""
    listener = scripts.server.connection()
    listener.call("SUBSCRIBE", f"rql:wake:{1:032x}")  # a lock is handed over to a client that listens
    few, many = Line(scripts, "orders:customer:00001", 0, 1), Line(scripts, "orders:customer:00002", 500000, MANY)
    for _ in range(ROUNDS // AT_ONCE):
        few.run(AT_ONCE)
        many.run(AT_ONCE)
    listener.close()
    one_us, many_us = statistics.median(few.took_us), statistics.median(many.took_us)
    print(f"# a round: {one_us:.2f} us with one waiting, {many_us:.2f} us with {MANY}: {many_us / one_us:.3f}, of {TARGET}",
          flush=True)
    check(many_us <= BOUND * one_us, "the scripts take longer where many wait")


class Fixture(tap.Fixture):
    """A server, which each test finds empty."""

    def __init__(self):
        self.server = PrivateServer()
        self.scripts = Scripts(self.server)

    def run(self, case):
        self.server.ask("FLUSHALL")
        case.function(self.scripts)

    def end(self):
        self.server.stop()


if __name__ == "__main__":
    tap.main(Fixture, skip=None if find_server() else "no redis-server")
