#include "attempt.h"

#include "base/clock.h"
#include "base/error.h"
#include "client.h"
#include "drive.h"
#include "keeper.h"
#include "link/subscriber.h"
#include "link/wire.h"
#include "perform.h"
#include "script/answer.h"
#include "withdrawal.h"

#include <string.h>

enum { LAST_WORDS_US = 50000 }; /* a call ends within this after its deadline (P6) */

struct attempt {
    rql_client *client;
    rql_lock *lock;
    const rql_lock_options *options;
    struct rqli_attempt_result *out;
    struct rqli_waiter waiter;
    bool has_joined;
    bool may_retry; /* this client has been connected before */
    int64_t deadline_us;
    struct rqli_request_place place;
};

static void view(void *self, struct rqli_request_view *out)
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

/* Every reply that carries the server's time sharpens what we know of its clock. */
static void learn_time(rql_client *client, int64_t sent_us, int64_t server_us, int64_t received_us)
{
    enum rqli_skew_news news;

    (void)pthread_mutex_lock(&client->shared.mutex);
    news = rqli_skew_add(&client->shared.skew, sent_us, server_us, received_us);
    (void)pthread_mutex_unlock(&client->shared.mutex);
    if (news == RQLI_SKEW_STEPPED) {
        rqli_keeper_doubt(client->keeper);
    }
}

/* Server time after which this try may not take effect any more: twice the patience (F-15). */
static int64_t not_after(rql_client *client, int64_t now_us)
{
    int64_t latest_us;

    (void)pthread_mutex_lock(&client->shared.mutex);
    latest_us = rqli_skew_server_latest(&client->shared.skew, now_us);
    (void)pthread_mutex_unlock(&client->shared.mutex);
    if (latest_us == INT64_MAX) {
        return INT64_C(1) << 53;
    }
    return latest_us + 2 * client->options.io_timeout_ms * 1000;
}

static int64_t wait_left_ms(const struct attempt *attempt, int64_t now_us)
{
    if (attempt->deadline_us == RQLI_NEVER_US) {
        return -1;
    }
    return now_us < attempt->deadline_us ? (attempt->deadline_us - now_us) / 1000 : 0;
}

static void describe(const struct attempt *attempt, struct rqli_call *call, int64_t now_us)
{
    static const char access[] = "qr";
    static const char conflict[] = "wted";
    const rql_lock_options *options = attempt->options;
    struct rqli_ask ask = {
        .access = access[options->access_strategy],
        .conflict = conflict[options->conflict_strategy],
        .fail_fast = options->fail_fast,
        .wait_ms = wait_left_ms(attempt, now_us),
        .queue_ttl_ms = options->queue_ttl_ms,
        .score_us = attempt->place.score_us,
        .chance = rqli_random_below(65536),
    };
    size_t i;

    rqli_call_init(call, RQLI_SCRIPT_ACQUIRE, &attempt->lock->keys);
    rqli_call_text(call, attempt->lock->acquirer);
    rqli_call_text(call, attempt->lock->host);
    rqli_call_int(call, options->ttl_ms);
    rqli_call_text(call, attempt->lock->nonce);
    rqli_call_int(call, not_after(attempt->client, now_us));
    rqli_call_ask(call, &ask);
    for (i = 0; i < options->n_meta; i++) {
        rqli_call_text(call, options->meta[i].name);
        rqli_call_text(call, options->meta[i].value);
    }
}

/* The lock is ours until the lease ends; false: that may be over already, ask again (F-02, F-03).
 */
static bool accept(struct attempt *attempt, int64_t begun_us, int64_t left_ms)
{
    const rql_lock_options *options = attempt->options;

    attempt->out->terms = (struct rqli_lease_terms){
        .ttl_ms = options->ttl_ms,
        .left_ms = left_ms,
        .begun_us = begun_us,
        .max_hold_ms = options->max_hold_ms,
        .renews = options->auto_extend,
        .is_claimed = true,
    };
    attempt->lock->begun_us = begun_us;
    return rqli_now_us() < begun_us + left_ms * 1000 - rqli_lease_margin_us(left_ms);
}

