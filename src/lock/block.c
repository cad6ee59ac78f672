#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/os.h"
#include "lock/async.h"
#include "lock/client.h"
#include "lock/lock.h"
#include "lock/series.h"
#include "options/options.h"

#include <stdlib.h>
#include <string.h>

/*
 * rql_lock_run(), rql_series_run() and rql_lock_run_async(): a block of the caller's that runs
 * while the lock is held. A timed block is not interrupted; if it took longer than the ttl, the
 * result says so.
 */

/* The hold of a block: a lock, or a series with its result. Both are NULL before it is acquired and
 * after it has ended. error: the caller's, may be NULL. */
struct hold {
    struct rqli_os_cleanup cleanup;
    rql_lock *lock;
    rql_series *series;
    rql_series_result *result;
    rql_status release_status;
    rql_error *error;
};

/* Releases what is held, once. */
static void release_hold(struct hold *self)
{
    if (self->lock) {
        self->release_status = rql_lock_release(self->lock, self->error);
    } else if (self->series) {
        self->release_status = rql_series_release(self->series, self->result, self->error);
    }
    self->lock = NULL;
    self->series = NULL;
}

/* Runs when the thread ends in the block, on a system that does not run end_block() then. */
static void on_thread_end(void *self)
{
    release_hold(self);
}

/* Ends the hold. Runs whenever the scope is left, also by a C++ exception and, with glibc, by the
 * end of the thread. On the usual way the hold was released before. */
static void end_block(struct hold *self)
{
    rqli_os_cleanup_pop(&self->cleanup);
    release_hold(self);
}

/* Returns the time that the block has; 0: any time. */
static int64_t limit_ms_of(const rql_lock_options *options)
{
    return options->timed ? options->ttl_ms : 0;
}

/* Returns whether the block overran. Asked before the release, whose round trip is not the block's
 * time. The time counts from where the lease does: from before the grant. */
static bool has_overrun(int64_t limit_ms, int64_t begun_us)
{
    return limit_ms > 0 && rqli_now_us() - begun_us > limit_ms * 1000;
}

/* Raises RQL_BLOCK_OVERRAN. The handle is gone by now: name is a copy, or the caller's. */
static rql_status fail_overran(const char *name, int64_t ttl_ms, rql_error *error)
{
    return rqli_fail(error, RQL_BLOCK_OVERRAN,
                     "%s: the block ran longer than the ttl of %lld ms, and may have run without "
                     "the lock",
                     name, (long long)ttl_ms);
}

/* Cancellation is not deferred here, because the block runs as its caller wants it; acquiring and
 * releasing defer it for themselves. If the block overran, only that is returned, and not the
 * result of its release. */
rql_status rql_lock_run(rql_client *client, const char *name, const rql_lock_options *options,
                        rql_block *block, rql_error *error)
{
    __attribute__((cleanup(end_block))) struct hold self = {.error = error};
    rql_lock_options read;
    bool was_late;
    rql_status status = rqli_client_check(client, error);

    rqli_os_cleanup_push(&self.cleanup, on_thread_end, &self);
    if (status) {
        return status;
    }
    if (!block || !block->run) {
        return rqli_fail(error, RQL_E_INVALID, "%s: there is no block to run",
                         name ? name : "rql_lock_run");
    }
    status = rqli_call_options_read(client, &read, options, error);
    if (!status) {
        status = rql_lock_acquire(client, name, &read, &self.lock, error);
    }
    if (status) {
        return status;
    }
    block->value = block->run(self.lock, block->user_data);
    was_late = has_overrun(limit_ms_of(&read), self.lock->begun_us);
    release_hold(&self);
    return was_late ? fail_overran(name, read.ttl_ms, error) : self.release_status;
}

/* rql_series_acquire() makes the plan once more, from the options that were read. Here the plan
 * says whether the block is timed, and where the result goes. */
rql_status rql_series_run(rql_client *client, const rql_series_options *options,
                          rql_series_block *block, rql_error *error)
{
    __attribute__((cleanup(end_block))) struct hold self = {.error = error};
    struct rqli_series_plan plan;
    bool was_late;
    rql_status status = rqli_client_check(client, error);

    rqli_os_cleanup_push(&self.cleanup, on_thread_end, &self);
    if (status) {
        return status;
    }
    if (!block || !block->run) {
        return rqli_fail(error, RQL_E_INVALID, "series: there is no block to run");
    }
    status = rqli_series_plan(&plan, client, options, error);
    if (!status) {
        self.result = plan.options.result;
        status = rql_series_acquire(client, &plan.options, &self.series, error);
    }
    if (status) {
        return status;
    }
    block->value = block->run(self.series, block->user_data);
    was_late = has_overrun(limit_ms_of(&plan.lock), self.series->begun_us);
    release_hold(&self);
    return was_late ? fail_overran(plan.options.names[0], plan.lock.ttl_ms, error)
                    : self.release_status;
}

