#include "lock/late.h"

#include "base/clock.h"
#include "lock/background.h"
#include "lock/client.h"
#include "lock/held_calls.h"
#include "lock/leases.h"
#include "lock/withdraw.h"
#include "net/conn/batch_threads.h"
#include "observe/observe.h"
#include "wire/answer.h"

/*
 * A lazy release is sent, and reported as done, before the server has answered. Nearly always the
 * next release finds the answer of the one before, and that is all. The thread in the background
 * does the rest: it repeats the release if no answer comes, and reports as a loss every result
 * other than RQL_OK that a release that waits would have returned.
 */

enum {
    START_US = 20000, /* for the thread to start running, once */
    LOOK_US = 100000, /* while there are any; one look for all is cheaper than a wake-up for each */
    LAST_LOOK_US = 5000, /* when the client ends */
    /* Without an answer at the same time: some of each thread. A thread that does nothing but
       release waits for the server. */
    LATE_MAX = 256
};

bool rqli_late_has_room(struct rqli_background *background)
{
    if (!rqli_worker_runs(&background->worker)) {
        rqli_background_start(background, rqli_now_us() + START_US);
    }
    return rqli_worker_runs(&background->worker) && background->n_late < LATE_MAX;
}

/* The callers of the static functions from here on hold the mutex of the background. Returns the
 * oldest release that waits for its answer, or NULL. */
static rql_lock *first_late(const struct rqli_background *background)
{
    return rqli_lock_of_link(background->shared.late.first);
}

/* Frees a release that is over and leaves nothing to do. It is in no list any more. */
static void free_late(rql_lock *lock)
{
    struct rqli_background *background = lock->client->background;

    background->n_late--;
    rqli_batch_give(lock->release);
    (void)rqli_lock_free(lock);
}

/* True: the lock is released, and the queue was served. This is the usual answer. */
static bool is_confirmed(const rql_lock *lock)
{
    struct rqli_outcome outcome;

    return lock->release && rqli_batch_is_answered(lock->release) &&
           rqli_outcome_read(lock->release->reply, &outcome) &&
           rqli_held_has_ended(lock, &outcome) && outcome.second != RQLI_SERVED_PARTLY;
}

/* Returns the status that rql_lock_release() would. A release that served only a part of the queue
 * is withdrawn as well, which serves the rest. Caller does not hold the mutex. */
static rql_status understand_late(rql_lock *lock, const struct rqli_batch *answer,
                                  const struct rqli_reply *reply)
{
    struct rqli_outcome outcome;
    rql_error fault;

    if (!rqli_outcome_read(reply, &outcome)) {
        return rqli_batch_fault(answer, reply, "release", lock->name, &fault);
    }
    if (outcome.second == RQLI_SERVED_PARTLY) {
        rqli_withdraw_lock_later(lock, lock->ttl_ms);
    }
    return rqli_held_has_ended(lock, &outcome) || lock->may_have_ended ? RQL_OK : RQL_NOT_HELD;
}

/* Its acquirer may have entered the lock again while another thread released it, and that re-entry
 * ends with the grant. Releases the mutex meanwhile. */
static void lose_grant(const rql_lock *lock)
{
    rqli_withdraw_from_reentries(lock->client, lock->nonce);
}

/* Reports as a loss what a release that waits would have returned as its status. The handle stays
 * valid until the callback returns. Caller does not hold the mutex. */
static void report_late(rql_lock *lock, rql_status status)
{
    struct rqli_figures figures = rqli_lock_figures(lock);
    struct rqli_leases *leases = lock->client->leases;

    figures.status = status;
    rqli_leases_on_gone(leases, lock);
    rqli_observe(RQLI_ON_RELEASE_LOST, &lock->subject, &figures);
    if (lock->on_lost) {
        lock->on_lost(lock, lock->user_data);
        /* The callback may have asked for a descriptor, which would be watched. */
        rqli_leases_remove(leases, &lock, 1);
    }
}

/* Ends a late release with this status. It stays in its list until a withdrawal has taken its
 * place: at no time may its acquirer look as if nothing of it were under way. */
