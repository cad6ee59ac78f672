#include "lock/extend.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "lock/client.h"
#include "lock/durable.h"
#include "lock/hand_over.h"
#include "lock/held_calls.h"
#include "lock/leases.h"
#include "lock/loop.h"
#include "lock/sharing.h"
#include "lock/transfer.h"
#include "net/op/op_loop.h"
#include "net/op/op_threads.h"
#include "observe/observe.h"
#include "wire/answer.h"

#include <rql/share.h>
#include <stdlib.h>

/*
 * A new ttl for locks that are held. Without the server's word an extension never shortens what the
 * holder believes: the lease changes only by a reply. A series is extended in one round trip, lock
 * by lock: a lock that has ended does not keep the others from their new ttl.
 */

enum { EXTENDED_BY_REENTRY = 4 }; /* extend_shared.lua */

rql_status rqli_extend_check(const rql_client *client, int64_t ttl_ms, rql_error *error)
{
    if (ttl_ms < 1 || ttl_ms > RQL_TTL_MAX_MS) {
        return rqli_fail(error, RQL_E_INVALID, "ttl_ms is %lld; it must be 1 to %lld",
                         (long long)ttl_ms, (long long)RQL_TTL_MAX_MS);
    }
    return rqli_client_check_ttl(client, ttl_ms, error);
}

/* Returns whether the one lock is to be shared. */
static bool is_lowering(const struct rqli_extend *self)
{
    return self->share.units > 0;
}

/* Writes the i-th call. For a re-entry, it extends the grant that the re-entry shares. */
static void write_extend(struct rqli_op *op, size_t i, struct rqli_call *call)
{
    const struct rqli_extend *self = (const struct rqli_extend *)op;

    if (is_lowering(self)) {
        rqli_held_write_lowering(self->locks[i], &self->share, self->ttl_ms, call);
    } else {
        rqli_held_write_extension(self->locks[i], self->ttl_ms, call);
    }
}

/* Notes a status. The first fault counts; without a fault, the first lock that had ended. */
static void note_status(struct rqli_extend *self, rql_status status, const rql_error *why)
{
    if ((status < 0 && self->op.status >= 0) || (status > 0 && self->op.status == RQL_OK)) {
        self->op.status = status;
        self->error = *why;
    }
}

static rql_status fail_ended(const rql_lock *lock, rql_error *error)
{
    return rqli_lock_fail_ended(lock->name, " before this extension", error);
}

/* Reads the reply: {1, now_us, left_ms}, {0, now_us}, or {4, now_us} of a lock that an extendable
 * re-entry of another program has extended. */
static rql_status read_reply(struct rqli_extend *self, size_t i, const struct rqli_batch *answer,
                             const struct rqli_reply *reply, rql_error *fault)
{
    rql_lock *lock = self->locks[i];
    struct rqli_outcome outcome;

    if (!rqli_outcome_read(reply, &outcome)) {
        return rqli_batch_fault(answer, reply, "extend", lock->keys.lock.data, fault);
    }
    if (outcome.what == EXTENDED_BY_REENTRY) {
        return rqli_fail(fault, RQL_CONFLICT, "%s: a re-entry has extended it, so it is not shared",
                         lock->name);
    }
    if (outcome.what != 1) {
        rqli_leases_on_gone(lock->client->leases, lock);
        return fail_ended(lock, fault);
    }
    self->each[i] = (struct rqli_extension){answer->sent_us, outcome.third};
    return RQL_OK;
}

static void read_extend(struct rqli_op *op, size_t i, const struct rqli_batch *answer,
                        const struct rqli_reply *reply, const rql_error *fault)
{
    struct rqli_extend *self = (struct rqli_extend *)op;
    rql_error found;

    if (reply) {
        note_status(self, read_reply(self, i, answer, reply, &found), &found);
    } else {
        note_status(self, fault->status, fault);
    }
}

