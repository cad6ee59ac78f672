#include "lock/leases.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "lock/client.h"
#include "lock/hosts.h"
#include "lock/transfer.h"
#include "net/conn.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

/*
 * The leases of a client. Its callers add, remove and look up locks here under one mutex. The
 * thread, whose step is in lease_step.c, works through what is due under the same mutex, and
 * releases it around every round trip and callback. So a lock may be removed while its renewal is
 * under way: the batch then forgets the lock, and the reply changes nothing.
 *
 * Most leases are passive: their holder neither renews nor wants to be notified of a loss. They
 * cost a place in a list, no timer, and no thread is started for them.
 */

/* The thread starts, and its connection opens, with the first lease or withdrawal that needs
 * them. */
struct rqli_leases *rqli_leases_new(rql_client *client)
{
    size_t n_sets = rqli_client_n_sets(client);
    struct rqli_leases *self = calloc(1, sizeof *self);
    struct rqli_host_end *host_ends = calloc(n_sets, sizeof *host_ends);
    struct rqli_node **seen_at =
        client->is_partitioned ? calloc(n_sets, sizeof(struct rqli_node *)) : NULL;

    if (!self || !host_ends || (client->is_partitioned && !seen_at)) {
        free(self);
        free(host_ends);
        free(seen_at);
        return NULL;
    }
    for (size_t i = 0; i < n_sets; i++) {
        atomic_init(&host_ends[i].at_us, RQLI_NEVER_US);
    }
    self->host_ends = host_ends;
    self->seen_at = seen_at;
    self->worker = (struct rqli_worker){.name = "rql-leases", .step = rqli_leases_step};
    self->client = client;
    self->shared.batch.node = self->shared.durable.node = &client->fleet.first;
    self->shared.batch.next = &self->shared.durable;
    self->shared.durable.is_durable = true;
    (void)pthread_mutex_init(&self->shared.mutex, NULL);
    return self;
}

/* Wakes the thread at at_us. Adds to the trace only if the thread comes earlier because of it.
 * Caller holds self->shared.mutex, as for all static functions below except is_extended() and
 * end_of(). */
static void rouse(struct rqli_leases *self, int64_t at_us)
{
    if (rqli_worker_rouse(&self->worker, at_us)) {
        rqli_leases_note(self, RQLI_TRACE_ROUSED, at_us);
    }
}

/* Counts the locks in each set of keys, because only nodes with locks are looked after. A single
 * server needs no count: it is looked after as long as there are leases. */
static void count_at_node(struct rqli_leases *self, const rql_lock *lock, unsigned more)
{
    if (self->client->is_partitioned) {
        (void)atomic_fetch_add(&self->client->fleet.n_held[rqli_key_set_index(lock->keys.set)],
                               more);
    }
}

/* Unlists a lock, which need not be listed. */
static void unlist(struct rqli_leases *self, rql_lock *lock)
{
    if (lock->kept.is_listed) {
        /* The counters are unsigned: this takes one away. */
        rqli_holders_count(&self->client->holders, lock->holder, (uint32_t)-1);
        count_at_node(self, lock, (unsigned)-1);
    }
    if (lock->transfer && lock->transfer->lock == lock) {
        lock->transfer->lock = NULL;
    }
    rqli_lease_table_remove(&self->shared.table, lock);
    rqli_leases_forget_renewal(self, lock);
}

void rqli_leases_free_adopted(struct rqli_leases *self, rql_lock *lock)
{
    self->shared.n_adopted--;
    unlist(self, lock);
    rqli_lock_free(lock);
}

/* Open withdrawals and claims get io_timeout_ms; those still open then are left to the ttl. After
 * the thread has ended no other thread comes here, so the rest needs no mutex. Only adopted locks
 * are freed: every other handle is its holder's. */
struct rqli_leases *rqli_leases_free(struct rqli_leases *self)
{
    rql_lock *lock;