static void finish_late(rql_lock *lock, rql_status status)
{
    struct rqli_background *background = lock->client->background;

    lose_grant(lock);
    rqli_background_unlock(background);
    if (rqli_held_fault_may_pass(status)) {
        rqli_withdraw_lock_later(lock, lock->ttl_ms);
    }
    rqli_batch_give(lock->release); /* without the mutex: it may be on its way */
    rqli_background_lock(background);
    lock->release = NULL;
    rqli_dlist_remove(&background->shared.settling, &lock->kept.link);
    if (status) {
        rqli_background_unlock(background);
        report_late(lock, status);
        rqli_background_lock(background);
    }
    free_late(lock);
}

/* Returns until when the result of a late release may become known. */
static int64_t late_until_us(const rql_lock *lock)
{
    return rqli_earlier(rqli_client_until_us(lock->client, lock->released_us),
                        lock->client->background->shared.stop_us);
}

static int64_t next_late_look_us(const struct rqli_background *background)
{
    return rqli_now_us() + (rqli_background_is_ending(background) ? LAST_LOOK_US : LOOK_US);
}

/* Gives up the room of the repetition, and ends the release. */
static void finish_repetition(rql_lock *lock, rql_status status)
{
    rqli_background_drop(lock->client->background, &lock->kept.duty);
    finish_late(lock, status);
}

static bool begin_repetition(struct rqli_duty *duty, int64_t now_us)
{
    rql_lock *lock = rqli_lock_of_duty(duty);

    if (now_us >= late_until_us(lock)) {
        finish_repetition(lock, lock->may_have_ended ? RQL_E_UNKNOWN : RQL_E_IO);
        return false;
    }
    lose_grant(lock);
    return true;
}

static void write_repetition(struct rqli_duty *duty, struct rqli_call *call)
{
    rqli_held_write_release(rqli_lock_of_duty(duty), call);
}

static void read_repetition(struct rqli_duty *duty, const struct rqli_batch *answer,
                            const struct rqli_reply *reply, rql_status fault)
{
    rql_lock *lock = rqli_lock_of_duty(duty);
    struct rqli_background *background = lock->client->background;
    rql_status status = fault;

    lose_grant(lock);
    if (reply) {
        rqli_background_unlock(background);
        status = understand_late(lock, answer, reply);
        rqli_background_lock(background);
    }
    lock->may_have_ended = lock->may_have_ended || status == RQL_E_UNKNOWN;
    if (rqli_held_fault_may_pass(status) && rqli_now_us() < late_until_us(lock)) {
        rqli_background_set(background, duty, next_late_look_us(background));
    } else {
        finish_repetition(lock, status);
    }
}

/* Has the release sent again. Returns false if there is no memory for that. */
static bool repeat_late(rql_lock *lock)
{
    static const struct rqli_duty_ops repetition_ops = {
        .begin = begin_repetition, .write = write_repetition, .read = read_repetition};

    struct rqli_duty *duty = &lock->kept.duty;

    *duty = (struct rqli_duty){.ops = &repetition_ops, .set = lock->keys.set};
    if (!rqli_background_reserve(lock->client->background, duty)) {
        return false;
    }
    rqli_background_set(lock->client->background, duty, rqli_now_us());
    return true;
}

/* Looks for the answer to a release that was sent, until until_us. Returns true if that is over;
 * the status is RQL_E_IO if the release was not done. Releases the mutex meanwhile. */
static bool await_release(rql_lock *lock, int64_t until_us, rql_status *status)
{
    struct rqli_batch *release = lock->release;
    bool is_over;

    rqli_background_unlock(lock->client->background);
    *status = rqli_batch_await(release, until_us, NULL);
    is_over = rqli_batch_is_over(release);
    if (is_over && !*status && rqli_reply_wants_text(release->reply)) {
        rqli_conn_forget_scripts(release->carrier);
        *status = RQL_E_IO;
    } else if (is_over && !*status) {
        *status = understand_late(lock, release, release->reply);
    }
    if (is_over) {
        lock->may_have_ended = *status == RQL_E_UNKNOWN;
        rqli_batch_give(release);
        lock->release = NULL;
    }
    rqli_background_lock(lock->client->background);
    return is_over;
}

