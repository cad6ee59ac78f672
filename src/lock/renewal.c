#include "lock/leases.h"

#include "base/clock.h"
#include "lock/client.h"
#include "lock/history.h"
#include "observe/observe.h"
#include "wire/answer.h"
#include "wire/command.h"

#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* What the thread of the leases does: it reports losses, renews and claims, and withdraws. */

/* While leases come and go the thread looks this often by itself, so that a short hold does not
 * have to wake it. Shorter than the time after which a hand-over is claimed. */
enum { IDLE_LOOK_US = 150000 };

/* What the renewals of durable leases delay others at most: less than any margin of a lease. */
enum { DURABLE_LOOK_US = 2000 };

void rqli_leases_note(struct rqli_leases *self, enum rqli_trace_what what, int64_t value)
{
    struct rqli_trace *ring = &self->shared.trace;
    /* It may wrap around: the size is a power of two. */
    unsigned at = ring->n++ % RQLI_TRACE_SIZE;

    ring->item[at].at_us = rqli_now_us();
    ring->item[at].value = value;
    ring->item[at].what = what;
}

struct rqli_trace rqli_leases_trace(struct rqli_leases *self)
{
    struct rqli_trace copy;

    (void)pthread_mutex_lock(&self->shared.mutex);
    copy = self->shared.trace;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return copy;
}

/* A thread that has ended cannot be working under the lock any more. */
static bool owner_is_gone(const rql_lock *lock)
{
    return tgkill(getpid(), lock->owner_thread, 0) != 0 && errno == ESRCH;
}

/* False: it shall not go on, or no more than that is left of the hold. */
static bool wants_renewal(const rql_lock *lock, int64_t now_us, int64_t *ttl_ms_out)
{
    const struct rqli_lease *lease = &lock->kept.lease;

    return !(lease->renews && owner_is_gone(lock)) &&
           rqli_lease_wants_renewal(lease, now_us, ttl_ms_out);
}

static void add(struct rqli_renewals *self, rql_lock *lock, int64_t ttl_ms)
{
    self->item[self->count].lock = lock;
    self->item[self->count++].ttl_ms = ttl_ms;
}

/* Beside one that is under way none is sent: it would wait for that at the server. */
static void add_durable(struct rqli_leases *self, rql_lock *lock, int64_t ttl_ms, int64_t now_us)
{
    struct rqli_durable_renewals *durable = &self->shared.durable;

    if (!durable->exchange && durable->batch.count < RQLI_RENEWALS_MAX) {
        rqli_durability_join(&durable->wanted, &lock->durability);
        add(&durable->batch, lock, ttl_ms);
    } else {
        rqli_lease_on_setback(&lock->kept.lease, now_us);
        rqli_lease_table_update(&self->shared.table, lock);
    }
}

/* Up to 64 in one round trip. What is gone is left to report_losses(), which comes next. */
static void collect(struct rqli_leases *self, int64_t now_us)
{
    struct rqli_renewals *batch = &self->shared.batch;

    batch->count = 0;
    while (batch->count < RQLI_RENEWALS_MAX) {
        rql_lock *lock = rqli_lease_table_take_renewal(&self->shared.table, now_us);
        int64_t ttl_ms;

        if (!lock) {
            break;
        }
        if (rqli_lease_state(&lock->kept.lease, now_us) == RQL_GONE) {
            continue; /* to be reported as lost */
        }
        if (!wants_renewal(lock, now_us, &ttl_ms)) {
            rqli_lease_stop_renewal(&lock->kept.lease);
        } else if (rqli_durability_is_wanted(&lock->durability)) {
            add_durable(self, lock, ttl_ms, now_us);
        } else {
            add(batch, lock, ttl_ms);
        }
    }
}

static void write_calls(struct rqli_renewals *self, struct rqli_command *command, bool with_text)
{
    for (size_t i = 0; i < self->count; i++) {
        const rql_lock *lock = self->item[i].lock;
        struct rqli_call call;

        if (lock) {
            self->item[i].reply_at = command->n_commands;
            rqli_call_init(&call, RQLI_SCRIPT_EXTEND, &lock->keys);
            rqli_call_text(&call, lock->grant_nonce);
            rqli_call_int(&call, self->item[i].ttl_ms);
            rqli_call_random(&call);
            rqli_call_write(&call, command, with_text);
        }
    }
}

