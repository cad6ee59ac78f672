#ifndef RQLI_OP_THREADS_H
#define RQLI_OP_THREADS_H

/* Operations on the threads of their callers. */

#include "net/op/op.h"

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
                         int64_t until_us, struct rqli_batch **out, rql_error *error);

/* Serves the queue of a lock if the lock is free. True: it was handed over. A fault ends it: the
 * next poll serves the next waiter. */
bool rqli_serve(const struct rqli_op_route *route, const struct rqli_keys *keys,
                int64_t deadline_us);

#endif
