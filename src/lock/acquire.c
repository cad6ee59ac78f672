#include "lock/acquire.h"

#include "base/cancel_fd.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "lock/client.h"
#include "lock/durable.h"
#include "lock/end.h"
#include "lock/grant.h"
#include "lock/hand_over.h"
#include "lock/history.h"
#include "lock/hosts.h"
#include "lock/late.h"
#include "lock/leases.h"
#include "lock/leaving.h"
#include "lock/notify.h"
#include "lock/reason.h"
#include "lock/server_clock.h"
#include "lock/setback.h"
#include "lock/sharing.h"
#include "lock/transfer.h"
#include "lock/wait.h"
#include "lock/withdraw.h"
#include "net/op/op_threads.h"
#include "observe/observe.h"
#include "options/options.h"
#include "wire/answer.h"

#include <stdlib.h>
#include <string.h>

/*
 * The operation that acquires one lock, or up to 64 at once. The pure state machine in request.c
 * decides the next step: try, wait, leave the queue, finish. This file carries out each of these
 * steps: it writes the script's arguments, hands replies to grant.c, listens through wait.c, and
 * withdraws the requests that are still in a queue when the caller gives up.
 *
 * An acquisition of several locks is one request: one call of acquire_series.lua stands in the
 * queues of all of them, under a nonce of its own in each.
 */

/* Three years. A longer wait counts as for ever, so that no number in the scripts gets an
 * exponent. */
static const int64_t LONGEST_WAIT_MS = INT64_C(100000000000);

static int64_t deadline_us(const struct rqli_acquire *self)
{
    return self->request.limits.deadline_us;
}

/* ---- asking ---- */

/* Returns for how long this request would still wait, for the script; -1: for ever. The server
 * compares the waits of acquirers that hold locks and ask for more, to decide which waiter may be
 * let past. */
static int64_t wait_left_ms(const struct rqli_acquire *self, int64_t now_us)
{
    int64_t left_ms = (deadline_us(self) - now_us) / 1000;

    if (left_ms > LONGEST_WAIT_MS) {
        return -1;
    }
    return left_ms > 0 ? left_ms : 0;
}

/* Returns whether a lock that the acquirer owns must not be re-entered, because it is being given
 * back. A series considers only what an earlier request gives back here, and otherwise re-enters
 * its acquirer's locks. */
static bool gives_back(const struct rqli_acquire *self)
{
    return self->withdraws || (self->has_refused && !self->several);
}

/* Returns the server time after which the server refuses the try. A try that waits for replicas is
 * withdrawn over another connection, and the withdrawal may overtake it. So the server refuses such
 * a try as soon as the caller no longer listens for its answer. */
static int64_t not_after_us(const struct rqli_acquire *self, int64_t now_us)
{
    int64_t not_after_us = rqli_server_clock_not_after(self->client, self->node, now_us);
    int64_t left_us = self->op.until_us - now_us;
    int64_t earliest_us;
    int64_t latest_us;

    if (self->waiter.keeps_conn &&
        rqli_server_clock_range(self->node, now_us, &earliest_us, &latest_us) &&
        left_us < not_after_us - earliest_us) {
        return earliest_us + left_us;
    }
    return not_after_us;
}

/* Adds the arguments of acquire.lua, acquire_shared.lua and acquire_series.lua, in their order. A
 * request that holds back is sent with fail_fast, and is otherwise the request that its caller
 * wants. The server refuses a try that arrives after its not_after: a try that was held up on its
 * way must not take a lock for a caller that has given up. A score says that the request already
 * has its place; it is 0 at first. */
