"""Two locks: what clients can do that want one of them, one after the other, or both at once as a series; what comes
of it, and what must hold after each step.

As in model.py a client may do whatever a real one may, at any moment. It holds all locks of a series or none; it is
not passed for ever by those who want one of them, and they do not wait for it for ever (lua/README.md 22 and 23).
"""
from typing import NamedTuple

import shares_judge
from judge import is_live, judge_keys
from server import T0_US, empty
from shares_judge import holds_of
from state import (CLAIM_US, HOLDING, IDLE, LEAVING, NOT_AFTER_US, NO_RANDOM, QUEUE_TTL_MS, RELEASING, TTL_MS, WAITING,
                   acquirer, bare, demand, host, is_partly, pushes_of, read_contents, replaced, ticks_of)

N_LOCKS = 2
RESERVED_US, LONGEST_US, N_MARKED = 2_000_000, 60_000_000, 16  # of lua/reserve.lua


class Client(NamedTuple):
    plan: tuple           # the locks of each of its requests
    access: str = "q"     # see lua/acquire.lua, as long as it holds nothing
    shares: bool = False  # each of its locks, which it wants one by one
    mode: str = IDLE      # HOLDING: it is over
    number: int = 0       # of the request
    step: int = -1        # of the plan that this is
    asked: tuple = ()     # the locks of the request that it did not hold
    score: str = "0"      # its place, if an answer told
    held: tuple = ()      # (lock, nonce, token, end of the lease)
    to_end: tuple = ()    # LEAVING, RELEASING: the locks that are left to do
    pushed: tuple = ()    # as an element of held
    is_subscribed: bool = True
    arrived: int = 0      # its turn among those who wait; 0: it has none
    heard_us: int = 0

    @property
    def is_series(self):
        return self.mode in (WAITING, LEAVING) and len(self.plan[self.step]) > 1


class Reservation(NamedTuple):
    """Of a free lock, for the series that is the first there."""
    index: int = -1
    since_us: int = 0     # 0: it begins when the lock is free again
    n_passed: int = 0
    n_marked: int = 0

    def has_lapsed(self, now_us):
        length_us = min(RESERVED_US * 2 ** self.n_passed, LONGEST_US)
        return self.since_us > 0 and now_us - self.since_us >= length_us


class State(NamedTuple):
    now_us: int
    contents: str
    clients: tuple
    ticks: int
    faults: int
    clears: int
    top: int = 0          # the highest token so far
    was_cleared: bool = False
    reservations: tuple = (Reservation(),) * N_LOCKS


def first(bounds):
    accesses = bounds.accesses.ljust(len(bounds.plans), "q")
    clients = tuple(Client(plan, access.replace("s", "q"), access == "s") for plan, access in zip(bounds.plans, accesses))
    return State(T0_US, empty(N_LOCKS), clients, bounds.ticks, bounds.faults, bounds.clears)


def everybody(bounds):
    return range(len(bounds.plans))


def is_over(state):
    return all(not best_of(state, index) for index in range(len(state.clients)))


def contents_of(text):
    return [read_contents(text, lock) for lock in range(N_LOCKS)]


def holds_in(text, now_us):
    """Of each lock, nonce -> Hold."""
    return [holds_of(one, now_us) for one in contents_of(text)]


def nonce(index, number, lock):
    return f"{index + 1:016x}{number:08x}{lock:08x}"


def end_of(client):
    """Of what it holds."""
    return min((ends_us for _, _, _, ends_us in client.held), default=0)


def access_of(client):
    return client.access.upper() if client.held else client.access


# ---- what can be done ----

def call_of(state, action):
    """(script, its words, locks) of an action that asks the server; None: it does not."""
    word, index, *asks = action
    if not asks:
        return None
    client = state.clients[index]
    if word == "leave":
        lock = (client.to_end or client.plan[client.step])[0]
        script = "leave_shared" if client.shares else "leave"
        return script, (acquirer(index), nonce(index, client.number, lock), NO_RANDOM), (lock,)
    if word == "release":
        lock, own, _, _ = client.held[-1]
        if client.shares:
            return "leave_shared", (acquirer(index), own, NO_RANDOM), (lock,)
        return "release", (own, NO_RANDOM), (lock,)
    number, step = client.number + (word == "ask"), client.step + (word == "ask")
    locks = client.plan[step]
    not_after_us = state.now_us + (-1 if word == "late" else NOT_AFTER_US)
    words = (acquirer(index), host(index), str(TTL_MS), "".join(nonce(index, number, lock) for lock in locks),
             str(not_after_us),
             f"{access_of(client)}{'t' if len(locks) > 1 else 'w'}- -1 {client.score} {QUEUE_TTL_MS} {NO_RANDOM}")
    if client.shares:
        return "acquire_shared", (*words, "rql_share", "1 2", "purpose", f"of {index}"), locks
    return "acquire_series" if len(locks) > 1 else "acquire", words, locks


