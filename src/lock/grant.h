#ifndef RQLI_GRANT_H
#define RQLI_GRANT_H

/* What the answer to a try means for its request. A grant, by a reply or a push, becomes a held
 * lock. */

#include "lock/lock.h"

struct rqli_acquire;
struct rqli_answer;
struct rqli_exchange;
struct rqli_push;
struct rqli_reply;
struct rqli_transfer;

/* True: the lock is filled in and ours, with its lease. False: that may be over already, so the
 * server has to be asked again. */
bool rqli_grant_by_answer(rql_lock *lock, const rql_lock_options *options,
                          const struct rqli_answer *answer, int64_t sent_us);

/* The same. The grant that a push brings is in the past, how far is known only if the server's
 * clock is; if it is not, or the push is old, the server is asked: it may be over. */
bool rqli_grant_by_push(rql_lock *lock, const rql_lock_options *options,
                        const struct rqli_push *push);

/* The same for one that another thread or loop of this client hands on. True: the
 * handle has the reference to it, and *by is NULL. */
bool rqli_grant_by_transfer(rql_lock *lock, const rql_lock_options *options,
                            struct rqli_transfer **by);

/* The answer to a try. */
void rqli_acquire_read(struct rqli_acquire *self, const struct rqli_exchange *exchange,
                       const struct rqli_reply *reply);

/* The grant counts: it is as safe as it has to be. */
void rqli_acquire_on_granted(struct rqli_acquire *self);

#endif