static void add_arguments(const struct rqli_acquire *self, struct rqli_call *call, int64_t now_us)
{
    static const char access[] = "qrQR"; /* the last two: the acquirer holds other locks */
    static const char conflict[] = "wted";
    const rql_lock_options *options = self->options;
    const rql_lock *lock = rqli_acquire_lock(self, 0);
    /* A request that does not wait cannot be part of a deadlock. */
    bool is_nested =
        !options->fail_fast &&
        (options->nested || rqli_holders_has(&self->client->holders, lock->holder, now_us));
    const struct rqli_acquire_args args = {
        .access = access[(int)options->access_strategy + (is_nested ? 2 : 0)],
        /* A lock that its acquirer may hold is being given back then: it must not be re-entered. */
        .conflict = conflict[gives_back(self) ? RQL_WAIT_FOR_LOCK : options->conflict_strategy],
        .fail_fast = options->fail_fast || self->holds_back,
        .wait_ms = wait_left_ms(self, now_us),
        .queue_ttl_ms = options->queue_ttl_ms,
        .score_us = self->request.place.score_us,
        .random = rqli_random_below(65536),
        .max_waiters = options->max_waiters,
        .head_start_ms = options->head_start_ms,
    };

    rqli_call_text(call, lock->acquirer);
    rqli_call_text(call, lock->host);
    rqli_call_int(call, options->ttl_ms);
    rqli_call_text(call, self->several ? self->several->nonces : lock->nonce);
    rqli_call_int(call, not_after_us(self, now_us));
    rqli_call_acquire_args(call, &args);
    if (self->waiter.shares) {
        rqli_call_text(call, "rql_share");
        rqli_call_share(call, &lock->share);
    }
    for (size_t i = 0; i < rqli_meta_count(options); i++) {
        const rql_meta pair = rqli_meta_at(options, i);

        rqli_call_text(call, pair.name);
        rqli_call_text(call, pair.value);
    }
}

/* ---- the host ---- */

/*
 * With partitions, a host is known only in those partitions in which it holds a lock or asks for
 * one, by the heartbeats of its swarm. Until the first heartbeat no swarm would find the host dead.
 * So a request for a lock that outlives zombie_ttl_ms sends a heartbeat in front of its try, in the
 * same write. If the server refuses the heartbeat, the grant counts all the same: no host can be
 * known at such a server, as the swarm reports.
 */

static bool must_introduce(const struct rqli_acquire *self)
{
    const rql_lock *lock = rqli_acquire_lock(self, 0);
    struct rqli_hosts *hosts = self->client->hosts;

    if (!rqli_hosts_must_tell(hosts, lock->keys.set, lock->owner_thread, self->options->ttl_ms)) {
        return false;
    }
    rqli_leases_on_probing(self->client->leases, lock->keys.set,
                           atomic_load(&hosts->zombie_ttl_ms));
    return true;
}

/* Writes the heartbeat with the text of its script, because a server that has forgotten the script
 * would run the try first. */
static void write_introduction(const struct rqli_acquire *self, struct rqli_call *call)
{
    const rql_lock *lock = rqli_acquire_lock(self, 0);

    rqli_call_init_of_set(call, RQLI_SCRIPT_SWARM_PROBE, lock->keys.set);
    rqli_call_int(call, 1); /* one new host, */
    rqli_call_int(call, 0); /* and no known one */
    rqli_call_text(call, lock->host);
    call->brings_text = true;
}

static void read_introduction(const struct rqli_acquire *self, const struct rqli_reply *reply)
{
    const rql_lock *lock = rqli_acquire_lock(self, 0);
    struct rqli_outcome outcome;

    if (reply && rqli_outcome_read(reply, &outcome)) {
        rqli_hosts_on_told(self->client->hosts, lock->keys.set, lock->owner_thread);
    }
}

/* ---- a try ---- */

/* Returns whether call i is the try: the last call of a round. A call in front introduces the
 * host. */
static bool is_try(const struct rqli_acquire *self, size_t i)
{
    return i + 1 == self->op.n_calls;
}

/* Writes call i of a round. The nonces are the same in each try: a repeated script recognises its
 * own request, so that a lost reply costs neither the place in the queue nor a grant. */
static void write_try(const struct rqli_acquire *self, size_t i, struct rqli_call *call)
{
    if (!is_try(self, i)) {
        write_introduction(self, call);
        return;
    }
    if (self->several) {
        rqli_call_init_series(call, RQLI_SCRIPT_ACQUIRE_SERIES, self->several->keys, self->count);
    } else {
        rqli_call_init(call, self->waiter.shares ? RQLI_SCRIPT_ACQUIRE_SHARED : RQLI_SCRIPT_ACQUIRE,
                       &self->locks[0]->keys);
    }
    add_arguments(self, call, rqli_now_us());
}

