#include "base/clock.h"
#include "base/error.h"
#include "lock/attempt_inside.h"
#include "lock/client.h"
#include "lock/grant.h"
#include "lock/leases.h"
#include "lock/withdraw.h"
#include "observe/observe.h"

void rqli_attempt_view(void *self, struct rqli_request_view *out)
{
    struct attempt *attempt = self;
    struct rqli_waiter_view around = {0};

    if (attempt->has_joined) {
        around = rqli_subscriber_view(attempt->client->subscriber, &attempt->waiter);
    }
    *out = (struct rqli_request_view){
        .now_us = rqli_now_us(),
        .jitter_us = rqli_random_below((uint32_t)attempt->options->retry_jitter_ms * 1000U),
        .leads = around.leads,
        .is_listening = around.is_listening,
    };
}

enum rqli_wait_result rqli_attempt_take_push(struct attempt *self)
{
    self->waiter.pushed = false;
    return rqli_grant_by_push(self->lock, self->options, &self->waiter.push, &self->out->terms)
               ? RQLI_WAIT_GRANTED
               : RQLI_WAIT_LOOK;
}

enum rqli_wake rqli_attempt_sleep(struct attempt *self, int64_t until_us)
{
    if (self->has_joined) {
        return rqli_subscriber_wait(self->client->subscriber, &self->waiter, until_us);
    }
    rqli_signal_wait(&self->waiter.mark, 0, until_us); /* a pause after a setback */
    return RQLI_WAKE_TIME;
}

static enum rqli_wait_result wait(void *self, int64_t until_us)
{
    switch (rqli_attempt_sleep(self, until_us)) {
    case RQLI_WAKE_PUSH:
        return rqli_attempt_take_push(self);
    case RQLI_WAKE_LOOK:
        return RQLI_WAIT_LOOK;
    case RQLI_WAKE_TIME:
        break;
    }
    return RQLI_WAIT_TIME;
}

int64_t rqli_attempt_leave_until(const struct attempt *self)
{
    int64_t now_us = rqli_now_us();
    int64_t until_us = rqli_after_ms(now_us, self->client->options.io_timeout_ms);
    int64_t grace_us = rqli_client_grace_us(self->client);

    if (until_us > self->deadline_us) {
        until_us = self->deadline_us + grace_us;
    }
    return later(until_us, self->had_grace ? now_us : now_us + grace_us / 2);
}

static bool leave(void *self)
{
    struct attempt *attempt = self;
    rql_client *client = attempt->client;
    const struct rqli_withdrawal_of what = {attempt->lock->name, attempt->lock->acquirer,
                                            attempt->lock->nonce};

    if (rqli_withdraw(client->conn, &attempt->lock->keys, &what,
                      rqli_attempt_leave_until(attempt))) {
        return true;
    }
    rqli_leases_withdraw(client->leases, &what, attempt->options->ttl_ms);
    return false;
}

rql_status rqli_attempt_join(struct attempt *self, rql_error *error)
{
    rql_status status = rqli_subscriber_join(self->client->subscriber, &self->waiter);

    self->has_joined = status == RQL_OK;
    if (status) {
        return rqli_fail(error, status, "%s: %s waits for it already", self->lock->name,
                         self->lock->acquirer);
    }
    return RQL_OK;
}

void rqli_attempt_begin(const struct attempt *self, struct rqli_request *request)
{
    const rql_lock_options *options = self->options;
    const struct rqli_request_limits limits = {
        .deadline_us = self->deadline_us,
        .tries = options->fail_fast || options->retry_count == 0 ? 1 : options->retry_count,
        .delay_us = options->retry_delay_ms * 1000,
    };

    rqli_request_init(request, &limits);
}

void rqli_attempt_end(struct attempt *self, const struct rqli_request *request, int64_t begun_us)
{
    self->out->tries = request->tries > 0 ? request->tries : 1;
    self->out->ended_us = rqli_now_us();
    self->out->waited_us = self->out->ended_us - begun_us;
    rqli_observe_asked(self->lock, self->out);
}

void rqli_attempt_tell_fault(const struct attempt *self, rql_status status, const rql_error *detail,
                             rql_error *error)
{
    if (status == RQL_E_UNKNOWN && (!detail || detail->status != status)) {
        (void)rqli_fail(error, status,
                        "%s: the withdrawal of the request was not confirmed, and goes on",
                        self->lock->name);
    } else if (status < 0 && !detail) {
        (void)rqli_fail(error, status, "%s: %s; there was no memory to keep why", self->lock->name,
                        rql_status_text(status));
    } else if (status < 0 && error) {
        *error = *detail;
    }
}

void rqli_attempt_init(struct attempt *self, rql_lock *lock, const rql_lock_options *options,
                       struct rqli_attempt_result *out)
{
    int64_t deadline_us = rqli_after_ms(rqli_now_us(), options->timeout_ms);

    *self = (struct attempt){
        .client = lock->client,
        .lock = lock,
        .options = options,
        .out = out,
        .waiter = {.lock_key = lock->keys.lock,
                   .name = lock->name,
                   .acquirer = lock->acquirer,
                   .nonce = lock->nonce,
                   .deadline_us = deadline_us},
        .may_retry = atomic_load_explicit(&lock->client->was_connected, memory_order_relaxed),
        .deadline_us = deadline_us,
    };
    out->rank = -1;
    if (options->auto_extend) {
        rqli_leases_prepare(lock->client->leases, 0);
    }
}

rql_status rqli_attempt_run(struct attempt *self, const struct rqli_world *world, rql_error *error)
{
    struct rqli_subscriber *subscriber = self->client->subscriber;
    int64_t begun_us = rqli_now_us();
    struct rqli_request request;
    rql_error detail = {0};
    rql_status status;

    if (self->options->auto_extend) {
        rqli_leases_prepare(self->client->leases, self->deadline_us);
    }
    rqli_attempt_begin(self, &request);
    if (!self->options->fail_fast && rqli_subscriber_is_listening(subscriber)) {
        status = rqli_attempt_join(self, error);
        if (status) {
            return status;
        }
    }
    status = rqli_drive(&request, world, &detail);
    if (self->has_joined) {
        rqli_subscriber_leave(subscriber, &self->waiter);
    }
    rqli_attempt_end(self, &request, begun_us);
    rqli_attempt_tell_fault(self, status, &detail, error);
    return status;
}

rql_status rqli_attempt(rql_lock *lock, const rql_lock_options *options,
                        struct rqli_attempt_result *out, rql_error *error)
{
    struct attempt attempt;
    const struct rqli_world world = {rqli_attempt_view, rqli_attempt_try, wait, leave, &attempt};

    rqli_attempt_init(&attempt, lock, options, out);
    return rqli_attempt_run(&attempt, &world, error);
}
