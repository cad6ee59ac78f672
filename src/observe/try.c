#include "lock/client.h"
#include "observe/observe.h"
#include "observe/observe_inside.h"
#include "observe/stats.h"
#include "wire/answer.h"

/* What one run of acquire.lua proves of the steps that the gem takes one by one; observe.h of the
 * public headers has the list. */

void rqli_observe_try(const rql_lock *lock)
{
    rqli_log_plain(lock, "start_try_to_lock_cycle");
    if (lock->listeners.logs_tries) {
        rqli_log_plain(lock, "try_lock.start");
    }
}

static void log_with_status(const rql_lock *lock, const char *name, const char *spc_status)
{
    struct rqli_log_line line;

    rqli_log_begin_lock(&line, name, lock);
    rqli_log_quoted(&line, "spc_status", spc_status);
    rqli_log_send(&line, &lock->listeners);
}

/* The two lines in front of every end of a conflict. */
static void log_conflict(const rql_lock *lock, const char *spc_status)
{
    rqli_log_plain(lock, "try_lock.same_process_conflict_detected");
    log_with_status(lock, "try_lock.same_process_conflict_analyzed", spc_status);
}

static void log_conflict_at(const rql_lock *lock, const char *name, const char *spc_status,
                            int64_t server_us)
{
    struct rqli_log_line line;

    log_conflict(lock, spc_status);
    rqli_log_begin_lock(&line, name, lock);
    rqli_log_quoted(&line, "spc_status", spc_status);
    rqli_log_number(&line, "last_spc_ts", RQL_LOG_TIME, server_us);
    rqli_log_send(&line, &lock->listeners);
}

static void log_extension(const rql_lock *lock, int64_t server_us)
{
    static const char spc_status[] = "extendable_conflict_work_through";
    struct rqli_log_line line;

    log_conflict(lock, spc_status);
    rqli_log_begin_lock(&line, "try_lock.reentrant_lock__extend_and_work_through", lock);
    rqli_log_quoted(&line, "spc_status", spc_status);
    rqli_log_number(&line, "last_ext_ttl", RQL_LOG_INTEGER, lock->listeners.ttl_ms);
    rqli_log_number(&line, "last_ext_ts", RQL_LOG_TIME, server_us);
    rqli_log_send(&line, &lock->listeners);
}

static void log_grant(const rql_lock *lock, const struct rqli_answer *answer)
{
    if (answer->process == RQL_CONFLICT_WORK_THROUGH) {
        log_conflict_at(lock, "try_lock.reentrant_lock__work_through", "conflict_work_through",
                        answer->server_us);
    } else if (answer->process == RQL_EXTENDABLE_CONFLICT_WORK_THROUGH) {
        log_extension(lock, answer->server_us);
    } else if (!answer->was_handed_over) {
        rqli_log_plain(lock, "try_lock.obtain__free_to_acquire");
    }
}

static void log_steps(const rql_lock *lock, const struct rqli_answer *answer)
{
    rqli_log_plain(lock, "try_lock.rconn_fetched");
    switch (answer->kind) {
    case RQLI_ANSWER_GRANTED:
        log_grant(lock, answer);
        break;
    case RQLI_ANSWER_CONFLICT:
        log_conflict_at(lock, "try_lock.single_process_lock_conflict__dead_lock",
                        "conflict_dead_lock", answer->server_us);
        break;
    case RQLI_ANSWER_QUEUED:
    case RQLI_ANSWER_FAIL_FAST_AFTER_TRY:
        rqli_log_plain(lock, "try_lock.acq_added_to_queue");
        break;
    case RQLI_ANSWER_FAIL_FAST_NO_TRY:
    case RQLI_ANSWER_STALE:
    case RQLI_ANSWER_AGAIN:
        break;
    }
}

static void log_first(const rql_lock *lock)
{
    struct rqli_log_line line;

    rqli_log_begin_lock(&line, "try_lock.get_first_from_queue", lock);
    rqli_log_quoted(&line, "first_acq_id_in_queue", lock->acquirer);
    rqli_log_send(&line, &lock->listeners);
}

void rqli_observe_answer(const rql_lock *lock, const struct rqli_answer *answer)
{
    if (lock->listeners.logger && lock->listeners.logs_tries) {
        log_steps(lock, answer);
    }
}

static void count(const rql_lock *lock, enum rqli_stat what)
{
    rqli_stats_count(lock->client->stats, (rqli_stats_shard)lock->owner_thread, what, 1);
}

static void tell_requeued(const rql_lock *lock)
{
    struct rql_event event;

    count(lock, RQLI_STAT_REQUEUED);
    if (lock->listeners.instrumenter) {
        event = rqli_event_of_request(RQL_EVENT_REQUEST_REQUEUED, lock);
        rqli_event_send(&event, &lock->listeners);
    }
}

void rqli_observe_queued(const rql_lock *lock, const struct rqli_answer *answer,
                         int64_t known_score_us)
{
    bool is_requeued = known_score_us > 0 && answer->score_us > known_score_us;
    bool logs_steps = lock->listeners.logger && lock->listeners.logs_tries;

    if (answer->was_restored) {
        count(lock, RQLI_STAT_RESTORED);
    }
    if (is_requeued && logs_steps) {
        rqli_log_plain(lock, "try_lock.exit__queue_ttl_reached");
    }
    if (is_requeued) {
        rqli_log_plain(lock, "dead_score_reached__reset_acquirer_position");
        tell_requeued(lock);
    } else if (logs_steps && answer->rank == 0) {
        log_first(lock);
    }
}