/* A reply that makes no sense is a setback, and one that is not as safe as it has to be: the next
 * attempt may be understood. */
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
    } else { /* or there is nothing more to do for it */
        rqli_lease_on_gone(lease);
    }
}

static void apply_all(struct rqli_renewals *self, struct rqli_lease_table *table,
                      const struct rqli_exchange *exchange, int64_t now_us)
{
    for (size_t i = 0; i < self->count; i++) {
        rql_lock *lock = self->item[i].lock;

        if (!lock) {
            continue;
        }
        if (exchange) {
            apply(lock, exchange, &exchange->reply[self->item[i].reply_at], now_us);
        } else {
            rqli_lease_on_setback(&lock->kept.lease, now_us);
        }
        rqli_lease_table_update(table, lock);
    }
    self->count = 0;
}

/* Here and below: under the mutex of the leases. Released for the callback. The descriptor first,
 * then the callback: whoever polls the descriptor must not depend on a callback that takes its
 * time. */
static void report_loss(struct rqli_leases *self, rql_lock *lock)
{
    const struct rqli_figures figures = rqli_lock_figures(lock);

    if (lock->kept.is_adopted) {
        rqli_leases_free_adopted(self, lock);
        return;
    }
    rqli_lease_on_gone(&lock->kept.lease);
    lock->kept.lease.is_reported = true;
    rqli_leases_note(self, RQLI_TRACE_LOST, lock->token);
    rqli_lease_table_update(&self->shared.table, lock);
    if (lock->kept.lost_fd >= 0) {
        (void)eventfd_write(lock->kept.lost_fd, 1);
    }
    if (!lock->on_lost && !lock->subject.instrumenter) {
        rqli_observe(RQLI_ON_LOST, &lock->subject, &figures);
    } else {
        self->shared.in_callback = lock;
        (void)pthread_mutex_unlock(&self->shared.mutex);
        rqli_observe(RQLI_ON_LOST, &lock->subject, &figures);
        if (lock->on_lost) {
            lock->on_lost(lock, lock->user_data);
        }
        (void)pthread_mutex_lock(&self->shared.mutex);
        self->shared.in_callback = NULL;
        (void)atomic_fetch_add(&self->callback_ended, 1);
        rqli_signal_wake(&self->callback_ended);
    }
}

/* Released for each callback, which may release any lock: starts over after each. */
static void report_losses(struct rqli_leases *self)
{
    rql_lock *lock = rqli_lease_table_lost(&self->shared.table, rqli_now_us());

    while (lock) {
        report_loss(self, lock);
        lock = rqli_lease_table_lost(&self->shared.table, rqli_now_us());
    }
}

/* When the thread shall look again. The earliest of what is due; and while leases come and go, a
 * look every 150 ms, cheaper than a wake-up for each of them. */
static int64_t plan(struct rqli_leases *self)
{
    int64_t due_us = rqli_withdrawals_due_us(&self->shared.withdrawals);

    if (self->shared.shall_stop) {
        due_us = rqli_earlier(due_us, self->shared.stop_us);
    }
    due_us = rqli_earlier(due_us, rqli_lease_table_renewal_us(&self->shared.table));
    due_us = rqli_earlier(due_us, rqli_lease_table_loss_us(&self->shared.table));
    due_us = rqli_earlier(due_us, rqli_leases_unsettled_us(self));
    if (self->shared.durable.exchange) {
        due_us = 0; /* each look waits for the answer, for a while */
    }
    if (rqli_lease_table_loss_us(&self->shared.table) != RQLI_NEVER_US) {
        due_us = rqli_earlier(due_us, rqli_now_us() + RQLI_SERVER_LOOK_US);
    }
    if (self->shared.added > 0) {
        due_us = rqli_earlier(due_us, rqli_now_us() + IDLE_LOOK_US);
    }
    self->shared.added = 0;
    self->shared.planned_us = due_us;
    rqli_leases_note(self, RQLI_TRACE_PLANNED, due_us);
    return due_us;
}

int64_t rqli_leases_budget_us(struct rqli_leases *self)
{
    int64_t until_us = rqli_client_budget_us(self->client, rqli_now_us());

    if (self->shared.shall_stop) {
        until_us = rqli_earlier(until_us, self->shared.stop_us);
    }
    return rqli_earlier(until_us, rqli_lease_table_loss_us(&self->shared.table));
}

