"""What clients can do, and what comes of it.

A client may do whatever a real one may, at any moment: ask again, withdraw, release late, lose an
answer, lose its subscription, lack a right. What it is bound to in the real library (when to poll, when to give
up) only makes it do less. So whatever is impossible here is impossible there, as far as the bounds go.
"""
from judge import judge_answer, judge_change, judge_keys
from server import T0_US, empty
from state import (ASKED, DEAD, ENDING, HOLDING, IDLE, INSIDE, LEAVING, NO_RANDOM, NOT_AFTER_US, OUT, QUEUE_TTL_MS,
                   RELEASING, RUBY, RUBYS_HOST, TTL_MS, UNDOING, WAITING, Broken, Client, Ruby, State, acquirer, bare,
                   demand, entry_nonce, host, identity, is_partly, nonce, pushes_of, read_contents, ticks_of, unused_ms)


N_LOCKS = 1


def first(bounds):
    accesses = bounds.accesses.ljust(len(bounds.acquisitions), "q")
    conflicts = bounds.conflicts.ljust(len(bounds.acquisitions), "w")
    clients = tuple(Client(access=access, left=number, conflict=conflict, entries=int(conflict != "w"))
                    for access, number, conflict in zip(accesses, bounds.acquisitions, conflicts))
    return State(T0_US, empty(N_LOCKS), clients, bounds.ticks, bounds.faults, bounds.losses, bounds.clears,
                 bounds.denials, flushes=bounds.flushes, ruby=Ruby(left=bounds.rubys))


def everybody(bounds):
    return (*range(len(bounds.acquisitions)), *("ruby",) * bool(bounds.rubys))


def is_over(state):
    return all(one.mode == IDLE and one.left == 0 for one in (*state.clients, state.ruby))


# ---- what can be done ----

def call_of(state, action):
    """(script, its words) of an action that asks the server; None: it does not."""
    word, index, *asks = action
    if not asks:
        return None
    if word == "flush":
        return ("flush_lock", (NO_RANDOM,)) if index == "the lock" else ("flush_queue", ("0",))
    if word == "ruby":
        oldest = f"{(state.now_us - QUEUE_TTL_MS * 1000) / 1e6:.6f}"
        return "ruby", (index, RUBY, RUBYS_HOST, str(TTL_MS), rubys_score(state), oldest)
    client = state.clients[index]
    if word in ENTRY_CALLS:
        return entry_call_of(state, client, index, word)
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


def rubys_score(state):
    """It remembers the first one, until that is too old or it has the lock."""
    is_old = float(state.ruby.score or 0) * 1e6 < state.now_us - QUEUE_TTL_MS * 1000
    return f"{state.now_us / 1e6:.6f}" if is_old else state.ruby.score


def entry_call_of(state, client, index, word):
    entry = entry_nonce(index, client.number)
    if word == "enter":
        return "acquire", (acquirer(index), host(index), str(TTL_MS), entry, str(state.now_us + NOT_AFTER_US),
                           f"{client.access}{client.conflict}- -1 0 {QUEUE_TTL_MS} {NO_RANDOM}")
    if word == "undo":
        return "leave", (acquirer(index), entry, NO_RANDOM)
    return "decrease", (nonce(index, client.number), entry, str(unused_ms(state, client)), NO_RANDOM)


# late: what was sent for an acquisition that is over comes to the server now: its connection was slow.
# deny: acquire, by a user who lacks a right.
CALLS = {
    IDLE: ("acquire", "late"), WAITING: ("poll", "leave"), HOLDING: ("release", "extend"),
    LEAVING: ("leave",), RELEASING: ("release",),
}
ENTRY_CALLS = ("enter", "undo", "decrease")
CALLS_INSIDE = {
    OUT: ("enter",), ASKED: ("undo", "enter"), INSIDE: ("decrease",), UNDOING: ("undo",), ENDING: ("decrease",),
}


def calls_of(client):
    """What its mode allows it to ask."""
    if client.mode == HOLDING:
        return (*CALLS_INSIDE[client.entry], *CALLS[HOLDING])
    return CALLS[client.mode]


def best_with(word_of, state, who):
    """What brings it to its end, word_of(client) if it has to ask; None: it has come there."""
    if who == "ruby":
        return (*rubys_actions(state), None)[0]
    client = state.clients[who]
    if client.pushed:
        return ("take", who)
    if client.mode == IDLE and client.left == 0:
        return None
    return (word_of(client), who, False)


def best_of(state, who):
    return best_with(lambda client: "release" if client.mode == HOLDING and client.entry == OUT else calls_of(client)[0],
                     state, who)


def is_open(state, client, word):
    if word == "acquire":
        return client.left > 0
    if word == "enter":  # as long as it counts on its lock
        return (client.entries > 0 or client.entry == ASKED) and client.ends_us > state.true_us
    if word == "late":
        return client.number > 0
    if word == "extend":  # also too late; not if it would change nothing, or was told that all is over
        return 0 < client.ends_us < state.true_us + TTL_MS * 1000
    return True


def actions(state, ticks_us):
    """(word, client[, was its answer lost])."""
    for index, client in enumerate(state.clients):
        for word in calls_of(client):
            if is_open(state, client, word):
                yield (word, index, False)
                if state.faults and word != "late":
                    yield (word, index, True)
                if state.denials and word == "acquire":
                    yield ("deny", index, False)
        yield from pushes_of(state, index)
    yield from ticks_of(state, ticks_us)
    if state.losses:
        yield ("lose", 1000)  # a server takes longer than that to come back
    if state.clears and read_contents(state.contents).queue:
        yield ("clear", "the queue")
        yield ("clear", "the lock and the queue")
    if state.flushes:
        now = read_contents(state.contents)
        if now.lock:
            yield ("flush", "the lock", False)
        if now.queue:
            yield ("flush", "the queue", False)
    yield from rubys_actions(state)


