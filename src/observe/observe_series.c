#include "observe/observe_series.h"

#include "base/clock.h"
#include "base/ident.h"
#include "lock/client.h"
#include "observe/observe.h"
#include "observe/observe_inside.h"
#include "observe/stats.h"

#include <stdlib.h>

void rqli_observe_series_init(rql_series *series, const struct rqli_series_plan *plan)
{
    rqli_observe_init(&series->listeners, series->client, &plan->lock);
}

static void begin_line(struct rqli_log_line *line, const char *name, const struct rql_event *of,
                       const struct rqli_listeners *listeners)
{
    const struct rqli_log_subject subject = {listeners, of->acq_id, of->hst_id};

    rqli_log_begin(line, name);
    rqli_log_list(line, "lock_keys", of->lock_keys, of->n_lock_keys);
    rqli_log_common(line, &subject, "hst_id");
}

static void log_started(const rql_series *series, const struct rqli_series_plan *plan,
                        const char *const *keys)
{
    char acquirer[RQL_ID_SIZE];
    char host[RQL_ID_SIZE];
    const struct rql_event of = {.lock_keys = keys,
                                 .n_lock_keys = plan->options.n_names,
                                 .acq_id = acquirer,
                                 .hst_id = host};
    struct rqli_log_line line;

    rqli_acquirer_id(acquirer, plan->lock.task, series->client->identity);
    rqli_host_id(host, rqli_thread_id(), series->client->identity);
    begin_line(&line, "start_lock_series_obtaining", &of, &series->listeners);
    rqli_log_send(&line, &series->listeners);
}

/* The locks are not made yet. Without memory for their keys the line is not sent. */
void rqli_observe_series_started(const rql_series *series, const struct rqli_series_plan *plan)
{
    const char *texts[RQL_SERIES_MAX];
    char(*memory)[RQLI_KEYS_ROOM] = NULL;

    if (series->listeners.logger) {
        memory = calloc(plan->options.n_names, sizeof *memory);
    }
    if (memory) {
        for (size_t i = 0; i < plan->options.n_names; i++) {
            struct rqli_keys keys;

            rqli_keys_init(&keys, memory[i], rqli_slice_of(plan->options.names[i]));
            texts[i] = keys.lock.data;
        }
        log_started(series, plan, texts);
        free(memory);
    }
}

void rqli_observe_series_member(const rql_series *series, rql_lock_options *options)
{
    options->logger = series->listeners.logger;
    options->log_sample_this = true;
    options->instrumenter = series->listeners.instrumenter;
    options->instr_sample_this = true;
}

void rqli_observe_series_members(rql_series *series)
{
    for (size_t i = 0; i < series->count; i++) {
        series->locks[i]->listeners = series->listeners;
        series->locks[i]->listeners.logs_tries = false; /* its tries are those of all */
    }
}

void rqli_observe_series_taken(const rql_series *series)
{
    for (size_t i = 0; i < series->count; i++) {
        rqli_observe_obtained(series->locks[i]);
    }
}

/* keys: room for its list. */
static struct rql_event event_of(rql_event_kind kind, const rql_series *series,
                                 const char *keys[RQL_SERIES_MAX])
{
    struct rql_event event = rqli_event_of_request(kind, series->locks[0]);

    for (size_t i = 0; i < series->count; i++) {
        keys[i] = series->locks[i]->keys.lock.data;
    }
    event.lock_key = NULL;
    event.lock_keys = keys;
    event.n_lock_keys = series->count;
    event.ttl_ms = series->listeners.ttl_ms;
    event.acq_time_us = series->acq_time_us;
    return event;
}

static void log_obtained(const rql_series *series, const struct rql_event *event)
{
    struct rqli_log_line line;

    begin_line(&line, "lock_series_obtained", event, &series->listeners);
    rqli_log_number(&line, "acq_time", RQL_LOG_MS, series->acq_time_us);
    rqli_log_send(&line, &series->listeners);
}

void rqli_observe_series_obtained(const rql_series *series)
{
    const char *keys[RQL_SERIES_MAX];
    struct rql_event event;

    if (!series->listeners.logger && !series->listeners.instrumenter) {
        return;
    }
    event = event_of(RQL_EVENT_LOCK_SERIES_OBTAINED, series, keys);
    event.ts_us = series->locks[series->count - 1]->ts_us;
    if (series->listeners.logger) {
        log_obtained(series, &event);
    }
    if (series->listeners.instrumenter) {
        rqli_event_send(&event, &series->listeners);
    }
}

void rqli_observe_series_refused(const rql_series *series, const struct rqli_acquire_result *result,
                                 rql_status status)
{
    const char *keys[RQL_SERIES_MAX];
    struct rql_event event;

    rqli_stats_refusal(series->client->stats, (rqli_stats_shard)series->locks[0]->owner_thread,
                       status);
    if (series->listeners.instrumenter) {
        event = event_of(status == RQL_TIMED_OUT ? RQL_EVENT_LOCK_TIMED_OUT : RQL_EVENT_LOCK_FAILED,
                         series, keys);
        event.acq_time_us = result->waited_us;
        event.status = status;
        rqli_event_send(&event, &series->listeners);
    }
}

void rqli_observe_series_returned(const rql_series *series, rql_status status)
{
    int64_t now_us = rqli_now_us();

    for (size_t i = 0; i < series->count; i++) {
        rqli_observe_end_of_part(series->locks[i], now_us, status);
    }
}

void rqli_observe_series_ending(const rql_series *series)
{
    const char *keys[RQL_SERIES_MAX];
    struct rqli_log_line line;
    struct rql_event of;

    if (series->listeners.logger) {
        of = event_of(RQL_EVENT_LOCK_SERIES_HOLD_AND_RELEASE, series, keys);
        begin_line(&line, "expire_lock_series", &of, &series->listeners);
        rqli_log_send(&line, &series->listeners);
    }
}

void rqli_observe_series_ended(const rql_series *series, rql_status status)
{
    const char *keys[RQL_SERIES_MAX];
    struct rql_event event;

    rqli_observe_series_returned(series, status);
    if (series->listeners.instrumenter) {
        event = event_of(RQL_EVENT_LOCK_SERIES_HOLD_AND_RELEASE, series, keys);
        event.ts_us = rqli_event_time_us(series->client);
        event.hold_time_us = rqli_now_us() - series->held_us;
        event.status = status;
        rqli_event_send(&event, &series->listeners);
    }
}
