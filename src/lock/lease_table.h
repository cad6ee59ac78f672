#ifndef RQLI_LEASE_TABLE_H
#define RQLI_LEASE_TABLE_H

/* The locks that are held: all of them; those that have to be looked after, with what is due next,
 * a renewal or a loss; and those that are renewed, by name and acquirer. What happens to one of
 * many costs the logarithm of their number. No thread, no I/O: the mutex is the leases'. */

#include "base/hash_map.h"
#include "base/timers.h"
#include "lock/lock.h"

/* Zeroed: empty. */
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

/* All, in no order. */
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
                             rql_lock *lock); /* not there: is fine */

/* It has to be looked after. There already: as rqli_lease_table_update(). False: no memory. */
bool rqli_lease_table_watch(struct rqli_lease_table *self, rql_lock *lock);

/* Its lease has changed. Not watched: is fine. May be left out where it is to be lost later than
 * before, and nothing else. */
void rqli_lease_table_update(struct rqli_lease_table *self, rql_lock *lock);

/* RQLI_NEVER_US: none. */
int64_t rqli_lease_table_renewal_us(const struct rqli_lease_table *self);
int64_t rqli_lease_table_loss_us(struct rqli_lease_table *self);

/* One whose renewal is due, or NULL. It has none until it is updated. */
rql_lock *rqli_lease_table_take_renewal(struct rqli_lease_table *self, int64_t now_us);

/* One whose loss is to be reported, or NULL. */
rql_lock *rqli_lease_table_lost(struct rqli_lease_table *self, int64_t now_us);

/* It is renewed, until it is removed. */
void rqli_lease_table_add_renewed(struct rqli_lease_table *self, rql_lock *lock);

/* Is one of this name and acquirer still renewed and not lost? */
bool rqli_lease_table_renews(const struct rqli_lease_table *self, const char *name,
                             const char *acquirer, int64_t now_us);

#endif
