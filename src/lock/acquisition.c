#include "lock/acquisition_inside.h"

#include "base/clock.h"
#include "base/error.h"
#include "lock/client.h"

#include <stddef.h>
#include <stdlib.h>

static rql_request *of_errand(struct rqli_queued_call *queued_call)
{
    return (rql_request *)((char *)queued_call - offsetof(rql_request, queued_call));
}

static rql_request *of_due(struct rqli_due *due)
{
    return (rql_request *)((char *)due - offsetof(rql_request, due));
}

struct rqli_request_view rqli_acquisition_view(const rql_request *self)
{
    int64_t jitter_ms = self->attempt->options->retry_jitter_ms;

    return (struct rqli_request_view){
        .now_us = rqli_now_us(),
        .jitter_us = rqli_random_below((uint32_t)jitter_ms * 1000U),
        .leads = self->has_joined && rqli_waiting_leads(&self->guest),
        .is_listening = rqli_ear_is_listening(self->job.loop->ear),
        .is_told = true,
    };
}

static void view(void *self, struct rqli_request_view *out)
{
    *out = rqli_acquisition_view(self);
}

struct rqli_world rqli_acquisition_world(rql_request *self)
{
    return (struct rqli_world){.view = view, .self = self};
}

static void set_due(rql_request *self, int64_t at_us)
{
    rqli_timers_set(&self->job.loop->op.timers, &self->due, at_us);
}

/* Without memory only what it was is told, and not why. */
static void note_fault(rql_request *self, const rql_error *fault)
{
    self->fault = fault->status;
    if (!self->detail) {
        self->detail = malloc(sizeof *self->detail);
    }
    if (self->detail) {
        *self->detail = *fault;
    }
}

/* ---- trying ---- */

static void on_tried(rql_request *self, const struct rqli_try *result)
{
    struct rqli_world world = rqli_acquisition_world(self);

    rqli_drive_on_try(&self->machine, result, &world);
    rqli_acquisition_drive(self);
}

static void on_failed(rql_request *self, const rql_error *fault)
{
    struct attempt *attempt = self->attempt;
    struct rqli_try result;

    attempt->may_retry = attempt->client->was_connected;
    note_fault(self, fault);
    result = rqli_attempt_failed(attempt, fault->status);
    on_tried(self, &result);
}

static void write_try(struct rqli_queued_call *queued_call, struct rqli_call *call, int64_t now_us)
{
    const rql_request *self = of_errand(queued_call);

    self->kind->write(self->attempt, call, now_us);
}

static void read_try(struct rqli_queued_call *queued_call, const struct rqli_exchange *answer,
                     rql_status status, const rql_error *error)
{
    rql_request *self = of_errand(queued_call);
    rql_error detail = {0};
    struct rqli_try result;

    set_due(self, RQLI_NEVER_US);
    if (status) {
        on_failed(self, error);
        return;
    }
    result = self->kind->read(self->attempt, answer, &detail);
    self->fault = RQL_OK;
    if (result.status < 0) {
        note_fault(self, &detail);
    }
    if (result.result == RQLI_TRY_GRANTED && self->shall_cancel) {
        result.result = RQLI_TRY_AGAIN; /* it is not taken: leaving gives it back */
    } else if (result.result == RQLI_TRY_QUEUED) {
        rqli_acquisition_attend(self);
    }
    on_tried(self, &result);
}

static const struct rqli_queued_call_kind trying = {false, write_try, read_try};

/* A call with a deadline gets its grace, as in call/attempt.c. */
static void ask(rql_request *self)
{
    struct attempt *attempt = self->attempt;
    rql_error fault = {0};

    if (rqli_attempt_check_host(attempt, rqli_now_us(), &fault)) {
        on_failed(self, &fault);
        return;
    }
    if (self->kind->observe_try) {
        self->kind->observe_try(attempt->lock);
    }
    attempt->out->asked++;
    self->tried_us = rqli_now_us();
    set_due(self,
            later(attempt->deadline_us, self->tried_us + rqli_client_grace_us(attempt->client)));
    rqli_queued_call_go(&self->job.loop->op.queue, &self->queued_call, &trying);
}

/* ---- time ---- */

/* A server that is busy with us is waited for; one that says nothing is not. */
static bool is_answering(rql_request *self)
{
    int64_t grace_us = rqli_client_grace_us(self->attempt->client);

    if (!rqli_pipe_is_talking(self->job.loop->op.pipe, grace_us)) {
        return false;
    }
    set_due(self, rqli_now_us() + grace_us);
    return true;
}

static void on_late_try(rql_request *self)
{
    bool was_sent = self->queued_call.state == RQLI_QUEUED_CALL_SENT;
    const char *where = self->job.loop->op.queue.where;
    rql_error fault = {0};

    if (was_sent && is_answering(self)) {
        return;
    }
    rqli_queued_call_stop(&self->queued_call);
    if (!was_sent && rqli_pipe_is_up(self->job.loop->op.pipe)) {
        rqli_request_on_late(&self->machine);
        rqli_acquisition_drive(self);
        return;
    }
    if (was_sent) {
        (void)rqli_fail(&fault, RQL_E_UNKNOWN,
                        "%s: no answer; the command may or may not have been done", where);
    } else {
        (void)rqli_fail(&fault, RQL_E_IO, "cannot connect to %s: no time left", where);
    }
    on_failed(self, &fault);
}

