"""One lock that some clients want to share, and others want alone: what they do, and what comes of it
(lua/optional.md 56 to 66). What must hold is in shares_judge.py. As far as clients do the same as those of model.py, it
is done there."""
from typing import NamedTuple

from model import (N_LOCKS, everybody, heard_anew, is_over, killed, line_up, replaced, rubys_actions)  # noqa: F401
import model
from server import T0_US, empty
from shares_judge import fields_of, holds_of, judge_answer, judge_change, judge_keys, numbers_in  # noqa: F401
from state import (DEAD, HOLDING, IDLE, LEAVING, NO_RANDOM, NOT_AFTER_US, RELEASING, RUBY, RUBYS_HOST,
                   TTL_MS, WAITING, Broken, Ruby, State, acquirer, bare, demand, entry_nonce, host, is_partly, nonce, pushes_of,
                   read_contents, ticks_of)

LONG_MS, LONGEST_MS = 8000, 30000


class Client(NamedTuple):
    wants: str = "x"       # the lock alone, or units/limit, with an s behind it if it asks for slots
    lowers: str = ""       # what it may lower the lock to that it holds alone
    passes: bool = False   # it does not wait for those in front
    enters: bool = False   # it acquires again what it holds
    ttl_ms: int = TTL_MS
    form: str = "x"        # what it has, as wants
    mode: str = IDLE
    left: int = 1          # as in state.py, down to heard_us
    number: int = 0
    score: str = "0"
    ends_us: int = 0
    token: str = ""
    pushed: tuple = ()     # with the slots
    is_subscribed: bool = True
    arrived: int = 0
    heard_us: int = 0
    is_hinted: bool = False  # it was notified to poll, and has not yet
    slots: tuple = ()      # holding


def client_of(text, left):
    """x, 1/512, x>1/512: it may lower the lock; *1/2: it passes the queue; 2/3s: with slots; 1/2+, 1/2++: for longer;
    1/2=: it enters again."""
    wants, _, lowers = text.strip("*+=").partition(">")
    ttl_ms = (TTL_MS, LONG_MS, LONGEST_MS)[text.count("+")]
    return Client(wants, lowers, text.startswith("*"), text.endswith("="), ttl_ms, wants, left=left)


def first(bounds):
    clients = tuple(map(client_of, bounds.shares, bounds.acquisitions))
    return State(T0_US, empty(N_LOCKS), clients, bounds.ticks, bounds.faults, bounds.losses, bounds.clears,
                 flushes=bounds.flushes, ruby=Ruby(left=bounds.rubys))


# ---- what can be done ----

def share_of(form):
    return form.replace("/", " ")


def rubys_score(state):
    """Its queue_ttl is longer than anything takes here."""
    return state.ruby.score or f"{state.now_us / 1e6:.6f}"


def call_of(state, action):
    word, index, *asks = action
    if not asks:
        return None
    if word == "ruby":
        return "ruby", (index, RUBY, RUBYS_HOST, str(TTL_MS), rubys_score(state), "0")
    if word == "flush":
        return "flush_shares", ("0", NO_RANDOM)
    client = state.clients[index]
    own, before = nonce(index, client.number), nonce(index, client.number - 1)
    if word in ("acquire", "poll", "late", "enter"):
        number = client.number + (word == "acquire")
        not_after_us = state.now_us + (-1 if word == "late" else NOT_AFTER_US)
        own_nonce = entry_nonce(index, number) if word == "enter" else nonce(index, number)
        ask = f"{'r' if client.passes else 'q'}{'t' if word == 'enter' else 'w'}- -1 {client.score} -1 {NO_RANDOM}"
        words = acquirer(index), host(index), str(client.ttl_ms), own_nonce, str(not_after_us), ask
        form = client.form if word == "enter" else client.wants
        if form == "x":
            return "acquire", words
        return "acquire_shared", (*words, "rql_share", share_of(form), "purpose", f"of {index}")
    if word == "sweep":
        return "sweep_share", (acquirer(index), host(index), "0", NO_RANDOM)
    if word == "late leave":
        return "leave_shared", (acquirer(index), before, NO_RANDOM)
    if word == "late extend":
        return "extend_shared", (acquirer(index), before, "9000", NO_RANDOM, "1 512")
    if word == "old extend":
        return "extend", (own, str(client.ttl_ms), NO_RANDOM)
    is_alone = client.wants == "x" and client.lowers == ""
    if word == "leave" or (word == "release" and client.form != "x"):
        return "leave" if is_alone else "leave_shared", (acquirer(index), own, NO_RANDOM)
    if word == "release":
        return "release", (own, NO_RANDOM)
    form = client.lowers if word == "lower" else client.form
    if form == "x":
        return "extend", (own, str(client.ttl_ms), NO_RANDOM)
    return "extend_shared", (acquirer(index), own, str(client.ttl_ms), NO_RANDOM, share_of(form))


