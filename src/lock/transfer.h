#ifndef RQLI_TRANSFER_H
#define RQLI_TRANSFER_H

/*
 * One hand-over of a lock inside a client, which does not wait for the server: who releases the
 * lock makes it, tells the next waiter, and tells the server by transfer.lua (lock/hand_over.h).
 * Releaser, waiter, and then the new owner's handle refer to it.
 */

#include "base/futex.h"
#include "base/random.h"

#include <rql/client.h>
#include <rql/lock.h>

enum rqli_transfer_state {
    RQLI_TRANSFER_MADE,
    RQLI_TRANSFER_SENT,   /* the new owner was told; what the server says is not known */
    RQLI_TRANSFER_DONE,   /* the lock is the new owner's */
    RQLI_TRANSFER_FAILED, /* it is not, or nobody will know */
};

/* With more metadata the lock comes by the server. */
enum { RQLI_TRANSFER_META = 8, RQLI_TRANSFER_META_SIZE = 512 };

struct rqli_transfer {
    atomic_uint references;
    atomic_bool is_refused; /* by the waiter: it is not to be repeated */
    atomic_int state;       /* enum rqli_transfer_state; changes under the mutex of the leases */
    rql_lock *lock;         /* the new owner's, while its lease is listed; under that mutex */

    /* Of the waiter, copied: it may be gone before the server has answered. */
    char acquirer[RQL_ID_SIZE];
    char host[RQL_ID_SIZE];
    char nonce[RQLI_HEX_SIZE];
    int64_t ttl_ms;
    size_t n_meta;
    char meta[RQLI_TRANSFER_META_SIZE]; /* name, value, ..., each with its 0 */

    /* Of the releaser. */
    int64_t token;
    int64_t ts_us;    /* the server's clock, about */
    int64_t begun_us; /* before it was sent */
    int64_t until_us; /* the releaser's own end: relied on until then, while it is not settled */
    struct rql_loop *loop; /* whose connection carries it; NULL: one of threads */
    const void *carrier;   /* the connection that carries it first, and its generation */
    uint64_t generation;
    int n_chained;    /* hand-overs in a row without the server, with this one */
    int64_t chain_us; /* begin of the first of them */

    /* By which its new owner has handed the lock on, while this one is not settled: a reference;
     * under the mutex of the leases. */
    struct rqli_transfer *onward;

    /* Once it is done; under the mutex of the leases. */
    int64_t sent_us;
    int64_t left_ms;
};

/* Whether the metadata of such a request fits in. */
bool rqli_transfer_has_room(const rql_lock_options *options);

/* To a request: its ids and nonce; the metadata fits in. One reference, the caller's. NULL: no
 * memory. */
struct rqli_transfer *rqli_transfer_new(rql_client *client, const char *acquirer, const char *host,
                                        const char *nonce, const rql_lock_options *options);

/* Ends a reference. NULL is fine. */
void rqli_transfer_give(rql_client *client, struct rqli_transfer *self);

/* The new owner relies on it, and the server may not know of it. NULL: no. */
static inline bool rqli_transfer_is_open(const struct rqli_transfer *self)
{
    return self && atomic_load_explicit(&self->state, memory_order_acquire) == RQLI_TRANSFER_SENT;
}

/* Between two looks of who waits for it to be settled: nobody is woken by that. */
enum { RQLI_TRANSFER_LOOK_US = 1000 };

/* The new owner is about to ask the server about its lock: waits until that is settled, or until
 * until_us. NULL: there is nothing to wait for. */
void rqli_transfer_await(const struct rqli_transfer *self, int64_t until_us);

#endif
