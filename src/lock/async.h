#ifndef RQLI_ASYNC_H
#define RQLI_ASYNC_H

/* What the asynchronous calls share: checks on any thread, and parts that others are made of, on
 * the loop's. */

#include "lock/acquisition.h"
#include "lock/loop.h"
#include "lock/series.h"

/* Any thread. The request for one lock; copies. NULL: no memory. */
rql_request *rqli_single_new(rql_loop *loop, const char *name, const rql_lock_options *options,
                             const rql_acquiring *what);

/* It has the acquirer of this number, which others have, too. */
void rqli_single_be(rql_request *request, uint64_t number);

/* Any thread. RQL_E_INVALID: `what` is of another client. */
rql_status rqli_async_check_of(rql_loop *loop, const rql_client *client, const char *what,
                               rql_error *error);

/* Copies the metadata into `memory`, which has the room, and returns what is behind it. */
size_t rqli_options_room(const rql_lock_options *options);
char *rqli_options_copy(rql_lock_options *options, char *memory);

/* Loop's thread. False: no memory, nothing was begun. */

/* rql_lock_release(): it is freed, too. */
bool rqli_release_begin(rql_loop *loop, rql_lock *lock, const rql_done *done);
/* rqli_give_back() by this deadline; the locks stay their owner's. Without memory they are unlisted
 * all the same. */
bool rqli_give_back_begin(rql_loop *loop, rql_lock *const *locks, size_t count, int64_t deadline_us,
                          const rql_done *done);

/* An acquisition on a loop: of one lock (async.c), or of a series (async_series.c). */

struct rql_request {
    struct rqli_job job; /* first */
    struct rqli_post cancelling;
    struct rqli_op_task task;
    struct rqli_acquire acquire;
    struct rqli_acquire_result result;
    rql_request *part; /* the one that tries in its place, or NULL: of a series in the gem's mode */
    int64_t begun_us;
    /* It is over and reported, with acquire.op.status. */
    void (*finish)(rql_request *self, rql_status status, const rql_error *error);
    bool shall_cancel;          /* as soon as what is under way is answered */
    bool _Atomic is_cancelling; /* posted, and not taken yet */
    bool is_over;               /* freed when that is taken */
};

/* Any thread. The job of a new request; `start` makes its locks and then begins the acquisition. */
void rqli_request_prepare(rql_request *self, void (*start)(struct rqli_job *job));

/* As rqli_acquire_run(), on a loop. acquire (as rqli_acquire_init() says), task.calls and finish
 * are set; `finish` comes now or later. */
void rqli_request_begin(rql_request *self);

/* The last step: no more of it is used, but by a cancellation on its way. Behind the callback:
 * until that is called, another thread may cancel it. */
void rqli_request_free(rql_request *self);

/* As rqli_job::cancel. */
void rqli_request_cancel(struct rqli_job *job);

#endif
