#ifndef RQLI_LEAVING_H
#define RQLI_LEAVING_H

/*
 * An acquisition that is given up leaves its queues: one call for each lock, answered before the
 * caller is. What is not confirmed by then is withdrawn in the background.
 */

#include "lock/acquisition.h"

/* The calls of a round, and their replies; NULL: none came, because of the fault. */
void rqli_leave_write(const struct rqli_acquire *self, size_t i, struct rqli_call *call);
void rqli_leave_read(struct rqli_acquire *self, size_t i, const struct rqli_exchange *answer,
                     const struct rqli_reply *reply, const rql_error *fault);

/* True: there is a round to be sent. False: it has left. On a thread it may block, in a round with
 * others that leave at the same moment. */
bool rqli_leave_next(struct rqli_acquire *self);

/* Nothing waits for it: goes on until the server has confirmed, or the grant must have ended. */
void rqli_leave_in_background(const struct rqli_acquire *self, const rql_lock *lock);

#endif
