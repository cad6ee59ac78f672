"""One lock that is handed on inside a client (lua/transfer.lua, lua/README.md 39 to 43): what its threads and others
can do, what comes of it, and what must hold after each step.

Those of the one client share a stream of commands. What is in it comes to the server in its order, whenever that
reads it; when the connection breaks, the rest comes late, or never. Who asks for the lock, and who has another
client, is answered at once, as in model.py: what may come in any order needs no stream.
"""
from typing import NamedTuple

from chain_judge import HANDED, judge, own_nonce_in, taken_by
from server import T0_US, empty
from shares_judge import holds_of
from state import (HOLDING, IDLE, LEAVING, NO_RANDOM, NOT_AFTER_US, QUEUE_TTL_MS, TTL_MS, WAITING, Ruby,
                   acquirer, bare, demand, host, is_partly, nonce, read_contents, replaced, ticks_of, with_fence)

N_LOCKS = 1
ENDING = "ending"  # releases the lock, or hands it on
AHEAD_US = 10_000  # by which a token may be ahead of the server's clock


class Client(NamedTuple):
    mode: str = IDLE
    access: str = "q"     # s: it shares the lock with others, and is no member
    conflict: str = "w"   # with which it asks: w after it has refused a hand-over, which it may own on the server
    left: int = 1         # acquisitions to come
    number: int = 0       # of this one
    score: str = "0"
    in_front: str = ""    # as the last answer told
    generation: int = -1  # of the stream over which that came
    ends_us: int = 0      # of its lease
    token: str = ""
    pushed: tuple = ()    # (token, end of the lease)
    is_subscribed: bool = True
    arrived: int = 0      # its turn among those who wait; 0: it has none
    heard_us: int = 0
    has_lost: bool = False  # ENDING: the stream that it had said it over, or was answered too early


class Transfer(NamedTuple):
    """That its giver has no answer to. It is there as long as its giver has to do with it."""
    giver: int
    giver_nonce: str
    taker: int
    nonce: str
    token: str
    ends_us: int          # of the giver's lease
    generation: int
    is_refused: bool = False


class Call(NamedTuple):
    """In a stream."""
    sender: int
    script: str
    words: tuple
    sent_us: int


class State(NamedTuple):
    now_us: int
    contents: str
    clients: tuple
    ticks: int
    faults: int
    clears: int
    forgets: int          # how often the server still forgets all scripts
    fulls: int            # how many calls still come to a server that is full
    others: int           # grants of other locks to come
    n_members: int        # the first clients are one, with so many threads
    stream: tuple = ()
    late: tuple = ()      # of streams that broke
    generation: int = 0
    transfers: tuple = ()
    withdrawn: tuple = () # (client, nonce): is withdrawn in the background
    robbed: tuple = ()    # nonces of those whose lock others have removed, and who may have got it from them
    top: int = 0          # the highest token so far that the server knows of
    made_top: int = 0     # that of a hand-over since the server's clock was set back, or others removed the lock
    others_top: int = 0   # that of a grant of another lock, if it is its time: no two grants had the same time
    back_us: int = 0      # by which the server's clock was set back
    known_back_us: int = 0 # of it, what the client knows: when it was last told the time
    was_cleared: bool = False
    turn_us: int = 0
    ruby: Ruby = Ruby()

    @property
    def true_us(self):
        """The client's clock is never set."""
        return self.now_us + self.back_us


def first(bounds):
    accesses = bounds.accesses.ljust(len(bounds.acquisitions), "q")
    conflicts = bounds.conflicts.ljust(len(bounds.acquisitions), "w")
    clients = tuple(Client(access=access, conflict=conflict, left=left)
                    for access, conflict, left in zip(accesses, conflicts, bounds.acquisitions))
    return State(T0_US, empty(N_LOCKS), clients, bounds.ticks, bounds.faults, bounds.clears, bounds.forgets,
                 bounds.fulls, bounds.others, bounds.members)


def everybody(bounds):
    return (*range(len(bounds.acquisitions)), "the stream", "the background")


