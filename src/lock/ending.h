#ifndef RQLI_ENDING_H
#define RQLI_ENDING_H

/* How a hold ends on the server: released with its owner checked, or a re-entry taken back. */

#include "lock/lock.h"

struct rqli_call;
struct rqli_exchange;

/* The end of one hold, from attempt to attempt, for whoever carries them. */
struct rqli_ending {
    rql_client *client;
    const struct rqli_keys *keys;
    const char *nonce;
    rql_lock *lock;      /* NULL: only that grant is known */
    rql_status believed; /* before the first attempt */
    int64_t begun_us;
    int64_t until_us;    /* the client's patience */
    int64_t unused_ms;   /* of an extension; else 0 */
    bool may_have_ended; /* an attempt got no answer */
    bool is_serving;     /* it has ended; its long queue is still to be served */
    bool has_more;       /* of that, said the last answer */
    rql_status kept;     /* while it serves: what the end came to */
};

/* Until the next attempt. */
int64_t rqli_ending_pause_us(const struct rqli_ending *self);

/* True: the server is to be asked. False: *status_out is the end. */
bool rqli_ending_begin(struct rqli_ending *self, rql_lock *lock, rql_status *status_out);
void rqli_ending_write(const struct rqli_ending *self, struct rqli_call *call);
/* What the answer to an attempt says. */
rql_status rqli_ending_read(struct rqli_ending *self, const struct rqli_exchange *answer,
                            rql_error *error);
/* An attempt came to *status. True: that is now the end. False: again, after the pause. */
bool rqli_ending_is_over(struct rqli_ending *self, rql_status *status, rql_error *error);

/* Statuses of rql_lock_release(). The lock is off the keeper's list; it is not freed. */
rql_status rqli_end(rql_lock *lock, rql_error *error);

/* Releases the grant of this nonce, trying again within the client's patience: that is safe, a
 * nonce is never granted twice (F-17). */
rql_status rqli_release(rql_client *client, const struct rqli_keys *keys, const char *nonce,
                        rql_error *error);

/* This fault of an idempotent call may be gone at the next one. */
bool rqli_may_pass(rql_status status);

/* The fault that a release ends with if an attempt before got no answer: that may have done it. */
rql_status rqli_ending_fault(const char *key, rql_status last, rql_error *error);

/* What the holder believed up to now; the lock is off the keeper's list. RQL_OK or RQL_NOT_HELD. */
rql_status rqli_as_believed(const rql_lock *lock);

#endif
