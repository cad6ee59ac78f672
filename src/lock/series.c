#include "lock/series.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/threads.h"
#include "lock/client.h"
#include "lock/history.h"
#include "lock/leases.h"
#include "lock/lock.h"
#include "lock/reason.h"
#include "lock/server_clock.h"
#include "options/options.h"

#include <stdlib.h>
#include <string.h>

/*
 * Several locks as one. In the atomic mode, the usual one, a single operation acquires all locks or
 * none. In the sorted mode there is one operation for the locks of each partition, and the leases
 * renew the locks that are held until the last operation is over. The gem's mode takes one lock
 * after the other, each by an acquisition of its own with its own retries: a lock gets a ttl that
 * outlives the waits for the locks after it. If a lock is refused, the locks that are held are
 * given back.
 */

/* ---- the plan: the options are read, and checked before the first effect ---- */

void rql_series_options_init_sized(rql_series_options *options, size_t size)
{
    rqli_options_init(RQLI_OF_SERIES, options, size, NULL);
}

/* Returns the gem's ttl of the index-th of `count` locks: the first outlives the waits for all. */
static int64_t gem_ttl_ms(const rql_lock_options *options, size_t count, size_t index)
{
    return (options->ttl_ms + options->retry_delay_ms + options->retry_jitter_ms) *
           (int64_t)(count - index);
}

struct named {
    const rql_client *client;
    const char *const *names;
};

/* Compares the names at two places: by partition, and then by bytes, as every client does, whatever
 * its locale. */
static int compare_names(const void *a, const void *b, void *context)
{
    const struct named *self = context;
    const char *name = self->names[*(const size_t *)a];
    const char *other = self->names[*(const size_t *)b];
    unsigned set = rqli_key_set_index(rqli_client_key_set(self->client, name));
    unsigned set_of_other = rqli_key_set_index(rqli_client_key_set(self->client, other));

    return set == set_of_other ? strcmp(name, other) : (set > set_of_other) - (set < set_of_other);
}

static rql_status check_names(const rql_series_options *options, rql_error *error)
{
    rql_status status = RQL_OK;

    if (!options->names || options->n_names < 1 || options->n_names > RQL_SERIES_MAX) {
        return rqli_fail(error, RQL_E_INVALID, "a series of %zu names; it must have 1 to %d",
                         options->names ? options->n_names : 0, RQL_SERIES_MAX);
    }
    for (size_t i = 0; !status && i < options->n_names; i++) {
        status = rqli_name_check(options->names[i], error);
    }
    return status;
}

/* Checks the longest ttl. In the gem's mode the first lock has the longest ttl of all; in the other
 * modes all locks have the ttl that was given. */
static rql_status check_ttl(const rql_client *client, const struct rqli_series_plan *plan,
                            rql_error *error)
{
    int64_t longest_ms = gem_ttl_ms(&plan->lock, plan->options.n_names, 0);

    if (plan->options.mode != RQL_SERIES_GEM) {
        return RQL_OK;
    }
    if (longest_ms > RQL_TTL_MAX_MS) {
        return rqli_fail(error, RQL_E_INVALID,
                         "the first of %zu locks would have a ttl of %lld ms; at most %lld",
                         plan->options.n_names, (long long)longest_ms, (long long)RQL_TTL_MAX_MS);
    }
    return rqli_client_check_ttl(client, longest_ms, error);
}

static rql_status check_no_name_twice(const char *const *names, const size_t *sorted, size_t count,
                                      rql_error *error)
{
    for (size_t i = 1; i < count; i++) {
        if (strcmp(names[sorted[i - 1]], names[sorted[i]]) == 0) {
            return rqli_fail(error, RQL_E_INVALID, "%s: occurs twice in one series",
                             names[sorted[i]]);
        }
    }
    return RQL_OK;
}

/* Puts the locks in order. Every client takes them in the same order, whatever order they are named
 * in: so no two series wait for each other. A series that is spread takes the locks of one
 * partition in each step, and the locks that it has got are renewed until the last step is over. In
 * the gem's mode the given order is kept, and a name may come twice, as a re-entry. */
