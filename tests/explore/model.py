"""Clients as the scripts see them, and what must never happen.

A client may do whatever a real one may, at any moment: ask again, withdraw, release late, lose an
answer, lose its subscription, lack a right. What it is bound to in the real library (when to poll, when to give
up) only makes it do less. So whatever is impossible here is impossible there, as far as the bounds go.
"""
import functools
import json
from typing import NamedTuple

TTL_MS, QUEUE_TTL_MS = 3000, 15000
SILENCE_US = 5_000_000  # X of lua/is_alive.lua
CLAIM_US = 1_000_000    # G of lua/serve_queue.lua
NOT_AFTER_US = 1_000_000
NO_RANDOM = "40000"     # for lua/serve_queue.lua: the queue is served in its order

IDLE, WAITING, HOLDING, LEAVING, RELEASING = "idle", "waiting", "holding", "leaving", "releasing"


class Client(NamedTuple):
    mode: str = IDLE
    access: str = "q"     # see lua/acquire.lua
    left: int = 1         # acquisitions to come
    number: int = 0       # of this one
    score: str = "0"      # its place, if an answer told
    ends_us: int = 0      # holding: of its lease, in true time
    token: str = ""       # holding
    pushed: tuple = ()    # waiting: (token, end of the lease in true time) that arrived on its channel
    is_subscribed: bool = True
    arrived: int = 0      # its turn among those who wait; 0: it has none
    heard_us: int = 0     # when it last asked and stayed


class State(NamedTuple):
    now_us: int
    contents: str         # of the server
    clients: tuple
    ticks: int            # that are left
    faults: int           # that are left
    losses: int           # of all data, that are left
    clears: int = 0       # of the lock and its queue by others, that are left
    denials: int = 0      # of a command, that are left
    top: int = 0          # the highest token so far
    excludes: bool = True  # no data was lost: one holder at a time
    back_us: int = 0      # by which the server's clock was set back
    was_cleared: bool = False

    @property
    def true_us(self):
        """The clients' clocks are never set."""
        return self.now_us + self.back_us


class Broken(Exception):
    """What must not happen has happened."""


class Contents(NamedTuple):
    """Of a server, to read."""
    lock: dict
    lock_ends_us: int
    queue: dict           # acquirer -> score
    queue_has_ttl: bool
    records: dict
    counts: dict          # of the records, as text
    records_have_ttl: bool
    seen: dict            # identity -> when

    @property
    def owner(self):
        return self.lock.get("rql_nonce")

    @property
    def waiting(self):
        """Those too whose places others have removed."""
        return {**self.queue, **self.records}

    def at(self, now_us):
        """As a server shows it at that time: what has expired is not there."""
        return self if self.lock_ends_us > now_us else self._replace(lock={}, lock_ends_us=0)


def paired(flat):
    """What cjson makes of an empty list is {}."""
    flat = flat or []
    return dict(zip(flat[::2], flat[1::2]))


@functools.lru_cache(4096)
def read_contents(text):
    lock, lock_at, queue, queue_at, records, records_at, live, _, _ = json.loads(text)
    fields = paired(records)
    return Contents(
        paired(lock), int(lock_at) * 1000, paired(queue), int(queue_at) > 0,
        {name: record.split(" ") for name, record in fields.items() if name.startswith("rql:")},
        {name: count for name, count in fields.items() if not name.startswith("rql:")},
        int(records_at) > 0, paired(live))


@functools.lru_cache
def identity(index):
    return f"{index + 1:032x}"


@functools.lru_cache
def acquirer(index):
    return f"rql:acq:{index + 1}/{index + 1}/0/0/{identity(index)}"


@functools.lru_cache
def host(index):
    return f"rql:hst:{index + 1}/{index + 1}/0/{identity(index)}"


@functools.lru_cache
def nonce(index, number):
    return f"{index + 1:016x}{number:016x}"


# ---- what can be done ----

