#include "lock/leases.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/os.h"
#include "base/threads.h"
#include "lock/client.h"
#include "lock/held_calls.h"
#include "lock/history.h"
#include "lock/hosts.h"
#include "lock/transfer.h"
#include "observe/observe.h"
#include "wire/answer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/*
 * The leases of a client. Its callers add, remove and look up locks here, and the thread in the
 * background renews and claims them and reports losses, all under one mutex. The mutex is released
 * around every round trip and callback, so a lock may be removed while its renewal is under way.
 *
 * A lease is passive if its holder neither renews it nor wants to be notified of a loss. It costs a
 * place in a list, no timer, and no thread is started for it.
 */

struct rqli_leases *rqli_leases_new(rql_client *client, struct rqli_background *background)
{
    size_t n_sets = rqli_client_n_sets(client);
    struct rqli_leases *self = calloc(1, sizeof *self);
    _Atomic int64_t *host_ends_us = calloc(n_sets, sizeof *host_ends_us);

    if (!self || !host_ends_us) {
        free(self);
        free(host_ends_us);
        return NULL;
    }
    for (size_t i = 0; i < n_sets; i++) {
        atomic_init(&host_ends_us[i], RQLI_NEVER_US);
    }
    self->host_ends_us = host_ends_us;
    self->client = client;
    self->background = background;
    return self;
}

/* The caller of every static function below holds the mutex of the background, except of
 * is_in_callback() and end_of(). */

/* Iterate over all locks, in no order. */
static rql_lock *first(const struct rqli_leases *self)
{
    return rqli_lock_of_link(self->shared.all.first);
}

static rql_lock *next(const rql_lock *lock)
{
    return rqli_lock_of_link(lock->kept.link.next);
}

/* Sets the times of a lock that is watched, after a change of its lease. */
static void update(struct rqli_leases *self, rql_lock *lock)
{
    if (lock->kept.is_watched) {
        rqli_background_set(self->background, &lock->kept.duty,
                            rqli_lease_renewal_us(&lock->kept.lease));
        rqli_background_fire_at(self->background, &self->background->shared.losses,
                                &lock->kept.loss, rqli_lease_loss_us(&lock->kept.lease));
    }
}

/* ---- what is renewed, by name and acquirer ---- */

/* The name and acquirer of a lock do not change while it is listed, so it is found where it was
 * put. A lock in the map that is lost, or whose renewal was stopped, does not count. */
static bool is_renewed_for(const rql_lock *lock, const char *name, const char *acquirer,
                           int64_t now_us)
{
    return lock->kept.lease.renews && rqli_lock_is_of(lock, name, acquirer) &&
           rqli_lease_state(&lock->kept.lease, now_us) != RQL_GONE;
}

/* ---- the list ---- */

/* Counts the re-entries, and the locks in each set of keys, because only nodes with locks are
 * looked after. A single server needs no count: it is looked after as long as there are leases. */
static void count_lock(struct rqli_leases *self, const rql_lock *lock, unsigned more)
{
    if (lock->process != RQL_LOCK_OBTAINING) {
        (void)atomic_fetch_add(&self->n_reentries, more);
    }
    if (self->client->is_partitioned) {
        (void)atomic_fetch_add(&self->client->fleet.n_held[rqli_key_set_index(lock->keys.set)],
                               more);
    }
}

/* Unlists a lock, which need not be listed. */
static void unlist(struct rqli_leases *self, rql_lock *lock)
{
    if (lock->kept.listing != RQLI_LOCK_UNLISTED) {
        /* The counters are unsigned: this takes one away. */
        rqli_holders_count(&self->client->holders, lock->holder, (uint32_t)-1);
        count_lock(self, lock, (unsigned)-1);
        rqli_dlist_remove(&self->shared.all, &lock->kept.link);
        lock->kept.listing = RQLI_LOCK_UNLISTED;
        if (rqli_client_is_draining(self->client)) {
            (void)atomic_fetch_add(&self->unlisted, 1);
            rqli_signal_wake(&self->unlisted);
        }
    }
    if (lock->transfer && lock->transfer->lock == lock) {
        lock->transfer->lock = NULL;
    }
    if (lock->kept.is_watched) {
        rqli_background_drop(self->background, &lock->kept.duty);
        rqli_timers_unreserve(&self->background->shared.losses, &lock->kept.loss);
        lock->kept.is_watched = false;
    }
    if (lock->kept.is_renewed) {
        rqli_hash_map_remove(&self->shared.renewed, &lock->kept.renewed);
        lock->kept.is_renewed = false;
    }
}

