#include "lock/sharing.h"

#include <string.h>

/* All functions look through the list of the leases, which is as long as what the client holds.
 * Only a client that has a share calls them. */

/* Iterate over all locks. Caller holds the mutex of the background. */
static rql_lock *first_of(const struct rqli_leases *self)
{
    return rqli_lock_of_link(self->shared.all.first);
}

static rql_lock *next_of(const rql_lock *lock)
{
    return rqli_lock_of_link(lock->kept.link.next);
}

/* Caller holds the mutex. Returns another lock of the same grant, or NULL. */
static rql_lock *other_of_grant(const struct rqli_leases *self, const rql_lock *lock)
{
    rql_lock *other = first_of(self);

    while (other && (other == lock || strcmp(other->grant_nonce, lock->grant_nonce) != 0)) {
        other = next_of(other);
    }
    return other;
}

bool rqli_leases_shares(struct rqli_leases *self, const rql_lock *lock)
{
    const rql_lock *held;

    rqli_background_lock(self->background);
    held = first_of(self);
    while (held && (held->share.units == 0 || !rqli_lock_is_of(held, lock->name, lock->acquirer))) {
        held = next_of(held);
    }
    rqli_background_unlock(self->background);
    return held != NULL;
}

struct rqli_share rqli_leases_share_of(struct rqli_leases *self, const rql_lock *lock)
{
    struct rqli_share share = lock->share;
    const rql_lock *outer;

    if (lock->process != RQL_LOCK_OBTAINING) {
        rqli_background_lock(self->background);
        outer = other_of_grant(self, lock);
        share = outer ? outer->share : (struct rqli_share){0};
        rqli_background_unlock(self->background);
    }
    return share;
}

bool rqli_leases_on_lowering(struct rqli_leases *self, rql_lock *lock)
{
    bool may_be_lowered;

    rqli_background_lock(self->background);
    may_be_lowered = !other_of_grant(self, lock);
    lock->kept.is_lowering = may_be_lowered;
    rqli_background_unlock(self->background);
    return may_be_lowered;
}

void rqli_leases_on_lowered(struct rqli_leases *self, rql_lock *lock,
                            const struct rqli_share *share, int *slots)
{
    if (share) {
        atomic_store_explicit(&self->has_shared, true, memory_order_relaxed);
    }
    rqli_background_lock(self->background);
    lock->kept.is_lowering = false;
    if (share) {
        lock->share = *share;
        lock->slots = slots;
    }
    rqli_background_unlock(self->background);
}
