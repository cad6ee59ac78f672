#include "lock/async_request.h"

#include "base/clock.h"
#include "base/error.h"
#include "lock/client.h"

#include <stdlib.h>

rql_status rqli_request_begin(rql_request *self, rql_error *error)
{
    rql_loop *loop = self->job.loop;
    struct rqli_acquire *acquire = &self->acquire;
    rql_status status;

    acquire->result = &self->result;
    acquire->begun_us = self->begun_us;
    acquire->task = &self->task;
    acquire->loop = loop;
    rqli_acquire_init(acquire);
    acquire->op.is_cancelled = self->shall_cancel;
    self->task.op = &acquire->op;
    self->task.loop = &loop->op;
    status = rqli_acquire_begin(acquire, error);
    if (!status && !rqli_op_start(&self->task)) {
        rqli_acquire_abandon(acquire);
        status = rqli_fail_nomem(error);
    }
    return status;
}

void rqli_request_free(rql_request *self)
{
    rqli_loop_finish(&self->job);
    free(self->acquire.error);
    self->acquire.error = NULL;
    self->is_over = true;
    if (!atomic_load(&self->is_cancelling)) {
        free(self);
    }
}

void rqli_request_cancel(struct rqli_job *job)
{
    rql_request *self = (rql_request *)job;

    self->shall_cancel = true;
    if (self->task.op) { /* it has begun */
        rqli_op_cancel(&self->task);
    }
}

static void take_cancellation(struct rqli_post *post)
{
    rql_request *self = (rql_request *)((char *)post - offsetof(rql_request, cancelling));

    atomic_store(&self->is_cancelling, false);
    if (self->is_over) {
        free(self);
    } else {
        self->job.cancel(&self->job);
    }
}

void rqli_request_prepare(rql_request *self, void (*begin)(struct rqli_job *job))
{
    self->job.begin = begin;
    self->job.cancel = rqli_request_cancel;
    self->cancelling.take = take_cancellation;
    self->begun_us = rqli_now_us();
}

rql_status rql_request_cancel(rql_request *request)
{
    rql_status status;

    if (!request) {
        return RQL_E_INVALID;
    }
    status = rqli_loop_check(request->job.loop, NULL);
    if (!status && !atomic_exchange(&request->is_cancelling, true)) {
        rqli_loop_post(request->job.loop, &request->cancelling);
    }
    return status;
}

/* Half of the time after which the connection counts as broken: whoever asks now and then learns
 * of the silence before that. */
static bool is_unanswered(const struct rqli_acquire *acquire)
{
    return acquire->client && acquire->request.state == RQLI_REQUEST_TRYING &&
           rqli_now_us() - acquire->tried_us > acquire->client->options.io_timeout_ms * 500;
}

rql_status rql_request_fault(const rql_request *request, rql_error *error)
{
    const struct rqli_acquire *acquire;

    if (!request) {
        return rqli_fail(error, RQL_E_INVALID, "fault: no request");
    }
    while (request->part) {
        request = request->part;
    }
    acquire = &request->acquire;
    if (!acquire->fault) {
        return is_unanswered(acquire) ? rqli_fail(error, RQL_E_UNKNOWN, "%s: no answer so far",
                                                  request->job.loop->op.queue.where)
                                      : RQL_OK;
    }
    if (error && acquire->error) {
        *error = *acquire->error;
        return acquire->fault;
    }
    return rqli_fail(error, acquire->fault, "%s", rql_status_text(acquire->fault));
}