def is_over(state):
    return not state.stream and not state.withdrawn and all(one.mode == IDLE and not one.left for one in state.clients)


def own_nonce(state, index):
    return nonce(index, state.clients[index].number)


def given_by(state, index):
    """The transfer that it waits for an answer to, or None."""
    return next((one for one in state.transfers if one.giver_nonce == own_nonce(state, index)), None)


# ---- what can be done ----

def call_of(state, action):
    word, which, *asks = action
    if not asks:
        return None
    if word in ("serve", "full", "too late"):
        call = (state.late if word == "too late" else state.stream)[0]
        return "full" if word == "full" else call.script, call.words
    if word == "withdraw":
        index, own = which
        return "leave", (acquirer(index), own, NO_RANDOM)
    client = state.clients[which]
    own, shares = nonce(which, client.number + (word == "acquire")), client.access == "s"
    if word == "leave" or (word == "release" and shares):
        return "leave_shared" if shares else "leave", (acquirer(which), own, NO_RANDOM)
    if word == "release":
        return "release", (own, NO_RANDOM)
    access = "q" if shares else client.access
    words = (acquirer(which), host(which), str(TTL_MS), own, str(state.now_us + NOT_AFTER_US),
             f"{access}{client.conflict}- -1 {client.score} {QUEUE_TTL_MS} {NO_RANDOM}")
    return ("acquire_shared", (*words, "rql_share", "1 2", "purpose", f"of {which}")) if shares else ("acquire", words)


def metadata_of(index):
    return f"of_{index}", "its own"


def transfer_words(one):
    return (one.giver_nonce, NO_RANDOM, acquirer(one.taker), one.nonce, host(one.taker), str(TTL_MS), one.token,
            *metadata_of(one.taker))


def server_us_of(state):
    """The server's time as the client knows it by its own clock: not that it was set back since it was told."""
    return state.true_us - state.known_back_us


def takers_of(state, index):
    """Whom it may hand the lock to."""
    client = state.clients[index]
    if client.mode == HOLDING and client.generation == state.generation and client.ends_us > state.true_us \
            and int(client.token) < server_us_of(state) + AHEAD_US:
        for other, one in enumerate(state.clients[:state.n_members]):
            if one.mode == WAITING and not one.pushed and one.in_front == acquirer(index):
                yield other


def is_in_stream(state, index):
    return any(index == call.sender for call in state.stream)


def has_to_wait(state, index):
    """Not before the transfer to it was answered, when it may not come behind that."""
    mine = taken_by(state, index)
    return mine and (state.clients[index].has_lost or mine.generation != state.generation)


def local_actions(state, index):
    """Of a thread of the client, the best first."""
    client = state.clients[index]
    if client.pushed or client.mode == HANDED:
        yield ("take", index)
    elif client.mode == HOLDING:
        for other in takers_of(state, index):
            yield ("hand on", (index, other))
        yield ("end", index)
    elif client.mode == ENDING and not is_in_stream(state, index):
        if not has_to_wait(state, index):
            yield ("send", index)
        if client.has_lost:
            yield ("give up", index)


def knows_all(state, index):
    """Nobody is to be served, and it was told who is in front: asking again changes nothing but its heartbeat."""
    now, who = read_contents(state.contents).at(state.now_us), acquirer(index)
    in_front = [now.lock.get("acq_id"), *now.queue]
    return bool(now.lock) and who in now.queue and in_front[in_front.index(who, 1) - 1] == state.clients[index].in_front


def calls_of(state, index):
    """What it asks at once."""
    client = state.clients[index]
    if client.mode == WAITING:
        return ("leave",) if knows_all(state, index) else ("poll", "leave")
    if client.mode == LEAVING:
        return ("leave",)
    if client.mode == HOLDING and index >= state.n_members:
        return ("release",)
    return ("acquire",) if client.mode == IDLE and client.left else ()


