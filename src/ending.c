#include "ending.h"

#include "base/clock.h"
#include "base/signal.h"
#include "client.h"
#include "keeper.h"
#include "perform.h"
#include "script/answer.h"
#include "serving.h"
#include "withdrawal.h"

enum { PAUSE_US = 20000, BLOCK_SLACK_MS = 2 /* wire.md 7: ttl - elapsed - 2 */ };

bool rqli_may_pass(rql_status status)
{
    return status == RQL_E_UNKNOWN || status == RQL_E_IO || status == RQL_E_UNAVAILABLE ||
           status == RQL_E_READ_ONLY;
}

/* Sends an idempotent call until it is answered or the client's patience is at its end. */
static rql_status insist(rql_client *client, const struct rqli_call *call,
                         struct rqli_outcome *outcome, int *attempts_out, rql_error *error)
{
    int64_t until_us = rqli_client_patience_us(client, rqli_now_us());
    rqli_signal never = 0;
    rql_status status;
    int attempts = 0;

    for (;;) {
        struct rqli_exchange *exchange = NULL;

        status = rqli_perform(client->link, call, until_us, &exchange, error);
        attempts++;
        if (!status && !rqli_outcome_read(exchange->reply, outcome)) {
            status = rqli_exchange_fault(exchange, exchange->reply, rqli_scripts[call->script].name,
                                         call->keys->lock.data, error);
        }
        rqli_exchange_give(exchange);
        if (!rqli_may_pass(status) || rqli_now_us() + PAUSE_US >= until_us) {
            break;
        }
        rqli_signal_wait(&never, 0, rqli_now_us() + PAUSE_US);
    }
    if (!status && outcome->second == RQLI_SERVED_PARTLY) {
        (void)rqli_serve(client->link, call->keys, until_us);
    }
    if (attempts_out) {
        *attempts_out = attempts;
    }
    return status;
}

rql_status rqli_release(rql_client *client, const struct rqli_keys *keys, const char *nonce,
                        int *attempts_out, rql_error *error)
{
    struct rqli_outcome outcome;
    struct rqli_call call;
    rql_status status;

    rqli_call_init(&call, RQLI_SCRIPT_RELEASE, keys);
    rqli_call_text(&call, nonce);
    rqli_call_int(&call, rqli_random_below(65536));
    status = insist(client, &call, &outcome, attempts_out, error);
    if (status) {
        return status;
    }
    return outcome.what == 1 ? RQL_OK : RQL_NOT_HELD;
}

rql_status rqli_as_believed(const rql_lock *lock)
{
    const struct rqli_lease *lease = &lock->kept.lease; /* off the list: ours alone */

    return rqli_lease_state(lease, rqli_now_us()) == RQL_GONE ? RQL_NOT_HELD : RQL_OK;
}

static rql_status end_grant(rql_lock *lock, rql_error *error)
{
    const struct rqli_withdrawal_of what = {lock->name, lock->acquirer, lock->nonce};
    rql_status believed = rqli_as_believed(lock);
    int attempts = 0;
    rql_status status = rqli_release(lock->client, &lock->keys, lock->nonce, &attempts, error);

    /* "Not yours" after an attempt without answer, within the lease: that attempt released it. */
    if (status == RQL_NOT_HELD && attempts > 1) {
        return believed;
    }
    if (status == RQL_E_IO || status == RQL_E_UNKNOWN) {
        rqli_keeper_withdraw(lock->client->keeper, &what, lock->ttl_ms);
    }
    return status;
}

static rql_status end_extension(const rql_lock *lock, rql_error *error)
{
    int64_t now_us = rqli_now_us();
    int64_t elapsed_ms = (now_us - lock->begun_us) / 1000;
    int64_t unused_ms = lock->ttl_ms - elapsed_ms - BLOCK_SLACK_MS;
    struct rqli_outcome outcome;
    struct rqli_call call;
    rql_status status;

    if (unused_ms <= 0) {
        return rqli_as_believed(lock);
    }
    rqli_observe_decreasing(lock, unused_ms);
    rqli_call_init(&call, RQLI_SCRIPT_DECREASE, &lock->keys);
    rqli_call_text(&call, lock->grant_nonce);
    rqli_call_text(&call, lock->nonce);
    rqli_call_int(&call, unused_ms);
    rqli_call_int(&call, rqli_random_below(65536));
    status = insist(lock->client, &call, &outcome, NULL, error);
    if (status) {
        return status;
    }
    if (outcome.what != 1) {
        return RQL_NOT_HELD;
    }
    rqli_keeper_on_shortened(lock->client->keeper, lock, now_us, outcome.third);
    return RQL_OK;
}

rql_status rqli_end(rql_lock *lock, rql_error *error)
{
    switch (lock->process) {
    case RQL_LOCK_OBTAINING:
        return end_grant(lock, error);
    case RQL_EXTENDABLE_CONFLICT_WORK_THROUGH:
        return end_extension(lock, error);
    case RQL_CONFLICT_WORK_THROUGH:
        break;
    }
    return rqli_as_believed(lock);
}
