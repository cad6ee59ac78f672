#include "base/cancel.h"
#include "base/error.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "lock/series.h"
#include "net/perform_each.h"
#include "wire/answer.h"

#include "base/clock.h"

/* What a held series can be asked for, and its extension. */

struct extension {
    const rql_series *series;
    int64_t ttl_ms;
};

static rql_status check(const rql_series *series, rql_error *error)
{
    if (!series) {
        return rqli_fail(error, RQL_E_INVALID, "series is NULL");
    }
    return rqli_client_check(series->client, error);
}

static void write_extend(void *context, size_t index, struct rqli_call *call)
{
    const struct extension *self = context;
    const rql_lock *lock = self->series->locks[index];

    rqli_call_init(call, RQLI_SCRIPT_EXTEND, &lock->keys);
    rqli_call_text(call, lock->grant_nonce);
    rqli_call_int(call, self->ttl_ms);
    rqli_call_chance(call);
}

static rql_status take_reply(rql_lock *lock, const struct rqli_exchange *exchange,
                             const struct rqli_reply *reply, rql_error *error)
{
    struct rqli_leases *leases = lock->client->leases;
    struct rqli_outcome outcome;

    if (!rqli_outcome_read(reply, &outcome)) {
        return rqli_exchange_fault(exchange, reply, "extend", lock->keys.lock.data, error);
    }
    if (outcome.what != 1) {
        rqli_leases_on_gone(leases, lock);
        return RQL_NOT_HELD;
    }
    return rqli_leases_on_extended(leases, lock, exchange->sent_us, outcome.third) ? RQL_OK
                                                                                   : RQL_NOT_HELD;
}

/* The first fault, else whether one had ended. */
static rql_status take_replies(const rql_series *series, const struct rqli_exchange *exchange,
                               rql_error *error)
{
    rql_status verdict = RQL_OK;

    for (size_t i = 0; i < series->count; i++) {
        rql_status status =
            take_reply(series->locks[i], exchange, &exchange->reply[i], verdict < 0 ? NULL : error);

        verdict = verdict < 0 || status == RQL_OK ? verdict : status;
    }
    return verdict;
}

rql_status rql_series_extend(rql_series *series, int64_t ttl_ms, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct extension self = {series, ttl_ms};
    struct rqli_calls calls = {.write = write_extend, .context = &self};
    struct rqli_exchange *exchange = NULL;
    rql_status status = check(series, error);

    if (!status && (ttl_ms < 1 || ttl_ms > RQL_TTL_MAX_MS)) {
        status = rqli_fail(error, RQL_E_INVALID, "ttl_ms is %lld; it must be 1 to %lld",
                           (long long)ttl_ms, (long long)RQL_TTL_MAX_MS);
    }
    if (status) {
        return status;
    }
    calls.count = series->count;
    status =
        rqli_perform_each(series->client->conn, &calls,
                          rqli_client_budget_us(series->client, rqli_now_us()), &exchange, error);
    if (!status) {
        status = take_replies(series, exchange, error);
    }
    rqli_exchange_give(exchange);
    return status;
}

rql_lock_state rql_series_get_state(const rql_series *series)
{
    rql_lock_state worst = RQL_HELD;

    if (check(series, NULL)) {
        return RQL_GONE;
    }
    for (size_t i = 0; i < series->count; i++) {
        rql_lock_state state = rql_lock_get_state(series->locks[i]);

        worst = state > worst ? state : worst;
    }
    return worst;
}

int64_t rql_series_remaining_ms(const rql_series *series)
{
    int64_t least_ms = RQL_TTL_MAX_MS;

    if (check(series, NULL)) {
        return 0;
    }
    for (size_t i = 0; i < series->count; i++) {
        int64_t left_ms = rql_lock_remaining_ms(series->locks[i]);

        least_ms = left_ms < least_ms ? left_ms : least_ms;
    }
    return least_ms;
}

rql_status rql_series_lost_fd(rql_series *series, int *out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_status status = check(series, error);
    int fd = -1;

    if (status) {
        return status;
    }
    status = rqli_leases_lost_fd(series->client->leases, series->locks[0], &fd, error);
    for (size_t i = 1; !status && i < series->count; i++) {
        status = rqli_leases_share_lost_fd(series->client->leases, series->locks[i], fd, error);
    }
    if (!status) {
        *out = fd;
    }
    return status;
}

size_t rql_series_count(const rql_series *series)
{
    return series ? series->count : 0;
}

const rql_lock *rql_series_lock(const rql_series *series, size_t index)
{
    return index < rql_series_count(series) ? series->locks[index] : NULL;
}
