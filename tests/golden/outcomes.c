#include "golden.h"

/* What the library answers, in the words of the gem. */

/* What a refusal is called: as the result of lock, as the error of lock!. */
static const struct {
    rql_status status;
    const char *reason;
    const char *class_name;
} refusals[] = {
    {RQL_TIMED_OUT, "timeout_reached", "RedisQueuedLocks::LockAcquirementTimeoutError"},
    {RQL_RETRY_LIMIT, "retry_limit_reached", "RedisQueuedLocks::LockAcquirementRetryLimitError"},
    {RQL_FAIL_FAST_NO_TRY, "fail_fast_no_try", "RedisQueuedLocks::LockAlreadyObtainedError"},
    {RQL_FAIL_FAST_AFTER_TRY, "fail_fast_after_try", "RedisQueuedLocks::LockAlreadyObtainedError"},
    {RQL_CONFLICT, "conflict_dead_lock", "RedisQueuedLocks::ConflictLockObtainError"},
};

/* Faults under the names that the gem's callers see. */
static const struct {
    rql_status status;
    const char *class_name;
} faults[] = {
    {RQL_E_INVALID, "RedisQueuedLocks::ArgumentError"},
    {RQL_E_WRONG_TYPE, "RedisClient::WrongTypeError"},
    {RQL_E_UNKNOWN, "RedisClient::ReadTimeoutError"},
    {RQL_E_IO, "RedisClient::ReadTimeoutError"},
    {RQL_BLOCK_OVERRAN, "RedisQueuedLocks::TimedLockTimeoutError"},
    {RQL_NOT_HELD, "RQL_NOT_HELD"},
};

cJSON *calls_error(const char *class_name, const char *message)
{
    cJSON *outcome = cJSON_CreateObject();
    cJSON *error = cJSON_AddObjectToObject(outcome, "error");

    (void)cJSON_AddStringToObject(error, "class", class_name);
    if (message) {
        (void)cJSON_AddStringToObject(error, "message", message);
    }
    return outcome;
}

/* The words of a fault are ours: only those of an unknown one are shown. */
cJSON *calls_fault(rql_status status, const rql_error *error)
{
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        if (faults[i].status == status) {
            return calls_error(faults[i].class_name, NULL);
        }
    }
    return calls_error(rql_status_text(status), error ? error->message : "");
}

cJSON *calls_refusal(rql_status status, bool raises, const char *message)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        cJSON *outcome;
        cJSON *result;

        if (refusals[i].status != status) {
            continue;
        }
        if (raises) {
            return calls_error(refusals[i].class_name, message);
        }
        outcome = cJSON_CreateObject();
        result = cJSON_AddObjectToObject(outcome, "result");
        (void)cJSON_AddBoolToObject(result, "ok", false);
        (void)cJSON_AddStringToObject(result, "result", refusals[i].reason);
        return outcome;
    }
    return NULL;
}

cJSON *calls_lock(const rql_lock *lock)
{
    static const char *const processes[] = {"lock_obtaining", "conflict_work_through",
                                            "extendable_conflict_work_through"};
    rql_lock_facts facts = rql_lock_describe(lock);
    cJSON *outcome = cJSON_CreateObject();
    cJSON *result = cJSON_AddObjectToObject(outcome, "result");
    cJSON *inner;

    (void)cJSON_AddBoolToObject(result, "ok", true);
    inner = cJSON_AddObjectToObject(result, "result");
    (void)cJSON_AddStringToObject(inner, "lock_key", facts.lock_key);
    (void)cJSON_AddStringToObject(inner, "acq_id", facts.acq_id);
    (void)cJSON_AddStringToObject(inner, "hst_id", facts.hst_id);
    (void)cJSON_AddNumberToObject(inner, "ts", (double)facts.ts_us / 1e6);
    (void)cJSON_AddNumberToObject(inner, "ttl", (double)facts.ttl_ms);
    (void)cJSON_AddStringToObject(inner, "process", processes[facts.process]);
    return outcome;
}
