#include "lock/transfer.h"

#include "base/clock.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "net/subscription.h"
#include "options/options.h"

#include <stdlib.h>
#include <string.h>

/*
 * Why the new owner may rely on the lock before the server knows: until the releaser's own end
 * nobody else gets it, because on the server it is the releaser's. Its release is nothing but this
 * call; and whoever says something about the lock after it, says it behind this call: the new owner
 * over the same connection, or, when that broke, not before the call was repeated and answered.
 */

enum {
    /* In a row, and in time: who came to stand in front of those that wait here is served by the
     * server, which then has its turn. */
    CHAIN_MOST = 32,
    CHAIN_US = 100000,
    LEAST_US = 20000, /* of the releaser's lease; with less left the new owner would just lose it */
    STEP_US = 1000,
};

/* ---- the waiter ---- */

/* False: it has more metadata than there is room for. */
static bool copy_meta(struct rqli_transfer *self, const rql_lock_options *options)
{
    size_t used = 0;

    if (options->n_meta > RQLI_TRANSFER_META) {
        return false;
    }
    for (size_t i = 0; i < options->n_meta; i++) {
        const char *const words[] = {options->meta[i].name, options->meta[i].value};

        for (size_t k = 0; k < 2; k++) {
            size_t size = strlen(words[k]) + 1;

            if (size > sizeof self->meta - used) {
                return false;
            }
            memcpy(self->meta + used, words[k], size);
            used += size;
        }
    }
    self->n_meta = options->n_meta;
    return true;
}

struct rqli_transfer *rqli_transfer_offer(rql_lock *lock, const rql_lock_options *options)
{
    struct rqli_transfer *self = rqli_freelist_take(&lock->client->transfers);

    if (!self) {
        self = malloc(sizeof *self);
    }
    if (!self) {
        return NULL;
    }
    atomic_init(&self->references, 1);
    atomic_init(&self->is_refused, false);
    atomic_init(&self->state, RQLI_TRANSFER_OFFERED);
    self->lock = NULL;
    if (!copy_meta(self, options)) {
        rqli_transfer_give(lock->client, self);
        return NULL;
    }
    memcpy(self->acquirer, lock->acquirer, sizeof self->acquirer);
    memcpy(self->host, lock->host, sizeof self->host);
    memcpy(self->nonce, lock->nonce, sizeof self->nonce);
    self->ttl_ms = options->ttl_ms;
    return self;
}

void rqli_transfer_give(rql_client *client, struct rqli_transfer *self)
{
    if (self && atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel) == 1 &&
        !rqli_freelist_keep(&client->transfers, self)) {
        free(self);
    }
}

/* ---- the releaser ---- */

/* Its lease is relied on, and has been granted over the connection that is there: so the server
 * that hears of the transfer is the one that knows the lock. */
static bool may_hand_over(const rql_lock *lock, int64_t now_us)
{
    const struct rqli_lease *lease = &lock->kept.lease;

    if (lock->generation == 0 || lock->process != RQL_LOCK_OBTAINING ||
        rqli_lease_state(lease, now_us) != RQL_HELD ||
        rqli_lease_end_us(lease) - now_us < LEAST_US) {
        return false;
    }
    return lock->n_chained == 0 ||
           (lock->n_chained < CHAIN_MOST && now_us - lock->chain_us < CHAIN_US);
}

struct rqli_transfer *rqli_transfer_choose(const rql_lock *lock, struct rqli_waiter **chosen)
{
    struct rqli_push_threads *pushes = lock->client->pushes;
    struct rqli_transfer *self;
    int64_t now_us = rqli_now_us();

    *chosen = rqli_push_threads_is_listening(pushes) && may_hand_over(lock, now_us)
                  ? rqli_push_threads_choose(pushes, lock->keys.lock,
                                             rqli_waiter_hash(rqli_slice_of(lock->acquirer)))
                  : NULL;
    if (!*chosen) {
        return NULL;
    }
    self = (*chosen)->offer;
    (void)atomic_fetch_add_explicit(&self->references, 1, memory_order_relaxed);
    self->token = lock->token + 1;
    self->ts_us = lock->ts_us + (now_us - lock->begun_us);
    self->begun_us = now_us;
    self->until_us = rqli_lease_end_us(&lock->kept.lease);
    self->generation = lock->generation;
    self->n_chained = lock->n_chained + 1;
    self->chain_us = lock->n_chained == 0 ? now_us : lock->chain_us;
    return self;
}

/* The waiter reads the state when it is told. */
void rqli_transfer_place(struct rqli_transfer *self, const rql_lock *lock,
                         struct rqli_waiter *chosen)
{
    atomic_store_explicit(&self->state, RQLI_TRANSFER_SENT, memory_order_release);
    rqli_push_threads_hand_over(lock->client->pushes, chosen);
}

void rqli_transfer_abandon(struct rqli_transfer *self, const rql_lock *lock,
                           struct rqli_waiter *chosen)
{
    rqli_push_threads_pass_by(lock->client->pushes, chosen);
    rqli_transfer_give(lock->client, self);
}

/* Where the server may not know the script yet its text is brought: an answer that it does not
 * would come when the new owner is at work. */
void rqli_transfer_write(const struct rqli_transfer *self, const rql_lock *lock,
                         struct rqli_call *call)
{
    const char *word = self->meta;

    rqli_call_init(call, RQLI_SCRIPT_TRANSFER, &lock->keys);
    call->brings_text = atomic_load_explicit(&lock->client->knows_transfer, memory_order_relaxed) !=
                        self->generation;
    rqli_call_text(call, lock->nonce);
    rqli_call_text(call, self->acquirer);
    rqli_call_text(call, self->host);
    rqli_call_int(call, self->ttl_ms);
    rqli_call_text(call, self->nonce);
    rqli_call_int(call, self->token);
    rqli_call_random(call);
    for (size_t i = 0; i < 2 * self->n_meta; i++) {
        rqli_call_text(call, word);
        word += strlen(word) + 1;
    }
}

void rqli_transfer_on_done(struct rqli_transfer *self, const rql_lock *lock, int64_t sent_us,
                           int64_t left_ms)
{
    atomic_store_explicit(&lock->client->knows_transfer, self->generation, memory_order_relaxed);
    rqli_leases_on_transferred(lock->client->leases, self, sent_us, left_ms);
}

void rqli_transfer_on_failed(struct rqli_transfer *self, const rql_lock *lock, bool may_be_there)
{
    const struct rqli_withdrawal_of what = {lock->name, self->acquirer, self->nonce};

    rqli_leases_on_transferred(lock->client->leases, self, 0, -1);
    if (may_be_there) {
        rqli_leases_withdraw(lock->client->leases, &what, self->ttl_ms);
    }
}

/* Nobody wakes it: who has to wait here comes within the one round trip behind its grant, or after
 * a connection that broke. */
void rqli_transfer_await(const struct rqli_transfer *self, int64_t until_us)
{
    rqli_signal never = 0;
    int64_t now_us = rqli_now_us();

    while (rqli_transfer_is_open(self) && now_us < until_us) {
        rqli_signal_wait(&never, 0, now_us + STEP_US);
        now_us = rqli_now_us();
    }
}
