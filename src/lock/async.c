#include "lock/async.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "lock/acquire.h"
#include "lock/client.h"
#include "lock/durable.h"
#include "lock/end.h"
#include "lock/leases.h"
#include "lock/lock.h"
#include "lock/notify.h"
#include "lock/reason.h"
#include "lock/series.h"
#include "lock/wait.h"
#include "lock/withdraw.h"
#include "net/op/op_loop.h"
#include "options/options.h"

#include <stdlib.h>
#include <string.h>

/*
 * Implements rql_lock_acquire_async(): the same acquisition as on a thread, as a job of a loop. A
 * request may be cancelled from any thread until its callback is called. The cancellation is
 * posted; the later one of job and post frees the request.
 *
 * rqli_request_begin() and the functions after it take the steps of rqli_acquire_run();
 * series_calls.c uses them as well.
 */

/* ---- an acquisition, from begin to end ---- */

/* Reports the result. `finish` calls back and then rqli_request_free(), so the request may be freed
 * within. */
static void finish_request(rql_request *self)
{
    rql_error error = {.status = RQL_OK};

    rqli_acquire_report(&self->acquire);
    rqli_acquire_raise(&self->acquire, &error);
    self->finish(self, self->acquire.op.status, &error);
}

/* Fills in the refusal, which may need queries. Runs on a thread of libuv's pool: the operation is
 * over by now, so the loop does not change the data that is read here. */
static rql_status fill_refusal(void *user_data, rql_error *error)
{
    rql_request *self = user_data;

    (void)error;
    rqli_refusal_fill(&self->acquire, true);
    return RQL_OK;
}

/* Finishes the request. Filling in cannot fail: facts that the server did not report are left out
 * of the refusal. */
static void on_refusal_filled(rql_status status, const rql_error *error, void *user_data)
{
    (void)status;
    (void)error;
    finish_request(user_data);
}

/* Fills in the refusal. Its queries block, so another thread runs them. Without memory for that
 * they are left out, because a loop must not wait. A caller that has cancelled its request does not
 * wait for another answer. */
static void describe_refusal(rql_request *self)
{
    const struct rqli_acquire *acquire = &self->acquire;
    const rql_work work = {fill_refusal, on_refusal_filled, self};
    bool asks = acquire->options->detailed_acq_timeout_error && acquire->op.status != RQL_CANCELLED;

    if (!asks || !rqli_work_begin(self->job.loop, &work)) {
        rqli_refusal_fill(&self->acquire, false);
        finish_request(self);
    }
}

/* Finishes a request that was granted a lock that cannot be watched. The caller gets that fault,
 * not the result of the release. */
static void on_given_back(rql_status status, const rql_error *error, void *user_data)
{
    (void)status;
    (void)error;
    finish_request(user_data);
}

/* Loop's thread. Continues when the acquisition has its status. A grant that is not kept is given
 * back; if memory is lacking, in the background. */
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
        finish_request(self);
    }
}

static void on_done(struct rqli_op_driver *driver)
{
    on_over(RQLI_OWNER(driver, rql_request, driver));
}

/* Begins the acquisition. If it was cancelled before, its first step ends it, and nothing is
 * sent. */
void rqli_request_begin(rql_request *self)
{
    rql_loop *loop = self->job.loop;
    struct rqli_acquire *acquire = &self->acquire;
    bool has_memory;

    acquire->result = &self->result;
    acquire->driver = &self->driver;
    rqli_acquire_init(acquire);
    acquire->op.is_cancelled = self->shall_cancel;
    self->driver.op = &acquire->op;
    self->driver.loop = rqli_durability_is_wanted(&acquire->durability) ? &loop->nodes.first.durable
                                                                        : &loop->nodes.first.op;
    self->driver.done = on_done;
    has_memory = rqli_wait_init(acquire, &rqli_wait_on_loop);
    if (has_memory && !rqli_acquire_begin(acquire)) {
        on_over(self);
    } else if (!has_memory || !rqli_op_start(&self->driver)) {
        rqli_acquire_abandon(acquire);
        on_over(self);
    }
}

/* ---- of one lock ---- */

