#include "lock/grant.h"

#include "base/clock.h"
#include "base/error.h"
#include "lock/acquisition.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "lock/lost_writes.h"
#include "lock/server_clock.h"
#include "lock/setback.h"
#include "lock/sharing.h"
#include "lock/transfer.h"
#include "lock/wait.h"
#include "net/conn/clock_offset.h"
#include "net/conn/subscription.h"
#include "net/login/login.h"
#include "observe/observe.h"
#include "wire/answer.h"

#include <stdlib.h>
#include <string.h>

/*
 * Decides what a reply or a push means for a request: granted, queued, refused, or a fault. A grant
 * is trusted only while it is in force by our own clock. Its lease counts from before the script
 * was sent, so that it ends here no later than on the server.
 */

/* Returns the terms of a lease. A grant in a reply is claimed, because the server knows that we are
 * there. A grant that was pushed may not be, see rqli_grant_by_push(). */
static struct rqli_lease_terms terms_of(const rql_lock *lock, const rql_lock_options *options,
                                        int64_t begun_us, int64_t left_ms)
{
    return (struct rqli_lease_terms){
        .ttl_ms = options->ttl_ms,
        .left_ms = left_ms,
        .begun_us = begun_us,
        .max_hold_ms = options->max_hold_ms,
        .most_ms = lock->client->options.recovery_delay_ms,
        .renews = options->auto_extend,
        .is_claimed = true,
    };
}

/* A reply that took longer than the ttl brings a lock that another client may hold by now. Even if
 * the two clocks differ in speed, the margin keeps our end before the server's. */
static bool is_in_force(const rql_lock *lock, const struct rqli_lease_terms *terms)
{
    int64_t now_us = rqli_now_us();

    return !rqli_leases_is_overdue(lock->client->leases, lock->keys.set, now_us) &&
           now_us < terms->begun_us + terms->left_ms * 1000 - rqli_lease_margin_us(terms->left_ms);
}

/* Notes a token that the server has sent. */
static void note_token(rql_lock *lock, int64_t token)
{
    lock->token = token;
    rqli_era_on_token(rqli_client_era(lock->client, lock->keys.set), token);
}

/* For a re-entry, nonce and token are the outer grant's, and the time that is left is that grant's,
 * too. */
bool rqli_grant_by_answer(rql_lock *lock, const rql_lock_options *options,
                          const struct rqli_answer *answer, int64_t sent_us)
{
    const struct rqli_lease_terms terms = terms_of(lock, options, sent_us, answer->left_ms);

    if (answer->nonce.length != sizeof lock->grant_nonce - 1 || !is_in_force(lock, &terms)) {
        return false;
    }
    rqli_lease_init(&lock->kept.lease, &terms);
    memcpy(lock->grant_nonce, answer->nonce.data, answer->nonce.length);
    lock->begun_us = sent_us;
    note_token(lock, answer->token);
    lock->ts_us = answer->server_us;
    lock->process = (rql_lock_process)answer->process;
    if (lock->process == RQL_LOCK_OBTAINING) {
        lock->handed_over = answer->was_handed_over;
        /* A token is the time of its grant, unless the clock was set back since then. */
        lock->ts_us = answer->token < lock->ts_us ? answer->token : lock->ts_us;
    }
    return true;
}

/* The push says by the server's clock when the lock was granted. Until we claim it the grant lives
 * for a second only, or for its ttl if that is shorter, so that a waiter that died does not block
 * the lock for a whole ttl. The greatest possible age of the push is known. If it is more than the
 * margin, a poll finds out what is left of the grant, and claims it. */
bool rqli_grant_by_push(rql_lock *lock, const rql_lock_options *options,
                        const struct rqli_push *push)
{
    struct rqli_lease_terms terms;
    int64_t begun_us;

    if (!rqli_server_clock_earliest(rqli_client_node(lock->client, &lock->keys), push->server_us,
                                    push->received_us, &begun_us)) {
        return false;
    }
    begun_us = begun_us < push->received_us ? begun_us : push->received_us;
    if (push->received_us - begun_us > rqli_lease_margin_us(push->lease_ms)) {
        return false;
    }
    terms = terms_of(lock, options, begun_us, push->lease_ms);
    terms.is_claimed = push->lease_ms >= options->ttl_ms;
    if (!is_in_force(lock, &terms)) {
        return false;
    }
    rqli_lease_init(&lock->kept.lease, &terms);
    memcpy(lock->grant_nonce, lock->nonce, sizeof lock->grant_nonce);
    lock->begun_us = begun_us;
    note_token(lock, push->token);
    lock->ts_us = push->server_us;
    lock->hand_off_us = push->received_us - begun_us;
    lock->process = RQL_LOCK_OBTAINING;
    lock->handed_over = true;
    return true;
}

