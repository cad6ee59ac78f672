#ifndef ONE_OP_H
#define ONE_OP_H

/* An operation of one round: each of its calls releases a lock, or asks for something. */

#include "net/op/op.h"

#include <stdarg.h>

static struct {
    struct rqli_op op; /* first */
    struct rqli_keys keys;
    char memory[RQLI_KEYS_ROOM];
    bool is_plain;
    bool is_of_words;
    bool has_asked;
    size_t n_replies;
    size_t n_errors; /* replies that are one */
    size_t n_faults;
    rql_error error; /* the last fault */
    bool was_placed;
    bool was_sent; /* the call that failed last */
} one;

static void write_words(struct rqli_call *call, ...)
{
    va_list words;

    va_start(words, call);
    rqli_call_init_words(call, one.keys.set, words);
    va_end(words);
}

static void write_call(struct rqli_op *op, size_t i, struct rqli_call *call)
{
    (void)op;
    (void)i;
    if (one.is_plain) {
        rqli_command_words(rqli_call_plain(call), "PING", NULL);
        return;
    }
    if (one.is_of_words) {
        write_words(call, "TYPE", "rql:key", NULL);
        return;
    }
    rqli_call_init(call, RQLI_SCRIPT_RELEASE, &one.keys);
    rqli_call_text(call, "nonce");
    rqli_call_random(call);
}

static void read_call(struct rqli_op *op, size_t i, const struct rqli_batch *answer,
                      const struct rqli_reply *reply, const rql_error *fault)
{
    (void)op;
    (void)i;
    one.n_replies += reply != NULL;
    one.n_errors += reply && reply->type == RQLI_REPLY_ERROR;
    one.n_faults += fault != NULL;
    one.error = fault ? *fault : one.error;
    one.was_sent = fault ? rqli_op_was_sent(answer, fault) : one.was_sent;
}

static enum rqli_op_next next(struct rqli_op *op)
{
    bool is_first = !one.has_asked && !op->is_cancelled;

    one.has_asked = true;
    return is_first ? RQLI_OP_AGAIN : RQLI_OP_OVER;
}

static void placed(struct rqli_op *op)
{
    (void)op;
    one.was_placed = true;
}

static const struct rqli_op_ops one_ops = {
    .write = write_call, .read = read_call, .next = next, .placed = placed};

#endif
