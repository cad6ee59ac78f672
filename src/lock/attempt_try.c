#include "base/clock.h"
#include "base/error.h"
#include "lock/attempt_inside.h"
#include "lock/client.h"
#include "lock/grant.h"
#include "lock/leases.h"
#include "lock/server_clock.h"
#include "lock/tracking.h"
#include "net/perform.h"
#include "net/socket.h"
#include "observe/observe.h"
#include "wire/answer.h"
#include "wire/push.h"

/* Three years: what waits longer waits for ever, and no number of the scripts gets an exponent. */
static const int64_t LONGEST_WAIT_MS = INT64_C(100000000000);

static int64_t wait_left_ms(const struct attempt *attempt, int64_t now_us)
{
    int64_t left_ms = (attempt->deadline_us - now_us) / 1000;

    if (left_ms > LONGEST_WAIT_MS) {
        return -1;
    }
    return left_ms > 0 ? left_ms : 0;
}

void rqli_attempt_add_words(const struct attempt *attempt, struct rqli_call *call, int64_t now_us)
{
    static const char access[] = "qrQR"; /* the second two: it holds other locks */
    static const char conflict[] = "wted";
    const rql_lock_options *options = attempt->options;
    /* Who does not wait is in nobody's way. */
    bool is_nested = !options->fail_fast &&
                     (options->nested ||
                      rqli_holders_has(&attempt->client->holders, attempt->lock->holder, now_us));
    struct rqli_ask ask = {
        .access = access[(int)options->access_strategy + (is_nested ? 2 : 0)],
        .conflict = conflict[options->conflict_strategy],
        .fail_fast = options->fail_fast,
        .wait_ms = wait_left_ms(attempt, now_us),
        .queue_ttl_ms = options->queue_ttl_ms,
        .score_us = attempt->place.score_us,
        .chance = rqli_random_below(65536),
    };
    size_t i;

    rqli_call_text(call, attempt->lock->acquirer);
    rqli_call_text(call, attempt->lock->host);
    rqli_call_int(call, options->ttl_ms);
    rqli_call_text(call, attempt->waiter.nonce);
    rqli_call_int(call, rqli_server_clock_not_after(attempt->client, now_us));
    rqli_call_ask(call, &ask);
    for (i = 0; i < options->n_meta; i++) {
        rqli_call_text(call, options->meta[i].name);
        rqli_call_text(call, options->meta[i].value);
    }
}

void rqli_attempt_write(const struct attempt *attempt, struct rqli_call *call, int64_t now_us)
{
    rqli_call_init(call, RQLI_SCRIPT_ACQUIRE, &attempt->lock->keys);
    rqli_attempt_add_words(attempt, call, now_us);
}

static struct rqli_try again(void)
{
    return (struct rqli_try){.result = RQLI_TRY_AGAIN};
}

static struct rqli_try refused(rql_status outcome)
{
    return (struct rqli_try){.result = RQLI_TRY_REFUSED, .status = outcome};
}

static struct rqli_try faulty(rql_status fault)
{
    return (struct rqli_try){.result = RQLI_TRY_FAULT, .status = fault};
}

struct rqli_try rqli_attempt_not_in_force(struct attempt *attempt, const struct rqli_answer *answer)
{
    if (answer->left_ms < 0) {
        return (struct rqli_try){.result = RQLI_TRY_SETBACK, .status = RQL_E_UNKNOWN};
    }
    /* A host that counts as dead is told so by the next try, and a re-entry ends with its lock. */
    if (rqli_leases_is_overdue(attempt->client->leases, rqli_now_us()) ||
        answer->process != RQL_LOCK_OBTAINING) {
        return again();
    }
    attempt->out->n_over++;
    return (struct rqli_try){.result = RQLI_TRY_OVER};
}

static struct rqli_try granted(struct attempt *attempt, const struct rqli_exchange *exchange,
                               const struct rqli_answer *answer)
{
    if (!rqli_grant_by_answer(attempt->lock, attempt->options, answer, exchange->sent_us,
                              &attempt->out->terms)) {
        return rqli_attempt_not_in_force(attempt, answer);
    }
    return (struct rqli_try){.result = RQLI_TRY_GRANTED};
}

/* The first wait of a client: what was pushed before we joined is lost, so ask again. */
static struct rqli_try join_late(struct attempt *attempt, rql_error *error)
{
    rql_status status = rqli_attempt_join(attempt, error);

