"""What the library answers, in the words of the gem."""
from harness import FOREVER

# As the result of lock, as the error of lock!.
REFUSALS = {
    "TIMED_OUT": ("timeout_reached", "LockAcquirementTimeoutError"),
    "RETRY_LIMIT": ("retry_limit_reached", "LockAcquirementRetryLimitError"),
    "FAIL_FAST_NO_TRY": ("fail_fast_no_try", "LockAlreadyObtainedError"),
    "FAIL_FAST_AFTER_TRY": ("fail_fast_after_try", "LockAlreadyObtainedError"),
    "CONFLICT": ("conflict_dead_lock", "ConflictLockObtainError"),
}
# Faults under the names that the gem's callers see.
FAULTS = {
    "E_INVALID": "RedisQueuedLocks::ArgumentError",
    "E_WRONG_TYPE": "RedisClient::WrongTypeError",
    "E_UNKNOWN": "RedisClient::ReadTimeoutError",
    "E_IO": "RedisClient::ReadTimeoutError",
    "BLOCK_OVERRAN": "RedisQueuedLocks::TimedLockTimeoutError",
}
PROCESSES = "lock_obtaining", "conflict_work_through", "extendable_conflict_work_through"
GRACE_US = 45000  # of the 50000 that a call waits beyond its deadline for the answer to its withdrawal


class Raised(Exception):
    """What the gem would raise."""

    def __init__(self, class_name, message=None):
        super().__init__(class_name, message)
        self.words = {"class": class_name, "message": message}


def fine(outcome, *also):
    """The outcome, of RQL_OK or one of these; the words of a fault are ours."""
    if outcome.status not in ("OK", *also):
        raise Raised(FAULTS.get(outcome.status, "RQL_" + outcome.status))
    return outcome


def refusal(outcome, raises):
    """The reason of a refusal, as lock returns it; lock! raises it."""
    if outcome.status not in REFUSALS:
        fine(outcome)
    reason, class_name = REFUSALS[outcome.status]
    if raises:
        raise Raised("RedisQueuedLocks::" + class_name, outcome.words.get("refusal", {}).get("message"))
    return {"ok": False, "result": reason}


def is_late_timeout(outcome, timeout_ms):
    """If the machine stands still just at the deadline, the outcome is unknown in place of a time-out."""
    return (outcome.status == "E_UNKNOWN" and timeout_ms != FOREVER
            and outcome.took_us >= timeout_ms * 1000 + GRACE_US)


def granted(outcome):
    return {"ok": True, "result": {
        "lock_key": outcome.lock_key, "acq_id": outcome.acq_id, "hst_id": outcome.hst_id,
        "ts": outcome.ts_us / 1000000, "ttl": outcome.ttl_ms, "process": PROCESSES[outcome.process]}}