static struct rqli_try granted(struct attempt *attempt, const struct rqli_exchange *exchange,
                               const struct rqli_answer *answer)
{
    rql_lock *lock = attempt->lock;

    if (answer->nonce.length != sizeof lock->grant_nonce - 1 ||
        !accept(attempt, exchange->sent_us, answer->left_ms)) {
        return (struct rqli_try){.result = RQLI_TRY_AGAIN};
    }
    memcpy(lock->grant_nonce, answer->nonce.data, answer->nonce.length);
    lock->token = answer->token;
    /* A token is the time of its grant, unless the clock was set back since then (F-26). */
    lock->ts_us = answer->token < answer->server_us ? answer->token : answer->server_us;
    lock->process = (rql_lock_process)answer->process;
    lock->handed_over = answer->was_handed_over && answer->process == RQL_LOCK_OBTAINING;
    return (struct rqli_try){.result = RQLI_TRY_GRANTED};
}

/* Once for each pair of connections: changes of keys that we look at go to our subscriber. */
static bool sets_up_tracking(rql_client *client, uint64_t link, uint64_t subscriber)
{
    bool needed;

    (void)pthread_mutex_lock(&client->shared.mutex);
    needed =
        client->shared.tracking_link != link || client->shared.tracking_subscriber != subscriber;
    client->shared.tracking_link = link;
    client->shared.tracking_subscriber = subscriber;
    (void)pthread_mutex_unlock(&client->shared.mutex);
    return needed;
}

static void write_tracking(struct rqli_command *command, bool sets_up, int64_t subscriber_id,
                           struct rqli_slice lock_key)
{
    if (sets_up) {
        rqli_command_begin(command, 6);
        rqli_command_text(command, "CLIENT");
        rqli_command_text(command, "TRACKING");
        rqli_command_text(command, "ON");
        rqli_command_text(command, "REDIRECT");
        rqli_command_int(command, subscriber_id);
        rqli_command_text(command, "OPTIN");
    }
    rqli_command_begin(command, 3);
    rqli_command_text(command, "CLIENT");
    rqli_command_text(command, "CACHING");
    rqli_command_text(command, "YES");
    rqli_command_begin(command, 3);
    rqli_command_text(command, "HGET");
    rqli_command_slice(command, lock_key);
    rqli_command_text(command, "acq_id");
}

/* No push will come from Ruby: have the server tell us when it changes the lock (protocol.md 21).
 * True: the lock has become free meanwhile. Polling goes on in any case. */
static bool watch_ruby(struct attempt *attempt, uint64_t link_generation, bool was_held)
{
    struct rqli_waiter_view around =
        rqli_subscriber_view(attempt->client->subscriber, &attempt->waiter);
    struct rqli_exchange *exchange;
    bool is_free = false;

    if (!around.is_listening || !around.leads) {
        return false;
    }
    exchange = rqli_exchange_take(attempt->client->link);
    if (!exchange) {
        return false;
    }
    write_tracking(&exchange->command,
                   sets_up_tracking(attempt->client, link_generation, around.generation),
                   around.client_id, attempt->lock->keys.lock);
    if (rqli_exchange_run(exchange, rqli_client_patience_us(attempt->client, rqli_now_us()),
                          NULL) == RQL_OK) {
        is_free = exchange->reply[exchange->command.n_commands - 1].type == RQLI_REPLY_NIL;
    }
    rqli_exchange_give(exchange);
    return was_held && is_free;
}

static rql_status join(struct attempt *attempt, rql_error *error)
{
    rql_status status = rqli_subscriber_join(attempt->client->subscriber, &attempt->waiter);

    attempt->has_joined = status == RQL_OK;
    if (status) {
        return rqli_fail(error, status, "%s: %s waits for it already", attempt->lock->name,
                         attempt->lock->acquirer);
    }
    return RQL_OK;
}

/* The first wait of a client: what was pushed before we joined is lost, so ask again. */
static struct rqli_try join_late(struct attempt *attempt, rql_error *error)
{
    rql_status status = join(attempt, error);

    return (struct rqli_try){.result = status ? RQLI_TRY_FAULT : RQLI_TRY_AGAIN, .status = status};
}

static struct rqli_try queued(struct attempt *attempt, const struct rqli_exchange *exchange,
                              const struct rqli_answer *answer, rql_error *error)
{
    attempt->place = (struct rqli_request_place){
        .lock_ends_us =
            answer->left_ms >= 0 ? exchange->received_us + answer->left_ms * 1000 : RQLI_NEVER_US,
        .rank = answer->rank,
        .score_us = answer->score_us,
        .is_first = answer->is_first,
    };
    attempt->out->rank = answer->rank;
    if (!attempt->has_joined) {
        return join_late(attempt, error);
    }
    if (answer->was_restored) {
        rqli_subscriber_nudge(attempt->client->subscriber, &attempt->waiter);
    }
    if (answer->is_of_ruby && answer->is_first &&
        watch_ruby(attempt, exchange->generation, answer->left_ms >= 0)) {
        return (struct rqli_try){.result = RQLI_TRY_AGAIN};
    }
    return (struct rqli_try){.result = RQLI_TRY_QUEUED, .place = attempt->place};
}

