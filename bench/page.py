#!/usr/bin/env python3
"""Draw the figure of the page of `rql serve`: what it shows of a fleet that is played on a private server.

Usage: bench/page.py RQL FOLDER      RQL is the program; writes page.png, page-dark.png and page-phone.png
       bench/page.py RQL             plays the fleet for a browser, until it is ended

Needs a redis-server or valkey-server, and for the pictures chromium. The records are those that clients write.
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/support"))
from browser import Browser  # noqa: E402
from private_server import PrivateServer, die_with_parent, free_port  # noqa: E402

SECONDS = 60  # the page has been open for, in the pictures
TICK_S = 0.05
HOSTS = [f"web-{i}" for i in range(1, 9)] + ["cron-1", "api-1", "api-2", "gpu-1", "gpu-2", "deploy-1"]
# Name, host or hosts of those who take it, program, reason, seconds of a hold, seconds between two requests.
BUSY = [
    ("orders:42", "web-", "worker", "capture payment", 0.3, 0.27),
    ("orders:77", "web-", "worker", "capture payment", 0.5, 0.6),
    ("stock:7", "web-", "worker", "reserve items", 0.9, 1.1),
    ("customer:1903", "api-", "api", "", 0.4, 0.6),
    ("mail:batch", "web-", "mailer", "weekly digest", 2.5, 2.8),
]
# Name, host, program, reason, age in seconds, requests that wait from the beginning.
LONG = [
    ("report/nightly", "cron-1", "rql", "backup.sh", 7980, 2),
    ("index:rebuild", "api-2", "indexer", "new mapping", 754, 1),
    ("elect:scheduler", "cron-1", "rql", "", 273000, 3),
    ("export:eu-west", "web-8", "worker", "GDPR export", 96, 1),
    ("tenant:acme:import", "web-3", "worker", "csv upload", 41, 0),
]


class Fleet:
    """Clients that take locks, as records. One thread."""

    def __init__(self, server):
        self.server, self.dice, self.numbers = server, random.Random(7), {}
        self.token, self.due = int(time.time() * 1e6), {}
        self.holds, self.queues = {}, {name: [] for name, *_ in BUSY}
        for i, host in enumerate(HOSTS):
            for program in ("worker", "mailer", "api", "rql", "indexer"):
                identity = f"{i:02x}{len(program):02x}{ord(program[0]):028x}"
                self.numbers[host, program] = (identity, 1000 + 977 * i + 31 * len(program))
                entry = {"host": host, "pid": self.numbers[host, program][1], "program": program, "user": "app",
                         "since_us": 1, "version": "0.2.0", "label": "", "at_us": int(time.time() * 1e6) + 10**12}
                server.ask("HSET", "rql:clients", identity, json.dumps(entry, separators=(",", ":")))
        for name, host, program, reason, age_s, n_waiting in LONG:
            self.hold(name, host, program, reason, time.time() - age_s)
            for i in range(n_waiting):
                self.wait(name, "api-1" if name[0] == "i" else f"web-{i + 1}", program, reason)
        self.share("gpu:a100", 8, [("gpu-1", 3), ("gpu-2", 4)])
        for host in ("gpu-1", "gpu-2"):
            self.wait("gpu:a100", host, "rql", "training run")
        # A circle: each holds what the other waits for.
        self.hold("account:5", "api-1", "api", "transfer", time.time() - 12)
        self.hold("account:9", "api-2", "api", "transfer", time.time() - 12)
        self.wait("account:9", "api-1", "api", "transfer")
        self.wait("account:5", "api-2", "api", "transfer")

    def ids(self, host, program):
        identity, pid = self.numbers[host, program]
        return f"rql:acq:{pid}/{pid}/0/0/{identity}", f"rql:hst:{pid}/{pid}/0/{identity}"

    def hold(self, name, host, program, reason, since_s):
        acquirer, host_id = self.ids(host, program)
        self.token += 1
        words = ["acq_id", acquirer, "hst_id", host_id, "ts", f"{since_s:.6f}", "ini_ttl", 15000, "rql_nonce", f"{self.token:x}",
                 "rql_token", self.token] + (["reason", reason] if reason else [])
        self.server.ask("DEL", f"rql:lock:{name}")
        self.server.ask("HSET", f"rql:lock:{name}", *words)
        self.server.ask("PEXPIRE", f"rql:lock:{name}", 15000)
        self.holds[name] = None

    def wait(self, name, host, program, reason):
        acquirer, host_id = self.ids(host, program)
        score_s = time.time()
        packed = b"\x91\xa6reason" + bytes([0xa0 + len(reason)]) + reason.encode() if reason and len(reason) < 32 else b""
        record = f"{host_id} 60000 {self.token:032x} {int(score_s * 1e6) + 10**9} l {int(score_s * 1e6)} ".encode() + packed
        self.server.ask("ZADD", f"rql:lock_queue:{name}", f"{score_s:.6f}", acquirer)
        self.server.ask("HSET", f"rql:req:{name}", acquirer, record)

    def share(self, name, limit, holders):
        end_us = int(time.time() * 1e6) + 10**12
        words = ["acq_id", "rql:acq:shared/0/0/0/" + "0" * 32, "hst_id", "rql:hst:shared/0/0/" + "0" * 32, "ts",
                 f"{time.time() - 190:.6f}", "ini_ttl", 60000, "rql_nonce", "shared", "rql_used", sum(units for _, units in holders)]
        for host, units in holders:
            acquirer, host_id = self.ids(host, "worker")
            self.token += 1
            words += [f"rql_h:{acquirer}", f"{self.token:032x} {units} {limit} {self.token} 60000 - {host_id} "]
            self.server.ask("ZADD", f"rql:shares:{name}", end_us, acquirer)
        self.server.ask("HSET", f"rql:lock:{name}", *words)
        self.holds[name] = None

    def tick(self):
        now_s = time.time()
        alive = [word for host in HOSTS if host != "web-8" for word in (self.ids(host, "worker")[1], f"{now_s:.3f}")]
        self.server.ask("HSET", "rql:swarm:hsts", *alive, self.ids("web-8", "worker")[1], f"{self.began_s - 22:.3f}")
        for name in self.holds:
            self.server.ask("PEXPIRE", f"rql:lock:{name}", 15000 - (int(now_s * 1000) + 733 * len(name) * ord(name[0])) % 5000)
        # Requests come in waves.
        wave = 0.75 + 0.5 * ((now_s - self.began_s) / 18 % 1)
        for name, prefix, program, reason, hold_s, every_s in BUSY:
            queue = self.queues[name]
            if now_s >= self.due.get(name, 0):
                self.due[name] = now_s + every_s * wave * self.dice.uniform(0.6, 1.4)
                host = self.dice.choice([host for host in HOSTS if host.startswith(prefix) and host not in ("web-8", *queue)] or [None])
                if host:
                    queue.append(host)
                    self.wait(name, host, program, reason)
            if queue and now_s >= (self.holds.get(name) or 0):
                host = queue.pop(0)
                acquirer, _ = self.ids(host, program)
                self.hold(name, host, program, reason, now_s)
                self.server.ask("ZREM", f"rql:lock_queue:{name}", acquirer)
                self.server.ask("HDEL", f"rql:req:{name}", acquirer)
                self.holds[name] = now_s + hold_s * self.dice.uniform(0.7, 1.3)
            elif now_s >= (self.holds.get(name) or now_s + 1):
                self.server.ask("DEL", f"rql:lock:{name}")
                del self.holds[name]

    def play(self, is_over):
        self.began_s = time.time()
        while not is_over.wait(TICK_S):
            self.tick()


def draw(url, folder):
    with Browser(url, 1280, 1010) as browser:
        browser.await_true("document.querySelectorAll('#locks .row').length > 9")
        time.sleep(SECONDS)
        browser.ask("[...document.querySelectorAll('button.name')].find((one) => one.textContent === 'orders:42').click()")
        for name, width, height, is_dark in (("page", 1100, 1040, False), ("page-dark", 1100, 1040, True), ("page-phone", 375, 812, True)):
            browser.show(width, height, is_dark)
            time.sleep(1.5)
            (folder / f"{name}.png").write_bytes(browser.picture())
        if browser.errors:
            sys.exit(f"the browser complains: {browser.errors}")


def main():
    program = os.path.abspath(sys.argv[1])
    address, is_over = f"127.0.0.1:{free_port()}", threading.Event()
    port = free_port()
    with PrivateServer("--port", str(port), "--bind", "127.0.0.1") as server:
        fleet = Fleet(server)
        thread = threading.Thread(target=fleet.play, args=(is_over,), daemon=True)
        thread.start()
        serve = subprocess.Popen([program, "serve", "--page", "--listen", address], preexec_fn=die_with_parent,
                                 env={**os.environ, "RQL_URL": f"redis://127.0.0.1:{port}"})
        try:
            if len(sys.argv) > 2:
                draw(f"http://{address}/", pathlib.Path(sys.argv[2]))
            else:
                print(f"http://{address}/")
                serve.wait()
        except KeyboardInterrupt:
            pass
        finally:
            is_over.set()
            thread.join()
            serve.terminate()
            serve.wait()


main()