static void report(const struct rqli_extend *self, const rql_lock *lock)
{
    struct rqli_figures figures = rqli_lock_figures(lock);

    figures.ttl_ms = self->ttl_ms;
    if (is_lowering(self)) {
        figures.share_units = self->share.units;
        rqli_observe(RQLI_ON_LOWERED, &lock->subject, &figures);
    } else {
        rqli_observe(RQLI_ON_EXTENDED, &lock->subject, &figures);
    }
}

/* Takes the extensions that are as safe as they have to be. A lease counts from the sending of the
 * call, and may have ended while the reply was on its way: then it stays so, even if the server has
 * granted more. */
static void take_extensions(struct rqli_extend *self)
{
    for (size_t i = 0; i < self->op.n_calls; i++) {
        const struct rqli_extension *extension = &self->each[i];
        rql_lock *lock = self->locks[i];
        rql_error fault;
        rql_status status;

        if (extension->left_ms <= 0) {
            continue;
        }
        status = rqli_durable_check(&lock->durability, &self->op.acks, lock->name,
                                    "the deadline is as it was", &fault);
        if (status) {
            note_status(self, status, &fault);
        } else if (rqli_leases_on_extended(lock->client->leases, lock, extension->sent_us,
                                           extension->left_ms)) {
            report(self, lock);
        } else {
            note_status(self, fail_ended(lock, &fault), &fault);
        }
    }
}

/* Returns whether a single lock is known to be over. It is not asked for: its lease stays gone, and
 * an extension would only keep the lock from other acquirers. In a series it is asked for with the
 * rest, and reported as not held all the same. */
static bool is_gone(const struct rqli_extend *self)
{
    rql_lock *lock = self->locks[0];

    return self->op.n_calls == 1 && rqli_leases_state(lock->client->leases, lock) == RQL_GONE;
}

/* Returns whether to wait: a lock that was handed over inside the client may not be ours on the
 * server yet. */
static bool must_wait(const struct rqli_extend *self)
{
    bool is_open = false;

    for (size_t i = 0; i < self->op.n_calls && !is_open; i++) {
        is_open = rqli_transfer_is_open(self->locks[i]->transfer);
    }
    return is_open && rqli_now_us() + RQLI_TRANSFER_LOOK_US < self->op.until_us;
}

/* Returns for how long the lock is to live at least: as long as it would, if it is claimed. */
static int64_t lowered_ttl_ms(const struct rqli_extend *self)
{
    const rql_lock *lock = self->locks[0];
    const struct rqli_lease lease = rqli_leases_lease(lock->client->leases, lock);
    const int64_t now_us = rqli_now_us();
    const int64_t left_ms = lease.claim == RQLI_LEASE_UNCLAIMED
                                ? lock->ttl_ms - (now_us - lease.begun_us) / 1000
                                : rqli_lease_remaining_ms(&lease, now_us);

    return left_ms > 0 ? left_ms : 1;
}

/* Returns false, with the status set, if the lock cannot be shared. */
static bool begin_lowering(struct rqli_extend *self)
{
    rql_lock *lock = self->locks[0];

    if (lock->process != RQL_LOCK_OBTAINING || lock->share.units > 0 ||
        !rqli_leases_on_lowering(lock->client->leases, lock)) {
        self->op.status =
            rqli_fail(&self->error, RQL_CONFLICT,
                      "%s: shared already, or entered again by its acquirer", lock->name);
        return false;
    }
    self->ttl_ms = lowered_ttl_ms(self);
    return true;
}

/* A call without an answer may have shared the lock. Then it counts as shared, and its next renewal
 * makes sure of it. */
static void take_lowering(struct rqli_extend *self)
{
    rql_lock *lock = self->locks[0];
    bool is_done = self->op.status == RQL_OK || self->op.status == RQL_E_UNKNOWN ||
                   self->op.status == RQL_E_NOT_DURABLE;

    rqli_leases_on_lowered(lock->client->leases, lock, is_done ? &self->share : NULL, self->slots);
    if (is_done) {
        self->slots = NULL;
    }
}

