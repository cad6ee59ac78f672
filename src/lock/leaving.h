#ifndef RQLI_LEAVING_H
#define RQLI_LEAVING_H

/*
 * An acquisition that is given up leaves its queues, with one call for each lock. The calls are
 * answered before the caller is. A withdrawal that is not confirmed by then goes on in the
 * background.
 */

#include "lock/acquisition.h"

/* Write the calls of a round, and read their replies. NULL: there is no reply, because of the
 * fault. */
void rqli_leave_write(const struct rqli_acquire *self, size_t i, struct rqli_call *call);
void rqli_leave_read(struct rqli_acquire *self, size_t i, const struct rqli_batch *answer,
                     const struct rqli_reply *reply, const rql_error *fault);

/* True: there is a round to send. False: it has left. On a thread this may block, in one round with
 * other threads that leave at the same moment. */
bool rqli_leave_next(struct rqli_acquire *self);

#endif
