#include "lock/async.h"
#include "lock/notify.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "net/op_loop.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/*
 * Implements rql_series_acquire_async(). The steps are those of series.c; this file only says how
 * they wait on a loop. By groups the series is one request, which acquires one group after the
 * other. In the gem's mode the request is a handle: the requests for the single locks do the work,
 * one after the other, and a cancellation goes to the one under way.
 */

/* The acquisition of a series. plan.options.mode says whether `groups` or `gem` is used. The result
 * is gathered here; rqli_series_conclude() copies it to the caller's result, if there is one. */
struct acquiring {
    rql_request request; /* first; in the gem's mode only a handle */
    struct rqli_series_plan plan;
    rql_series_result result;
    rql_series *series;
    uint64_t number; /* of its acquirer; 0: the task that the caller has named */
    rql_series_acquired_fn done;
    void *user_data;

    struct {
        struct rqli_acquire_several several;
        struct rqli_op_call calls[RQL_SERIES_MAX];
    } groups;

    struct {
        rql_lock_options options;
    } gem;

    int64_t asked_us;  /* from when the deadline of the acquisition under way counts */
    rql_status status; /* why the series failed, while its locks are given back */
    rql_error error;
};

/* Calls back. The caller's result is filled in before that. Unless the series is held, it is freed
 * by then, and the callback gets NULL. error: may be NULL for RQL_OK. */
static void finish(struct acquiring *self, rql_status status, const rql_error *error)
{
    rql_series *series = rqli_series_conclude(self->series, &self->plan, self->request.begun_us,
                                              status, &self->result);

    self->done(status, series, status ? error : NULL, self->user_data);
    rqli_request_free(&self->request);
}

static void finish_without_memory(struct acquiring *self)
{
    rql_error error;
    rql_status status = rqli_fail_nomem(&error);

    finish(self, status, &error);
}

/* The result of giving back is reported with each lock; the caller gets the reason why the series
 * failed. */
static void on_given_back(rql_status status, const rql_error *error, void *user_data)
{
    struct acquiring *self = user_data;

    (void)error;
    rqli_series_on_returned(self->series, status);
    finish(self, self->status, &self->error);
}

/* Gives back the locks of a series that failed. Without memory for a release they are given back in
 * the background. `self` may be gone afterwards. */
static void give_back(struct acquiring *self, rql_status why, const rql_error *error)
{
    const rql_done done = {on_given_back, self};
    rql_series *series = self->series;

    self->status = why;
    self->error = *error;
    if (!rqli_give_back_begin(self->request.job.loop, series->locks, series->count,
                              rqli_after_ms(self->asked_us, self->plan.lock.timeout_ms), &done)) {
        on_given_back(RQL_E_NOMEM, NULL, self);
    }
}

/* ---- by groups ---- */

static void begin_group(struct acquiring *self);

/* Continues after a group. If it failed and nothing is held yet, the caller is called back at once.
 * `self` may be gone afterwards. */
static void finish_group(rql_request *request, rql_status status, const rql_error *error)
{
    struct acquiring *self = (struct acquiring *)request;
    rql_error lost;
    rql_status whole =
        rqli_series_on_acquired(self->series, &request->acquire, &self->result, &lost);

    if (whole && self->series->count > 0) {
        give_back(self, whole, status ? error : &lost);
    } else if (whole || self->series->count == self->plan.options.n_names) {
        finish(self, whole, error);
    } else {
        begin_group(self);
    }
}

/* Begins the next group. A group is one operation and one waiter; there is room for as many calls
 * as may leave their queues at once. A fault that has passed is freed, because it is not a fault of
 * the next group. */
static void begin_group(struct acquiring *self)
{
    rql_request *request = &self->request;

    free(request->acquire.error);
    request->acquire = (struct rqli_acquire){.several = &self->groups.several};
    rqli_series_ask(self->series, &self->plan, &request->acquire);
    self->asked_us = request->begun_us; /* all groups have one deadline */
    request->task.calls = self->groups.calls;
    request->finish = finish_group;
    rqli_request_begin(request);
}

/* ---- the gem's mode ---- */

/* Acquires one lock after the other, each with its own retries and timeout, as series.c does. */

static void take_next(struct acquiring *self);

