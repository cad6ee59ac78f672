#ifndef RQLI_EXTEND_H
#define RQLI_EXTEND_H

/* A new ttl for 1 to 64 holds, at once. */

#include "lock/lock.h"
#include "net/op.h"

/* What the server has said of one of them. */
struct rqli_extension {
    int64_t sent_us;
    int64_t left_ms; /* 0: it is not extended */
};

struct rqli_extend {
    struct rqli_op op; /* first */
    rql_lock *const *locks;
    struct rqli_extension *each; /* of as many */
    int64_t ttl_ms;
    bool has_asked;
    rql_error error; /* why op.status is not RQL_OK; else nothing is in it */
};

/* RQL_E_INVALID (raised): no such ttl. */
rql_status rqli_extend_check(const rql_client *client, int64_t ttl_ms, rql_error *error);

/* locks, each and ttl_ms are set. Then drive op: RQL_OK, RQL_NOT_HELD (one at least has ended), or
 * a fault. */
void rqli_extend_init(struct rqli_extend *self, size_t count);

/* Blocks. */
rql_status rqli_extend(rql_lock *const *locks, size_t count, int64_t ttl_ms, rql_error *error);

#endif