/* Frees a lock of rqli_leases_adopt() when its claim is done or has failed for good. */
static void free_adopted(struct rqli_leases *self, rql_lock *lock)
{
    self->background->shared.n_adopted--;
    unlist(self, lock);
    rqli_lock_free(lock);
}

/* Only adopted locks are freed: every other handle is its holder's. */
struct rqli_leases *rqli_leases_free(struct rqli_leases *self)
{
    rql_lock *lock;

    if (!self) {
        return NULL;
    }
    lock = first(self);
    while (self->background->shared.n_adopted > 0) {
        rql_lock *following = next(lock);

        if (lock->kept.listing == RQLI_LOCK_ADOPTED) {
            free_adopted(self, lock);
        }
        lock = following;
    }
    rqli_hash_map_fini(&self->shared.renewed);
    free(self->host_ends_us);
    free(self);
    return NULL;
}

/* ---- callbacks ---- */

/* The mutex is released for a callback. A call that ends the lock meanwhile waits for it. */
static void begin_callback(struct rqli_leases *self, const rql_lock *lock)
{
    self->shared.in_callback = lock;
    rqli_background_unlock(self->background);
}

/* Returns false if the callback has ended the lock. */
static bool is_in_callback(struct rqli_leases *self, const rql_lock *lock)
{
    bool is_its;

    rqli_background_lock(self->background);
    is_its = self->shared.in_callback == lock;
    rqli_background_unlock(self->background);
    return is_its;
}

static void end_callback(struct rqli_leases *self)
{
    rqli_background_lock(self->background);
    self->shared.in_callback = NULL;
    (void)atomic_fetch_add(&self->callback_ended, 1);
    rqli_signal_wake(&self->callback_ended);
}

/* The descriptor is written first, because a thread that polls it must not depend on a callback
 * that takes its time. */
static void report_loss(struct rqli_leases *self, rql_lock *lock)
{
    const struct rqli_figures figures = rqli_lock_figures(lock);

    rqli_lease_on_gone(&lock->kept.lease);
    lock->kept.lease.is_reported = true;
    update(self, lock);
    rqli_history_note_loss(lock);
    if (lock->kept.lost_fd >= 0) {
        rqli_os_event_set(lock->kept.lost_fd);
    }
    if (!lock->on_lost && !lock->subject.instrumenter) {
        rqli_observe(RQLI_ON_LOST, &lock->subject, &figures);
        return;
    }
    begin_callback(self, lock);
    rqli_observe(RQLI_ON_LOST, &lock->subject, &figures);
    if (is_in_callback(self, lock) && lock->on_lost) {
        lock->on_lost(lock, lock->user_data);
    }
    end_callback(self);
}

/* Notifies a holder when others begin to wait, and when its host is asked to release its locks. The
 * lock may be gone afterwards. `answer` is that of its renewal: the server's time, the TTL, how
 * many wait, and until when the holder is asked to release it; 0: it is not. */
static void report_wanted(struct rqli_leases *self, rql_lock *lock,
                          const struct rqli_outcome *answer)
{
    const int64_t n_waiting = answer->fourth;
    const int64_t until_us = answer->fifth;
    const int64_t left_us = until_us > answer->second ? until_us - answer->second : 0;
    const bool is_first = n_waiting > 0 && !lock->kept.was_wanted;
    const bool is_asked = until_us > 0 && until_us != lock->kept.asked_us;
    const rql_wanted wanted = {
        .waiters = n_waiting,
        .within_ms = is_asked || left_us > 0 ? left_us / 1000 : RQL_FOREVER,
    };

    lock->kept.was_wanted = n_waiting > 0;
    lock->kept.asked_us = until_us;
    if (is_first || is_asked) {
        begin_callback(self, lock);
        lock->on_wanted(lock, &wanted, lock->on_wanted_data);
        end_callback(self);
    }
}

