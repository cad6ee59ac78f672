#ifndef RQLI_OP_H
#define RQLI_OP_H

/*
 * An operation: calls that are sent together, answered one by one, and repeated until the operation
 * says that it is over. A call runs a script, or is a plain command. An operation knows neither
 * threads nor loops: rqli_op_run() drives it on the caller's thread, rqli_op_start() on a loop.
 */

#include "net/conn_threads.h"
#include "net/subscription.h"
#include "wire/command.h"

struct rqli_op;

/* What an operation wants when all calls of a round are answered. */
enum rqli_op_next {
    RQLI_OP_OVER,  /* op->status says how */
    RQLI_OP_AGAIN, /* op->n_calls are to be sent, at op->again_us */
    RQLI_OP_WAIT,  /* nothing is to be sent: wake it at op->again_us, or when it is pushed */
};

struct rqli_op_ops {
    /* The i-th of op->n_calls; its keys and texts stay until it is answered. */
    void (*write)(struct rqli_op *op, size_t i, struct rqli_call *call);
    /* Its reply, which is no error reply unless to a plain command; or why there is none (reply
     * NULL, *fault). */
    void (*read)(struct rqli_op *op, size_t i, const struct rqli_exchange *answer,
                 const struct rqli_reply *reply, const rql_error *fault);
    /* Asked first of all, and after each round and each wait. */
    enum rqli_op_next (*next)(struct rqli_op *op);
    /* A wait has ended. NULL: it never waits. */
    void (*woken)(struct rqli_op *op, enum rqli_wake wake);
};

/* In one round: two commands for each key of a batch. */
enum { RQLI_OP_CALLS_MAX = 200 };

struct rqli_op {
    const struct rqli_op_ops *ops;
    struct rqli_waiter *waiter; /* of one that waits */
    size_t n_calls;
    int64_t until_us; /* no reply is waited for beyond this */
    int64_t grace_us; /* but on a loop, as long as the server keeps answering others within this */
    int64_t again_us;
    bool gives_back;   /* on a loop: goes ahead of those that want something */
    bool pushes_first; /* see rqli_op_run() */
    bool is_late;      /* on a loop: until_us came before the calls could be sent */
    bool is_cancelled; /* its caller wants it no more */
    rql_status status;
};

/*
 * Drives an operation to its end. Blocks. subscriber: what op->waiter has joined, or NULL.
 *
 * With op->pushes_first a PING goes ahead, in the same write: a server sends what it owes to the
 * connection last that it heard first, and so tells whom the script hands the lock to before us.
 */
rql_status rqli_op_run(struct rqli_op *op, struct rqli_conn *conn,
                       struct rqli_push_threads *subscriber);

/* A single call of a script, not repeated. RQL_OK: *out holds the reply, which is no error; give it
 * back. Any other status: nothing to give back. */
rql_status rqli_call_run(struct rqli_conn *conn, const struct rqli_call *call, int64_t until_us,
                         struct rqli_exchange **out, rql_error *error);

/* Serves the queue of a lock if that is free. True: it was handed over. A fault ends it: the next
 * poll serves who is next. */
bool rqli_serve(struct rqli_conn *conn, const struct rqli_keys *keys, int64_t deadline_us);

#endif