def rubys_actions(state):
    """The best first. It would release what has ended, whoever has it by now: here it does not."""
    ruby = state.ruby
    if ruby.mode == HOLDING:
        return [("ruby", "release", False) if ruby.ends_us > state.now_us else ("forget", "Ruby's lock")]
    words = ("try", "leave") if ruby.mode == WAITING else ("try",) if ruby.left > 0 else ()
    return [("ruby", word, False) for word in words]


# ---- what comes of it ----

def replaced(state, index, client):
    return state._replace(clients=(*state.clients[:index], client, *state.clients[index + 1:]))


def killed(state, who):
    """What it has on the server stays there."""
    if who == "ruby":
        return state._replace(ruby=Ruby())
    return replaced(state, who, state.clients[who]._replace(left=0, is_subscribed=False, pushed=(), mode=IDLE))


def finished(client):
    return client._replace(mode=IDLE, score="0", ends_us=0, token="", pushed=(), left=client.left - 1,
                           arrived=0, heard_us=0, entry=OUT, entered_us=0, entry_ends_us=0)


def after_local(state, action):
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
    if word == "forget":
        return state._replace(ruby=Ruby(left=state.ruby.left - 1))
    return state._replace(now_us=state.now_us + which, contents=empty(N_LOCKS), excludes=False,
                          losses=state.losses - 1)


def cleared(state, takes_lock):
    """As by Ruby's unlock and clear_locks: who held the lock is excluded no more, and does not know it."""
    state = state._replace(contents=bare(state.contents, 0, takes_lock), clears=state.clears - 1, was_cleared=True)
    for index in range(len(state.clients) if takes_lock else 0):
        state = bereft(state, index)
    return state


def bereft(state, index):
    """What it holds was taken away."""
    client = state.clients[index]
    return replaced(state, index, client._replace(
        ends_us=min(client.ends_us, 1), entry_ends_us=min(client.entry_ends_us, 1),
        pushed=client.pushed and (client.pushed[0], 1)))


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
    if word == "enter":
        return client._replace(entry=INSIDE,
                               entry_ends_us=state.back_us + int(told[1]) + int(told[2]) * 1000)
    if word in ("undo", "decrease"):
        return client._replace(entry=OUT, entry_ends_us=0)
    if word == "extend":
        ends_us = state.back_us + int(told[1]) + int(told[2]) * 1000 if told[0] == "1" else 0
        return client._replace(ends_us=ends_us)
    return finished(client)


def after_call(state, action, answer, contents):
    """The state after a call that was answered, or whose answer was lost; Broken."""
    word, index, is_lost = action
    if word == "flush":
        return after_flush(state, index, answer, contents)
    if word == "ruby":
        return after_ruby(state, index, answer, contents)
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
    elif word == "enter" and client.entry == OUT:
        client = client._replace(entry=ASKED, entries=client.entries - 1, entered_us=state.true_us)
    elif word == "undo":
        client = client._replace(entry=UNDOING)
    elif word == "decrease":
        client = client._replace(entry=ENDING, entry_ends_us=0)
    after = replaced(state, index, client)._replace(
        now_us=state.now_us + (word == "acquire"), # no two arrive at once
        contents=contents, faults=state.faults - is_lost)
    after = heard_anew(line_up(state, after, index))
    if not is_lost:
        after = replaced(after, index, after_answer(after, index, word, answer))
    judge_answer(after, index, word, answer, is_lost)
    return judge_change(state, deliver(state, after, index), index, word)


def after_flush(state, what, answer, contents):
    """Of the lock, or of the requests, of a dead host. A client that was only away finds out."""
    after = state._replace(contents=contents, flushes=state.flushes - 1)
    was, now = read_contents(state.contents).at(state.now_us), read_contents(contents)
    is_owed = bool(was.lock) and was.lock["acq_id"] == acquirer(DEAD)
    if what == "the lock":
        demand((now.owner != was.owner) == is_owed or not was.owner, "flushed is what is not of the dead, or is not")
        after = bereft(after, DEAD) if is_owed else after
    else:
        demand(acquirer(DEAD) not in now.waiting or not was.queue, "the dead still wait")
        demand(not was.owner or was.owner == now.owner, "a queue was flushed, and a lock is gone")
    demand(not is_partly("flush_lock", answer), "a call is repeated without end")
    if (was.owner, was.queue) == (now.owner, now.queue):  # what has ended by itself is left to a poll
        return after
    return judge_change(state, deliver(state, after, None), None, "flush")


def after_ruby(state, word, answer, contents):
    was, now = read_contents(state.contents).at(state.now_us), read_contents(contents)
    ruby = state.ruby
    state = state._replace(was_cleared=state.was_cleared or not set(was.queue) - {RUBY} <= set(now.queue))
    if word == "try" and answer == "1":
        ruby = ruby._replace(mode=HOLDING, score="", arrived=0, ends_us=state.now_us + TTL_MS * 1000)
    elif word == "try":
        # passed while it was away, it comes back to its place
        arrived = ruby.arrived or max(client.arrived for client in state.clients) + 1
        ruby = ruby._replace(mode=WAITING, score=rubys_score(state), arrived=arrived)
    else:
        ruby = Ruby(left=ruby.left - 1)
    after = state._replace(contents=contents, ruby=ruby, now_us=state.now_us + (state.ruby.mode == IDLE))
    demand(word != "release" or not was.owner or was.owner == RUBY, "Ruby has released what is not its own")
    return after if word == "try" and not now.owner else after._replace(turn_us=0)


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
        others = [one.arrived for index, one in enumerate(after.clients) if index != actor] + [after.ruby.arrived]
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