/* Asks the holder to release its lock. The lock may be gone afterwards. */
static void ask_holder(struct rqli_leases *self, rql_lock *lock)
{
    const int64_t now_us = rqli_now_us();
    const int64_t left_us = self->shared.drained_us - now_us;
    const rql_wanted wanted = {
        .waiters = -1,
        .within_ms = self->shared.drained_us == RQLI_NEVER_US ? RQL_FOREVER
                     : left_us > 0                            ? left_us / 1000
                                                              : 0,
    };

    if (lock->on_wanted && lock->kept.listing == RQLI_LOCK_LISTED &&
        rqli_lease_state(&lock->kept.lease, now_us) != RQL_GONE) {
        begin_callback(self, lock);
        lock->on_wanted(lock, &wanted, lock->on_wanted_data);
        end_callback(self);
    }
}

/* Goes through all locks. The list may change in each callback, but none is added to it: as each
 * lock moves to its end first, all are done when the first one is. */
static void ask_holders(struct rqli_due *due)
{
    struct rqli_leases *self = RQLI_OWNER(due, struct rqli_leases, shared.drain_look);

    for (rql_lock *lock = first(self); lock && !lock->kept.was_asked; lock = first(self)) {
        lock->kept.was_asked = true;
        rqli_dlist_remove(&self->shared.all, &lock->kept.link);
        rqli_dlist_add(&self->shared.all, &lock->kept.link);
        ask_holder(self, lock);
    }
}

static void on_loss_due(struct rqli_due *due)
{
    rql_lock *lock = RQLI_OWNER(due, rql_lock, kept.loss);
    struct rqli_leases *self = lock->client->leases;

    if (lock->kept.listing == RQLI_LOCK_ADOPTED) {
        free_adopted(self, lock);
    } else {
        report_loss(self, lock);
    }
}

/* ---- renewal and claim ---- */

/* Renews no lock whose owner's thread has ended: it cannot be working under the lock any more. The
 * grant itself is still claimed. If the lock is gone that is reported next. A renewal that is
 * repeated may be early, because the lock was extended since. */
static bool begin_renewal(struct rqli_duty *duty, int64_t now_us)
{
    rql_lock *lock = rqli_lock_of_duty(duty);
    struct rqli_lease *lease = &lock->kept.lease;

    if (rqli_lease_state(lease, now_us) == RQL_GONE) {
        return false;
    }
    if (now_us < rqli_lease_renewal_us(lease)) {
        update(lock->client->leases, lock);
        return false;
    }
    if (lease->renews && !rqli_thread_lives(lock->owner_thread)) {
        rqli_lease_on_forgotten(lease, now_us);
    }
    if (!rqli_lease_wants_renewal(lease, now_us, &lock->kept.asks_ms)) {
        rqli_lease_stop_renewal(lease, now_us);
        return false;
    }
    return true;
}

static void write_renewal(struct rqli_duty *duty, struct rqli_call *call)
{
    rql_lock *lock = rqli_lock_of_duty(duty);

    lock->kept.asked_alone = lock->share.units == 0;
    rqli_held_write_extension(lock, lock->kept.asks_ms, call);
    if (lock->on_wanted) {
        rqli_call_text(call, "w"); /* how many wait? */
    }
}

/* Returns whether the last renewal asked for a lock that is held alone, but may be shared by now:
 * then a refusal does not say that it is gone. */
static bool is_outdated(const rql_lock *lock)
{
    return lock->kept.asked_alone && (lock->kept.is_lowering || lock->share.units > 0);
}

/* Applies the reply to the lock. A reply that makes no sense is a setback, and so is one that is
 * outdated or less durable than it has to be: the next attempt may succeed. */