    if (!self) {
        return NULL;
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    self->shared.shall_stop = true;
    self->shared.stop_us = rqli_after_ms(rqli_now_us(), self->client->options.io_timeout_ms);
    (void)pthread_mutex_unlock(&self->shared.mutex);
    /* Without the mutex, which the last steps of the thread take. */
    rqli_worker_stop(&self->worker);
    lock = rqli_lease_table_first(&self->shared.table);
    while (self->shared.n_adopted > 0) {
        rql_lock *next = rqli_lease_table_next(lock);

        if (lock->kept.is_adopted) {
            rqli_leases_free_adopted(self, lock);
        }
        lock = next;
    }
    rqli_leases_free_renewals(self);
    rqli_withdrawals_fini(&self->shared.withdrawals);
    rqli_lease_table_fini(&self->shared.table);
    (void)pthread_mutex_destroy(&self->shared.mutex);
    free(self->seen_at);
    free(self->host_ends);
    free(self);
    return NULL;
}

void rqli_leases_prepare(struct rqli_leases *self, int64_t until_us)
{
    bool is_started;

    if (rqli_worker_runs(&self->worker)) {
        return;
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    is_started = rqli_worker_start(&self->worker);
    (void)pthread_mutex_unlock(&self->shared.mutex);
    /* Without the mutex, which the first step of the thread takes. */
    if (is_started) {
        rqli_worker_await(&self->worker, until_us);
    }
}

/* Watches this lease, because the thread must know it by the time that something of it is due.
 * False: no thread, or no memory. */
static bool watch(struct rqli_leases *self, rql_lock *lock)
{
    if (!rqli_worker_start(&self->worker) || !rqli_lease_table_watch(&self->shared.table, lock)) {
        return false;
    }
    /* plan() has the thread look again soon, so that the next leases need not wake it. */
    self->shared.added++;
    rouse(self,
          rqli_earlier(rqli_lease_due_us(&lock->kept.lease), rqli_now_us() + RQLI_SERVER_LOOK_US));
    return true;
}

/* False: no memory, or no thread. The thread is needed to renew, to claim, and to call back at the
 * loss. A descriptor for the loss starts the thread when the caller asks for one. */
static bool look_after(struct rqli_leases *self, rql_lock *lock)
{
    const struct rqli_lease *lease = &lock->kept.lease;
    bool is_passive = !lease->renews && lease->is_claimed && !lock->on_lost;

    if (lease->renews) {
        rqli_lease_table_add_renewed(&self->shared.table, lock);
    }
    return is_passive || watch(self, lock);
}

/* Something of the lock may be due earlier than before. */
static void rouse_for(struct rqli_leases *self, rql_lock *lock)
{
    if (lock->kept.is_watched) {
        rqli_lease_table_update(&self->shared.table, lock);
        rouse(self, rqli_lease_due_us(&lock->kept.lease));
    }
}

/* Applies the result of a transfer to the lease of its new owner. Also called when the new owner
 * lists its lock, for a transfer that was settled before that. */
static void apply_transfer(struct rqli_leases *self, const struct rqli_transfer *transfer)
{
    rql_lock *lock = transfer->lock;

    if (!lock || transfer->state == RQLI_TRANSFER_SENT) {
        return;
    }
    /* A lease that has ended meanwhile, and was perhaps reported, must not come back. */
    if (transfer->state == RQLI_TRANSFER_DONE &&
        rqli_lease_state(&lock->kept.lease, rqli_now_us()) != RQL_GONE) {
        rqli_lease_on_extended(&lock->kept.lease, transfer->sent_us, transfer->left_ms);
    } else {
        rqli_lease_on_gone(&lock->kept.lease);
    }
    rouse_for(self, lock);
}

rql_status rqli_leases_add(struct rqli_leases *self, rql_lock *lock, rql_error *error)
{
    rql_status status = RQL_OK;

    if (lock->kept.lease.renews) {
        /* Never cleared. It keeps clients that renew nothing from taking the mutex in
         * rqli_leases_extends(). */
        atomic_store_explicit(&self->has_extended, true, memory_order_relaxed);
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    /* Under the mutex, so that a heartbeat that is answered meanwhile either finds the lock in the
     * list, or has set this end before. */
    lock->kept.lease.host_end_us = rqli_leases_host_end_us(self, lock->keys.set);
    rqli_lease_table_add(&self->shared.table, lock);
    rqli_holders_count(&self->client->holders, lock->holder, 1);
    count_at_node(self, lock, 1);
    if (!look_after(self, lock)) {
        unlist(self, lock);
        status = rqli_fail(error, RQL_E_NOMEM, "%s: the background thread could not be started",
                           lock->name);
    } else if (lock->transfer) {
        lock->transfer->lock = lock;
        apply_transfer(self, lock->transfer);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return status;
}

/* A lease in doubt is verified first, which asks for the time that is relied on and no more. */
void rqli_leases_stop_renewal(struct rqli_leases *self, rql_lock *const *locks, size_t count)
{
    int64_t now_us = rqli_now_us();

    (void)pthread_mutex_lock(&self->shared.mutex);
    for (size_t i = 0; i < count; i++) {
        struct rqli_lease *lease = &locks[i]->kept.lease;

        if (rqli_lease_state(lease, now_us) == RQL_DOUBTFUL) {
            lease->renews = false;
        } else {
            rqli_lease_stop_renewal(lease);
        }
        rqli_lease_table_update(&self->shared.table, locks[i]);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* Waits until no callback of this lock runs, and releases the mutex while it waits. On the leases'
 * own thread the caller is that callback, which is not waited for. */
static void await_callback(struct rqli_leases *self, const rql_lock *lock)
{
    while (self->shared.in_callback == lock && !rqli_worker_is_here(&self->worker)) {
        /* Read under the mutex: if the callback ends before the wait begins, the value changes and
         * the wait returns. */
        int32_t seen = atomic_load(&self->callback_ended);

        (void)pthread_mutex_unlock(&self->shared.mutex);
        rqli_signal_wait(&self->callback_ended, seen, RQLI_NEVER_US);
        (void)pthread_mutex_lock(&self->shared.mutex);
    }
}

void rqli_leases_remove(struct rqli_leases *self, rql_lock *const *locks, size_t count)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    for (size_t i = 0; i < count; i++) {
        await_callback(self, locks[i]);
        unlist(self, locks[i]);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

void rqli_leases_adopt(struct rqli_leases *self, rql_lock *lock)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    await_callback(self, lock);
    lock->kept.is_adopted = true;
    self->shared.n_adopted++;
    /* The lock is not renewed any more, so its acquirer may wait for it as for any other lock. */
    rqli_lease_on_forgotten(&lock->kept.lease, rqli_now_us());
    /* If the thread has claimed the lock meanwhile, nothing is left to do. Else the claim is due
     * now, and is repeated until it is answered or the lease ends; both free the handle in
     * report_loss(). */
    if (lock->kept.lease.is_claimed || !watch(self, lock)) {
        rqli_leases_free_adopted(self, lock);
    } else {
        rouse(self, 0);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

void rqli_leases_withdraw(struct rqli_leases *self, const struct rqli_withdrawal_of *what,
                          int64_t ttl_ms)
{
    /* A try that is still on its way may be granted yet, and lasts for ttl_ms from then on. */
    int64_t until_us = rqli_after_ms(rqli_client_budget_us(self->client, rqli_now_us()), ttl_ms);
    struct rqli_withdrawal *one = rqli_withdrawal_new(what, until_us);

    if (!one) {
        return;
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (rqli_worker_start(&self->worker) && rqli_withdrawals_add(&self->shared.withdrawals, one)) {
        rouse(self, 0);
        one = NULL;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    (void)rqli_withdrawal_free(one);
}

bool rqli_leases_withdraws(struct rqli_leases *self, rql_lock *const *locks, size_t count)
{
    bool has_one = false;

    /* A request that this acquirer has left behind was added before its caller could ask again. */
    if (atomic_load_explicit(&self->shared.withdrawals.count, memory_order_relaxed) == 0) {
        return false;
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    for (size_t i = 0; !has_one && i < count; i++) {
        has_one =
            rqli_withdrawals_have(&self->shared.withdrawals, locks[i]->name, locks[i]->acquirer);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return has_one;
}

void rqli_leases_doubt(struct rqli_leases *self, const struct rqli_key_set *set)
{
    int64_t now_us = rqli_now_us();

    (void)pthread_mutex_lock(&self->shared.mutex);
    for (rql_lock *lock = rqli_lease_table_first(&self->shared.table); lock;
         lock = rqli_lease_table_next(lock)) {
        if (set && lock->keys.set != set) {
            continue;
        }
        rqli_lease_on_doubt(&lock->kept.lease, now_us);
        /* Also passive ones, because only the thread verifies. If that fails the lease stays
         * doubtful. */
        (void)watch(self, lock);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

static bool is_extended(struct rqli_leases *self, const char *name, const char *acquirer)
{
    bool extends;

    (void)pthread_mutex_lock(&self->shared.mutex);
    extends = rqli_lease_table_renews(&self->shared.table, name, acquirer, rqli_now_us());
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return extends;
}

/* Every acquisition calls this, and few clients extend. A thread that does not see the flag yet is
 * not the holder of such a lock. */
bool rqli_leases_extends(struct rqli_leases *self, const char *name, const char *acquirer)
{
    return atomic_load_explicit(&self->has_extended, memory_order_relaxed) &&
           is_extended(self, name, acquirer);
}

struct rqli_lease rqli_leases_lease(struct rqli_leases *self, const rql_lock *lock)
{
    struct rqli_lease lease;

    (void)pthread_mutex_lock(&self->shared.mutex);
    lease = lock->kept.lease;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return lease;
}

/* Even an extension can come too late. Then the lease stays gone, because its loss may have been
 * reported. */
bool rqli_leases_on_extended(struct rqli_leases *self, rql_lock *lock, int64_t sent_us,
                             int64_t left_ms)
{
    bool is_gone;

    (void)pthread_mutex_lock(&self->shared.mutex);
    /* The lease may have ended while the server was asked. And below, what the server granted may
     * be over by the time that the answer is here. */
    is_gone = rqli_lease_state(&lock->kept.lease, rqli_now_us()) == RQL_GONE;
    if (!is_gone) {
        /* Earlier than before if another program had shortened the lock. */
        rqli_lease_on_extended(&lock->kept.lease, sent_us, left_ms);
        rouse_for(self, lock);
        is_gone = rqli_lease_state(&lock->kept.lease, rqli_now_us()) == RQL_GONE;
    }
    if (is_gone) {
        /* So far the lease is gone by time alone. From here on it stays gone, and the thread
         * reports the loss. */
        rqli_lease_on_gone(&lock->kept.lease);
        rouse_for(self, lock);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return !is_gone;
}

/* All re-entries of a thread share one grant, and its nonce. */
void rqli_leases_on_shortened(struct rqli_leases *self, const rql_lock *ended, int64_t sent_us,
                              int64_t left_ms)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    for (rql_lock *lock = rqli_lease_table_first(&self->shared.table); lock;
         lock = rqli_lease_table_next(lock)) {
        if (strcmp(lock->grant_nonce, ended->grant_nonce) == 0) {
            rqli_lease_on_shortened(&lock->kept.lease, sent_us, left_ms);
            rouse_for(self, lock);
        }
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

void rqli_leases_on_gone(struct rqli_leases *self, rql_lock *lock)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    rqli_lease_on_gone(&lock->kept.lease);
    rouse_for(self, lock);
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* The nonce is from a reply of the server, so its length has to be checked. */
void rqli_leases_on_taken(struct rqli_leases *self, struct rqli_slice grant_nonce)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    for (rql_lock *lock = rqli_lease_table_first(&self->shared.table); lock;
         lock = rqli_lease_table_next(lock)) {
        if (grant_nonce.length == sizeof lock->grant_nonce - 1 &&
            memcmp(lock->grant_nonce, grant_nonce.data, grant_nonce.length) == 0) {
            rqli_lease_on_gone(&lock->kept.lease);
            rouse_for(self, lock);
        }
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

void rqli_leases_on_cut(struct rqli_leases *self)
{
    if (rqli_worker_runs(&self->worker)) {
        (void)pthread_mutex_lock(&self->shared.mutex);
        atomic_store(&self->shall_arrive, true);
        rouse(self, 0);
        (void)pthread_mutex_unlock(&self->shared.mutex);
    }
}

/* An eventfd is made at the first call, so that a hold without one costs no descriptor. If the loss
 * came first, the descriptor is readable at once. */
rql_status rqli_leases_lost_fd(struct rqli_leases *self, rql_lock *lock, int *out, rql_error *error)
{
    rql_status status = RQL_OK;

    (void)pthread_mutex_lock(&self->shared.mutex);
    if (lock->kept.lost_fd < 0) {
        lock->kept.lost_fd = rqli_fd_lift(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    }
    /* A descriptor without a thread stays with the lock, for the next call or until the lock is
     * freed. */
    if (lock->kept.lost_fd < 0 || !watch(self, lock)) {
        status =
            rqli_fail(error, RQL_E_NOMEM, "%s: no descriptor or no thread to be had", lock->name);
    } else {
        if (lock->kept.lease.is_reported) {
            (void)eventfd_write(lock->kept.lost_fd, 1);
        }
        *out = lock->kept.lost_fd;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return status;
}

rql_status rqli_leases_share_lost_fd(struct rqli_leases *self, rql_lock *lock, int fd,
                                     rql_error *error)
{
    rql_status status = RQL_OK;
    int unused;

    (void)pthread_mutex_lock(&self->shared.mutex);
    if (lock->kept.lost_fd < 0) {
        /* A duplicate, since each handle closes its own descriptor. */
        lock->kept.lost_fd = fcntl(fd, F_DUPFD_CLOEXEC, RQLI_FD_LEAST);
        status = lock->kept.lost_fd < 0 ? RQL_E_NOMEM : RQL_OK;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    if (status) {
        return rqli_fail(error, status, "%s: no descriptor to be had", lock->name);
    }
    return rqli_leases_lost_fd(self, lock, &unused, error);
}

/* visit must not call any function of the leases, because the mutex is not recursive. An adopted
 * lock has no holder, and is left out. */
void rqli_leases_each(struct rqli_leases *self, void (*visit)(const rql_lock *lock, void *context),
                      void *context)
{
    int64_t now_us = rqli_now_us();

    (void)pthread_mutex_lock(&self->shared.mutex);
    for (rql_lock *lock = rqli_lease_table_first(&self->shared.table); lock;
         lock = rqli_lease_table_next(lock)) {
        if (!lock->kept.is_adopted && rqli_lease_state(&lock->kept.lease, now_us) != RQL_GONE) {
            visit(lock, context);
        }
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* ---- hosts ---- */

/*
 * Leases end with their hosts: a host that is silent for too long counts as dead, and its locks are
 * given to other waiters. Each set of keys has hosts of its own, and an end of its own. If a server
 * cannot be reached the leases of its partitions end, and no others.
 */

static _Atomic int64_t *end_of(const struct rqli_leases *self, const struct rqli_key_set *set)
{
    return &self->host_ends[rqli_client_number_of(self->client, set)].at_us;
}

int64_t rqli_leases_host_end_us(const struct rqli_leases *self, const struct rqli_key_set *set)
{
    return atomic_load_explicit(end_of(self, set), memory_order_relaxed);
}

bool rqli_leases_is_overdue(const struct rqli_leases *self, const struct rqli_key_set *set,
                            int64_t now_us)
{
    return rqli_leases_host_end_us(self, set) <= now_us;
}

void rqli_leases_on_probed(struct rqli_leases *self, const struct rqli_key_set *set,
                           int64_t sent_us, int64_t silence_ms)
{
    *end_of(self, set) = rqli_after_ms(sent_us, silence_ms) - rqli_lease_margin_us(silence_ms);
}

/* A later end needs no wake-up: the thread wakes at the old one and finds that it has moved. */
void rqli_leases_rebind(struct rqli_leases *self)
{
    int64_t now_us = rqli_now_us();

    (void)pthread_mutex_lock(&self->shared.mutex);
    for (rql_lock *lock = rqli_lease_table_first(&self->shared.table); lock;
         lock = rqli_lease_table_next(lock)) {
        struct rqli_lease *lease = &lock->kept.lease;
        int64_t before_us = lease->host_end_us;

        /* A lease that has ended, and was perhaps reported, must not come back by a later end. */
        if (rqli_lease_state(lease, now_us) != RQL_GONE) {
            lease->host_end_us = rqli_leases_host_end_us(self, lock->keys.set);
        }
        if (lease->host_end_us < before_us) {
            rouse_for(self, lock);
        }
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* Takes the mutex, as rqli_leases_on_left() does, so that the later of the two decides. */
void rqli_leases_on_probing(struct rqli_leases *self, const struct rqli_key_set *set,
                            int64_t silence_ms)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (rqli_leases_host_end_us(self, set) == RQLI_NEVER_US) {
        rqli_leases_on_probed(self, set, rqli_now_us(), silence_ms);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* Hosts are marked as sent before rqli_leases_on_probing() is called for them. */
void rqli_leases_on_left(struct rqli_leases *self, const struct rqli_key_set *set)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (!rqli_hosts_are_told(self->client->hosts, set)) {
        *end_of(self, set) = RQLI_NEVER_US;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* Leases that are held stay bound, because the server may still count their hosts as dead. */
void rqli_leases_on_unwatched(struct rqli_leases *self)
{
    for (size_t i = 0; i < rqli_client_n_sets(self->client); i++) {
        self->host_ends[i].at_us = RQLI_NEVER_US;
    }
}

/* ---- hand-overs inside the client ---- */

/*
 * The effect of hand-overs inside the client on the leases of the new owners. Only the functions
 * here change the state of a transfer. They hold the mutex of the leases if another thread may know
 * of the transfer.
 */

void rqli_leases_on_handed_on(struct rqli_leases *self, struct rqli_transfer *from,
                              struct rqli_transfer *transfer)
{
    enum rqli_transfer_state state = RQLI_TRANSFER_SENT;

    if (!from) { /* no other thread knows of it yet */
        atomic_store_explicit(&transfer->state, state, memory_order_release);
        return;
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (from->state == RQLI_TRANSFER_FAILED) {
        atomic_store(&transfer->is_refused, true);
        state = RQLI_TRANSFER_FAILED;
    } else if (from->state == RQLI_TRANSFER_SENT) {
        (void)atomic_fetch_add_explicit(&transfer->references, 1, memory_order_relaxed);
        from->onward = transfer;
    }
    transfer->state = state;
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

void rqli_leases_on_given_up(struct rqli_leases *self, struct rqli_transfer *transfer)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    for (struct rqli_transfer *next = transfer->onward; next; next = next->onward) {
        atomic_store(&next->is_refused, true);
        if (next->state == RQLI_TRANSFER_SENT) {
            next->state = RQLI_TRANSFER_FAILED;
            apply_transfer(self, next);
        }
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* Applies the answer once. If a repeated call gets a different answer, that answer no longer says
 * anything about the lock. */
void rqli_leases_on_transferred(struct rqli_leases *self, struct rqli_transfer *transfer,
                                int64_t sent_us, int64_t left_ms)
{
    struct rqli_transfer *onward;

    (void)pthread_mutex_lock(&self->shared.mutex);
    if (transfer->state == RQLI_TRANSFER_SENT) {
        transfer->sent_us = sent_us;
        transfer->left_ms = left_ms;
        transfer->state = left_ms < 0 ? RQLI_TRANSFER_FAILED : RQLI_TRANSFER_DONE;
        apply_transfer(self, transfer);
    }
    onward = transfer->onward;
    transfer->onward = NULL;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    rqli_transfer_give(self->client, onward);
}
