#include "lock/end.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/pause.h"
#include "lock/client.h"
#include "lock/held_calls.h"
#include "lock/late.h"
#include "lock/leases.h"
#include "lock/withdraw.h"
#include "net/op/op_threads.h"
#include "observe/observe.h"
#include "wire/answer.h"
#include "wire/keys.h"

#include <stdio.h>
#include <string.h>

/*
 * The end of 1 to 64 holds: a grant is released, a re-entry takes back the time that it had added.
 * Each call is repeated while its fault may pass, as long as there is time: a release is
 * idempotent, because a nonce is granted only once. An end that could not be confirmed is withdrawn
 * in the background, and the caller gets RQL_E_UNKNOWN.
 */

enum {
    DRIFT = 5000,      /* 200 ppm: two clocks part by one in so many */
    BLOCK_SLACK_MS = 2 /* the gem takes back of an extension: ttl - elapsed - 2 */
};

/* Prefix of the nonce of a kept lock. The rest is that of the grant, so no two of them are equal.
 */
#define KEPT "kept"

/* Returns for how long the lock is to be kept when it is released now; 0: not at all. The end of a
 * re-entry keeps nothing. The server's clock may have gone slower than ours since the grant. */
static int64_t kept_ms(const struct rqli_end_part *part)
{
    const rql_lock *lock = part->lock;
    int64_t held_for_us;
    int64_t left_us;

    if (!lock || lock->hold_at_least_ms == 0 || lock->process != RQL_LOCK_OBTAINING) {
        return 0;
    }
    held_for_us = rqli_now_us() - lock->held_us;
    left_us = lock->hold_at_least_ms * 1000 - held_for_us;
    return left_us > 0 ? (left_us + held_for_us / DRIFT + 999) / 1000 : 0;
}

/* Hands the lock on to an acquirer that does not exist, so that it ends by its TTL. transfer.lua is
 * idempotent, and does nothing if the lock is not ours any more. */
static void write_keeping(struct rqli_end_part *part, int64_t ms, struct rqli_call *call)
{
    (void)snprintf(part->kept_nonce, sizeof part->kept_nonce, KEPT "%s",
                   part->nonce + strlen(KEPT));
    rqli_call_init(call, RQLI_SCRIPT_TRANSFER, part->keys);
    rqli_call_text(call, part->nonce);
    rqli_call_random(call);
    rqli_call_text(call, RQLI_KEPT_ACQUIRER);
    rqli_call_text(call, part->kept_nonce);
    rqli_call_text(call, RQLI_KEPT_HOST);
    rqli_call_int(call, ms);
    rqli_call_int(call, part->lock->token);
}

/* Looks, once, when the turn of the call has come, for a waiter of this client that can be handed
 * the lock. */
static void choose_next(struct rqli_end *self)
{
    if (self->on.lock && !self->has_chosen && kept_ms(self->parts) == 0 &&
        self->on.lock->share.units == 0 && !rqli_client_is_draining(self->on.lock->client)) {
        (void)rqli_hand_over_choose(&self->on);
    }
    self->has_chosen = true;
    if (self->on.chosen) {
        self->op.generation = self->on.transfer->origin.generation;
        self->op.pushes_first = false; /* the server notifies no waiter */
    }
}

/* Writes the i-th call. A release that freed a lock with a long queue serves only the first part of
 * it; calls that serve the rest follow in further rounds. A re-entry is taken back by its own
 * nonce, from the outer grant. */
