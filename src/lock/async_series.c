#include "lock/async_series.h"

#include "base/cancel.h"
#include "base/error.h"
#include "base/ident.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "lock/withdraw.h"
#include "net/serving.h"
#include "observe/observe_series.h"

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
    rqli_acquisition_free(&self->request);
}

/* ---- the end of an atomic one ---- */

static void refuse(struct rqli_serial *self)
{
    rqli_series_on_refused(self->series, &self->plan, &self->atomic.outcome, self->status,
                           &self->result);
    rqli_serial_tell(self);
}

static rql_status fill_refusal(void *user_data, rql_error *error)
{
    struct rqli_serial *self = user_data;

    (void)error;
    rqli_series_fill_refusal(self->series, &self->plan, &self->atomic.outcome, self->status);
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

    self->status = rqli_series_on_granted(series, &self->plan, &self->atomic.outcome, &self->result,
                                          &self->error);
    if (!self->status ||
        !rqli_series_return(self->request.job.loop, series, series->count, &done)) {
        rqli_serial_tell(self);
    }
}

static struct rqli_serial *of_request(rql_request *request)
{
    return (struct rqli_serial *)request;
}

static void finish(rql_request *request, rql_status status, const rql_error *detail)
{
    struct rqli_serial *self = of_request(request);

    self->status = status;
    if (status) {
        self->error = *detail;
        describe_refusal(self);
    } else {
        hold(self);
    }
}

/* ---- leaving all queues ---- */

static struct rqli_series_leaving *leaving_of(struct rqli_queued_call *queued_call)
{
    return (struct rqli_series_leaving *)((char *)queued_call -
                                          offsetof(struct rqli_series_leaving, queued_call));
}

static void write_leave(struct rqli_queued_call *queued_call, struct rqli_call *call,
                        int64_t now_us)
{
    const rql_lock *lock = leaving_of(queued_call)->lock;
    const struct rqli_withdrawal_of what = {lock->name, lock->acquirer, lock->nonce};

    (void)now_us;
    rqli_withdraw_write(&what, &lock->keys, call);
}

static void leave_it_to_the_keeper(const struct rqli_series_leaving *leaving)
{
    const rql_lock *lock = leaving->lock;
    const struct rqli_withdrawal_of what = {lock->name, lock->acquirer, lock->nonce};

    rqli_leases_withdraw(lock->client->leases, &what, leaving->all->plan.lock.ttl_ms);
}

static void on_left(struct rqli_series_leaving *leaving, bool is_confirmed)
{
    struct rqli_serial *self = leaving->all;

    self->atomic.is_confirmed = self->atomic.is_confirmed && is_confirmed;
    if (--self->atomic.n_leaving == 0) {
        rqli_acquisition_left(&self->request, self->atomic.is_confirmed);
    }
}

static void read_leave(struct rqli_queued_call *queued_call, const struct rqli_exchange *answer,
                       rql_status status, const rql_error *error)
{
    (void)error;
    /* Once more is harmless: it serves a long queue to its end. */
    if (status || rqli_serve_is_due(answer->reply)) {
        leave_it_to_the_keeper(leaving_of(queued_call));
    }
    on_left(leaving_of(queued_call), status == RQL_OK);
}

static void leave(rql_request *request)
{
    static const struct rqli_queued_call_kind leaving_queue = {true, write_leave, read_leave};
    struct rqli_serial *self = of_request(request);

    self->atomic.n_leaving = self->series->count;
    self->atomic.is_confirmed = true;
    for (size_t i = 0; i < self->series->count; i++) {
        struct rqli_series_leaving *leaving = &self->atomic.leavings[i];

        leaving->all = self;
        leaving->lock = self->atomic.attempt.locks[i];
        rqli_queued_call_go(&request->job.loop->op.queue, &leaving->queued_call, &leaving_queue);
    }
}

/* The last of them may be its end. */
static void give_up_leaving(rql_request *request)
{
    struct rqli_serial *self = of_request(request);
    size_t n_left = self->atomic.n_leaving;

    for (size_t i = 0; n_left > 0; i++) {
        struct rqli_series_leaving *leaving = &self->atomic.leavings[i];

        if (rqli_queued_call_is_under_way(&leaving->queued_call)) {
            n_left--;
            rqli_queued_call_stop(&leaving->queued_call);
            leave_it_to_the_keeper(leaving);
            on_left(leaving, false);
        }
    }
}

/* ---- the begin ---- */

static const struct rqli_request_kind atomically = {
    .write = rqli_series_attempt_write,
    .read = rqli_series_attempt_read,
    .take_push = rqli_series_attempt_take_push,
    .leave = leave,
    .give_up_leaving = give_up_leaving,
    .finish = finish,
};

static void prepare(struct rqli_serial *self)
{
    rql_request *request = &self->request;
    struct series_attempt *attempt = &self->atomic.attempt;

    rqli_series_attempt_init(attempt, self->series, &self->plan, &self->atomic.outcome);
    for (size_t i = 0; i < self->series->count; i++) {
        const rql_lock *lock = attempt->locks[i];

        self->atomic.nonces[i] =
            (struct rqli_nonce){.digits = lock->nonce, .lock_key = lock->keys.lock};
    }
    request->attempt = &attempt->attempt;
    request->guest.acquirer = self->number ? NULL : attempt->attempt.lock->acquirer;
    request->guest.nonces = self->atomic.nonces;
    request->guest.n_nonces = self->series->count;
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
    rqli_observe_series_members(self->series);
    self->atomic.outcome.all.tries = 1;
    prepare(self);
    self->status = rqli_acquisition_begin(&self->request, &self->error);
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
    rqli_acquisition_init(&self->request, &atomically, begin);
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