/* Until the server has answered, the lease ends no later than the releaser's own would have. After
 * the answer it lasts for its own ttl. */
bool rqli_grant_by_transfer(rql_lock *lock, const rql_lock_options *options,
                            struct rqli_transfer **by)
{
    const struct rqli_transfer *from = *by;
    struct rqli_lease_terms terms = terms_of(lock, options, from->begun_us, options->ttl_ms);
    int64_t now_us = rqli_now_us();

    if (from->state == RQLI_TRANSFER_FAILED || now_us >= from->until_us ||
        !is_in_force(lock, &terms)) {
        return false;
    }
    rqli_lease_init(&lock->kept.lease, &terms);
    rqli_lease_on_unconfirmed(&lock->kept.lease, from->until_us);
    memcpy(lock->grant_nonce, lock->nonce, sizeof lock->grant_nonce);
    lock->begun_us = from->begun_us;
    lock->token = from->token; /* rqli_hand_over_on_done() notes it: the server may not know it */
    lock->ts_us = from->ts_us;
    lock->hand_off_us = now_us - from->begun_us;
    lock->process = RQL_LOCK_OBTAINING;
    lock->handed_over = true;
    lock->origin = from->origin;
    lock->transfer = *by;
    *by = NULL;
    return true;
}

/* ---- the answer to a try ---- */

static void end_by_fault(struct rqli_acquire *self, const rql_error *fault)
{
    rqli_acquire_note_fault(self, fault);
    rqli_request_on_fault(&self->request, fault->status, true);
}

/* The server has granted or queued the request. */
static void withdraw_by_fault(struct rqli_acquire *self, const rql_error *fault)
{
    rqli_acquire_note_fault(self, fault);
    rqli_request_on_unusable(&self->request, fault->status);
}

/* Handles a grant that cannot be relied on: it came too late, or some other program removed the
 * ttl. */
static void on_not_in_force(struct rqli_acquire *self, const struct rqli_answer *answer)
{
    struct rqli_request_input input = rqli_wait_input(self);

    if (answer->left_ms < 0) {
        rqli_request_on_setback(&self->request, RQL_E_UNKNOWN, &input);
    } else if (rqli_leases_is_overdue(self->client->leases, self->locks[0]->keys.set,
                                      input.now_us) ||
               answer->process != RQL_LOCK_OBTAINING) {
        /* The next try reports a host that counts as dead. A re-entry ends with its lock. */
        rqli_request_on_again(&self->request, input.now_us);
    } else {
        self->result->n_over++;
        rqli_request_on_over(&self->request, &input);
    }
}

/* Notes the slots of a share. A re-entry has those of the grant that it is part of, if that has
 * any: RQL_CONFLICT if not. */
static rql_status note_slots(rql_lock *lock, struct rqli_slice slots, rql_error *error)
{
    const struct rqli_share share = rqli_leases_share_of(lock->client->leases, lock);

    if (!share.has_slots) {
        return RQL_CONFLICT;
    }
    free(lock->slots); /* of a grant that was given back */
    lock->slots = malloc((size_t)share.units * sizeof *lock->slots);
    if (!lock->slots) {
        return rqli_fail(error, RQL_E_NOMEM, "%s: out of memory for its slots; it is given back",
                         lock->name);
    }
    return rqli_share_read_slots(slots, &share, lock->slots)
               ? RQL_OK
               : rqli_fail(error, RQL_E_PROTOCOL,
                           "%s: the server has granted other slots than %d of %d", lock->name,
                           share.units, share.limit);
}

static void on_no_slots(struct rqli_acquire *self, rql_status status, const rql_error *fault)
{
    if (status == RQL_CONFLICT) {
        rqli_request_on_refused(&self->request, status);
    } else {
        withdraw_by_fault(self, fault);
    }
}

