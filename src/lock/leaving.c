#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "lock/acquisition.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "lock/wait.h"
#include "lock/withdraw.h"

#include <string.h>

/*
 * An acquisition that is given up leaves its queues: one call for each lock, answered before the
 * caller is. What is not confirmed by then is withdrawn in the background.
 */

enum { NOMEM_PAUSE_US = 5000 };

/* The lock of the i-th call of a round of leaving: that of the i-th bit set. */
static rql_lock *leaving_lock(const struct rqli_acquire *self, size_t i, uint64_t *bit_out)
{
    size_t at = 0;

    while ((self->open >> at & 1) == 0 || i-- > 0) {
        at++;
    }
    *bit_out = UINT64_C(1) << at;
    return rqli_acquire_lock(self, at);
}

void rqli_leave_write(const struct rqli_acquire *self, size_t i, struct rqli_call *call)
{
    uint64_t bit;
    const rql_lock *lock = leaving_lock(self, i, &bit);
    const struct rqli_withdrawal_of what = {lock->keys.set, lock->name, lock->acquirer,
                                            lock->nonce};

    rqli_withdraw_write(&what, &lock->keys, call);
}

/* A withdrawal has io_timeout_ms, or where the deadline comes before that, the time to the deadline
 * and the grace behind it; and half of the grace at least. Not so behind a try that failed after
 * the deadline, in the grace: a silent server is not waited for beyond its end. */
static int64_t leave_until_us(const struct rqli_acquire *self, int64_t now_us)
{
    int64_t until_us = rqli_after_ms(now_us, self->client->options.io_timeout_ms);
    int64_t grace_us = rqli_client_grace_us(self->client);

    if (until_us > self->request.limits.deadline_us) {
        until_us = self->request.limits.deadline_us + grace_us;
    }
    return rqli_later(until_us, self->had_grace ? now_us : now_us + grace_us / 2);
}

/* Nobody waits for it: the leases repeat it until the server confirms, or until a grant that it may
 * have got is over by its ttl. What they need is copied: the handle may be freed at once. */
void rqli_leave_in_background(const struct rqli_acquire *self, const rql_lock *lock)
{
    const struct rqli_withdrawal_of what = {lock->keys.set, lock->name, lock->acquirer,
                                            lock->nonce};

    rqli_leases_withdraw(self->client->leases, &what, self->options->ttl_ms);
}

/* A reply that says that the queue is long asks for another call, which serves the rest of it. What
 * found no memory is tried again, as a release is: the background needs some as well. */
void rqli_leave_read(struct rqli_acquire *self, size_t i, const struct rqli_reply *reply,
                     const rql_error *fault)
{
    uint64_t bit;
    const rql_lock *lock = leaving_lock(self, i, &bit);

    if (reply && rqli_serve_is_due(reply)) {
        self->due |= bit;
    } else if (!reply && !self->serves && fault->status == RQL_E_NOMEM &&
               rqli_now_us() + NOMEM_PAUSE_US < self->op.until_us) {
        self->unsent |= bit;
    } else if (!reply && !self->serves) {
        self->is_confirmed = false;
        rqli_leave_in_background(self, lock);
    }
}

static void send_leaving(struct rqli_acquire *self, uint64_t open)
{
    self->open = open;
    self->due = 0;
    self->op.n_calls = (size_t)__builtin_popcountll(open);
    self->op.again_us = 0;
}

/* Those who time out may do so in a crowd. A try that has used up the grace of its call asks for
 * itself, because it has no time to wait for others; but what waits for replicas has left some of
 * it. */
static bool may_leave_together(const struct rqli_acquire *self, int64_t now_us)
{
    bool is_out_of_time =
        self->request.limits.deadline_us <= now_us + rqli_client_grace_us(self->client);

    return !self->loop && is_out_of_time && (!self->had_grace || self->waiter.keeps_conn);
}

static void begin_leaving(struct rqli_acquire *self, int64_t now_us)
{
    self->is_leaving = true;
    self->is_confirmed = true;
    self->op.gives_back = true;
    self->op.durability = NULL;
    self->op.grace_us = rqli_client_grace_us(self->client);
    rqli_wait_leave_durable_conn(self);
    self->op.until_us = leave_until_us(self, now_us);
    send_leaving(self, UINT64_MAX >> (RQL_SERIES_MAX - self->count));
}

/* True: there are calls to send. The withdrawal goes behind what was sent before it, or the server
 * refuses by now what waits for replicas; once more is harmless, and serves a long queue to its
 * end. */
bool rqli_leave_next(struct rqli_acquire *self)
{
    int64_t now_us = rqli_now_us();

    if (!self->is_leaving) {
        begin_leaving(self, now_us);
        if (!may_leave_together(self, now_us)) {
            return true;
        }
        rqli_leave_together(self);
        now_us = rqli_now_us();
    }
    if (self->unsent != 0) {
        send_leaving(self, self->unsent | self->due);
        self->unsent = 0;
        self->op.again_us = now_us + NOMEM_PAUSE_US;
        return true;
    }
    self->serves = true;
    if (self->due != 0 && now_us < self->op.until_us) {
        send_leaving(self, self->due);
        return true;
    }
    rqli_request_on_left(&self->request, self->is_confirmed);
    return false;
}

/* ---- beginning anew ---- */

/* The script takes them in the canonical order, as it takes the keys: so two series over the same
 * locks never wait for each other in a circle. */
void rqli_acquire_init_nonces(struct rqli_acquire *self)
{
    char *nonce = self->several ? self->several->nonces : NULL;

    for (size_t i = 0; nonce && i < self->count; i++) {
        memcpy(nonce, rqli_acquire_lock(self, i)->nonce, RQLI_HEX_SIZE);
        nonce += RQLI_HEX_SIZE - 1;
    }
}

/* Under other nonces, because the withdrawal may come after what it is granted next. */
void rqli_acquire_begin_anew(struct rqli_acquire *self)
{
    rql_error fault = {0};

    for (size_t i = 0; i < self->count; i++) {
        rqli_leave_in_background(self, self->locks[i]);
    }
    rqli_wait_end(self);
    self->has_refused = true;
    for (size_t i = 0; !fault.status && i < self->count; i++) {
        if (!rqli_random_hex(self->locks[i]->nonce)) {
            (void)rqli_fail_nomem(&fault);
        }
    }
    rqli_acquire_init_nonces(self);
    if (fault.status || rqli_wait_begin(self, &fault)) {
        rqli_acquire_on_failed(self, &fault);
    }
}

/* Where an earlier request of the acquirer is being withdrawn the lock that it owns is that one's:
 * it is tried again until the server has confirmed. */
void rqli_acquire_on_conflict(struct rqli_acquire *self)
{
    const struct rqli_request_input input = rqli_wait_input(self);
    rql_error fault;

    if (!self->withdraws) {
        rqli_request_on_refused(&self->request, RQL_CONFLICT);
    } else if (self->request.was_not_durable) { /* that is why, and was noted */
        rqli_request_on_setback(&self->request, RQL_E_NOT_DURABLE, &input);
    } else {
        (void)rqli_fail(&fault, RQL_E_UNAVAILABLE,
                        "%s: the server has not confirmed yet that an earlier request of this "
                        "thread or task was withdrawn; nothing was taken",
                        rqli_acquire_lock(self, 0)->name);
        rqli_acquire_on_failed(self, &fault);
    }
}
