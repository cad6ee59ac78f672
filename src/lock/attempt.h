#ifndef RQLI_ATTEMPT_H
#define RQLI_ATTEMPT_H

/* One acquisition in the real world: the server, the subscriber, the clock. Fills in the lock. */

#include "lock/lock.h"

struct rqli_attempt_result {
    struct rqli_lease_terms terms; /* RQL_OK */
    int64_t rank;                  /* last known, -1: never queued */
    int64_t tries;
    int64_t asked;  /* how often the server was */
    int64_t n_over; /* grants that were over by the time that they were known */
    int64_t waited_us;
    int64_t ended_us; /* local time */
};

/* Any status of rql_lock_acquire(). On RQL_OK the lock is held and not yet listed by the keeper. */
rql_status rqli_attempt(rql_lock *lock, const rql_lock_options *options,
                        struct rqli_attempt_result *out, rql_error *error);

#endif
