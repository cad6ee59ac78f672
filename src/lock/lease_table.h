#ifndef RQLI_LEASE_TABLE_H
#define RQLI_LEASE_TABLE_H

/* The locks that are held, in three sets: all of them; those that are watched, with the time at
 * which a renewal or a loss is due next; and those that are renewed, by name and acquirer. A change
 * to one of many costs the logarithm of their number. There is no thread and no I/O: the mutex is
 * the leases'. */

#include "base/hash_map.h"
#include "base/timers.h"
#include "lock/lock.h"

/* A zeroed table is empty. */
struct rqli_lease_table {
    struct rqli_dlist all; /* by kept.link */
    struct rqli_timers renewals;
    struct rqli_timers losses;

    struct rqli_hash_map renewed; /* by name and acquirer */
};

static inline rql_lock *rqli_lease_of(struct rqli_dlink *link)
{
    return link ? RQLI_OWNER(link, rql_lock, kept.link) : NULL;
}

/* Iterate over all locks, in no order. */
static inline rql_lock *rqli_lease_table_first(const struct rqli_lease_table *self)
{
    return rqli_lease_of(self->all.first);
}

static inline rql_lock *rqli_lease_table_next(const rql_lock *lock)
{
    return rqli_lease_of(lock->kept.link.next);
}

void rqli_lease_table_fini(struct rqli_lease_table *self);

void rqli_lease_table_add(struct rqli_lease_table *self, rql_lock *lock);
void rqli_lease_table_remove(struct rqli_lease_table *self,
                             rql_lock *lock); /* no-op if it is not in the table */

/* Arms the timers of the lock, which the thread has to look after. If it is watched already, this
 * only updates them. False: no memory. */
bool rqli_lease_table_watch(struct rqli_lease_table *self, rql_lock *lock);

/* Updates the timers after a change of the lease. No-op if the lock is not watched. A caller may
 * leave the update out if the only change is a later loss. */
void rqli_lease_table_update(struct rqli_lease_table *self, rql_lock *lock);

/* Return when the first renewal, or loss, is due. RQLI_NEVER_US: there is none. */
int64_t rqli_lease_table_renewal_us(const struct rqli_lease_table *self);
int64_t rqli_lease_table_loss_us(struct rqli_lease_table *self);

/* Takes a lock whose renewal is due, or returns NULL. The lock has no renewal timer until it is
 * updated. */
rql_lock *rqli_lease_table_take_renewal(struct rqli_lease_table *self, int64_t now_us);

/* Returns a lock whose loss is to be reported, or NULL. */
rql_lock *rqli_lease_table_lost(struct rqli_lease_table *self, int64_t now_us);

/* Lists the lock as renewed, until it is removed. */
void rqli_lease_table_add_renewed(struct rqli_lease_table *self, rql_lock *lock);

/* Returns whether a lock of this name and acquirer is still renewed and not lost. */
bool rqli_lease_table_renews(const struct rqli_lease_table *self, const char *name,
                             const char *acquirer, int64_t now_us);

#endif