static void read_renewal(struct rqli_duty *duty, const struct rqli_batch *answer,
                         const struct rqli_reply *reply, rql_status fault)
{
    rql_lock *lock = rqli_lock_of_duty(duty);
    struct rqli_leases *self = lock->client->leases;
    struct rqli_lease *lease = &lock->kept.lease;
    struct rqli_outcome outcome;
    bool is_renewed = false;

    (void)fault;
    if (!reply || !rqli_outcome_read(reply, &outcome) ||
        (outcome.what == 1 ? !rqli_durability_is_met(&lock->durability, &answer->acks)
                           : is_outdated(lock))) {
        rqli_lease_on_setback(lease, rqli_now_us());
    } else if (outcome.what == 1 && lock->kept.listing != RQLI_LOCK_ADOPTED) {
        rqli_lease_on_extended(lease, answer->sent_us, outcome.third);
        is_renewed = rqli_lease_state(lease, rqli_now_us()) != RQL_GONE;
        rqli_observe(RQLI_ON_RENEWED, &lock->subject, NULL);
    } else { /* gone; or adopted, and nothing more has to be done for it */
        rqli_lease_on_gone(lease);
    }
    update(self, lock);
    if (lock->on_wanted && is_renewed) {
        report_wanted(self, lock, &outcome);
    }
}

static const struct rqli_duty_ops renewal_ops = {
    .begin = begin_renewal, .write = write_renewal, .read = read_renewal, .is_urgent = true};

/* Watches this lease, because the thread must know it by the time that something of it is due. If
 * it is watched already, this only updates its times. Room for them is made first, so that an
 * update needs no memory: its failure could not be reported. False: no thread, or no memory. */
static bool watch(struct rqli_leases *self, rql_lock *lock)
{
    struct rqli_background *background = self->background;

    if (!lock->kept.is_watched) {
        lock->kept.duty.ops = &renewal_ops;
        lock->kept.duty.set = lock->keys.set;
        lock->kept.duty.durability = &lock->durability;
        lock->kept.loss.fire = on_loss_due;
        if (!rqli_background_reserve(background, &lock->kept.duty)) {
            return false;
        }
        if (!rqli_timers_reserve(&background->shared.losses)) {
            rqli_background_drop(background, &lock->kept.duty);
            return false;
        }
        lock->kept.is_watched = true;
    }
    update(self, lock);
    /* The thread looks again soon, so that the next leases need not wake it. */
    background->shared.n_added++;
    rqli_background_look(background, background->server_look, rqli_now_us() + RQLI_SERVER_LOOK_US);
    return true;
}

/* False: no memory, or no thread. The thread is needed to renew, to claim, and to call back at the
 * loss. A descriptor for the loss starts the thread when the caller asks for one. */
static bool look_after(struct rqli_leases *self, rql_lock *lock)
{
    const struct rqli_lease *lease = &lock->kept.lease;
    bool is_passive = !lease->renews && lease->claim != RQLI_LEASE_UNCLAIMED && !lock->on_lost;

    if (lease->renews) {
        rqli_hash_map_add(&self->shared.renewed, &lock->kept.renewed,
                          rqli_lock_hash(lock->name, lock->acquirer));
        lock->kept.is_renewed = true;
    }
    return is_passive || watch(self, lock);
}

/* ---- the calls ---- */

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
    update(self, lock);
}

rql_status rqli_leases_add(struct rqli_leases *self, rql_lock *lock, rql_error *error)
{
    rql_status status = RQL_OK;

    if (lock->kept.lease.renews) {
        /* Never cleared. It keeps clients that renew nothing from taking the mutex in
         * rqli_leases_extends(). */
        atomic_store_explicit(&self->has_extended, true, memory_order_relaxed);
    }
    if (lock->share.units > 0) {
        atomic_store_explicit(&self->has_shared, true, memory_order_relaxed);
    }
    rqli_background_lock(self->background);
    if (rqli_client_is_draining(self->client)) { /* a grant that came meanwhile */
        rqli_background_unlock(self->background);
        return rqli_client_fail_draining(lock->name, error);
    }
    /* Under the mutex, so that a heartbeat that is answered meanwhile either finds the lock in the
     * list, or has set this end before. */
    lock->kept.lease.host_end_us = rqli_leases_host_end_us(self, lock->keys.set);
    rqli_dlist_add_first(&self->shared.all, &lock->kept.link);
    lock->kept.listing = RQLI_LOCK_LISTED;
    rqli_holders_count(&self->client->holders, lock->holder, 1);
    count_lock(self, lock, 1);
    if (!look_after(self, lock)) {
        unlist(self, lock);
        status = rqli_fail(error, RQL_E_NOMEM, "%s: the background thread could not be started",
                           lock->name);
    } else if (lock->transfer) {
        lock->transfer->lock = lock;
        apply_transfer(self, lock->transfer);
    }
    rqli_background_unlock(self->background);
    return status;
}