def call_of(state, action):
    """(script, its words) of an action that asks the server; None: it does not."""
    word, index, *asks = action
    if not asks:
        return None
    client = state.clients[index]
    if word in ("acquire", "deny", "poll", "late"):
        number = client.number + (word in ("acquire", "deny"))
        not_after_us = state.now_us + (-1 if word == "late" else NOT_AFTER_US)
        return "deny" if word == "deny" else "acquire", (
            acquirer(index), host(index), str(TTL_MS), nonce(index, number), str(not_after_us),
            f"{client.access}w- -1 {client.score} {QUEUE_TTL_MS} {NO_RANDOM}")
    if word == "leave":
        return "leave", (acquirer(index), nonce(index, client.number), NO_RANDOM)
    if word == "release":
        return "release", (nonce(index, client.number), NO_RANDOM)
    return "extend", (nonce(index, client.number), str(TTL_MS), NO_RANDOM)


# late: what was sent for an acquisition that is over comes to the server now: its connection was slow.
# deny: acquire, by a user who lacks a right.
CALLS = {
    IDLE: ("acquire", "late"), WAITING: ("poll", "leave"), HOLDING: ("release", "extend"),
    LEAVING: ("leave",), RELEASING: ("release",),
}


def is_partly(script, answer):
    """There was too much to do for one call."""
    return answer[0] == "6" if script == "acquire" else script != "extend" and answer[2:] == "2"


def repeated(script, words):
    """The call that does the rest."""
    return (script, words) if script == "acquire" else ("release", ("-", NO_RANDOM))


def is_open(state, client, word):
    if word == "acquire":
        return client.left > 0
    if word == "late":
        return client.number > 0
    if word == "extend":  # also too late; not if it would change nothing, or was told that all is over
        return 0 < client.ends_us < state.true_us + TTL_MS * 1000
    return True


def actions(state, ticks_us):
    """(word, client[, was its answer lost])."""
    for index, client in enumerate(state.clients):
        for word in CALLS[client.mode]:
            if is_open(state, client, word):
                yield (word, index, False)
                if state.faults and word != "late":
                    yield (word, index, True)
                if state.denials and word == "acquire":
                    yield ("deny", index, False)
        if client.pushed:
            yield ("take", index)
        if state.faults and client.is_subscribed and client.mode == WAITING:
            yield ("unsubscribe", index)
    if state.ticks:
        for tick_us in ticks_us:
            yield ("tick", tick_us)
    if state.losses:
        yield ("lose", 1000)  # a server takes longer than that to come back
    if state.clears and read_contents(state.contents).queue:
        yield ("clear", "the queue")
        yield ("clear", "the lock and the queue")


# ---- what comes of it ----

def replaced(state, index, client):
    return state._replace(clients=(*state.clients[:index], client, *state.clients[index + 1:]))


def finished(client):
    return client._replace(mode=IDLE, score="0", ends_us=0, token="", pushed=(), left=client.left - 1,
                           arrived=0, heard_us=0)


def after_local(state, action, empty):
    """Actions that do not ask the server."""
    word, which = action
    if word == "take":
        client = state.clients[which]
        token, ends_us = client.pushed
        taken = client._replace(pushed=())
        if ends_us > state.true_us:
            taken = taken._replace(mode=HOLDING, ends_us=ends_us, token=token, score="0", arrived=0,
                                   heard_us=0)
        return replaced(state, which, taken)
    if word == "unsubscribe":
        client = state.clients[which]
        unheard = client._replace(is_subscribed=False, pushed=())
        return replaced(state, which, unheard)._replace(faults=state.faults - 1)
    if word == "tick":
        return state._replace(now_us=state.now_us + which, ticks=state.ticks - 1,
                              back_us=state.back_us - min(which, 0))
    if word == "clear":
        return cleared(state, which == "the lock and the queue")
    return state._replace(now_us=state.now_us + which, contents=empty, excludes=False,
                          losses=state.losses - 1)


def cleared(state, takes_lock):
    """As by Ruby's unlock and clear_locks: who held the lock is excluded no more, and does not know it."""
    lock, lock_at, _, _, *others = json.loads(state.contents)
    whole = [{}, "-2"] if takes_lock else [lock, lock_at]
    text = json.dumps([*whole, {}, "-2", *others], separators=(",", ":")).replace("/", "\\/")  # as cjson does
    state = state._replace(contents=text, clears=state.clears - 1, was_cleared=True)
    for index, client in enumerate(state.clients if takes_lock else ()):
        over = client._replace(ends_us=min(client.ends_us, 1), pushed=client.pushed and (client.pushed[0], 1))
        state = replaced(state, index, over)
    return state