/* Takes all locks of a series or none. If none, the server answers the next try with the grants
 * that it has made, or leaving gives them back. */
static void on_granted(struct rqli_acquire *self, const struct rqli_batch *batch,
                       const struct rqli_reply *reply, const struct rqli_answer *answer)
{
    for (size_t i = 0; i < self->count; i++) {
        struct rqli_answer grant = self->several ? rqli_series_answer_grant(reply, i) : *answer;

        if (!rqli_grant_by_answer(rqli_acquire_lock(self, i), self->options, &grant,
                                  batch->sent_us)) {
            on_not_in_force(self, &grant);
            return;
        }
        if (self->several) {
            self->several->fate[self->several->order[i]] = RQL_SERIES_ACQUIRED;
        }
    }
    if (answer->was_restored && self->result->rank >= 0) {
        rqli_wait_hint_others(self);
    }
    if (self->locks[0]->share.has_slots) {
        rql_error fault;
        rql_status status = note_slots(self->locks[0], answer->slots, &fault);

        if (status) {
            on_no_slots(self, status, &fault);
            return;
        }
    }
    if (self->op.durability) {
        self->phase = RQLI_ACQUIRE_SECURE;
    } else {
        rqli_acquire_on_granted(self);
    }
}

void rqli_acquire_on_granted(struct rqli_acquire *self)
{
    if (self->op.is_cancelled) { /* it is not taken: leaving gives it back */
        rqli_request_on_again(&self->request, rqli_now_us());
    } else {
        rqli_request_on_granted(&self->request);
    }
}

/* If the score has grown, the queue was emptied and the request stands at its end again.
 * was_restored says that the request was put back with the score it had. */
static void notify_queued(const struct rqli_acquire *self, const struct rqli_answer *answer)
{
    const struct rqli_subject *subject = &rqli_acquire_lock(self, 0)->subject;
    int64_t known_us = self->request.place.score_us;

    if (answer->was_restored) {
        rqli_observe(RQLI_ON_RESTORED, subject, NULL);
    }
    if (known_us > 0 && answer->score_us > known_us) {
        rqli_observe(RQLI_ON_REQUEUED, subject, NULL);
    } else if (answer->rank == 0) {
        rqli_observe(RQLI_ON_FIRST_IN_QUEUE, subject, NULL);
    }
}

/* True: Ruby has the lock, or takes it next. If Ruby may unlock the lock while a client of ours
 * holds it, the answer for a single lock says so by another number (lua/README.md 10). */
static bool is_of_ruby(const struct rqli_acquire *self, const struct rqli_answer *answer)
{
    return self->several ? answer->of_ruby != 0 : answer->of_ruby == 1;
}

/* With several servers a lock of Ruby's is polled instead of watched. */
static bool may_be_watched(const struct rqli_acquire *self, const struct rqli_answer *answer)
{
    return answer->of_ruby != 0 && !self->client->is_partitioned;
}

/* Notes the holder of the lock, which the answer names for the first waiter in the queue. */
static void note_owner(struct rqli_acquire *self, const struct rqli_answer *answer)
{
    const struct rqli_slice owner = answer->in_front;
    const size_t length = answer->rank == 0 && owner.length < sizeof self->owner ? owner.length : 0;

    if (length > 0) {
        memcpy(self->owner, owner.data, length);
    }
    self->owner[length] = '\0';
}

/* The request is in the queue, and the acquirer in front of it is now known. wait.c may find that
 * the request was not listening and may have missed a push; then the script is called again at
 * once. */