static rql_status put_in_order(struct rqli_series_plan *plan, const rql_client *client,
                               rql_error *error)
{
    const rql_series_options *options = &plan->options;
    struct named named = {client, options->names};
    const struct rqli_key_set *first = rqli_client_key_set(client, options->names[0]);
    size_t elsewhere = 1; /* the first name of another partition; n_names: all are in one */
    bool is_spread;
    size_t *sorted;

    while (elsewhere < options->n_names &&
           rqli_client_key_set(client, options->names[elsewhere]) == first) {
        elsewhere++;
    }
    is_spread = options->mode != RQL_SERIES_GEM && elsewhere < options->n_names;
    sorted = is_spread ? plan->places : plan->order;
    for (size_t i = 0; i < options->n_names; i++) {
        plan->places[i] = i;
        plan->order[i] = i;
    }
    if (is_spread && options->mode == RQL_SERIES_ATOMIC) {
        return rqli_fail(error, RQL_E_INVALID,
                         "%s and %s: are in different partitions, which are not locked in one "
                         "step; a {tag} in the names puts them in one (\"orders:{42}:a\"), or "
                         "take them in a sorted series",
                         options->names[0], options->names[elsewhere]);
    }
    plan->stops_renewal = is_spread && !plan->lock.auto_extend;
    plan->lock.auto_extend = plan->lock.auto_extend || is_spread;
    if (options->mode == RQL_SERIES_GEM) {
        return RQL_OK;
    }
    qsort_r(sorted, options->n_names, sizeof *sorted, compare_names, &named);
    return check_no_name_twice(options->names, sorted, options->n_names, error);
}

rql_status rqli_series_plan(struct rqli_series_plan *out, const rql_client *client,
                            const rql_series_options *given, rql_error *error)
{
    rql_status status;

    /* Other calls take the defaults for NULL; there are none for names. */
    if (!given) {
        return rqli_fail(error, RQL_E_INVALID, "series: options is NULL, so there are no names");
    }
    status = rqli_options_read(RQLI_OF_SERIES, &out->options, NULL, given, error);
    if (!status) {
        status = check_names(&out->options, error);
    }
    if (!status) {
        status = rqli_result_check(out->options.result, RQLI_SERIES_RESULT_SIZE, error);
    }
    if (!status) {
        status = rqli_call_options_read(client, &out->lock, out->options.lock, error);
    }
    if (!status && out->lock.share_units > 0) {
        status = rqli_fail(error, RQL_E_INVALID, "series: share_units is for single locks");
    }
    if (!status && (out->lock.max_waiters != RQL_FOREVER || out->lock.head_start_ms > 0)) {
        status = rqli_fail(error, RQL_E_INVALID,
                           "series: max_waiters and head_start_ms are for single locks");
    }
    if (!status && out->lock.hold_at_least_ms > 0) {
        status = rqli_fail(error, RQL_E_INVALID, "series: hold_at_least_ms is for single locks");
    }
    if (!status) {
        status = check_ttl(client, out, error);
    }
    return status ? status : put_in_order(out, client, error);
}

/* ---- the handle ---- */

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

/* Makes the locks, and with them the names for log lines and events. The sampling of a series was
 * decided once, for all its locks. Returns false if there is no memory. */
static bool make_locks(rql_series *series, const struct rqli_series_plan *plan, uint64_t number)
{
    rql_lock_options options = plan->lock;

    options.logger = series->subject.logger;
    options.log_sample_this = true;
    options.instrumenter = series->subject.instrumenter;
    options.instr_sample_this = true;
    if (plan->options.mode != RQL_SERIES_GEM) {
        options.log_lock_try = false; /* a try is one for all locks */
    }
    for (size_t i = 0; i < plan->options.n_names; i++) {
        size_t place = series->places[i];
        rql_lock *lock = rqli_lock_new(series->client, plan->options.names[place], options.task);

        if (!lock) {
            return false;
        }
        series->locks[i] = lock;
        series->keys[place] = lock->keys.lock.data;
        if (number) {
            rqli_lock_be(lock, number);
        }
        rqli_subject_listen(&lock->subject, &series->client->options, &options);
    }
    series->subject.acquirer = series->locks[0]->acquirer;
    series->subject.host = series->locks[0]->host;
    return true;
}

