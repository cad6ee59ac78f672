/* Operations on the thread of their caller. A round is one exchange: all calls in one write, and
 * the calls of scripts that the server did not know once more with their texts. */

#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "net/op.h"
#include "wire/answer.h"

#include <string.h>

RQLI_DEFINE_AUTO(struct rqli_exchange *, rqli_exchange_give);

/* What becomes of a call in its round: a plain command gets its reply as it is, even an error. */
enum call_state { ANSWERED, SCRIPT, PLAIN };

/* The calls of one round. */
struct round {
    struct rqli_op *op;
    struct rqli_exchange *exchange;
    size_t n_open;   /* that are not answered yet */
    bool with_texts; /* the server did not know a script: the first call of each brings its text */
    uint8_t calls[RQLI_OP_CALLS_MAX]; /* enum call_state */
};

static bool teaches(const struct round *self, const struct rqli_call *call)
{
    return self->op->durability && rqli_conn_teaches(self->exchange->carrier, call->script);
}

static void write_script(const struct round *self, const struct rqli_call *call,
                         struct rqli_command *command, uint64_t *taught)
{
    uint64_t script = UINT64_C(1) << call->script;

    if (self->op->pushes_first && *taught == 0) {
        rqli_command_words(command, "PING", NULL);
    }
    rqli_call_write(call, command,
                    (self->with_texts || teaches(self, call)) && (*taught & script) == 0);
    *taught |= script;
}

/* A text is sent once, with the first call of its script: the others behind it find it there.
 * `taught` has a bit for each script. Only calls that are open are written, with arguments made
 * anew. */
static void write_calls(struct round *self, struct rqli_command *command)
{
    struct rqli_call call;
    uint64_t taught = 0;

    rqli_command_reset(command);
    for (size_t i = 0; i < self->op->n_calls; i++) {
        if (self->calls[i] != ANSWERED) {
            rqli_call_begin(&call, command);
            self->op->ops->write(self->op, i, &call);
            self->calls[i] = call.is_plain ? PLAIN : SCRIPT;
        }
        if (self->calls[i] == SCRIPT) {
            write_script(self, &call, command, &taught);
        }
    }
}

/* An error reply to a script becomes a fault that names its call, which is written once more for
 * that: not to the stream. */
static void read_error(const struct round *self, size_t i, const struct rqli_reply *reply)
{
    rql_error fault = {0};
    struct rqli_call call;

    rqli_call_begin(&call, NULL);
    self->op->ops->write(self->op, i, &call);
    (void)rqli_exchange_fault(self->exchange, reply, rqli_scripts[call.script].name,
                              rqli_call_subject(&call), &fault);
    self->op->ops->read(self->op, i, NULL, NULL, &fault);
}

/* The replies are those of the open calls, in their order, behind that of PING. Calls of a script
 * that the server does not know stay open; may_repeat: they can be sent again. */
static void read_replies(struct round *self, bool may_repeat)
{
    const struct rqli_reply *reply = &self->exchange->reply[self->op->pushes_first];

    for (size_t i = 0; i < self->op->n_calls; i++) {
        bool is_error;

        if (self->calls[i] == ANSWERED) {
            continue;
        }
        is_error = self->calls[i] == SCRIPT && reply->type == RQLI_REPLY_ERROR;
        if (!is_error || !may_repeat || !rqli_reply_wants_text(reply)) {
            self->calls[i] = ANSWERED;
            self->n_open--;
        }
        if (!is_error) {
            self->op->ops->read(self->op, i, self->exchange, reply, NULL);
        } else if (self->calls[i] == ANSWERED) {
            read_error(self, i, reply);
        }
        reply++;
    }
}

/* No reply has come; the fault says what may have been done. */
static void read_fault(struct round *self, const rql_error *fault)
{
    for (size_t i = 0; i < self->op->n_calls; i++) {
        if (self->calls[i] != ANSWERED) {
            self->op->ops->read(self->op, i, NULL, NULL, fault);
        }
    }
    self->n_open = 0;
}