static void read_try(struct rqli_acquire *self, size_t i, const struct rqli_batch *answer,
                     const struct rqli_reply *reply, const rql_error *fault)
{
    if (!is_try(self, i)) {
        read_introduction(self, reply);
    } else if (reply) {
        rqli_acquire_read(self, answer, reply);
    } else {
        rqli_acquire_on_failed(self, fault, rqli_op_was_sent(answer, fault));
    }
}

/* ---- from phase to phase ---- */

static const struct {
    void (*write)(const struct rqli_acquire *self, size_t i, struct rqli_call *call);
    void (*read)(struct rqli_acquire *self, size_t i, const struct rqli_batch *answer,
                 const struct rqli_reply *reply, const rql_error *fault);
    void (*end)(struct rqli_acquire *self); /* all replies are read; or NULL */
} phases[] = {
    [RQLI_ACQUIRE_TRY] = {write_try, read_try, NULL},
    [RQLI_ACQUIRE_ASK] = {rqli_durable_write, rqli_durable_read, rqli_durable_take_answer},
    [RQLI_ACQUIRE_SECURE] = {write_try, read_try, rqli_durable_take_grant},
    [RQLI_ACQUIRE_LEAVE] = {rqli_leave_write, rqli_leave_read, NULL},
};

static void write_calls(struct rqli_op *op, size_t i, struct rqli_call *call)
{
    const struct rqli_acquire *self = (const struct rqli_acquire *)op;

    phases[self->phase].write(self, i, call);
}

static void read_reply(struct rqli_op *op, size_t i, const struct rqli_batch *answer,
                       const struct rqli_reply *reply, const rql_error *fault)
{
    struct rqli_acquire *self = (struct rqli_acquire *)op;

    phases[self->phase].read(self, i, answer, reply, fault);
}

/* ---- from step to step ---- */

/* Fails while this host may count as dead: the swarm could flush at once any lock that is acquired
 * now. */
static rql_status check_host(const struct rqli_acquire *self, int64_t now_us, rql_error *error)
{
    const rql_lock *lock = rqli_acquire_lock(self, 0);

    if (!rqli_leases_is_overdue(self->client->leases, lock->keys.set, now_us)) {
        return RQL_OK;
    }
    return rqli_fail(error, RQL_E_UNAVAILABLE,
                     "%s: the swarm has not reached its server for so long that this host may "
                     "count as dead; nothing was sent",
                     lock->name);
}

/* Returns whether an earlier request of the acquirer for one of the locks is being withdrawn, or
 * its lazy release is not confirmed. Either call may reach the server after the try. If the
 * acquirer has a grant of the lock now, the earlier one has ended: neither call ends the new grant,
 * which may be entered again. */
static bool is_given_back(const struct rqli_acquire *self)
{
    bool is_open = false;

    for (size_t i = 0; i < self->count && !is_open; i++) {
        const rql_lock *lock = rqli_acquire_lock(self, i);

        is_open = (rqli_release_is_late(self->client, lock->name, lock->acquirer) ||
                   rqli_withdraw_is_open(self->client, lock->name, lock->acquirer)) &&
                  !rqli_leases_has(self->client->leases, lock);
    }
    return is_open;
}

/* Returns whether the server may answer that the acquirer holds one of the locks already. A single
 * request that waits for its lock waits for its acquirer's as well. */
static bool may_conflict(const struct rqli_acquire *self)
{
    return self->several || self->options->conflict_strategy != RQL_WAIT_FOR_LOCK;
}

/* A loop does not wait: its calls about a lock go behind the hand-over, over the same connection.
 */
static void await_own_hand_overs(const struct rqli_acquire *self)
{
    for (size_t i = 0; i < self->count && !self->driver; i++) {
        rqli_hand_over_await_own(rqli_acquire_lock(self, i), deadline_us(self));
    }
}

/* Prepares a try. Returns false if it failed before anything was sent. The state machine has been
 * notified of that, and its next step is a different one. */