/* There is one round, not repeated: on a fault the old deadline stands, and the caller may ask
 * again. */
static enum rqli_op_next next(struct rqli_op *op)
{
    struct rqli_extend *self = (struct rqli_extend *)op;

    if (self->has_asked) {
        take_extensions(self);
        if (is_lowering(self)) {
            take_lowering(self);
        }
        return RQLI_OP_OVER;
    }
    if (must_wait(self)) {
        op->again_us = rqli_now_us() + RQLI_TRANSFER_LOOK_US;
        return RQLI_OP_WAIT;
    }
    self->has_asked = true;
    if (is_gone(self)) {
        op->status = fail_ended(self->locks[0], &self->error);
        return RQLI_OP_OVER;
    }
    return !is_lowering(self) || begin_lowering(self) ? RQLI_OP_AGAIN : RQLI_OP_OVER;
}

/* gives_back: on a loop a lease must not run out while its call queues behind a crowd that asks for
 * locks. */
void rqli_extend_init(struct rqli_extend *self, size_t count)
{
    static const struct rqli_op_ops ops = {
        .write = write_extend, .read = read_extend, .next = next};
    rql_client *client = self->locks[0]->client;
    const struct rqli_durability *durability = &self->locks[0]->durability;
    bool is_durable = rqli_durability_is_wanted(durability);
    int64_t more_us = is_durable ? rqli_conn_longest_us(durability) : 0;

    self->op = (struct rqli_op){
        .ops = &ops,
        .route = rqli_client_route(client, &self->locks[0]->keys),
        .n_calls = count,
        .until_us = rqli_client_until_us(client, rqli_now_us()) + more_us,
        .grace_us = rqli_client_grace_us(client) + more_us,
        .durability = is_durable ? durability : NULL,
        .gives_back = true,
    };
    self->has_asked = false;
    for (size_t i = 0; i < count; i++) {
        self->each[i].left_ms = 0;
    }
}

static rql_status run(struct rqli_extend *self, size_t count, rql_error *error)
{
    rql_status status;

    rqli_extend_init(self, count);
    self->op.route.use = self->op.durability ? RQLI_OP_DURABLE : RQLI_OP_FOR_CALLERS;
    status = rqli_op_run(&self->op);
    if (status && error) {
        *error = self->error;
    }
    return status;
}

/* There is at least one lock, and all are of one client; those of a series ask for the same
 * durability. */
rql_status rqli_extend(rql_lock *const *locks, size_t count, int64_t ttl_ms, rql_error *error)
{
    struct rqli_extension each[RQL_SERIES_MAX];
    struct rqli_extend self = {.locks = locks, .each = each, .ttl_ms = ttl_ms};

    return run(&self, count, error);
}

/* ---- on a loop ---- */

/* An extension as a job of a loop. The lock stays its owner's, and the owner must not release it
 * before the callback. The job is not cancelled when the loop is closed: it is one round, which
 * ends by itself. */
struct extension {
    struct rqli_job job; /* first */
    struct rqli_op_driver driver;
    struct rqli_op_call call;
    struct rqli_extend extend;
    struct rqli_extension result;
    rql_lock *lock;
    rql_done done;
};

static void on_extended(struct rqli_op_driver *driver)
{
    struct extension *self = RQLI_OWNER(driver, struct extension, driver);

    free(self->extend.slots);
    rqli_loop_complete(&self->job, &self->done, self->extend.op.status, &self->extend.error);
}

static void begin_extension(struct rqli_job *job)
{
    struct extension *self = (struct extension *)job;
    rql_error error;

    rqli_extend_init(&self->extend, 1);
    self->driver =
        (struct rqli_op_driver){.op = &self->extend.op,
                                .loop = self->extend.op.durability ? &job->loop->nodes.first.durable
                                                                   : &job->loop->nodes.first.op,
                                .done = on_extended,
                                .calls = &self->call};
    if (!rqli_op_start(&self->driver)) {
        free(self->extend.slots);
        rqli_loop_complete(job, &self->done, rqli_fail_nomem(&error), &error);
    }
}

