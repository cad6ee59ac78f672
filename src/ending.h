#ifndef RQLI_ENDING_H
#define RQLI_ENDING_H

/* How a hold ends on the server: released with its owner checked, or a re-entry taken back. */

#include "lock.h"

/* Statuses of rql_lock_release(). The lock is off the keeper's list; it is not freed. */
rql_status rqli_end(rql_lock *lock, rql_error *error);

/* Releases the grant of this nonce, trying again within the client's patience: that is safe, a
 * nonce is never granted twice (F-17). *attempts_out: how often it was sent. */
rql_status rqli_release(rql_client *client, const struct rqli_keys *keys, const char *nonce,
                        int *attempts_out, rql_error *error);

/* This fault of an idempotent call may be gone at the next one. */
bool rqli_may_pass(rql_status status);

/* What the holder believed up to now; the lock is off the keeper's list. RQL_OK or RQL_NOT_HELD. */
rql_status rqli_as_believed(const rql_lock *lock);

#endif
