#include "lock/async.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "lock/client.h"
#include "lock/durable.h"
#include "lock/history.h"
#include "lock/leases.h"
#include "lock/lock.h"
#include "lock/notify.h"
#include "lock/reason.h"
#include "lock/refusal.h"
#include "options/options.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/*
 * rql_acquire_async(): the same acquisition as on a thread, as a job of a loop. A request may be
 * cancelled from any thread until its callback is called; the cancellation is posted, and whichever
 * of job and post comes last frees the request.
 *
 * rqli_request_begin() and what follows it take the steps of rqli_acquire_run(); async_series.c
 * uses them as well.
 */

/* ---- an acquisition, from begin to end ---- */

/* The request may be freed within: its `finish` calls back, and then rqli_request_free(). */
static void finish(rql_request *self)
{
    rql_error error = {.status = RQL_OK};

    rqli_acquire_report(&self->acquire);
    rqli_acquire_raise(&self->acquire, &error);
    self->finish(self, self->acquire.op.status, &error);
}

/* The refusal, which may have questions of its own. On a thread of libuv's pool: the operation is
 * over by now, so the loop changes nothing of what is read here. */
static rql_status fill_refusal(void *user_data, rql_error *error)
{
    rql_request *self = user_data;

    (void)error;
    rqli_refusal_fill(&self->acquire, true);
    return RQL_OK;
}

/* It cannot fail: what the server did not tell is left out of the refusal. */
static void on_refusal_filled(rql_status status, const rql_error *error, void *user_data)
{
    (void)status;
    (void)error;
    finish(user_data);
}

/* The questions block, so another thread asks them. Without memory for that they are left out: a
 * loop must not wait. */
static void describe_refusal(rql_request *self)
{
    const rql_work work = {fill_refusal, on_refusal_filled, self};

    if (!self->acquire.options->detailed_acq_timeout_error ||
        !rqli_work_begin(self->job.loop, &work)) {
        rqli_refusal_fill(&self->acquire, false);
        finish(self);
    }
}

/* Granted, and nobody can look after it. The caller gets that fault, not how the release went. */
static void on_given_back(rql_status status, const rql_error *error, void *user_data)
{
    (void)status;
    (void)error;
    finish(user_data);
}

/* Loop's thread: the acquisition has its status. A grant that is not kept is given back; for lack
 * of memory in the background. */
static void on_over(rql_request *self)
{
    struct rqli_acquire *acquire = &self->acquire;
    const rql_done done = {on_given_back, self};

    if (acquire->op.status > 0 &&
        (acquire->options->refusal || acquire->options->detailed_acq_timeout_error)) {
        describe_refusal(self);
    } else if (acquire->op.status != RQL_OK || rqli_acquire_keep(acquire) ||
               !rqli_give_back_begin(self->job.loop, acquire->locks, acquire->count,
                                     acquire->request.limits.deadline_us, &done)) {
        finish(self);
    }
}

static void on_done(struct rqli_op_task *task)
{
    on_over((rql_request *)((char *)task - offsetof(rql_request, task)));
}

/* If it was cancelled before, its first step ends it, and nothing is sent. */
void rqli_request_begin(rql_request *self)
{
    rql_loop *loop = self->job.loop;
    struct rqli_acquire *acquire = &self->acquire;

    acquire->result = &self->result;
    acquire->begun_us = self->begun_us;
    acquire->task = &self->task;
    acquire->loop = loop;
    rqli_acquire_init(acquire);
    acquire->op.is_cancelled = self->shall_cancel;
    self->task.op = &acquire->op;
    self->task.loop =
        rqli_durability_is_wanted(&acquire->durability) ? &loop->first.durable : &loop->first.op;
    self->task.done = on_done;
    acquire->at = rqli_loop_at(loop, acquire->node);
    if (acquire->at && !rqli_acquire_begin(acquire)) {
        on_over(self);
    } else if (!acquire->at || !rqli_op_start(&self->task)) {
        rqli_acquire_abandon(acquire);
        on_over(self);
    }
}

/* ---- of one lock ---- */

/* Behind it in the same allocation: the metadata of its options, then the name. */
struct single {
    rql_request request;                           /* first */
    struct rqli_op_call calls[RQLI_DURABLE_CALLS]; /* in a round, at most */
    rql_lock_options options;
    rql_lock *lock;  /* NULL: not made, or given away */
    uint64_t number; /* of its acquirer; 0: the task that the caller has named */
    rql_acquired_fn done;
    void *user_data;
    char *name;
};

/* The lock becomes the callee's; if it was not acquired the handle is freed, and the callee gets
 * NULL. */
static void finish_single(rql_request *request, rql_status status, const rql_error *error)
{
    struct single *self = (struct single *)request;
    rql_lock *lock = self->lock;

    if (status) {
        lock = rqli_lock_free(lock);
    }
    self->done(status, lock, status ? error : NULL, self->user_data);
    rqli_request_free(request);
}

/* Loop's thread. The handle is made here and not by the caller: the loop's thread is the host of
 * its requests. Unless a task or a number is given, each request is an acquirer of its own. */
