#ifndef RQLI_RENEWED_H
#define RQLI_RENEWED_H

/* The locks that are renewed, by name and acquirer: every acquisition asks whether its own is among
 * them, however many there are. Under the keeper's mutex. */

#include "lock/lock.h"

/* Zeroed: empty. */
struct rqli_renewed {
    rql_lock **buckets;
    size_t n_buckets;
    size_t count;
};

void rqli_renewed_fini(struct rqli_renewed *self);

/* False: no memory. */
bool rqli_renewed_add(struct rqli_renewed *self, rql_lock *lock);
void rqli_renewed_remove(struct rqli_renewed *self, rql_lock *lock); /* not there: is fine */

/* Is one of this name and acquirer still renewed and not lost? */
bool rqli_renewed_has(const struct rqli_renewed *self, const char *name, const char *acquirer,
                      int64_t now_us);

#endif