/* False: nothing is left of the batch. */
static bool write_batch(struct rqli_leases *self, struct rqli_renewals *batch,
                        struct rqli_command *command, bool with_text)
{
    rqli_command_reset(command);
    write_calls(batch, command, with_text);
    if (command->n_commands == 0) {
        return false;
    }
    if (rqli_client_wants_name(self->client)) {
        rqli_client_name_write(&self->client->name, command);
    }
    rqli_leases_note(self, RQLI_TRACE_RENEWS, command->n_commands);
    return true;
}

/* Released while the server is asked. */
static rql_status exchange_batch(struct rqli_leases *self, struct rqli_exchange *exchange,
                                 bool with_text)
{
    int64_t until_us = rqli_leases_budget_us(self);
    rql_status status;

    if (!write_batch(self, &self->shared.batch, &exchange->command, with_text)) {
        return RQL_E_IO;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    status = rqli_exchange_run(exchange, until_us, NULL);
    (void)pthread_mutex_lock(&self->shared.mutex);
    return status;
}

/* Released while the server is asked. In a circle until nothing is due: while one batch was under
 * way others may have come due. */
static void renew_some(struct rqli_leases *self)
{
    struct rqli_renewals *batch = &self->shared.batch;
    struct rqli_lease_table *table = &self->shared.table;

    collect(self, rqli_now_us());
    while (batch->count > 0) {
        struct rqli_exchange *exchange = rqli_exchange_take(self->client->fleet.first.background);
        rql_status status = exchange ? exchange_batch(self, exchange, false) : RQL_E_NOMEM;

        if (!status && rqli_reply_wants_text(exchange->reply)) {
            status = exchange_batch(self, exchange, true);
        }
        rqli_leases_note(self, RQLI_TRACE_RENEWED, status);
        apply_all(batch, table, status ? NULL : exchange, rqli_now_us());
        rqli_exchange_give(exchange);
        report_losses(self);
        collect(self, rqli_now_us());
    }
}

/* Released while it connects, which is all that is waited for. */
static rql_status send_durable(struct rqli_leases *self, bool with_text)
{
    struct rqli_durable_renewals *durable = &self->shared.durable;
    struct rqli_conn *conn = self->client->fleet.first.conns.durable;
    int64_t until_us = rqli_leases_budget_us(self);
    rql_status status;

    (void)pthread_mutex_unlock(&self->shared.mutex);
    status = rqli_conn_connect(conn, until_us, NULL);
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (!durable->exchange) {
        durable->exchange = rqli_exchange_take(conn);
    }
    if (status || !durable->exchange) {
        return status ? status : RQL_E_NOMEM;
    }
    if (!write_batch(self, &durable->batch, &durable->exchange->command, with_text)) {
        return RQL_E_IO;
    }
    durable->exchange->durability = &durable->wanted;
    return rqli_exchange_send(durable->exchange, 0, NULL);
}

static void end_durable(struct rqli_leases *self, rql_status status)
{
    struct rqli_durable_renewals *durable = &self->shared.durable;

    rqli_leases_note(self, RQLI_TRACE_RENEWED, status);
    apply_all(&durable->batch, &self->shared.table, status ? NULL : durable->exchange,
              rqli_now_us());
    rqli_exchange_give(durable->exchange);
    durable->exchange = NULL;
    durable->wanted = (struct rqli_durability){0};
}

/* Released for a short time, in which the answer mostly comes. False: it has not. */
static bool await_durable(struct rqli_leases *self)
{
    struct rqli_exchange *exchange = self->shared.durable.exchange;
    rql_status status;

    (void)pthread_mutex_unlock(&self->shared.mutex);
    status = rqli_exchange_await(exchange, rqli_now_us() + DURABLE_LOOK_US, NULL);
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (!rqli_exchange_is_over(exchange)) {
        return false;
    }
    if (!status && rqli_reply_wants_text(exchange->reply)) {
        status = send_durable(self, true);
        if (!status) {
            return false;
        }
    }
    end_durable(self, status);
    return true;
}

/* One step for them. */
static void renew_durable(struct rqli_leases *self)
{
    rql_status status;

    if (!self->shared.durable.exchange && self->shared.durable.batch.count > 0) {
        status = send_durable(
            self, rqli_conn_teaches(self->client->fleet.first.conns.durable, RQLI_SCRIPT_EXTEND));
        if (status) {
            end_durable(self, status);
        }
    }
    if (self->shared.durable.exchange && await_durable(self)) {
        report_losses(self);
    }
}

/* A withdrawal is waited for until the next renewal is due, which goes behind it on the same
 * connection, or for the usual grace. */
static int64_t withdrawing_until_us(struct rqli_leases *self)
{
    int64_t now_us = rqli_now_us();
    int64_t until_us = now_us + rqli_client_grace_us(self->client);
    int64_t renewal_us = rqli_lease_table_renewal_us(&self->shared.table);

    until_us = renewal_us > until_us ? renewal_us : until_us;
    return rqli_earlier(until_us, rqli_leases_budget_us(self));
}

/* Released while the server is asked. False: nothing was to be withdrawn. */
static bool withdraw_some(struct rqli_leases *self)
{
    struct rqli_op_route route = rqli_client_route_of_all(self->client);
    struct rqli_withdrawal_batch batch;
    int64_t until_us;

    route.use = RQLI_OP_IN_BACKGROUND;
    rqli_withdrawals_take(&self->shared.withdrawals, &batch, rqli_now_us());
    if (batch.count == 0) {
        return false;
    }
    until_us = withdrawing_until_us(self);
    rqli_leases_note(self, RQLI_TRACE_WITHDRAWS, (int64_t)batch.count);
    (void)pthread_mutex_unlock(&self->shared.mutex);
    rqli_withdrawal_batch_run(&batch, &route, until_us);
    if (batch.took_back) {
        rqli_leases_doubt(self); /* a later re-entry counts on what was taken back */
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    rqli_leases_note(self, RQLI_TRACE_WITHDREW, until_us);
    rqli_withdrawals_put_back(&self->shared.withdrawals, &batch);
    return true;
}

/* The end waits for nothing beyond it. */
static bool is_out_of_time(const struct rqli_leases *self)
{
    return self->shared.shall_stop && rqli_now_us() >= self->shared.stop_us;
}

/* What is still to withdraw, or to claim, may take until stop_us. No lazy release is left behind:
 * when the time is over the next step tells that it is not confirmed. */
static bool is_over(const struct rqli_leases *self)
{
    return self->shared.shall_stop && self->n_unsettled == 0 &&
           ((rqli_withdrawals_due_us(&self->shared.withdrawals) == RQLI_NEVER_US &&
             self->shared.n_adopted == 0) ||
            is_out_of_time(self));
}

/* Released meanwhile. A new server is found out by a login, which says in front of all calls what
 * this client has seen (net/era.h); what is held is verified then. Nothing is sent as long as no
 * connection has ended. */
static void look_at_server(struct rqli_leases *self)
{
    bool is_needed = rqli_lease_table_loss_us(&self->shared.table) != RQLI_NEVER_US;
    int64_t until_us = rqli_leases_budget_us(self);

    (void)pthread_mutex_unlock(&self->shared.mutex);
    if (is_needed && rqli_node_sees_end(&self->client->fleet.first)) {
        atomic_store(&self->shall_arrive, true);
    }
    if (!is_needed) {
        atomic_store(&self->shall_arrive, false);
    } else if (atomic_load(&self->shall_arrive)) {
        rqli_conn_hurry(self->client->fleet.first.background, RQLI_SERVER_LOOK_US);
        if (rqli_conn_connect(self->client->fleet.first.background, until_us, NULL) == RQL_OK) {
            atomic_store(&self->shall_arrive, false);
        }
    }
    rqli_history_look_at_all(self->client);
    (void)pthread_mutex_lock(&self->shared.mutex);
}

/* Losses come first, so that no renewal that takes its time delays a report. */
int64_t rqli_leases_step(struct rqli_worker *worker)
{
    struct rqli_leases *self = (struct rqli_leases *)worker;
    int64_t again_us;

    (void)pthread_mutex_lock(&self->shared.mutex);
    rqli_leases_note(self, RQLI_TRACE_LOOKS, self->shared.planned_us);
    look_at_server(self);
    do {
        report_losses(self);
        renew_some(self);
        renew_durable(self);
        rqli_leases_settle(self);
    } while (!is_out_of_time(self) && withdraw_some(self));
    again_us = is_over(self) ? RQLI_WORKER_OVER : plan(self);
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return again_us;
}
