#ifndef RQLI_ASYNC_REQUEST_H
#define RQLI_ASYNC_REQUEST_H

/* An acquisition on a loop: of one lock (async.c), or of a series (async_series.c). */

#include "lock/acquire.h"
#include "lock/loop.h"

struct rql_request {
    struct rqli_job job; /* first */
    struct rqli_post cancelling;
    struct rqli_op_task task;
    struct rqli_acquire acquire;
    struct rqli_acquire_result result;
    rql_request *part; /* the one that tries in its place, or NULL: of a series in the gem's mode */
    uint64_t watch;    /* position in the stream of a look at Ruby's lock, or 0 */
    int64_t begun_us;
    bool shall_cancel;          /* as soon as what is under way is answered */
    bool _Atomic is_cancelling; /* posted, and not taken yet */
    bool is_over;               /* freed when that is taken */
};

/* Any thread. The job of a new request; `begin` makes its locks and then begins the acquisition. */
void rqli_request_prepare(rql_request *self, void (*begin)(struct rqli_job *job));

/* acquire (as rqli_acquire_init() says), task.calls and task.done are set.
 * RQL_E_BUSY, RQL_E_NOMEM (raised): it was not begun. Else task.done comes, now or later. */
rql_status rqli_request_begin(rql_request *self, rql_error *error);

static inline rql_request *rqli_request_of(struct rqli_op_task *task)
{
    return (rql_request *)((char *)task - offsetof(rql_request, task));
}

/* The last step: no more of it is used, but by a cancellation on its way. Behind the callback:
 * until that is called, another thread may cancel it. */
void rqli_request_free(rql_request *self);

/* As rqli_job::cancel. */
void rqli_request_cancel(struct rqli_job *job);

#endif
