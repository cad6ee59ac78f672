#include "base/error.h"
#include "lock/async_series.h"
#include "lock/notify.h"

/* One lock after the other, each with its own retries and timeout, as series/series.c does it. */

static void take_next(struct rqli_serial *self);

static void on_returned(rql_status status, const rql_error *error, void *user_data)
{
    struct rqli_serial *self = user_data;

    (void)error;
    rqli_notify_series_returned(self->series, status);
    rqli_serial_tell(self);
}

static void fail(struct rqli_serial *self, rql_status status, const rql_error *error)
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
    struct rqli_serial *self = user_data;
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
        rqli_serial_tell(self);
    }
}

static void take_next(struct rqli_serial *self)
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

void rqli_serial_begin_gem(struct rqli_job *job)
{
    struct rqli_serial *self = (struct rqli_serial *)job;

    self->series = rqli_series_new(job->loop->client, &self->plan);
    if (!self->series) {
        self->status = rqli_fail_nomem(&self->error);
        rqli_serial_tell(self);
        return;
    }
    self->gem.options = self->plan.lock;
    rqli_series_share_listeners(self->series, &self->gem.options);
    take_next(self);
}

void rqli_serial_cancel_gem(struct rqli_job *job)
{
    struct rqli_serial *self = (struct rqli_serial *)job;

    self->request.shall_cancel = true;
    if (self->request.part) {
        rqli_request_cancel(&self->request.part->job);
    }
}
