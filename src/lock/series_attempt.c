#include "lock/series_attempt.h"
#include "lock/client.h"
#include "lock/grant.h"
#include "lock/leases.h"
#include "lock/series.h"
#include "lock/withdraw.h"
#include "net/perform_each.h"
#include "net/serving.h"
#include "wire/series_answer.h"

#include <string.h>

void rqli_series_attempt_write(const struct attempt *self, struct rqli_call *call, int64_t now_us)
{
    const struct series_attempt *series = (const struct series_attempt *)self;

    rqli_call_init_series(call, RQLI_SCRIPT_ACQUIRE_SERIES, series->keys, series->count);
    rqli_attempt_add_words(self, call, now_us);
}

static void note_obstacles(struct series_attempt *self, const struct rqli_reply *reply)
{
    static const rql_series_fate fates[] = {
        [RQLI_OBSTACLE_NONE] = RQL_SERIES_OPEN,
        [RQLI_OBSTACLE_HELD] = RQL_SERIES_HELD,
        [RQLI_OBSTACLE_QUEUE] = RQL_SERIES_BEHIND,
        [RQLI_OBSTACLE_OWN] = RQL_SERIES_OWN,
    };

    for (size_t i = 0; i < self->count; i++) {
        self->out->fate[self->plan->order[i]] = fates[rqli_series_answer_obstacle(reply, i)];
    }
}

static struct rqli_try granted(struct series_attempt *self, const struct rqli_exchange *exchange)
{
    for (size_t i = 0; i < self->count; i++) {
        struct rqli_answer answer = rqli_series_answer_grant(exchange->reply, i);
        size_t at = self->plan->order[i];

        if (!rqli_grant_by_answer(self->locks[i], &self->plan->lock, &answer, exchange->sent_us,
                                  &self->out->terms[at])) {
            return rqli_attempt_not_in_force(&self->attempt, &answer);
        }
        self->out->fate[at] = RQL_SERIES_ACQUIRED;
    }
    return (struct rqli_try){.result = RQLI_TRY_GRANTED};
}

/* A grant bears our nonces wherever it is no re-entry, unless replies are out of step (F-19). */
static bool is_for_us(const struct series_attempt *self, const struct rqli_reply *reply)
{
    for (size_t i = 0; i < self->count; i++) {
        struct rqli_answer answer = rqli_series_answer_grant(reply, i);

        if (!rqli_answer_is_for(&answer, self->locks[i]->nonce)) {
            return false;
        }
    }
    return true;
}

struct rqli_try rqli_series_attempt_read(struct attempt *attempt,
                                         const struct rqli_exchange *exchange, rql_error *error)
{
    struct series_attempt *self = (struct series_attempt *)attempt;
    const struct rqli_reply *reply = exchange->reply;
    struct rqli_answer answer;
    struct rqli_try result;
    bool is_good = rqli_series_answer_read(reply, self->count, &answer);

    if (!is_good || (answer.kind == RQLI_ANSWER_GRANTED && !is_for_us(self, reply))) {
        return (struct rqli_try){
            .result = RQLI_TRY_FAULT,
            .status = rqli_exchange_fault(exchange, reply, "acquire_series",
                                          self->attempt.lock->name, error),
        };
    }
    rqli_attempt_learn(&self->attempt, exchange, answer.server_us);
    if (answer.kind == RQLI_ANSWER_GRANTED) {
        return granted(self, exchange);
    }
    if (answer.kind != RQLI_ANSWER_STALE && answer.kind != RQLI_ANSWER_AGAIN) {
        note_obstacles(self, reply);
    }
    result = rqli_attempt_decide(&self->attempt, exchange, &answer);
    if (result.result == RQLI_TRY_QUEUED && answer.of_ruby > 0) {
        self->attempt.watched = self->keys[answer.of_ruby - 1]->lock;
    }
    return result;
}

static struct rqli_try try_take(void *self, rql_error *error)
{
    struct rqli_try result;
    struct rqli_exchange *exchange =
        rqli_attempt_carry(self, rqli_series_attempt_write, &result, error);

    if (exchange) {
        result = rqli_series_attempt_read(self, exchange, error);
        result = rqli_attempt_attend(self, result, exchange->generation, error);
        rqli_exchange_give(exchange);
    }
    return result;
}

enum rqli_wait_result rqli_series_attempt_take_push(struct attempt *self)
{
    self->waiter.pushed = false;
    return RQLI_WAIT_LOOK;
}

static enum rqli_wait_result wait(void *self, int64_t until_us)
{
    struct attempt *attempt = self;
    enum rqli_wake wake = rqli_attempt_sleep(attempt, until_us);

    return wake == RQLI_WAKE_TIME ? RQLI_WAIT_TIME : rqli_series_attempt_take_push(attempt);
}

static void write_leave(void *context, size_t index, struct rqli_call *call)
{
    const struct series_attempt *self = context;
    const rql_lock *lock = self->locks[index];
    const struct rqli_withdrawal_of what = {lock->name, lock->acquirer, lock->nonce};

    rqli_withdraw_write(&what, &lock->keys, call);
}

/* Out of all queues in one exchange; it also gives back what was granted meanwhile. */
static bool leave(void *self)
{
    struct series_attempt *series = self;
    rql_client *client = series->attempt.client;
    struct rqli_calls calls = {.count = series->count, .write = write_leave, .context = series};
    struct rqli_exchange *exchange = NULL;
    int64_t until_us = rqli_attempt_leave_until(&series->attempt);
    bool is_confirmed = true;

    (void)rqli_perform_each(client->conn, &calls, until_us, &exchange, NULL);
    for (size_t i = 0; i < series->count; i++) {
        const rql_lock *lock = series->locks[i];
        const struct rqli_withdrawal_of what = {lock->name, lock->acquirer, lock->nonce};

        if (!exchange || exchange->reply[i].type == RQLI_REPLY_ERROR) {
            rqli_leases_withdraw(client->leases, &what, series->plan->lock.ttl_ms);
            is_confirmed = false;
        } else {
            rqli_serve_if_due(client->conn, &lock->keys, &exchange->reply[i], until_us);
        }
    }
    rqli_exchange_give(exchange);
    return is_confirmed;
}

static void lay_out(struct series_attempt *self, rql_series *series)
{
    char *nonce = self->nonces;

    for (size_t i = 0; i < self->count; i++) {
        self->locks[i] = series->locks[self->plan->order[i]];
        self->keys[i] = &self->locks[i]->keys;
        memcpy(nonce, self->locks[i]->nonce, RQLI_HEX_SIZE);
        nonce += RQLI_HEX_SIZE - 1;
    }
}

void rqli_series_attempt_init(struct series_attempt *self, rql_series *series,
                              const struct rqli_series_plan *plan, struct rqli_series_outcome *out)
{
    *self = (struct series_attempt){.plan = plan, .out = out, .count = series->count};
    lay_out(self, series);
    rqli_attempt_init(&self->attempt, self->locks[0], &plan->lock, &out->all);
    self->attempt.waiter.nonce = self->nonces;
    self->attempt.waiter.lock_key = rqli_slice_of(self->nonces);
    self->attempt.waiter.waits_for_several = true;
}

rql_status rqli_series_attempt(rql_series *series, const struct rqli_series_plan *plan,
                               struct rqli_series_outcome *out, rql_error *error)
{
    struct series_attempt self;
    const struct rqli_world world = {rqli_attempt_view, try_take, wait, leave, &self};

    rqli_series_attempt_init(&self, series, plan, out);
    return rqli_attempt_run(&self.attempt, &world, error);
}
