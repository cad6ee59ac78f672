#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "lock/async.h"
#include "lock/client.h"
#include "lock/lock.h"
#include "options/options.h"

#include <stddef.h>
#include <stdlib.h>

/* A block and its hold on a lock. A job of its own from the grant on: the loop waits for its end.
 */
struct rql_hold {
    struct rqli_job job; /* first */
    struct rqli_post ending;
    rql_async_block block;
    int64_t ttl_ms; /* of a timed block, to be told if it overran; else 0 */
    rql_lock *lock;
    bool overran;
    int value;
};

static void tell(rql_hold *self, rql_status status, const rql_error *error)
{
    rql_async_block block = self->block;
    int value = self->value;

    free(self);
    block.done(status, value, status < 0 ? error : NULL, block.user_data);
}

static void on_released(rql_status status, const rql_error *error, void *user_data)
{
    rql_hold *self = user_data;

    rqli_loop_finish(&self->job);
    tell(self, self->overran ? RQL_BLOCK_OVERRAN : status, error);
}

static void take_end(struct rqli_post *post)
{
    rql_hold *self = (rql_hold *)((char *)post - offsetof(rql_hold, ending));
    const rql_done done = {on_released, self};
    int64_t ran_us = rqli_now_us() - self->lock->begun_us;

    self->overran = self->ttl_ms > 0 && ran_us > self->ttl_ms * 1000;
    if (!rqli_release_begin(self->job.loop, self->lock, &done)) {
        rql_error error = {0};
        rql_status status = rql_lock_release(self->lock, &error); /* blocks, but ends it */

        on_released(status, &error, self);
    }
}

static void begin(struct rqli_job *job)
{
    rql_hold *self = (rql_hold *)job;

    self->block.run(self, self->lock, self->block.user_data);
}

static void on_acquired(rql_status status, rql_lock *lock, const rql_error *error, void *user_data)
{
    rql_hold *self = user_data;

    if (status) {
        tell(self, status, error);
        return;
    }
    self->lock = lock;
    rqli_loop_begin(self->job.loop, &self->job);
}

static rql_status check(rql_loop *loop, const char *name, const rql_async_block *block,
                        rql_error *error)
{
    rql_status status = rqli_loop_check(loop, error);

    if (!status) {
        status = rqli_name_check(name, error);
    }
    if (!status && (!block || !block->run || !block->done)) {
        status = rqli_fail(error, RQL_E_INVALID, "%s: there is no block to run, or nobody to tell",
                           name);
    }
    return status;
}

static rql_hold *hold_new(rql_loop *loop, const rql_async_block *block,
                          const rql_lock_options *options)
{
    rql_hold *self = calloc(1, sizeof *self);

    if (self) {
        self->job.loop = loop;
        self->job.begin = begin;
        self->ending.take = take_end;
        self->block = *block;
        self->ttl_ms = options->timed ? options->ttl_ms : 0;
    }
    return self;
}

rql_status rql_with_async(rql_loop *loop, const char *name, const rql_lock_options *options,
                          rql_async_block *block, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_lock_options read;
    rql_acquiring what = {.done = on_acquired};
    rql_hold *self;
    rql_status status = check(loop, name, block, error);

    if (!status) {
        status = rqli_lock_options_read(&read, &loop->client->of_calls, options, error);
    }
    if (status) {
        return status;
    }
    self = hold_new(loop, block, &read);
    if (!self) {
        return rqli_fail_nomem(error);
    }
    what.user_data = self;
    what.request = rqli_single_new(loop, name, &read, &what);
    block->request = what.request; /* before the loop's thread can be done with it */
    status = rqli_async_start(loop, (struct rqli_job *)what.request, error);
    if (status) {
        free(self);
    }
    return status;
}

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
