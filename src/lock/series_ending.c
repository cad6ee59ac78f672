#include "base/clock.h"
#include "base/signal.h"
#include "lock/client.h"
#include "lock/ending.h"
#include "lock/leases.h"
#include "lock/series.h"
#include "lock/withdrawal.h"
#include "net/perform_each.h"
#include "net/serving.h"
#include "wire/answer.h"

enum { PAUSE_US = 20000 };

/* Grants that are still to be released. */
struct releases {
    rql_client *client;
    size_t count;
    rql_lock *locks[RQL_SERIES_MAX];
    bool may_have_ended; /* an attempt got no answer */
    rql_status verdict;  /* of those that are done: the first fault, RQL_NOT_HELD, or RQL_OK */
    rql_error detail;    /* of that fault */
};

/* A fault stays; else that one had ended stays. */
static void conclude(struct releases *self, rql_status status, const rql_error *detail)
{
    if (self->verdict < 0 || status == RQL_OK) {
        return;
    }
    self->verdict = status;
    if (status < 0) {
        self->detail = *detail;
    }
}

static void write_release(void *context, size_t index, struct rqli_call *call)
{
    const struct releases *self = context;

    rqli_call_init(call, RQLI_SCRIPT_RELEASE, &self->locks[index]->keys);
    rqli_call_text(call, self->locks[index]->nonce);
    rqli_call_chance(call);
}

/* "Not yours" after an attempt without answer, within the lease: that attempt released it. */
static rql_status status_of(const rql_lock *lock, const struct rqli_exchange *exchange,
                            const struct rqli_reply *reply, bool is_repeated, rql_error *error)
{
    struct rqli_outcome outcome;

    if (!rqli_outcome_read(reply, &outcome)) {
        return rqli_exchange_fault(exchange, reply, "release", lock->keys.lock.data, error);
    }
    if (outcome.what == 1) {
        return RQL_OK;
    }
    return is_repeated ? rqli_as_believed(lock) : RQL_NOT_HELD;
}

/* Keeps those that have to be asked for again: the last status that may pass. RQL_OK: none. */
static rql_status take_replies(struct releases *self, const struct rqli_exchange *exchange,
                               bool is_repeated, rql_error *detail)
{
    int64_t until_us = rqli_client_budget_us(self->client, rqli_now_us());
    rql_status passing = RQL_OK;
    size_t n_left = 0;

    for (size_t i = 0; i < self->count; i++) {
        rql_lock *lock = self->locks[i];
        rql_error found = {0};
        rql_status status = status_of(lock, exchange, &exchange->reply[i], is_repeated, &found);

        rqli_serve_if_due(self->client->conn, &lock->keys, &exchange->reply[i], until_us);
        if (rqli_may_pass(status)) {
            self->locks[n_left++] = lock;
            passing = status;
            *detail = found;
        } else {
            conclude(self, status, &found);
        }
    }
    self->count = n_left;
    return passing;
}

/* One round. What is left is in self->locks; RQL_OK: nothing. */
static rql_status release_once(struct releases *self, int64_t until_us, rql_error *detail)
{
    struct rqli_calls calls = {.count = self->count, .write = write_release, .context = self};
    struct rqli_exchange *exchange = NULL;
    rql_status status = rqli_perform_each(self->client->conn, &calls, until_us, &exchange, detail);

    self->may_have_ended = self->may_have_ended || calls.is_repeated || status == RQL_E_UNKNOWN;
    if (!status) {
        status = take_replies(self, exchange, self->may_have_ended, detail);
    }
    rqli_exchange_give(exchange);
    return status;
}

/* What got no answer goes on being given back. */
static void withdraw_rest(const struct releases *self)
{
    for (size_t i = 0; i < self->count; i++) {
        const rql_lock *lock = self->locks[i];
        const struct rqli_withdrawal_of what = {lock->name, lock->acquirer, lock->nonce};

        rqli_leases_withdraw(self->client->leases, &what, lock->ttl_ms);
    }
}

static void release_all(struct releases *self)
{
    int64_t until_us = rqli_client_budget_us(self->client, rqli_now_us());
    rql_status status = RQL_OK;
    rql_error detail = {0};
    rqli_signal never = 0;

    while (self->count > 0) {
        status = release_once(self, until_us, &detail);
        if (self->count == 0 || !rqli_may_pass(status) || rqli_now_us() + PAUSE_US >= until_us) {
            break;
        }
        rqli_signal_wait(&never, 0, rqli_now_us() + PAUSE_US);
    }
    if (self->count == 0) {
        return;
    }
    if (rqli_may_pass(status)) {
        withdraw_rest(self);
    }
    if (self->may_have_ended) {
        status = rqli_ending_fault(self->locks[0]->keys.lock.data, status, &detail);
    }
    conclude(self, status, &detail);
}

/* Re-entries end one by one before the grants that they share. */
static void end_reentries(struct releases *self, rql_lock *const *locks, size_t count)
{
    for (size_t i = count; i-- > 0;) {
        rql_error detail = {0};

        if (locks[i]->process == RQL_LOCK_OBTAINING) {
            self->locks[self->count++] = locks[i];
        } else {
            conclude(self, rqli_end(locks[i], &detail), &detail);
        }
    }
}

rql_status rqli_series_end(rql_lock *const *locks, size_t count, rql_error *error)
{
    struct releases self = {.client = locks[0]->client};

    end_reentries(&self, locks, count);
    release_all(&self);
    if (self.verdict < 0 && error) {
        *error = self.detail;
    }
    return self.verdict;
}
