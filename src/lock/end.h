#ifndef RQLI_END_H
#define RQLI_END_H

/* The end of 1 to 64 holds on the server: grants are released with their owner checked, re-entries
 * taken back. The queue of each lock that is freed is served to its end. */

#include "lock/hand_over.h"
#include "net/op/op.h"

#include <rql/series.h>

struct rqli_end_part {
    rql_lock *lock; /* NULL: only its keys and nonce are known */
    const struct rqli_keys *keys;
    const char *nonce;
    int64_t unused_ms;              /* the unused rest of a re-entry's extension; 0: a grant */
    char kept_nonce[RQLI_HEX_SIZE]; /* of the lock that is kept after this release */
    bool may_have_ended;            /* a call for it got no reply */
    bool was_open;       /* the hand-over that brought the lock was open when the round began */
    bool is_settled;     /* its status is part of the operation's */
    bool is_serving;     /* it has ended; its queue is still to be served */
    rql_status believed; /* before the first call */
    rql_status status;
    rql_error fault; /* of its last call that failed */
};

struct rqli_end {
    struct rqli_op op; /* first */
    rql_client *client;
    int64_t begun_us;
    bool has_asked; /* there were calls, and all are answered */
    /* Of a single lock: */
    struct rqli_hand_over on;    /* to a local waiter; on.lock NULL: several locks, or no handle */
    bool has_chosen;             /* a waiter was looked for */
    bool has_lost_stream;        /* a call was not answered, or its answer cannot be relied on */
    bool is_early;               /* the last answer came too early: the call is repeated at once */
    bool is_waiting;             /* for a hand-over that brought a lock to be settled */
    struct rqli_end_part *parts; /* the first op.n_calls still need a call */
    struct rqli_end_part *later; /* to follow when those are settled: */
    size_t n_later;
    rql_error error; /* why op.status is not RQL_OK; else it is not set */
};

/* Takes the locks off the list of leases, because they are about to be ended. Other locks that
 * share one of their grants are lost. */
void rqli_end_leases(rql_lock *const *locks, size_t count);

/* Prepares the end of these locks, on a loop, or with NULL on the caller's thread. Their leases
 * have ended; they are not freed. parts has room for count. The caller then drives op, whose first
 * `next` may already say that it is over: RQL_OK, RQL_NOT_HELD, or a fault. */
void rqli_end_init(struct rqli_end *self, struct rqli_end_part *parts, rql_lock *const *locks,
                   size_t count, struct rql_loop *loop);

/* Ends the locks and their leases. Blocks, until until_us at most: an end that no server has
 * confirmed by then goes on in the background. RQLI_NEVER_US: for as long as a release may take.
 * Returns the statuses of rql_lock_release(). */
rql_status rqli_give_back(rql_lock *const *locks, size_t count, int64_t until_us, rql_error *error);

/* Returns until when a call with this deadline may give back its locks, so that it ends in time. */
int64_t rqli_give_back_until_us(const rql_client *client, int64_t deadline_us);

/* Does the same for one lock. If nothing depends on the answer, returns RQL_OK at once and stores
 * in *out, which is NULL before, the batch that the answer will come to;
 * rqli_release_settle_later() then takes the lock. */
rql_status rqli_give_back_lazily(rql_lock *lock, struct rqli_batch **out, rql_error *error);

/* Releases the grant of this nonce. Idempotent, because a nonce is never granted twice. */
rql_status rqli_release(rql_client *client, const struct rqli_keys *keys, const char *nonce,
                        rql_error *error);

#endif
