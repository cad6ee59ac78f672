"""Shows librql at work on a cluster of three masters, each with a replica: the lock's slot is moved from one to the
next, and the master that has it is killed. Started by bench/demo.sh, which says how."""
import argparse
import os
import signal
import subprocess
import sys
import threading
import time

from cluster import Cluster, await_true
from servers import Unavailable, tied

SECONDS, SECONDS_LEAST, SECONDS_MOST = 15, 8, 60  # less leaves no time to move the lock
FAILED = 3  # the exit status
NODE_TIMEOUT_MS = 1000
MOVE_S = 1
KILL_AT = 0.6  # of the time; a holder dies at 0.4
KEY = "rql:{*}:lock:demo"
# A grant counts when a replica has it. When there is none, as after the failover, it counts all the same.
SETTINGS = {"RQL_REPLICAS": "1", "RQL_REPLICA_TIMEOUT_MS": "20", "RQL_DURABILITY_IS_ADVICE": "true"}


class Fate(threading.Thread):
    """What becomes of the cluster while locks are used."""

    def __init__(self, cluster, seconds):
        super().__init__(daemon=True)
        self.cluster, self.kill_s, self.is_over = cluster, time.monotonic() + KILL_AT * seconds, threading.Event()
        self.slot, self.n_moves, self.is_killed, self.failure = None, 0, False, None

    def run(self):
        try:
            while not self.is_over.wait(MOVE_S):
                self.step()
        except (OSError, Unavailable) as error:
            self.failure = error

    def step(self):
        if not self.slot:
            self.slot = self.find_slot()
        elif not self.is_killed and time.monotonic() > self.kill_s:
            self.replace()
        else:
            self.move()

    def find_slot(self):
        """None: nobody has the lock just now."""
        for node in self.cluster.nodes:
            for key in node.ask("KEYS", KEY):
                return int(node.ask("CLUSTER", "KEYSLOT", key))
        return None

    def move(self):
        owner = self.cluster.owner(self.slot)
        others = [node for node in self.cluster.masters() if node is not owner]
        self.cluster.move(self.slot, owner, others[self.n_moves % len(others)])
        self.n_moves += 1

    def replace(self):
        """The master is killed; it comes back as a replica of the one that took over."""
        old = self.cluster.owner(self.slot)
        self.cluster.kill(old)
        self.is_killed = True
        await_true(lambda: self.cluster.owner(self.slot), "a replica takes over")
        old.start()
        self.cluster.await_well()

    def end(self):
        """Returns why the cluster did not go through all of it, or None."""
        self.is_over.set()
        self.join()
        if self.failure:
            return self.failure
        if not self.is_killed or self.n_moves < 2:
            return f"there was no time for it: {self.n_moves} moves, killed: {self.is_killed}"
        return None


def duration(text):
    seconds = float(text)
    if not SECONDS_LEAST <= seconds <= SECONDS_MOST:
        raise argparse.ArgumentTypeError(f"{text}: from {SECONDS_LEAST} to {SECONDS_MOST}")
    return seconds


def arguments():
    parser = argparse.ArgumentParser(prog="demo.sh", usage="demo.sh cluster [SECONDS]", add_help=False)
    parser.add_argument("program")
    parser.add_argument("scratch")
    parser.add_argument("seconds", metavar="SECONDS", nargs="?", type=duration, default=SECONDS)
    return parser.parse_args()


def complain(error):
    print(f"demo.sh: {error}", file=sys.stderr)
    return FAILED


def show(wanted, cluster):
    """Returns the exit status: the demonstration's own, if that is not 0."""
    cluster.start()
    fate = Fate(cluster, wanted.seconds)
    fate.start()
    shown = subprocess.run([*tied(), wanted.program, cluster.url(), str(wanted.seconds)],
                           env={**os.environ, **SETTINGS}, check=False)
    failure = fate.end()
    status = complain(failure) if failure else 0
    return shown.returncode or status


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    wanted = arguments()
    cluster = Cluster(wanted.scratch, 3, 1, NODE_TIMEOUT_MS)
    try:
        return show(wanted, cluster)
    except (OSError, Unavailable) as error:
        return complain(error)
    finally:
        cluster.stop()


if __name__ == "__main__":
    sys.exit(main())
