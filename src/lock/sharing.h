#ifndef RQLI_SHARING_H
#define RQLI_SHARING_H

/* The shares among the leases of a client: which locks are shared, and by whom in this client. */

#include "lock/leases.h"

/* False: this client has never had a share. */
static inline bool rqli_leases_may_share(const struct rqli_leases *self)
{
    return atomic_load_explicit(&self->has_shared, memory_order_relaxed);
}

/* Returns whether this client holds a share of the same name for the acquirer of `lock`. For a
 * client for which rqli_leases_may_share() is true. */
bool rqli_leases_shares(struct rqli_leases *self, const rql_lock *lock);

/* Returns the share of the grant that this lock is, or that it is a part of as a re-entry: no
 * share, if no other lock of this client is of that grant. */
struct rqli_share rqli_leases_share_of(struct rqli_leases *self, const rql_lock *lock);

/* A call that shares the lock begins. False: it must not, because another lock is of its grant. */
bool rqli_leases_on_lowering(struct rqli_leases *self, rql_lock *lock);
/* That call is over. share: NULL if it did nothing. Otherwise the lock owns the slots from now on,
 * which are NULL for a share without slots. */
void rqli_leases_on_lowered(struct rqli_leases *self, rql_lock *lock,
                            const struct rqli_share *share, int *slots);

#endif