/* Finds out the result of a release. False: it is not known, and there is still time. */
static bool settle_late(rql_lock *lock, int64_t wait_until_us)
{
    int64_t until_us = late_until_us(lock);
    rql_status status = RQL_E_IO;
    bool is_over =
        !lock->release || await_release(lock, rqli_earlier(wait_until_us, until_us), &status);

    if (is_over && rqli_held_fault_may_pass(status) && rqli_now_us() < until_us) {
        return repeat_late(lock);
    }
    if (!is_over && rqli_now_us() < until_us) {
        return false;
    }
    finish_late(lock, status);
    return true;
}

/* True: the answer is left to the next release, because a thread that looked for it now would only
 * get in the way of the threads that read. */
static bool is_young(const rql_lock *lock)
{
    return lock->release && !rqli_batch_is_over(lock->release) &&
           !rqli_background_is_ending(lock->client->background) &&
           rqli_now_us() - lock->released_us < LOOK_US;
}

/* It was not settled. */
static void put_back(struct rqli_background *background, rql_lock *lock)
{
    rqli_dlist_remove(&background->shared.settling, &lock->kept.link);
    if (lock->client->is_partitioned) {
        rqli_dlist_add(&background->shared.late, &lock->kept.link);
    } else {
        rqli_dlist_add_first(&background->shared.late, &lock->kept.link);
    }
}

/* Settles releases until one has no answer, because the later ones have none either, unless they
 * are another node's. */
static void look_for_answers(struct rqli_due *due)
{
    struct rqli_background *background = RQLI_OWNER(due, struct rqli_background, shared.late_look);
    rql_lock *lock = first_late(background);
    bool goes_on = true;

    while (lock && goes_on && !is_young(lock)) {
        int64_t until_us = rqli_now_us() + rqli_client_grace_us(lock->client);

        rqli_dlist_remove(&background->shared.late, &lock->kept.link);
        rqli_dlist_add(&background->shared.settling, &lock->kept.link);
        goes_on =
            settle_late(lock, rqli_earlier(until_us, rqli_background_wait_until_us(background)));
        if (!goes_on) {
            put_back(background, lock);
        }
        lock = first_late(background);
    }
    if (lock) {
        rqli_background_look(background, due, next_late_look_us(background));
    }
}

void rqli_release_settle_later(rql_lock *lock, struct rqli_batch *release)
{
    struct rqli_background *background = lock->client->background;
    rql_lock *before;

    lock->release = release;
    lock->released_us = release->sent_us;
    lock->is_released = true;
    rqli_background_lock(background);
    for (before = first_late(background); before && is_confirmed(before);
         before = first_late(background)) {
        rqli_dlist_remove(&background->shared.late, &before->kept.link);
        lose_grant(before);
        free_late(before);
    }
    rqli_dlist_add(&background->shared.late, &lock->kept.link);
    background->n_late++;
    background->shared.late_look.fire = look_for_answers;
    rqli_background_look(background, &background->shared.late_look, release->sent_us + LOOK_US);
    rqli_background_unlock(background);
}

/* A release of this acquirer was counted before its caller could ask again. */
bool rqli_release_is_late(rql_client *client, const char *name, const char *acquirer)
{
    struct rqli_background *background = client->background;
    bool is_late = false;

    if (atomic_load_explicit(&background->n_late, memory_order_relaxed) == 0) {
        return false;
    }
    rqli_background_lock(background);
    for (struct rqli_dlink *at = background->shared.settling.first; at && !is_late; at = at->next) {
        is_late = rqli_lock_is_of(rqli_lock_of_link(at), name, acquirer);
    }
    for (struct rqli_dlink *at = background->shared.late.first; at && !is_late; at = at->next) {
        const rql_lock *lock = rqli_lock_of_link(at);

        is_late = rqli_lock_is_of(lock, name, acquirer) && !is_confirmed(lock);
    }
    rqli_background_unlock(background);
    return is_late;
}
