#include "base/clock.h"
#include "lock/leases.h"
#include "lock/transfer.h"

/*
 * What hand-overs inside the client mean for the leases of those who have got a lock by one: the
 * state of a transfer changes here alone, under the mutex of the leases.
 */

/* What was settled before the new owner has listed its lock is found here as well. */
void rqli_leases_apply_transfer(struct rqli_leases *self, const struct rqli_transfer *transfer)
{
    rql_lock *lock = transfer->lock;

    if (!lock || transfer->state == RQLI_TRANSFER_SENT) {
        return;
    }
    /* What has ended meanwhile, and perhaps been reported, must not come back. */
    if (transfer->state == RQLI_TRANSFER_DONE &&
        rqli_lease_state(&lock->kept.lease, rqli_now_us()) != RQL_GONE) {
        rqli_lease_on_extended(&lock->kept.lease, transfer->sent_us, transfer->left_ms);
    } else {
        rqli_lease_on_gone(&lock->kept.lease);
    }
    rqli_leases_rouse_for(self, lock);
}

void rqli_leases_on_handed_on(struct rqli_leases *self, struct rqli_transfer *from,
                              struct rqli_transfer *transfer)
{
    enum rqli_transfer_state state = RQLI_TRANSFER_SENT;

    if (!from) { /* nobody else knows of it yet */
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
            rqli_leases_apply_transfer(self, next);
        }
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* Once: a repetition that comes to something else says nothing of the lock any more. */
void rqli_leases_on_transferred(struct rqli_leases *self, struct rqli_transfer *transfer,
                                int64_t sent_us, int64_t left_ms)
{
    struct rqli_transfer *onward;

    (void)pthread_mutex_lock(&self->shared.mutex);
    if (transfer->state == RQLI_TRANSFER_SENT) {
        transfer->sent_us = sent_us;
        transfer->left_ms = left_ms;
        transfer->state = left_ms < 0 ? RQLI_TRANSFER_FAILED : RQLI_TRANSFER_DONE;
        rqli_leases_apply_transfer(self, transfer);
    }
    onward = transfer->onward;
    transfer->onward = NULL;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    rqli_transfer_give(self->client, onward);
}