    return status ? faulty(status) : again();
}

/* True: the lock was free when the watch began; what happened before that is not told. */
static bool watch_ruby(struct attempt *attempt, uint64_t link_generation)
{
    bool is_new;
    struct rqli_waiter_view around =
        rqli_subscriber_watch(attempt->client->subscriber, &attempt->waiter, &is_new);

    if (!is_new && rqli_attempt_is_armed(attempt, link_generation)) {
        return false;
    }
    rqli_attempt_arm(attempt, link_generation);
    return around.is_listening &&
           rqli_tracking_arm(attempt->client, attempt->watched, link_generation, &around,
                             rqli_attempt_ask_until(attempt, rqli_now_us()));
}

/* Nobody is told of a connection that brings nothing any more: whoever waits for a push waits on,
 * and is passed over at each hand-over. */
static void test_hearing(const struct attempt *attempt)
{
    rql_client *client = attempt->client;
    struct rqli_exchange *exchange =
        rqli_subscriber_wants_call(client->subscriber) ? rqli_exchange_take(client->conn) : NULL;

    if (!exchange) {
        return;
    }
    rqli_push_call(&exchange->command, client->endpoint.identity);
    if (rqli_exchange_run(exchange, rqli_attempt_ask_until(attempt, rqli_now_us()), NULL) ==
            RQL_OK &&
        exchange->reply->type == RQLI_REPLY_INTEGER) {
        rqli_subscriber_on_called(client->subscriber, exchange->reply->integer);
    }
    rqli_exchange_give(exchange);
}

static struct rqli_try queued(struct attempt *attempt, const struct rqli_exchange *exchange,
                              const struct rqli_answer *answer)
{
    bool was_held = answer->left_ms >= 0;

    rqli_observe_queued(attempt->lock, answer, attempt->place.score_us);
    attempt->place = (struct rqli_request_place){
        .lock_ends_us = was_held ? exchange->received_us + answer->left_ms * 1000 : RQLI_NEVER_US,
        .rank = answer->rank,
        .score_us = answer->score_us,
        .is_first = answer->is_first,
    };
    attempt->out->rank = answer->rank;
    attempt->was_restored = answer->was_restored;
    attempt->watched = answer->of_ruby != 0 ? attempt->lock->keys.lock : (struct rqli_slice){0};
    return (struct rqli_try){.result = RQLI_TRY_QUEUED, .place = attempt->place};
}

struct rqli_try rqli_attempt_attend(struct attempt *attempt, struct rqli_try result,
                                    uint64_t link_generation, rql_error *error)
{
    if (result.result != RQLI_TRY_QUEUED) {
        return result;
    }
    if (!attempt->has_joined) {
        return join_late(attempt, error);
    }
    test_hearing(attempt);
    if (attempt->was_restored) {
        rqli_subscriber_nudge(attempt->client->subscriber, &attempt->waiter);
    }
    if (attempt->watched.data && watch_ruby(attempt, link_generation)) {
        return again();
    }
    return result;
}

void rqli_attempt_learn(const struct attempt *attempt, const struct rqli_exchange *exchange,
                        int64_t server_us)
{
    struct rqli_clock_reading reading = {
        .sent_us = exchange->sent_us, .received_us = exchange->received_us, .server_us = server_us};

    rqli_server_clock_learn(attempt->client, &reading);
}

struct rqli_try rqli_attempt_decide(struct attempt *attempt, const struct rqli_exchange *exchange,
                                    const struct rqli_answer *answer)
{
    switch (answer->kind) {
    case RQLI_ANSWER_QUEUED:
        return queued(attempt, exchange, answer);
    case RQLI_ANSWER_FAIL_FAST_NO_TRY:
        return refused(RQL_FAIL_FAST_NO_TRY);
    case RQLI_ANSWER_FAIL_FAST_AFTER_TRY:
        return refused(RQL_FAIL_FAST_AFTER_TRY);
    case RQLI_ANSWER_CONFLICT:
        return refused(RQL_CONFLICT);
    case RQLI_ANSWER_GRANTED:
    case RQLI_ANSWER_STALE:
    case RQLI_ANSWER_AGAIN:
        break;
    }
    return again();
}

