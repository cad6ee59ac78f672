#include "base/clock.h"
#include "base/threads.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "observe/observe.h"
#include "wire/answer.h"
#include "wire/command.h"

#include <stdlib.h>

/*
 * Renewals and claims, on the leases' thread: up to 64 at once for each node, sent to all nodes
 * that are connected before the first answer is awaited. If one server has all locks, the thread
 * waits for its answer. Otherwise, and for durable locks, the thread looks for answers for a short
 * time and leaves the rest to the next look: neither a silent node nor missing replicas may delay
 * renewals that are due elsewhere.
 *
 * Every function here expects its caller to hold the mutex of the leases. It is released while the
 * thread connects, and while it waits for an answer.
 */

enum {
    LOOK_US = 2000, /* the wait for an answer may delay other renewals by this: less than any margin
                       of a lease */
    LONGEST_PAUSE_US = 100000, /* between two looks for an answer */
};

/* Returns whether the owner's thread has ended: then it cannot be working under the lock any
 * more. */
static bool owner_is_gone(const rql_lock *lock)
{
    return !rqli_thread_lives(lock->owner_thread);
}

/* Returns false if the lock must not be renewed any more, or if less than 1 ms is left to ask for.
 * *ttl_ms_out is no more than the rest of the hold. */
static bool wants_renewal(const rql_lock *lock, int64_t now_us, int64_t *ttl_ms_out)
{
    const struct rqli_lease *lease = &lock->kept.lease;

    return !(lease->renews && owner_is_gone(lock)) &&
           rqli_lease_wants_renewal(lease, now_us, ttl_ms_out);
}

/* ---- what is due, by node ---- */

/* Returns the batch for a node and kind of lock, made if there is none. NULL: no memory. */
static struct rqli_renewals *batch_for(struct rqli_leases *self, struct rqli_node *node,
                                       bool is_durable)
{
    struct rqli_renewals **at = &self->shared.batch.next;

    if (node == self->shared.batch.node && !is_durable) {
        return &self->shared.batch;
    }
    while (*at && ((*at)->node != node || (*at)->is_durable != is_durable)) {
        at = &(*at)->next;
    }
    if (!*at) {
        *at = calloc(1, sizeof **at);
        if (*at) {
            (*at)->node = node;
            (*at)->is_durable = is_durable;
        }
    }
    return *at;
}

static struct rqli_conn *conn_of(const struct rqli_renewals *self)
{
    return self->is_durable ? self->node->conns.durable : self->node->background;
}

/* Returns whether the batch can be sent without delaying others. */
static bool is_ready(const struct rqli_leases *self, const struct rqli_renewals *batch)
{
    return !self->client->is_partitioned || rqli_conn_is_up(conn_of(batch));
}

/* Adds a lock to the batch of its node. Returns NULL if there is no room, or while that batch is
 * under way: a second one would only queue behind it at the server. */
static struct rqli_renewals *add(struct rqli_leases *self, struct rqli_node *node, rql_lock *lock,
                                 int64_t ttl_ms)
{
    bool is_durable = rqli_durability_is_wanted(&lock->durability);
    struct rqli_renewals *batch = batch_for(self, node, is_durable);

    if (!batch || batch->exchange || batch->count == RQLI_RENEWALS_MAX) {
        return NULL;
    }
    rqli_durability_join(&batch->wanted, &lock->durability);
    batch->item[batch->count].lock = lock;
    batch->item[batch->count++].ttl_ms = ttl_ms;
    return batch;
}

/* Adds one lock that is due. Returns false if a batch is full and has to be sent before more are
 * looked for. */
static bool collect_one(struct rqli_leases *self, rql_lock *lock, int64_t now_us)
{
    struct rqli_renewals *batch;
    int64_t ttl_ms;

    if (rqli_lease_state(&lock->kept.lease, now_us) == RQL_GONE) {
        return true; /* it will be reported as lost */
    }
    if (!wants_renewal(lock, now_us, &ttl_ms)) {
        rqli_lease_stop_renewal(&lock->kept.lease);
        return true;
    }
    batch = add(self, rqli_client_node(self->client, &lock->keys), lock, ttl_ms);
    if (!batch) {
        rqli_lease_on_setback(&lock->kept.lease, now_us);
        rqli_lease_table_update(&self->shared.table, lock);
        return true;
    }
    return batch->is_durable || batch->count < RQLI_RENEWALS_MAX || !is_ready(self, batch);
}