void rqli_leases_stop_renewal(struct rqli_leases *self, rql_lock *const *locks, size_t count)
{
    int64_t now_us = rqli_now_us();

    rqli_background_lock(self->background);
    for (size_t i = 0; i < count; i++) {
        rqli_lease_stop_renewal(&locks[i]->kept.lease, now_us);
        update(self, locks[i]);
    }
    rqli_background_unlock(self->background);
}

/* Waits until no callback of this lock runs, and releases the mutex while it waits. On the leases'
 * own thread the caller is that callback, which is not waited for. It ends the lock, and another
 * lock may soon have the address, so the callback is no lock's from here on. */
static void await_callback(struct rqli_leases *self, const rql_lock *lock)
{
    while (self->shared.in_callback == lock) {
        /* Read under the mutex: if the callback ends before the wait begins, the value changes and
         * the wait returns. */
        int32_t seen = atomic_load(&self->callback_ended);

        if (rqli_worker_is_here(&self->background->worker)) {
            self->shared.in_callback = NULL;
            return;
        }
        rqli_background_unlock(self->background);
        rqli_signal_wait(&self->callback_ended, seen, RQLI_NEVER_US);
        rqli_background_lock(self->background);
    }
}

void rqli_leases_remove(struct rqli_leases *self, rql_lock *const *locks, size_t count)
{
    rqli_background_lock(self->background);
    for (size_t i = 0; i < count; i++) {
        await_callback(self, locks[i]);
        unlist(self, locks[i]);
    }
    rqli_background_unlock(self->background);
}

void rqli_leases_adopt(struct rqli_leases *self, rql_lock *lock)
{
    rqli_background_lock(self->background);
    await_callback(self, lock);
    lock->kept.listing = RQLI_LOCK_ADOPTED;
    self->background->shared.n_adopted++;
    /* The lock is not renewed any more, so its acquirer may wait for it as for any other lock. */
    rqli_lease_on_forgotten(&lock->kept.lease, rqli_now_us());
    /* If the thread has claimed the lock meanwhile, or reported its loss, nothing is left to do.
     * Else the claim is due now, and is repeated until it is answered or the lease ends; both free
     * the handle in on_loss_due(). */
    if (lock->kept.lease.claim != RQLI_LEASE_UNCLAIMED || lock->kept.lease.is_reported ||
        !watch(self, lock)) {
        free_adopted(self, lock);
    }
    rqli_background_unlock(self->background);
}

void rqli_leases_doubt(struct rqli_leases *self, const struct rqli_key_set *set,
                       const rql_lock *one)
{
    int64_t now_us = rqli_now_us();

    rqli_background_lock(self->background);
    if (!one) {
        atomic_store(&self->doubted_us, now_us);
        (void)atomic_fetch_add(&self->n_changes, 1);
    }
    for (rql_lock *lock = first(self); lock; lock = next(lock)) {
        if ((set && lock->keys.set != set) || (one && lock != one)) {
            continue;
        }
        rqli_lease_on_doubt(&lock->kept.lease, now_us);
        /* Also passive ones, because only the thread verifies. If that fails the lease stays
         * doubtful. */
        (void)watch(self, lock);
    }
    rqli_background_unlock(self->background);
}

/* Every acquisition calls this, and few clients extend. A thread that does not see the flag yet is
 * not the holder of such a lock. */
