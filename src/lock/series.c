#include "lock/series.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/scope.h"
#include "base/threads.h"
#include "lock/client.h"
#include "lock/end.h"
#include "lock/extend.h"
#include "lock/leases.h"
#include "lock/lock.h"
#include "lock/notify.h"
#include "lock/reason.h"
#include "lock/server_clock.h"

#include <stdlib.h>
#include <string.h>

/*
 * Several locks as one. In the atomic mode, the usual one, a single operation acquires all locks or
 * none. In the sorted mode there is one operation for the locks of each partition, and the leases
 * renew the locks that are held until the last operation is over. The gem's mode takes one lock
 * after the other, each by an acquisition of its own: a lock gets a ttl that outlives the waits for
 * the locks after it. If a lock is refused, the locks that are held are given back.
 *
 * The functions of series.h are the steps that a thread (here) and a loop (async_series.c) share.
 */

rql_series *rqli_series_free(rql_series *series)
{
    if (series) {
        for (size_t i = 0; i < RQL_SERIES_MAX && series->locks[i]; i++) {
            rqli_lock_free(series->locks[i]);
        }
        free(series);
    }
    return NULL;
}

/* Fills in the names for log lines and events when the locks are made: the locks in the given
 * order, and the ids of the first. */
static void name_subject(rql_series *series, size_t n_locks)
{
    for (size_t i = 0; i < n_locks; i++) {
        series->keys[series->places[i]] = series->locks[i]->keys.lock.data;
    }
    series->subject.n_keys = n_locks;
    series->subject.acquirer = series->locks[0]->acquirer;
    series->subject.host = series->locks[0]->host;
}

/* The sampling of a series was decided once, for all its locks. */
void rqli_series_share_listeners(const rql_series *series, rql_lock_options *options)
{
    options->logger = series->subject.logger;
    options->log_sample_this = true;
    options->instrumenter = series->subject.instrumenter;
    options->instr_sample_this = true;
}

/* Makes the locks. Returns false if there is no memory; the locks that were made by then are freed
 * with the series. number: of the acquirer on a loop, or 0. */
bool rqli_series_prepare(rql_series *series, const struct rqli_series_plan *plan, uint64_t number)
{
    const rql_series_options *options = &plan->options;
    rql_lock_options of_lock = plan->lock;

    for (size_t i = 0; i < options->n_names; i++) {
        rql_lock *lock =
            rqli_lock_new(series->client, options->names[series->places[i]], plan->lock.task);

        if (!lock) {
            return false;
        }
        series->locks[i] = lock;
        if (number) {
            rqli_lock_be(lock, number);
        }
    }
    name_subject(series, options->n_names);
    rqli_series_share_listeners(series, &of_lock);
    of_lock.log_lock_try = false; /* a try is one for all locks */
    for (size_t i = 0; i < options->n_names; i++) {
        rqli_subject_listen(&series->locks[i]->subject, &series->client->options, &of_lock);
    }
    return true;
}

/* Asks for the next locks that have one set of keys. In a sorted series the locks are in the
 * canonical order, so that the beginning of plan->order is the order of each group. */
void rqli_series_ask(const rql_series *series, const struct rqli_series_plan *plan,
                     struct rqli_acquire *acquire)
{
    rql_lock *const *locks = &series->locks[series->count];
    size_t n_left = plan->options.n_names - series->count;

    acquire->locks = locks;
    while (acquire->count < n_left && locks[acquire->count]->keys.set == locks[0]->keys.set) {
        acquire->count++;
    }
    acquire->options = &plan->lock;
    acquire->several->subject = &series->subject;
    acquire->several->order = plan->order;
    memset(acquire->several->fate, 0, sizeof acquire->several->fate);
}

/* Checks the locks of earlier groups: the leases renew them, but one may be lost all the same. */
static rql_status check_before(const rql_series *series, size_t n_before, rql_series_result *result,
                               rql_error *error)
{
    for (size_t i = 0; i < n_before; i++) {
        if (rql_lock_get_state(series->locks[i]) == RQL_GONE) {
            result->failed_on = series->places[i];
            return rqli_fail(error, RQL_E_UNAVAILABLE,
                             "%s: was lost while the series waited for %s; all is given back",
                             series->locks[i]->name, series->locks[n_before]->name);
        }
    }
    return RQL_OK;
}

