#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/signal.h"
#include "lock/client.h"
#include "net/conn_threads.h"
#include "options/options.h"
#include "wire/keys.h"

#include <rql/lock.h>

enum { AFTER_EXPIRY_US = 2000, FREE = -2 /* PTTL of a key that is not there */ };

struct check {
    rql_client *client;
    const rql_lock_options *options;
    int64_t deadline_us;
    struct rqli_keys keys;
    char memory[RQLI_KEYS_ROOM];
};

/* Within the grace after the deadline, however long an answer may take otherwise. */
static int64_t look_until_us(const struct check *self)
{
    int64_t until_us = rqli_client_budget_us(self->client, rqli_now_us());
    int64_t grace_us = rqli_client_grace_us(self->client);

    return until_us - grace_us < self->deadline_us ? until_us : self->deadline_us + grace_us;
}

/* *left_ms: PTTL, or FREE. */
static rql_status look(struct check *self, int64_t *left_ms, rql_error *error)
{
    struct rqli_exchange *exchange = rqli_exchange_take(self->client->conn);
    rql_status status;

    if (!exchange) {
        return rqli_fail_nomem(error);
    }
    rqli_command_begin(&exchange->command, 3);
    rqli_command_text(&exchange->command, "HEXISTS");
    rqli_command_slice(&exchange->command, self->keys.lock);
    rqli_command_text(&exchange->command, "acq_id");
    rqli_command_begin(&exchange->command, 2);
    rqli_command_text(&exchange->command, "PTTL");
    rqli_command_slice(&exchange->command, self->keys.lock);
    status = rqli_exchange_run(exchange, look_until_us(self), error);
    if (!status && exchange->reply[0].type != RQLI_REPLY_INTEGER) {
        status = rqli_exchange_fault(exchange, &exchange->reply[0], "HEXISTS", self->keys.lock.data,
                                     error);
    } else if (!status) {
        rqli_client_on_round_trip(self->client, exchange->received_us - exchange->sent_us);
        *left_ms = exchange->reply[0].integer == 1 ? exchange->reply[1].integer : FREE;
    }
    rqli_exchange_give(exchange);
    return status;
}

/* The next look: after the delay, or when the lock ends, or at the deadline. */
static void pause(const struct check *self, int64_t left_ms)
{
    uint32_t jitter_us = (uint32_t)self->options->retry_jitter_ms * 1000U;
    int64_t now_us = rqli_now_us();
    int64_t until_us = rqli_after_ms(now_us, self->options->retry_delay_ms);
    rqli_signal never = 0;

    until_us += rqli_random_below(jitter_us);
    if (left_ms >= 0 && now_us + left_ms * 1000 + AFTER_EXPIRY_US < until_us) {
        until_us = now_us + left_ms * 1000 + AFTER_EXPIRY_US;
    }
    rqli_signal_wait(&never, 0, until_us < self->deadline_us ? until_us : self->deadline_us);
}

static rql_status wait_until_free(struct check *self, rql_error *error)
{
    int64_t tries = 0;

    for (;;) {
        int64_t left_ms = FREE;
        rql_status status = look(self, &left_ms, error);

        if (status || left_ms == FREE) {
            return status;
        }
        tries++;
        if (self->options->fail_fast) {
            return RQL_FAIL_FAST_NO_TRY;
        }
        if (self->options->retry_count != RQL_FOREVER && tries >= self->options->retry_count) {
            return RQL_RETRY_LIMIT;
        }
        if (rqli_now_us() >= self->deadline_us) {
            return RQL_TIMED_OUT;
        }
        pause(self, left_ms);
    }
}

rql_status rql_check_until_free(rql_client *client, const char *name,
                                const rql_lock_options *options, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_lock_options read;
    struct check self;
    rql_status status = rqli_client_check(client, error);

    if (!status) {
        status = rqli_name_check(name, error);
    }
    if (!status) {
        status = rqli_lock_options_read(&read, &client->of_calls, options, error);
    }
    if (status) {
        return status;
    }
    self.client = client;
    self.options = &read;
    self.deadline_us = rqli_after_ms(rqli_now_us(), read.timeout_ms);
    rqli_keys_init(&self.keys, self.memory, rqli_slice_of(name));
    return wait_until_free(&self, error);
}
