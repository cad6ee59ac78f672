#ifndef RQLI_OP_LOOP_H
#define RQLI_OP_LOOP_H

/*
 * Operations on a loop; its thread alone calls these functions.
 *
 * Calls stand in line, each at the node that has its keys. A call is written when its turn comes,
 * so that a crowd neither fills memory nor keeps the other calls waiting.
 */

#include "base/dlist.h"
#include "base/timers.h"
#include "net/conn/conn_loop.h"
#include "net/op/op.h"

struct rqli_op_driver;

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
    struct rqli_op_driver *driver;
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
    struct rqli_timers *timers; /* for all drivers of the loop */
    struct rqli_conn_loop *conn;
    struct rqli_conn_loop_listener listener;
    bool was_up;            /* in the last round of the loop */
    uint64_t tracking_conn; /* generations for which CLIENT TRACKING was set up */
    uint64_t tracking_pushes;
    struct rqli_dlist returns; /* calls of operations that give back: they go first */
    struct rqli_dlist wishes;
    struct rqli_dlist unacked;     /* calls that were read, the oldest first */
    struct rqli_durability wanted; /* by the calls that were written and are not sent yet */
    struct rqli_acks acks;         /* the confirmations that are being read */
    size_t n_waits; /* how often the server was asked for them, and has not answered */
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

enum rqli_op_driver_state {
    RQLI_OP_DRIVER_IDLE, /* not begun, or over */
    RQLI_OP_DRIVER_CALLING,
    RQLI_OP_DRIVER_PAUSING, /* before the next round */
    RQLI_OP_DRIVER_WAITING
};

/* Drives one operation. */
struct rqli_op_driver {
    struct rqli_op *op;
    struct rqli_op_loop *loop;                 /* any of the loop states that its calls may go by */
    void (*done)(struct rqli_op_driver *self); /* the operation is over; may free the driver */
    struct rqli_op_call *calls;                /* room for op->n_calls, in each round */
    struct rqli_due due;
    size_t n_open;     /* calls of this round without a reply */
    int64_t resume_us; /* the paused calls go on then; 0: none is paused */
    uint8_t n_pauses;  /* of this round */
    enum rqli_op_driver_state state;
};

/* Starts an operation. The caller has set op, loop, done and calls. False: no memory, nothing was
 * begun. `done` may be called before this returns. */
bool rqli_op_start(struct rqli_op_driver *self);

/* Wakes the operation for a push, or to poll; no effect unless it waits. */
void rqli_op_wake(struct rqli_op_driver *self, enum rqli_wake wake);

/* Has an operation that only waits, and whose reason to wait has changed, say again until when. */
void rqli_op_replan(struct rqli_op_driver *self);

/* Has a wait end in a later turn of the loop: for callers that are within the end of another
 * operation, and may not end this one, too. */
void rqli_op_end_wait_soon(struct rqli_op_driver *self);

/* Its caller does not want it any more. Calls in flight are answered first. */
void rqli_op_cancel(struct rqli_op_driver *self);

#endif
