#include "observe/observe.h"
#include "options/options.h"

#include "base/clock.h"
#include "base/random.h"
#include "lock/acquire.h"
#include "lock/client.h"
#include "observe/observe_inside.h"
#include "observe/stats.h"

/* The gem's weights: 15 is 16 of 101, and 0 is still 1 of 101 (wire.md 11). */
static bool is_drawn(int64_t percent)
{
    return percent >= rqli_random_below(101);
}

static bool is_logged(const rql_options *client, const rql_lock_options *options)
{
    if (!options->logger || !client->log_sampling_enabled || options->log_sample_this) {
        return options->logger != NULL;
    }
    return client->log_sampler
               ? client->log_sampler(client->log_sampling_percent, client->log_sampler_data)
               : is_drawn(client->log_sampling_percent);
}

static bool is_instrumented(const rql_options *client, const rql_lock_options *options)
{
    if (!options->instrumenter || !client->instr_sampling_enabled || options->instr_sample_this) {
        return options->instrumenter != NULL;
    }
    return client->instr_sampler
               ? client->instr_sampler(client->instr_sampling_percent, client->instr_sampler_data)
               : is_drawn(client->instr_sampling_percent);
}

rql_status rqli_listeners_check(rql_log_fn logger, rql_event_fn instrumenter, rql_error *error)
{
    (void)logger;
    (void)instrumenter;
    (void)error;
    return RQL_OK;
}

void rqli_observe_init(struct rqli_listeners *self, const rql_client *client,
                       const rql_lock_options *options)
{
    *self = (struct rqli_listeners){
        .logger = is_logged(&client->options, options) ? options->logger : NULL,
        .logger_data = options->logger_data,
        .instrumenter = is_instrumented(&client->options, options) ? options->instrumenter : NULL,
        .instrumenter_data = options->instrumenter_data,
        .instrument = options->instrument,
        .ttl_ms = options->ttl_ms,
        .queue_ttl_ms = options->queue_ttl_ms,
        .access_strategy = options->access_strategy,
        .logs_tries = options->log_lock_try,
    };
}

static struct rqli_stats *stats_of(const rql_lock *lock)
{
    return lock->client->stats;
}

static void count(const rql_lock *lock, enum rqli_stat what, int64_t n)
{
    rqli_stats_count(stats_of(lock), (rqli_stats_shard)lock->owner_thread, what, n);
}

static void time_it(const rql_lock *lock, enum rqli_stat_time what, int64_t time_us)
{
    rqli_stats_time(stats_of(lock), (rqli_stats_shard)lock->owner_thread, what, time_us);
}

static void send_event(const rql_lock *lock, rql_event_kind kind)
{
    struct rql_event event = rqli_event_of_lock(kind, lock);

    rqli_event_send(&event, &lock->listeners);
}

void rqli_observe_started(const rql_lock *lock)
{
    rqli_log_plain(lock, "start_lock_obtaining");
}

/* The gem calls the host host_id in this one line. */
static void begin_obtained(struct rqli_log_line *line, const rql_lock *lock)
{
    const struct rqli_log_subject subject = {&lock->listeners, lock->acquirer, lock->host};

    if (lock->process != RQL_EXTENDABLE_CONFLICT_WORK_THROUGH) {
        rqli_log_begin_lock(
            line, lock->process == RQL_LOCK_OBTAINING ? "lock_obtained" : "reentrant_lock_obtained",
            lock);
        return;
    }
    rqli_log_begin(line, "extendable_reentrant_lock_obtained");
    rqli_log_quoted(line, "lock_key", lock->keys.lock.data);
    rqli_log_common(line, &subject, "host_id");
}

static void log_obtained(const rql_lock *lock)
{
    struct rqli_log_line line;

    begin_obtained(&line, lock);
    rqli_log_number(&line, "acq_time", RQL_LOG_MS, lock->waited_us);
    rqli_log_send(&line, &lock->listeners);
}

static void tell_obtained(const rql_lock *lock)
{
    static const rql_event_kind kinds[] = {
        [RQL_LOCK_OBTAINING] = RQL_EVENT_LOCK_OBTAINED,
        [RQL_CONFLICT_WORK_THROUGH] = RQL_EVENT_REENTRANT_LOCK_OBTAINED,
        [RQL_EXTENDABLE_CONFLICT_WORK_THROUGH] = RQL_EVENT_EXTENDABLE_REENTRANT_LOCK_OBTAINED,
    };

    if (lock->handed_over) {
        send_event(lock, RQL_EVENT_LOCK_HANDED_OVER);
    }
    send_event(lock, kinds[lock->process]);
}