/* A request for one lock. After it, in the same allocation, come the metadata of its options and
 * then the name. */
struct single {
    rql_request request;                           /* first */
    struct rqli_op_call calls[RQLI_DURABLE_CALLS]; /* the most in a round */
    rql_lock_options options;
    rql_lock *lock; /* NULL: not made yet, or given away */
    rql_acquired_fn done;
    void *user_data;
    char *name;
};

/* Calls back. The lock becomes the callee's; if it was not acquired, the handle is freed and the
 * callee gets NULL. */
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

/* Loop's thread. Begins the request. The handle is made here and not by the caller, because the
 * loop's thread is the host of its requests. Unless a task is given, each request is an acquirer
 * of its own. */
static void begin_single(struct rqli_job *job)
{
    struct single *self = (struct single *)job;
    rql_client *client = job->loop->client;
    rql_error error;

    self->lock = rqli_lock_new_of_many(client, self->name, self->options.task);
    if (!self->lock) {
        finish_single(&self->request, rqli_fail_nomem(&error), &error);
        return;
    }
    if (self->options.task == 0) {
        rqli_lock_be(self->lock, rqli_loop_new_acquirer(job->loop));
    }
    rqli_subject_listen(&self->lock->subject, &client->options, &self->options);
    rqli_observe(RQLI_ON_STARTED, &self->lock->subject, NULL);
    self->request.acquire.locks = &self->lock;
    self->request.acquire.count = 1;
    self->request.acquire.options = &self->options;
    self->request.driver.calls = self->calls;
    self->request.finish = finish_single;
    rqli_request_begin(&self->request);
}

/* Returns the size of a copy of the texts. The caller may free the originals when the call
 * returns. */
size_t rqli_options_room(const rql_lock_options *options)
{
    size_t room = options->n_meta * sizeof *options->meta;

    for (size_t i = 0; i < options->n_meta; i++) {
        room += strlen(options->meta[i].name) + strlen(options->meta[i].value) + 2;
    }
    return room + (options->traceparent ? strlen(options->traceparent) + 1 : 0);
}

/* Copies the text to *at, and moves *at past the copy. */
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
    if (options->traceparent) {
        options->traceparent = copy_text(&at, options->traceparent);
    }
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
    rqli_request_prepare(&self->request, begin_single);
    self->request.job.loop = loop;
    self->options = *options;
    self->name = rqli_options_copy(&self->options, (char *)(self + 1));
    memcpy(self->name, name, strlen(name) + 1);
    self->done = what->done;
    self->user_data = what->user_data;
    return &self->request;
}

/* The caller gets the handle before the job is posted, because the callback may run before this
 * call returns. Without memory the handle is NULL, which rqli_loop_start() reports. */
