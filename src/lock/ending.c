#include "lock/ending.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/signal.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "lock/withdrawal.h"
#include "net/perform.h"
#include "net/serving.h"
#include "observe/observe.h"
#include "wire/answer.h"

enum { PAUSE_US = 20000, BLOCK_SLACK_MS = 2 /* wire.md 7: ttl - elapsed - 2 */ };

bool rqli_may_pass(rql_status status)
{
    return status == RQL_E_UNKNOWN || status == RQL_E_IO || status == RQL_E_UNAVAILABLE ||
           status == RQL_E_READ_ONLY;
}

rql_status rqli_as_believed(const rql_lock *lock)
{
    const struct rqli_lease *lease = &lock->kept.lease; /* off the list: ours alone */

    return rqli_lease_state(lease, rqli_now_us()) == RQL_GONE ? RQL_NOT_HELD : RQL_OK;
}

rql_status rqli_ending_fault(const char *key, rql_status last, rql_error *error)
{
    if (last == RQL_E_UNKNOWN) {
        return last;
    }
    return rqli_fail(error, RQL_E_UNKNOWN,
                     "%s: sent without an answer, and may have been done; then: %s", key,
                     rql_status_text(last));
}

static void release_begin(struct rqli_ending *self, rql_client *client,
                          const struct rqli_keys *keys, const char *nonce)
{
    *self = (struct rqli_ending){.client = client, .keys = keys, .nonce = nonce};
    self->begun_us = rqli_now_us();
    self->until_us = rqli_client_budget_us(client, self->begun_us);
}

/* What the re-entry added and did not use. False: nothing. */
static bool extension_begin(struct rqli_ending *self)
{
    const rql_lock *lock = self->lock;
    int64_t elapsed_ms = (self->begun_us - lock->begun_us) / 1000;

    self->unused_ms = lock->ttl_ms - elapsed_ms - BLOCK_SLACK_MS;
    if (self->unused_ms <= 0) {
        return false;
    }
    rqli_observe_decreasing(lock, self->unused_ms);
    return true;
}

bool rqli_ending_begin(struct rqli_ending *self, rql_lock *lock, rql_status *status_out)
{
    release_begin(self, lock->client, &lock->keys, lock->nonce);
    self->lock = lock;
    self->believed = rqli_as_believed(lock);
    *status_out = self->believed;
    switch (lock->process) {
    case RQL_LOCK_OBTAINING:
        return true;
    case RQL_EXTENDABLE_CONFLICT_WORK_THROUGH:
        return extension_begin(self);
    case RQL_CONFLICT_WORK_THROUGH:
        break;
    }
    return false;
}

int64_t rqli_ending_pause_us(const struct rqli_ending *self)
{
    return self->is_serving ? 0 : PAUSE_US;
}

void rqli_ending_write(const struct rqli_ending *self, struct rqli_call *call)
{
    if (self->is_serving) {
        rqli_serve_write(self->keys, call);
        return;
    }
    if (self->unused_ms > 0) {
        rqli_call_init(call, RQLI_SCRIPT_DECREASE, self->keys);
        rqli_call_text(call, self->lock->grant_nonce);
        rqli_call_text(call, self->nonce);
        rqli_call_int(call, self->unused_ms);
    } else {
        rqli_call_init(call, RQLI_SCRIPT_RELEASE, self->keys);
        rqli_call_text(call, self->nonce);
    }
    rqli_call_chance(call);
}

/* Also where an attempt before has taken the extension back, and its answer was lost. */
static rql_status understand(const struct rqli_ending *self, const struct rqli_outcome *outcome)
{
    if (self->unused_ms > 0 && (outcome->what == 1 || outcome->third > 0)) {
        rqli_leases_on_shortened(self->client->leases, self->lock, self->begun_us, outcome->third);
    }
    return outcome->what == 1 ? RQL_OK : RQL_NOT_HELD;
}

/* Of a lock of ours, when no more attempt is made. */
static rql_status conclude_own(const struct rqli_ending *self, rql_status status)
{
    const rql_lock *lock = self->lock;
    const struct rqli_withdrawal_of what = {lock->name, lock->acquirer, lock->nonce};

    /* "Not yours" after an attempt without answer, within the lease: that attempt released it. */
    if (status == RQL_NOT_HELD && self->may_have_ended) {
        return self->believed;
    }
    if (rqli_may_pass(status) && self->unused_ms == 0) {
        rqli_leases_withdraw(self->client->leases, &what, lock->ttl_ms);
    }
    return status;
}

rql_status rqli_ending_read(struct rqli_ending *self, const struct rqli_exchange *answer,
                            rql_error *error)
{
    struct rqli_outcome outcome;
    bool is_read = rqli_outcome_read(answer->reply, &outcome);

    self->has_more = is_read && outcome.second == RQLI_SERVED_PARTLY;
    if (self->is_serving) {
        return self->kept;
    }
    if (!is_read) {
        return rqli_exchange_fault(answer, answer->reply,
                                   self->unused_ms > 0 ? "decrease" : "release",
                                   self->keys->lock.data, error);
    }
    return understand(self, &outcome);
}

bool rqli_ending_is_over(struct rqli_ending *self, rql_status *status, rql_error *error)
{
    bool has_more = self->has_more;

    self->has_more = false;
    if (self->is_serving) { /* no part of what the caller is told: a fault ends it */
        *status = self->kept;
        return !has_more || rqli_now_us() >= self->until_us;
    }
    self->may_have_ended = self->may_have_ended || *status == RQL_E_UNKNOWN;
    if (rqli_may_pass(*status) && rqli_now_us() + PAUSE_US < self->until_us) {
        return false;
    }
    if (self->lock) {
        *status = conclude_own(self, *status);
    }
    if (*status < 0 && self->may_have_ended) {
        *status = rqli_ending_fault(self->keys->lock.data, *status, error);
    }
    self->kept = *status;
    self->is_serving = has_more;
    return !has_more;
}

/* Sends an idempotent call until it is answered or the client's patience is at its end. */
static rql_status insist(struct rqli_ending *self, rql_error *error)
{
    rqli_signal never = 0;

    for (;;) {
        struct rqli_exchange *exchange = NULL;
        struct rqli_call call;
        rql_status status;
        bool is_over;

        rqli_ending_write(self, &call);
        call.pushes_first = self->lock && self->lock->handed_over; /* others wait, most likely */
        status = rqli_perform(self->client->conn, &call, self->until_us, &exchange, error);
        if (!status) {
            status = rqli_ending_read(self, exchange, error);
        }
        is_over = rqli_ending_is_over(self, &status, error);
        rqli_exchange_give(exchange);
        if (is_over) {
            return status;
        }
        rqli_signal_wait(&never, 0, rqli_now_us() + rqli_ending_pause_us(self));
    }
}

rql_status rqli_release(rql_client *client, const struct rqli_keys *keys, const char *nonce,
                        rql_error *error)
{
    struct rqli_ending ending;

    release_begin(&ending, client, keys, nonce);
    return insist(&ending, error);
}

rql_status rqli_end(rql_lock *lock, rql_error *error)
{
    struct rqli_ending ending;
    rql_status status;

    return rqli_ending_begin(&ending, lock, &status) ? insist(&ending, error) : status;
}
