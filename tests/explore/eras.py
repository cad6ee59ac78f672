"""As another model, with a server that is started anew: with all its data, or without. Whoever comes to it says first
what it has seen. With a pause nobody gets what another still relies on; without one tokens rise all the same.
"""
from server import empty
from shares_judge import judge_together, units_of
from state import HOLDING, TTL_MS, demand, read_contents

PAUSE_MS = TTL_MS
LOCAL = ("take", "unsubscribe")  # need no connection


def set_at(values, index, value):
    return (*values[:index], value, *values[index + 1:])


def without_fence(now):
    """And without the ends of shares that have expired with their lock."""
    return now._replace(fence="") if now.lock else now._replace(fence="", shares={}, shares_have_ttl=False)


def seen(state):
    """What they hold has a token."""
    floors = tuple(max(floor, int(client.token or 0)) for floor, client in zip(state.floors, state.clients))
    return state._replace(floors=floors)


def judged(state):
    """With a pause at least as long as a ttl they hold the lock together, or one has it alone, whatever is lost."""
    if state.pause_ms:
        judge_together([(int(client.token), *units_of(getattr(client, "form", "x"))) for client in state.clients
                        if client.mode == HOLDING and client.ends_us > state.true_us], "as the clients believe")
    return seen(state)


class Eras:
    """base: the model of what clients do otherwise. What is not here is as there."""

    def __init__(self, base):
        self.base, self.__name__ = base, f"eras of {base.__name__}"

    def __getattr__(self, name):
        return getattr(self.base, name)

    def first(self, bounds):
        state = self.base.first(bounds)
        nobody = (0,) * len(state.clients)
        return state._replace(contents=empty(self.base.N_LOCKS, "1"), floors=nobody, new=nobody,
                              pause_ms=PAUSE_MS * bounds.pauses)

    def call_of(self, state, action):
        if action[0] == "restart":
            return None
        if action[0] == "arrive":
            return "arrive", (str(state.server), str(state.floors[action[1]]), str(state.pause_ms))
        return self.base.call_of(state, action)

    def best_of(self, state, who):
        best = self.base.best_of(state, who)
        return ("arrive", who, False) if best and state.new[who] and best[0] not in LOCAL else best

    def actions(self, state, ticks_us):
        for action in self.base.actions(state, ticks_us):
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

    def after_local(self, state, action):
        if action[0] == "restart":
            after = state._replace(now_us=state.now_us + action[1], losses=state.losses - 1)
        else:
            after = self.base.after_local(state, action)
        if action[0] in ("restart", "lose"):
            # What was seen by nobody who comes back is known to nobody.
            after = after._replace(server=state.server + 1, new=(1,) * len(state.new),
                                   top=state.top if action[0] == "restart" else 0)
        return judged(after)

    def after_call(self, state, action, answer, contents):
        word, index, is_lost = action
        if word != "arrive":
            return judged(self.base.after_call(state, action, answer, contents))
        was, now = (read_contents(text).at(state.now_us) for text in (state.contents, str(contents)))
        demand(answer.split(" ")[0] in "01", "it is in the far future")
        demand(without_fence(now) == without_fence(was), "who arrives has changed more than the last token")
        self.base.judge_keys(state, now)
        after = state._replace(contents=str(contents), faults=state.faults - is_lost,
                               top=max(state.top, state.floors[index]))
        return after if is_lost else after._replace(new=set_at(state.new, index, 0))
