#ifndef RQLI_LOCK_CALLS_H
#define RQLI_LOCK_CALLS_H

/* What the calls of one lock share with those on a loop. */

#include "lock/lock.h"

struct rqli_acquire_result;

/* Waiting for a lock that oneself keeps extending would never end (protocol.md 10). */
bool rqli_lock_waits_for_itself(const rql_lock *lock, const rql_lock_options *options);

/* It was granted on these terms: fills in the rest and has the keeper look after it. On a fault it
 * is still to be ended. */
rql_status rqli_lock_keep(rql_lock *lock, const rql_lock_options *options,
                          const struct rqli_acquire_result *result, rql_error *error);

#endif