bool rqli_leases_extends(struct rqli_leases *self, const char *name, const char *acquirer)
{
    struct rqli_hash_entry *at;
    int64_t now_us;

    if (!atomic_load_explicit(&self->has_extended, memory_order_relaxed)) {
        return false;
    }
    rqli_background_lock(self->background);
    now_us = rqli_now_us();
    at = rqli_hash_map_find(&self->shared.renewed, rqli_lock_hash(name, acquirer));
    while (at && !is_renewed_for(RQLI_OWNER(at, rql_lock, kept.renewed), name, acquirer, now_us)) {
        at = rqli_hash_map_next(at);
    }
    rqli_background_unlock(self->background);
    return at != NULL;
}

bool rqli_leases_has(struct rqli_leases *self, const rql_lock *lock)
{
    const int64_t now_us = rqli_now_us();
    struct rqli_dlink *at;
    bool has = false;

    if (!rqli_holders_has(&self->client->holders, lock->holder, now_us)) {
        return false;
    }
    rqli_background_lock(self->background);
    for (at = self->shared.all.first; at && !has; at = at->next) {
        const rql_lock *held = RQLI_OWNER(at, rql_lock, kept.link);

        has = held->process == RQL_LOCK_OBTAINING && held->kept.listing == RQLI_LOCK_LISTED &&
              rqli_lock_is_of(held, lock->name, lock->acquirer) &&
              rqli_lease_state(&held->kept.lease, now_us) != RQL_GONE;
    }
    rqli_background_unlock(self->background);
    return has;
}

struct rqli_lease rqli_leases_lease(struct rqli_leases *self, const rql_lock *lock)
{
    struct rqli_lease lease;

    rqli_background_lock(self->background);
    lease = lock->kept.lease;
    rqli_background_unlock(self->background);
    return lease;
}

rql_lock_state rqli_leases_state(struct rqli_leases *self, const rql_lock *lock)
{
    struct rqli_lease lease = rqli_leases_lease(self, lock);

    return rqli_lease_state(&lease, rqli_now_us());
}

/* Even an extension can come too late. Then the lease stays gone, because its loss may have been
 * reported. */
bool rqli_leases_on_extended(struct rqli_leases *self, rql_lock *lock, int64_t sent_us,
                             int64_t left_ms)
{
    bool is_gone;

    rqli_background_lock(self->background);
    /* The lease may have ended while the server was asked. And below, what the server granted may
     * be over by the time that the answer is here. */
    is_gone = rqli_lease_state(&lock->kept.lease, rqli_now_us()) == RQL_GONE;
    if (!is_gone) {
        /* Earlier than before if another program had shortened the lock. */
        rqli_lease_on_extended(&lock->kept.lease, sent_us, left_ms);
        update(self, lock);
        is_gone = rqli_lease_state(&lock->kept.lease, rqli_now_us()) == RQL_GONE;
    }
    if (is_gone) {
        /* So far the lease is gone by time alone. From here on it stays gone, and the thread
         * reports the loss. */
        rqli_lease_on_gone(&lock->kept.lease);
        update(self, lock);
    }
    rqli_background_unlock(self->background);
    return !is_gone;
}

/* All re-entries of a thread share one grant, and its nonce. */
void rqli_leases_on_shortened(struct rqli_leases *self, const rql_lock *ended, int64_t sent_us,
                              int64_t left_ms)
{
    rqli_background_lock(self->background);
    for (rql_lock *lock = first(self); lock; lock = next(lock)) {
        if (strcmp(lock->grant_nonce, ended->grant_nonce) == 0) {
            rqli_lease_on_shortened(&lock->kept.lease, sent_us, left_ms);
            update(self, lock);
        }
    }
    rqli_background_unlock(self->background);
}

void rqli_leases_on_gone(struct rqli_leases *self, rql_lock *lock)
{
    rqli_background_lock(self->background);
    rqli_lease_on_gone(&lock->kept.lease);
    update(self, lock);
    rqli_background_unlock(self->background);
}

