#ifndef RQLI_OP_LOOP_H
#define RQLI_OP_LOOP_H

/* What op_loop.c, the calls at one node, and op_task.c, the operations, share. */

#include "net/op.h"

/* The calls of a task are an array, in the order of the operation's. */
static inline size_t rqli_op_call_index(const struct rqli_op_call *call)
{
    return (size_t)(call - call->task->calls);
}

/* Stands in line at its loop. */
void rqli_op_call_queue(struct rqli_op_call *self);

/* Where it is to stand in line: at the node that has its keys, as far as is known. NULL: no memory.
 */
struct rqli_op_loop *rqli_op_call_loop(const struct rqli_op_call *self);

/* Where keys have moved, or it is known only now who has them, not all that stands in line here
 * need wait for this node. */
void rqli_op_loop_place_anew(struct rqli_op_loop *self);

/* Its reply concerns nobody any more. */
void rqli_op_call_stop(struct rqli_op_call *self);

/* An error reply to a script. True: it has done nothing, and the call stands in line once more,
 * where the keys are, or will in a while. False: *fault says what it means. */
bool rqli_op_call_repeat(struct rqli_op_call *self, const struct rqli_exchange *answer,
                         rql_error *fault);

/* A call of the round is over, and was read. */
void rqli_op_task_end_call(struct rqli_op_task *self);

#endif
