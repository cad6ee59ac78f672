#ifndef RQLI_END_H
#define RQLI_END_H

/* The end of 1 to 64 holds on the server: grants are released with their owner checked, re-entries
 * taken back. The queue of each lock that it frees is served to its end. */

#include "lock/lock.h"
#include "net/op.h"

#include <rql/series.h>

struct rqli_end_part {
    rql_lock *lock; /* NULL: only its keys and nonce are known */
    const struct rqli_keys *keys;
    const char *nonce;
    int64_t unused_ms;              /* of a re-entry's extension; 0: a grant */
    bool may_have_ended;            /* a call for it got no reply */
    bool is_settled;                /* its status is part of the operation's */
    bool is_serving;                /* it has ended; its queue is still to be served */
    struct rqli_transfer *transfer; /* it is handed on inside the client; else NULL */
    struct rqli_waiter *chosen;     /* who is to be told of that */
    rql_status believed;            /* before the first call */
    rql_status status;
};

struct rqli_end {
    struct rqli_op op; /* first */
    rql_client *client;
    int64_t begun_us;
    bool has_asked;              /* there were calls, and all are answered */
    bool may_hand_over;          /* a single lock, not asked for yet */
    bool has_lost_stream;        /* of a single lock: a call for it was not answered */
    bool is_waiting;             /* for the hand-over by which it has come to be settled */
    struct rqli_end_part *parts; /* the first op.n_calls are still to be asked for */
    struct rqli_end_part *later; /* after those, when they are settled: */
    size_t n_later;
    rql_error fault; /* the last one */
    rql_error error; /* that op.status is; else nothing is in it */
};

/* The locks are off the list of leases; they are not freed. parts has room for count. Then drive
 * op, of which also the first `next` may say that it is over: RQL_OK, RQL_NOT_HELD, or a fault. */
void rqli_end_init(struct rqli_end *self, struct rqli_end_part *parts, rql_lock *const *locks,
                   size_t count);

/* Takes the locks off the list of leases and ends them. Blocks. Statuses of rql_lock_release(). */
rql_status rqli_give_back(rql_lock *const *locks, size_t count, rql_error *error);

/* Releases the grant of this nonce. To repeat that is safe: a nonce is never granted twice. */
rql_status rqli_release(rql_client *client, const struct rqli_keys *keys, const char *nonce,
                        rql_error *error);

#endif
