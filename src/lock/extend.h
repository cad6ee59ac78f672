#ifndef RQLI_EXTEND_H
#define RQLI_EXTEND_H

/* A new ttl for 1 to 64 holds, in one round. */

#include "lock/lock.h"
#include "net/op/op.h"

/* The server's answer about one of them. */
struct rqli_extension {
    int64_t sent_us;
    int64_t left_ms; /* 0: it is not extended */
};

struct rqli_extend {
    struct rqli_op op; /* first */
    rql_lock *const *locks;
    struct rqli_extension *each; /* one for each lock */
    int64_t ttl_ms;
    struct rqli_share share; /* not 0 units: the one lock is shared from now on */
    int *slots;              /* of that share, until the lock has them; or NULL */
    bool has_asked;
    rql_error error; /* why op.status is not RQL_OK; else it is not set */
};

/* Returns RQL_E_INVALID, raised, if the ttl is not allowed. */
rql_status rqli_extend_check(const rql_client *client, int64_t ttl_ms, rql_error *error);

/* Prepares an extension. Caller has set locks, each and ttl_ms. Caller then drives op: RQL_OK,
 * RQL_NOT_HELD (one at least has ended), or a fault. */
void rqli_extend_init(struct rqli_extend *self, size_t count);

/* Extends the locks. Blocks. */
rql_status rqli_extend(rql_lock *const *locks, size_t count, int64_t ttl_ms, rql_error *error);

#endif
