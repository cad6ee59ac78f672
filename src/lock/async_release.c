#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "lock/async_inside.h"
#include "lock/client.h"
#include "lock/ending.h"
#include "lock/leases.h"
#include "lock/lock_calls.h"
#include "lock/withdrawal.h"
#include "observe/observe.h"

#include <stddef.h>
#include <stdlib.h>

/* The end of one hold: rqli_end() on a loop. */
struct release {
    struct rqli_job job; /* first */
    struct rqli_ending ending;
    struct rqli_queued_call queued_call;
    struct rqli_due due; /* of the next attempt; or when there is no more time for one */
    rql_lock *lock;
    rql_done done;
    bool is_whole; /* the lock is freed at the end, and observed; else it is part of something */
};

static struct release *of_errand(struct rqli_queued_call *queued_call)
{
    return (struct release *)((char *)queued_call - offsetof(struct release, queued_call));
}

void rqli_tell_done(const rql_done *done, rql_status status, const rql_error *error)
{
    if (done->fn) {
        done->fn(status, status < 0 ? error : NULL, done->user_data);
    }
}

static void end(struct release *self, rql_status status, const rql_error *error)
{
    rql_done done = self->done;

    if (self->is_whole && self->lock) {
        rqli_observe_ended(self->lock, status);
        rqli_lock_free(self->lock);
    }
    rqli_loop_finish(&self->job);
    free(self);
    rqli_tell_done(&done, status, error);
}

static void write_release(struct rqli_queued_call *queued_call, struct rqli_call *call,
                          int64_t now_us)
{
    (void)now_us;
    rqli_ending_write(&of_errand(queued_call)->ending, call);
}

static void on_attempted(struct release *self, rql_status status, rql_error *error)
{
    struct rqli_timers *timers = &self->job.loop->timers;

    if (rqli_ending_is_over(&self->ending, &status, error)) {
        rqli_timers_unreserve(timers, &self->due);
        end(self, status, error);
    } else {
        rqli_timers_set(timers, &self->due, rqli_now_us() + rqli_ending_pause_us(&self->ending));
    }
}

static void read_release(struct rqli_queued_call *queued_call, const struct rqli_exchange *answer,
                         rql_status status, const rql_error *fault)
{
    struct release *self = of_errand(queued_call);
    rql_error error = *fault;

    if (!status) {
        status = rqli_ending_read(&self->ending, answer, &error);
    }
    on_attempted(self, status, &error);
}

static const struct rqli_queued_call_kind releasing = {true, write_release, read_release};

static void attempt(struct release *self)
{
    rqli_timers_set(&self->job.loop->timers, &self->due, self->ending.until_us);
    rqli_queued_call_go(&self->job.loop->call_queue, &self->queued_call, &releasing);
}

/* No answer in time, unless the server is busy with others of this loop. */
static void give_up(struct release *self)
{
    rql_loop *loop = self->job.loop;
    bool was_sent = self->queued_call.state == RQLI_QUEUED_CALL_SENT;
    int64_t grace_us = rqli_client_grace_us(loop->client);
    rql_error error = {0};

    if (rqli_pipe_is_talking(loop->pipe, grace_us)) {
        rqli_timers_set(&loop->timers, &self->due, rqli_now_us() + grace_us);
        return;
    }
    rqli_queued_call_stop(&self->queued_call);
    (void)rqli_fail(&error, was_sent ? RQL_E_UNKNOWN : RQL_E_IO, "%s: %s", loop->call_queue.where,
                    was_sent ? "no answer; the lock may or may not have been released"
                             : "no connection; the lock is still to be released");
    on_attempted(self, error.status, &error);
}

static void on_due(struct rqli_due *due)
{
    struct release *self = (struct release *)((char *)due - offsetof(struct release, due));

    if (rqli_queued_call_is_under_way(&self->queued_call)) {
        give_up(self);
    } else {
        attempt(self);
    }
}

/* Without memory to do it here it goes on in the background. */
static void end_without_memory(struct release *self)
{
    const rql_lock *lock = self->lock;
    const struct rqli_withdrawal_of what = {lock->name, lock->acquirer, lock->nonce};
    rql_error error;
    rql_status status = rqli_fail_nomem(&error);

    rqli_leases_withdraw(lock->client->leases, &what, lock->ttl_ms);
    end(self, status, &error);
}

