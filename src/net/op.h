#ifndef RQLI_OP_H
#define RQLI_OP_H

/*
 * An operation: calls that are sent together, answered one by one, and repeated until the operation
 * says that it is over. A call runs a script, or is a plain command. An operation knows neither
 * threads nor loops: rqli_op_run() drives it on the caller's thread, rqli_op_start() on a loop.
 */

#include "base/dlist.h"
#include "base/timers.h"
#include "net/fleet.h"
#include "net/subscription.h"
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
     * there is none (reply NULL, *fault). */
    void (*read)(struct rqli_op *op, size_t i, const struct rqli_exchange *answer,
                 const struct rqli_reply *reply, const rql_error *fault);
    /* Returns the next step. Called first of all, and after each round and each wait. */
    enum rqli_op_next (*next)(struct rqli_op *op);
    /* Reports that a wait has ended. NULL: the operation only waits for time to pass. */
    void (*woken)(struct rqli_op *op, enum rqli_wake wake);
    /* Called with op->generation: the calls are in the stream, and not sent yet. */
    void (*placed)(struct rqli_op *op);
};

/* Calls in one round: two commands for each key of a batch. */
enum { RQLI_OP_CALLS_MAX = 200 };

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

static inline void rqli_op_on_woken(struct rqli_op *op, enum rqli_wake wake)
{
    if (op->ops->woken) {
        op->ops->woken(op, wake);
    }
}

/* ---- on the thread of its caller ---- */

/*
 * Drives an operation to its end. Blocks. While the operation waits, op->waiter, if there is one
 * and it has joined, listens at the node of the route.
 *
 * With op->pushes_first a PING goes ahead, in the same write: a server sends its output last to the
 * connection from which it read first, and so notifies the waiter to which the script hands the
 * lock before it answers us.
 */
rql_status rqli_op_run(struct rqli_op *op);

/* Runs a single call, of a script or of words, and sends it again if it has done nothing. RQL_OK:
 * *out holds the reply, which is no error; give it back. Any other status: nothing to give back. */
rql_status rqli_call_run(const struct rqli_op_route *route, const struct rqli_call *call,
                         int64_t until_us, struct rqli_exchange **out, rql_error *error);

/* Serves the queue of a lock if the lock is free. True: it was handed over. A fault ends it: the
 * next poll serves the next waiter. */
bool rqli_serve(const struct rqli_op_route *route, const struct rqli_keys *keys,
                int64_t deadline_us);

/*
 * ---- on a loop; its thread alone ----
 *
 * Calls stand in line, each at the node that has its keys. A call is written when its turn comes,
 * so that a crowd neither fills memory nor keeps the other calls waiting.
 */

struct rqli_op_task;

enum rqli_op_call_state {
    RQLI_OP_CALL_IDLE,
    RQLI_OP_CALL_PAUSED, /* its slot moves, or has no node: it is sent again after a pause */
    RQLI_OP_CALL_QUEUED,
    RQLI_OP_CALL_SENT,
    RQLI_OP_CALL_READ, /* answered, but its durability is not confirmed yet */
};

/* One call of an operation. */
struct rqli_op_call {
    struct rqli_dlink link; /* first; while it stands in line */
    struct rqli_op_task *task;
    struct rqli_op_loop *loop; /* at which it stands in line, or over which it was sent */
    uint64_t position;         /* when sent: in the stream of the connection */
    enum rqli_op_call_state state;
    bool is_plain;
    uint8_t n_flushed; /* see struct rqli_retries */
    uint8_t n_moved;
};

/* The shared state of one loop's operations over one connection. */
struct rqli_op_loop {
    struct rqli_fleet *fleet;
    unsigned n_moves; /* of the fleet, when the calls took their places */
    struct rqli_node *node;
    /* Returns the loop's state for such operations at another node. NULL: no memory. */
    struct rqli_op_loop *(*at)(struct rqli_op_loop *self, struct rqli_node *node);
    struct rqli_timers *timers; /* for all tasks of the loop */
    struct rqli_conn_loop *conn;
    struct rqli_conn_loop_listener listener;
    bool was_up;            /* in the last round */
    uint64_t tracking_conn; /* generations for which CLIENT TRACKING was set up */
    uint64_t tracking_pushes;
    struct rqli_dlist returns; /* calls of operations that give back: they go first */
    struct rqli_dlist wishes;
    struct rqli_dlist unacked;     /* calls that were read, the oldest first */
    struct rqli_durability wanted; /* by the calls that were written and are not sent yet */
    struct rqli_acks acks;         /* the confirmations that are being read */
};

bool rqli_op_loop_has_queued(const struct rqli_op_loop *self);

/* True: a connection is wanted for those calls. While it is a guess which node to ask, none is. */
bool rqli_op_loop_wants_conn(const struct rqli_op_loop *self);

/* True: one of them may be sent now. */
bool rqli_op_loop_is_due(const struct rqli_op_loop *self);

/* Writes as many calls as may be in flight. */
void rqli_op_loop_write(struct rqli_op_loop *self);

/* The connection cannot be opened: the calls that stand in line get this fault. */
void rqli_op_loop_fail(struct rqli_op_loop *self, const rql_error *fault);

enum rqli_op_task_state {
    RQLI_OP_TASK_IDLE, /* not begun, or over */
    RQLI_OP_TASK_CALLING,
    RQLI_OP_TASK_PAUSING, /* before the next round */
    RQLI_OP_TASK_WAITING
};

/* An operation under way. */
struct rqli_op_task {
    struct rqli_op *op;
    struct rqli_op_loop *loop;               /* any of the loop states that its calls may go by */
    void (*done)(struct rqli_op_task *self); /* the operation is over; may free the task */
    struct rqli_op_call *calls;              /* room for op->n_calls, in each round */
    struct rqli_due due;
    size_t n_open;     /* calls of this round without a reply */
    int64_t resume_us; /* the paused calls go on then; 0: none is paused */
    uint8_t n_pauses;  /* of this round */
    enum rqli_op_task_state state;
};

/* Starts an operation. The caller has set op, loop, done and calls. False: no memory, nothing was
 * begun. `done` may be called before this returns. */
bool rqli_op_start(struct rqli_op_task *self);

/* Wakes the operation for a push, or to poll; no effect unless it waits. */
void rqli_op_wake(struct rqli_op_task *self, enum rqli_wake wake);

/* Has an operation that only waits, and whose reason to wait has changed, say again until when. */
void rqli_op_replan(struct rqli_op_task *self);

/* Its caller does not want it any more. Calls in flight are answered first. */
void rqli_op_cancel(struct rqli_op_task *self);

#endif