/* The nonce is from a reply of the server, so its length has to be checked. */
void rqli_leases_on_taken(struct rqli_leases *self, struct rqli_slice grant_nonce)
{
    rqli_background_lock(self->background);
    for (rql_lock *lock = first(self); lock; lock = next(lock)) {
        if (grant_nonce.length == sizeof lock->grant_nonce - 1 &&
            memcmp(lock->grant_nonce, grant_nonce.data, grant_nonce.length) == 0) {
            rqli_lease_on_gone(&lock->kept.lease);
            update(self, lock);
        }
    }
    rqli_background_unlock(self->background);
}

/* An event is made at the first call, so that a hold without one costs no descriptor. If the loss
 * came first, the descriptor is readable at once. */
rql_status rqli_leases_lost_fd(struct rqli_leases *self, rql_lock *lock, int *out, rql_error *error)
{
    rql_status status = RQL_OK;

    rqli_background_lock(self->background);
    if (lock->kept.lost_fd < 0) {
        lock->kept.lost_fd = rqli_fd_lift(rqli_os_event());
    }
    /* A descriptor without a thread stays with the lock, for the next call or until the lock is
     * freed. */
    if (lock->kept.lost_fd < 0 || !watch(self, lock)) {
        status =
            rqli_fail(error, RQL_E_NOMEM, "%s: no descriptor or thread is available", lock->name);
    } else {
        if (lock->kept.lease.is_reported) {
            rqli_os_event_set(lock->kept.lost_fd);
        }
        *out = lock->kept.lost_fd;
    }
    rqli_background_unlock(self->background);
    return status;
}

rql_status rqli_leases_share_lost_fd(struct rqli_leases *self, rql_lock *lock, int fd,
                                     rql_error *error)
{
    rql_status status = RQL_OK;
    int unused;

    rqli_background_lock(self->background);
    if (lock->kept.lost_fd < 0) {
        /* A duplicate, since each handle closes its own descriptor. */
        lock->kept.lost_fd = fcntl(fd, F_DUPFD_CLOEXEC, RQLI_FD_LEAST);
        status = lock->kept.lost_fd < 0 ? RQL_E_NOMEM : RQL_OK;
    }
    rqli_background_unlock(self->background);
    if (status) {
        return rqli_fail(error, status, "%s: no descriptor is available", lock->name);
    }
    return rqli_leases_lost_fd(self, lock, &unused, error);
}

bool rqli_leases_drain(struct rqli_leases *self, int64_t until_us)
{
    bool is_started;

    rqli_background_lock(self->background);
    is_started = rqli_worker_start(&self->background->worker);
    if (is_started) {
        self->shared.drained_us = until_us;
        self->shared.drain_look.fire = ask_holders;
        rqli_background_look(self->background, &self->shared.drain_look, rqli_now_us());
    }
    rqli_background_unlock(self->background);
    return is_started;
}

/* The value of the signal is read under the mutex, so no change is missed. */
bool rqli_leases_await_none(struct rqli_leases *self, int64_t until_us)
{
    bool is_empty = false;

    while (!is_empty) {
        int32_t seen;

        rqli_background_lock(self->background);
        seen = atomic_load(&self->unlisted);
        is_empty = !first(self);
        rqli_background_unlock(self->background);
        if (!is_empty && rqli_now_us() >= until_us) {
            return false;
        }
        if (!is_empty) {
            rqli_signal_wait(&self->unlisted, seen, until_us);
        }
    }
    return true;
}

/* visit must not call any function of the leases, because the mutex is not recursive. An adopted
 * lock has no holder, and is left out. */
void rqli_leases_each(struct rqli_leases *self, void (*visit)(const rql_lock *lock, void *context),
                      void *context)
{
    int64_t now_us = rqli_now_us();

    rqli_background_lock(self->background);
    for (rql_lock *lock = first(self); lock; lock = next(lock)) {
        if (lock->kept.listing != RQLI_LOCK_ADOPTED &&
            rqli_lease_state(&lock->kept.lease, now_us) != RQL_GONE) {
            visit(lock, context);
        }
    }
    rqli_background_unlock(self->background);
}