struct rqli_try rqli_attempt_read(struct attempt *attempt, const struct rqli_exchange *exchange,
                                  rql_error *error)
{
    const rql_lock *lock = attempt->lock;
    struct rqli_answer answer;

    if (!rqli_answer_read(exchange->reply, &answer) || !rqli_answer_is_for(&answer, lock->nonce)) {
        return faulty(rqli_exchange_fault(exchange, exchange->reply, "acquire", lock->name, error));
    }
    rqli_attempt_learn(attempt, exchange, answer.server_us);
    rqli_observe_answer(lock, &answer);
    if (answer.kind == RQLI_ANSWER_GRANTED) {
        return granted(attempt, exchange, &answer);
    }
    return rqli_attempt_decide(attempt, exchange, &answer);
}

/* The first connection gives the first reading of the server's clock, before the first script, and
 * how far away it is: *until_us follows. Afterwards nobody asks the link any more: all acquisitions
 * go through its mutex. */
static rql_status connect_first(struct attempt *attempt, int64_t *until_us, rql_error *error)
{
    rql_client *client = attempt->client;
    struct rqli_clock_reading reading;
    rql_status status;

    if (attempt->may_retry) {
        return RQL_OK;
    }
    status = rqli_conn_connect(client->conn, *until_us, error);
    attempt->may_retry = rqli_conn_clock(client->conn, &reading);
    if (!status) {
        rqli_server_clock_learn(client, &reading);
        atomic_store_explicit(&client->was_connected, true, memory_order_relaxed);
        *until_us = rqli_attempt_ask_until(attempt, rqli_now_us());
    }
    return status;
}

rql_status rqli_attempt_check_host(const struct attempt *self, int64_t now_us, rql_error *error)
{
    if (!rqli_leases_is_overdue(self->client->leases, now_us)) {
        return RQL_OK;
    }
    return rqli_fail(error, RQL_E_UNAVAILABLE,
                     "%s: the swarm has not reached its server for so long that this host may "
                     "count as dead; nothing was sent",
                     self->lock->name);
}

struct rqli_try rqli_attempt_failed(struct attempt *attempt, rql_status fault)
{
    bool refuses = fault == RQL_E_UNAVAILABLE || fault == RQL_E_READ_ONLY;
    bool passes = fault == RQL_E_UNKNOWN || (refuses && !attempt->options->fail_fast) ||
                  (fault == RQL_E_IO && attempt->may_retry);

    attempt->had_grace = rqli_now_us() > attempt->deadline_us;
    return passes ? (struct rqli_try){.result = RQLI_TRY_SETBACK, .status = fault} : faulty(fault);
}

int64_t rqli_attempt_ask_until(const struct attempt *self, int64_t now_us)
{
    int64_t until_us = rqli_client_budget_us(self->client, now_us);

    if (self->deadline_us >= until_us) {
        return until_us;
    }
    return self->out->rank >= 0
               ? self->deadline_us
               : later(self->deadline_us, now_us + rqli_client_grace_us(self->client));
}

struct rqli_exchange *rqli_attempt_carry(struct attempt *attempt,
                                         void (*write)(const struct attempt *, struct rqli_call *,
                                                       int64_t now_us),
                                         struct rqli_try *failure_out, rql_error *error)
{
    struct rqli_exchange *exchange = NULL;
    struct rqli_call call;
    int64_t now_us = rqli_now_us();
    int64_t until_us = rqli_attempt_ask_until(attempt, now_us);
    rql_status status = rqli_attempt_check_host(attempt, now_us, error);

    status = status ? status : connect_first(attempt, &until_us, error);
    if (!status) {
        write(attempt, &call, now_us);
        attempt->out->asked++;
        status = rqli_perform(attempt->client->conn, &call, until_us, &exchange, error);
    }
    if (status) {
        *failure_out = rqli_attempt_failed(attempt, status);
    }
    return exchange;
}

struct rqli_try rqli_attempt_try(void *self, rql_error *error)
{
    struct attempt *attempt = self;
    struct rqli_exchange *exchange;
    struct rqli_try result;

    rqli_observe_try(attempt->lock);
    exchange = rqli_attempt_carry(attempt, rqli_attempt_write, &result, error);
    if (exchange) {
        result = rqli_attempt_read(attempt, exchange, error);
        result = rqli_attempt_attend(attempt, result, exchange->generation, error);
        rqli_exchange_give(exchange);
    }
    return result;
}