def words_of(client, now_us):
    """What it may ask now, the best first."""
    if client.mode == WAITING:
        return ("poll", "leave")
    if client.mode in (LEAVING, RELEASING):
        return ("leave" if client.mode == LEAVING else "release",)
    following = client.plan[client.step + 1:client.step + 2]
    held = {lock for lock, _, _, _ in client.held}
    if client.mode == IDLE and following and (not held or (end_of(client) > now_us and set(following[0]) - held)):
        return ("ask",)
    return ("release",) if held else ()


def best_of(state, index):
    client = state.clients[index]
    if client.pushed:
        return ("take", index)
    words = words_of(client, state.now_us)
    return (words[0], index, False) if words else None


def actions(state, ticks_us):
    for index, client in enumerate(state.clients):
        for word in words_of(client, state.now_us):
            yield (word, index, False)
            if state.faults:
                yield (word, index, True)
        if client.number and client.mode != WAITING:
            yield ("late", index, False)
        yield from pushes_of(state, index)
    yield from ticks_of(state, ticks_us)
    if state.clears:
        for lock in range(N_LOCKS):
            yield ("clear", lock)


# ---- what comes of it ----

def killed(state, index):
    client = state.clients[index]
    return replaced(state, index, mode=IDLE, step=len(client.plan), held=(), asked=(), pushed=(),
                    is_subscribed=False, arrived=0)


def after_local(state, action):
    word, which = action
    if word == "take":
        client = state.clients[which]
        state = replaced(state, which, pushed=())
        return granted(state, which, (client.pushed,)) if client.pushed[-1] > state.now_us else state
    if word == "unsubscribe":
        return replaced(state, which, is_subscribed=False, pushed=())._replace(faults=state.faults - 1)
    if word == "tick":
        return state._replace(now_us=state.now_us + which, ticks=state.ticks - 1)
    for index, client in enumerate(state.clients):
        held = tuple((*one[:-1], 1 if one[0] == which else one[-1]) for one in client.held)
        is_gone = client.pushed and client.pushed[0] == which
        state = replaced(state, index, held=held, pushed=(*client.pushed[:-1], 1) if is_gone else client.pushed)
    return state._replace(contents=bare(state.contents, which, True), clears=state.clears - 1, was_cleared=True)


def granted(state, index, locks):
    client = state.clients[index]
    return replaced(state, index, mode=IDLE, held=(*client.held, *locks), score="0", arrived=0, heard_us=0)


def leases_of(client, answer):
    """What it was granted, as in held; None: it waits."""
    told = answer if isinstance(answer, list) else [int(word) for word in answer.split(" ")[:-1]] + [
        answer.split(" ")[-1]]
    if told[0] != 1:
        demand(told[0] == 0, f"nobody asked for the answer {answer}")
        return None
    locks = client.plan[client.step]
    if isinstance(answer, str):
        return ((locks[0], told[6], str(told[3]), told[1] + told[2] * 1000),)
    return tuple((lock, told[2 + 4 * at + 3], str(told[2 + 4 * at]), told[1] + told[2 + 4 * at + 1] * 1000)
                 for at, lock in enumerate(locks))


def after_answer(state, index, word, answer):
    client = state.clients[index]
    if word == "leave":
        rest = client.to_end[1:]
        if rest:
            return replaced(state, index, to_end=rest)
        return replaced(state, index, to_end=(), mode=RELEASING if client.held else HOLDING, arrived=0, heard_us=0)
    if word == "release":
        rest = client.held[:-1]
        is_last = client.step + 1 >= len(client.plan)
        return replaced(state, index, held=rest, mode=RELEASING if rest else HOLDING if is_last else IDLE)
    leases, now = leases_of(client, answer), holds_in(state.contents, state.now_us)
    if not leases:
        demand(all(nonce(index, client.number, lock) not in now[lock] for lock in client.asked),
               "told that it waits, and has a part of it")
        score = str(answer[7]) if isinstance(answer, list) else answer.split(" ")[7]
        return replaced(state, index, score=score, pushed=())
    for lock, own, token, _ in leases:
        demand(own in now[lock], "told that it holds, and does not")
        demand(now[lock][own].token == token, "told another token than the lock's")
    # What it has worked through is its own already, unless that has ended and was granted anew.
    had = [one for one in client.held if one[1] in now[one[0]] or one[0] not in client.plan[client.step]]
    new = [one for one in leases if one[1] not in [own for _, own, _, _ in had]]
    return granted(replaced(state, index, pushed=(), held=tuple(had)), index, new)