static bool try_once(struct rqli_acquire *self)
{
    const bool conflicts = may_conflict(self);
    rql_error fault;

    if (conflicts) {
        await_own_hand_overs(self);
    }
    self->tried_us = rqli_now_us();
    self->n_changes = atomic_load(&self->client->leases->n_changes);
    self->waiter.deadline_us = deadline_us(self);
    if (self->waiter.keeps_conn) {
        rqli_durable_limit(self, self->tried_us);
    }
    (void)rqli_wait_follow(self);
    self->op.until_us = self->wait->until_us(self, self->tried_us);
    self->op.is_late = false;
    /* Before the try is sent: the server reports no conflict whose withdrawal it has confirmed. */
    self->withdraws = conflicts && is_given_back(self);
    if (!self->several) {
        rqli_observe(RQLI_ON_TRY, &self->locks[0]->subject, NULL);
    }
    if (check_host(self, self->tried_us, &fault) ||
        (self->wait->connect && self->wait->connect(self, &fault))) {
        rqli_acquire_on_failed(self, &fault, false);
        return false;
    }
    self->op.again_us = 0;
    self->op.grace_us = self->waiter.keeps_conn ? 0 : rqli_client_grace_us(self->client);
    if (self->waiter.keeps_conn && rqli_durable_must_ask(self)) {
        self->phase = RQLI_ACQUIRE_ASK;
        self->op.durability = NULL;
        self->op.n_calls = RQLI_DURABLE_CALLS;
    } else {
        self->phase = RQLI_ACQUIRE_TRY;
        self->op.durability = self->waiter.keeps_conn ? &self->durability : NULL;
        self->op.n_calls = must_introduce(self) ? 2 : 1;
        self->result->asked++;
    }
    return true;
}

/* Refuses a hand-over that cannot be relied on, because this thread was kept from running for
 * longer than the lease lasts, or because the server has refused the hand-over by now. The transfer
 * may still arrive at the server, and would end whatever has been granted under the same nonce
 * since. */
static void refuse_hand_over(struct rqli_acquire *self)
{
    atomic_store(&self->waiter.handed->is_refused, true);
    rqli_acquire_begin_anew(self);
    if (self->request.state == RQLI_REQUEST_QUEUED) {
        rqli_request_on_poll(&self->request);
    }
}

static void take_hand_over(struct rqli_acquire *self)
{
    if (rqli_grant_by_transfer(self->locks[0], self->options, &self->waiter.handed)) {
        rqli_request_on_granted(&self->request);
    } else {
        refuse_hand_over(self);
    }
}

/* Takes a push. It brings the grant of one lock; for several locks it is only a reason to poll,
 * because their script takes all of them. The same applies where the grant has to be durable,
 * because only the releaser's connection could tell whether it is: the poll claims the grant, and
 * so writes over this connection after it. And to a share with slots: the answer names them. */
static void take_push(struct rqli_acquire *self)
{
    self->waiter.pushed = false;
    if (self->waiter.handed) {
        take_hand_over(self);
    } else if (!self->several && !self->waiter.keeps_conn && !self->locks[0]->share.has_slots &&
               rqli_grant_by_push(self->locks[0], self->options, &self->waiter.push)) {
        rqli_request_on_granted(&self->request);
    } else {
        self->late_token = self->waiter.push.token;
        rqli_request_on_poll(&self->request);
    }
}

static void woken(struct rqli_op *op, enum rqli_wake wake)
{
    struct rqli_acquire *self = (struct rqli_acquire *)op;
    struct rqli_request_input input;

    switch (wake) {
    case RQLI_WAKE_TIME:
        input = rqli_wait_input(self);
        rqli_request_on_time(&self->request, &input);
        break;
    case RQLI_WAKE_PUSH:
        take_push(self);
        break;
    case RQLI_WAKE_HINT:
        rqli_request_on_poll(&self->request);
        break;
    }
}

/* Notes what keeps a try from the lock, for rql_request_fault(). */
static void paused(struct rqli_op *op, const rql_error *fault)
{
    struct rqli_acquire *self = (struct rqli_acquire *)op;

    if (self->request.state == RQLI_REQUEST_TRYING) {
        rqli_acquire_note_fault(self, fault);
    }
}