static void write_end(struct rqli_op *op, size_t i, struct rqli_call *call)
{
    struct rqli_end *self = (struct rqli_end *)op;
    struct rqli_end_part *part = &self->parts[i];
    int64_t left_ms;

    if (!call->is_draft) {
        choose_next(self);
    }
    if (self->on.transfer) {
        rqli_hand_over_write(&self->on, call);
        return;
    }
    if (part->is_serving) {
        rqli_serve_write(part->keys, call);
        return;
    }
    left_ms = kept_ms(part);
    if (left_ms > 0) {
        write_keeping(part, left_ms, call);
        return;
    }
    if (part->unused_ms > 0) {
        rqli_call_init(call, RQLI_SCRIPT_DECREASE, part->keys);
        rqli_call_text(call, part->lock->grant_nonce);
        rqli_call_text(call, part->nonce);
        rqli_call_int(call, part->unused_ms);
        rqli_call_random(call);
    } else if (part->lock) {
        rqli_held_write_release(part->lock, call);
    } else {
        rqli_call_init(call, RQLI_SCRIPT_RELEASE, part->keys);
        rqli_call_text(call, part->nonce);
        rqli_call_random(call);
    }
}

static void placed(struct rqli_op *op)
{
    struct rqli_end *self = (struct rqli_end *)op;

    if (self->on.chosen) {
        rqli_hand_over_place(&self->on);
    }
}

/* Has the call repeated when the hand-over to us is settled. */
static rql_status fail_early(struct rqli_end *self, struct rqli_end_part *part)
{
    self->has_lost_stream = true;
    self->is_early = true;
    return rqli_fail(&part->fault, RQL_E_UNKNOWN,
                     "%s: the server has not said in time whose it is; it may or may not be "
                     "released",
                     part->keys->lock.data);
}

/* Returns RQL_OK if the lock is the next owner's, RQL_NOT_HELD if it was not ours any more, and
 * RQL_E_UNKNOWN if the transfer is to be repeated. */
static rql_status understand_transfer(struct rqli_end *self, struct rqli_end_part *part,
                                      const struct rqli_batch *answer,
                                      const struct rqli_outcome *outcome)
{
    if (outcome->what == RQLI_TRANSFERRED) {
        rqli_hand_over_on_done(&self->on, answer->sent_us, outcome->third);
        return RQL_OK;
    }
    if (part->was_open) {
        return fail_early(self, part);
    }
    rqli_hand_over_on_refused(&self->on);
    return RQL_NOT_HELD;
}

/*
 * Returns RQL_OK if this call has ended the hold, RQL_NOT_HELD if it found nothing, and otherwise
 * the fault, which is noted. RQL_NOT_HELD is not returned for a lock whose own hand-over to us the
 * server may not have known when this was sent.
 *
 * Other holders that share a grant learn what is left of it. That is nothing if it has ended, also
 * if an earlier call has taken the extension back and its reply was lost. The rest counts from
 * before the first call, which is earlier than the server's count, and so safe.
 */
static rql_status understand(struct rqli_end *self, struct rqli_end_part *part,
                             const struct rqli_batch *answer, const struct rqli_reply *reply)
{
    struct rqli_outcome outcome;
    bool has_ended;

    if (!rqli_outcome_read(reply, &outcome)) {
        return rqli_batch_fault(answer, reply, part->unused_ms > 0 ? "decrease" : "release",
                                part->keys->lock.data, &part->fault);
    }
    part->is_serving = outcome.second == RQLI_SERVED_PARTLY;
    if (self->on.transfer) {
        return understand_transfer(self, part, answer, &outcome);
    }
    has_ended = part->lock && part->unused_ms == 0 ? rqli_held_has_ended(part->lock, &outcome)
                                                   : outcome.what == 1;
    has_ended = has_ended || outcome.what == RQLI_TRANSFERRED; /* it is kept */
    if (!has_ended && part->was_open) {
        return fail_early(self, part);
    }
    if (part->unused_ms > 0) {
        (void)atomic_fetch_add(&self->client->leases->n_changes, 1);
        rqli_leases_on_shortened(self->client->leases, part->lock, self->begun_us, outcome.third);
    }
    return has_ended ? RQL_OK : RQL_NOT_HELD;
}

/* Handles the fault of a transfer. A transfer that was not put in the stream has not happened. One
 * that was is repeated unchanged, as long as only the connection is in the way and its new owner
 * relies on it. Otherwise the lock is released like any other, and anything that the new owner may
 * have got of it is given back. */