/* A series counts as held since the request for its last group. */
rql_status rqli_series_on_acquired(rql_series *series, const struct rqli_acquire *acquire,
                                   rql_series_result *result, rql_error *error)
{
    size_t n_before = series->count;
    size_t obstacle;

    for (size_t i = 0; i < acquire->count; i++) { /* acquired, or granted and given back at once */
        result->fate[series->places[n_before + i]] = acquire->several->fate[i];
        result->n_acquired += acquire->several->fate[i] == RQL_SERIES_ACQUIRED;
    }
    if (acquire->op.status) {
        obstacle = rqli_reason_obstacle(acquire);
        if (obstacle < acquire->count) {
            result->failed_on = series->places[n_before + obstacle];
        }
        return acquire->op.status;
    }
    series->count += acquire->count;
    series->begun_us = series->locks[n_before]->begun_us;
    return check_before(series, n_before, result, error);
}

/* Gives back the held locks. The call ends by the deadline of the acquisition that failed. */
static void give_back(const rql_series *series, int64_t deadline_us)
{
    if (series->count > 0) {
        int64_t until_us = rqli_give_back_until_us(series->client, deadline_us);

        rqli_series_on_returned(series,
                                rqli_give_back(series->locks, series->count, until_us, NULL));
    }
}

/* Takes the locks by groups, with one deadline for all. The room for 64 locks is on the stack: only
 * the handles are allocated. */
static rql_status take_groups(rql_series *series, const struct rqli_series_plan *plan,
                              rql_series_result *result, rql_error *error)
{
    struct rqli_acquire_result acquired;
    struct rqli_acquire_several several;
    int64_t begun_us = rqli_now_us();
    rql_status status;

    if (!rqli_series_prepare(series, plan, 0)) {
        return rqli_fail_nomem(error);
    }
    do {
        struct rqli_acquire acquire = {
            .several = &several, .result = &acquired, .begun_us = begun_us};

        rqli_series_ask(series, plan, &acquire);
        rqli_acquire_init(&acquire);
        (void)rqli_acquire_run(&acquire, error);
        status = rqli_series_on_acquired(series, &acquire, result, error);
    } while (!status && series->count < plan->options.n_names);
    if (status) {
        give_back(series, rqli_after_ms(begun_us, plan->lock.timeout_ms));
    }
    return status;
}

/* Takes a lock of the gem's mode; NULL: it was refused. Returns true if there are more to ask
 * for. */
bool rqli_series_on_part(rql_series *series, const struct rqli_series_plan *plan, rql_lock *lock,
                         rql_series_result *result)
{
    result->fate[series->count] = lock ? RQL_SERIES_ACQUIRED : RQL_SERIES_REFUSED;
    if (!lock) {
        result->failed_on = series->count;
        return false;
    }
    series->locks[series->count++] = lock;
    series->begun_us = lock->begun_us;
    result->n_acquired = series->count;
    return series->count < plan->options.n_names;
}

void rqli_series_on_returned(const rql_series *series, rql_status status)
{
    int64_t now_us = rqli_now_us();

    for (size_t i = 0; i < series->count; i++) {
        const struct rqli_figures figures = {.status = status,
                                             .hold_time_us = now_us - series->locks[i]->held_us};

        rqli_observe(RQLI_ON_PART_ENDED, &series->locks[i]->subject, &figures);
    }
}

/* Takes the locks one by one. Each is acquired by a call of its own, with its retries and its
 * refusal. If one fails, the locks before it are given back, the last one first. */
static rql_status take_in_turn(rql_series *series, const struct rqli_series_plan *plan,
                               rql_series_result *result, rql_error *error)
{
    rql_lock_options of_lock = plan->lock;
    int64_t begun_us;
    rql_status status;
    rql_lock *lock;

    rqli_series_share_listeners(series, &of_lock);
    do {
        size_t at = series->count;

        begun_us = rqli_now_us();
        lock = NULL;
        of_lock.ttl_ms = rqli_series_ttl_ms(&plan->lock, plan->options.n_names, at);
        status = rql_lock_acquire(series->client, plan->options.names[at], &of_lock, &lock, error);
    } while (rqli_series_on_part(series, plan, lock, result));
    if (status) {
        give_back(series, rqli_after_ms(begun_us, plan->lock.timeout_ms));
    }
    return status;
}

static void log_started(const rql_series *series, uint64_t task, const char *const *keys, size_t n)
{
    char acquirer[RQL_ID_SIZE];
    char host[RQL_ID_SIZE];
    struct rqli_subject subject = series->subject;

    subject.keys = keys;
    subject.n_keys = n;
    subject.acquirer = acquirer;
    subject.host = host;
    rqli_acquirer_id(acquirer, task, series->client->identity);
    rqli_host_id(host, rqli_thread_number(), series->client->identity);
    rqli_observe(RQLI_ON_SERIES_STARTED, &subject, NULL);
}

/* Reports the start of a series, whose locks are not made yet. Without memory for their keys the
 * line is not sent. */