/* Ends the request. After this nothing of the request is on the server, or the leases withdraw it;
 * pushes for it are ignored. */
static void finish(struct rqli_acquire *self, rql_status status)
{
    rqli_wait_end(self);
    self->op.status = status;
    self->result->tries = self->request.tries > 0 ? self->request.tries : 1;
    self->result->ended_us = rqli_now_us();
    self->result->waited_us = self->result->ended_us - self->begun_us;
    rqli_observe(
        RQLI_ON_ASKED, &rqli_acquire_lock(self, 0)->subject,
        &(struct rqli_figures){.tries = self->result->tries, .asked = self->result->asked});
}

/* Takes one step. Returns false if it is done and the next step is to be taken at once. */
static bool take_step(struct rqli_acquire *self, enum rqli_op_next *out)
{
    *out = RQLI_OP_AGAIN;
    switch (self->request.state) {
    case RQLI_REQUEST_TRYING:
        return try_once(self);
    case RQLI_REQUEST_QUEUED:
        *out = RQLI_OP_WAIT;
        self->op.again_us = self->request.wake_us;
        return true;
    case RQLI_REQUEST_LEAVING:
        (void)rqli_cancel_fd_swap(NULL); /* nothing cuts the withdrawal short */
        return rqli_leave_next(self);
    case RQLI_REQUEST_DONE:
        break;
    }
    finish(self, self->request.verdict);
    *out = RQLI_OP_OVER;
    return true;
}

/* Takes a cancellation by the caller's descriptor. The calls under way were given up when the
 * descriptor became readable, and a grant that had come by then is taken. The withdrawal has as
 * much time as at a deadline. */
static void take_cancellation(struct rqli_acquire *self)
{
    self->op.is_cancelled = true;
    self->request.limits.deadline_us = rqli_earlier(deadline_us(self), rqli_now_us());
}

/* Says what the operation does next. A cancellation on a loop, or of the whole client, that comes
 * while a try is under way takes effect here, after the reply to the try: a grant in that reply is
 * given back by leaving the queue. */
static enum rqli_op_next next(struct rqli_op *op)
{
    struct rqli_acquire *self = (struct rqli_acquire *)op;
    void (*end)(struct rqli_acquire *) = phases[self->phase].end;
    enum rqli_op_next out;

    if (end) {
        self->phase = RQLI_ACQUIRE_TRY; /* only once: a wait may come next */
        end(self);
    }
    if (self->options->cancel_fd >= 0 && rqli_is_cancelled()) {
        take_cancellation(self);
    }
    if (rqli_client_is_draining(self->client)) {
        op->is_cancelled = true;
    }
    if (op->is_cancelled) {
        rqli_request_on_cancelled(&self->request, false);
    }
    while (!take_step(self, &out)) {
    }
    return out;
}

/* ---- from begin to end ---- */

/* Fills in the waiter that gets the pushes for the nonces. */
static void init_waiter(struct rqli_acquire *self)
{
    const rql_lock *first = rqli_acquire_lock(self, 0);
    struct rqli_waiter_nonce *nonces = self->several ? self->several->waiting : &self->waiting;

    for (size_t i = 0; i < self->count; i++) {
        const rql_lock *lock = rqli_acquire_lock(self, i);

        nonces[i] = (struct rqli_waiter_nonce){.digits = lock->nonce, .lock_key = lock->keys.lock};
    }
    self->waiter = (struct rqli_waiter){.set = first->keys.set,
                                        .acquirer = first->acquirer,
                                        .nonces = nonces,
                                        .n_nonces = self->count,
                                        .keeps_conn = rqli_durability_is_wanted(&self->durability),
                                        .deadline_us = deadline_us(self)};
    if (!self->several) {
        self->waiter.lock_key = first->keys.lock;
        self->waiter.shares = self->options->share_units > 0;
    }
}