static rql_series *series_new(rql_client *client, const struct rqli_series_plan *plan,
                              uint64_t number)
{
    rql_series *series = calloc(1, sizeof *series);

    if (!series) {
        return NULL;
    }
    series->client = client;
    series->subject = (struct rqli_subject){
        .stats = client->stats,
        .keys = series->keys,
        .n_keys = plan->options.n_names,
        .shard = (rqli_stats_shard)rqli_thread_number(),
        .is_series = true,
    };
    memcpy(series->places, plan->places, sizeof series->places);
    rqli_subject_listen(&series->subject, &client->options, &plan->lock);
    return make_locks(series, plan, number) ? series : rqli_series_free(series);
}

/* ---- the acquisition ---- */

enum rqli_series_step rqli_series_begin(struct rqli_series_acquire *self, rql_client *client,
                                        uint64_t number, rql_error *error)
{
    size_t n_names = self->plan.options.n_names;

    self->options = self->plan.lock;
    self->result = (rql_series_result){.count = n_names, .failed_on = n_names};
    self->series = series_new(client, &self->plan, number);
    if (!self->series) {
        self->status = rqli_fail_nomem(error);
        return RQLI_SERIES_CONCLUDE;
    }
    rqli_observe(RQLI_ON_SERIES_STARTED, &self->series->subject, NULL);
    return RQLI_SERIES_ACQUIRE;
}

/* In the gem's mode the next lock is acquired by itself. Otherwise the next locks that have one set
 * of keys are acquired, with one deadline for all groups; in a sorted series the locks are in the
 * canonical order, so that the beginning of plan.order is the order of each group. */
void rqli_series_ask(struct rqli_series_acquire *self, struct rqli_acquire *acquire)
{
    rql_lock *const *locks = &self->series->locks[self->series->count];
    size_t n_names = self->plan.options.n_names;
    size_t n_left = n_names - self->series->count;

    *acquire = (struct rqli_acquire){.locks = locks, .options = &self->options};
    if (self->plan.options.mode == RQL_SERIES_GEM) {
        acquire->count = 1;
        self->options.ttl_ms = gem_ttl_ms(&self->plan.lock, n_names, self->series->count);
        locks[0]->subject.ttl_ms = self->options.ttl_ms;
        rqli_observe(RQLI_ON_STARTED, &locks[0]->subject, NULL);
        self->asked_us = rqli_now_us(); /* without the time that a logger took for that line */
    } else {
        while (acquire->count < n_left && locks[acquire->count]->keys.set == locks[0]->keys.set) {
            acquire->count++;
        }
        acquire->several = &self->several;
        self->several.subject = &self->series->subject;
        self->several.order = self->plan.order;
        memset(self->several.fate, 0, sizeof self->several.fate);
    }
    acquire->begun_us = self->asked_us;
}

/* Notes what became of each lock: acquired, or granted and given back at once, or refused. */
static void note_fates(struct rqli_series_acquire *self, const struct rqli_acquire *acquire)
{
    const struct rqli_acquire_several *several = acquire->several;
    const size_t *places = &self->series->places[self->series->count];
    size_t obstacle = several ? rqli_reason_obstacle(acquire) : 0;

    for (size_t i = 0; i < acquire->count; i++) {
        rql_series_fate fate = acquire->op.status ? RQL_SERIES_REFUSED : RQL_SERIES_ACQUIRED;

        if (several) {
            fate = several->fate[i];
        }
        self->result.fate[places[i]] = fate;
        self->result.n_acquired += fate == RQL_SERIES_ACQUIRED;
    }
    if (acquire->op.status && obstacle < acquire->count) {
        self->result.failed_on = places[obstacle];
    }
}

/* Checks the locks of earlier steps: if the leases renew them, one may be lost all the same, and in
 * the gem's mode one may not be renewed. */
static rql_status check_before(struct rqli_series_acquire *self, size_t n_before, rql_error *error)
{
    const rql_series *series = self->series;

    for (size_t i = 0; i < n_before; i++) {
        if (rqli_leases_state(series->client->leases, series->locks[i]) == RQL_GONE) {
            self->result.failed_on = series->places[i];
            return rqli_fail(error, RQL_E_UNAVAILABLE,
                             "%s: was lost while the series waited for %s; all is given back",
                             series->locks[i]->name, series->locks[n_before]->name);
        }
    }
    return RQL_OK;
}

/* Ends a series in the gem's mode whose cancellation came too late for the lock that was under way.
 * By groups the next acquisition ends it. */
