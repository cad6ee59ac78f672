#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "lock/client.h"
#include "lock/end.h"
#include "lock/extend.h"
#include "lock/leases.h"
#include "lock/lock.h"
#include "lock/series.h"
#include "lock/server_clock.h"

/* What is done with a series that is held. */

static void notify_ended(const rql_series *series, rql_status status)
{
    struct rqli_figures figures = {.status = status, .acq_time_us = series->acq_time_us};

    rqli_series_on_returned(series, status);
    if (series->subject.instrumenter) {
        figures.ts_us = rqli_server_clock_now_us(series->client);
        figures.hold_time_us = rqli_now_us() - series->held_us;
        rqli_observe(RQLI_ON_SERIES_ENDED, &series->subject, &figures);
    }
}

void rqli_series_on_released(rql_series *series, rql_status status, rql_series_result *result)
{
    notify_ended(series, status);
    if (result) {
        result->hold_time_us = rqli_now_us() - series->held_us;
        result->ending = status < 0 ? RQL_SERIES_NOT_ENDED : RQL_SERIES_BY_RELEASE;
    }
}

/* The last one first, as nested locks would be. In a child of the series' process nothing is
 * touched, as by rql_lock_release(). */
rql_status rql_series_release(rql_series *series, rql_series_result *result, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_status status;

    if (!series) {
        return RQL_OK;
    }
    status = rqli_client_check(series->client, error);
    if (status) {
        return status;
    }
    rqli_observe(RQLI_ON_SERIES_ENDING, &series->subject, NULL);
    status = rqli_give_back(series->locks, series->count, RQLI_NEVER_US, error);
    rqli_series_on_released(series, status, result);
    rqli_series_free(series);
    return status;
}

/* Each lock by itself: one that could not be claimed is looked after by the leases, the others are
 * gone. */
rql_series *rql_series_forget(rql_series *series)
{
    RQLI_DEFER_CANCEL;

    if (!series || rqli_client_check(series->client, NULL)) {
        return NULL;
    }
    for (size_t i = series->count; i-- > 0;) {
        series->locks[i] = rql_lock_forget(series->locks[i]);
    }
    return rqli_series_free(series);
}

static rql_status check_held(const rql_series *series, rql_error *error)
{
    if (!series) {
        return rqli_fail(error, RQL_E_INVALID, "series is NULL");
    }
    return rqli_client_check(series->client, error);
}

rql_status rql_series_extend(rql_series *series, int64_t ttl_ms, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_status status = check_held(series, error);

    if (!status) {
        status = rqli_extend_check(series->client, ttl_ms, error);
    }
    return status ? status : rqli_extend(series->locks, series->count, ttl_ms, error);
}

/* As bad as the worst of its locks. */
rql_lock_state rql_series_get_state(const rql_series *series)
{
    rql_lock_state worst = RQL_HELD;

    if (check_held(series, NULL)) {
        return RQL_GONE;
    }
    for (size_t i = 0; i < series->count; i++) {
        rql_lock_state state = rql_lock_get_state(series->locks[i]);

        worst = state > worst ? state : worst;
    }
    return worst;
}

/* As short as the shortest of them. */
int64_t rql_series_remaining_ms(const rql_series *series)
{
    int64_t least_ms = RQL_TTL_MAX_MS;

    if (check_held(series, NULL)) {
        return 0;
    }
    for (size_t i = 0; i < series->count; i++) {
        int64_t left_ms = rql_lock_remaining_ms(series->locks[i]);

        least_ms = left_ms < least_ms ? left_ms : least_ms;
    }
    return least_ms;
}

/* One descriptor for all: each lock has its own number for the same eventfd, which any of them
 * makes readable. */
rql_status rql_series_lost_fd(rql_series *series, int *out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_status status = check_held(series, error);
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

/* What is known from the grant on, so nothing is locked, and a fork child may ask, too. */
size_t rql_series_count(const rql_series *series)
{
    return series ? series->count : 0;
}

const rql_lock *rql_series_lock(const rql_series *series, size_t index)
{
    for (size_t i = 0; i < rql_series_count(series); i++) {
        if (series->places[i] == index) {
            return series->locks[i];
        }
    }
    return NULL;
}
