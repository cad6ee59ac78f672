#include "lock/async.h"
#include "lock/notify.h"

#include "base/cancel.h"
#include "base/error.h"
#include "base/random.h"
#include "lock/client.h"
#include "lock/leases.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The acquisition of a series. */
struct acquiring {
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

static void finish(struct acquiring *self)
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

static void refuse(struct acquiring *self)
{
    rqli_series_on_refused(self->series, &self->plan, &self->request.result, self->status,
                           &self->result);
    finish(self);
}

static rql_status fill_refusal(void *user_data, rql_error *error)
{
    struct acquiring *self = user_data;

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

static void describe_refusal(struct acquiring *self)
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
    finish(user_data);
}

static void hold(struct acquiring *self)
{
    const rql_done done = {on_given_back, self};
    rql_series *series = self->series;

    self->status = rqli_series_on_granted(series, &self->plan, &self->request.result, &self->result,
                                          &self->error);
    if (!self->status ||
        !rqli_series_return(self->request.job.loop, series, series->count, &done)) {
        finish(self);
    }
}

static void on_done(struct rqli_op_task *task)
{
    struct acquiring *self = (struct acquiring *)rqli_request_of(task);

    self->status = self->request.acquire.op.status;
    rqli_acquire_tell_fault(&self->request.acquire, &self->error);
    if (self->status) {
        describe_refusal(self);
    } else {
        hold(self);
    }
}

/* ---- the begin ---- */

static void prepare(struct acquiring *self)
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

static void be_one_acquirer(const struct acquiring *self)
{
    const rql_series *series = self->series;

    for (size_t i = 0; self->number && i < series->count; i++) {
        rqli_lock_be(series->locks[i], self->number);
    }
}

static void begin_atomic(struct rqli_job *job)
{
    struct acquiring *self = (struct acquiring *)job;

    self->series = rqli_series_new(job->loop->client, &self->plan);
    if (!self->series || !rqli_series_make_locks(self->series, &self->plan)) {
        self->status = rqli_fail_nomem(&self->error);
        finish(self);
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

/* ---- the gem's mode ---- */

/* One lock after the other, each with its own retries and timeout, as series/series.c does it. */

static void take_next(struct acquiring *self);

static void on_returned(rql_status status, const rql_error *error, void *user_data)
{
    struct acquiring *self = user_data;

    (void)error;
    rqli_notify_series_returned(self->series, status);
    finish(self);
}

static void fail(struct acquiring *self, rql_status status, const rql_error *error)
{
    const rql_done done = {on_returned, self};
    rql_series *series = self->series;

    self->status = status;
    if (error) {
        self->error = *error;
    }
    self->result.failed_on = series->count;
    if (!rqli_series_return(self->request.job.loop, series, series->count, &done)) {
        on_returned(RQL_E_NOMEM, NULL, self);
    }
}

static void on_member(rql_status status, rql_lock *lock, const rql_error *error, void *user_data)
{
    struct acquiring *self = user_data;
    rql_series *series = self->series;
    size_t at = series->count;

    self->request.part = NULL;
    self->result.fate[at] = status ? RQL_SERIES_REFUSED : RQL_SERIES_ACQUIRED;
    if (!status) {
        series->locks[series->count++] = lock;
    }
    self->result.n_acquired = series->count;
    if (status) {
        fail(self, status, error);
    } else if (self->request.shall_cancel) {
        fail(self, RQL_CANCELLED, NULL);
    } else if (series->count < self->plan.options.n_names) {
        take_next(self);
    } else {
        series->begun_us = lock->begun_us;
        finish(self);
    }
}

static void take_next(struct acquiring *self)
{
    const rql_acquiring what = {.done = on_member, .user_data = self};
    const rql_series_options *options = &self->plan.options;
    rql_loop *loop = self->request.job.loop;
    size_t at = self->series->count;
    rql_request *member;

    self->gem.options.ttl_ms = rqli_series_ttl_ms(&self->plan.lock, options->n_names, at);
    member = rqli_single_new(loop, options->names[at], &self->gem.options, &what);
    if (!member) {
        rql_error error;

        fail(self, rqli_fail_nomem(&error), &error);
        return;
    }
    rqli_single_be(member, self->number);
    self->request.part = member;
    rqli_loop_begin(loop, (struct rqli_job *)member);
}

static void begin_gem(struct rqli_job *job)
{
    struct acquiring *self = (struct acquiring *)job;

    self->series = rqli_series_new(job->loop->client, &self->plan);
    if (!self->series) {
        self->status = rqli_fail_nomem(&self->error);
        finish(self);
        return;
    }
    self->gem.options = self->plan.lock;
    rqli_series_share_listeners(self->series, &self->gem.options);
    take_next(self);
}

static void cancel_gem(struct rqli_job *job)
{
    struct acquiring *self = (struct acquiring *)job;

    self->request.shall_cancel = true;
    if (self->request.part) {
        rqli_request_cancel(&self->request.part->job);
    }
}

static void begin(struct rqli_job *job)
{
    struct acquiring *self = (struct acquiring *)job;

    self->number = self->plan.lock.task ? 0 : rqli_loop_new_acquirer(job->loop);
    if (self->plan.options.mode == RQL_SERIES_GEM) {
        begin_gem(job);
    } else {
        begin_atomic(job);
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

static struct acquiring *acquiring_new(rql_loop *loop, const struct rqli_series_plan *plan,
                                       const rql_series_acquiring *what)
{
    size_t n_names = plan->options.n_names;
    size_t names = n_names * (sizeof(char *) + RQL_NAME_MAX + 1);
    struct acquiring *self =
        calloc(1, sizeof *self + names + rqli_options_room(&plan->lock) + sizeof(rql_meta));
    char *memory = (char *)(self + 1);

    if (!self) {
        return NULL;
    }
    rqli_request_prepare(&self->request, begin);
    if (plan->options.mode == RQL_SERIES_GEM) {
        self->request.job.cancel = cancel_gem;
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
    struct acquiring *self;
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
    self = acquiring_new(loop, &plan, what);
    what->request = (rql_request *)self; /* before the loop's thread can be done with it */
    return rqli_async_start(loop, (struct rqli_job *)self, error);
}