static rql_status fail_cancelled(struct rqli_series_acquire *self, rql_error *error)
{
    size_t next = self->series->count;

    self->result.failed_on = next;
    return rqli_fail(error, RQL_CANCELLED, "%s: not acquired: the request was cancelled",
                     self->plan.options.names[next < self->plan.options.n_names ? next : 0]);
}

/* A series counts as held since the request for its last locks. */
enum rqli_series_step rqli_series_on_acquired(struct rqli_series_acquire *self,
                                              const struct rqli_acquire *acquire, bool is_cancelled,
                                              rql_error *error)
{
    rql_series *series = self->series;
    size_t n_before = series->count;

    note_fates(self, acquire);
    self->status = acquire->op.status;
    if (!self->status) {
        series->count += acquire->count;
        series->begun_us = series->locks[n_before]->begun_us;
        self->status = check_before(self, n_before, error);
        if (!self->status && is_cancelled && self->plan.options.mode == RQL_SERIES_GEM) {
            self->status = fail_cancelled(self, error);
        }
    }
    if (self->status && series->count > 0) {
        return RQLI_SERIES_GIVE_BACK;
    }
    return self->status || series->count == self->plan.options.n_names ? RQLI_SERIES_CONCLUDE
                                                                       : RQLI_SERIES_ACQUIRE;
}

/* Notes the end of one lock. If not all were held any more, its own lease says whether this one
 * was. */
static void note_end(const rql_lock *lock, rql_status status)
{
    bool is_gone = rqli_lease_state(&lock->kept.lease, rqli_now_us()) == RQL_GONE;

    if (status == RQL_NOT_HELD && !is_gone) {
        status = RQL_OK;
    }
    rqli_history_note_release(lock, status);
}

void rqli_series_on_returned(const rql_series *series, rql_status status)
{
    int64_t now_us = rqli_now_us();

    for (size_t i = 0; i < series->count; i++) {
        const struct rqli_figures figures = {.status = status,
                                             .hold_time_us = now_us - series->locks[i]->held_us};

        rqli_observe(RQLI_ON_PART_ENDED, &series->locks[i]->subject, &figures);
        note_end(series->locks[i], status);
    }
}

static void report_obtained(struct rqli_series_acquire *self, const rql_series *series)
{
    const struct rqli_figures figures = {
        .ts_us = series->locks[series->count - 1]->ts_us,
        .acq_time_us = series->acq_time_us,
    };

    if (self->plan.stops_renewal) {
        rqli_leases_stop_renewal(series->client->leases, series->locks, series->count);
    }
    rqli_observe(RQLI_ON_SERIES_OBTAINED, &series->subject, &figures);
    self->result.ending = RQL_SERIES_BY_TTL;
}

rql_series *rqli_series_conclude(struct rqli_series_acquire *self)
{
    rql_series *series = self->series;

    self->result.reason = self->status;
    if (series) {
        series->held_us = rqli_now_us();
        series->acq_time_us = series->held_us - self->begun_us;
        self->result.waited_us = series->acq_time_us;
    }
    if (series && !self->status) {
        report_obtained(self, series);
    }
    if (self->plan.options.result) {
        rqli_result_fill(self->plan.options.result, self->plan.options.result->size, &self->result,
                         sizeof self->result);
    }
    return self->status ? rqli_series_free(series) : series;
}

/* ---- the end ---- */

void rqli_series_note_ended(const rql_series *series, rql_status status, rql_series_result *result)
{
    if (result) {
        result->held_us = rqli_now_us() - series->held_us;
        result->ending = status < 0 ? RQL_SERIES_NOT_ENDED : RQL_SERIES_BY_RELEASE;
    }
}

void rqli_series_on_released(const rql_series *series, rql_status status, rql_series_result *result)
{
    struct rqli_figures figures = {.status = status, .acq_time_us = series->acq_time_us};

    rqli_series_on_returned(series, status);
    if (series->subject.instrumenter) {
        figures.ts_us = rqli_server_clock_now_us(series->client);
        figures.hold_time_us = rqli_now_us() - series->held_us;
        rqli_observe(RQLI_ON_SERIES_ENDED, &series->subject, &figures);
    }
    rqli_series_note_ended(series, status, result);
}