static void on_due(struct rqli_due *due)
{
    rql_request *self = of_due(due);
    struct rqli_world world = rqli_acquisition_world(self);

    switch (self->machine.state) {
    case RQLI_REQUEST_TRYING:
        on_late_try(self);
        break;
    case RQLI_REQUEST_QUEUED:
        rqli_drive_on_wait(&self->machine, RQLI_WAIT_TIME, &world);
        rqli_acquisition_drive(self);
        break;
    case RQLI_REQUEST_LEAVING:
        if (!is_answering(self)) {
            self->kind->give_up_leaving(self);
        }
        break;
    case RQLI_REQUEST_DONE:
    case RQLI_REQUEST_STATE_COUNT:
        break;
    }
}

/* ---- from begin to end ---- */

static void finish(rql_request *self, rql_status status)
{
    struct rqli_request_view view = rqli_acquisition_view(self);
    rql_error error = {0};

    rqli_acquisition_stop_waiting(self);
    rqli_timers_unreserve(&self->job.loop->op.timers, &self->due);
    rqli_request_catch_up(&self->machine, &view);
    rqli_attempt_end(self->attempt, &self->machine, self->begun_us);
    rqli_attempt_tell_fault(self->attempt, status, self->detail, &error);
    self->kind->finish(self, status, &error);
}

/* True: there is more to do at once. */
static bool take_step(rql_request *self)
{
    struct rqli_request_step step = rqli_request_next(&self->machine);

    switch (step.want) {
    case RQLI_WANT_TRY:
        ask(self);
        break;
    case RQLI_WANT_WAIT:
        if (rqli_acquisition_take_what_came(self)) {
            return true;
        }
        set_due(self, step.until_us);
        break;
    case RQLI_WANT_LEAVE:
        set_due(self, rqli_attempt_leave_until(self->attempt));
        self->kind->leave(self);
        break;
    case RQLI_WANT_FINISH:
        finish(self, step.status);
        break;
    }
    return false;
}

void rqli_acquisition_drive(rql_request *self)
{
    bool goes_on = true;

    if (self->shall_cancel) {
        rqli_request_on_cancelled(&self->machine, false);
    }
    while (goes_on) {
        goes_on = take_step(self);
    }
}

static rql_status join(rql_request *self, rql_error *error)
{
    const rql_lock *lock = self->attempt->lock;
    rql_status status = RQL_OK;

    if (!self->attempt->options->fail_fast) {
        status = rqli_waiting_join(&self->job.loop->waiting, &self->guest);
        self->has_joined = status == RQL_OK;
    }
    if (status == RQL_E_BUSY) {
        return rqli_fail(error, status, "%s: %s waits for it already", lock->name, lock->acquirer);
    }
    return status ? rqli_fail_nomem(error) : RQL_OK;
}

rql_status rqli_acquisition_begin(rql_request *self, rql_error *error)
{
    struct rqli_timers *timers = &self->job.loop->op.timers;
    struct attempt *attempt = self->attempt;
    rql_status status;

    if (!rqli_timers_reserve(timers)) {
        return rqli_fail_nomem(error);
    }
    self->due = (struct rqli_due){.fire = on_due};
    attempt->deadline_us = rqli_after_ms(self->begun_us, attempt->options->timeout_ms);
    rqli_attempt_begin(attempt, &self->machine);
    status = join(self, error);
    if (status) {
        rqli_timers_unreserve(timers, &self->due);
        return status;
    }
    rqli_acquisition_drive(self);
    return RQL_OK;
}

void rqli_acquisition_left(rql_request *self, bool is_confirmed)
{
    set_due(self, RQLI_NEVER_US);
    rqli_request_on_left(&self->machine, is_confirmed);
    rqli_acquisition_drive(self);
}

void rqli_acquisition_free(rql_request *self)
{
    rqli_loop_finish(&self->job);
    free(self->detail);
    self->detail = NULL;
    self->is_over = true;
    if (!atomic_load(&self->is_cancelling)) {
        free(self);
    }
}

void rqli_acquisition_cancel(struct rqli_job *job)
{
    rql_request *self = (rql_request *)job;

    self->shall_cancel = true;
    if (self->queued_call.state == RQLI_QUEUED_CALL_SENT) {
        return; /* its answer comes first */
    }
    if (self->machine.state == RQLI_REQUEST_TRYING) {
        rqli_queued_call_stop(&self->queued_call);
        rqli_acquisition_drive(self);
    } else if (self->machine.state == RQLI_REQUEST_QUEUED) {
        rqli_acquisition_drive(self);
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

void rqli_acquisition_init(rql_request *self, const struct rqli_request_kind *kind,
                           void (*begin)(struct rqli_job *job))
{
    self->kind = kind;
    self->job.begin = begin;
    self->job.cancel = rqli_acquisition_cancel;
    self->cancelling.take = take_cancellation;
    self->machine.state = RQLI_REQUEST_DONE; /* until it runs there is nothing to take back */
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

/* Half of the time after which the connection counts as broken: whoever looks now and then hears of
 * the silence before that. */
static bool is_unanswered(const rql_request *self)
{
    return self->machine.state == RQLI_REQUEST_TRYING &&
           rqli_now_us() - self->tried_us > self->attempt->client->options.io_timeout_ms * 500;
}

rql_status rql_request_fault(const rql_request *request, rql_error *error)
{
    if (!request) {
        return rqli_fail(error, RQL_E_INVALID, "fault: no request");
    }
    while (request->part) {
        request = request->part;
    }
    if (!request->fault) {
        return is_unanswered(request) ? rqli_fail(error, RQL_E_UNKNOWN, "%s: no answer so far",
                                                  request->job.loop->op.queue.where)
                                      : RQL_OK;
    }
    if (error && request->detail) {
        *error = *request->detail;
        return request->fault;
    }
    return rqli_fail(error, request->fault, "%s", rql_status_text(request->fault));
}
