"""What must hold after each step of chain.py."""
from typing import NamedTuple

import shares_judge
from judge import is_live, judge_keys, judge_progress, judge_service
from shares_judge import ALL, holds_of, judge_together
from state import CLAIM_US, HOLDING, acquirer, demand, nonce, read_contents, replaced

HANDED = "handed"  # was told that it has the lock


class Words(NamedTuple):
    """Of a transfer."""
    giver_nonce: str
    acquirer: str  # of the new owner, as what follows
    nonce: str
    host: str
    ttl_ms: str
    token: str
    metadata: tuple


def words_of(call_words):
    return Words(call_words[0], *call_words[2:7], call_words[7:])


def own_nonce_in(call):
    """Of the request that it is about; of a transfer, that of the new owner."""
    return words_of(call.words).nonce if call.script == "transfer" else \
        call.words[{"leave": 1, "acquire": 3, "release": 0}[call.script.removesuffix("_shared")]]


def taken_by(state, index):
    """The transfer that has given it its lock, and is not answered; or None."""
    client = state.clients[index]
    return next((one for one in state.transfers if one.nonce == nonce(index, client.number)), None)


def judge(before, after, actor, call, answer):
    was, now = read_contents(before.contents).at(before.now_us), read_contents(after.contents)
    was_held, held = holds_of(was, before.now_us), holds_of(now, after.now_us)
    is_of_several = "shared" in (was.owner, now.owner)
    (shares_judge.judge_keys if now.owner == "shared" else judge_keys)(after, now)
    own = own_nonce_in(call)
    if call.script == "transfer":
        judge_transfer(before, after, was, now, words_of(call.words), answer)
    is_handed = call.script == "transfer" and answer[0] == "4"
    after = judge_tokens(before, after, was_held, held)
    if not call.script.startswith("acquire") and answer[0] not in "4d":
        # A release that finds the lock free may serve its own request: the transfer to it is still to come.
        demand(own not in held or (call.script == "release" and own not in was_held),
               "has ended, and still owns the lock")
        demand(call.script == "release" or own not in [record[2] for record in now.records.values()],
               "withdrawn, and still in the queue")
    for one in set(was_held) - set(held):
        demand(one == own or (is_handed and one == call.words[0]), "a lock in force was taken away")
    if answer != "denied" and not (call.script == "transfer" and answer[0] == "4"):
        judge_progress(after, now)
        there = as_there(before, was), as_there(after, was)
        if is_of_several:
            judge_admission(*there, actor, was, now, was_held, held)
        else:
            judge_service(*there, actor, was, now)
    judge_holders(after, held)
    return after


def judge_admission(before, after, actor, was, now, was_held, held):
    """As judge_service, of a lock of several."""
    own_nonces = [nonce(index, client.number) for index, client in enumerate(after.clients)]
    served = [index for index, own in enumerate(own_nonces) if own in held and own not in was_held]
    for index, client in enumerate(before.clients):
        if acquirer(index) in was.waiting and index not in (actor, *served) and is_live(client, after.now_us) \
                and client.is_subscribed:
            demand(acquirer(index) in now.waiting, f"client {index} was dropped, and is alive and subscribed")
            demand(all(0 < before.clients[one].arrived < client.arrived for one in served),
                   f"client {index} was passed over, and is alive and subscribed")
    for index in served:
        client = before.clients[index]
        demand(index == actor or (client.is_subscribed and is_live(client, after.now_us)), "let in is one who does not hear")
        demand(index == actor or held[own_nonces[index]].ends_us <= after.now_us + CLAIM_US + 1000,
               "a lock was given, and not for a short time")


def as_there(state, contents):
    """Each with the number of its request in the queue, which may be one that it has withdrawn."""
    for index in range(len(state.clients)):
        record = contents.records.get(acquirer(index))
        state = replaced(state, index, number=int(record[2][16:], 16)) if record else state
    return state


def fence_of(contents):
    return int(read_contents(contents).fence or 0)


def judge_transfer(before, after, was, now, words, answer):
    who, own, token = words.acquirer, words.nonce, words.token
    if answer == "denied":
        demand(before.contents == after.contents, "refused, and something was done")
        return
    if answer[0] != "4":
        demand(was.owner != words.giver_nonce, "not handed on, and the lock was the giver's")
        demand(was.owner != own or was.lock["rql_token"] != token or "rql_claim" in was.lock,
               "not handed on, and it was before")
        return
    left_us = int(answer.split(" ")[2]) * 1000
    demand(now.owner == own and now.lock["rql_token"] == token, "handed on, and it is another's")
    demand(after.now_us + left_us <= now.lock_ends_us + 1000, "told of more than there is")
    demand(was.owner == words.giver_nonce or (was.owner == own and was.lock == now.lock), "handed on is another's lock")
    if was.owner != words.giver_nonce:
        demand("rql_claim" not in was.lock, "handed on by the server, which counts from another call")
        demand((was.queue, was.records) == (now.queue, now.records), "a repetition has changed who waits")
        return
    there = dict(now.lock)
    ts = there.pop("ts")
    demand(abs(float(ts) * 1e6 - after.now_us) < 2, "another time of the grant")
    demand(there == {"acq_id": who, "hst_id": words.host, "ini_ttl": words.ttl_ms, "rql_nonce": own, "rql_token": token,
                     **dict(zip(words.metadata[::2], words.metadata[1::2]))}, "other fields than the new owner's")
    demand(abs(now.lock_ends_us - after.now_us - int(words.ttl_ms) * 1000) <= 1000, "another ttl than the new owner's")
    demand(fence_of(after.contents) == max(fence_of(before.contents), int(token)), "another fence")
    gone = {who} if was.records.get(who, ("", "", own))[2] == own else set()
    demand(set(now.queue) == set(was.queue) - gone and set(now.records) == set(was.records) - gone,
           "another waiter has gone, or not a new owner")


def judge_tokens(before, after, was_held, held):
    """The server grants none that is not above those that it knows, and those of the hand-overs that it does not."""
    top = max(before.top, before.made_top)
    for own, hold in sorted(held.items(), key=lambda one: int(one[1].token)):
        if own not in was_held:
            told = [int(client.token) for index, client in enumerate(before.clients)
                    if client.token and nonce(index, client.number) == own]
            told += [int(one.token) for one in before.transfers if one.nonce == own]
            told += [int(words_of(call.words).token) for call in (*before.stream, *before.late)
                     if call.script == "transfer" and own_nonce_in(call) == own]
            token = int(hold.token)
            demand(token > top or token in told, f"token {token} is not above {top}")
            top = max(token, top)
            after = after._replace(top=max(token, after.top))
    return after


def givers_of(state, index):
    """The nonces of those whose lock it may still be on the server."""
    one = taken_by(state, index)
    while one:
        yield one.giver_nonce
        one = next((other for other in state.transfers if other.nonce == one.giver_nonce), None)


def judge_holders(after, held):
    believed = []
    for index, client in enumerate(after.clients):
        own = nonce(index, client.number)
        if client.mode not in (HOLDING, HANDED) or client.ends_us <= after.true_us or own in after.robbed:
            continue
        believed.append((int(client.token), *((1, 2) if client.access == "s" else (ALL, ALL))))
        there = next((held[one] for one in (own, *givers_of(after, index)) if one in held), None)
        demand(there, f"client {index} holds what is not its own")
        demand(after.back_us + there.ends_us + 1000 > client.ends_us, f"client {index} counts on more than there is")
        demand(own not in held or there.token == client.token, f"client {index} holds another's token")
    judge_together(believed, "as the clients believe")
