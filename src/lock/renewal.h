#ifndef RQLI_RENEWAL_H
#define RQLI_RENEWAL_H

/* Renewals and claims that are due, many in one round trip. Collecting, writing and applying happen
 * under the keeper's mutex, the round trip does not: a lock that is unlisted meanwhile is
 * forgotten. */

#include "lock/lock.h"
#include "lock/schedule.h"
#include "net/conn_threads.h"

enum { RQLI_RENEWALS_MAX = 64 };

struct rqli_renewals {
    size_t count;

    struct {
        rql_lock *lock; /* NULL: forgotten */
        int64_t ttl_ms;
        int reply_at; /* index of its reply */
    } item[RQLI_RENEWALS_MAX];
};

/* Also ends renewals that shall not go on (F-54). */
void rqli_renewals_collect(struct rqli_renewals *self, struct rqli_schedule *schedule,
                           int64_t now_us);
void rqli_renewals_forget(struct rqli_renewals *self, const rql_lock *lock);
void rqli_renewals_write(struct rqli_renewals *self, struct rqli_command *command, bool with_text);

/* exchange: answered, or NULL if there was no answer. */
void rqli_renewals_apply(struct rqli_renewals *self, struct rqli_schedule *schedule,
                         const struct rqli_exchange *exchange, int64_t now_us);

#endif