/* The callback of a part, which frees itself afterwards; its lock becomes the series'. A
 * cancellation that came too late for the part under way ends the series after that part. */
static void on_part(rql_status status, rql_lock *lock, const rql_error *error, void *user_data)
{
    struct acquiring *self = user_data;
    bool is_more = rqli_series_on_part(self->series, &self->plan, lock, &self->result);

    self->request.part = NULL;
    if (status) {
        give_back(self, status, error);
    } else if (self->request.shall_cancel) {
        rql_error why;

        self->result.failed_on = self->series->count;
        (void)rqli_fail(&why, RQL_CANCELLED, "%s: not acquired: the request was cancelled",
                        self->plan.options.names[is_more ? self->series->count : 0]);
        give_back(self, RQL_CANCELLED, &why);
    } else if (is_more) {
        take_next(self);
    } else {
        finish(self, RQL_OK, NULL);
    }
}

/* Begins the next part. All parts have the same acquirer, because a name may come twice, as a
 * re-entry. */
static void take_next(struct acquiring *self)
{
    const rql_acquiring what = {.done = on_part, .user_data = self};
    const rql_series_options *options = &self->plan.options;
    rql_loop *loop = self->request.job.loop;
    size_t at = self->series->count;
    rql_request *part;

    self->asked_us = rqli_now_us();
    self->gem.options.ttl_ms = rqli_series_ttl_ms(&self->plan.lock, options->n_names, at);
    part = rqli_single_new(loop, options->names[at], &self->gem.options, &what);
    if (!part) {
        rql_error error;

        self->result.failed_on = at;
        give_back(self, rqli_fail_nomem(&error), &error);
        return;
    }
    rqli_single_be(part, self->number);
    self->request.part = part;
    rqli_loop_begin(loop, (struct rqli_job *)part);
}

/* Cancels the part under way. Without one the series is giving its locks back, and ends with
 * that. */
static void cancel_gem(struct rqli_job *job)
{
    struct acquiring *self = (struct acquiring *)job;

    self->request.shall_cancel = true;
    if (self->request.part) {
        rqli_request_cancel(&self->request.part->job);
    }
}

/* ---- either ---- */

/* Loop's thread. Begins the series. All its locks have one number, because a series is one
 * acquirer, as a request is. */
static void begin(struct rqli_job *job)
{
    struct acquiring *self = (struct acquiring *)job;

    self->number = self->plan.lock.task ? 0 : rqli_loop_new_acquirer(job->loop);
    self->series = rqli_series_new(job->loop->client, &self->plan);
    if (self->series && self->plan.options.mode == RQL_SERIES_GEM) {
        self->gem.options = self->plan.lock;
        rqli_series_share_listeners(self->series, &self->gem.options);
        take_next(self);
    } else if (self->series && rqli_series_prepare(self->series, &self->plan, self->number)) {
        begin_group(self);
    } else {
        finish_without_memory(self);
    }
}

/* Copies the names to the memory after the structure, in the same allocation: an array of pointers,
 * then the names. */
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

/* Makes an acquisition in one allocation: the struct, the metadata, and from the next address that
 * fits a pointer on, the names. Each name has room as if it were of the greatest length. Returns
 * NULL if there is no memory. */
static struct acquiring *acquiring_new(rql_loop *loop, const struct rqli_series_plan *plan,
                                       const rql_series_acquiring *what)
{
    size_t n_names = plan->options.n_names;
    size_t names = n_names * (sizeof(char *) + RQL_NAME_MAX + 1);
    struct acquiring *self =
        calloc(1, sizeof *self + names + rqli_options_room(&plan->lock) + sizeof(rql_meta));
    char *memory;

    if (!self) {
        return NULL;
    }
    memory = (char *)(self + 1);
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
        status = rqli_series_plan(&plan, loop->client, options, error);
    }
    if (status) {
        return status;
    }
    if (!what || !what->done) {
        return rqli_fail(error, RQL_E_INVALID, "series: there is no completion callback");
    }
    self = acquiring_new(loop, &plan, what);
    what->request = (rql_request *)self; /* before the loop's thread can be done with it */
    return rqli_loop_start(loop, (struct rqli_job *)self, error);
}
