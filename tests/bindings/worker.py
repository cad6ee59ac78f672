#!/usr/bin/env python3
"""The calls of tests/remote/remote.h that librql.py has, told in lines of JSON as there."""
import json
import queue
import sys
import threading

import librql

clients, actors, holds = {}, {}, {}
mutex = threading.Lock()


def say(**words):
    with mutex:
        print(json.dumps(words), flush=True)


def answer(words, do):
    """With what the call returns, or with what it raises."""
    try:
        say(id=words["id"], **{"status": librql.OK, **(do(words) or {})})
    except librql.Failure as failure:
        say(id=words["id"], status=failure.status, error=str(failure))


class Actor(threading.Thread):
    """Does one call after the other."""

    def __init__(self, client):
        super().__init__(daemon=True)
        self.client, self.given = client, queue.Queue()
        self.start()

    def run(self):
        for words in iter(self.given.get, None):
            answer(words, getattr(self, "do_" + words["do"]))

    def end(self):
        self.given.put(None)
        self.join()

    def do_connect(self, _words):
        self.client.connect()

    def do_acquire(self, words):
        hold = words["lock"]
        lock = self.client.acquire(words["names"][0], lambda: say(lost=hold), **words["options"])
        holds[hold] = lock
        return {"tokens": [lock.token]}

    def do_release(self, words):
        holds.pop(words["lock"]).release()

    def do_state(self, words):
        return {"state": holds[words["lock"]].state()}

    def do_whoami(self, _words):
        return {"acq_id": self.client.acquirer_id()}

    def do_inspect(self, words):
        return {"found": {"requests": [{"acq_id": one} for one in self.client.queue(words["name"])]}}


def new_client(words):
    clients[words["client"]] = librql.Client(**words["options"])


def new_actor(words):
    actors[words["name"]] = Actor(clients[words["client"]])


CALLS = {"client": new_client, "thread": new_actor, "free": lambda words: clients.pop(words["client"]).close(),
         "end": lambda words: actors.pop(words["name"]).end()}

for line in sys.stdin:
    told = json.loads(line)
    if "as" in told:
        actors[told["as"]].given.put(told)
    else:
        answer(told, CALLS[told["do"]])