def after_answer(state, index, word, answer):
    """The client that got it."""
    client = state.clients[index]
    told = answer.split(" ")
    if word in ("acquire", "poll"):
        if told[0] == "1":
            ends_us = state.back_us + int(told[1]) + int(told[2]) * 1000
            return client._replace(mode=HOLDING, ends_us=ends_us, token=told[3], score="0", pushed=(),
                                   arrived=0, heard_us=0)
        if told[0] == "0":
            return client._replace(score=told[7], pushed=())
        raise Broken(f"nobody asked for the answer {answer}")
    if word == "extend":
        ends_us = state.back_us + int(told[1]) + int(told[2]) * 1000 if told[0] == "1" else 0
        return client._replace(ends_us=ends_us)
    return finished(client)


def after_call(state, action, answer, contents):
    """The state after a call that was answered, or whose answer was lost; Broken."""
    word, index, is_lost = action
    if word == "late":
        demand(answer[0] == "5", "a call was done long after its time")
        return state
    client = state.clients[index]
    if word == "deny":
        demand(answer == "denied", "a call was done without the right to")
        judge_keys(state, read_contents(contents))
        left = client._replace(mode=LEAVING, number=client.number + 1)
        return replaced(state, index, left)._replace(contents=contents, denials=state.denials - 1)
    demand(not is_partly(call_of(state, action)[0], answer), "a call is repeated without end")
    if word == "acquire":
        client = client._replace(mode=WAITING, number=client.number + 1, score="0")
    elif word == "leave":
        client = client._replace(mode=LEAVING, pushed=(), arrived=0, heard_us=0)
    elif word == "release":
        client = client._replace(mode=RELEASING)
    after = replaced(state, index, client)._replace(
        now_us=state.now_us + (word == "acquire"), # no two arrive at once
        contents=contents, faults=state.faults - is_lost)
    after = heard_anew(line_up(state, after, index))
    if not is_lost:
        after = replaced(after, index, after_answer(after, index, word, answer))
    judge_answer(after, index, word, answer, is_lost)
    return judge_change(state, deliver(state, after, index), index, word)


def line_up(before, after, actor):
    """Who has come into the queue comes after all the others; who takes the place again that it was
    told of does not."""
    was, now = read_contents(before.contents), read_contents(after.contents)
    client, who = after.clients[actor], acquirer(actor)
    if client.mode != WAITING or who not in now.queue:
        return after
    record = was.records.get(who)
    place = was.queue.get(who) or float(record[5] if record else client.score) / 1e6
    if client.arrived == 0 or not place:
        others = [one.arrived for index, one in enumerate(after.clients) if index != actor]
        client = client._replace(arrived=max(others) + 1)
    else:  # no bounds are so wide that it has waited for longer than queue_ttl
        demand(float(now.queue[who]) == float(place), f"client {actor} has lost its place")
    return replaced(after, actor, client._replace(heard_us=after.now_us))


def heard_anew(state):
    """Who was heard of before the clock was set back counts as heard of when that is noticed."""
    seen = read_contents(state.contents).seen
    for index, client in enumerate(state.clients):
        heard_us = int(seen.get(identity(index), client.heard_us))
        if heard_us < client.heard_us:
            state = replaced(state, index, client._replace(heard_us=heard_us))
    return state


def deliver(before, after, actor):
    """A new owner that is another than who asked was notified, if it is subscribed."""
    was, now = read_contents(before.contents).at(before.now_us), read_contents(after.contents)
    if now.owner in (None, was.owner):
        return after
    for index, client in enumerate(after.clients):
        if now.owner == nonce(index, client.number) and index != actor and client.mode == WAITING:
            pushed = (now.lock.get("rql_token"), after.back_us + now.lock_ends_us)
            return replaced(after, index, client._replace(pushed=pushed))
    return after


# ---- what must hold ----

def demand(holds, what):
    if not holds:
        raise Broken(what)


def judge_answer(after, index, word, answer, is_lost):
    """What was said is so."""
    client, now = after.clients[index], read_contents(after.contents)
    told = answer.split(" ")
    if word == "poll" or word == "acquire":
        if told[0] == "1":
            demand(now.owner == nonce(index, client.number), "told that it holds, and does not")
            demand(told[3] == now.lock.get("rql_token"), "told another token than the lock's")
        elif not is_lost:
            demand(acquirer(index) in now.queue, "told that it waits, and is not in the queue")
    elif word == "leave":
        demand(acquirer(index) not in now.waiting, "has left, and is still in the queue")
        demand(now.owner != nonce(index, client.number), "has left, and still owns the lock")
    elif word == "release":
        demand(now.owner != nonce(index, client.number), "has released, and still owns the lock")