void rqli_observe_obtained(const rql_lock *lock)
{
    bool is_first = lock->process == RQL_LOCK_OBTAINING;

    count(lock, is_first ? RQLI_STAT_ACQUISITIONS : RQLI_STAT_REENTRIES, 1);
    time_it(lock, RQLI_STAT_WAIT, lock->waited_us);
    if (lock->handed_over) {
        count(lock, RQLI_STAT_HAND_OVERS, 1);
    }
    if (lock->hand_off_us >= 0) {
        time_it(lock, RQLI_STAT_HAND_OFF, lock->hand_off_us);
    }
    if (lock->listeners.logger) {
        log_obtained(lock);
    }
    if (lock->listeners.instrumenter) {
        tell_obtained(lock);
    }
}

void rqli_observe_asked(const rql_lock *lock, const struct rqli_acquire_result *result)
{
    count(lock, RQLI_STAT_TRIES, result->tries);
    if (result->asked > 1) {
        count(lock, RQLI_STAT_POLLS, result->asked - 1);
    }
}

/* What takes a request out of its queue. The gem says nothing of faults; a conflict that was found
 * without the server has queued nothing. */
static bool is_dequeued(const struct rqli_acquire_result *result, rql_status status)
{
    return status > 0 && status != RQL_FAIL_FAST_NO_TRY && result->asked > 0;
}

void rqli_observe_refused(const rql_lock *lock, const struct rqli_acquire_result *result,
                          rql_status status)
{
    rql_event_kind kind =
        status == RQL_TIMED_OUT ? RQL_EVENT_LOCK_TIMED_OUT : RQL_EVENT_LOCK_FAILED;
    struct rql_event event;

    rqli_stats_refusal(stats_of(lock), (rqli_stats_shard)lock->owner_thread, status);
    if (is_dequeued(result, status)) {
        rqli_log_plain(lock, "fail_fast_or_limits_reached_or_deadlock__dequeue");
    }
    if (lock->listeners.instrumenter) {
        event = rqli_event_of_request(kind, lock);
        event.acq_time_us = result->waited_us;
        event.status = status;
        rqli_event_send(&event, &lock->listeners);
    }
}

void rqli_observe_extended(const rql_lock *lock, int64_t ttl_ms)
{
    struct rql_event event;

    count(lock, RQLI_STAT_EXTENSIONS, 1);
    if (lock->listeners.instrumenter) {
        event = rqli_event_of_lock(RQL_EVENT_LOCK_EXTENDED, lock);
        event.ttl_ms = ttl_ms;
        rqli_event_send(&event, &lock->listeners);
    }
}

void rqli_observe_renewed(const rql_lock *lock)
{
    count(lock, RQLI_STAT_RENEWALS, 1);
}

bool rqli_observe_tells(const rql_lock *lock)
{
    return lock->listeners.instrumenter != NULL;
}

void rqli_observe_lost(const rql_lock *lock)
{
    count(lock, RQLI_STAT_LOST, 1);
    if (lock->listeners.instrumenter) {
        send_event(lock, RQL_EVENT_LOCK_LOST);
    }
}

void rqli_observe_ending(const rql_lock *lock)
{
    if (lock->process == RQL_LOCK_OBTAINING) {
        rqli_log_plain(lock, "expire_lock");
    }
}

void rqli_observe_decreasing(const rql_lock *lock, int64_t unused_ms)
{
    const struct rqli_log_subject subject = {&lock->listeners, lock->acquirer, lock->host};
    struct rqli_log_line line;

    if (lock->listeners.logger) {
        rqli_log_begin(&line, "decrease_lock");
        rqli_log_quoted(&line, "lock_key", lock->keys.lock.data);
        rqli_log_number(&line, "decreased_ttl", RQL_LOG_INTEGER, unused_ms);
        rqli_log_common(&line, &subject, "hst_id");
        rqli_log_send(&line, &lock->listeners);
    }
}

void rqli_observe_end_of_part(const rql_lock *lock, int64_t now_us, rql_status status)
{
    enum rqli_stat what = status < 0 ? RQLI_STAT_RELEASES_FAILED : RQLI_STAT_RELEASES_NOT_HELD;

    count(lock, status == RQL_OK ? RQLI_STAT_RELEASES : what, 1);
    time_it(lock, RQLI_STAT_HOLD, now_us - lock->held_us);
}

void rqli_observe_ended(const rql_lock *lock, rql_status status)
{
    int64_t now_us = rqli_now_us();
    struct rql_event event;

    rqli_observe_end_of_part(lock, now_us, status);
    if (lock->listeners.instrumenter) {
        event = rqli_event_of_lock(lock->process == RQL_LOCK_OBTAINING
                                       ? RQL_EVENT_LOCK_HOLD_AND_RELEASE
                                       : RQL_EVENT_REENTRANT_LOCK_HOLD_COMPLETES,
                                   lock);
        event.hold_time_us = now_us - lock->held_us;
        event.status = status;
        rqli_event_send(&event, &lock->listeners);
    }
}
