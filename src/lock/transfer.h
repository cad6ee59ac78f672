#ifndef RQLI_TRANSFER_H
#define RQLI_TRANSFER_H

/*
 * One hand-over of a lock inside a client, which does not wait for the server: the releaser makes
 * it, notifies the next waiter, and notifies the server by transfer.lua (lock/hand_over.h). The
 * releaser, the waiter, and then the new owner's handle refer to it.
 */

#include "base/futex.h"
#include "base/random.h"

#include <pthread.h>
#include <rql/client.h>
#include <rql/lock.h>

enum rqli_transfer_state {
    RQLI_TRANSFER_MADE,
    RQLI_TRANSFER_SENT,   /* the new owner was notified; the server's answer is not known */
    RQLI_TRANSFER_DONE,   /* the lock is the new owner's */
    RQLI_TRANSFER_FAILED, /* it is not, or that will never be known */
};

/* A waiter with more metadata gets the lock from the server. */
enum { RQLI_TRANSFER_META = 8, RQLI_TRANSFER_META_SIZE = 512 };

/* Where a grant has come from. Later calls about the lock take the same way, and a hand-over inside
 * the client continues the chain. */
struct rqli_origin {
    const void *carrier; /* the connection; NULL: the grant was one of several locks */
    uint64_t generation; /* of that connection */
    int n_chained;       /* hand-overs in a row without the server; 0: granted by the server */
    int64_t chain_us;    /* when the first of them began */
};

struct rqli_transfer {
    atomic_uint references;
    atomic_bool is_refused; /* refused by the waiter: it must not be repeated */
    atomic_int state;       /* enum rqli_transfer_state; changed under the leases' mutex */
    rql_lock *lock;         /* the new owner's, while its lease is listed; guarded by that mutex */

    /* Copied from the waiter, which may be gone before the server has answered. */
    char acquirer[RQL_ID_SIZE];
    char host[RQL_ID_SIZE];
    char nonce[RQLI_HEX_SIZE];
    int64_t ttl_ms;
    size_t n_meta;
    char meta[RQLI_TRANSFER_META_SIZE]; /* name, value, ..., each with its 0 */

    /* Set by the releaser. */
    int64_t token;
    int64_t ts_us;             /* by the server's clock, approximately */
    int64_t begun_us;          /* local time before it was sent */
    int64_t until_us;          /* the releaser's own end: relied on until then while not settled */
    struct rql_loop *loop;     /* the loop whose connection carries it; NULL: a thread's does */
    pthread_t thread;          /* with a loop: which thread runs it */
    struct rqli_origin origin; /* of the new owner's grant */

    /* The transfer by which the new owner has handed the lock on while this one is not settled.
     * Holds a reference; guarded by the mutex of the leases. */
    struct rqli_transfer *onward;

    /* Set when it is done; guarded by the mutex of the leases. */
    int64_t sent_us;
    int64_t left_ms;
};

/* Returns whether the metadata of such a request fits in. */
bool rqli_transfer_has_room(const rql_lock_options *options);

/* Makes a transfer to the request with these ids and this nonce, whose metadata fits in. It has one
 * reference, the caller's. NULL: no memory. */
struct rqli_transfer *rqli_transfer_new(rql_client *client, const char *acquirer, const char *host,
                                        const char *nonce, const rql_lock_options *options);

/* Ends a reference. No-op for NULL. */
void rqli_transfer_give(rql_client *client, struct rqli_transfer *self);

/* Returns whether the new owner relies on it while the server may not know of it. False for
 * NULL. */
static inline bool rqli_transfer_is_open(const struct rqli_transfer *self)
{
    return self && atomic_load_explicit(&self->state, memory_order_acquire) == RQLI_TRANSFER_SENT;
}

/* Between two looks of a thread that waits for a transfer to be settled, which wakes no thread. */
enum { RQLI_TRANSFER_LOOK_US = 1000 };

/* Waits until the transfer is settled, or until until_us, because the new owner is about to ask the
 * server about its lock. NULL: there is nothing to wait for. */
void rqli_transfer_await(const struct rqli_transfer *self, int64_t until_us);

#endif