static void notify_started(const rql_series *series, const struct rqli_series_plan *plan)
{
    size_t n = plan->options.n_names;
    const char *keys[RQL_SERIES_MAX];
    char(*memory)[RQLI_KEYS_ROOM] = NULL;

    if (series->subject.logger) {
        memory = calloc(n, sizeof *memory);
    }
    if (memory) {
        for (size_t i = 0; i < n; i++) {
            struct rqli_keys of_lock;

            rqli_keys_init(&of_lock, memory[i],
                           rqli_client_key_set(series->client, plan->options.names[i]),
                           rqli_slice_of(plan->options.names[i]));
            keys[i] = of_lock.lock.data;
        }
        log_started(series, plan->lock.task, keys, n);
        free(memory);
    }
}

rql_series *rqli_series_new(rql_client *client, const struct rqli_series_plan *plan)
{
    rql_series *series = calloc(1, sizeof *series);

    if (series) {
        series->client = client;
        series->subject = (struct rqli_subject){
            .stats = client->stats,
            .keys = series->keys,
            .shard = (rqli_stats_shard)rqli_thread_number(),
            .is_series = true,
        };
        memcpy(series->places, plan->places, sizeof series->places);
        rqli_subject_listen(&series->subject, &client->options, &plan->lock);
        notify_started(series, plan);
    }
    return series;
}

static void notify_obtained(rql_series *series)
{
    const struct rqli_figures figures = {
        .ts_us = series->locks[series->count - 1]->ts_us,
        .acq_time_us = series->acq_time_us,
    };

    name_subject(series, series->count);
    rqli_observe(RQLI_ON_SERIES_OBTAINED, &series->subject, &figures);
}

/* Ends an acquisition in each mode. Returns the series if it is held; if not it is freed, and the
 * caller has only the result. */
rql_series *rqli_series_conclude(rql_series *series, const struct rqli_series_plan *plan,
                                 int64_t begun_us, rql_status status, rql_series_result *result)
{
    result->reason = status;
    if (series) {
        series->held_us = rqli_now_us();
        series->acq_time_us = series->held_us - begun_us;
        result->acq_time_us = series->acq_time_us;
    }
    if (series && !status && plan->stops_renewal) {
        rqli_leases_stop_renewal(series->client->leases, series->locks, series->count);
    }
    if (series && !status) {
        notify_obtained(series);
        result->ending = RQL_SERIES_BY_TTL;
    }
    if (plan->options.result) {
        *plan->options.result = *result;
    }
    return status ? rqli_series_free(series) : series;
}

/* Acquires a series. With `tries` it does not wait. */
static rql_status acquire(rql_client *client, const rql_series_options *options, bool tries,
                          rql_series **out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct rqli_series_plan plan;
    rql_series *series;
    rql_series_result result;
    int64_t begun_us;
    rql_status status = rqli_client_check(client, error);

    if (!status) {
        status = rqli_series_plan(&plan, client, options, error);
    }
    if (status) {
        return status;
    }
    if (!out) {
        return rqli_fail(error, RQL_E_INVALID, "series: out is NULL");
    }
    plan.lock.fail_fast = plan.lock.fail_fast || tries;
    result = (rql_series_result){.count = plan.options.n_names, .failed_on = plan.options.n_names};
    begun_us = rqli_now_us();
    series = rqli_series_new(client, &plan);
    if (!series) {
        status = rqli_fail_nomem(error);
    } else if (plan.options.mode == RQL_SERIES_GEM) {
        status = take_in_turn(series, &plan, &result, error);
    } else {
        status = take_groups(series, &plan, &result, error);
    }
    series = rqli_series_conclude(series, &plan, begun_us, status, &result);
    if (!status) {
        *out = series;
    }
    return status;
}

rql_status rql_series_acquire(rql_client *client, const rql_series_options *options,
                              rql_series **out, rql_error *error)
{
    return acquire(client, options, false, out, error);
}

rql_status rql_series_try(rql_client *client, const rql_series_options *options, rql_series **out,
                          rql_error *error)
{
    return acquire(client, options, true, out, error);
}

/* ---- what is held ---- */

/* The calls about a series that is held. */

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

/* Releases the last lock first, as nested locks would be released. In a child of the series'
 * process the call touches nothing, as in rql_lock_release(). */
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

/* Forgets each lock by itself: the leases look after one that could not be claimed, and the handles
 * of the others are freed. */
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

/* Returns the worst state of all its locks. */
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

/* Returns the shortest time that any of its locks has left. */
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

/* Makes one descriptor for all: each lock has its own number for the same eventfd, which the loss
 * of any of them makes readable. */
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

/* These facts are known from the grant on, so nothing is locked, and a fork child may ask for them,
 * too. */
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