def after_call(state, action, answer, contents):
    word, index, is_lost = action
    if word == "late":
        demand(answer[0] in (5, "5"), "a call was done long after its time")
        return state
    client = state.clients[index]
    script, _, locks = call_of(state, action)
    demand(not is_partly(script, answer), "a call is repeated without end")
    after = state._replace(contents=contents, faults=state.faults - is_lost, now_us=state.now_us + (word == "ask"))
    if word == "ask":
        had = [lock for lock, _, _, _ in client.held]
        after = replaced(after, index, mode=WAITING, number=client.number + 1, step=client.step + 1, score="0",
                         asked=tuple(lock for lock in locks if lock not in had))
    elif word == "leave":
        after = replaced(after, index, mode=LEAVING, to_end=client.to_end or client.plan[client.step], pushed=())
    elif word == "release":
        after = replaced(after, index, mode=RELEASING)
    after = deliver(state, line_up(state, after, index), index)
    if not is_lost:
        after = after_answer(after, index, word, answer)
    return judge(state, after, index, locks)


def line_up(before, after, index):
    """Who has come into its queues comes after all the others; nobody loses a place."""
    client, who = after.clients[index], acquirer(index)
    was, now = contents_of(before.contents), contents_of(after.contents)
    if client.mode != WAITING or not all(who in now[lock].queue for lock in client.asked):
        return after
    demand(len({now[lock].queue[who] for lock in client.asked}) == 1, "a series with two places")
    # It had a grant that it was not told of, and that is over: to the server it is a newcomer.
    is_newcomer = client.score == "0" and not any(who in was[lock].queue for lock in client.asked)
    if client.arrived and not is_newcomer:
        places = {was[lock].queue[who] for lock in client.asked if who in was[lock].queue}
        demand(places <= {now[client.asked[0]].queue[who]}, f"client {index} has lost its place")
        return replaced(after, index, heard_us=after.now_us)
    return replaced(after, index, heard_us=after.now_us,
                    arrived=max(other.arrived for other in after.clients) + 1)


def deliver(before, after, actor):
    """Who was given a lock was told, if it is subscribed and wants that one alone."""
    was = holds_in(before.contents, before.now_us)
    for lock, now in enumerate(holds_in(after.contents, after.now_us)):
        for index, client in enumerate(after.clients):
            own = nonce(index, client.number, lock)
            if own in now and own not in was[lock] and index != actor and client.mode == WAITING:
                demand(not client.is_series, "one lock was given to who wants both")
                after = replaced(after, index, pushed=(lock, own, now[own].token, now[own].ends_us))
    return after


# ---- what must hold ----

def judge(before, after, actor, locks):
    was = [one.at(before.now_us) for one in contents_of(before.contents)]
    now = contents_of(after.contents)
    was_held, held = holds_in(before.contents, after.now_us), holds_in(after.contents, after.now_us)
    for lock in range(N_LOCKS):
        is_of_several = now[lock].owner == "shared"
        (shares_judge.judge_keys if is_of_several else judge_keys)(after, now[lock])
        after = judge_tokens(before, after, was_held[lock], held[lock])
        served = judge_service(before, after, actor, lock, was[lock], now[lock], was_held[lock], held[lock])
        if lock in locks:
            after = reserve(after, actor, lock, now[lock], served)
            judge_progress(after, actor, lock, now[lock])
    judge_end(after, actor, now)
    judge_whole(after, held)
    judge_holders(after, held)
    return after


def judge_tokens(before, after, was_held, held):
    for own, hold in sorted(held.items(), key=lambda one: int(one[1].token)):
        if own not in was_held:
            demand(int(hold.token) > before.top and int(hold.token) != after.top,
                   f"token {hold.token} is not above {before.top}")
            after = after._replace(top=max(int(hold.token), after.top))
    return after


def judge_end(after, actor, now):
    """Who has left, or released, has nothing there any more."""
    client = after.clients[actor]
    if client.mode in (IDLE, WAITING):
        return
    done = set(client.plan[client.step]) - set(client.to_end) if client.mode == LEAVING or not client.held else ()
    held = [lock for lock, _, _, _ in client.held]
    for lock in done:
        demand(acquirer(actor) not in now[lock].waiting, "has left, and is still in the queue")
        demand(lock in held or now[lock].lock.get("acq_id") != acquirer(actor), "has left, and still owns the lock")