static struct rqli_try refused(rql_status outcome)
{
    return (struct rqli_try){.result = RQLI_TRY_REFUSED, .status = outcome};
}

static struct rqli_try decide(struct attempt *attempt, const struct rqli_exchange *exchange,
                              rql_error *error)
{
    struct rqli_answer answer;

    if (!rqli_answer_read(exchange->reply, &answer)) {
        return (struct rqli_try){
            .result = RQLI_TRY_FAULT,
            .status = rqli_reply_fault(exchange->reply, "acquire", attempt->lock->name, error),
        };
    }
    learn_time(attempt->client, exchange->sent_us, answer.server_us, exchange->received_us);
    switch (answer.kind) {
    case RQLI_ANSWER_GRANTED:
        return granted(attempt, exchange, &answer);
    case RQLI_ANSWER_QUEUED:
        return queued(attempt, exchange, &answer, error);
    case RQLI_ANSWER_FAIL_FAST_NO_TRY:
        return refused(RQL_FAIL_FAST_NO_TRY);
    case RQLI_ANSWER_FAIL_FAST_AFTER_TRY:
        return refused(RQL_FAIL_FAST_AFTER_TRY);
    case RQLI_ANSWER_CONFLICT:
        return refused(RQL_CONFLICT);
    case RQLI_ANSWER_STALE:
    case RQLI_ANSWER_AGAIN:
        break;
    }
    return (struct rqli_try){.result = RQLI_TRY_AGAIN};
}

/* The first connection gives the first reading of the server's clock, before the first script. */
static rql_status connect_first(struct attempt *attempt, int64_t deadline_us, rql_error *error)
{
    struct rqli_clock_reading reading;
    rql_status status;

    if (attempt->may_retry) {
        return RQL_OK;
    }
    status = rqli_link_connect(attempt->client->link, deadline_us, error);
    if (!status) {
        attempt->may_retry = rqli_link_clock(attempt->client->link, &reading);
        learn_time(attempt->client, reading.sent_us, reading.server_us, reading.received_us);
    }
    return status;
}

/* What may pass by itself is tried again until the deadline; a server that never answered is not.
 */
static struct rqli_try failed(const struct attempt *attempt, rql_status fault)
{
    bool passes = fault == RQL_E_UNKNOWN || fault == RQL_E_UNAVAILABLE ||
                  fault == RQL_E_READ_ONLY || (fault == RQL_E_IO && attempt->may_retry);

    return (struct rqli_try){.result = passes ? RQLI_TRY_SETBACK : RQLI_TRY_FAULT, .status = fault};
}

static struct rqli_try try_take(void *self, rql_error *error)
{
    struct attempt *attempt = self;
    struct rqli_exchange *exchange = NULL;
    struct rqli_call call;
    struct rqli_try result;
    int64_t now_us = rqli_now_us();
    int64_t until_us = rqli_client_patience_us(attempt->client, now_us);
    rql_status status;

    if (attempt->deadline_us < until_us) {
        until_us = attempt->deadline_us > now_us + LAST_WORDS_US ? attempt->deadline_us
                                                                 : now_us + LAST_WORDS_US;
    }
    status = connect_first(attempt, until_us, error);
    if (!status) {
        describe(attempt, &call, now_us);
        status = rqli_perform(attempt->client->link, &call, until_us, &exchange, error);
    }
    if (status) {
        return failed(attempt, status);
    }
    result = decide(attempt, exchange, error);
    rqli_exchange_give(exchange);
    return result;
}

/* A push tells of a grant in the past. How far in the past is known only if the server's clock is;
 * if it is not, or the push is old, the server is asked (protocol.md 15). */
static enum rqli_wait_result take_push(struct attempt *attempt)
{
    const struct rqli_push *push = &attempt->waiter.push;
    rql_lock *lock = attempt->lock;
    int64_t begun_us;
    bool is_known;