/* Collects the locks that are due. Those that are gone are left to rqli_leases_report_losses(),
 * which comes next. */
static void collect(struct rqli_leases *self, int64_t now_us)
{
    bool goes_on = true;

    while (goes_on) {
        rql_lock *lock = rqli_lease_table_take_renewal(&self->shared.table, now_us);

        goes_on = lock && collect_one(self, lock, now_us);
    }
}

/* ---- the calls ---- */

static void write_calls(struct rqli_renewals *self, struct rqli_command *command)
{
    for (size_t i = 0; i < self->count; i++) {
        const rql_lock *lock = self->item[i].lock;
        struct rqli_call call;

        if (!lock) {
            continue;
        }
        self->item[i].reply_at = command->n_commands;
        rqli_call_init(&call, RQLI_SCRIPT_EXTEND, &lock->keys);
        rqli_call_text(&call, lock->grant_nonce);
        rqli_call_int(&call, self->item[i].ttl_ms);
        rqli_call_random(&call);
        rqli_call_write(&call, command, rqli_conn_scripts(conn_of(self)));
    }
}

/* Writes the calls of a batch. Returns false if no lock is left in it. */
static bool write_batch(struct rqli_leases *self, struct rqli_renewals *batch)
{
    struct rqli_command *command = &batch->exchange->command;
    rql_client *client = self->client;

    rqli_command_reset(command);
    write_calls(batch, command);
    if (command->n_commands == 0) {
        return false;
    }
    rqli_leases_note(self, RQLI_TRACE_RENEWS, command->n_commands);
    if (rqli_client_wants_name(client)) {
        rqli_client_name_write(&client->name, command);
    }
    return true;
}

/* Connects and sends a batch. Releases the mutex while it connects, and waits for nothing else. */
static rql_status send(struct rqli_leases *self, struct rqli_renewals *batch, int64_t until_us)
{
    struct rqli_conn *conn = conn_of(batch);
    rql_status status;

    (void)pthread_mutex_unlock(&self->shared.mutex);
    status = rqli_conn_connect(conn, until_us, NULL);
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (status) {
        return status;
    }
    if (!batch->exchange) {
        batch->exchange = rqli_exchange_take(conn);
    }
    if (!batch->exchange) {
        return RQL_E_NOMEM;
    }
    if (!write_batch(self, batch)) {
        return RQL_E_IO;
    }
    batch->exchange->durability = batch->is_durable ? &batch->wanted : NULL;
    return rqli_exchange_send(batch->exchange, 0, NULL);
}

/* ---- the answers ---- */

/* Returns true if the call has done nothing, and is sent again, at once or soon. */
static bool repeat(struct rqli_leases *self, const struct rqli_renewals *batch, size_t i,
                   int64_t now_us)
{
    rql_lock *lock = batch->item[i].lock;
    const struct rqli_reply *reply = &batch->exchange->reply[batch->item[i].reply_at];
    struct rqli_retries retries = lock->kept.retries;
    enum rqli_verdict verdict;

    retries.until_us = RQLI_NEVER_US;
    verdict = rqli_call_verdict(&self->client->fleet, batch->node, lock->keys.set, reply, &retries);
    if (verdict == RQLI_DONE || verdict == RQLI_FAULT) {
        lock->kept.retries = (struct rqli_retries){0};
        return false;
    }
    if (verdict == RQLI_HERE) {
        rqli_conn_forget_scripts(conn_of(batch));
    }
    lock->kept.retries = retries;
    rqli_lease_on_not_done(&lock->kept.lease, now_us, retries.again_us);
    rqli_lease_table_update(&self->shared.table, lock);
    return true;
}

/* Applies a reply to its lock. A reply that makes no sense is a setback, and so is one that is less
 * durable than it has to be: the next attempt may succeed. */