def judge_whole(after, held):
    """All or none of a series. Of what others have ended a part nobody is told."""
    for index, client in enumerate(after.clients):
        if client.mode in (IDLE, WAITING) and not after.was_cleared:
            own = [nonce(index, client.number, lock) in held[lock] for lock in client.asked]
            demand(all(own) or not any(own), f"client {index} has a part of what it wants")


def judge_holders(after, held):
    for index, client in enumerate(after.clients):
        for lock, own, token, ends_us in client.held if client.mode != RELEASING else ():
            if ends_us > after.now_us:
                there = held[lock].get(own)
                demand(there, f"client {index} holds what is not its own")
                demand(there.token == token, f"client {index} holds another's token")
                demand(there.ends_us + 1000 > ends_us, f"client {index} counts on more than there is")
    for lock in held:
        shares_judge.judge_together([(int(hold.token), hold.units, hold.limit) for hold in lock.values()], "on the server")


def waiters_of(state, contents, actor=None):
    """Of one lock, who lives and hears, as they arrived; who asks lives."""
    there = [index for index, client in enumerate(state.clients) if acquirer(index) in contents.waiting
             and client.arrived and (client.is_subscribed or index == actor) and is_live(client, state.now_us)]
    return sorted(there, key=lambda index: state.clients[index].arrived)


def judge_service(before, after, actor, lock, was, now, was_held, held):
    """In order, past nobody who lives and hears but a series that has to let others by. Returns who was served, and
    past which series; of several sharers the last one."""
    own_nonces = [nonce(index, client.number, lock) for index, client in enumerate(after.clients)]
    served = sorted((index for index, own in enumerate(own_nonces) if own in held and own not in was_held),
                    key=lambda index: int(held[own_nonces[index]].token))
    there = [index for index in waiters_of(before._replace(now_us=after.now_us), was)
             if index not in served and (index != actor or acquirer(actor) in now.waiting)]
    for index in there:
        demand(acquirer(index) in now.waiting, f"client {index} was dropped, and is alive and subscribed")
    outcome = None
    for index in served:
        outcome = judge_served(before, after, actor, lock, index, there, held[own_nonces[index]])
    return outcome


def judge_served(before, after, actor, lock, one, there, hold):
    client = before.clients[one]
    if one != actor:
        demand(is_live(client, after.now_us) and client.is_subscribed, "served is one who does not hear")
        demand(hold.ends_us <= after.now_us + CLAIM_US + 1000, "a lock was given, and not for a short time")
    elif client.access == "r":
        return None
    passed = [index for index in there if not 0 < client.arrived < before.clients[index].arrived]
    if not passed:
        return one, None
    first = before.reservations[lock]
    is_marked = access_of(client) < "a" and (first.index != passed[0] or first.n_marked < N_MARKED)
    for index in passed[:1] if is_marked else passed:
        demand(before.clients[index].is_series, f"client {index} was passed over, and is alive and subscribed")
    demand(is_marked or (first.index == passed[0] and first.has_lapsed(after.now_us)),
           f"client {passed[0]} was passed over, and the lock was kept for it")
    return one, passed[0]


def reserve(after, actor, lock, now, served):
    """A lock that is free is kept for a series that is the first, once another asks for it or has left it."""
    there = waiters_of(after, now, actor)
    kept = after.reservations[lock]
    if there and not after.clients[there[0]].is_series:
        return after
    if served and served[1] is not None:
        same = kept if kept.index == served[1] else Reservation(served[1])
        is_marked = not same.has_lapsed(after.now_us)
        kept = same._replace(since_us=0, n_marked=same.n_marked + 1 if is_marked else 0,
                             n_passed=same.n_passed + (not is_marked))
    elif not there:
        kept = Reservation()
    elif not now.owner and (len(there) > 1 or there[0] != actor) and (kept.index != there[0] or not kept.since_us):
        kept = (kept if kept.index == there[0] else Reservation(there[0]))._replace(since_us=after.now_us)
    reservations = list(after.reservations)
    reservations[lock] = kept
    return after._replace(reservations=tuple(reservations))


def judge_progress(after, actor, lock, now):
    """A free lock is never left lying while somebody waits for it alone, but for a series that it is kept for."""
    if now.owner:
        return
    there = waiters_of(after, now, actor)
    kept = after.reservations[lock]
    for index in there:
        if not after.clients[index].is_series:
            demand(after.clients[there[0]].is_series, f"the lock is free, and client {index} waits")
            demand(not kept.has_lapsed(after.now_us), f"the lock is kept for too long, and client {index} waits")
            demand(access_of(after.clients[index]) > "Z" or kept.n_marked >= N_MARKED,
                   f"client {index} holds something, and has to wait for a series")