rql_status rql_lock_acquire_async(rql_loop *loop, const char *name, const rql_lock_options *options,
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

/* Frees the request, unless a cancellation is on its way to the loop: then the cancellation frees
 * it. */
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

/* Cancels the request. Before it has begun this is only noted, and rqli_request_begin() finds the
 * note. */
void rqli_request_cancel(struct rqli_job *job)
{
    rql_request *self = (rql_request *)job;

    self->shall_cancel = true;
    if (self->driver.op) { /* it has begun */
        rqli_op_cancel(&self->driver);
    }
}

/* Loop's thread. Takes a cancellation, also of a request that is over already: then it frees the
 * request. */
static void take_cancellation(struct rqli_post *post)
{
    rql_request *self = RQLI_OWNER(post, rql_request, cancelling);

    atomic_store(&self->is_cancelling, false);
    if (self->is_over) {
        free(self);
    } else {
        self->job.cancel(&self->job);
    }
}

/* Prepares the job. Its time counts from the caller's call, so it includes the wait for the loop to
 * begin it. */
void rqli_request_prepare(rql_request *self, void (*start)(struct rqli_job *job))
{
    self->job.begin = start;
    self->job.cancel = rqli_request_cancel;
    self->cancelling.take = take_cancellation;
    self->acquire.begun_us = rqli_now_us();
}

/* Posts the cancellation once, however often it is called before the loop takes it: there is one
 * post. */
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

/* Returns whether a try has been unanswered for half of the time after which the connection counts
 * as broken: a caller that asks now and then learns of the silence before that. */
static bool is_unanswered(const struct rqli_acquire *acquire)
{
    return acquire->client && acquire->request.state == RQLI_REQUEST_TRYING &&
           rqli_now_us() - acquire->tried_us > acquire->client->options.io_timeout_ms * 500;
}

/* For a series in the gem's mode, returns the fault of the lock whose turn it is. Without memory
 * for the reason there is only the text of the status. */
rql_status rql_request_fault(const rql_request *request, rql_error *error)
{
    const struct rqli_acquire *acquire;

    if (!request) {
        return rqli_fail(error, RQL_E_INVALID, "fault: no request");
    }
    acquire = &request->acquire;
    if (!acquire->fault) {
        return is_unanswered(acquire) ? rqli_fail(error, RQL_E_UNKNOWN, "%s: no answer so far",
                                                  request->job.loop->client->fleet.first.site.where)
                                      : RQL_OK;
    }
    if (error && acquire->error) {
        *error = *acquire->error;
        return acquire->fault;
    }
    return rqli_fail(error, acquire->fault, "%s", rql_status_text(acquire->fault));
}

/* ---- ends ---- */

/*
 * Implements rql_lock_release_async() and rql_series_release_async(): end.c as a job of a loop. A
 * release cannot be cancelled, and continues when the loop is closed: a lock that its owner has
 * released must not stay until its ttl ends.
 */

/*
 * An end on a loop. There are three kinds: the release of a lock (`one`), that of a series
 * (`series`), and locks that are only given back, whose handles stay their owner's (neither). With
 * count 0 there is nothing to end, as when NULL is released: the end is over at once.
 */
struct ending {
    struct rqli_job job; /* first */
    struct rqli_op_driver driver;
    struct rqli_end end;
    rql_lock *one;          /* a lock that is observed and freed here; or NULL */
    rql_lock *const *locks; /* `one`, or the first `count` of a series */
    size_t count;
    int64_t until_us;   /* then it continues in the background */
    rql_series *series; /* freed at the end; or NULL */
    rql_series_result *result;
    rql_done done;
    struct rqli_end_part *parts;
    struct rqli_op_call calls[];
};

/* Calls back. The handles are freed before the callback, because it may free what they point to.
 * error: may be NULL for RQL_OK. */
static void finish_end(struct ending *self, rql_status status, const rql_error *error)
{
    if (self->series) {
        rqli_series_on_released(self->series, status, self->result);
        (void)rqli_series_free(self->series);
    } else if (self->one) {
        rqli_notify_ended(self->one, status);
        rqli_lock_free(self->one);
    }
    rqli_loop_complete(&self->job, &self->done, status, error);
}

static void on_ended(struct rqli_op_driver *driver)
{
    struct ending *self = RQLI_OWNER(driver, struct ending, driver);

    finish_end(self, self->end.op.status, &self->end.error);
}

/* Ends all but extending re-entries in the background, because there is no memory to end them here.
 * Without memory for that either, they are left to their ttl. leave.lua finds what to end by the
 * nonce. It would end all that an extending re-entry has added, of which a part was used: that
 * addition stays, and ends with the lock. */
static void end_without_memory(struct ending *self)
{
    rql_error error;
    rql_status status = rqli_fail_nomem(&error);

    for (size_t i = 0; i < self->count; i++) {
        if (self->locks[i]->process != RQL_EXTENDABLE_CONFLICT_WORK_THROUGH) {
            rqli_withdraw_lock_later(self->locks[i], self->locks[i]->ttl_ms);
        }
    }
    finish_end(self, status, &error);
}

/* Begins the end. Takes the locks off the leases first, so that no loss is reported for a lock that
 * is being released. */
static void begin_end(struct rqli_job *job)
{
    struct ending *self = (struct ending *)job;

    if (self->series) {
        rqli_observe(RQLI_ON_SERIES_ENDING, &self->series->subject, NULL);
    }
    if (self->one) {
        rqli_notify_ending(self->one);
    }
    if (self->count == 0) {
        finish_end(self, RQL_OK, NULL);
        return;
    }
    rqli_end_leases(self->locks, self->count);
    rqli_end_init(&self->end, self->parts, self->locks, self->count, job->loop);
    self->end.op.until_us = rqli_earlier(self->end.op.until_us, self->until_us);
    self->driver = (struct rqli_op_driver){.op = &self->end.op,
                                           .loop = &job->loop->nodes.first.op,
                                           .done = on_ended,
                                           .calls = self->calls};
    if (!rqli_op_start(&self->driver)) {
        end_without_memory(self);
    }
}

/* Any thread. Makes an end, in one allocation: the parts come after the calls. `locks` is borrowed
 * until the end. Returns NULL if there is no memory. */
static struct ending *ending_new(rql_lock *const *locks, size_t count, const rql_done *done)
{
    size_t room = sizeof(struct rqli_op_call) + sizeof(struct rqli_end_part);
    struct ending *self = calloc(1, sizeof *self + count * room);

    if (self) {
        self->job.begin = begin_end;
        self->locks = locks;
        self->count = count;
        self->until_us = RQLI_NEVER_US;
        self->parts = (struct rqli_end_part *)(void *)&self->calls[count];
        self->done = done ? *done : (rql_done){NULL, NULL};
    }
    return self;
}

/* Makes the end of one lock. The array that ending_new() wants is `one`, which stays where it
 * is. */
static struct ending *ending_of_one(rql_lock *lock, const rql_done *done)
{
    struct ending *self = ending_new(NULL, lock ? 1 : 0, done);

    if (self) {
        self->one = lock;
        self->locks = &self->one;
    }
    return self;
}

/* Makes the end of a series; NULL: there is nothing to end. */
static struct ending *ending_of_series(rql_series *series, rql_series_result *result,
                                       const rql_done *done)
{
    struct ending *self =
        series ? ending_new(series->locks, series->count, done) : ending_new(NULL, 0, done);

    if (self) {
        self->series = series;
        self->result = result;
    }
    return self;
}

/* Loop's thread. Returns false if `self` is NULL. If nothing has to be sent, `done` is called
 * within. */
static bool begin_on(rql_loop *loop, struct ending *self)
{
    if (self) {
        rqli_loop_begin(loop, &self->job);
    }
    return self != NULL;
}

bool rqli_release_begin(rql_loop *loop, rql_lock *lock, const rql_done *done)
{
    return begin_on(loop, ending_of_one(lock, done));
}

bool rqli_series_release_begin(rql_loop *loop, rql_series *series)
{
    return begin_on(loop, ending_of_series(series, NULL, NULL));
}

bool rqli_give_back_begin(rql_loop *loop, rql_lock *const *locks, size_t count, int64_t deadline_us,
                          const rql_done *done)
{
    struct ending *self = ending_new(locks, count, done);

    if (self) {
        self->until_us = rqli_give_back_until_us(loop->client, deadline_us);
    }
    rqli_end_leases(locks, count);
    for (size_t i = 0; !self && i < count; i++) { /* their owner frees them at once */
        rqli_withdraw_lock_later(locks[i], locks[i]->ttl_ms);
    }
    return begin_on(loop, self);
}

/* After any fault here the lock is unchanged and still its owner's: the handle passes to the loop
 * only with a job that was accepted. */
rql_status rql_lock_release_async(rql_loop *loop, rql_lock *lock, const rql_done *done,
                                  rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_status status = lock ? rqli_loop_check_of(loop, lock->client, lock->name, error)
                             : rqli_loop_check(loop, error);

    if (status) {
        return status;
    }
    return rqli_loop_start_to_end(loop, (struct rqli_job *)ending_of_one(lock, done), error);
}

rql_status rql_series_release_async(rql_loop *loop, rql_series *series, rql_series_result *result,
                                    const rql_done *done, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_status status = series ? rqli_loop_check_of(loop, series->client, "series", error)
                               : rqli_loop_check(loop, error);

    if (!status) {
        status = rqli_result_check(result, RQLI_SERIES_RESULT_SIZE, error);
    }
    if (status) {
        return status;
    }
    return rqli_loop_start_to_end(loop, (struct rqli_job *)ending_of_series(series, result, done),
                                  error);
}
