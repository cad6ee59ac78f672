#ifndef RQLI_ASYNC_SERIES_H
#define RQLI_ASYNC_SERIES_H

/* A series on a loop: what the two modes of acquiring it, and its release, share. */

#include "lock/async_inside.h"
#include "lock/async_request.h"
#include "lock/series.h"

/* The acquisition of a series. */
struct rqli_serial {
    rql_request request; /* first; of the gem's mode only a handle */
    struct rqli_series_plan plan;
    rql_series_result result;
    rql_series *series;
    uint64_t number; /* of its acquirer; 0: the task that the caller has named */
    rql_status status;
    rql_error error;
    rql_series_acquired_fn done;
    void *user_data;

    struct {
        struct rqli_acquire_several several;
        struct rqli_op_call calls[RQL_SERIES_MAX];
    } atomic;

    struct {
        rql_lock_options options;
    } gem;
};

/* As rqli_job::begin. */
void rqli_serial_begin_atomic(struct rqli_job *job);
void rqli_serial_begin_gem(struct rqli_job *job);

/* The gem's mode: as rqli_job::cancel. */
void rqli_serial_cancel_gem(struct rqli_job *job);

/* The last step, with self->status and self->error. */
void rqli_serial_tell(struct rqli_serial *self);

/* Gives back the first `count` locks, the last one first. `done` is told the status of
 * rql_series_release(). False: no memory, nothing was done. */
bool rqli_series_return(rql_loop *loop, rql_series *series, size_t count, const rql_done *done);

#endif
