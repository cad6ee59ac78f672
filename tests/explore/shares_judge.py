"""What must hold after each step in shares.py."""
from typing import NamedTuple

from judge import is_live
from state import (CLAIM_US, HOLDING, RUBY, RUBYS_TURN_US, WAITING, acquirer, demand, host, nonce, read_contents)

ALL = 1 << 20  # units of a lock that is held alone


class Field(NamedTuple):
    """The share of one of several, as the lock has it."""
    nonce: str
    units: int
    limit: int
    token: str
    is_claimed: bool
    slots: tuple


class Hold(NamedTuple):
    ends_us: int
    token: str
    units: int
    limit: int
    is_claimed: bool
    slots: tuple


def numbers_in(text):
    return tuple(map(int, text.split(","))) if text else ()


def fields_of(now):
    """acquirer -> Field"""
    fields = {}
    for name, text in now.lock.items():
        if name.startswith("rql_h:"):
            own, units, limit, token, _, mark, *_ = text.split(" ")
            units, _, slots = units.partition(":")
            fields[name[6:]] = Field(own, int(units), int(limit), token, mark == "c", numbers_in(slots))
    return fields


def holds_of(now, now_us):
    """nonce -> Hold, of all that are in force."""
    if not now.lock or now.lock_ends_us <= now_us:
        return {}
    own = now.lock.get("rql_nonce")
    if own == "shared":
        ends = {who: int(float(now.shares.get(who, 0))) for who in fields_of(now)}
        return {field.nonce: Hold(ends[who], *field[3:4], *field[1:3], *field[4:])
                for who, field in fields_of(now).items() if ends[who] > now_us}
    share = now.lock.get("rql_share", f"{ALL} {ALL}")
    units, limit = map(int, share.rstrip("s").split(" "))
    return {own or now.lock["acq_id"]: Hold(now.lock_ends_us, now.lock.get("rql_token"), units, limit,
                                            "rql_claim" in now.lock, tuple(range(units)) if share[-1] == "s" else ())}


def units_of(form):
    """(units, limit)"""
    return tuple(map(int, form.rstrip("s").split("/"))) if form != "x" else (ALL, ALL)


def fits(client, holds):
    n_used = sum(hold.units for hold in holds.values())
    units, limit = units_of(client.wants)
    return not holds or (n_used < ALL and client.wants != "x" and n_used + units <= limit)


def judge_answer(after, index, word, answer, is_lost):
    client, now = after.clients[index], read_contents(after.contents)
    told, held, own = answer.split(" "), holds_of(now, after.now_us), nonce(index, client.number)
    if word in ("acquire", "poll"):
        if told[0] == "1":
            demand(own in held, "told that it holds, and does not")
            demand(told[3] == held[own].token, "told another token than the hold's")
            demand(told[6] == own and told[4] == "0", "told of another grant")
            demand(not held[own].is_claimed, "told that it has the whole ttl, and has a claim")
            demand(is_lost or client.slots == held[own].slots, "told of other slots than its own")
            demand(acquirer(index) not in now.waiting, "holds, and is in the queue")
        elif not is_lost:
            demand(acquirer(index) in now.queue, "told that it waits, and is not in the queue")
    elif word in ("leave", "release"):
        demand(own not in held and own not in {field.nonce for field in fields_of(now).values()},
               "has left, and still holds")
        demand(now.lock.get("rql_nonce") != own, "has left, and still owns the lock")
        demand(word == "release" or acquirer(index) not in now.waiting, "has left, and is still in the queue")


def judge_lock_of_several(state, now):
    fields = fields_of(now)
    demand(set(fields) == set(now.shares), "shares without an end, or ends without a share")
    demand(int(now.lock["rql_used"]) == sum(field.units for field in fields.values()) > 0, "units are counted wrong")
    taken = sorted(slot for field in fields.values() for slot in field.slots)
    demand([4 * at + bit for at, digit in enumerate(now.lock.get("rql_slots", "")) for bit in range(4)
            if int(digit, 16) >> bit & 1] == taken, "slots are written down wrong")
    last_us = max(int(float(end)) for end in now.shares.values())
    demand(last_us - 1000 < now.lock_ends_us <= last_us + 2000 + CLAIM_US,
           "the lock ends earlier or later than its last share")
    demand(now.shares_have_ttl, "ends without a ttl")
    demand(not {"rql_share", "rql_claim", "rql_token"} & set(now.lock), "a lock of several with fields of one owner")
    for who in fields:
        index = int(who.split("/")[0][8:]) - 1
        text = now.lock["rql_h:" + who]
        demand(host(index) in text and (f"of {index}" in text or state.clients[index].lowers),
               "a share with another's host or metadata")