    (void)pthread_mutex_lock(&attempt->client->shared.mutex);
    is_known = rqli_skew_earliest(&attempt->client->shared.skew, push->server_us, push->received_us,
                                  &begun_us);
    (void)pthread_mutex_unlock(&attempt->client->shared.mutex);
    if (!is_known) {
        return RQLI_WAIT_LOOK;
    }
    begun_us = begun_us < push->received_us ? begun_us : push->received_us;
    if (push->received_us - begun_us > rqli_lease_margin_us(push->lease_ms) ||
        !accept(attempt, begun_us, push->lease_ms)) {
        return RQLI_WAIT_LOOK;
    }
    attempt->out->terms.is_claimed = push->lease_ms >= attempt->options->ttl_ms;
    memcpy(lock->grant_nonce, lock->nonce, sizeof lock->grant_nonce);
    lock->token = push->token;
    lock->ts_us = push->server_us;
    lock->process = RQL_LOCK_OBTAINING;
    lock->handed_over = true;
    return RQLI_WAIT_GRANTED;
}

static enum rqli_wait_result wait(void *self, int64_t until_us)
{
    struct attempt *attempt = self;
    enum rqli_wake wake = RQLI_WAKE_TIME;

    if (attempt->has_joined) {
        wake = rqli_subscriber_wait(attempt->client->subscriber, &attempt->waiter, until_us);
    } else {
        rqli_signal_wait(&attempt->waiter.mark, 0, until_us); /* a pause after a setback */
    }
    switch (wake) {
    case RQLI_WAKE_PUSH:
        attempt->waiter.pushed = false;
        return take_push(attempt);
    case RQLI_WAKE_LOOK:
        return RQLI_WAIT_LOOK;
    case RQLI_WAKE_TIME:
        break;
    }
    return RQLI_WAIT_TIME;
}

static bool leave(void *self)
{
    struct attempt *attempt = self;
    rql_client *client = attempt->client;
    const struct rqli_withdrawal_of what = {attempt->lock->name, attempt->lock->acquirer,
                                            attempt->lock->nonce};
    struct rqli_exchange *exchange = NULL;
    struct rqli_call call;
    int64_t now_us = rqli_now_us();
    int64_t until_us = rqli_after_ms(now_us, client->options.io_timeout_ms);
    rql_status status;

    if (until_us > attempt->deadline_us) {
        until_us = attempt->deadline_us;
    }
    if (until_us < now_us + LAST_WORDS_US) {
        until_us = now_us + LAST_WORDS_US;
    }
    rqli_call_init(&call, RQLI_SCRIPT_LEAVE, &attempt->lock->keys);
    rqli_call_text(&call, attempt->lock->acquirer);
    rqli_call_text(&call, attempt->lock->nonce);
    rqli_call_int(&call, rqli_random_below(65536));
    status = rqli_perform(client->link, &call, until_us, &exchange, NULL);
    rqli_exchange_give(exchange);
    if (status) {
        rqli_keeper_withdraw(client->keeper, &what, attempt->options->ttl_ms);
    }
    return status == RQL_OK;
}

static struct rqli_request_limits limits_of(const struct attempt *attempt)
{
    const rql_lock_options *options = attempt->options;

    return (struct rqli_request_limits){
        .deadline_us = attempt->deadline_us,
        .tries = options->retry_count == 0 ? 1 : options->retry_count,
        .delay_us = options->retry_delay_ms * 1000,
    };
}

rql_status rqli_attempt(rql_lock *lock, const rql_lock_options *options,
                        struct rqli_attempt_result *out, rql_error *error)
{
    int64_t begun_us = rqli_now_us();
    struct rqli_clock_reading reading;
    struct attempt attempt = {
        .client = lock->client,
        .lock = lock,
        .options = options,
        .out = out,
        .waiter = {.lock_key = lock->keys.lock,
                   .name = lock->name,
                   .acquirer = lock->acquirer,
                   .nonce = lock->nonce},
        .may_retry = rqli_link_clock(lock->client->link, &reading),
        .deadline_us = rqli_after_ms(begun_us, options->timeout_ms),
    };
    const struct rqli_world world = {view, try_take, wait, leave, &attempt};
    struct rqli_request_limits limits = limits_of(&attempt);
    struct rqli_request request;
    rql_status status;

    out->rank = -1;
    rqli_request_init(&request, &limits);
    if (!options->fail_fast && rqli_subscriber_is_listening(lock->client->subscriber)) {
        status = join(&attempt, error);
        if (status) {
            return status;
        }
    }
    status = rqli_drive(&request, &world, error);
    if (attempt.has_joined) {
        rqli_subscriber_leave(lock->client->subscriber, &attempt.waiter);
    }
    out->tries = request.tries > 0 ? request.tries : 1;
    out->waited_us = rqli_now_us() - begun_us;
    return status;
}
