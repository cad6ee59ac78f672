#include "lock/leases.h"

#include "base/clock.h"
#include "lock/client.h"
#include "lock/history.h"
#include "observe/observe.h"

#include <sys/eventfd.h>

/* The work of the leases' thread: it reports losses, renews and claims (renewal.c), and
 * withdraws. */

/* While leases come and go the thread looks this often by itself, so that a short hold does not
 * have to wake it. The pause is shorter than the time after which a hand-over is claimed. */
enum { IDLE_LOOK_US = 150000 };

/* A login takes three round trips, or six with TLS. It gets this many times the grace, which is two
 * round trips. */
enum { LOGIN_GRACES = 3 };

void rqli_leases_note(struct rqli_leases *self, enum rqli_trace_what what, int64_t value)
{
    struct rqli_trace *ring = &self->shared.trace;
    /* The count may wrap around, because the size is a power of two. */
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

/* Here and below the caller holds the mutex of the leases; this function releases it for the
 * callback. The descriptor is written first, because a thread that polls it must not depend on a
 * callback that takes its time. */
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

/* Releases the mutex for each callback, which may release any lock. So the search starts over after
 * each. */
void rqli_leases_report_losses(struct rqli_leases *self)
{
    rql_lock *lock = rqli_lease_table_lost(&self->shared.table, rqli_now_us());

    while (lock) {
        report_loss(self, lock);
        lock = rqli_lease_table_lost(&self->shared.table, rqli_now_us());
    }
}

/* Returns when the thread has to look again: at the earliest of the times that are due. While
 * leases come and go it looks every 150 ms, which is cheaper than a wake-up for each of them. */
static int64_t plan(struct rqli_leases *self)
{
    int64_t due_us = rqli_withdrawals_due_us(&self->shared.withdrawals);

    if (self->shared.shall_stop) {
        due_us = rqli_earlier(due_us, self->shared.stop_us);
    }
    due_us = rqli_earlier(due_us, rqli_lease_table_renewal_us(&self->shared.table));
    due_us = rqli_earlier(due_us, rqli_lease_table_loss_us(&self->shared.table));
    due_us = rqli_earlier(due_us, rqli_leases_unsettled_us(self));
    due_us = rqli_earlier(due_us, rqli_leases_answer_us(self));
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

int64_t rqli_leases_wait_until_us(struct rqli_leases *self)
{
    int64_t budget_us = rqli_leases_budget_us(self);
    int64_t loss_us = rqli_lease_table_loss_us(&self->shared.table);
    int64_t now_us = rqli_now_us();
    int64_t until_us;

    if (!self->client->is_partitioned || !rqli_fleet_holds_apart(&self->client->fleet)) {
        return budget_us;
    }
    /* Half of what the first lock has left, so that a node that does not answer costs no lock on
     * the other nodes. */
    budget_us = rqli_earlier(budget_us, now_us + (loss_us - now_us) / 2);
    until_us = rqli_earlier(rqli_lease_table_renewal_us(&self->shared.table),
                            now_us + RQLI_SERVER_LOOK_US);
    until_us = rqli_later(until_us, now_us + LOGIN_GRACES * (rqli_client_grace_us(self->client)
                                                             << 2 * self->shared.n_cut_short));
    return rqli_earlier(until_us, budget_us);
}

/* Returns how long a withdrawal may take: until the next renewal is due, which is sent after it on
 * the same connection, or the usual grace, whichever is later. If the renewal may be due at another
 * server, the withdrawal gets no more time than the renewal can spare. */
static int64_t withdrawing_until_us(struct rqli_leases *self)
{
    int64_t until_us = rqli_later(rqli_now_us() + rqli_client_grace_us(self->client),
                                  rqli_lease_table_renewal_us(&self->shared.table));

    return rqli_earlier(until_us, rqli_leases_wait_until_us(self));
}

/* Releases the mutex while the server is asked. False: nothing was to be withdrawn. */
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
        rqli_leases_doubt(self, NULL); /* a later re-entry relies on what was taken back */
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    rqli_leases_note(self, RQLI_TRACE_WITHDREW, until_us);
    rqli_withdrawals_put_back(&self->shared.withdrawals, &batch);
    return true;
}

/* True: the client ends, and its time is over. */
static bool is_out_of_time(const struct rqli_leases *self)
{
    return self->shared.shall_stop && rqli_now_us() >= self->shared.stop_us;
}

/* Open withdrawals and claims may take until stop_us. No lazy release is left unsettled: when the
 * time is over, the next step reports that it is not confirmed. */
static bool is_over(const struct rqli_leases *self)
{
    return self->shared.shall_stop && self->n_unsettled == 0 &&
           ((rqli_withdrawals_due_us(&self->shared.withdrawals) == RQLI_NEVER_US &&
             self->shared.n_adopted == 0) ||
            is_out_of_time(self));
}

/* ---- without the mutex ---- */

/* True: the client has something to lose at this node. */
static bool is_in_use(const struct rqli_leases *self, const struct rqli_node *node)
{
    return !self->client->is_partitioned || rqli_fleet_holds_at(&self->client->fleet, node);
}

/* Checks each node that is in use, which closes each connection that has ended. Not every step does
 * this, because there is a step for each lock that comes or goes. */
static bool sees_end(struct rqli_leases *self)
{
    int64_t now_us = rqli_now_us();
    bool has_ended = false;

    if (now_us < self->looked_us + RQLI_SERVER_LOOK_US) {
        return false;
    }
    self->looked_us = now_us;
    for (struct rqli_node *node = &self->client->fleet.first; node; node = node->next) {
        has_ended |= is_in_use(self, node) && rqli_node_sees_end(node);
    }
    return has_ended;
}

static rql_status arrive_at(struct rqli_leases *self, struct rqli_node *node)
{
    int64_t until_us;
    rql_status status;

    (void)pthread_mutex_lock(&self->shared.mutex);
    until_us = rqli_leases_wait_until_us(self);
    (void)pthread_mutex_unlock(&self->shared.mutex);
    rqli_conn_hurry(node->background, RQLI_SERVER_LOOK_US);
    status = rqli_conn_connect(node->background, until_us, NULL);
    if (status) {
        rqli_fleet_on_silence(&self->client->fleet, node);
    }
    return status;
}

/* Connects to each node that has something to lose. */
static void arrive(struct rqli_leases *self)
{
    struct rqli_fleet *fleet = &self->client->fleet;
    rql_status status = RQL_OK;

    for (struct rqli_node *node = &fleet->first; node; node = node->next) {
        if (is_in_use(self, node)) {
            rql_status failed = arrive_at(self, node);

            status = failed ? failed : status;
        }
    }
    if (!status) {
        atomic_store(&self->shall_arrive, false);
    }
}

/* In a cluster, keys get another node when a slot moves, and when a replica is promoted that may
 * have missed grants. */
static void look_who_has_keys(struct rqli_leases *self)
{
    struct rqli_fleet *fleet = &self->client->fleet;

    for (unsigned p = 0; self->seen_at && p < RQLI_PARTITIONS; p++) {
        struct rqli_node *node = rqli_fleet_node(fleet, &rqli_key_sets[p]);
        bool has_changed = self->seen_at[p] && self->seen_at[p] != node;

        self->seen_at[p] = node;
        if (has_changed && atomic_load(&fleet->n_held[p]) > 0) {
            rqli_leases_doubt(self, &rqli_key_sets[p]);
        }
    }
}

/* ---- the step ---- */

/* Releases the mutex meanwhile. A login finds out that the server is another: before all calls it
 * says what this client has seen (net/era.h). Then what is held is verified. Nothing is sent as
 * long as no connection has ended and no keys have moved to another node. */
static void look_at_servers(struct rqli_leases *self)
{
    bool is_needed = rqli_lease_table_loss_us(&self->shared.table) != RQLI_NEVER_US;

    (void)pthread_mutex_unlock(&self->shared.mutex);
    if (is_needed && sees_end(self)) {
        atomic_store(&self->shall_arrive, true);
    }
    if (!is_needed) {
        atomic_store(&self->shall_arrive, false);
    } else if (atomic_load(&self->shall_arrive)) {
        arrive(self);
    }
    look_who_has_keys(self);
    rqli_history_look_at_all(self->client);
    (void)pthread_mutex_lock(&self->shared.mutex);
}

/* Reports losses first, so that no slow renewal delays a report. */
int64_t rqli_leases_step(struct rqli_worker *worker)
{
    struct rqli_leases *self = (struct rqli_leases *)worker;
    int64_t again_us;

    (void)pthread_mutex_lock(&self->shared.mutex);
    rqli_leases_note(self, RQLI_TRACE_LOOKS, self->shared.planned_us);
    look_at_servers(self);
    do {
        rqli_leases_report_losses(self);
        rqli_leases_renew(self);
        rqli_leases_settle(self);
    } while (!is_out_of_time(self) && withdraw_some(self));
    again_us = is_over(self) ? RQLI_WORKER_OVER : plan(self);
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return again_us;
}
