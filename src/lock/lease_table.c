#include "lock/lease_table.h"

#include "base/clock.h"

#include <string.h>

/*
 * A list of all locks that are held, two heaps by time (renewals, losses) for those that are
 * watched, and a hash by name and acquirer of those that renew. A request for a lock that its own
 * acquirer keeps extending would wait for ever, and is refused.
 */

/* The locks are not freed, because they belong to their holders. */
void rqli_lease_table_fini(struct rqli_lease_table *self)
{
    rqli_timers_fini(&self->renewals);
    rqli_timers_fini(&self->losses);
    rqli_hash_map_fini(&self->renewed);
    *self = (struct rqli_lease_table){0};
}

void rqli_lease_table_add(struct rqli_lease_table *self, rql_lock *lock)
{
    rqli_dlist_add_first(&self->all, &lock->kept.link);
    lock->kept.is_listed = true;
}

static void unwatch(struct rqli_lease_table *self, rql_lock *lock)
{
    if (lock->kept.is_watched) {
        rqli_timers_unreserve(&self->renewals, &lock->kept.renewal);
        rqli_timers_unreserve(&self->losses, &lock->kept.loss);
        lock->kept.is_watched = false;
    }
}

/* Room is reserved, so that an update needs no memory: its failure could not be reported. */
bool rqli_lease_table_watch(struct rqli_lease_table *self, rql_lock *lock)
{
    if (!lock->kept.is_watched) {
        if (!rqli_timers_reserve(&self->renewals)) {
            return false;
        }
        if (!rqli_timers_reserve(&self->losses)) {
            rqli_timers_unreserve(&self->renewals, &lock->kept.renewal);
            return false;
        }
        lock->kept.is_watched = true;
    }
    rqli_lease_table_update(self, lock);
    return true;
}

void rqli_lease_table_update(struct rqli_lease_table *self, rql_lock *lock)
{
    if (lock->kept.is_watched) {
        rqli_timers_set(&self->renewals, &lock->kept.renewal,
                        rqli_lease_renewal_us(&lock->kept.lease));
        rqli_timers_set(&self->losses, &lock->kept.loss, rqli_lease_loss_us(&lock->kept.lease));
    }
}

/* Unlike a loss, this time is exact, because every change of a renewal updates it here. */
int64_t rqli_lease_table_renewal_us(const struct rqli_lease_table *self)
{
    return rqli_timers_first_us(&self->renewals);
}

static rql_lock *of_loss(struct rqli_due *due)
{
    return RQLI_OWNER(due, rql_lock, kept.loss);
}

/* A confirmed heartbeat moves the ends of all leases at once, and updates none of them here. So the
 * times in the heap may be too early, but never too late. The first lock is moved to its true end,
 * again and again, until the first one is at its true end already. */
int64_t rqli_lease_table_loss_us(struct rqli_lease_table *self)
{
    struct rqli_due *first = rqli_timers_first(&self->losses);

    while (first && rqli_lease_loss_us(&of_loss(first)->kept.lease) > first->at_us) {
        rqli_timers_set(&self->losses, first, rqli_lease_loss_us(&of_loss(first)->kept.lease));
        first = rqli_timers_first(&self->losses);
    }
    return first ? first->at_us : RQLI_NEVER_US;
}

rql_lock *rqli_lease_table_take_renewal(struct rqli_lease_table *self, int64_t now_us)
{
    struct rqli_due *due = rqli_timers_take_due(&self->renewals, now_us);

    return due ? RQLI_OWNER(due, rql_lock, kept.renewal) : NULL;
}

/* The lock stays in the heap: a caller that reports the loss updates the lock, or gets it again. */
rql_lock *rqli_lease_table_lost(struct rqli_lease_table *self, int64_t now_us)
{
    return rqli_lease_table_loss_us(self) <= now_us ? of_loss(rqli_timers_first(&self->losses))
                                                    : NULL;
}

/* Name and acquirer of a lock do not change while it is listed, so it is found where it was put. */
static uint64_t hash_of(const char *name, const char *acquirer)
{
    return rqli_hash_bytes(rqli_hash_bytes(0, rqli_slice_of(name)), rqli_slice_of(acquirer));
}

void rqli_lease_table_add_renewed(struct rqli_lease_table *self, rql_lock *lock)
{
    rqli_hash_map_add(&self->renewed, &lock->kept.renewed, hash_of(lock->name, lock->acquirer));
    lock->kept.is_renewed = true;
}

void rqli_lease_table_remove(struct rqli_lease_table *self, rql_lock *lock)
{
    if (lock->kept.is_listed) {
        rqli_dlist_remove(&self->all, &lock->kept.link);
        lock->kept.is_listed = false;
    }
    unwatch(self, lock);
    if (lock->kept.is_renewed) {
        rqli_hash_map_remove(&self->renewed, &lock->kept.renewed);
        lock->kept.is_renewed = false;
    }
}

static bool is_renewed_for(const rql_lock *lock, const char *name, const char *acquirer,
                           int64_t now_us)
{
    return lock->kept.lease.renews && strcmp(lock->name, name) == 0 &&
           strcmp(lock->acquirer, acquirer) == 0 &&
           rqli_lease_state(&lock->kept.lease, now_us) != RQL_GONE;
}

/* Every acquisition of a client that extends calls this, so a hash keeps it fast, however many
 * locks are held. A lock in the hash that is lost, or whose renewal was stopped, does not count. */
bool rqli_lease_table_renews(const struct rqli_lease_table *self, const char *name,
                             const char *acquirer, int64_t now_us)
{
    struct rqli_hash_entry *at = rqli_hash_map_find(&self->renewed, hash_of(name, acquirer));

    while (at && !is_renewed_for(RQLI_OWNER(at, rql_lock, kept.renewed), name, acquirer, now_us)) {
        at = rqli_hash_map_next(at);
    }
    return at != NULL;
}
