#include "lock/notify.h"

#include "base/clock.h"
#include "base/random.h"
#include "lock/client.h"
#include "lock/series.h"

#include <stdlib.h>

void rqli_notify_obtained(const rql_lock *lock)
{
    const struct rqli_figures figures = rqli_lock_figures(lock);

    switch (lock->process) {
    case RQL_LOCK_OBTAINING:
        rqli_observe(RQLI_ON_OBTAINED, &lock->subject, &figures);
        break;
    case RQL_CONFLICT_WORK_THROUGH:
        rqli_observe(RQLI_ON_REENTERED, &lock->subject, &figures);
        break;
    case RQL_EXTENDABLE_CONFLICT_WORK_THROUGH:
        rqli_observe(RQLI_ON_REENTERED_WITH_EXTENSION, &lock->subject, &figures);
        break;
    }
}

/* What takes a request out of its queue. The gem says nothing of faults; a conflict that was found
 * without the server has queued nothing. */
static bool is_dequeued(const struct rqli_acquire_result *result, rql_status status)
{
    return status > 0 && status != RQL_FAIL_FAST_NO_TRY && result->asked > 0;
}

void rqli_notify_refused(const struct rqli_subject *subject,
                         const struct rqli_acquire_result *result, rql_status status)
{
    const struct rqli_figures figures = {.status = status, .acq_time_us = result->waited_us};

    if (!subject->is_series && is_dequeued(result, status)) {
        rqli_observe(RQLI_ON_DEQUEUED, subject, NULL);
    }
    if (status == RQL_TIMED_OUT) {
        rqli_observe(RQLI_ON_TIMED_OUT, subject, &figures);
    } else {
        rqli_observe(RQLI_ON_FAILED, subject, &figures);
    }
}

void rqli_notify_ending(const rql_lock *lock)
{
    if (lock->process == RQL_LOCK_OBTAINING) {
        rqli_observe(RQLI_ON_ENDING, &lock->subject, NULL);
    }
}

void rqli_notify_ended(const rql_lock *lock, rql_status status)
{
    struct rqli_figures figures = rqli_lock_figures(lock);

    figures.status = status;
    figures.hold_time_us = rqli_now_us() - lock->held_us;
    if (lock->process == RQL_LOCK_OBTAINING) {
        rqli_observe(RQLI_ON_ENDED, &lock->subject, &figures);
    } else {
        rqli_observe(RQLI_ON_REENTRY_ENDED, &lock->subject, &figures);
    }
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
    rqli_host_id(host, rqli_thread_id(), series->client->identity);
    rqli_observe(RQLI_ON_SERIES_STARTED, &subject, NULL);
}

void rqli_notify_series_started(const rql_series *series, const struct rqli_series_plan *plan)
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

            rqli_keys_init(&of_lock, memory[i], rqli_slice_of(plan->options.names[i]));
            keys[i] = of_lock.lock.data;
        }
        log_started(series, plan->lock.task, keys, n);
        free(memory);
    }
}

void rqli_notify_series_returned(const rql_series *series, rql_status status)
{
    int64_t now_us = rqli_now_us();

    for (size_t i = 0; i < series->count; i++) {
        const struct rqli_figures figures = {.status = status,
                                             .hold_time_us = now_us - series->locks[i]->held_us};

        rqli_observe(RQLI_ON_PART_ENDED, &series->locks[i]->subject, &figures);
    }
}

void rqli_notify_series_ended(const rql_series *series, rql_status status)
{
    struct rqli_figures figures = {.status = status, .acq_time_us = series->acq_time_us};

    rqli_notify_series_returned(series, status);
    if (series->subject.instrumenter) {
        figures.ts_us = rqli_server_clock_now_us(series->client);
        figures.hold_time_us = rqli_now_us() - series->held_us;
        rqli_observe(RQLI_ON_SERIES_ENDED, &series->subject, &figures);
    }
}

struct rqli_subject rqli_subject_of_call(const rql_client *client)
{
    struct rqli_subject subject = {.stats = client->stats};
    rql_lock_options options = client->of_calls;

    options.logger = NULL;
    rqli_subject_listen(&subject, &client->options, &options);
    return subject;
}

struct rqli_subject rqli_subject_of_swarm(const rql_client *client)
{
    return (struct rqli_subject){
        .stats = client->stats,
        .logger = client->options.logger,
        .logger_data = client->options.logger_data,
        .instrumenter = client->options.instrumenter,
        .instrumenter_data = client->options.instrumenter_data,
    };
}