static rql_status exchange(struct round *self, rql_error *fault)
{
    struct rqli_op *op = self->op;
    rql_status status;

    self->exchange->durability = op->durability;
    if (op->generation == 0) {
        status = rqli_exchange_run(self->exchange, op->until_us, fault);
        if (op->durability) {
            op->acks = self->exchange->acks;
        }
        return status;
    }
    status = rqli_exchange_put(self->exchange, op->generation, fault);
    if (status) {
        return status;
    }
    op->ops->placed(op);
    return rqli_exchange_await(self->exchange, op->until_us, fault);
}

/* Pauses until op->again_us; then sends the calls, and reads the replies. Nobody wakes `never`: it
 * is a sleep by our clock. With the texts NOSCRIPT comes only if somebody else has the server
 * forget all scripts in between; that may go on until op->until_us. */
static void run_round(struct rqli_op *op, struct rqli_conn *conn)
{
    RQLI_AUTO(rqli_exchange_give) struct rqli_exchange *taken = NULL;
    rqli_signal never = 0;
    struct round round;
    rql_error fault;

    if (op->again_us > 0) {
        rqli_signal_wait(&never, 0, op->again_us);
    }
    taken = rqli_exchange_take(conn);
    round.op = op;
    round.exchange = taken;
    round.n_open = op->n_calls;
    round.with_texts = false;
    memset(round.calls, SCRIPT, op->n_calls);
    if (!taken) {
        (void)rqli_fail_nomem(&fault);
        read_fault(&round, &fault);
    }
    while (round.n_open > 0) {
        write_calls(&round, &taken->command);
        if (exchange(&round, &fault)) {
            read_fault(&round, &fault);
        } else {
            read_replies(&round, !round.with_texts || rqli_now_us() < op->until_us);
            round.with_texts = true;
        }
    }
}

/* Where the waiter is not in the register nothing can be told to it, and it sleeps. */
rql_status rqli_op_run(struct rqli_op *op, struct rqli_conn *conn,
                       struct rqli_push_threads *subscriber)
{
    enum rqli_op_next next = op->ops->next(op);
    rqli_signal never = 0;

    while (next != RQLI_OP_OVER) {
        if (next == RQLI_OP_WAIT && op->waiter && op->waiter->has_joined) {
            rqli_op_on_woken(op, rqli_push_threads_wait(subscriber, op->waiter, op->again_us));
        } else if (next == RQLI_OP_WAIT) {
            rqli_signal_wait(&never, 0, op->again_us);
            rqli_op_on_woken(op, RQLI_WAKE_TIME);
        } else {
            run_round(op, conn);
        }
        next = op->ops->next(op);
    }
    return op->status;
}

/* Twice at most: with its text no script is unknown. */
rql_status rqli_call_run(struct rqli_conn *conn, const struct rqli_call *call, int64_t until_us,
                         struct rqli_exchange **out, rql_error *error)
{
    RQLI_AUTO(rqli_exchange_give) struct rqli_exchange *exchange = rqli_exchange_take(conn);
    bool with_text = false;
    bool is_unknown;

    if (!exchange) {
        return rqli_fail_nomem(error);
    }
    do {
        rql_status status;

        rqli_command_reset(&exchange->command);
        rqli_call_write(call, &exchange->command, with_text);
        status = rqli_exchange_run(exchange, until_us, error);
        if (status) {
            return status;
        }
        is_unknown = !with_text && rqli_reply_wants_text(exchange->reply);
        with_text = true;
    } while (is_unknown);
    if (exchange->reply->type == RQLI_REPLY_ERROR) {
        return rqli_exchange_fault(exchange, exchange->reply, rqli_scripts[call->script].name,
                                   rqli_call_subject(call), error);
    }
    *out = RQLI_GIVE(exchange);
    return RQL_OK;
}

/* Each call takes some of the dead out of the queue, so there is an end to it. */
bool rqli_serve(struct rqli_conn *conn, const struct rqli_keys *keys, int64_t deadline_us)
{
    struct rqli_outcome outcome = {.second = RQLI_SERVED_PARTLY};
    struct rqli_call call;

    rqli_serve_write(keys, &call);
    while (outcome.second == RQLI_SERVED_PARTLY) {
        RQLI_AUTO(rqli_exchange_give) struct rqli_exchange *exchange = NULL;

        (void)rqli_call_run(conn, &call, deadline_us, &exchange, NULL);
        if (!exchange || !rqli_outcome_read(exchange->reply, &outcome)) {
            return false;
        }
    }
    return outcome.second == RQLI_SERVED_ONE;
}