static void on_queued(struct rqli_acquire *self, const struct rqli_batch *batch,
                      const struct rqli_answer *answer)
{
    bool was_held = answer->left_ms >= 0;
    const struct rqli_request_place place = {
        .lock_ends_us = was_held ? batch->received_us + answer->left_ms * 1000 : RQLI_NEVER_US,
        .rank = answer->rank,
        .score_us = answer->score_us,
        .is_first = answer->is_first,
        .of_ruby = is_of_ruby(self, answer),
    };
    size_t of_ruby = answer->of_ruby > 0 ? (size_t)answer->of_ruby - 1 : 0;
    struct rqli_request_input input;
    rql_error fault;

    notify_queued(self, answer);
    rqli_wait_behind(self, answer->in_front);
    note_owner(self, answer);
    self->result->rank = answer->rank;
    self->watched = may_be_watched(self, answer) ? rqli_acquire_lock(self, of_ruby)->keys.lock
                                                 : (struct rqli_slice){0};
    /* Also set where the script is called again and the state machine is not notified: the next
     * call is a poll then. */
    self->request.place = place;
    if (answer->was_restored) {
        rqli_wait_hint_others(self);
    }
    switch (rqli_wait_attend(self, batch->generation, &fault)) {
    case RQLI_WAIT_ON:
        input = rqli_wait_input(self);
        rqli_request_on_queued(&self->request, &place, &input);
        break;
    case RQLI_WAIT_ASK:
        rqli_request_on_again(&self->request, rqli_now_us());
        break;
    case RQLI_WAIT_FAULT:
        withdraw_by_fault(self, &fault);
        break;
    }
}

/* Records, for the caller of a series, what stood in the way of each of its locks when the script
 * last looked. */
static void note_obstacles(struct rqli_acquire *self, const struct rqli_reply *reply)
{
    static const rql_series_fate fates[] = {
        [RQLI_OBSTACLE_NONE] = RQL_SERIES_OPEN,
        [RQLI_OBSTACLE_HELD] = RQL_SERIES_HELD,
        [RQLI_OBSTACLE_QUEUE] = RQL_SERIES_BEHIND,
        [RQLI_OBSTACLE_OWN] = RQL_SERIES_OWN,
    };

    for (size_t i = 0; self->several && i < self->count; i++) {
        self->several->fate[self->several->order[i]] = fates[rqli_series_answer_obstacle(reply, i)];
    }
}

/* A request that may wait waits out the pause in the queue. Only one that may not wait gets this
 * error. */
static void on_paused(struct rqli_acquire *self, const struct rqli_answer *answer)
{
    rql_error fault;

    (void)rqli_fail(&fault, RQL_E_UNAVAILABLE,
                    "%s: the server was restarted or replaced, and grants nothing for "
                    "%lld ms more (recovery_delay_ms)",
                    rqli_acquire_lock(self, 0)->name, (long long)answer->left_ms);
    rqli_acquire_on_failed(self, &fault, true);
}

/* Handles the answers to a call with fail_fast that has taken nothing. */
static void on_fail_fast(struct rqli_acquire *self, const struct rqli_batch *batch,
                         const struct rqli_answer *answer)
{
    rql_error fault;

    if (self->holds_back) {
        if (rqli_wait_hold_back(self, batch, &fault) == RQLI_WAIT_FAULT) {
            end_by_fault(self, &fault);
        }
    } else if (answer->kind == RQLI_ANSWER_PAUSED) {
        on_paused(self, answer);
    } else {
        rqli_request_on_refused(&self->request, answer->kind == RQLI_ANSWER_FAIL_FAST_NO_TRY
                                                    ? RQL_FAIL_FAST_NO_TRY
                                                    : RQL_FAIL_FAST_AFTER_TRY);
    }
}

static void on_answer(struct rqli_acquire *self, const struct rqli_batch *batch,
                      const struct rqli_reply *reply, const struct rqli_answer *answer)
{
    switch (answer->kind) {
    case RQLI_ANSWER_GRANTED:
        on_granted(self, batch, reply, answer);
        break;
    case RQLI_ANSWER_QUEUED:
        note_obstacles(self, reply);
        on_queued(self, batch, answer);
        break;
    case RQLI_ANSWER_FAIL_FAST_NO_TRY:
    case RQLI_ANSWER_FAIL_FAST_AFTER_TRY:
        note_obstacles(self, reply);
        on_fail_fast(self, batch, answer);
        break;
    case RQLI_ANSWER_PAUSED:
        on_fail_fast(self, batch, answer);
        break;
    case RQLI_ANSWER_CONFLICT:
        note_obstacles(self, reply);
        rqli_acquire_on_conflict(self);
        break;
    case RQLI_ANSWER_FULL:
        rqli_request_on_refused(&self->request, RQL_QUEUE_FULL);
        break;
    case RQLI_ANSWER_STALE:
    case RQLI_ANSWER_AGAIN:
        rqli_request_on_again(&self->request, rqli_now_us());
        break;
    }
}

