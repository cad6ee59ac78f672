#include "base/clock.h"
#include "lock/client.h"
#include "lock/end.h"
#include "lock/leases.h"
#include "wire/answer.h"

/*
 * Lazy releases: sent, and reported as done, before the server has answered. Nearly always the next
 * release finds the answer of the one before, and that is all. The background thread does the rest:
 * it reports as a loss every result other than RQL_OK that a release that waits would have
 * returned.
 */

enum {
    START_US = 20000, /* for the thread to start running, once */
    LOOK_US = 100000, /* while there are any; one look for all is cheaper than a wake-up for each */
    LAST_LOOK_US = 5000, /* when the client ends */
    /* Unsettled at the same time: some of each thread. A thread that does nothing but release waits
     * for the server. */
    MOST = 256
};

/* Here and below the caller holds the mutex of the leases, unless the comment says otherwise.
 * Returns NULL if there is none. */
static rql_lock *first(const struct rqli_leases *self)
{
    return rqli_lease_of(self->shared.unsettled.first);
}

static void take_out(struct rqli_leases *self, const rql_lock *lock)
{
    rqli_dlist_remove(&self->shared.unsettled, &lock->kept.link);
}

/* Frees a release that is over and leaves nothing to do. */
static void drop(struct rqli_leases *self, rql_lock *lock)
{
    self->n_unsettled--;
    rqli_exchange_give(lock->release);
    (void)rqli_lock_free(lock);
}

/* True: the lock is released, and the queue was served. This is the usual answer. */
static bool is_confirmed(const rql_lock *lock)
{
    struct rqli_outcome outcome;

    return lock->release && rqli_exchange_is_answered(lock->release) &&
           rqli_outcome_read(lock->release->reply, &outcome) && outcome.what == 1 &&
           outcome.second != RQLI_SERVED_PARTLY;
}

void rqli_leases_settle_later(struct rqli_leases *self, rql_lock *lock,
                              struct rqli_exchange *release)
{
    rql_lock *before;