/* ---- hosts ---- */

/*
 * Leases end with their hosts: a host that is silent for too long counts as dead, and its locks are
 * given to other waiters. Each set of keys has hosts of its own, and an end of its own. If a server
 * cannot be reached the leases of its partitions end, and no others.
 */

static _Atomic int64_t *end_of(const struct rqli_leases *self, const struct rqli_key_set *set)
{
    return &self->host_ends_us[rqli_client_number_of(self->client, set)];
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

void rqli_leases_rebind(struct rqli_leases *self)
{
    int64_t now_us = rqli_now_us();

    rqli_background_lock(self->background);
    for (rql_lock *lock = first(self); lock; lock = next(lock)) {
        struct rqli_lease *lease = &lock->kept.lease;

        /* A lease that has ended, and was perhaps reported, must not come back by a later end. */
        if (rqli_lease_state(lease, now_us) != RQL_GONE) {
            lease->host_end_us = rqli_leases_host_end_us(self, lock->keys.set);
        }
        update(self, lock);
    }
    rqli_background_unlock(self->background);
}

/* Takes the mutex, as rqli_leases_on_left() does, so that the later of the two decides. */
void rqli_leases_on_probing(struct rqli_leases *self, const struct rqli_key_set *set,
                            int64_t silence_ms)
{
    rqli_background_lock(self->background);
    if (rqli_leases_host_end_us(self, set) == RQLI_NEVER_US) {
        rqli_leases_on_probed(self, set, rqli_now_us(), silence_ms);
    }
    rqli_background_unlock(self->background);
}

/* Hosts are marked as sent before rqli_leases_on_probing() is called for them. */
void rqli_leases_on_left(struct rqli_leases *self, const struct rqli_key_set *set)
{
    rqli_background_lock(self->background);
    if (!rqli_hosts_are_told(self->client->hosts, set)) {
        *end_of(self, set) = RQLI_NEVER_US;
    }
    rqli_background_unlock(self->background);
}

/* Leases that are held stay bound, because the server may still count their hosts as dead. */
void rqli_leases_on_unwatched(struct rqli_leases *self)
{
    for (size_t i = 0; i < rqli_client_n_sets(self->client); i++) {
        self->host_ends_us[i] = RQLI_NEVER_US;
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
    rqli_background_lock(self->background);
    if (from->state == RQLI_TRANSFER_FAILED) {
        atomic_store(&transfer->is_refused, true);
        state = RQLI_TRANSFER_FAILED;
    } else if (from->state == RQLI_TRANSFER_SENT) {
        (void)atomic_fetch_add_explicit(&transfer->references, 1, memory_order_relaxed);
        from->onward = transfer;
    }
    transfer->state = state;
    rqli_background_unlock(self->background);
}

void rqli_leases_on_given_up(struct rqli_leases *self, struct rqli_transfer *transfer)
{
    rqli_background_lock(self->background);
    for (struct rqli_transfer *next = transfer->onward; next; next = next->onward) {
        atomic_store(&next->is_refused, true);
        if (next->state == RQLI_TRANSFER_SENT) {
            next->state = RQLI_TRANSFER_FAILED;
            apply_transfer(self, next);
        }
    }
    rqli_background_unlock(self->background);
}

/* Applies the answer once. If a repeated call gets a different answer, that answer no longer says
 * anything about the lock. */
void rqli_leases_on_transferred(struct rqli_leases *self, struct rqli_transfer *transfer,
                                int64_t sent_us, int64_t left_ms)
{
    struct rqli_transfer *onward;

    rqli_background_lock(self->background);
    if (transfer->state == RQLI_TRANSFER_SENT) {
        transfer->sent_us = sent_us;
        transfer->left_ms = left_ms;
        transfer->state = left_ms < 0 ? RQLI_TRANSFER_FAILED : RQLI_TRANSFER_DONE;
        apply_transfer(self, transfer);
    }
    onward = transfer->onward;
    transfer->onward = NULL;
    rqli_background_unlock(self->background);
    rqli_transfer_give(self->client, onward);
}