def judge_keys(state, now):
    if now.lock:
        demand(now.lock_ends_us > 0, "a lock without a ttl")
        demand((now.lock.get("rql_nonce") and now.owner) or now.owner == RUBY, "half a lock")
    if now.lock.get("rql_nonce") == "shared":
        judge_lock_of_several(state, now)
    else:
        demand(not fields_of(now), "a lock of one with fields of several")
    is_rubys_alone = state.was_cleared and set(now.queue) == {RUBY}  # the next poll puts the others back
    demand(not now.records or not now.queue or now.queue_has_ttl or is_rubys_alone, "a queue without a ttl")
    demand(not now.records or now.records_have_ttl, "requests without a ttl")
    ours = set(now.queue) - {RUBY}
    demand(set(now.records) == ours or (state.was_cleared and ours < set(now.records)),
           "a request without a place, or a place without one")
    for who in ours:
        demand(int(now.records[who][5]) == round(float(now.queue[who]) * 1e6), "a request that tells another place")
    demand(set(now.counts) <= {"ruby"}, "counted is a request that is not there")


def judge_holders(after, held):
    """What clients rely on is theirs, and they rely on it together."""
    believed, relied_on = [], set()
    for index, client in enumerate(after.clients):
        if client.mode == HOLDING and client.ends_us > after.true_us:
            own = held.get(nonce(index, client.number))
            demand(own, f"client {index} holds what is not its own")
            demand(after.back_us + own.ends_us + 1000 > client.ends_us, f"client {index} counts on more than there is")
            demand(own.token == client.token, f"client {index} holds another's token")
            believed.append((int(client.token), *units_of(client.form)))
            units, limit = units_of(client.form)
            demand(client.slots == own.slots, f"client {index} counts on other slots than its own")
            demand(len(client.slots) == (units if client.form.endswith("s") else 0), "not as many slots as units")
            demand(not client.slots or max(client.slots) < limit, "a slot beyond the limit")
            demand(not relied_on & set(client.slots), "two clients rely on one slot")
            relied_on |= set(client.slots)
    judge_together(believed, "as the clients believe")
    judge_together([(int(hold.token or 0), hold.units, hold.limit) for hold in held.values()], "on the server")


def judge_together(holds, where):
    """holds: (token, units, limit). One alone, or several within the limit of the last that came."""
    if any(units == ALL for _, units, _ in holds):
        demand(len(holds) == 1, f"one holds the lock alone, and others hold it, {where}")
    elif holds:
        demand(sum(units for _, units, _ in holds) <= max(holds)[2], f"more units than the last limit, {where}")


def judge_service(before, after, actor, was, now, was_held, held, served):
    """In order, past no waiter that is alive and subscribed; and no waiter is dropped but the dead and the silent."""
    turns = [before.clients[index].arrived or after.clients[index].arrived for index in served
             if index != actor or not before.clients[actor].passes]
    for index, client in enumerate(before.clients):
        who = acquirer(index)
        if who not in was.waiting or index == actor or index in served or not is_live(client, after.now_us):
            continue
        demand(who in now.waiting or not client.is_subscribed,
               f"client {index} was dropped, and is alive and subscribed")
        demand(not client.is_subscribed or all(0 < turn < client.arrived for turn in turns),
               f"client {index} was passed by {served}, and is alive and subscribed")
    judge_ruby(before, after, was, was_held, set(held) & set(was_held), [turn for turn in turns if turn])
    for index in served:
        if index != actor:
            client = before.clients[index]
            demand(client.is_subscribed, "granted to a client without a subscription")
            demand(is_live(client, after.now_us), "granted to a client that is dead")
            ends_us = held[nonce(index, client.number)].ends_us
            demand(ends_us <= after.now_us + CLAIM_US + 1000, "handed over, and not for a short time")


def judge_ruby(before, after, was, was_held, still_held, turns):
    """It is passed only after its time at a free lock, or if it does not return when it was removed for a while. If the
    lock becomes free in that while, it is passed once (lua/optional.md 62)."""
    if not turns or before.ruby.mode != WAITING or not 0 < before.ruby.arrived < min(turns):
        return
    if any(client.passes for client in before.clients):
        return
    if RUBY in was.queue:
        has_waited = before.turn_us and after.now_us - before.turn_us >= RUBYS_TURN_US
        demand(was_held == {} and has_waited, "Ruby is in front, and had no time to take its turn")
    mark, *rest = was.counts.get("ruby", "-").split(" ")
    demand(mark != "g" or not still_held or after.now_us - int(rest[0]) >= RUBYS_TURN_US, "Ruby had no time to return")


