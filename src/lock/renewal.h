#ifndef RQLI_RENEWAL_H
#define RQLI_RENEWAL_H

/* What the thread of the leases does: it reports losses, renews and claims, and withdraws. */

#include "lock/lock.h"

struct rqli_leases;
struct rqli_worker;

enum { RQLI_RENEWALS_MAX = 64 };

/* Renewals and claims that are due, many in one round trip. Everything but the round trip happens
 * under the mutex of the leases: a lock that is removed meanwhile is forgotten. It is no operation
 * of net/op.h, whose calls are written without that mutex, from keys that have to stay. */
struct rqli_renewals {
    size_t count;

    struct {
        rql_lock *lock; /* NULL: forgotten */
        int64_t ttl_ms;
        int reply_at; /* index of its reply */
    } item[RQLI_RENEWALS_MAX];
};

void rqli_renewals_forget(struct rqli_renewals *self, const rql_lock *lock);

/* Everything that is due, and when to come again: the step of the leases' worker. */
int64_t rqli_leases_step(struct rqli_worker *worker);

#endif