void rqli_acquire_init(struct rqli_acquire *self)
{
    static const struct rqli_op_ops ops = {
        .write = write_calls, .read = read_reply, .next = next, .woken = woken, .paused = paused};
    const rql_lock_options *options = self->options;
    const rql_lock *first = rqli_acquire_lock(self, 0);
    const struct rqli_request_limits limits = {
        .deadline_us = rqli_after_ms(self->begun_us, options->timeout_ms),
        .tries = options->fail_fast || options->retry_count == 0 ? 1 : options->retry_count,
        .delay_us = options->retry_delay_ms * 1000,
    };

    self->client = first->client;
    self->node = rqli_client_node(self->client, &first->keys);
    self->op.ops = &ops;
    self->op.route = rqli_client_route(self->client, &first->keys);
    if (options->share_units > 0) {
        self->locks[0]->share = rqli_share_of(options);
    }
    self->op.waiter = &self->waiter;
    self->durability = rqli_durability_of(options);
    rqli_request_init(&self->request, &limits);
    init_waiter(self);
    for (size_t i = 0; self->several && i < self->count; i++) {
        self->several->keys[i] = &rqli_acquire_lock(self, i)->keys;
    }
    rqli_acquire_copy_nonces(self);
    *self->result = (struct rqli_acquire_result){.rank = -1, .tries = 1};
    /* Not waited for here, because a loop must not wait; rqli_acquire_run() waits. */
    if (options->auto_extend) {
        rqli_background_start(self->client->background, 0);
    }
}

/* Returns whether the acquirer would wait for itself. It keeps extending the lock, so that the wait
 * would never end; or it has a share of the lock and wants to enter it alone, which the server
 * would take for a share of others. */
static bool waits_for_itself(const struct rqli_acquire *self)
{
    const rql_lock *lock = self->locks[0];

    if (self->several) {
        return false;
    }
    if (self->options->conflict_strategy == RQL_WAIT_FOR_LOCK) {
        return rqli_leases_extends(self->client->leases, lock->name, lock->acquirer);
    }
    return rqli_leases_may_share(self->client->leases) && !self->waiter.shares &&
           rqli_leases_shares(self->client->leases, lock);
}

/* Registers the waiter. A request that fails fast never waits: no push is for it, and it does not
 * join the waiters. */
bool rqli_acquire_begin(struct rqli_acquire *self)
{
    rql_error fault;

    if (rqli_client_is_draining(self->client)) {
        self->op.status = rqli_client_fail_draining(rqli_acquire_lock(self, 0)->name, &fault);
        rqli_acquire_note_fault(self, &fault);
        return false;
    }
    if (self->options->fail_fast) {
        return true;
    }
    if (waits_for_itself(self)) {
        self->op.status = RQL_CONFLICT;
        return false;
    }
    self->op.status = rqli_wait_begin(self, &fault);
    if (self->op.status) {
        rqli_acquire_note_fault(self, &fault);
    }
    return self->op.status == RQL_OK;
}

void rqli_acquire_abandon(struct rqli_acquire *self)
{
    rql_error fault;

    rqli_wait_end(self);
    self->op.status = rqli_fail_nomem(&fault);
    rqli_acquire_note_fault(self, &fault);
}

/* Returns whether this client still holds the grant that a re-entry shares, and has not shortened
 * it since the re-entry was asked for. */
static bool has_outer(struct rqli_leases *leases, const rql_lock *reentry)
{
    bool has = false;

    rqli_background_lock(leases->background);
    for (struct rqli_dlink *at = leases->shared.all.first; at && !has; at = at->next) {
        const rql_lock *held = rqli_lock_of_link(at);

        has = held->process == RQL_LOCK_OBTAINING &&
              strcmp(held->grant_nonce, reentry->grant_nonce) == 0 &&
              held->kept.lease.shortened_us < reentry->begun_us;
    }
    rqli_background_unlock(leases->background);
    return has;
}

/* Returns whether a new hold has missed a change of the listed holds: they were marked as doubtful,
 * or the outer hold was released or shortened. */
static bool has_missed_change(struct rqli_leases *leases, const rql_lock *lock)
{
    return lock->begun_us <= atomic_load(&leases->doubted_us) ||
           (lock->process != RQL_LOCK_OBTAINING && !has_outer(leases, lock));
}

