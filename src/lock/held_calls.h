#ifndef RQLI_HELD_CALLS_H
#define RQLI_HELD_CALLS_H

/* The calls about a lock that is held, or was asked for: a share has scripts of its own
 * (lua/optional.md 64). */

#include "lock/lock.h"
#include "wire/answer.h"

/* The request or the grant that a call is about. */
struct rqli_withdrawn {
    const struct rqli_keys *keys;
    const char *acquirer;
    const char *nonce;
    bool may_share; /* it asks for a share, or has one: then leave_shared.lua is called */
};

/* Returns the request or the grant of a lock; borrows its texts. */
static inline struct rqli_withdrawn rqli_withdrawn_of(const rql_lock *lock)
{
    return (struct rqli_withdrawn){&lock->keys, lock->acquirer, lock->nonce, lock->share.units > 0};
}

/* Writes the call that asks the server for a withdrawal. */
void rqli_held_write_withdrawal(const struct rqli_withdrawn *request, struct rqli_call *call);

/* Writes the call that extends a lock, or the lock that a re-entry is part of, to at least ttl_ms.
 */
void rqli_held_write_extension(const rql_lock *lock, int64_t ttl_ms, struct rqli_call *call);

/* Writes the call that extends a share to at least ttl_ms. */
void rqli_held_write_shared_extension(const struct rqli_withdrawn *grant,
                                      const struct rqli_share *share, int64_t ttl_ms,
                                      struct rqli_call *call);

/* Writes the call that extends a lock as one that is shared; if it was held alone, it is shared
 * from then on. */
void rqli_held_write_lowering(const rql_lock *lock, const struct rqli_share *share, int64_t ttl_ms,
                              struct rqli_call *call);

/* Writes the release of a lock that is no re-entry. */
void rqli_held_write_release(const rql_lock *lock, struct rqli_call *call);

/* Returns whether the answer to that release says that it has ended the hold. */
bool rqli_held_has_ended(const rql_lock *lock, const struct rqli_outcome *outcome);

/* Returns whether this fault of an idempotent call may be gone at the next one. */
bool rqli_held_fault_may_pass(rql_status status);

#endif
