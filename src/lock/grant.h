#ifndef RQLI_GRANT_H
#define RQLI_GRANT_H

/* Decides what the answer to a try means for its request. A grant, whether it came in a reply or in
 * a push, becomes a held lock. */

#include "lock/lock.h"

struct rqli_acquire;
struct rqli_answer;
struct rqli_batch;
struct rqli_push;
struct rqli_reply;
struct rqli_transfer;

/* Takes the grant in a reply. True: the lock is filled in and is ours, with its lease. False: the
 * grant may be over already, so the server has to be asked again. */
bool rqli_grant_by_answer(rql_lock *lock, const rql_lock_options *options,
                          const struct rqli_answer *answer, int64_t sent_us);

/* Takes the grant in a push, with the same result. That grant lies in the past; how far is known
 * only if the server's clock is. If the clock is not known, or the push is old, the server is
 * asked, because the grant may be over. */
bool rqli_grant_by_push(rql_lock *lock, const rql_lock_options *options,
                        const struct rqli_push *push);

/* Takes a lock that another thread or loop of this client hands on, with the same result. True: the
 * handle now has the reference to the transfer, and *by is NULL. */
bool rqli_grant_by_transfer(rql_lock *lock, const rql_lock_options *options,
                            struct rqli_transfer **by);

/* Reads the answer to a try. */
void rqli_acquire_read(struct rqli_acquire *self, const struct rqli_batch *batch,
                       const struct rqli_reply *reply);

/* Accepts the grant, which is as safe as it has to be. A cancelled request gives it back. */
void rqli_acquire_on_granted(struct rqli_acquire *self);

#endif
