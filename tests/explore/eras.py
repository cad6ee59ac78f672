"""As model.py, with a server that is started anew: with all its data, or without. Whoever comes to it says first what
it has seen. With a pause nobody gets what another still relies on; without one tokens rise all the same.
"""
import model
from judge import judge_keys
from model import N_LOCKS, everybody, is_over, killed  # noqa: F401
from server import empty
from state import HOLDING, TTL_MS, demand, read_contents

PAUSE_MS = TTL_MS
LOCAL = ("take", "unsubscribe")  # need no connection


def first(bounds):
    state = model.first(bounds)
    nobody = (0,) * len(state.clients)
    return state._replace(contents=empty(N_LOCKS, "1"), floors=nobody, new=nobody, pause_ms=PAUSE_MS * bounds.pauses)


def set_at(values, index, value):
    return (*values[:index], value, *values[index + 1:])


def call_of(state, action):
    return model.call_of(state, action) if action[0] != "restart" else None


def best_of(state, who):
    best = model.best_of(state, who)
    return ("arrive", who, False) if best and state.new[who] and best[0] not in LOCAL else best


def actions(state, ticks_us):
    for action in model.actions(state, ticks_us):
        if action[0] == "lose":
            yield ("restart", 1000)
        is_said = len(action) == 3 and isinstance(action[1], int)
        if not is_said or not state.new[action[1]]:
            yield action
    for index, is_new in enumerate(state.new):
        if is_new:
            yield ("arrive", index, False)
            if state.faults:
                yield ("arrive", index, True)


def seen(state):
    """What they hold has a token."""
    floors = tuple(max(floor, int(client.token or 0)) for floor, client in zip(state.floors, state.clients))
    return state._replace(floors=floors)


def judged(state):
    """With a pause at least as long as a ttl a lock has one holder, whatever is lost."""
    holders = [index for index, client in enumerate(state.clients)
               if client.mode == HOLDING and client.ends_us > state.true_us]
    demand(not state.pause_ms or len(holders) <= 1, f"{holders} hold at a time")
    return seen(state)


def after_local(state, action):
    if action[0] == "restart":
        after = state._replace(now_us=state.now_us + action[1], losses=state.losses - 1)
    else:
        after = model.after_local(state, action)
    if action[0] in ("restart", "lose"):
        # What was seen by nobody who comes back is known to nobody.
        after = after._replace(server=state.server + 1, new=(1,) * len(state.new),
                               top=state.top if action[0] == "restart" else 0)
    return judged(after)


def after_call(state, action, answer, contents):
    word, index, is_lost = action
    if word != "arrive":
        return judged(model.after_call(state, action, answer, contents))
    was, now = (read_contents(text).at(state.now_us) for text in (state.contents, contents))
    demand(answer.split(" ")[0] in "01", "it is in the far future")
    demand(now._replace(fence="") == was._replace(fence=""), "who arrives has changed more than the last token")
    judge_keys(state, now)
    after = state._replace(contents=contents, faults=state.faults - is_lost, top=max(state.top, state.floors[index]))
    return after if is_lost else after._replace(new=set_at(state.new, index, 0))