static void read_transfer_fault(struct rqli_end *self, rql_status fault)
{
    bool passes = fault == RQL_E_UNKNOWN || fault == RQL_E_IO || fault == RQL_E_NOMEM;

    if (self->on.chosen) {
        rqli_hand_over_abandon(&self->on);
    } else if (self->on.transfer && (!passes || self->on.transfer->is_refused)) {
        rqli_hand_over_end(&self->on, true);
    }
}

/* Reads the i-th reply. A fault is remembered: if a later call finds nothing, the call without a
 * reply has ended the hold. */
static void read_end(struct rqli_op *op, size_t i, const struct rqli_batch *answer,
                     const struct rqli_reply *reply, const rql_error *fault)
{
    struct rqli_end *self = (struct rqli_end *)op;
    struct rqli_end_part *part = &self->parts[i];

    self->is_early = false;
    if (part->is_settled) { /* only serving is left: a fault ends that, and the next poll serves */
        part->is_serving = reply && rqli_serve_is_due(reply);
    } else if (reply) {
        part->status = understand(self, part, answer, reply);
    } else {
        part->fault = *fault;
        part->status = fault->status;
        part->may_have_ended = part->may_have_ended || fault->status == RQL_E_UNKNOWN;
        self->has_lost_stream = true;
        read_transfer_fault(self, fault->status);
    }
}

/* Ends the listed re-entries that share one of these grants. Usually a re-entry ends before the
 * outer hold, and there are none. */
static void end_reentries(rql_lock *const *locks, size_t count)
{
    struct rqli_leases *leases = locks[0]->client->leases;

    if (atomic_load(&leases->n_reentries) == 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (locks[i]->process == RQL_LOCK_OBTAINING) {
            rqli_leases_on_taken(leases, rqli_slice_of(locks[i]->nonce));
        }
    }
}

/* Settles a part: its status is final. A re-entry that was granted before this call was done, and
 * listed since rqli_end_leases(), has ended with it; the count is for those that are not listed
 * yet, so it is raised first. The operation's status is the first fault; without a fault, that one
 * had ended. An extension is not withdrawn in the background, because leave.lua would take back all
 * that the re-entry had added, and not only the unused part. The rest of the extension ends with
 * the lock. Nor is a lock that was to be kept, because it would be free then. */
static void settle(struct rqli_end *self, struct rqli_end_part *part)
{
    rql_lock *lock = part->lock;

    part->is_settled = true;
    if (lock) {
        (void)atomic_fetch_add(&self->client->leases->n_changes, 1);
        end_reentries(&lock, 1);
    }
    if (self->on.transfer) {
        rqli_hand_over_end(&self->on, rqli_held_fault_may_pass(part->status));
    }
    if (part->status == RQL_NOT_HELD && part->may_have_ended) {
        part->status = part->believed; /* the call without a reply has released it */
    } else if (rqli_held_fault_may_pass(part->status) && part->unused_ms == 0 && lock &&
               kept_ms(part) == 0) {
        rqli_withdraw_lock_later(lock, lock->ttl_ms);
    }
    if (part->status < 0 && part->status != RQL_E_UNKNOWN && part->may_have_ended) {
        part->status = rqli_fail(&part->fault, RQL_E_UNKNOWN,
                                 "%s: sent without an answer, and may have been done; then: %s",
                                 part->keys->lock.data, rql_status_text(part->status));
    }
    if (part->status < 0 && self->op.status >= 0) {
        self->op.status = part->status;
        self->error = part->fault;
    } else if (part->status > 0 && self->op.status == RQL_OK) {
        self->op.status = rqli_lock_fail_ended(rqli_name_in(part->keys->lock, RQLI_KEY_LOCK).data,
                                               " before this release", &self->error);
    }
}

/* Returns whether there is time left. All rounds share one time budget, from the begin of the
 * end. */
static bool has_time(const struct rqli_end *self, int64_t pause_us)
{
    return rqli_now_us() + pause_us < self->op.until_us;
}

