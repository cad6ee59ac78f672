"""What must hold after each step of chain.py."""
from typing import NamedTuple

from judge import judge_keys, judge_progress, judge_service
from state import HOLDING, acquirer, demand, nonce, read_contents, replaced

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
    judge_keys(after, now)
    own = own_nonce_in(call)
    if call.script == "transfer":
        judge_transfer(before, after, was, now, words_of(call.words), answer)
    is_handed = call.script == "transfer" and answer[0] == "4"
    after = judge_token(before, after, was, now)
    if not call.script.startswith("acquire") and answer[0] not in "4d":
        # A release that finds the lock free may serve its own request: the transfer to it is still to come.
        demand(own != now.owner or (call.script == "release" and was.owner != own),
               "has ended, and still owns the lock")
        demand(call.script == "release" or own not in [record[2] for record in now.records.values()],
               "withdrawn, and still in the queue")
    if was.owner and was.owner != now.owner:
        demand(was.owner == own or (is_handed and was.owner == call.words[0]), "a lock in force was taken away")
    if answer != "denied" and not (call.script == "transfer" and answer[0] == "4"):
        judge_progress(after, now)
        judge_service(as_there(before, was), as_there(after, was), actor, was, now)
    judge_holders(after, now)
    return after


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


def judge_token(before, after, was, now):
    """The server grants none that is not above those that it knows, and those of the hand-overs that it does not."""
    if now.owner in (None, was.owner):
        return after
    token = int(now.lock["rql_token"])
    told = [int(client.token) for index, client in enumerate(before.clients)
            if client.token and nonce(index, client.number) == now.owner]
    told += [int(one.token) for one in before.transfers if one.nonce == now.owner]
    told += [int(words_of(call.words).token) for call in (*before.stream, *before.late)
             if call.script == "transfer" and own_nonce_in(call) == now.owner]
    top = max(before.top, before.made_top)
    demand(token > top or token in told, f"token {token} is not above {top}")
    return after._replace(top=max(token, after.top))


def givers_of(state, index):
    """The nonces of those whose lock it may still be on the server."""
    one = taken_by(state, index)
    while one:
        yield one.giver_nonce
        one = next((other for other in state.transfers if other.nonce == one.giver_nonce), None)


def judge_holders(after, now):
    n_believe = 0
    for index, client in enumerate(after.clients):
        own = nonce(index, client.number)
        if client.mode not in (HOLDING, HANDED) or client.ends_us <= after.true_us or own in after.robbed:
            continue
        n_believe += 1
        demand(now.owner == own or now.owner in givers_of(after, index), f"client {index} holds what is not its own")
        demand(after.back_us + now.lock_ends_us + 1000 > client.ends_us, f"client {index} counts on more than there is")
        demand(now.owner != own or now.lock["rql_token"] == client.token, f"client {index} holds another's token")
    demand(n_believe < 2, "two hold the lock")
