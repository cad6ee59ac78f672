"""What must hold after each step."""
from state import (CLAIM_US, DEAD, HOLDING, RUBY, RUBYS_TURN_US, SILENCE_US, TTL_MS, acquirer, demand, entry_nonce,
                   host, identity, nonce, read_contents, unused_ms)


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
    elif word == "enter":
        demand(told[0] == "1" and told[4] == {"t": "1", "e": "2"}[client.conflict], "told of no re-entry")
        demand(told[3] == client.token and told[6] == nonce(index, client.number), "told of another grant")
    elif word in ("undo", "decrease"):
        demand("rql_ext:" + entry_nonce(index, client.number) not in now.lock, "a re-entry has ended, and is there")
        demand(word == "undo" or told[2:] in ([], ["0"]) or now.owner == nonce(index, client.number),
               "told of what is left of another's lock")
    elif word == "leave":
        demand(acquirer(index) not in now.waiting, "has left, and is still in the queue")
        demand(now.owner != nonce(index, client.number), "has left, and still owns the lock")
    elif word == "release":
        demand(now.owner != nonce(index, client.number), "has released, and still owns the lock")


def judge_entries(now):
    """Nobody enters more than once here."""
    demand(now.lock.get("spc_cnt", "1") == "1", "a re-entry was counted twice")
    if "rql_end" in now.lock:
        more_us = int(now.lock["spc_ext_ttl"]) * 1000
        demand(more_us == TTL_MS * 1000 and now.lock_ends_us <= int(now.lock["rql_end"]) + more_us + 1000,
               "a re-entry added more than its ttl")


def judge_keys(state, now):
    judge_entries(now)
    if now.lock:
        demand(now.lock_ends_us > 0, "a lock without a ttl")
        demand((now.lock.get("rql_nonce") and now.lock.get("rql_token")) or now.owner == RUBY, "half a lock")
    demand(not now.records or not now.queue or now.queue_has_ttl, "a queue without a ttl")
    demand(not now.records or now.records_have_ttl, "requests without a ttl")
    ours = set(now.queue) - {RUBY}
    demand(set(now.records) == ours or (state.was_cleared and ours < set(now.records)),
           "a request without a place, or a place without one")
    for who in ours:
        demand(int(now.records[who][5]) == round(float(now.queue[who]) * 1e6),
               "a request that tells another place")
    for name, accesses in (("random", "rR"), ("holders", "RQSH")):
        count = sum(record[4] in accesses for record in now.records.values())
        demand(now.counts.get(name) == (str(count) if count else None), f"not counted: {name}")
    demand("series" not in now.counts or now.counts["series"].split(" ")[3] in now.records,
           "the lock is kept for a series that has gone")


def judge_holders(after, now):
    """As long as nothing was lost, one holder at a time, and what it holds is its own."""
    for index, client in enumerate(after.clients):
        if client.mode == HOLDING and client.ends_us > after.true_us:
            demand(now.owner == nonce(index, client.number), f"client {index} holds what is not its own")
            demand(after.back_us + now.lock_ends_us + 1000 > client.ends_us,
                   f"client {index} counts on more than there is")
            demand(after.back_us + now.lock_ends_us + 1000 > client.entry_ends_us,
                   f"client {index} is inside, and counts on more than there is")
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
        if who not in was.waiting or index == actor or index in served or (actor is None and index == DEAD):
            continue
        if is_live(client, after.now_us):
            demand(who in now.waiting or not client.is_subscribed,
                   f"client {index} was dropped, and is alive and subscribed")
            turn = before.clients[served[0]].arrived if served else 0
            demand(not client.is_subscribed or not served or 0 < turn < client.arrived,
                   f"client {index} was passed over, and is alive and subscribed")
    if served and RUBY in was.queue and 0 < before.ruby.arrived < before.clients[served[0]].arrived:
        demand(before.turn_us and after.now_us - before.turn_us >= RUBYS_TURN_US, "Ruby had no time to take its turn")
    if served and served[0] != actor:
        client = before.clients[served[0]]
        demand(client.is_subscribed, "the lock was given to one without a subscription")
        demand(is_live(client, after.now_us), "the lock was given to one who is dead")
        heard_us = int(now.seen[identity(served[0])])
        demand(heard_us <= after.now_us + SILENCE_US, "a heartbeat that is to come was believed")
        demand(now.lock_ends_us <= after.now_us + CLAIM_US, "a lock was given, and not for a short time")


def judge_progress(after, now):
    """A free lock is never left lying while somebody waits who is alive and subscribed; but it is left to a Ruby
    that is the first, for a while."""
    if now.is_paused(after.now_us) or (after.turn_us and after.now_us - after.turn_us < RUBYS_TURN_US):
        return
    for index, client in enumerate(after.clients):
        demand(now.lock or acquirer(index) not in now.waiting or not client.is_subscribed
               or not is_live(client, after.now_us), f"the lock is free, and client {index} waits")


def judge_end_of_entry(before, client, word, was, now):
    """It takes back what was not used, all if it is undone, but nothing of what was promised without it."""
    entry = entry_nonce(before.clients.index(client), client.number)
    if now.owner == was.owner and "rql_ext:" + entry in was.lock:
        left_us = was.lock_ends_us - (TTL_MS if word == "undo" else unused_ms(before, client)) * 1000
        demand(abs(now.lock_ends_us - max(left_us, int(now.lock["rql_end"]))) <= 2000,
               "the end of a re-entry leaves less than was promised, or more than was used")


def judge_change(before, after, actor, word):
    was, now = read_contents(before.contents).at(before.now_us), read_contents(after.contents)
    judge_keys(after, now)
    top = before.top
    is_rubys = not now.owner and next(iter(now.queue), None) == RUBY
    after = after._replace(turn_us=(after.turn_us or after.now_us) if is_rubys else 0)
    if now.owner not in (None, was.owner):
        token = int(now.lock["rql_token"])
        demand(token > top, f"token {token} is not above {top}")
        demand(not was.is_paused(after.now_us), "a lock was granted in a pause")
        top = token
    elif now.owner:
        demand(now.lock.get("rql_token") == was.lock.get("rql_token"), "a lock has changed its token")
    if was.owner and now.owner != was.owner and word != "flush":
        client = before.clients[actor]
        is_over = word in ("undo", "decrease") and client.ends_us < before.true_us + 1000
        demand(was.owner == nonce(actor, client.number) and (word in ("release", "leave") or is_over),
               "a lock that is in force was taken away")
    if word == "enter" and len(now.lock) > len(was.lock) and before.clients[actor].conflict == "e":
        demand(now.lock_ends_us >= was.lock_ends_us + TTL_MS * 1000 - 1000, "a re-entry adds nothing")
    if word in ("undo", "decrease"):
        judge_end_of_entry(before, before.clients[actor], word, was, now)
    judge_progress(after, now)
    if after.excludes:
        judge_service(before, after, actor, was, now)
        judge_holders(after, now)
    return after._replace(top=top)