def judge_keys(state, now):
    if now.lock:
        demand(now.lock_ends_us > 0, "a lock without a ttl")
        demand(now.lock.get("rql_nonce") and now.lock.get("rql_token"), "half a lock")
    demand(not now.queue or now.queue_has_ttl, "a queue without a ttl")
    demand(not now.records or now.records_have_ttl, "requests without a ttl")
    demand(set(now.records) == set(now.queue) or (state.was_cleared and not now.queue),
           "a request without a place, or a place without one")
    for who in now.queue:
        demand(int(now.records[who][5]) == round(float(now.queue[who]) * 1e6),
               "a request that tells another place")
    for name, accesses in (("random", "rR"), ("holders", "RQ")):
        count = sum(record[4] in accesses for record in now.records.values())
        demand(now.counts.get(name) == (str(count) if count else None), f"not counted: {name}")


def judge_holders(after, now):
    """As long as nothing was lost, one holder at a time, and what it holds is its own."""
    for index, client in enumerate(after.clients):
        if client.mode == HOLDING and client.ends_us > after.true_us:
            demand(now.owner == nonce(index, client.number), f"client {index} holds what is not its own")
            demand(after.back_us + now.lock_ends_us + 1000 > client.ends_us,
                   f"client {index} counts on more than there is")
            demand(now.lock.get("rql_token") == client.token, f"client {index} holds another's token")
            demand((now.lock.get("acq_id"), now.lock.get("hst_id")) == (acquirer(index), host(index)),
                   f"client {index} holds a lock in another's name")


def is_live(client, now_us):
    """Heard of within X."""
    return now_us - client.heard_us <= SILENCE_US


def judge_service(before, after, actor, was, now):
    """In order, past nobody who is alive and subscribed; and nobody but the dead is dropped.
    Who takes a free lock at random may pass."""
    served = [index for index, client in enumerate(after.clients)
              if now.owner != was.owner and now.owner == nonce(index, client.number)]
    if served == [actor] and before.clients[actor].access in "rR":
        return
    for index, client in enumerate(before.clients):
        who = acquirer(index)
        if who not in was.waiting or index == actor or index in served:
            continue
        if is_live(client, after.now_us):
            demand(who in now.waiting or not client.is_subscribed,
                   f"client {index} was dropped, and is alive and subscribed")
            turn = before.clients[served[0]].arrived if served else 0
            demand(not client.is_subscribed or not served or 0 < turn < client.arrived,
                   f"client {index} was passed over, and is alive and subscribed")
    if served and served[0] != actor:
        client = before.clients[served[0]]
        demand(client.is_subscribed, "the lock was given to one without a subscription")
        demand(is_live(client, after.now_us), "the lock was given to one who is dead")
        heard_us = int(now.seen[identity(served[0])])
        demand(heard_us <= after.now_us + SILENCE_US, "a heartbeat that is to come was believed")
        demand(now.lock_ends_us <= after.now_us + CLAIM_US, "a lock was given, and not for a short time")


def judge_progress(after, now):
    """A free lock is never left lying while somebody waits who is alive and subscribed."""
    for index, client in enumerate(after.clients):
        demand(now.lock or acquirer(index) not in now.waiting or not client.is_subscribed
               or not is_live(client, after.now_us), f"the lock is free, and client {index} waits")


def judge_change(before, after, actor, word):
    was, now = read_contents(before.contents).at(before.now_us), read_contents(after.contents)
    judge_keys(after, now)
    top = before.top
    if now.owner not in (None, was.owner):
        token = int(now.lock["rql_token"])
        demand(token > top, f"token {token} is not above {top}")
        top = token
    elif now.owner:
        demand(now.lock.get("rql_token") == was.lock.get("rql_token"), "a lock has changed its token")
    if was.owner and now.owner != was.owner:
        client = before.clients[actor]
        demand(was.owner == nonce(actor, client.number) and word in ("release", "leave"),
               "a lock that is in force was taken away")
    judge_progress(after, now)
    if after.excludes:
        judge_service(before, after, actor, was, now)
        judge_holders(after, now)
    return after._replace(top=top)