CALLS = {
    IDLE: ("acquire", "late"), WAITING: ("poll", "leave"), HOLDING: ("release", "extend", "lower", "enter", "old extend"),
    LEAVING: ("leave",), RELEASING: ("release",),
}
# Nothing depends on their answers. old extend: a renewal that was sent before the lock was lowered.
ALONE = ("late", "late leave", "late extend", "old extend", "sweep")


def is_open(state, index, word):
    client = state.clients[index]
    if word == "acquire":
        return client.left > 0
    if word == "late":
        return client.number > 0
    if word == "extend":
        return 0 < client.ends_us < state.true_us + client.ttl_ms * 1000
    if word == "lower":
        return client.lowers != "" and client.form == "x"
    if word == "enter":
        held = holds_of(read_contents(state.contents), state.now_us) if client.enters else ()
        return nonce(index, client.number) in held
    if word == "old extend":
        return client.lowers != "" and client.form != "x"
    return True


def best_of(state, who):
    return model.best_with(lambda client: CALLS[client.mode][0], state, who)


def actions(state, ticks_us):
    for index, client in enumerate(state.clients):
        for word in CALLS[client.mode]:
            if is_open(state, index, word):
                yield (word, index, False)
                if state.faults and word not in ALONE:
                    yield (word, index, True)
        if client.number > 1 and client.wants != "x":
            yield ("late leave", index, False)
            yield ("late extend", index, False)
        yield from pushes_of(state, index)
    yield from ticks_of(state, ticks_us)
    if state.losses:
        yield ("lose", 1000)
    if state.clears:
        yield ("clear", "the queue")
        yield ("clear", "the lock and the queue")
    if state.flushes and read_contents(state.contents).shares:
        yield ("flush", "the shares", False)
        yield ("sweep", DEAD, False)
    yield from rubys_actions(state)


# ---- what comes of it ----

def finished(client):
    return client._replace(mode=IDLE, score="0", ends_us=0, token="", pushed=(), left=client.left - 1, slots=(),
                           arrived=0, heard_us=0, form=client.wants)


def bereft(state, index):
    """What it has was taken away."""
    client = state.clients[index]
    pushed = client.pushed and (client.pushed[0], 1, client.pushed[2])
    return replaced(state, index, client._replace(ends_us=min(client.ends_us, 1), pushed=pushed))


def after_local(state, action):
    word, which = action
    if word == "take":
        client = state.clients[which]
        token, ends_us, slots = client.pushed
        taken = client._replace(pushed=())
        if ends_us > state.true_us:
            taken = taken._replace(mode=HOLDING, ends_us=ends_us, token=token, score="0", arrived=0, heard_us=0,
                                   is_hinted=False, slots=slots)
        return replaced(state, which, taken)
    if word == "unsubscribe":
        client = state.clients[which]._replace(is_subscribed=False, pushed=(), is_hinted=False)
        return replaced(state, which, client)._replace(faults=state.faults - 1)
    if word == "clear":
        takes_lock = which == "the lock and the queue"
        state = state._replace(contents=bare(state.contents, 0, takes_lock), clears=state.clears - 1, was_cleared=True)
        for index in range(len(state.clients) if takes_lock else 0):
            state = bereft(state, index)
        # A release by Ruby would end the lock of its next holder.
        is_rubys = takes_lock and state.ruby.mode == HOLDING
        return state._replace(ruby=state.ruby._replace(ends_us=0)) if is_rubys else state
    return model.after_local(state, action)


def slots_told(form, words):
    """A client that asked for slots and gets no list of them has the first ones."""
    n_units = int(form.split("/")[0]) if form.endswith("s") else 0
    return numbers_in(words[0]) if words else tuple(range(n_units))