def best_of(state, who):
    if who == "the stream":
        return ("serve", 0, False) if state.stream else None
    if who == "the background":
        return ("withdraw", state.withdrawn[0], False) if state.withdrawn else None
    own = () if who >= state.n_members else local_actions(state, who)
    pushed = ("take", who) if state.clients[who].pushed else None
    words = ("poll",) if state.clients[who].mode == WAITING else calls_of(state, who)
    return next(iter(own), None) or pushed or next(((word, who, False) for word in words), None)


def actions(state, ticks_us):
    for index, client in enumerate(state.clients):
        for word in calls_of(state, index):
            yield (word, index, False)
        # One of its questions from a connection that broke before comes now.
        if state.faults and client.mode in (HANDED, HOLDING) and taken_by(state, index):
            yield ("ask late", index, False)
        if index < state.n_members:
            yield from local_actions(state, index)
        elif client.pushed:
            yield ("take", index)
    if state.stream:
        yield ("serve", 0, False)
        is_transfer = state.stream[0].script == "transfer"
        if state.faults:
            yield ("break", 0)
        if state.forgets and is_transfer:
            yield ("forget", 0)
        if state.fulls and is_transfer:
            yield ("full", 0, False)
    if state.late:
        yield ("too late", 0, False)
    for one in state.withdrawn:
        yield ("withdraw", one, False)
    yield from ticks_of(state, ticks_us)
    if state.others:
        yield ("grant", "another lock")
    if state.clears and read_contents(state.contents).lock:
        yield ("clear", 0)


# ---- what comes of it ----

def killed(state, who):
    """A thread does not die alone: the others of its client find the stream as it was."""
    if not isinstance(who, int) or who < state.n_members:
        return state
    return replaced(state, who, left=0, is_subscribed=False, pushed=(), mode=IDLE)


def finished(state, index):
    client = state.clients[index]
    return replaced(state, index, mode=IDLE, score="0", in_front="", ends_us=0, token="", pushed=(),
                    left=client.left - 1, has_lost=False)


def put(state, index, script, words):
    call = Call(index, script, words, state.true_us)
    return replaced(state, index, has_lost=False)._replace(stream=(*state.stream, call))


def after_local(state, action):
    word, which = action
    if word == "tick":
        return state._replace(now_us=state.now_us + which, ticks=state.ticks - 1,
                              back_us=state.back_us - min(which, 0), made_top=state.made_top if which > 0 else 0)
    if word == "clear":
        is_robbed = [own_nonce(state, index) for index, client in enumerate(state.clients)
                     if client.pushed or client.mode in (HOLDING, HANDED)]
        return state._replace(contents=bare(state.contents, 0, True), clears=state.clears - 1, was_cleared=True,
                              made_top=0, robbed=tuple(sorted({*state.robbed, *is_robbed})))
    if word == "grant":  # the tokens of all locks are of one row
        last, now_us = int(read_contents(state.contents).fence or 0), state.now_us + 100
        token = max(now_us, last + 1)
        told = [int(client.token) for client in state.clients if client.token]
        demand(state.back_us > 0 or all(token > one for one in told), f"another lock's token {token} is not above {told}")
        return state._replace(contents=with_fence(state.contents, token), now_us=now_us,
                              others_top=token if token == now_us else 0, others=state.others - 1)
    if word == "take":
        return taken(state, which)
    if word == "hand on":
        return put_if_possible(*handed_on(state, *which))
    if word == "break":
        for call in state.stream:
            state = replaced(state, call.sender, has_lost=True)
        return state._replace(stream=(), late=(*state.late, *state.stream), generation=state.generation + 1,
                              faults=state.faults - 1)
    if word == "forget":  # it is repeated with its text, behind what is there
        call, *others = state.stream
        state = state._replace(stream=tuple(others), forgets=state.forgets - 1)
        return put(state, call.sender, "transfer", transfer_words(given_by(state, call.sender)))
    if word == "end":
        return put_if_possible(replaced(state, which, mode=ENDING), which)
    return put_if_possible(state, which) if word == "send" else given_up(state, which)


