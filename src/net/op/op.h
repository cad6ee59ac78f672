#ifndef RQLI_OP_H
#define RQLI_OP_H

/*
 * An operation: calls that are sent together, answered one by one, and repeated until the operation
 * says that it is over. A call runs a script, or is a plain command. An operation knows neither
 * threads nor loops: rqli_op_run() drives it on the caller's thread, rqli_op_start() on a loop.
 */

#include "net/conn/subscription.h"
#include "net/fleet/fleet.h"
#include "wire/command.h"

struct rqli_op;

/* The next step of an operation when all calls of a round are answered. */
enum rqli_op_next {
    RQLI_OP_OVER,  /* op->status says how */
    RQLI_OP_AGAIN, /* op->n_calls are to be sent, at op->again_us */
    RQLI_OP_WAIT,  /* nothing is to be sent: wake it at op->again_us, or when a push for it comes */
};

struct rqli_op_ops {
    /* Writes the i-th of op->n_calls; its keys and texts stay until it is answered. */
    void (*write)(struct rqli_op *op, size_t i, struct rqli_call *call);
    /* Takes its reply, which can be an error reply only for a plain command; or the reason why
     * there is none (reply NULL, *fault). `answer` is NULL then, except if the server has answered
     * a script with an error: see rqli_op_was_sent(). */
    void (*read)(struct rqli_op *op, size_t i, const struct rqli_batch *answer,
                 const struct rqli_reply *reply, const rql_error *fault);
    /* Returns the next step. Called first of all, and after each round and each wait. */
    enum rqli_op_next (*next)(struct rqli_op *op);
    /* Reports that a wait has ended. NULL: the operation only waits for time to pass. */
    void (*woken)(struct rqli_op *op, enum rqli_wake wake);
    /* On a loop: a call has done nothing, by this answer of its node, and is sent again after a
     * pause. NULL: nothing is done about that. */
    void (*paused)(struct rqli_op *op, const rql_error *fault);
    /* Called with op->generation: the calls are in the stream, and not sent yet. */
    void (*placed)(struct rqli_op *op);
};

/* Calls in one round: one for each partition. */
enum { RQLI_OP_CALLS_MAX = RQLI_PARTITIONS };

/* Which of a node's connections the calls go over, on the thread of their caller. */
enum rqli_op_use { RQLI_OP_FOR_CALLERS, RQLI_OP_DURABLE, RQLI_OP_IN_BACKGROUND };

/* Where calls go: those of scripts to the nodes that have their keys, plain commands to `node`. */
struct rqli_op_route {
    struct rqli_fleet *fleet;
    struct rqli_node *node;
    struct rqli_conn *conn; /* of `node`, on a thread: the connection to use; NULL: as `use` says */
    enum rqli_op_use use;
};

struct rqli_op {
    const struct rqli_op_ops *ops;
    struct rqli_op_route route;
    struct rqli_waiter *waiter; /* of an operation that waits */
    struct rqli_node *answered; /* the node that gave the last reply */
    size_t n_calls;
    int64_t until_us; /* no reply is waited for after this */
    int64_t grace_us; /* but on a loop, while the server keeps answering other calls within this */
    int64_t again_us;
    uint64_t generation; /* the calls go over this connection, or fail with RQL_E_IO; 0: over any */
    const struct rqli_durability *durability; /* for what the calls write; NULL: not asked for */
    struct rqli_acks acks; /* with it: the least that any server has confirmed for the round */
    bool gives_back;       /* on a loop: goes ahead of operations that want something */
    bool pushes_first;     /* see rqli_op_run() */
    bool is_late;          /* on a loop: until_us passed before the calls could be sent */
    bool is_cancelled;     /* its caller does not want it any more */
    rql_status status;
};

/* Finds out what the i-th call is about, to route it or to name it in a message: nothing is
 * written. */
static inline void rqli_op_draft(struct rqli_op *op, size_t i, struct rqli_call *out)
{
    struct rqli_command nowhere = {.failed = true}; /* accepts nothing */

    rqli_call_begin(out, &nowhere);
    out->is_draft = true;
    op->ops->write(op, i, out);
    out->out = NULL;
}

/* A round begins: nothing is known yet about how safe the writes of its calls are. */
static inline void rqli_op_begin_acks(struct rqli_op *op)
{
    op->acks = op->durability ? (struct rqli_acks){.replicas = INT64_MAX, .is_synced = true}
                              : (struct rqli_acks){0};
}

/* Returns whether a call that has failed may have reached the server. If no answer has come, only
 * RQL_E_UNKNOWN says so: every other fault is one of connecting and of the login. An error reply
 * comes after that, and a script may have written before it. */
static inline bool rqli_op_was_sent(const struct rqli_batch *answer, const rql_error *fault)
{
    return answer || fault->status == RQL_E_UNKNOWN;
}

static inline void rqli_op_on_woken(struct rqli_op *op, enum rqli_wake wake)
{
    if (op->ops->woken) {
        op->ops->woken(op, wake);
    }
}

#endif