def after_answer(state, index, word, answer):
    client = state.clients[index]
    told = answer.split(" ")
    if word in ("acquire", "poll"):
        if told[0] == "1":
            return client._replace(mode=HOLDING, ends_us=state.back_us + int(told[1]) + int(told[2]) * 1000,
                                   token=told[3], score="0", pushed=(), arrived=0, heard_us=0,
                                   slots=slots_told(client.wants, told[7:]))
        if told[0] == "0":
            return client._replace(score=told[7], pushed=())
        raise Broken(f"no call asked for the answer {answer}")
    if word == "old extend":
        return client
    if word == "enter":
        demand(told[0] == "1" and (told[3], told[6]) == (client.token, nonce(index, client.number)),
               "it enters another grant than its own")
        demand(slots_told(client.form, told[7:]) == client.slots, "told of other slots than its own")
        return client._replace(ends_us=state.back_us + int(told[1]) + int(told[2]) * 1000)
    if word in ("extend", "lower"):
        ends_us = state.back_us + int(told[1]) + int(told[2]) * 1000 if told[0] == "1" else 0
        if word == "lower":
            client = client._replace(form=client.lowers, slots=slots_told(client.lowers, []) if ends_us else ())
        return client._replace(ends_us=ends_us)
    return finished(client)


def after_call(state, action, answer, contents):
    word, index, is_lost = action
    messages, contents = contents.messages, str(contents)
    if word == "ruby":
        after = model.after_ruby(state, index, answer, contents)
        is_waiting = after.ruby.mode == WAITING
        return after._replace(ruby=after.ruby._replace(score=rubys_score(state))) if is_waiting else after
    demand(not is_partly(call_of(state, action)[0], answer), "a call is repeated without end")
    if word == "late":
        demand(answer[0] == "5", "a call was done long after its time")
        return state
    if word in ("flush", "sweep"):
        return after_removal(state, word, answer, contents, messages)
    if word.startswith("late "):
        demand(answer[0] == "0", "a call of a request that is over has changed something")
        after = noted(state._replace(contents=contents), messages)
        return judge_change(state, deliver(state, after, None, messages), index, word)
    client = state.clients[index]._replace(is_hinted=False)
    if word == "acquire":
        client = client._replace(mode=WAITING, number=client.number + 1, score="0")
    elif word == "leave":
        client = client._replace(mode=LEAVING, pushed=(), arrived=0, heard_us=0)
    elif word == "release":
        client = client._replace(mode=RELEASING)
    elif word == "lower" and is_lost:
        client = client._replace(mode=LEAVING)  # it does not know what it has; leave_shared ends both
    after = replaced(state, index, client)._replace(
        now_us=state.now_us + (word == "acquire"),  # no two arrive at the same time
        contents=contents, faults=state.faults - is_lost)
    after = heard_anew(line_up(state, after, index))
    if not is_lost:
        after = replaced(after, index, after_answer(after, index, word, answer))
    judge_answer(after, index, word, answer, is_lost)
    return judge_change(state, deliver(state, noted(after, messages), index, messages), index, word)


def after_removal(state, word, answer, contents, messages):
    """Of the shares of a dead host, or of one acquirer, in a lock of several."""
    was, now = (fields_of(read_contents(text).at(state.now_us)) for text in (state.contents, contents))
    owed = {acquirer(DEAD)} & set(was)
    is_reported = word == "flush" or not owed or answer[3] == was[acquirer(DEAD)].nonce
    demand(set(was) - set(now) >= owed and is_reported,
           "the share that was to be removed is still there, or another is reported")
    after = state._replace(contents=contents, flushes=state.flushes - 1)
    if not owed:
        demand(was == now, "something was removed that is not of the dead")
        return after
    after = noted(bereft(after, DEAD), messages)
    return judge_change(state, deliver(state, after, None, messages), DEAD, word)


def noted(state, messages):
    """The messages "look" were received."""
    for index, client in enumerate(state.clients):
        if client.mode == WAITING and client.is_subscribed and nonce(index, client.number) + " look" in messages:
            state = replaced(state, index, client._replace(is_hinted=True))
    return state


def deliver(before, after, actor, messages):
    """Each grant to another request than the caller's was pushed once, with its slots."""
    was, now = (holds_of(read_contents(state.contents), after.now_us) for state in (before, after))
    for index, client in enumerate(after.clients):
        own = nonce(index, client.number)
        if own in now and own not in was and index != actor and client.mode == WAITING:
            grants = [text.split(" ")[4:] for text in messages if text.startswith(own) and text[33:] != "look"]
            demand(len(grants) == 1, "a request was granted, and its client was not told so once")
            after = replaced(after, index, client._replace(pushed=(
                now[own].token, after.back_us + now[own].ends_us, slots_told(client.wants, grants[0]))))
    return after
