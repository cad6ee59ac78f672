#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "lock/async.h"
#include "lock/client.h"
#include "lock/end.h"
#include "lock/extend.h"
#include "lock/leases.h"
#include "lock/notify.h"
#include "lock/series.h"
#include "lock/withdraw.h"

#include <stdlib.h>

/*
 * rql_release_async(), rql_series_release_async() and rql_extend_async(): end.c and extend.c as
 * jobs of a loop. A release cannot be cancelled, and goes on when the loop is closed: a lock that
 * its owner has let go must not stay until its ttl.
 */

/*
 * An end on a loop, of three kinds: the release of a lock (`one`, is_whole), that of a series
 * (`series`), and locks that are only given back, whose handles stay their owner's (neither). With
 * count 0 there is nothing to end, as when NULL is released: it is over at once.
 */
struct ending {
    struct rqli_job job; /* first */
    struct rqli_op_task task;
    struct rqli_end end;
    rql_lock *one;
    rql_lock *const *locks; /* that one, or the first `count` of a series */
    size_t count;
    int64_t until_us;   /* it goes on in the background then */
    rql_series *series; /* that is freed at the end, or NULL */
    rql_series_result *result;
    bool is_whole; /* `one` is observed and freed here */
    rql_done done;
    struct rqli_end_part *parts;
    struct rqli_op_call calls[];
};

/* The handles are freed before the callback, which may free what they point to. So is `self`, with
 * the reason in it: that is copied. error: may be NULL for RQL_OK. */
static void finish_end(struct ending *self, rql_status status, const rql_error *error)
{
    rql_done done = self->done;
    rql_error detail = {0};

    if (status) {
        detail = *error;
    }
    if (self->series) {
        rqli_series_on_released(self->series, status, self->result);
        (void)rqli_series_free(self->series);
    } else if (self->is_whole && self->one) {
        rqli_notify_ended(self->one, status);
        rqli_lock_free(self->one);
    }
    rqli_loop_finish(&self->job);
    free(self);
    rqli_report_done(&done, status, &detail);
}

static void on_ended(struct rqli_op_task *task)
{
    struct ending *self = (struct ending *)((char *)task - offsetof(struct ending, task));

    finish_end(self, self->end.op.status, &self->end.error);
}

/* Without memory to do it here it goes on in the background, as far as that has memory. leave.lua
 * finds what to end by the nonce: a grant, or all that a re-entry has added. */
static void end_in_background(const rql_lock *lock)
{
    const struct rqli_withdrawal_of what = rqli_lock_withdrawal(lock);

    rqli_leases_withdraw(lock->client->leases, &what, lock->ttl_ms);
}

/* Of what a re-entry has added some was used: it stays, and ends with the lock. */
static void end_without_memory(struct ending *self)
{
    rql_error error;
    rql_status status = rqli_fail_nomem(&error);

    for (size_t i = 0; i < self->count; i++) {
        if (self->locks[i]->process != RQL_EXTENDABLE_CONFLICT_WORK_THROUGH) {
            end_in_background(self->locks[i]);
        }
    }
    finish_end(self, status, &error);
}

/* Off the leases first: no loss is reported for what is being released. */
static void begin_end(struct rqli_job *job)
{
    struct ending *self = (struct ending *)job;

    if (self->series) {
        rqli_observe(RQLI_ON_SERIES_ENDING, &self->series->subject, NULL);
    }
    if (self->is_whole && self->one) {
        rqli_notify_ending(self->one);
    }
    if (self->count == 0) {
        finish_end(self, RQL_OK, NULL);
        return;
    }
    rqli_leases_remove(job->loop->client->leases, self->locks, self->count);
    rqli_end_init(&self->end, self->parts, self->locks, self->count, job->loop);
    self->end.op.until_us = rqli_earlier(self->end.op.until_us, self->until_us);
    self->task = (struct rqli_op_task){
        .op = &self->end.op, .loop = &job->loop->first.op, .done = on_ended, .calls = self->calls};
    if (!rqli_op_start(&self->task)) {
        end_without_memory(self);
    }
}

