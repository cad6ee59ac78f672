#include "base/cancel.h"
#include "base/error.h"
#include "lock/async_inside.h"
#include "lock/client.h"

#include <stdlib.h>

/* A blocking call that runs on libuv's pool. */
struct work {
    struct rqli_job job; /* first */
    uv_work_t uv;
    rql_work work;
    rql_status status;
    rql_error error;
};

static void run(uv_work_t *uv)
{
    struct work *self = uv->data;

    self->status = self->work.run(self->work.user_data, &self->error);
}

static void on_ran(uv_work_t *uv, int status)
{
    struct work *self = uv->data;
    const rql_done done = {self->work.done, self->work.user_data};
    rql_status outcome = self->status;
    rql_error error = self->error;

    (void)status; /* nothing cancels it */
    rqli_loop_finish(&self->job);
    free(self);
    rqli_tell_done(&done, outcome, &error);
}

/* It fails only without a function to run. */
static void begin(struct rqli_job *job)
{
    struct work *self = (struct work *)job;

    self->uv.data = self;
    (void)uv_queue_work(job->loop->uv, &self->uv, run, on_ran);
}

static struct rqli_job *work_new(const rql_work *work)
{
    struct work *self = calloc(1, sizeof *self);

    if (!self) {
        return NULL;
    }
    self->job.begin = begin;
    self->work = *work;
    return &self->job;
}

bool rqli_work_begin(rql_loop *loop, const rql_work *work)
{
    struct rqli_job *job = work_new(work);

    if (job) {
        rqli_loop_begin(loop, job);
    }
    return job != NULL;
}

rql_status rql_run_async(rql_loop *loop, const rql_work *work, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_status status = rqli_loop_check(loop, error);

    if (status) {
        return status;
    }
    if (!work || !work->run) {
        return rqli_fail(error, RQL_E_INVALID, "rql_run_async: there is nothing to run");
    }
    return rqli_async_start(loop, work_new(work), error);
}
