#include "lock/async_series.h"

#include "base/cancel.h"
#include "base/error.h"
#include "base/ident.h"
#include "lock/client.h"
#include "lock/leases.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

void rqli_serial_tell(struct rqli_serial *self)
{
    rql_series *series = self->series;
    rql_status status = self->status;

    if (series) {
        rqli_series_on_end(series, self->request.begun_us, status, &self->result);
    }
    self->result.reason = status;
    if (self->plan.options.result) {
        *self->plan.options.result = self->result;
    }
    if (status) {
        series = rqli_series_free(series);
    }
    self->done(status, series, status < 0 ? &self->error : NULL, self->user_data);
    rqli_request_free(&self->request);
}

/* ---- the end of an atomic one ---- */

static void refuse(struct rqli_serial *self)
{
    rqli_series_on_refused(self->series, &self->plan, &self->request.result, self->status,
                           &self->result);
    rqli_serial_tell(self);
}

static rql_status fill_refusal(void *user_data, rql_error *error)
{
    struct rqli_serial *self = user_data;

    (void)error;
    rqli_series_fill_refusal(self->series, &self->plan, &self->request.result, self->status,
                             &self->result);
    return RQL_OK;
}

static void on_refusal_filled(rql_status status, const rql_error *error, void *user_data)
{
    (void)status;
    (void)error;
    refuse(user_data);
}

static void describe_refusal(struct rqli_serial *self)
{
    const rql_work work = {fill_refusal, on_refusal_filled, self};
    rql_lock_options *options = &self->plan.lock;
    bool asks = self->status > 0 && options->refusal && options->detailed_acq_timeout_error;

    if (!asks || !rqli_work_begin(self->request.job.loop, &work)) {
        options->detailed_acq_timeout_error = false;
        (void)fill_refusal(self, NULL);
        refuse(self);
    }
}

static void on_given_back(rql_status status, const rql_error *error, void *user_data)
{
    (void)status;
    (void)error;
    rqli_serial_tell(user_data);
}

static void hold(struct rqli_serial *self)
{
    const rql_done done = {on_given_back, self};
    rql_series *series = self->series;

    self->status = rqli_series_on_granted(series, &self->plan, &self->request.result, &self->result,
                                          &self->error);
    if (!self->status ||
        !rqli_series_return(self->request.job.loop, series, series->count, &done)) {
        rqli_serial_tell(self);
    }
}

static void on_done(struct rqli_op_task *task)
{
    struct rqli_serial *self = (struct rqli_serial *)rqli_request_of(task);

    self->status = self->request.acquire.op.status;
    rqli_acquire_tell_fault(&self->request.acquire, &self->error);
    if (self->status) {
        describe_refusal(self);
    } else {
        hold(self);
    }
}

/* ---- the begin ---- */

static void prepare(struct rqli_serial *self)
{
    rql_request *request = &self->request;
    rql_series *series = self->series;
    struct rqli_acquire *acquire = &request->acquire;

    self->atomic.several.order = self->plan.order;
    self->atomic.several.fate = self->result.fate;
    acquire->locks = series->locks;
    acquire->count = series->count;
    acquire->several = &self->atomic.several;
    acquire->options = &self->plan.lock;
    request->task.calls = self->atomic.calls;
    request->task.done = on_done;
}

static void be_one_acquirer(const struct rqli_serial *self)
{
    const rql_series *series = self->series;

    for (size_t i = 0; self->number && i < series->count; i++) {
        rqli_own_acquirer_id(series->locks[i]->acquirer, self->number, series->client->identity);
        series->locks[i]->holder = RQLI_HOLDER_ANY;
    }
}

void rqli_serial_begin_atomic(struct rqli_job *job)
{
    struct rqli_serial *self = (struct rqli_serial *)job;

    self->series = rqli_series_new(job->loop->client, &self->plan);
    if (!self->series || !rqli_series_make_locks(self->series, &self->plan)) {
        self->status = rqli_fail_nomem(&self->error);
        rqli_serial_tell(self);
        return;
    }
    be_one_acquirer(self);
    rqli_series_share_with_all(self->series, &self->plan);
    self->request.result.tries = 1;
    prepare(self);
    self->status = rqli_request_begin(&self->request, &self->error);
    if (self->status) {
        refuse(self);
    }
}

static void begin(struct rqli_job *job)
{
    struct rqli_serial *self = (struct rqli_serial *)job;

    self->number = self->plan.lock.task ? 0 : rqli_loop_new_acquirer(job->loop);
    if (self->plan.options.mode == RQL_SERIES_GEM) {
        rqli_serial_begin_gem(job);
    } else {
        rqli_serial_begin_atomic(job);
    }
}

static void copy_names(rql_series_options *options, char *memory)
{
    const char **names = (const char **)(void *)memory;
    char *at = memory + options->n_names * sizeof *names;

    for (size_t i = 0; i < options->n_names; i++) {
        size_t size = strlen(options->names[i]) + 1;

        names[i] = memcpy(at, options->names[i], size);
        at += size;
    }
    options->names = names;
}

static struct rqli_serial *serial_new(rql_loop *loop, const struct rqli_series_plan *plan,
                                      const rql_series_acquiring *what)
{
    size_t n_names = plan->options.n_names;
    size_t names = n_names * (sizeof(char *) + RQL_NAME_MAX + 1);
    struct rqli_serial *self =
        calloc(1, sizeof *self + names + rqli_options_room(&plan->lock) + sizeof(rql_meta));
    char *memory = (char *)(self + 1);

    if (!self) {
        return NULL;
    }
    rqli_request_prepare(&self->request, begin);
    if (plan->options.mode == RQL_SERIES_GEM) {
        self->request.job.cancel = rqli_serial_cancel_gem;
    }
    self->request.job.loop = loop;
    self->plan = *plan;
    memory = rqli_options_copy(&self->plan.lock, memory);
    memory += -(uintptr_t)memory % sizeof(char *);
    copy_names(&self->plan.options, memory);
    self->result = (rql_series_result){.count = n_names, .failed_on = n_names};
    self->done = what->done;
    self->user_data = what->user_data;
    return self;
}

rql_status rql_series_acquire_async(rql_loop *loop, const rql_series_options *options,
                                    rql_series_acquiring *what, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct rqli_series_plan plan;
    struct rqli_serial *self;
    rql_status status = rqli_loop_check(loop, error);

    if (!status) {
        status = rqli_series_plan(&plan, &loop->client->of_calls, options, error);
    }
    if (status) {
        return status;
    }
    if (!what || !what->done) {
        return rqli_fail(error, RQL_E_INVALID, "series: nobody is to be told");
    }
    self = serial_new(loop, &plan, what);
    what->request = (rql_request *)self; /* before the loop's thread can be done with it */
    return rqli_async_start(loop, (struct rqli_job *)self, error);
}
