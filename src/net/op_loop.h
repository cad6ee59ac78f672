#ifndef RQLI_OP_LOOP_H
#define RQLI_OP_LOOP_H

/*
 * Operations on a loop. Their calls stand in line: each is written when its turn comes, so that a
 * crowd neither fills memory nor keeps the others waiting; a script's by digest, once more with the
 * text if the server does not know it. One thread: the loop's.
 */

#include "base/timers.h"
#include "net/conn_loop.h"
#include "net/op.h"

struct rqli_op_task;

enum rqli_op_call_state {
    RQLI_OP_CALL_IDLE,
    RQLI_OP_CALL_QUEUED,
    RQLI_OP_CALL_SENT,
};

/* One call of an operation. */
struct rqli_op_call {
    struct rqli_op_task *task;
    struct rqli_op_call *next; /* queued */
    struct rqli_op_call *previous;
    uint64_t position; /* sent: on the connection */
    enum rqli_op_call_state state;
    bool is_plain;
    bool is_repeated; /* the server did not know the script */
};

struct rqli_op_line {
    struct rqli_op_call *first;
    struct rqli_op_call *last;
};

/* What the operations of one loop share. */
struct rqli_op_loop {
    struct rqli_conn_loop *conn;
    struct rqli_timers timers;
    struct rqli_op_line repeats; /* go first, to keep the order */
    struct rqli_op_line returns; /* of operations that give back */
    struct rqli_op_line wishes;
    uint64_t taught[RQLI_SCRIPT_COUNT]; /* position of the last call with the text */
};

bool rqli_op_loop_has_queued(const struct rqli_op_loop *self);

/* Writes as many calls as may be under way. */
void rqli_op_loop_write(struct rqli_op_loop *self);

/* The connection cannot be opened: the calls that stand in line get this fault. */
void rqli_op_loop_fail(struct rqli_op_loop *self, const rql_error *fault);

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

/* It is pushed, or is to poll; nothing happens unless it waits. */
void rqli_op_wake(struct rqli_op_task *self, enum rqli_wake wake);

/* It only waits, and what it waits for has changed: it says anew until when. */
void rqli_op_replan(struct rqli_op_task *self);

/* Its caller wants it no more. What is under way on the server is answered first. */
void rqli_op_cancel(struct rqli_op_task *self);

#endif