def lets_in(before, after, actor, word, was, was_held):
    """Whether a call of this kind admits the first waiter if it fits, or notifies it."""
    who = acquirer(actor)
    is_repeated = nonce(actor, after.clients[actor].number) in was_held
    was_first = min(was.queue, key=lambda one: float(was.queue[one]), default=None) == who
    if word == "poll" and before.clients[actor].score == "0" and who not in was.waiting:
        word = "acquire"  # it had a share, was not told so, and that is over: to the server it is a newcomer
    if word == "poll":
        return after.clients[actor].wants != "x" and not is_repeated
    if word == "acquire":
        now = read_contents(after.contents)
        is_first = min(now.queue, key=lambda one: float(now.queue[one]), default=None) == who
        return after.clients[actor].wants != "x" and is_first
    return word in ("lower", "flush", "sweep") or (word in ("leave", "release") and (is_repeated or was_first))


def judge_progress(before, after, actor, word, was, now, was_held, held):
    """A free lock is not left while a waiter that is alive and subscribed waits. A waiter that fits is admitted by each
    call that admits."""
    if now.is_paused(after.now_us) or (after.turn_us and after.now_us - after.turn_us < RUBYS_TURN_US):
        return
    waiting = sorted((client.arrived, index) for index, client in enumerate(after.clients)
                     if acquirer(index) in now.waiting and client.arrived and is_live(client, after.now_us))
    hearing = [index for _, index in waiting if after.clients[index].is_subscribed]
    demand(now.lock or not hearing, f"the lock is free, and clients {hearing} wait")
    if not waiting or not after.clients[waiting[0][1]].is_subscribed:
        return
    index = waiting[0][1]
    is_behind_ruby = float(now.queue.get(RUBY, "inf")) < float(now.queue.get(acquirer(index), 0)) \
        or now.counts.get("ruby", "").startswith("g")
    head = after.clients[index]
    demand(is_behind_ruby or not held or not fits(head, held) or head.is_hinted
           or not lets_in(before, after, actor, word, was, was_held), f"client {index} fits, and waits")


def judge_slots(was_held, held, now):
    """A share keeps its slots. A new one has the lowest that were free; those of shares that have ended may be."""
    there = {field.nonce: (int(field.token), field.slots) for field in fields_of(now).values()}
    if set(held) - set(there):  # a lock of one
        there = {own: (int(hold.token or 0), hold.slots) for own, hold in held.items()}
    for own, hold in held.items():
        if own in was_held:
            is_lowered = was_held[own].units == ALL
            demand(is_lowered or hold.slots == was_held[own].slots, "a share has changed its slots")
        elif hold.slots:
            taken = {slot for other, (token, slots) in there.items() if other != own and token < int(hold.token)
                     for slot in slots}
            free = [slot for slot in range(hold.limit) if slot not in taken]
            demand(hold.slots == tuple(free[:hold.units]), "not the lowest slots that were free")


def judge_grants(before, was, now_us, was_held, held):
    """Returns the highest token."""
    demand(set(held) <= set(was_held) or not was.is_paused(now_us), "a lock was granted, or joined, in a pause")
    top = before.top
    for own, hold in sorted(held.items(), key=lambda one: int(one[1].token or 0)):
        if own not in was_held and hold.token:
            demand(int(hold.token) > top, f"token {hold.token} is not above {top}")
            top = int(hold.token)
        elif own in was_held:
            demand(hold.token == was_held[own].token, "a hold has changed its token")
            demand(hold.ends_us > was_held[own].ends_us - 2000, "a hold was shortened")
    return top


def judge_change(before, after, actor, word):
    """actor: whose call it was, or whose share was removed."""
    was, now = read_contents(before.contents).at(after.now_us), read_contents(after.contents)
    was_held, held = holds_of(was, after.now_us), holds_of(now, after.now_us)
    judge_keys(after, now)
    is_rubys = not now.owner and next(iter(now.queue), None) == RUBY
    after = after._replace(turn_us=(after.turn_us or after.now_us) if is_rubys else 0)
    top = judge_grants(before, was, after.now_us, was_held, held)
    judge_slots(was_held, held, now)
    ends = ("release", "leave", "flush", "sweep")
    for own in was_held:
        demand(own in held or (own == nonce(actor, before.clients[actor].number) and word in ends),
               "a hold that is in force was taken away")
    if after.excludes:
        served = [index for index, client in enumerate(after.clients)
                  if nonce(index, client.number) in held and nonce(index, client.number) not in was_held]
        judge_service(before, after, actor, was, now, was_held, held, served)
        judge_holders(after, held)
    judge_progress(before, after, actor, word, was, now, was_held, held)
    return after._replace(top=top)