/* Settles a round when all its calls are answered. Returns how many are to be repeated. Their parts
 * are now in front, because the i-th call of a round is that of the i-th part. */
static size_t settle_round(struct rqli_end *self)
{
    size_t n_left = 0;

    self->op.again_us = 0;
    for (size_t i = 0; i < self->op.n_calls; i++) {
        struct rqli_end_part *part = &self->parts[i];
        bool repeats = !part->is_settled && rqli_held_fault_may_pass(part->status) &&
                       has_time(self, RQLI_PAUSE_CALL.first_us);

        if (repeats) {
            self->op.again_us = self->is_early ? 0 : rqli_now_us() + RQLI_PAUSE_CALL.first_us;
        } else if (!part->is_settled) {
            settle(self, part);
        }
        if (repeats || (part->is_serving && has_time(self, 0))) {
            self->parts[n_left++] = *part;
        }
    }
    return n_left;
}

/* Notes which of the locks of this round came by a hand-over that is still open. Returns whether
 * there is one. */
static bool note_open(struct rqli_end *self)
{
    bool is_any_open = false;

    for (size_t i = 0; i < self->op.n_calls; i++) {
        struct rqli_end_part *part = &self->parts[i];

        part->was_open = part->lock && rqli_transfer_is_open(part->lock->transfer);
        is_any_open = is_any_open || part->was_open;
    }
    return is_any_open;
}

/* Returns whether the calls must wait. The server may not know yet that a lock that was handed over
 * inside the client is ours. So calls about it go over the connection that carried the transfer,
 * after the transfer. If that connection broke, they wait until the releaser has repeated the
 * transfer and the server has answered. Calls about several locks wait for that answer in any case,
 * because each lock may have come over another connection. */
static bool must_wait(struct rqli_end *self)
{
    const bool is_any_open = note_open(self);

    self->op.generation = 0;
    if (!is_any_open) {
        return false;
    }
    if (self->on.lock) {
        const struct rqli_origin *origin = &self->on.lock->transfer->origin;

        self->op.generation = origin->generation;
        if (!self->has_lost_stream && origin->carrier == rqli_hand_over_carrier(&self->on)) {
            return false;
        }
    }
    return has_time(self, 0);
}

/* Has the calls go over any connection if the one that brought the lock has ended and cannot be
 * opened again: no call about the lock is under way there. A hand-over inside the client would need
 * that connection, so the server serves the queue. */
static void leave_failing_conn(struct rqli_end *self)
{
    if (self->op.route.conn && !self->parts[0].was_open &&
        rqli_conn_is_failing(self->op.route.conn)) {
        self->op.route.conn = NULL;
        self->has_chosen = true;
    }
}

/* `parts` come first, then, when they are settled, `later`: rqli_end_init() says which are
 * which. */
static enum rqli_op_next next(struct rqli_op *op)
{
    struct rqli_end *self = (struct rqli_end *)op;

    if (self->has_asked && !self->is_waiting) {
        op->n_calls = settle_round(self);
    }
    self->has_asked = true;
    if (op->n_calls == 0) {
        self->parts = self->later;
        op->n_calls = self->n_later;
        self->n_later = 0;
    }
    if (op->n_calls == 0) {
        return RQLI_OP_OVER;
    }
    if (self->on.transfer && atomic_load(&self->on.transfer->is_refused)) {
        rqli_hand_over_end(&self->on, true); /* the lock is released like any other */
    }
    self->is_waiting = must_wait(self);
    if (self->is_waiting) {
        op->again_us = rqli_now_us() + RQLI_TRANSFER_LOOK_US;
        return RQLI_OP_WAIT;
    }
    leave_failing_conn(self);
    return RQLI_OP_AGAIN;
}

static const struct rqli_op_ops ops = {
    .write = write_end, .read = read_end, .next = next, .placed = placed};

/* gives_back: on a loop these calls go ahead of calls that ask for locks. */
static void begin(struct rqli_end *self, rql_client *client, const struct rqli_keys *keys,
                  struct rqli_end_part *parts)
{
    int64_t now_us = rqli_now_us();