static void begin(struct rqli_job *job)
{
    struct single *self = (struct single *)job;
    rql_client *client = job->loop->client;
    rql_error error;

    self->lock = rqli_lock_new_of_many(client, self->name, self->options.task);
    if (!self->lock) {
        finish_single(&self->request, rqli_fail_nomem(&error), &error);
        return;
    }
    if (self->options.task == 0 && self->number == 0) {
        self->number = rqli_loop_new_acquirer(job->loop);
    }
    if (self->number) {
        rqli_lock_be(self->lock, self->number);
    }
    rqli_subject_listen(&self->lock->subject, &client->options, &self->options);
    rqli_observe(RQLI_ON_STARTED, &self->lock->subject, NULL);
    self->request.acquire.locks = &self->lock;
    self->request.acquire.count = 1;
    self->request.acquire.options = &self->options;
    self->request.task.calls = self->calls;
    self->request.finish = finish_single;
    rqli_request_begin(&self->request);
}

/* The metadata of the options is copied: the caller may free it when the call returns. */
size_t rqli_options_room(const rql_lock_options *options)
{
    size_t room = options->n_meta * sizeof *options->meta;

    for (size_t i = 0; i < options->n_meta; i++) {
        room += strlen(options->meta[i].name) + strlen(options->meta[i].value) + 2;
    }
    return room;
}

/* Moves *at behind the copy. */
static char *copy_text(char **at, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = memcpy(*at, text, size);

    *at += size;
    return copy;
}

char *rqli_options_copy(rql_lock_options *options, char *memory)
{
    rql_meta *pairs = (rql_meta *)(void *)memory;
    char *at = memory + options->n_meta * sizeof *pairs;

    for (size_t i = 0; i < options->n_meta; i++) {
        pairs[i].name = copy_text(&at, options->meta[i].name);
        pairs[i].value = copy_text(&at, options->meta[i].value);
    }
    options->meta = pairs;
    return at;
}

rql_request *rqli_single_new(rql_loop *loop, const char *name, const rql_lock_options *options,
                             const rql_acquiring *what)
{
    size_t room = rqli_options_room(options) + strlen(name) + 1;
    struct single *self = calloc(1, sizeof *self + room);

    if (!self) {
        return NULL;
    }
    rqli_request_prepare(&self->request, begin);
    self->request.job.loop = loop;
    self->options = *options;
    self->name = rqli_options_copy(&self->options, (char *)(self + 1));
    memcpy(self->name, name, strlen(name) + 1);
    self->done = what->done;
    self->user_data = what->user_data;
    return &self->request;
}

void rqli_single_be(rql_request *request, uint64_t number)
{
    ((struct single *)request)->number = number;
}

/* The handle is out before the job is posted: its callback may run before this call returns. It is
 * NULL without memory, which rqli_loop_start() reports. */
rql_status rql_acquire_async(rql_loop *loop, const char *name, const rql_lock_options *options,
                             rql_acquiring *what, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_lock_options read;
    rql_request *request;
    rql_status status = rqli_loop_check(loop, error);

    if (!status) {
        status = rqli_name_check(name, error);
    }
    if (!status) {
        status = rqli_call_options_read(loop->client, &read, options, error);
    }
    if (status) {
        return status;
    }
    if (!what || !what->done) {
        return rqli_fail(error, RQL_E_INVALID, "%s: there is no completion callback", name);
    }
    request = rqli_single_new(loop, name, &read, what);
    what->request = request; /* before the loop's thread can be done with it */
    return rqli_loop_start(loop, (struct rqli_job *)request, error);
}

/* Freed here, unless a cancellation is on its way to the loop: then by that. */
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

/* Before it has begun it is only noted; rqli_request_begin() finds it. */
void rqli_request_cancel(struct rqli_job *job)
{
    rql_request *self = (rql_request *)job;

    self->shall_cancel = true;
    if (self->task.op) { /* it has begun */
        rqli_op_cancel(&self->task);
    }
}

/* Loop's thread. It comes also when the request was over before it: then nobody else frees that. */
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

/* Its time counts from the call: what it waits for the loop to begin it is part of that. */
void rqli_request_prepare(rql_request *self, void (*start)(struct rqli_job *job))
{
    self->job.begin = start;
    self->job.cancel = rqli_request_cancel;
    self->cancelling.take = take_cancellation;
    self->begun_us = rqli_now_us();
}

/* However often it is called before the loop takes it, it is posted once: there is one post. */
rql_status rql_request_cancel(rql_request *request)
{
    RQLI_DEFER_CANCEL;
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

/* Of a series in the gem's mode: that of the lock whose turn it is. Without memory for the reason
 * there is only the text of the status. */
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
        return is_unanswered(acquire)
                   ? rqli_fail(error, RQL_E_UNKNOWN, "%s: no answer so far",
                               request->job.loop->client->fleet.first.endpoint.where)
                   : RQL_OK;
    }
    if (error && acquire->error) {
        *error = *acquire->error;
        return acquire->fault;
    }
    return rqli_fail(error, acquire->fault, "%s", rql_status_text(acquire->fault));
}