static void apply(rql_lock *lock, const struct rqli_exchange *exchange,
                  const struct rqli_reply *reply, int64_t now_us)
{
    struct rqli_lease *lease = &lock->kept.lease;
    bool is_safe = rqli_durability_is_met(&lock->durability, &exchange->acks);
    struct rqli_outcome outcome;

    if (!rqli_outcome_read(reply, &outcome) || (outcome.what == 1 && !is_safe)) {
        rqli_lease_on_setback(lease, now_us);
    } else if (outcome.what == 1 && !lock->kept.is_adopted) {
        rqli_lease_on_extended(lease, exchange->sent_us, outcome.third);
        rqli_observe(RQLI_ON_RENEWED, &lock->subject, NULL);
    } else { /* gone; or adopted, and nothing more has to be done for it */
        rqli_lease_on_gone(lease);
    }
}

/* Applies the replies of a batch. If it was not answered, each renewal is tried again soon. */
static void apply_all(struct rqli_leases *self, struct rqli_renewals *batch, bool is_answered)
{
    int64_t now_us = rqli_now_us();

    for (size_t i = 0; i < batch->count; i++) {
        rql_lock *lock = batch->item[i].lock;

        if (!lock || (is_answered && repeat(self, batch, i, now_us))) {
            continue;
        }
        if (is_answered) {
            apply(lock, batch->exchange, &batch->exchange->reply[batch->item[i].reply_at], now_us);
        } else {
            rqli_lease_on_setback(&lock->kept.lease, now_us);
        }
        rqli_lease_table_update(&self->shared.table, lock);
    }
    batch->count = 0;
}

static void end(struct rqli_leases *self, struct rqli_renewals *batch, rql_status status)
{
    rqli_leases_note(self, RQLI_TRACE_RENEWED, status);
    if (status) {
        rqli_fleet_on_silence(&self->client->fleet, batch->node);
    }
    apply_all(self, batch, status == RQL_OK);
    rqli_exchange_give(batch->exchange);
    batch->exchange = NULL;
    batch->wanted = (struct rqli_durability){0};
}