    self->op = (struct rqli_op){
        .ops = &ops,
        .route = rqli_client_route(client, keys),
        .until_us = rqli_client_until_us(client, now_us),
        .grace_us = rqli_client_grace_us(client),
        .gives_back = true,
    };
    self->client = client;
    self->begun_us = now_us;
    self->parts = parts;
    self->n_later = 0;
    self->has_asked = false;
    self->on = (struct rqli_hand_over){.lock = NULL};
    self->has_chosen = false;
    self->has_lost_stream = false;
    self->is_early = false;
    self->is_waiting = false;
}

/* Returns what the holder has believed up to now: RQL_OK or RQL_NOT_HELD. The lock is off the list,
 * so its lease is ours. */
static rql_status as_believed(const rql_lock *lock, int64_t now_us)
{
    return rqli_lease_state(&lock->kept.lease, now_us) == RQL_GONE ? RQL_NOT_HELD : RQL_OK;
}

/* Returns the unused time of an extension, by the gem's arithmetic, to the millisecond: both must
 * take the same time back from a shared lock. */
static int64_t unused_ms(const struct rqli_end *self, const rql_lock *lock)
{
    if (lock->process != RQL_EXTENDABLE_CONFLICT_WORK_THROUGH) {
        return 0;
    }
    return lock->ttl_ms - (self->begun_us - lock->begun_us) / 1000 - BLOCK_SLACK_MS;
}

/* Adds a re-entry. If it added nothing, or has used that up, it ends without a call. */
static bool add_reentry(struct rqli_end *self, struct rqli_end_part *part)
{
    part->unused_ms = unused_ms(self, part->lock);
    if (part->unused_ms <= 0) {
        part->status = part->believed;
        settle(self, part);
        return false;
    }
    rqli_observe(RQLI_ON_ENDING_EXTENSION, &part->lock->subject,
                 &(struct rqli_figures){.ttl_ms = part->unused_ms});
    return true;
}

/* Adds those locks that are re-entries, or those that are not. Returns how many calls there are to
 * send. */
static size_t add_parts(struct rqli_end *self, struct rqli_end_part *parts, rql_lock *const *locks,
                        size_t count, bool reentries)
{
    size_t n_added = 0;

    for (size_t i = count; i-- > 0;) { /* in a series, the lock that was taken last goes first */
        struct rqli_end_part *part = &parts[n_added];
        rql_lock *lock = locks[i];

        if ((lock->process != RQL_LOCK_OBTAINING) == reentries) {
            *part = (struct rqli_end_part){.lock = lock,
                                           .keys = &lock->keys,
                                           .nonce = lock->nonce,
                                           .believed = as_believed(lock, self->begun_us)};
            n_added += !reentries || add_reentry(self, part);
        }
    }
    return n_added;
}

/* The other holders of a grant learn that it ends before the server does: afterwards the lock may
 * be another acquirer's. */
void rqli_end_leases(rql_lock *const *locks, size_t count)
{
    rqli_leases_remove(locks[0]->client->leases, locks, count);
    end_reentries(locks, count);
}

/* A re-entry ends before the grant that it shares. They do not go in one round, because a server
 * that has lost the script of the re-entry would do the release first. */
void rqli_end_init(struct rqli_end *self, struct rqli_end_part *parts, rql_lock *const *locks,
                   size_t count, struct rql_loop *loop)
{
    begin(self, locks[0]->client, &locks[0]->keys, parts);
    if (count == 1) {
        self->on = (struct rqli_hand_over){.lock = locks[0], .loop = loop};
    }
    self->op.n_calls = add_parts(self, parts, locks, count, true);
    self->later = parts + self->op.n_calls;
    self->n_later = add_parts(self, self->later, locks, count, false);
    self->op.pushes_first = count == 1 && locks[0]->handed_over; /* other waiters are likely */
}

/* Runs over the connection that has brought the lock: calls about the lock go after its
 * hand-over. */