static rql_status check_lock(const rql_lock *lock, rql_error *error)
{
    return lock ? rqli_client_check(lock->client, error)
                : rqli_fail(error, RQL_E_INVALID, "lock is NULL");
}

/* Starts the job for a lock of this loop's client. wanted: ttl_ms, or share. */
static rql_status start(rql_loop *loop, rql_lock *lock, const struct rqli_extend *wanted,
                        const rql_done *done, rql_error *error)
{
    rql_status status = rqli_loop_check_of(loop, lock->client, lock->name, error);
    struct extension *self;

    if (status) {
        return status;
    }
    self = calloc(1, sizeof *self);
    if (self) {
        self->job.begin = begin_extension;
        self->lock = lock;
        self->extend = *wanted;
        self->extend.locks = &self->lock;
        self->extend.each = &self->result;
        self->done = done ? *done : (rql_done){NULL, NULL};
    }
    return rqli_loop_start(loop, (struct rqli_job *)self, error);
}

rql_status rql_lock_extend_async(rql_loop *loop, rql_lock *lock, int64_t ttl_ms,
                                 const rql_done *done, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    const struct rqli_extend wanted = {.ttl_ms = ttl_ms};
    rql_status status = check_lock(lock, error);

    if (!status) {
        status = rqli_extend_check(lock->client, ttl_ms, error);
    }
    return status ? status : start(loop, lock, &wanted, done, error);
}

/* ---- a share ---- */

/* Makes the slots of the share, if it has any. A lock that one acquirer holds has the first ones,
 * and no answer names them. */
static rql_status make_slots(struct rqli_extend *self, rql_error *error)
{
    static const struct rqli_slice unnamed = {"", 0};

    if (!self->share.has_slots) {
        return RQL_OK;
    }
    self->slots = malloc((size_t)self->share.units * sizeof *self->slots);
    if (!self->slots) {
        return rqli_fail_nomem(error);
    }
    (void)rqli_share_read_slots(unnamed, &self->share, self->slots);
    return RQL_OK;
}

/* Reads the share that a lock is to have. Caller frees its slots if the lock does not get them. */
static rql_status read_share(const rql_lock *lock, const rql_lock_options *given,
                             struct rqli_extend *out, rql_error *error)
{
    rql_lock_options options;
    rql_status status = rqli_call_options_read(lock->client, &options, given, error);

    if (!status && options.share_units == 0) {
        status = rqli_fail(error, RQL_E_INVALID, "%s: share_units is 0", lock->name);
    }
    if (!status && lock->hold_at_least_ms > 0) {
        status = rqli_fail(error, RQL_E_INVALID,
                           "%s: hold_at_least_ms is for locks that are not shared", lock->name);
    }
    if (!status) {
        out->share = rqli_share_of(&options);
        status = make_slots(out, error);
    }
    return status;
}

rql_status rql_lock_lower(rql_lock *lock, const rql_lock_options *share, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct rqli_extension each;
    struct rqli_extend self = {.locks = &lock, .each = &each};
    rql_status status = check_lock(lock, error);

    if (!status) {
        status = rqli_hand_over_check_here(lock, error);
    }
    if (!status) {
        status = read_share(lock, share, &self, error);
    }
    if (!status) {
        status = run(&self, 1, error);
        free(self.slots);
    }
    return status;
}

rql_status rql_lock_lower_async(rql_loop *loop, rql_lock *lock, const rql_lock_options *share,
                                const rql_done *done, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    struct rqli_extend wanted = {.ttl_ms = 0};
    rql_status status = check_lock(lock, error);

    if (!status) {
        status = read_share(lock, share, &wanted, error);
    }
    if (!status) {
        status = start(loop, lock, &wanted, done, error);
        if (status) { /* otherwise they are the job's */
            free(wanted.slots);
        }
    }
    return status;
}
