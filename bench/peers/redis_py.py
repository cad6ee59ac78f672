"""redis-py's Lock: threads of one process, measured when told. The protocol is that of
perf/protocol.h; what player.mjs says of workers that ask again is true here too.

    python3 redis_py.py SOCKET THREADS
"""
import json
import sys
import threading
import time

import redis

TTL_S = 5


class Slot:
    """One order."""

    def __init__(self, client, threads, slot_ms, pause_us):
        self.client = client
        self.threads = threads
        self.pause_s = pause_us / 1e6
        self.guard = threading.Condition()
        self.holders = 0  # up to now
        self.released = 0.0
        self.done = self.counted = self.waited = 0
        self.times = []
        begun = time.monotonic()
        self.count_from = begun + slot_ms / 4000  # the first quarter warms up
        self.stop = begun + slot_ms / 1000

    def note(self, ended, took):
        with self.guard:
            self.done += 1
            if self.count_from <= ended < self.stop:
                self.counted += 1
                if took is not None:
                    self.waited += 1
                    self.times.append(took)

    def pairs(self, worker):
        lock = self.client.lock(f"bench:py:{worker}", timeout=TTL_S)
        begun = time.monotonic()
        while begun < self.stop:
            lock.acquire()
            lock.release()
            ended = time.monotonic()
            self.note(ended, ended - begun)
            begun = ended

    def await_next(self, holder):
        with self.guard:
            self.guard.wait_for(lambda: self.holders > holder, self.stop - time.monotonic())

    def turns(self, _worker):
        lock = self.client.lock("bench:py:one", timeout=TTL_S)
        asked = time.monotonic()
        while asked < self.stop:
            lock.acquire()
            entered = time.monotonic()
            with self.guard:
                self.holders += 1
                holder = self.holders
                self.guard.notify_all()
            self.note(entered, entered - self.released if asked < self.released else None)
            if self.pause_s > 0 and entered < self.stop:
                time.sleep(self.pause_s)
            self.released = time.monotonic()
            lock.release()
            if self.pause_s > 0 and self.threads > 1:
                self.await_next(holder)
            asked = time.monotonic()

    def outcome(self, is_turns):
        self.times.sort()

        def quantile(share):
            last = len(self.times) - 1
            return 1e6 * self.times[min(int(share * len(self.times)), last)] if last >= 0 else 0

        return {
            "done": self.done, "counted": self.counted, "waited": self.waited if is_turns else 0,
            "counted_s": self.stop - self.count_from, "p50_us": quantile(0.5),
            "p99_us": quantile(0.99),
        }


class Worker(threading.Thread):
    """Waits for orders, so that no slot pays for the start of a thread."""

    def __init__(self, number, done):
        super().__init__(daemon=True)
        self.number = number
        self.done = done
        self.go = threading.Semaphore(0)
        self.order = None
        self.fault = None

    def run(self):
        while True:
            self.go.acquire()
            slot, shape = self.order
            try:
                getattr(slot, shape)(self.number)
            except redis.RedisError as error:
                self.fault = error
            self.done.release()


def main():
    client = redis.Redis(unix_socket_path=sys.argv[1])
    done = threading.Semaphore(0)
    workers = [Worker(number, done) for number in range(int(sys.argv[2]))]
    for worker in workers:
        worker.start()
    client.ping()
    print("{}", flush=True)
    for line in sys.stdin:
        shape, *numbers = line.split()
        threads, slot_ms, pause_us = map(int, numbers)
        slot = Slot(client, threads, slot_ms, pause_us)
        for worker in workers[:threads]:
            worker.order = slot, shape
            worker.go.release()
        for _ in range(threads):
            done.acquire()
        faults = [worker.fault for worker in workers if worker.fault]
        if faults:
            sys.exit(f"redis-py: {faults[0]}")
        print(json.dumps(slot.outcome(shape == "turns")), flush=True)


main()