static rql_status run(struct rqli_end *self, rql_error *error)
{
    const rql_lock *lock = self->on.lock;
    rql_status status;

    if (lock) {
        self->op.route.conn = rqli_conns_find(&self->op.route.node->conns, lock->origin.carrier);
    }
    status = rqli_op_run(&self->op);
    if (status && error) {
        *error = self->error;
    }
    return status;
}

/* Separate from the end of several locks, which needs twenty times the stack. */
static rql_status end_one(rql_lock *const *lock, int64_t until_us, rql_error *error)
{
    struct rqli_end_part part;
    struct rqli_end self;

    rqli_end_init(&self, &part, lock, 1, NULL);
    self.op.until_us = rqli_earlier(self.op.until_us, until_us);
    return run(&self, error);
}

/* Sends the release over the connection that has carried the grant, after all other calls about the
 * lock. The next request for the lock in this client goes after the release. Returns NULL if it was
 * not sent, because that connection no longer exists or there is no memory. */
static struct rqli_batch *send_release(struct rqli_end *self, const rql_lock *lock)
{
    struct rqli_conn *conn =
        rqli_conns_find(&rqli_client_node(self->client, &lock->keys)->conns, lock->origin.carrier);
    struct rqli_batch *batch = conn ? rqli_batch_take(conn) : NULL;
    struct rqli_call call;

    if (!batch) {
        return NULL;
    }
    rqli_call_begin(&call, &batch->command);
    write_end(&self->op, 0, &call);
    rqli_call_write(&call, &batch->command, rqli_conn_scripts(conn));
    if (rqli_batch_send(batch, lock->origin.generation, NULL)) {
        rqli_batch_give(batch);
        return NULL;
    }
    return batch;
}

/* Returns whether nothing depends on the answer: the lock is certainly ours, also for the server,
 * and some thread is certain to read the answer. */
static bool may_be_lazy(const struct rqli_end *self, const rql_lock *lock)
{
    return lock->is_lazy && kept_ms(self->parts) == 0 &&
           rqli_hand_over_is_safe(&self->on, rqli_now_us()) &&
           !rqli_transfer_is_open(lock->transfer) && rqli_late_has_room(self->client->background);
}

rql_status rqli_give_back_lazily(rql_lock *lock, struct rqli_batch **out, rql_error *error)
{
    struct rqli_end_part part;
    struct rqli_end self;

    rqli_end_leases(&lock, 1);
    rqli_end_init(&self, &part, &lock, 1, NULL);
    if (may_be_lazy(&self, lock)) {
        choose_next(&self);
        *out = self.on.transfer ? NULL : send_release(&self, lock);
    }
    return *out ? RQL_OK : run(&self, error);
}

/* The server of a lock that is held already may be silent, and nothing depends on its answer. */
int64_t rqli_give_back_until_us(const rql_client *client, int64_t deadline_us)
{
    int64_t grace_us = rqli_client_grace_us(client);

    return rqli_later(rqli_after_ms(deadline_us, grace_us / 1000), rqli_now_us() + grace_us / 2);
}

rql_status rqli_give_back(rql_lock *const *locks, size_t count, int64_t until_us, rql_error *error)
{
    struct rqli_end_part parts[RQL_SERIES_MAX];
    struct rqli_end self;

    if (count == 0) {
        return RQL_OK;
    }
    rqli_end_leases(locks, count);
    if (count == 1) {
        return end_one(locks, until_us, error);
    }
    rqli_end_init(&self, parts, locks, count, NULL);
    self.op.until_us = rqli_earlier(self.op.until_us, until_us);
    return run(&self, error);
}

/* Ends a grant without a handle: only its keys and nonce are known, and no lease ends. */
rql_status rqli_release(rql_client *client, const struct rqli_keys *keys, const char *nonce,
                        rql_error *error)
{
    struct rqli_end_part part = {.keys = keys, .nonce = nonce, .believed = RQL_OK};
    struct rqli_end self;

    begin(&self, client, keys, &part);
    self.op.n_calls = 1;
    return run(&self, error);
}