def taken(state, index):
    client, mine = state.clients[index], taken_by(state, index)
    if client.mode == HANDED and client.ends_us > state.true_us:
        return replaced(state, index, mode=HOLDING, in_front="")
    if client.mode == HANDED:  # too late: it goes on in its place, by another nonce
        rest = tuple(one._replace(is_refused=True) if one == mine else one for one in state.transfers)
        state = state._replace(transfers=rest, withdrawn=(*state.withdrawn, (index, own_nonce(state, index))))
        return replaced(state, index, mode=WAITING, number=client.number + 1, ends_us=0, token="", in_front="",
                        conflict="w")
    token, ends_us = client.pushed
    state = replaced(state, index, pushed=())
    if ends_us <= state.true_us:
        return state
    return replaced(state, index, mode=HOLDING, ends_us=ends_us, token=token, score="0", in_front="")


def handed_on(state, index, other):
    """Said to the other at once; whoever is robbed hands on what is not there."""
    client, own, others = state.clients[index], own_nonce(state, index), own_nonce(state, other)
    token = max(int(client.token) + 1, server_us_of(state))
    demand(state.back_us > 0 or token >= state.others_top, f"token {token} is below {state.others_top} of another lock")
    one = Transfer(index, own, other, others, str(token), client.ends_us, state.generation)
    demand(own in state.robbed or int(one.token) > state.top, f"token {one.token} is not above {state.top}")
    state = state._replace(transfers=(*state.transfers, one))
    if own in state.robbed:
        state = state._replace(robbed=tuple(sorted({*state.robbed, others})))
    elif state.known_back_us == state.back_us:
        state = state._replace(made_top=token)
    ends_us = min(one.ends_us, state.true_us + TTL_MS * 1000)
    # It takes longer than a microsecond: unless the server's clock was set back, it is past the token then.
    past_us = state.now_us + 1 if state.back_us else max(state.now_us, token) + 1
    state = replaced(state, other, mode=HANDED, ends_us=ends_us, token=one.token, generation=state.generation)
    return replaced(state, index, mode=ENDING)._replace(now_us=past_us), index


def put_if_possible(state, index):
    if has_to_wait(state, index):
        return replaced(state, index, has_lost=True)
    one = given_by(state, index)
    if one and one.is_refused:
        state, one = end_transfer(state, one, True), None
    if one:
        return put(state, index, "transfer", transfer_words(one))
    return put(state, index, "release", (own_nonce(state, index), NO_RANDOM))


def end_transfer(state, one, may_be_there):
    """It has come to nothing, as far as is known."""
    state = state._replace(transfers=tuple(other for other in state.transfers if other != one))
    state = told_the_loss(state, one, may_be_there)
    if may_be_there and (one.taker, one.nonce) not in state.withdrawn:
        state = state._replace(withdrawn=(*state.withdrawn, (one.taker, one.nonce)))
    return state


def told_the_loss(state, one, to_all):
    """Its taker, and whom that has handed it on to: its lock is given back next, which they rely on."""
    if own_nonce(state, one.taker) == one.nonce and state.clients[one.taker].mode in (HANDED, HOLDING):
        state = replaced(state, one.taker, ends_us=0)
    onward = next((other for other in state.transfers if other.giver_nonce == one.nonce), None)
    if onward and to_all:
        others = tuple(other._replace(is_refused=True) if other == onward else other for other in state.transfers)
        state = told_the_loss(state._replace(transfers=others), onward, to_all)
    return state


def given_up(state, index):
    """It had no answer for as long as it waits for one."""
    one = given_by(state, index)
    state = end_transfer(state, one, True) if one else state
    state = state._replace(withdrawn=(*state.withdrawn, (index, own_nonce(state, index))))
    return finished(state, index)