/* Has the server asked about those of the new holds that may have ended by now. */
static void doubt_outdated(const struct rqli_acquire *self)
{
    struct rqli_leases *leases = self->client->leases;

    for (size_t i = 0; i < self->count; i++) {
        if (has_missed_change(leases, self->locks[i])) {
            rqli_leases_doubt(leases, NULL, self->locks[i]);
        }
    }
}

/* Adds the locks to the leases. If one of them cannot be watched, the locks before it stay listed:
 * giving all of them back takes them off the list. */
bool rqli_acquire_keep(struct rqli_acquire *self)
{
    rql_status status = RQL_OK;
    rql_error fault;

    for (size_t i = 0; !status && i < self->count; i++) {
        rql_lock *lock = self->locks[i];

        if (lock->process != RQL_LOCK_OBTAINING && lock->share.units > 0) {
            lock->share = rqli_leases_share_of(self->client->leases, lock);
        }
        lock->ttl_ms = self->options->ttl_ms;
        lock->held_us = self->result->ended_us;
        lock->waited_us = self->result->waited_us;
        lock->tries = self->result->tries;
        if (self->waiter.keeps_conn && !self->options->durability_is_advice) {
            lock->durability = rqli_durability_of(self->options);
        }
        lock->acks = self->op.acks;
        lock->is_lazy = self->options->lazy_release && !self->waiter.keeps_conn &&
                        self->options->conflict_strategy == RQL_WAIT_FOR_LOCK;
        lock->on_lost = self->options->on_lost;
        lock->user_data = self->options->on_lost_data;
        lock->on_wanted = self->options->on_wanted;
        lock->on_wanted_data = self->options->on_wanted_data;
        status = rqli_leases_add(self->client->leases, lock, &fault);
        /* A lock that is given back is kept for nothing. */
        lock->hold_at_least_ms = status ? 0 : self->options->hold_at_least_ms;
    }
    if (status) {
        self->op.status = status;
        rqli_acquire_note_fault(self, &fault);
    } else if (atomic_load(&self->client->leases->n_changes) != self->n_changes) {
        doubt_outdated(self);
    }
    return status == RQL_OK;
}

void rqli_acquire_report(const struct rqli_acquire *self)
{
    if (self->op.status) {
        rqli_notify_refused(self->several ? self->several->subject : &self->locks[0]->subject,
                            self->result, self->op.status);
        return;
    }
    for (size_t i = 0; i < self->count; i++) {
        rqli_history_keep_reason(self->locks[i], self->options);
        rqli_notify_obtained(self->locks[i]);
    }
}

/* Drives the acquisition. A thread blocks in each step; async.c takes the same steps on a loop. */
rql_status rqli_acquire_run(struct rqli_acquire *self, rql_error *error)
{
    rql_error detail = {.status = RQL_OK};
    struct rqli_cancel_fd cancel;
    bool asks;

    self->error = &detail;
    (void)rqli_wait_init(self, &rqli_wait_on_thread);
    if (self->options->auto_extend) {
        rqli_background_start(self->client->background, deadline_us(self));
    }
    if (rqli_acquire_begin(self)) {
        self->conn = self->waiter.conn;
        self->op.route.conn = self->conn;
        rqli_cancel_fd_begin(&cancel, self->options->cancel_fd);
        (void)rqli_op_run(&self->op);
        rqli_cancel_fd_end(&cancel);
    }
    /* A caller that has cancelled its call does not wait for another answer. */
    asks = self->options->detailed_acq_timeout_error && self->op.status != RQL_CANCELLED;
    if (self->op.status > 0 && (self->options->refusal || (error && asks))) {
        rqli_refusal_fill(self, asks);
    } else if (self->op.status == RQL_OK && !rqli_acquire_keep(self)) {
        (void)rqli_give_back(self->locks, self->count,
                             rqli_give_back_until_us(self->client, deadline_us(self)), NULL);
    }
    rqli_acquire_report(self);
    rqli_acquire_raise(self, error);
    self->error = NULL;
    return self->op.status;
}
