#ifndef RQLI_ASYNC_H
#define RQLI_ASYNC_H

/* The parts that the asynchronous calls share: checks for any thread, and building blocks for the
 * loop's thread. */

#include "lock/acquisition.h"
#include "lock/loop.h"
#include "net/op/op_loop.h"

/* Any thread. Makes the request for one lock; copies its arguments. Returns NULL if there is no
 * memory. */
rql_request *rqli_single_new(rql_loop *loop, const char *name, const rql_lock_options *options,
                             const rql_acquiring *what);

/* rqli_options_copy() copies the texts into `memory`, which has rqli_options_room() bytes, and
 * returns the address after the copy. */
size_t rqli_options_room(const rql_lock_options *options);
char *rqli_options_copy(rql_lock_options *options, char *memory);

/* Loop's thread. They return false if there is no memory; nothing was begun then. */

/* Begins rql_lock_release(), which also frees the lock. */
bool rqli_release_begin(rql_loop *loop, rql_lock *lock, const rql_done *done);
/* Begins rql_series_release(), which also frees the series. */
bool rqli_series_release_begin(rql_loop *loop, rql_series *series);
/* Begins rqli_give_back() with this deadline; the locks stay their owner's. Without memory they are
 * unlisted all the same, and withdrawn in the background. */
bool rqli_give_back_begin(rql_loop *loop, rql_lock *const *locks, size_t count, int64_t deadline_us,
                          const rql_done *done);

/* An acquisition on a loop: of one lock (async.c), or of a series (series_calls.c). */

struct rql_request {
    struct rqli_job job; /* first */
    struct rqli_post cancelling;
    struct rqli_op_driver driver;
    struct rqli_acquire acquire;
    struct rqli_acquire_result result;
    /* Called when the request is over and reported, with acquire.op.status. */
    void (*finish)(rql_request *self, rql_status status, const rql_error *error);
    bool shall_cancel;          /* as soon as the calls under way are answered */
    bool _Atomic is_cancelling; /* posted, and not taken yet */
    bool is_over;               /* a posted cancellation frees it */
};

/* Any thread. Prepares the job of a new request, and sets acquire.begun_us; `start` makes its locks
 * and then begins the acquisition. */
void rqli_request_prepare(rql_request *self, void (*start)(struct rqli_job *job));

/* Does the work of rqli_acquire_run() on a loop. Caller has set acquire (as rqli_acquire_init()
 * says, without result and driver), driver.calls and finish; `finish` is called now or later. */
void rqli_request_begin(rql_request *self);

/* Frees the request, as the last step; only a cancellation on its way still uses it. Comes after
 * the callback: until the callback is called, another thread may cancel the request. */
void rqli_request_free(rql_request *self);

/* Implements rqli_job::cancel. */
void rqli_request_cancel(struct rqli_job *job);

#endif