def after_stream(state, call, answer):
    index, script = call.sender, call.script
    one, told = given_by(state, index), answer.split(" ")
    if script == "transfer" and answer == "denied":
        return put_if_possible(end_transfer(state, one, True), index)
    if script == "transfer" and told[0] == "4":
        state = state._replace(transfers=tuple(other for other in state.transfers if other != one))
        is_on = own_nonce(state, one.taker) == one.nonce and state.clients[one.taker].mode in (HANDED, HOLDING)
        if is_on and not one.is_refused:
            state = replaced(state, one.taker, ends_us=call.sent_us + int(told[2]) * 1000)
        return finished(state, index)
    if (script == "transfer" or told[0] == "0") and taken_by(state, index):
        return replaced(state, index, has_lost=True)
    return finished(end_transfer(state, one, False) if one else state, index)


def after_answer(state, index, word, answer):
    client, told = state.clients[index], answer.split(" ")
    if word in ("leave", "release"):
        return finished(state, index)
    if index < state.n_members:
        state = state._replace(known_back_us=state.back_us)
    if told[0] == "1":
        demand(told[6] == own_nonce(state, index), "told of another grant than it has asked for")
        return replaced(state, index, mode=HOLDING, ends_us=state.back_us + int(told[1]) + int(told[2]) * 1000,
                        token=told[3], score="0", in_front="", pushed=(), generation=state.generation)
    demand(told[0] == "0", f"nobody asked for the answer {answer}")
    demand(len(told) == 9, "not told who is in front")
    return replaced(state, index, score=told[7], in_front=told[8], pushed=(), generation=state.generation)


def after_call(state, action, answer, contents):
    word, which, _ = action
    demand(not is_partly(call_of(state, action)[0], answer), "a call is repeated without end")
    after = state._replace(contents=contents)
    if word in ("serve", "full", "too late"):
        call = (state.late if word == "too late" else state.stream)[0]
        after = after._replace(fulls=state.fulls - (word == "full"))
        after = after._replace(late=state.late[1:]) if word == "too late" else after._replace(stream=state.stream[1:])
        actor = call.sender if call.script == "release" else int(own_nonce_in(call)[:16], 16) - 1
        if word != "too late":
            after = after_stream(after, call, answer)
        return judge(state, deliver(state, after, None), actor, call, answer)
    if word == "withdraw":
        after = after._replace(withdrawn=tuple(one for one in state.withdrawn if one != which))
        call = Call(which[0], "leave", call_of(state, action)[1], 0)
        return judge(state, deliver(state, after, None), which[0], call, answer)
    call = Call(which, *call_of(state, action), 0)
    if word == "ask late":
        return judge(state, deliver(state, after._replace(faults=state.faults - 1), None), which, call, answer)
    if word == "acquire":
        after = replaced(after, which, mode=WAITING, number=after.clients[which].number + 1, score="0")
        after = after._replace(now_us=state.now_us + 1)
    elif word == "leave":
        after = replaced(after, which, mode=LEAVING, pushed=())
    after = deliver(state, line_up(state, after, which), which)
    return judge(state, after_answer(after, which, word, answer), which, call, answer)


def line_up(before, after, actor):
    """Who has come into the queue comes after all the others; nobody loses a place."""
    was, now = read_contents(before.contents), read_contents(after.contents)
    client, who = after.clients[actor], acquirer(actor)
    if client.mode != WAITING or who not in now.queue:
        return after
    if not client.arrived:
        client = client._replace(arrived=max(other.arrived for other in after.clients) + 1)
    elif who in was.queue:
        demand(was.queue[who] == now.queue[who], f"client {actor} has lost its place")
    return replaced(after, actor, arrived=client.arrived, heard_us=after.now_us)


def deliver(before, after, actor):
    """Who was given the lock was told; who relies on a transfer takes no notice."""
    was, now = read_contents(before.contents), read_contents(after.contents)
    was_held, held = holds_of(was, before.now_us), holds_of(now, after.now_us)
    for index, client in enumerate(after.clients):
        own = nonce(index, client.number)
        if own in held and own not in was_held and index != actor and client.mode == WAITING:
            after = replaced(after, index, pushed=(held[own].token, after.back_us + held[own].ends_us))
        if client.mode not in (WAITING, LEAVING, HANDED) and acquirer(index) not in now.waiting:
            after = replaced(after, index, arrived=0, heard_us=0)
    return after
