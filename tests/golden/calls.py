"""A call of the gem, done by the library: lock, lock!, lock_series and lock_series!, with everything that a recorded
block can hold. The others are in views.py."""
import threading

import views
from harness import FOREVER, PATIENCE_S, STATUS, Failure, Outcome, check, let_pass
from outcomes import Raised, granted, is_late_timeout, refusal

# Of ours, and how many of ours are one of theirs.
NUMBERS = {"ttl": ("ttl_ms", 1), "queue_ttl": ("queue_ttl_ms", 1000), "timeout": ("timeout_ms", 1000),
           "retry_count": ("retry_count", 1), "retry_delay": ("retry_delay_ms", 1),
           "retry_jitter": ("retry_jitter_ms", 1)}
TRUTHS = "fail_fast", "timed", "detailed_acq_timeout_error"
STRATEGIES = {"access_strategy": ("queued", "random"),
              "conflict_strategy": ("wait_for_lock", "work_through", "extendable_work_through", "dead_locking")}
UNKNOWN = 99  # the library has to refuse it
DEFAULT_TIMEOUT_MS = 10000
ENDINGS = None, "redis_key_ttl", "immediate_release_after_yield"
BY_TTL, BY_RELEASE = 1, 2


def text_of(value):
    """As Ruby writes it."""
    return value if isinstance(value, str) else f"{value:.15g}"


def options_of(call):
    """The library's; seconds become milliseconds. nil and "forever": no limit."""
    options = {}
    for name, value in call.get("options", {}).items():
        if name in NUMBERS:
            ours, factor = NUMBERS[name]
            options[ours] = int(value * factor) if isinstance(value, (int, float)) else FOREVER
        elif name in STRATEGIES:
            options[name] = value if value in STRATEGIES[name] else UNKNOWN
        elif name in TRUTHS:
            options[name] = value
        elif name == "meta" and isinstance(value, dict):
            options[name] = {key: text_of(text) for key, text in value.items()}
    if "fiber" in call:
        options["task"] = 1
    return options


def fault_at(call, command):
    """The fault that the recording has at this command of the gem's."""
    return next((fault for fault in call.get("inject", []) if fault["on"] == command and "do" not in fault), None)


class Run(threading.Thread):
    """One call. Inside a block it is of the same process and thread as the call with the block, its root."""

    def __init__(self, play, player, call, root=None):
        super().__init__()
        self.play, self.player, self.call = play, player, call
        self.actor = root.actor if root else player.actor
        self.root = root or self
        self.options = call.get("options", {})
        self.lock_name = text_of(call["args"][0]) if call.get("args") else ""
        self.nested = []
        self.outcome, self.failure = None, None
        self.is_unsettled = False  # its withdrawal goes on in the background
        self.is_async = False
        self.is_inside, self.may_end = threading.Event(), threading.Event()  # its block has begun to hold; its end

    def run(self):
        try:
            self.perform()
        except Exception as failure:  # told by finish()
            self.failure = failure

    def perform(self):
        op = self.call["op"]
        try:
            self.outcome = {"result": OPS[op](self)}
        except Raised as raised:
            self.outcome = {"error": raised.words}
        self.outcome["now_s"] = self.play.now_s()
        if self.nested:
            self.outcome["nested"] = self.nested
        return self.outcome

    def finish(self):
        self.may_end.set()
        self.join(PATIENCE_S)
        if self.failure or self.is_alive():
            raise self.failure or Failure(f"no end of {self.call}")
        return self.outcome

    def do(self, do, **words):
        return self.actor.begin(do, **words).outcome()

    # ---- blocks ----

    def play_block(self):
        for call in self.call["block"]:
            self.nested.append({"op": call["op"], **Run(self.play, self.player, call, self.root).perform()})
        let_pass(self.call.get("hold_ms", 0) / 1000)
        if self.root.is_async and (self is self.root or "hold_until" in self.call):
            self.root.is_inside.set()
            check(self.root.may_end.wait(PATIENCE_S), "the recording does not come to an end")
        if fault_at(self.call, "EXPIRE"):
            self.play.network.fail("freeze", direction="up")

    def block_result(self):
        """What the block returned or raised; Ruby's exceptions are known to the recording only."""
        if "block_raise" in self.call:
            raise Raised("RuntimeError", self.call["block_raise"])
        return self.call.get("block_return", "block_result")

    def acquire(self, names, **more):
        """With the block if there is one; without one the gem leaves a lock to its ttl."""
        words = {"names": names, "options": {**options_of(self.call), **more}, "series": "mode" in more}
        if "block" in self.call:
            return self.with_block(words)
        hold = f"{self.actor.name}.{next(self.actor.numbers)}"
        outcome = self.do("acquire", lock=hold, **words)
        if outcome.status == "OK":
            self.do("forget", lock=hold).check()
        return outcome

    def with_block(self, words):
        call = self.actor.begin("block", lock=self.actor.name, **words)
        self.do("whoami")  # its answer comes from within the block, or after that of a call without success
        if not call.is_over():
            self.play_block()
            self.do("leave").check()
        return call.outcome()


def lock(run):
    outcome = run.acquire([run.lock_name])
    if not run.play.network and is_late_timeout(outcome, options_of(run.call).get("timeout_ms", DEFAULT_TIMEOUT_MS)):
        run.is_unsettled = True
        outcome = Outcome({"status": STATUS["TIMED_OUT"]})
    if outcome.status != "OK":
        return refusal(outcome, run.call["op"] == "lock!")
    return run.block_result() if "block" in run.call else granted(outcome)


# ---- series ----

def series(run):
    names = run.call.get("args", [])
    outcome = run.acquire(names, mode="gem")
    if outcome.status != "OK":
        raises = run.call["op"] == "lock_series!" or run.options.get("raise_errors")
        return failed_series(names, outcome, refusal(outcome, raises))
    result = run.block_result() if "block" in run.call else None
    return detailed(run, names, outcome.result, result) if run.options.get("detailed_result") else result


def failed_series(names, outcome, reason):
    """A name that was got is not missing, also if it was asked for twice."""
    acquired, failed_on = names[:outcome.result["n_acquired"]], names[outcome.result["failed_on"]]
    return {"ok": False, "result": {
        "error": "failed_to_acquire_lock_series", "detailed_errors": {failed_on: reason}, "lock_series": names,
        "acquired_locks": acquired, "missing_locks": [name for name in names if name not in acquired],
        "failed_on_lock": failed_on}}


def detailed(run, names, found, result):
    ending = found["ending"] if "block" in run.call else BY_TTL
    return {"yield_result": result, "locks_release_strategy": ENDINGS[ending], "locks_released_at": None,
            "locks_acq_time": found["acq_time_us"] / 1000,
            "locks_hold_time": found["hold_time_us"] / 1000 if ending == BY_RELEASE else None,
            "lock_series": names, "rql_lock_series": [f"rql:lock:{name}" for name in names]}


def redis(run):
    """A raw command from inside a block."""
    connection = run.play.world.connection()
    result = connection.call(*run.call["args"])
    connection.close()
    return result


OPS = {"lock": lock, "lock!": lock, "lock_series": series, "lock_series!": series, "redis": redis, **views.OPS}
