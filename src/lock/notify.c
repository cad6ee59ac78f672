#include "lock/notify.h"

#include "base/clock.h"
#include "lock/acquisition.h"
#include "lock/client.h"
#include "lock/history.h"

/*
 * Decides when to log a line or send an event about a lock, and which: as the gem does.
 */

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

void rqli_notify_refused(const struct rqli_subject *subject,
                         const struct rqli_acquire_result *result, rql_status status)
{
    const struct rqli_figures figures = {.status = status, .acq_time_us = result->waited_us};
    /* A conflict that was found without the server has queued nothing. */
    const bool may_be_queued = status > 0 && status != RQL_FAIL_FAST_NO_TRY &&
                               status != RQL_QUEUE_FULL && result->asked > 0;

    if (!subject->is_series && may_be_queued) { /* the gem reports nothing for faults */
        rqli_observe(RQLI_ON_DEQUEUED, subject, NULL);
    }
    if (status == RQL_TIMED_OUT) {
        rqli_observe(RQLI_ON_TIMED_OUT, subject, &figures);
    } else {
        rqli_observe(RQLI_ON_FAILED, subject, &figures);
    }
}

/* Announces the end of a grant. The end of an extendable re-entry is announced in end.c, where it
 * is known how much it gives back; the other kind gives nothing back. */
void rqli_notify_ending(const rql_lock *lock)
{
    if (lock->process == RQL_LOCK_OBTAINING) {
        rqli_observe(RQLI_ON_ENDING, &lock->subject, NULL);
    }
}

void rqli_notify_ended(const rql_lock *lock, rql_status status)
{
    /* The lock is off the leases by now, and its handle is not freed yet. */
    struct rqli_figures figures = rqli_lock_figures(lock);

    rqli_history_note_release(lock, status);
    figures.status = status;
    figures.hold_time_us = rqli_now_us() - lock->held_us;
    if (lock->process == RQL_LOCK_OBTAINING) {
        rqli_observe(RQLI_ON_ENDED, &lock->subject, &figures);
    } else {
        rqli_observe(RQLI_ON_REENTRY_ENDED, &lock->subject, &figures);
    }
}

struct rqli_subject rqli_subject_of_call(const rql_client *client)
{
    struct rqli_subject subject = {.stats = client->stats};
    rql_lock_options options = client->of_calls;

    /* These calls log no lines. Their events are sampled as those of a lock are. */
    options.logger = NULL;
    rqli_subject_listen(&subject, &client->options, &options);
    return subject;
}

struct rqli_subject rqli_subject_of_client(const rql_client *client)
{
    return (struct rqli_subject){
        .stats = client->stats,
        .logger = client->options.logger,
        .logger_data = client->options.logger_data,
        .instrumenter = client->options.instrumenter,
        .instrumenter_data = client->options.instrumenter_data,
    };
}