/* Any thread. One allocation: behind the calls are the parts. `locks` is borrowed until the end.
 * NULL: no memory. */
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

/* The array that ending_new() wants is `one`, which stays where it is. */
static struct ending *ending_of_one(rql_lock *lock, const rql_done *done)
{
    struct ending *self = ending_new(NULL, lock ? 1 : 0, done);

    if (self) {
        self->one = lock;
        self->locks = &self->one;
        self->is_whole = true;
    }
    return self;
}

/* Loop's thread. False: `self` is NULL. Where nothing has to be sent `done` comes within. */
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

bool rqli_give_back_begin(rql_loop *loop, rql_lock *const *locks, size_t count, int64_t deadline_us,
                          const rql_done *done)
{
    struct ending *self = ending_new(locks, count, done);

    if (self) {
        self->until_us = rqli_give_back_until_us(loop->client, deadline_us);
    }
    rqli_leases_remove(loop->client->leases, locks, count);
    for (size_t i = 0; !self && i < count; i++) { /* their owner frees them at once */
        end_in_background(locks[i]);
    }
    return begin_on(loop, self);
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

/* On any fault here the lock is as it was, and its owner's: the handle passes to the loop only with
 * a job that was taken. */
rql_status rql_release_async(rql_loop *loop, rql_lock *lock, const rql_done *done, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_status status = lock ? rqli_async_check_of(loop, lock->client, lock->name, error)
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
    struct ending *self;
    rql_status status = series ? rqli_async_check_of(loop, series->client, "series", error)
                               : rqli_loop_check(loop, error);

    if (status) {
        return status;
    }
    self = series ? ending_new(series->locks, series->count, done) : ending_new(NULL, 0, done);
    if (self) {
        self->series = series;
        self->result = result;
    }
    return rqli_loop_start_to_end(loop, (struct rqli_job *)self, error);
}

/* rql_lock_extend() on a loop. The lock stays its owner's, who does not release it before the
 * callback. It is not cancelled when the loop is closed: one round, which ends by itself. */
struct extension {
    struct rqli_job job; /* first */
    struct rqli_op_task task;
    struct rqli_op_call call;
    struct rqli_extend extend;
    struct rqli_extension result;
    rql_lock *lock;
    rql_done done;
};

static void finish_extension(struct extension *self, rql_status status, const rql_error *error)
{
    rql_done done = self->done;
    rql_error detail = {0};

    if (status) {
        detail = *error;
    }
    rqli_loop_finish(&self->job);
    free(self);
    rqli_report_done(&done, status, &detail);
}

static void on_extended(struct rqli_op_task *task)
{
    struct extension *self = (struct extension *)((char *)task - offsetof(struct extension, task));

    finish_extension(self, self->extend.op.status, &self->extend.error);
}

static void begin_extension(struct rqli_job *job)
{
    struct extension *self = (struct extension *)job;
    rql_error error;

    rqli_extend_init(&self->extend, 1);
    self->task = (struct rqli_op_task){
        .op = &self->extend.op,
        .loop = self->extend.op.durability ? &job->loop->first.durable : &job->loop->first.op,
        .done = on_extended,
        .calls = &self->call};
    if (!rqli_op_start(&self->task)) {
        finish_extension(self, rqli_fail_nomem(&error), &error);
    }
}

rql_status rql_extend_async(rql_loop *loop, rql_lock *lock, int64_t ttl_ms, const rql_done *done,
                            rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct extension *self;
    rql_status status;

    if (!lock) {
        return rqli_fail(error, RQL_E_INVALID, "lock is NULL");
    }
    status = rqli_client_check(lock->client, error);
    if (!status) {
        status = rqli_extend_check(lock->client, ttl_ms, error);
    }
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
        self->extend =
            (struct rqli_extend){.locks = &self->lock, .each = &self->result, .ttl_ms = ttl_ms};
        self->done = done ? *done : (rql_done){NULL, NULL};
    }
    return rqli_loop_start(loop, (struct rqli_job *)self, error);
}