/* ---- on a loop ---- */

/* A block and its hold on a lock. From the grant on it is a job of its own: the loop waits for its
 * end. */
struct rql_hold {
    struct rqli_job job; /* first */
    struct rqli_post ending;
    rql_async_block block;
    int64_t limit_ms; /* 0: the block has any time */
    rql_lock *lock;
    bool overran;
    int value;
    char name[]; /* of the lock, whose handle is gone when the block is reported */
};

static void report_block(rql_hold *self, rql_status status, const rql_error *error)
{
    rql_async_block block = self->block;
    int value = self->value;

    free(self);
    block.done(status, value, status ? error : NULL, block.user_data);
}

static void on_released(rql_status status, const rql_error *error, void *user_data)
{
    rql_hold *self = user_data;
    rql_error late;

    rqli_loop_finish(&self->job);
    if (self->overran) {
        report_block(self, fail_overran(self->name, self->limit_ms, &late), &late);
    } else {
        report_block(self, status, error);
    }
}

/* Loop's thread. Releases the lock, because the block has said that it is over. If the release
 * needs no call, or there is no memory for it, the hold is freed when this returns. */
static void take_end(struct rqli_post *post)
{
    rql_hold *self = RQLI_OWNER(post, rql_hold, ending);
    const rql_done done = {on_released, self};

    self->overran = has_overrun(self->limit_ms, self->lock->begun_us);
    if (!rqli_release_begin(self->job.loop, self->lock, &done)) {
        rql_error error = {0};
        rql_status status = rql_lock_release(self->lock, &error); /* blocks, but ends it */

        on_released(status, &error, self);
    }
}

/* Runs the block. The block may end itself within: that is posted, and taken in a later round. */
static void run_block(struct rqli_job *job)
{
    rql_hold *self = (rql_hold *)job;

    self->block.run(self, self->lock, self->block.user_data);
}

/* Begins the job of the block while that of the request is still under way: so the loop has a job
 * all the time, and does not end in between. */
static void on_acquired(rql_status status, rql_lock *lock, const rql_error *error, void *user_data)
{
    rql_hold *self = user_data;

    if (status) {
        report_block(self, status, error);
        return;
    }
    self->lock = lock;
    rqli_loop_begin(self->job.loop, &self->job);
}

static rql_status check_block(rql_loop *loop, const char *name, const rql_async_block *block,
                              rql_error *error)
{
    rql_status status = rqli_loop_check(loop, error);

    if (!status) {
        status = rqli_name_check(name, error);
    }
    if (!status && (!block || !block->run || !block->done)) {
        status = rqli_fail(error, RQL_E_INVALID,
                           "%s: there is no block to run, or no completion callback", name);
    }
    return status;
}

static rql_hold *hold_new(rql_loop *loop, const char *name, const rql_async_block *block,
                          const rql_lock_options *options)
{
    const size_t size = strlen(name) + 1;
    rql_hold *self = calloc(1, sizeof *self + size);

    if (self) {
        memcpy(self->name, name, size);
        self->job.loop = loop;
        self->job.begin = run_block;
        self->ending.take = take_end;
        self->block = *block;
        self->limit_ms = limit_ms_of(options);
    }
    return self;
}

/* If rqli_loop_start() fails, it frees the request, and the hold is freed here: the callback is not
 * called. */
rql_status rql_lock_run_async(rql_loop *loop, const char *name, const rql_lock_options *options,
                              rql_async_block *block, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_lock_options read;
    rql_acquiring what = {.done = on_acquired};
    rql_hold *self;
    rql_status status = check_block(loop, name, block, error);

    if (!status) {
        status = rqli_call_options_read(loop->client, &read, options, error);
    }
    if (status) {
        return status;
    }
    self = hold_new(loop, name, block, &read);
    if (!self) {
        return rqli_fail_nomem(error);
    }
    what.user_data = self;
    what.request = rqli_single_new(loop, name, &read, &what);
    block->request = what.request; /* before the loop's thread can be done with it */
    status = rqli_loop_start(loop, (struct rqli_job *)what.request, error);
    if (status) {
        free(self);
    }
    return status;
}

/* Any thread, also while the loop is being closed: closing waits for the block. */
rql_status rql_hold_end(rql_hold *hold, int value)
{
    RQLI_DEFER_CANCEL;
    rql_status status;

    if (!hold) {
        return RQL_E_INVALID;
    }
    status = rqli_loop_check(hold->job.loop, NULL);
    if (!status) {
        hold->value = value;
        rqli_loop_post(hold->job.loop, &hold->ending);
    }
    return status;
}
