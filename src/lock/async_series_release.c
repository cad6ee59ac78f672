#include "base/cancel.h"
#include "base/error.h"
#include "lock/async_series.h"
#include "observe/observe_series.h"

#include <stdlib.h>

/* Locks that are given back at once. A job of its own. */
struct returning {
    struct rqli_job job; /* first */
    rql_series *series;
    size_t count;
    size_t n_left;
    rql_done done;
    rql_status verdict; /* the first fault, RQL_NOT_HELD, or RQL_OK */
    rql_error error;
};

static void note(struct returning *self, rql_status status, const rql_error *error)
{
    if (self->verdict >= 0 && status != RQL_OK) {
        self->verdict = status;
        self->error = error ? *error : self->error;
    }
}

static void on_part(rql_status status, const rql_error *error, void *user_data)
{
    struct returning *self = user_data;
    rql_done done = self->done;
    rql_status verdict;
    rql_error detail;

    note(self, status, error);
    if (--self->n_left > 0) {
        return;
    }
    verdict = self->verdict;
    detail = self->error;
    rqli_loop_finish(&self->job);
    free(self);
    rqli_tell_done(&done, verdict, &detail);
}

/* The last one first, as a re-entry ends before the grant that it shares. */
static void begin_returning(struct rqli_job *job)
{
    struct returning *self = (struct returning *)job;
    const rql_done done = {on_part, self};
    rql_series *series = self->series;

    self->n_left = 1; /* ourselves: a part may end at once */
    for (size_t i = self->count; i-- > 0;) {
        self->n_left++;
        if (!rqli_release_begin(job->loop, series->locks[i], &done, false)) {
            rql_error error;

            note(self, rqli_fail_nomem(&error), &error);
            self->n_left--;
        }
    }
    on_part(RQL_OK, NULL, self);
}

bool rqli_series_return(rql_loop *loop, rql_series *series, size_t count, const rql_done *done)
{
    struct returning *self = calloc(1, sizeof *self);

    rqli_series_unlist(series, count);
    if (!self) {
        return false;
    }
    self->job.begin = begin_returning;
    self->series = series;
    self->count = count;
    self->done = *done;
    rqli_loop_begin(loop, &self->job);
    return true;
}

/* rql_series_release() on a loop. */
struct series_release {
    struct rqli_job job; /* first */
    rql_series *series;
    rql_series_result *result;
    rql_done done;
};

static void end(struct series_release *self, rql_status status, const rql_error *error)
{
    rql_done done = self->done;

    if (self->series) {
        rqli_series_on_released(self->series, status, self->result);
        (void)rqli_series_free(self->series);
    }
    rqli_loop_finish(&self->job);
    free(self);
    rqli_tell_done(&done, status, error);
}

static void on_returned(rql_status status, const rql_error *error, void *user_data)
{
    end(user_data, status, error);
}

static void begin(struct rqli_job *job)
{
    struct series_release *self = (struct series_release *)job;
    const rql_done done = {on_returned, self};
    rql_error error;

    if (!self->series) {
        end(self, RQL_OK, NULL);
        return;
    }
    rqli_observe_series_ending(self->series);
    if (!rqli_series_return(job->loop, self->series, self->series->count, &done)) {
        end(self, rqli_fail_nomem(&error), &error);
    }
}

rql_status rql_series_release_async(rql_loop *loop, rql_series *series, rql_series_result *result,
                                    const rql_done *done, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct series_release *self;
    rql_status status = series ? rqli_async_check_of(loop, series->client, "series", error)
                               : rqli_loop_check(loop, error);

    if (status) {
        return status;
    }
    self = calloc(1, sizeof *self);
    if (self) {
        self->job.begin = begin;
        self->series = series;
        self->result = result;
        self->done = done ? *done : (rql_done){NULL, NULL};
    }
    return rqli_async_start(loop, (struct rqli_job *)self, error);
}
