#include "lock/leases_inside.h"
#include "observe/observe.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/mask.h"
#include "base/must.h"
#include "base/uv_start.h"
#include "lock/client.h"
#include "lock/withdraw.h"
#include "net/conn_threads.h"

#include <stdlib.h>
#include <sys/eventfd.h>

/* While leases come and go the thread looks this often by itself, so that a short hold does not
 * have to wake it. Shorter than the time after which a hand-over is claimed. */
enum { IDLE_LOOK_US = 150000 };

struct rqli_leases *rqli_leases_new(rql_client *client)
{
    struct rqli_leases *self = calloc(1, sizeof *self);

    if (!self) {
        return NULL;
    }
    self->client = client;
    self->conn = rqli_conn_new(&client->endpoint);
    self->shared.next_look_us = RQLI_NEVER_US;
    self->host_end_us = RQLI_NEVER_US;
    (void)pthread_mutex_init(&self->shared.mutex, NULL);
    (void)pthread_cond_init(&self->shared.callback_ended, NULL);
    if (!self->conn) {
        return rqli_leases_free(self);
    }
    return self;
}

static void on_timer(uv_timer_t *timer);

static int64_t earlier(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

static bool is_loop_thread(const struct rqli_leases *self)
{
    uv_thread_t me = uv_thread_self();

    return self->shared.is_running && uv_thread_equal(&me, &self->thread);
}

void rqli_leases_rouse(struct rqli_leases *self)
{
    if (self->shared.is_running) {
        rqli_trace_add(&self->shared.trace, RQLI_TRACE_ROUSED, self->shared.next_look_us);
        self->shared.next_look_us = 0;
        (void)uv_async_send(&self->call);
    }
}

struct rqli_leases *rqli_leases_free(struct rqli_leases *self)
{
    if (!self) {
        return NULL;
    }
    if (self->shared.is_running) {
        (void)pthread_mutex_lock(&self->shared.mutex);
        self->shared.shall_stop = true;
        self->shared.stop_us = rqli_after_ms(rqli_now_us(), self->client->options.io_timeout_ms);
        rqli_leases_rouse(self);
        (void)pthread_mutex_unlock(&self->shared.mutex);
        (void)uv_thread_join(&self->thread);
    }
    rqli_leases_free_adopted(self);
    rqli_withdrawals_fini(&self->shared.withdrawals);
    rqli_schedule_fini(&self->shared.schedule);
    rqli_renewed_fini(&self->shared.renewed);
    rqli_conn_free(self->conn);
    (void)pthread_mutex_destroy(&self->shared.mutex);
    (void)pthread_cond_destroy(&self->shared.callback_ended);
    free(self);
    return NULL;
}

struct rqli_conn *rqli_leases_link(const struct rqli_leases *self)
{
    return self->conn;
}

void rqli_leases_abandon(struct rqli_leases *self)
{
    if (self) {
        rqli_conn_abandon(self->conn);
    }
}

/* Under the mutex, released for the callback. Loop thread. */
static void tell(struct rqli_leases *self, rql_lock *lock)
{
    const struct rqli_figures figures = rqli_lock_figures(lock);

    if (lock->kept.is_adopted) {
        rqli_leases_free_one_adopted(self, lock);
        return;
    }
    rqli_lease_on_gone(&lock->kept.lease);
    lock->kept.lease.is_told = true;
    rqli_trace_add(&self->shared.trace, RQLI_TRACE_LOST, lock->token);
    rqli_schedule_update(&self->shared.schedule, lock);
    if (lock->kept.lost_fd >= 0) {
        (void)eventfd_write(lock->kept.lost_fd, 1);
    }
    if (!lock->on_lost && !lock->subject.instrumenter) {
        rqli_observe(RQLI_ON_LOST, &lock->subject, &figures);
    } else {
        self->shared.told = lock;
        (void)pthread_mutex_unlock(&self->shared.mutex);
        rqli_observe(RQLI_ON_LOST, &lock->subject, &figures);
        if (lock->on_lost) {
            lock->on_lost(lock, lock->user_data);
        }
        (void)pthread_mutex_lock(&self->shared.mutex);
        self->shared.told = NULL;
        (void)pthread_cond_broadcast(&self->shared.callback_ended);
    }
}

/* Under the mutex, released for each callback, which may release any lock: start over after each.
 */
static void tell_losses(struct rqli_leases *self)
{
    rql_lock *lock = rqli_schedule_lost(&self->shared.schedule, rqli_now_us());

    while (lock) {
        tell(self, lock);
        lock = rqli_schedule_lost(&self->shared.schedule, rqli_now_us());
    }
}

/* Under the mutex. */
static int64_t earliest_due(struct rqli_leases *self)
{
    int64_t due_us = rqli_withdrawals_due_us(&self->shared.withdrawals);

    if (self->shared.shall_stop) {
        due_us = earlier(due_us, self->shared.stop_us);
    }
    due_us = earlier(due_us, rqli_schedule_renewal_us(&self->shared.schedule));
    return earlier(due_us, rqli_schedule_loss_us(&self->shared.schedule));
}

/* Under the mutex: when the thread shall look again. */
static void plan(struct rqli_leases *self)
{
    int64_t now_us = rqli_now_us();
    int64_t due_us = earliest_due(self);

    if (self->shared.added > 0 && due_us > now_us + IDLE_LOOK_US) {
        due_us = now_us + IDLE_LOOK_US;
    }
    self->shared.added = 0;
    self->shared.next_look_us = due_us;
    rqli_trace_add(&self->shared.trace, RQLI_TRACE_PLANNED, due_us);
}

/* Under the mutex: no call may last beyond the next loss that has to be told, or the end. */
static int64_t budget_us(struct rqli_leases *self)
{
    int64_t until_us = rqli_client_budget_us(self->client, rqli_now_us());

    if (self->shared.shall_stop) {
        until_us = earlier(until_us, self->shared.stop_us);
    }
    return earlier(until_us, rqli_schedule_loss_us(&self->shared.schedule));
}

/* Under the mutex, released while it talks to the server. */
static rql_status exchange_batch(struct rqli_leases *self, struct rqli_exchange *exchange,
                                 bool with_text)
{
    int64_t until_us = budget_us(self);
    rql_status status;

    rqli_command_reset(&exchange->command);
    rqli_renewals_write(&self->shared.batch, &exchange->command, with_text);
    if (exchange->command.n_commands == 0) {
        return RQL_E_IO;
    }
    rqli_trace_add(&self->shared.trace, RQLI_TRACE_RENEWS, exchange->command.n_commands);
    (void)pthread_mutex_unlock(&self->shared.mutex);
    status = rqli_exchange_run(exchange, until_us, NULL);
    (void)pthread_mutex_lock(&self->shared.mutex);
    return status;
}

static bool script_is_unknown(const struct rqli_exchange *exchange)
{
    return exchange->reply->type == RQLI_REPLY_ERROR &&
           rqli_reply_says(exchange->reply, "NOSCRIPT");
}

/* Under the mutex, released while it talks to the server. */
static void renew_some(struct rqli_leases *self)
{
    struct rqli_renewals *batch = &self->shared.batch;

    rqli_renewals_collect(batch, &self->shared.schedule, rqli_now_us());
    while (batch->count > 0) {
        struct rqli_exchange *exchange = rqli_exchange_take(self->conn);
        rql_status status = exchange ? exchange_batch(self, exchange, false) : RQL_E_NOMEM;

        if (!status && script_is_unknown(exchange)) {
            status = exchange_batch(self, exchange, true);
        }
        rqli_trace_add(&self->shared.trace, RQLI_TRACE_RENEWED, status);
        rqli_renewals_apply(batch, &self->shared.schedule, status ? NULL : exchange, rqli_now_us());
        rqli_exchange_give(exchange);
        tell_losses(self);
        rqli_renewals_collect(batch, &self->shared.schedule, rqli_now_us());
    }
}

/* Under the mutex. The end waits for nothing beyond it. */
static bool is_out_of_time(const struct rqli_leases *self)
{
    return self->shared.shall_stop && rqli_now_us() >= self->shared.stop_us;
}

/* Under the mutex. A withdrawal is waited for until the next renewal is due, which goes behind it
 * on the same connection, or for the usual grace; and for half of the time to the next loss, at
 * most. */
static int64_t withdrawing_until_us(struct rqli_leases *self)
{
    int64_t now_us = rqli_now_us();
    int64_t until_us = now_us + rqli_client_grace_us(self->client);
    int64_t renewal_us = rqli_schedule_renewal_us(&self->shared.schedule);
    int64_t loss_us = rqli_schedule_loss_us(&self->shared.schedule);

    until_us = renewal_us > until_us ? renewal_us : until_us;
    until_us = earlier(until_us, now_us + (loss_us - now_us) / 2);
    return earlier(until_us, budget_us(self));
}

/* Under the mutex, released while it talks to the server. False: nothing was to be withdrawn. */
static bool withdraw_some(struct rqli_leases *self)
{
    struct rqli_withdrawal_batch batch;
    int64_t until_us;

    rqli_withdrawals_take(&self->shared.withdrawals, &batch, rqli_now_us());
    if (batch.count == 0) {
        return false;
    }
    until_us = withdrawing_until_us(self);
    rqli_trace_add(&self->shared.trace, RQLI_TRACE_WITHDRAWS, (int64_t)batch.count);
    (void)pthread_mutex_unlock(&self->shared.mutex);
    rqli_withdrawal_batch_run(&batch, self->conn, until_us);
    (void)pthread_mutex_lock(&self->shared.mutex);
    rqli_trace_add(&self->shared.trace, RQLI_TRACE_WITHDREW, until_us);
    rqli_withdrawals_put_back(&self->shared.withdrawals, &batch);
    return true;
}

/* Loop thread. Everything that is due, and when to come again. */
static void look(struct rqli_leases *self)
{
    int64_t left_us;

    (void)pthread_mutex_lock(&self->shared.mutex);
    rqli_trace_add(&self->shared.trace, RQLI_TRACE_LOOKS, self->shared.next_look_us);
    do {
        tell_losses(self);
        renew_some(self);
    } while (!is_out_of_time(self) && withdraw_some(self));
    plan(self);
    left_us = self->shared.next_look_us == RQLI_NEVER_US
                  ? RQLI_NEVER_US
                  : self->shared.next_look_us - rqli_now_us();
    (void)pthread_mutex_unlock(&self->shared.mutex);
    if (left_us != RQLI_NEVER_US) {
        (void)uv_timer_start(&self->timer, on_timer, left_us > 0 ? (uint64_t)left_us / 1000 + 1 : 0,
                             0);
    }
}

/* What is still to withdraw, or to claim, may take until stop_us. */
static bool is_over(struct rqli_leases *self)
{
    bool over;

    (void)pthread_mutex_lock(&self->shared.mutex);
    over = self->shared.shall_stop &&
           ((rqli_withdrawals_due_us(&self->shared.withdrawals) == RQLI_NEVER_US &&
             self->shared.n_adopted == 0) ||
            is_out_of_time(self));
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return over;
}

/* Loop thread. */
static void look_or_end(struct rqli_leases *self)
{
    if (uv_is_closing((uv_handle_t *)&self->call)) {
        return;
    }
    look(self);
    if (is_over(self)) {
        uv_close((uv_handle_t *)&self->call, NULL);
        uv_close((uv_handle_t *)&self->timer, NULL);
    }
}

static void on_timer(uv_timer_t *timer)
{
    look_or_end(timer->data);
}

static void on_call(uv_async_t *call)
{
    look_or_end(call->data);
}

static void run(void *argument)
{
    struct rqli_leases *self = argument;

    atomic_store_explicit(&self->runs, 1, memory_order_release);
    rqli_signal_wake(&self->runs);
    (void)pthread_setname_np(pthread_self(), "rql-keeper");
    (void)uv_run(&self->loop, UV_RUN_DEFAULT);
    RQLI_MUST(uv_loop_close(&self->loop) == 0);
}

/* Under the mutex. */
static bool start_thread(struct rqli_leases *self)
{
    sigset_t before = rqli_mask_all();
    int failed = uv_thread_create(&self->thread, run, self);
    rqli_mask_restore(&before);
    return failed == 0;
}

/* Under the mutex. */
static bool start(struct rqli_leases *self)
{
    if (self->shared.is_running) {
        return true;
    }
    if (!rqli_uv_loop_init(&self->loop)) {
        return false;
    }
    self->call.data = self;
    self->timer.data = self;
    (void)uv_timer_init(&self->loop, &self->timer);
    if (uv_async_init(&self->loop, &self->call, on_call) == 0) {
        self->shared.is_running = start_thread(self);
    }
    if (!self->shared.is_running) {
        rqli_uv_loop_drop(&self->loop);
    }
    return self->shared.is_running;
}

static bool runs(struct rqli_leases *self)
{
    return atomic_load_explicit(&self->runs, memory_order_acquire) == 1;
}

void rqli_leases_prepare(struct rqli_leases *self, int64_t until_us)
{
    bool is_started;

    if (runs(self)) {
        return;
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    is_started = start(self);
    (void)pthread_mutex_unlock(&self->shared.mutex);
    while (is_started && !runs(self) && rqli_now_us() < until_us) {
        rqli_signal_wait(&self->runs, 0, until_us);
    }
}

bool rqli_leases_watch(struct rqli_leases *self, rql_lock *lock)
{
    if (!start(self) || !rqli_schedule_enter(&self->shared.schedule, lock)) {
        return false;
    }
    self->shared.added++;
    if (rqli_lease_due_us(&lock->kept.lease) < self->shared.next_look_us) {
        rqli_leases_rouse(self);
    }
    return true;
}

/* Under the mutex. */
static void list(struct rqli_leases *self, rql_lock *lock)
{
    lock->kept.previous = NULL;
    lock->kept.next = self->shared.first;
    if (self->shared.first) {
        self->shared.first->kept.previous = lock;
    }
    self->shared.first = lock;
    lock->kept.is_listed = true;
    rqli_holders_count(&self->client->holders, lock->holder, 1);
}

void rqli_leases_unlist(struct rqli_leases *self, rql_lock *lock)
{
    if (lock->kept.is_listed) {
        *(lock->kept.previous ? &lock->kept.previous->kept.next : &self->shared.first) =
            lock->kept.next;
        if (lock->kept.next) {
            lock->kept.next->kept.previous = lock->kept.previous;
        }
        lock->kept.is_listed = false;
        rqli_holders_count(&self->client->holders, lock->holder, (uint32_t)-1);
    }
    rqli_schedule_leave(&self->shared.schedule, lock);
    rqli_renewed_remove(&self->shared.renewed, lock);
    rqli_renewals_forget(&self->shared.batch, lock);
}

/* Under the mutex. False: no memory, or no thread. */
static bool look_after(struct rqli_leases *self, rql_lock *lock)
{
    const struct rqli_lease *lease = &lock->kept.lease;
    bool is_passive = !lease->renews && lease->is_claimed && !lock->on_lost;

    return (!lease->renews || rqli_renewed_add(&self->shared.renewed, lock)) &&
           (is_passive || rqli_leases_watch(self, lock));
}

rql_status rqli_leases_add(struct rqli_leases *self, rql_lock *lock, rql_error *error)
{
    rql_status status = RQL_OK;

    if (lock->kept.lease.renews) {
        atomic_store_explicit(&self->has_extended, true, memory_order_relaxed);
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    lock->kept.lease.host_end_us = self->host_end_us;
    list(self, lock);
    if (!look_after(self, lock)) {
        rqli_leases_unlist(self, lock);
        status = rqli_fail(error, RQL_E_NOMEM, "%s: the background thread could not be started",
                           lock->name);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return status;
}

void rqli_leases_await_callback(struct rqli_leases *self, const rql_lock *lock)
{
    while (self->shared.told == lock && !is_loop_thread(self)) {
        (void)pthread_cond_wait(&self->shared.callback_ended, &self->shared.mutex);
    }
}

void rqli_leases_remove(struct rqli_leases *self, rql_lock *lock)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    rqli_leases_await_callback(self, lock);
    rqli_leases_unlist(self, lock);
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

void rqli_leases_withdraw(struct rqli_leases *self, const struct rqli_withdrawal_of *what,
                          int64_t ttl_ms)
{
    int64_t until_us = rqli_after_ms(rqli_client_budget_us(self->client, rqli_now_us()), ttl_ms);
    struct rqli_withdrawal *one = rqli_withdrawal_new(what, until_us);

    if (!one) {
        return;
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (start(self) && rqli_withdrawals_add(&self->shared.withdrawals, one)) {
        rqli_leases_rouse(self);
        one = NULL;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    (void)rqli_withdrawal_free(one);
}

void rqli_leases_doubt(struct rqli_leases *self)
{
    int64_t now_us = rqli_now_us();
    rql_lock *lock;

    (void)pthread_mutex_lock(&self->shared.mutex);
    for (lock = self->shared.first; lock; lock = lock->kept.next) {
        rqli_lease_on_doubt(&lock->kept.lease, now_us);
        (void)rqli_leases_watch(self, lock);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}