/* Waits for the answer, without the mutex. Returns false if the answer is left to the next look. */
static bool await(struct rqli_leases *self, struct rqli_renewals *batch, int64_t until_us,
                  rql_status *status)
{
    bool is_looked_at = batch->is_durable || self->client->is_partitioned;

    if (is_looked_at) {
        until_us = batch->exchange->sent_us + LOOK_US;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    *status = rqli_exchange_await(batch->exchange, until_us, NULL);
    (void)pthread_mutex_lock(&self->shared.mutex);
    return !is_looked_at || rqli_exchange_is_over(batch->exchange);
}

/* Takes the answer to a batch that was sent, if it has come. */
static void take_answer(struct rqli_leases *self, struct rqli_renewals *batch, int64_t until_us)
{
    rql_status status;
    bool is_over = await(self, batch, until_us, &status);

    if (is_over) {
        end(self, batch, status);
    }
}

static void begin(struct rqli_leases *self, struct rqli_renewals *batch, int64_t until_us)
{
    rql_status status = send(self, batch, until_us);

    if (status) {
        end(self, batch, status);
    }
}

static bool is_unsent(const struct rqli_renewals *self)
{
    return self->count > 0 && !self->exchange;
}

/* Notes how an attempt to connect ended: if a login takes longer than a node may hold up the
 * others, it has more time at each attempt. */
static void note_attempt(struct rqli_leases *self, const struct rqli_renewals *batch)
{
    enum { MOST = 4 };

    unsigned *n = &self->shared.n_cut_short;

    if (is_ready(self, batch)) {
        *n = 0;
    } else if (*n < MOST) {
        ++*n;
    }
}

/* Does one step for the durable batches, or for the others. Nodes that are not connected come last,
 * because connecting may take until something is due elsewhere. */
static void exchange_all(struct rqli_leases *self, bool is_durable)
{
    int64_t until_us = rqli_leases_wait_until_us(self);
    struct rqli_renewals *batch;

    for (batch = &self->shared.batch; batch; batch = batch->next) {
        if (batch->is_durable == is_durable && is_unsent(batch) && is_ready(self, batch)) {
            begin(self, batch, until_us);
        }
    }
    for (batch = &self->shared.batch; batch; batch = batch->next) {
        if (batch->is_durable == is_durable && batch->exchange) {
            take_answer(self, batch, until_us);
        }
    }
    for (batch = &self->shared.batch; batch; batch = batch->next) {
        if (batch->is_durable == is_durable && is_unsent(batch) && !is_ready(self, batch)) {
            begin(self, batch, rqli_leases_wait_until_us(self));
            note_attempt(self, batch);
        }
    }
}

static bool has_unsent(struct rqli_leases *self)
{
    const struct rqli_renewals *batch = &self->shared.batch;

    while (batch && (batch->is_durable || !is_unsent(batch))) {
        batch = batch->next;
    }
    return batch != NULL;
}

/* Repeats until nothing is due: while some renewals are under way others may have come due. */
void rqli_leases_renew(struct rqli_leases *self)
{
    collect(self, rqli_now_us());
    do {
        exchange_all(self, false);
        rqli_leases_report_losses(self);
        collect(self, rqli_now_us());
    } while (has_unsent(self));
    exchange_all(self, true);
    rqli_leases_report_losses(self);
}

/* Returns until when the server has to have answered; then its connection is given up. */
static int64_t silent_us(const struct rqli_leases *self, const struct rqli_renewals *batch)
{
    int64_t limit_ms = self->client->options.io_timeout_ms;

    if (batch->is_durable) {
        limit_ms += rqli_durability_longest_ms(&batch->wanted);
    }
    return rqli_after_ms(batch->exchange->sent_us, limit_ms);
}

/* Returns when to look for an answer again. An answer that takes long is looked for less and less
 * often, because a silent server must not keep the thread busy. A look just before the next loss
 * makes an answer count that has come since the last look. */
static int64_t next_look_us(struct rqli_leases *self, const struct rqli_renewals *batch,
                            int64_t now_us)
{
    int64_t pause_us = rqli_earlier(now_us - batch->exchange->sent_us, LONGEST_PAUSE_US);
    int64_t look_us = now_us + rqli_later(pause_us, LOOK_US);
    int64_t before_loss_us = rqli_lease_table_loss_us(&self->shared.table) - LOOK_US;
    int64_t at_end_us = silent_us(self, batch);

    look_us = before_loss_us > now_us ? rqli_earlier(look_us, before_loss_us) : look_us;
    return at_end_us > now_us ? rqli_earlier(look_us, at_end_us) : look_us;
}

int64_t rqli_leases_answer_us(struct rqli_leases *self)
{
    int64_t now_us = rqli_now_us();
    int64_t at_us = RQLI_NEVER_US;

    for (const struct rqli_renewals *batch = &self->shared.batch; batch; batch = batch->next) {
        if (batch->exchange) {
            at_us = rqli_earlier(at_us, next_look_us(self, batch, now_us));
        }
    }
    return at_us;
}

/* Takes a lock out of a batch. Its handle may be freed while the batch is under way: the reply to
 * its call is not read then. */
static void forget(struct rqli_renewals *self, const rql_lock *lock)
{
    for (size_t i = 0; i < self->count; i++) {
        if (self->item[i].lock == lock) {
            self->item[i].lock = NULL;
        }
    }
}

void rqli_leases_forget_renewal(struct rqli_leases *self, const rql_lock *lock)
{
    for (struct rqli_renewals *batch = &self->shared.batch; batch; batch = batch->next) {
        forget(batch, lock);
    }
}

void rqli_leases_free_renewals(struct rqli_leases *self)
{
    struct rqli_renewals *other = self->shared.durable.next;

    rqli_exchange_give(self->shared.batch.exchange);
    rqli_exchange_give(self->shared.durable.exchange);
    while (other) {
        struct rqli_renewals *next = other->next;

        rqli_exchange_give(other->exchange);
        free(other);
        other = next;
    }
}
