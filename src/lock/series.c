#include "lock/series.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/scope.h"
#include "lock/client.h"
#include "lock/end.h"
#include "lock/extend.h"
#include "lock/leases.h"
#include "lock/lock.h"
#include "lock/notify.h"
#include "lock/refusal.h"

#include <stdlib.h>
#include <string.h>

rql_series *rqli_series_free(rql_series *series)
{
    if (series) {
        for (size_t i = 0; i < series->count; i++) {
            rqli_lock_free(series->locks[i]);
        }
        free(series);
    }
    return NULL;
}

RQLI_DEFINE_AUTO(rql_series *, rqli_series_free);

void rqli_series_unlist(rql_series *series, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        rqli_leases_remove(series->client->leases, series->locks[i]);
    }
}

/* Gives back the first `count` locks, the last one first. */
static rql_status give_back(rql_series *series, size_t count, rql_error *error)
{
    rqli_series_unlist(series, count);
    return count > 0 ? rqli_end(series->locks, count, error) : RQL_OK;
}

bool rqli_series_make_locks(rql_series *series, const struct rqli_series_plan *plan)
{
    const rql_series_options *options = &plan->options;

    for (; series->count < options->n_names; series->count++) {
        series->locks[series->count] =
            rqli_lock_new(series->client, options->names[series->count], plan->lock.task);
        if (!series->locks[series->count]) {
            return false;
        }
    }
    return true;
}

/* Its locks are known. */
static void name_subject(rql_series *series)
{
    for (size_t i = 0; i < series->count; i++) {
        series->keys[i] = series->locks[i]->keys.lock.data;
    }
    series->subject.n_keys = series->count;
    series->subject.acquirer = series->locks[0]->acquirer;
    series->subject.host = series->locks[0]->host;
}

void rqli_series_share_listeners(const rql_series *series, rql_lock_options *options)
{
    options->logger = series->subject.logger;
    options->log_sample_this = true;
    options->instrumenter = series->subject.instrumenter;
    options->instr_sample_this = true;
}

void rqli_series_share_with_all(rql_series *series, const struct rqli_series_plan *plan)
{
    rql_lock_options options = plan->lock;

    name_subject(series);
    rqli_series_share_listeners(series, &options);
    options.log_lock_try = false; /* its tries are those of all */
    for (size_t i = 0; i < series->count; i++) {
        rqli_subject_listen(&series->locks[i]->subject, &series->client->options, &options);
    }
}

static rql_status keep_all(rql_series *series, const struct rqli_series_plan *plan,
                           const struct rqli_acquire_result *acquired, rql_error *error)
{
    rql_status status = RQL_OK;

    for (size_t i = 0; !status && i < series->count; i++) {
        status = rqli_lock_keep(series->locks[i], &plan->lock, acquired, error);
    }
    return status;
}

/* The first that something stood against, in the order that the server looks. */
static size_t find_obstacle(const struct rqli_series_plan *plan, const rql_series_fate *fate)
{
    size_t count = plan->options.n_names;

    for (size_t i = 0; i < count; i++) {
        size_t at = plan->order[i];

        if (fate[at] == RQL_SERIES_HELD || fate[at] == RQL_SERIES_BEHIND ||
            fate[at] == RQL_SERIES_OWN) {
            return at;
        }
    }
    return count;
}

void rqli_series_fill_refusal(rql_series *series, const struct rqli_series_plan *plan,
                              const struct rqli_acquire_result *acquired, rql_status status,
                              const rql_series_result *result)
{
    size_t at = find_obstacle(plan, result->fate);

    if (status > 0 && plan->lock.refusal) {
        at = at < series->count ? at : 0;
        rqli_refusal_fill(series->locks[at], &plan->lock, status, acquired);
    }
}

void rqli_series_on_refused(rql_series *series, const struct rqli_series_plan *plan,
                            const struct rqli_acquire_result *acquired, rql_status status,
                            rql_series_result *result)
{
    result->failed_on = find_obstacle(plan, result->fate);
    rqli_notify_refused(&series->subject, acquired, status);
}

