#ifndef RQLI_OP_LOOP_H
#define RQLI_OP_LOOP_H

/* Operations on a loop. One thread: the loop's. */

#include "base/timers.h"
#include "net/call_queue.h"
#include "net/op.h"

/* What those of one loop share. */
struct rqli_op_loop {
    struct rqli_conn_loop *conn;
    struct rqli_call_queue queue;
    struct rqli_timers timers;
};

struct rqli_op_task;

struct rqli_op_call {
    struct rqli_queued_call queued; /* first */
    struct rqli_op_task *task;
};

enum rqli_op_task_state {
    RQLI_OP_TASK_IDLE, /* not begun, or over */
    RQLI_OP_TASK_CALLING,
    RQLI_OP_TASK_PAUSING, /* until the next round */
    RQLI_OP_TASK_WAITING
};

/* An operation under way. */
struct rqli_op_task {
    struct rqli_op *op;
    struct rqli_op_loop *loop;
    void (*done)(struct rqli_op_task *self); /* it is over; may free it */
    struct rqli_op_call *calls;              /* room for op->n_calls, in each round */
    struct rqli_due due;
    size_t n_open; /* calls of this round without a reply */
    enum rqli_op_task_state state;
};

/* op, loop, done and calls are set. False: no memory, nothing was begun. `done` may come within. */
bool rqli_op_start(struct rqli_op_task *self);

/* It is pushed, or is to look; nothing happens unless it waits. */
void rqli_op_wake(struct rqli_op_task *self, enum rqli_wake wake);

/* It only waits, and what it waits for has changed: it says anew until when. */
void rqli_op_replan(struct rqli_op_task *self);

/* Its caller wants it no more. What is under way on the server is answered first. */
void rqli_op_cancel(struct rqli_op_task *self);

#endif