/* Unless it is a re-entry, a grant carries our nonces. If it does not, the replies are out of
 * step. */
static bool is_for_us(const struct rqli_acquire *self, const struct rqli_reply *reply)
{
    for (size_t i = 0; i < self->count; i++) {
        struct rqli_answer grant = rqli_series_answer_grant(reply, i);

        if (!rqli_answer_is_for(&grant, rqli_acquire_lock(self, i)->nonce)) {
            return false;
        }
    }
    return true;
}

/* A reply without our nonce belongs to another request. Then replies and calls on the connection
 * are out of step, and nothing on it can be trusted. */
static bool read_answer(const struct rqli_acquire *self, const struct rqli_reply *reply,
                        struct rqli_answer *out)
{
    if (self->several) {
        return rqli_series_answer_read(reply, self->count, out) &&
               (out->kind != RQLI_ANSWER_GRANTED || is_for_us(self, reply));
    }
    return rqli_answer_read(reply, out) && rqli_answer_is_for(out, self->locks[0]->nonce);
}

/* The lines of the gem's log differ by what the script found. */
static enum rqli_moment moment_of(const struct rqli_answer *answer)
{
    switch (answer->kind) {
    case RQLI_ANSWER_GRANTED:
        if (answer->process == RQL_CONFLICT_WORK_THROUGH) {
            return RQLI_ON_ANSWERED_REENTRY;
        }
        if (answer->process == RQL_EXTENDABLE_CONFLICT_WORK_THROUGH) {
            return RQLI_ON_ANSWERED_EXTENSION;
        }
        return answer->was_handed_over ? RQLI_ON_ANSWERED : RQLI_ON_ANSWERED_FREE;
    case RQLI_ANSWER_CONFLICT:
        return RQLI_ON_ANSWERED_CONFLICT;
    case RQLI_ANSWER_QUEUED:
    case RQLI_ANSWER_FAIL_FAST_AFTER_TRY:
        return RQLI_ON_ANSWERED_QUEUED;
    case RQLI_ANSWER_FAIL_FAST_NO_TRY:
    case RQLI_ANSWER_STALE:
    case RQLI_ANSWER_AGAIN:
    case RQLI_ANSWER_PAUSED:
    case RQLI_ANSWER_FULL:
        break;
    }
    return RQLI_ON_ANSWERED;
}

static void log_answer(const rql_lock *lock, const struct rqli_answer *answer)
{
    if (lock->subject.logger) {
        rqli_observe(moment_of(answer), &lock->subject,
                     &(struct rqli_figures){.ts_us = answer->server_us});
    }
}

/* A short lock needs no claim, so the server no longer knows whether it was handed over. The push
 * that came too late to be relied on has said so. */
static void note_late_push(const struct rqli_acquire *self, struct rqli_answer *answer)
{
    if (answer->kind == RQLI_ANSWER_GRANTED && answer->token == self->late_token) {
        answer->was_handed_over = true;
    }
}

/* Every reply carries the server's time, which improves our estimate of its clock. Pushes are dated
 * by that clock. */
void rqli_acquire_read(struct rqli_acquire *self, const struct rqli_batch *batch,
                       const struct rqli_reply *reply)
{
    const rql_lock *lock = rqli_acquire_lock(self, 0);
    struct rqli_answer answer;
    struct rqli_clock_reading reading;

    if (!read_answer(self, reply, &answer)) {
        rql_error fault;

        (void)rqli_batch_fault(batch, reply, self->several ? "acquire_series" : "acquire",
                               lock->name, &fault);
        end_by_fault(self, &fault);
        return;
    }
    reading = (struct rqli_clock_reading){batch->sent_us, batch->received_us, answer.server_us};
    rqli_server_clock_learn(self->client, self->op.answered, &reading);
    rqli_lost_writes_look(self->client, rqli_client_era(self->client, lock->keys.set));
    note_late_push(self, &answer);
    if (!self->several) {
        self->locks[0]->origin.carrier = batch->carrier;
        self->locks[0]->origin.generation = batch->generation;
        log_answer(lock, &answer);
    }
    self->fault = RQL_OK;
    on_answer(self, batch, reply, &answer);
}