rql_status rqli_series_on_granted(rql_series *series, const struct rqli_series_plan *plan,
                                  const struct rqli_acquire_result *acquired,
                                  rql_series_result *result, rql_error *error)
{
    rql_status status;

    result->n_acquired = series->count;
    series->begun_us = series->locks[0]->begun_us;
    status = keep_all(series, plan, acquired, error);
    if (status) {
        rqli_notify_refused(&series->subject, acquired, status);
    }
    for (size_t i = 0; !status && i < series->count; i++) {
        rqli_notify_obtained(series->locks[i]);
    }
    return status;
}

static rql_status acquire_atomically(rql_series *series, const struct rqli_series_plan *plan,
                                     struct rqli_acquire_result *acquired,
                                     rql_series_result *result, rql_error *error)
{
    struct rqli_acquire_several several;
    struct rqli_acquire acquire = {
        .locks = series->locks,
        .several = &several,
        .count = series->count,
        .options = &plan->lock,
        .result = acquired,
        .begun_us = rqli_now_us(),
    };

    several.order = plan->order;
    several.fate = result->fate;
    rqli_acquire_init(&acquire);
    return rqli_acquire_run(&acquire, error);
}

static rql_status take_at_once(rql_series *series, const struct rqli_series_plan *plan,
                               rql_series_result *result, rql_error *error)
{
    struct rqli_acquire_result acquired = {.rank = -1, .tries = 1};
    rql_status status;

    if (!rqli_series_make_locks(series, plan)) {
        return rqli_fail_nomem(error);
    }
    rqli_series_share_with_all(series, plan);
    status = acquire_atomically(series, plan, &acquired, result, error);
    if (status) {
        rqli_series_fill_refusal(series, plan, &acquired, status, result);
        rqli_series_on_refused(series, plan, &acquired, status, result);
        return status;
    }
    status = rqli_series_on_granted(series, plan, &acquired, result, error);
    if (status) {
        (void)give_back(series, series->count, NULL);
    }
    return status;
}

static rql_status take_in_turn(rql_series *series, const struct rqli_series_plan *plan,
                               rql_series_result *result, rql_error *error)
{
    const rql_series_options *options = &plan->options;
    rql_lock_options lock = plan->lock;
    rql_status status = RQL_OK;

    rqli_series_share_listeners(series, &lock);
    while (!status && series->count < options->n_names) {
        size_t at = series->count;

        lock.ttl_ms = rqli_series_ttl_ms(&plan->lock, options->n_names, at);
        status =
            rql_lock_acquire(series->client, options->names[at], &lock, &series->locks[at], error);
        result->fate[at] = status ? RQL_SERIES_REFUSED : RQL_SERIES_ACQUIRED;
        series->count += status ? 0 : 1;
    }
    result->n_acquired = series->count;
    if (status) {
        result->failed_on = series->count;
        rqli_notify_series_returned(series, give_back(series, series->count, NULL));
        return status;
    }
    series->begun_us = series->locks[series->count - 1]->begun_us;
    return RQL_OK;
}

rql_series *rqli_series_new(rql_client *client, const struct rqli_series_plan *plan)
{
    rql_series *series = calloc(1, sizeof *series);

    if (series) {
        series->client = client;
        series->subject = (struct rqli_subject){
            .stats = client->stats,
            .keys = series->keys,
            .shard = (rqli_stats_shard)rqli_thread_id(),
            .is_series = true,
        };
        rqli_subject_listen(&series->subject, &client->options, &plan->lock);
        rqli_notify_series_started(series, plan);
    }
    return series;
}

static void notify_obtained(rql_series *series)
{
    const struct rqli_figures figures = {
        .ts_us = series->locks[series->count - 1]->ts_us,
        .acq_time_us = series->acq_time_us,
    };

    name_subject(series);
    rqli_observe(RQLI_ON_SERIES_OBTAINED, &series->subject, &figures);
}