    lock->release = release;
    lock->released_us = release->sent_us;
    lock->is_released = true;
    (void)pthread_mutex_lock(&self->shared.mutex);
    for (before = first(self); before && is_confirmed(before); before = first(self)) {
        take_out(self, before);
        drop(self, before);
    }
    rqli_dlist_add(&self->shared.unsettled, &lock->kept.link);
    self->n_unsettled++;
    (void)rqli_worker_rouse(&self->worker, release->sent_us + LOOK_US);
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* Caller does not hold the mutex. */
bool rqli_leases_may_settle(struct rqli_leases *self)
{
    if (!rqli_worker_runs(&self->worker)) {
        rqli_leases_prepare(self, rqli_now_us() + START_US);
    }
    return rqli_worker_runs(&self->worker) && self->n_unsettled < MOST;
}

int64_t rqli_leases_unsettled_us(const struct rqli_leases *self)
{
    if (self->n_unsettled == 0) {
        return RQLI_NEVER_US;
    }
    if (self->shared.settles_on) {
        return 0;
    }
    return rqli_now_us() + (self->shared.shall_stop ? LAST_LOOK_US : LOOK_US);
}

/* ---- on the thread, without the mutex ---- */

static void withdraw(struct rqli_leases *self, const rql_lock *lock)
{
    const struct rqli_withdrawal_of what = rqli_lock_withdrawal(lock);

    rqli_leases_withdraw(self, &what, lock->ttl_ms);
}

/* Returns the status that rql_lock_release() would. A release that served only a part of the queue
 * is withdrawn as well, which serves the rest. */
static rql_status understand(struct rqli_leases *self, const rql_lock *lock,
                             const struct rqli_exchange *answer)
{
    struct rqli_outcome outcome;
    rql_error fault;

    if (!rqli_outcome_read(answer->reply, &outcome)) {
        return rqli_exchange_fault(answer, answer->reply, "release", lock->name, &fault);
    }
    if (outcome.second == RQLI_SERVED_PARTLY) {
        withdraw(self, lock);
    }
    return outcome.what == 1 || lock->may_have_ended ? RQL_OK : RQL_NOT_HELD;
}

/* Waits for the answer to the release that was sent. RQL_E_IO: the release was not done, and is to
 * be repeated. */
static rql_status await_release(struct rqli_leases *self, rql_lock *lock, int64_t until_us)
{
    rql_status status = rqli_exchange_await(lock->release, until_us, NULL);

    if (status && !rqli_exchange_is_over(lock->release)) {
        return status; /* still on its way */
    }
    if (!status && rqli_reply_wants_text(lock->release->reply)) {
        rqli_conn_forget_scripts(lock->release->carrier);
        status = RQL_E_IO;
    } else if (!status) {
        status = understand(self, lock, lock->release);
    }
    lock->may_have_ended = status == RQL_E_UNKNOWN;
    rqli_exchange_give(lock->release);
    lock->release = NULL;
    return status;
}

/* Repeats the release over the thread's own connection. The stream has broken, so a thread that has
 * acquired the lock since then may have found it not released, and entered again the grant that
 * ends now. */
static rql_status release_again(struct rqli_leases *self, rql_lock *lock, int64_t until_us)
{
    const struct rqli_slice nonce = rqli_slice_of(lock->nonce);
    struct rqli_op_route route = rqli_client_route(self->client, &lock->keys);
    struct rqli_exchange *answer = NULL;
    struct rqli_call call;
    rql_status status;

    route.use = RQLI_OP_IN_BACKGROUND;
    rqli_call_init(&call, RQLI_SCRIPT_RELEASE, &lock->keys);
    rqli_call_text(&call, lock->nonce);
    rqli_call_random(&call);
    lock->is_repeated = true;
    rqli_leases_on_taken(self, nonce);
    status = rqli_call_run(&route, &call, until_us, &answer, NULL);
    rqli_leases_on_taken(self, nonce);
    if (!status) {
        status = understand(self, lock, answer);
    }
    lock->may_have_ended = lock->may_have_ended || status == RQL_E_UNKNOWN;
    rqli_exchange_give(answer);
    return status;
}

/* Reports the loss that a synchronous release would have returned as its status. The handle stays
 * valid until the callback returns. */
static void tell(struct rqli_leases *self, rql_lock *lock, rql_status status)
{
    struct rqli_figures figures = rqli_lock_figures(lock);

    figures.status = status;
    rqli_leases_on_gone(self, lock);
    rqli_observe(RQLI_ON_RELEASE_LOST, &lock->subject, &figures);
    if (lock->on_lost) {
        lock->on_lost(lock, lock->user_data);
        /* The callback may have asked for a descriptor, which would be watched. */
        rqli_leases_remove(self, &lock, 1);
    }
}

/* False: the result is not known, and there is still time. */
static bool settle(struct rqli_leases *self, rql_lock *lock, int64_t until_us, int64_t end_us)
{
    rql_status status = RQL_E_IO;

    if (lock->release) {
        status = await_release(self, lock, until_us);
    }
    if (!lock->release && rqli_end_may_pass(status)) {
        status = release_again(self, lock, until_us);
    }
    if (rqli_end_may_pass(status)) {
        if (rqli_now_us() < end_us) {
            return false;
        }
        withdraw(self, lock);
    }
    rqli_exchange_give(lock->release); /* not under the mutex of the leases: it may be on its way */
    lock->release = NULL;
    if (status) {
        tell(self, lock, status);
    }
    return true;
}

/* ---- on the thread, under the mutex ---- */

/* True: the answer is left to the next release, because a thread that looked for it now would only
 * get in the way of the threads that read. */
static bool is_young(const struct rqli_leases *self, const rql_lock *lock)
{
    return lock->release && !rqli_exchange_is_over(lock->release) && !self->shared.shall_stop &&
           rqli_now_us() - lock->released_us < LOOK_US;
}

/* Settles releases until one has no answer, because the later ones have none either, unless they
 * are another node's. Also stops when one had to be repeated, because many may have to be, and a
 * renewal may be due. Releases the mutex while it settles. */
void rqli_leases_settle(struct rqli_leases *self)
{
    rql_lock *lock = first(self);
    bool goes_on = true;

    self->shared.settles_on = false;
    while (lock && goes_on && !self->shared.settles_on && !is_young(self, lock)) {
        int64_t end_us = rqli_client_budget_us(self->client, lock->released_us);
        int64_t until_us = rqli_now_us() + rqli_client_grace_us(self->client);

        take_out(self, lock);
        if (self->shared.shall_stop) {
            end_us = rqli_earlier(end_us, self->shared.stop_us);
        }
        until_us = rqli_earlier(rqli_earlier(until_us, end_us), rqli_leases_budget_us(self));
        (void)pthread_mutex_unlock(&self->shared.mutex);
        goes_on = settle(self, lock, until_us, end_us);
        (void)pthread_mutex_lock(&self->shared.mutex);
        if (goes_on) {
            self->shared.settles_on = lock->is_repeated;
            drop(self, lock);
        } else if (self->client->is_partitioned) {
            rqli_dlist_add(&self->shared.unsettled, &lock->kept.link);
        } else {
            rqli_dlist_add_first(&self->shared.unsettled, &lock->kept.link);
        }
        lock = first(self);
    }
}
