#ifndef RQLI_HAND_OVER_H
#define RQLI_HAND_OVER_H

/*
 * Hands a lock on inside the client, in the steps of its releaser: choose, write, place, and, when
 * the server has answered, settle. A release on a thread hands it to waiting threads, a release on
 * a loop to requests that wait on the same loop. lua/README.md 39 to 43.
 */

#include "lock/lock.h"
#include "lock/transfer.h"

struct rqli_pushes;
struct rqli_waiter;
struct rql_loop;

struct rqli_hand_over {
    rql_lock *lock;                 /* the lock that is being released */
    struct rql_loop *loop;          /* of the releaser; NULL: a thread */
    struct rqli_node *node;         /* node that had the lock when it was handed on */
    struct rqli_transfer *transfer; /* NULL: no waiter of this client gets it */
    struct rqli_pushes *pushes;     /* what its waiters have joined, at that node */
    struct rqli_waiter *chosen;     /* notified when the call is in the stream */
};

/* Returns the loop on whose thread we are, if that loop has handed the lock over and the server has
 * not confirmed it yet; else NULL. Only this thread reads the loop's replies, so waiting here for
 * the confirmation would never end. */
struct rql_loop *rqli_hand_over_loop_here(const rql_lock *lock);

/* Returns RQL_E_UNAVAILABLE, raised, if there is such a loop: a call that waits must not be made
 * here. */
rql_status rqli_hand_over_check_here(const rql_lock *lock, rql_error *error);

/* Waits, until the deadline at most, for the server to know that the acquirer of this request has
 * got the same lock by a hand-over, if it has: a try may go over another connection, and would find
 * the lock another acquirer's. Not for a hand-over that a loop of this thread carries. */
void rqli_hand_over_await_own(const rql_lock *request, int64_t deadline_us);

/* Returns the connection that its calls go over. */
const void *rqli_hand_over_carrier(const struct rqli_hand_over *self);

/* True: the lease lasts for a while yet, and the lock was granted over the connection that is up
 * now. So the server that receives the release is the one that knows the lock. */
bool rqli_hand_over_is_safe(const struct rqli_hand_over *self, int64_t now_us);

/* Chooses the next owner, if it is a waiter of this client that may be handed the lock. That waiter
 * sleeps until one of the two functions below is called. False: the server has to find the next
 * owner. */
bool rqli_hand_over_choose(struct rqli_hand_over *self);
/* Notifies the waiter that it is the owner. The call is in the stream. */
void rqli_hand_over_place(struct rqli_hand_over *self);
/* The call could not be put into the stream: there is no hand-over, and the waiter polls. */
void rqli_hand_over_abandon(struct rqli_hand_over *self);

void rqli_hand_over_write(const struct rqli_hand_over *self, struct rqli_call *call);

/* Applies the server's answer to the call that was sent at sent_us. */
void rqli_hand_over_on_done(const struct rqli_hand_over *self, int64_t sent_us, int64_t left_ms);
void rqli_hand_over_on_refused(const struct rqli_hand_over *self);

/* Ends the hand-over. If it is not settled by then it has failed, and the new owner loses the lock.
 * may_be_there: the server may have something of the new owner's request, which is withdrawn. */
void rqli_hand_over_end(struct rqli_hand_over *self, bool may_be_there);

#endif