void rqli_series_on_end(rql_series *series, int64_t begun_us, rql_status status,
                        rql_series_result *result)
{
    series->held_us = rqli_now_us();
    series->acq_time_us = series->held_us - begun_us;
    result->reason = status;
    result->acq_time_us = series->acq_time_us;
    if (!status) {
        notify_obtained(series);
        result->ending = RQL_SERIES_BY_TTL;
    }
}

/* *out is set on RQL_OK. The result tells how it was, whatever it was. */
static rql_status acquire(rql_client *client, const struct rqli_series_plan *plan,
                          rql_series_result *result, rql_series **out, rql_error *error)
{
    int64_t begun_us = rqli_now_us();
    RQLI_AUTO(rqli_series_free) rql_series *series = rqli_series_new(client, plan);
    rql_status status;

    if (!series) {
        result->reason = rqli_fail_nomem(error);
        return result->reason;
    }
    status = plan->options.mode == RQL_SERIES_GEM ? take_in_turn(series, plan, result, error)
                                                  : take_at_once(series, plan, result, error);
    rqli_series_on_end(series, begun_us, status, result);
    if (!status) {
        *out = RQLI_GIVE(series);
    }
    return status;
}

static rql_status check(rql_client *client, const rql_series_options *options,
                        struct rqli_series_plan *plan, rql_series **out, rql_error *error)
{
    rql_status status = rqli_client_check(client, error);

    if (!status) {
        status = rqli_series_plan(plan, &client->of_calls, options, error);
    }
    if (!status && !out) {
        status = rqli_fail(error, RQL_E_INVALID, "series: out is NULL");
    }
    return status;
}

static rql_status acquire_and_tell(rql_client *client, const struct rqli_series_plan *plan,
                                   rql_series **out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    size_t count = plan->options.n_names;
    rql_series_result result = {.count = count, .failed_on = count};

    (void)acquire(client, plan, &result, out, error);
    if (plan->options.result) {
        *plan->options.result = result;
    }
    return result.reason;
}

rql_status rql_series_acquire(rql_client *client, const rql_series_options *options,
                              rql_series **out, rql_error *error)
{
    struct rqli_series_plan plan;
    rql_status status = check(client, options, &plan, out, error);

    return status ? status : acquire_and_tell(client, &plan, out, error);
}

rql_status rql_series_try(rql_client *client, const rql_series_options *options, rql_series **out,
                          rql_error *error)
{
    struct rqli_series_plan plan;
    rql_status status = check(client, options, &plan, out, error);

    plan.lock.fail_fast = true;
    return status ? status : acquire_and_tell(client, &plan, out, error);
}

void rqli_series_on_released(rql_series *series, rql_status status, rql_series_result *result)
{
    rqli_notify_series_ended(series, status);
    if (result) {
        result->hold_time_us = rqli_now_us() - series->held_us;
        result->ending = status < 0 ? RQL_SERIES_NOT_ENDED : RQL_SERIES_BY_RELEASE;
    }
}

rql_status rql_series_release(rql_series *series, rql_series_result *result, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_status status;

    if (!series) {
        return RQL_OK;
    }
    status = rqli_client_check(series->client, error);
    if (!status) {
        rqli_observe(RQLI_ON_SERIES_ENDING, &series->subject, NULL);
        status = give_back(series, series->count, error);
        rqli_series_on_released(series, status, result);
    }
    rqli_series_free(series);
    return status;
}

rql_series *rql_series_forget(rql_series *series)
{
    RQLI_DEFER_CANCEL;

    if (series) {
        for (size_t i = series->count; i-- > 0;) {
            series->locks[i] = rql_lock_forget(series->locks[i]);
        }
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
        status = rqli_extend_check(ttl_ms, error);
    }
    return status ? status : rqli_extend(series->locks, series->count, ttl_ms, error);
}

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

size_t rql_series_count(const rql_series *series)
{
    return series ? series->count : 0;
}

const rql_lock *rql_series_lock(const rql_series *series, size_t index)
{
    return index < rql_series_count(series) ? series->locks[index] : NULL;
}
