#ifndef RQLI_HAND_OVER_H
#define RQLI_HAND_OVER_H

/*
 * Handing a lock on inside the client, as its releaser does it: choose, write, place; and when the
 * server has answered, settle. What it says on a thread is for threads that wait, on a loop for
 * what waits on that loop. lua/README.md 39 to 43.
 */

#include "lock/lock.h"
#include "lock/transfer.h"

struct rqli_waiter;
struct rql_loop;

struct rqli_hand_over {
    rql_lock *lock;                 /* that is being released */
    struct rql_loop *loop;          /* by whom; NULL: by a thread */
    struct rqli_node *node;         /* of which the lock was had when it was handed on */
    struct rqli_transfer *transfer; /* NULL: to nobody here */
    struct rqli_waiter *chosen;     /* who is to be told, when the call is in the stream */
};

/* The loop on whose thread we are, if it has handed the lock over and the server has not said so
 * yet: nobody else reads what it says, so whoever waits for that here waits in vain. Or NULL. */
struct rql_loop *rqli_hand_over_loop_here(const rql_lock *lock);

/* The connection that its calls go over. */
const void *rqli_hand_over_carrier(const struct rqli_hand_over *self);

/* The lock is relied on for a while, and was granted over the connection that is there: so the
 * server that hears of its end is the one that knows it. */
bool rqli_hand_over_is_safe(const struct rqli_hand_over *self, int64_t now_us);

/* Who is next, if that is known here and may be handed the lock: it sleeps until one of the two
 * behind. False: the server finds out. */
bool rqli_hand_over_choose(struct rqli_hand_over *self);
/* The call is in the stream: the waiter is the owner. */
void rqli_hand_over_place(struct rqli_hand_over *self);
/* It could not be put there: the waiter polls, and there is no hand-over. */
void rqli_hand_over_abandon(struct rqli_hand_over *self);

void rqli_hand_over_write(const struct rqli_hand_over *self, struct rqli_call *call);

/* What the server has answered to what was sent at sent_us. */
void rqli_hand_over_on_done(const struct rqli_hand_over *self, int64_t sent_us, int64_t left_ms);
void rqli_hand_over_on_refused(const struct rqli_hand_over *self);

/* It is over. What was not settled by then has failed: the new owner loses the lock. may_be_there:
 * something of its request may be on the server, and is withdrawn. */
void rqli_hand_over_end(struct rqli_hand_over *self, bool may_be_there);

#endif