static void begin(struct rqli_job *job)
{
    struct release *self = (struct release *)job;
    rql_lock *lock = self->lock;
    rql_status status = RQL_OK;

    if (!lock) {
        end(self, RQL_OK, NULL);
        return;
    }
    if (self->is_whole) {
        rqli_leases_remove(lock->client->leases, lock);
        rqli_observe_ending(lock);
    }
    if (!rqli_ending_begin(&self->ending, lock, &status)) {
        end(self, status, NULL);
    } else if (!rqli_timers_reserve(&job->loop->timers)) {
        end_without_memory(self);
    } else {
        self->due.fire = on_due;
        attempt(self);
    }
}

struct rqli_job *rqli_release_new(rql_lock *lock, const rql_done *done, bool is_whole)
{
    struct release *self = calloc(1, sizeof *self);

    if (!self) {
        return NULL;
    }
    self->job.begin = begin;
    self->lock = lock;
    self->is_whole = is_whole;
    if (done) {
        self->done = *done;
    }
    return &self->job;
}

bool rqli_release_begin(rql_loop *loop, rql_lock *lock, const rql_done *done, bool is_whole)
{
    struct rqli_job *job = rqli_release_new(lock, done, is_whole);

    if (job) {
        rqli_loop_begin(loop, job);
    }
    return job != NULL;
}

rql_status rqli_async_check_of(rql_loop *loop, const rql_client *client, const char *what,
                               rql_error *error)
{
    rql_status status = rqli_loop_check(loop, error);

    if (!status && client != loop->client) {
        status = rqli_fail(error, RQL_E_INVALID, "%s: of another client than the loop", what);
    }
    return status;
}

rql_status rql_release_async(rql_loop *loop, rql_lock *lock, const rql_done *done, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_status status = lock ? rqli_async_check_of(loop, lock->client, lock->name, error)
                             : rqli_loop_check(loop, error);

    if (status) {
        return status;
    }
    return rqli_async_start(loop, rqli_release_new(lock, done, true), error);
}

/* rql_lock_extend() on a loop. */
struct extension {
    struct rqli_job job; /* first */
    struct rqli_queued_call queued_call;
    rql_lock *lock;
    int64_t ttl_ms;
    rql_done done;
};

static struct extension *extension_of(struct rqli_queued_call *queued_call)
{
    return (struct extension *)((char *)queued_call - offsetof(struct extension, queued_call));
}

static void write_extension(struct rqli_queued_call *queued_call, struct rqli_call *call,
                            int64_t now_us)
{
    const struct extension *self = extension_of(queued_call);

    (void)now_us;
    rqli_extend_write(self->lock, self->ttl_ms, call);
}

static void end_extension(struct extension *self, rql_status status, const rql_error *error)
{
    rql_done done = self->done;

    rqli_loop_finish(&self->job);
    free(self);
    rqli_tell_done(&done, status, error);
}

static void read_extension(struct rqli_queued_call *queued_call, const struct rqli_exchange *answer,
                           rql_status status, const rql_error *fault)
{
    struct extension *self = extension_of(queued_call);
    rql_error error = *fault;

    if (!status) {
        status = rqli_extend_read(self->lock, self->ttl_ms, answer, &error);
    }
    end_extension(self, status, &error);
}

static void begin_extension(struct rqli_job *job)
{
    static const struct rqli_queued_call_kind extending = {true, write_extension, read_extension};

    struct extension *self = (struct extension *)job;

    if (rql_lock_get_state(self->lock) == RQL_GONE) {
        end_extension(self, RQL_NOT_HELD, NULL);
        return;
    }
    rqli_queued_call_go(&job->loop->call_queue, &self->queued_call, &extending);
}

rql_status rql_extend_async(rql_loop *loop, rql_lock *lock, int64_t ttl_ms, const rql_done *done,
                            rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct extension *self;
    rql_status status = rqli_extend_check(lock, ttl_ms, error);

    if (!status) {
        status = rqli_async_check_of(loop, lock->client, lock->name, error);
    }
    if (status) {
        return status;
    }
    self = calloc(1, sizeof *self);
    if (self) {
        self->job.begin = begin_extension;
        self->lock = lock;
        self->ttl_ms = ttl_ms;
        self->done = done ? *done : (rql_done){NULL, NULL};
    }
    return rqli_async_start(loop, (struct rqli_job *)self, error);
}
