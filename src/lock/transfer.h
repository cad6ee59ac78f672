#ifndef RQLI_TRANSFER_H
#define RQLI_TRANSFER_H

/*
 * The hand-over of a lock inside one client, which does not wait for the server: who releases the
 * lock finds the next waiter in the client's register and tells it at once. The server is told by
 * transfer.lua in the same stream, ahead of whatever the new owner may say. lua/README.md 39 to 42.
 *
 * The waiter offers; the releaser chooses, writes, places, and settles. Both refer to it, and so
 * does the new owner's handle.
 */

#include "lock/lock.h"
#include "net/waiters.h"

#include <stdatomic.h>

enum rqli_transfer_state {
    RQLI_TRANSFER_OFFERED,
    RQLI_TRANSFER_SENT,   /* the new owner was told; what the server says is not known */
    RQLI_TRANSFER_DONE,   /* the lock is the new owner's */
    RQLI_TRANSFER_FAILED, /* it is not, or nobody knows */
};

/* Longer metadata makes no offer: the lock comes by the server. */
enum { RQLI_TRANSFER_META = 8, RQLI_TRANSFER_META_SIZE = 512 };

struct rqli_transfer {
    atomic_uint references;
    atomic_bool is_refused; /* by the waiter: it is not to be repeated */
    _Atomic int state;      /* enum rqli_transfer_state; written under the mutex of the leases */
    rql_lock *lock;         /* of the new owner, while its lease is listed; under that mutex */

    /* Of the waiter, constant from the offer on. */
    char acquirer[RQL_ID_SIZE];
    char host[RQL_ID_SIZE];
    char nonce[RQLI_HEX_SIZE];
    int64_t ttl_ms;
    size_t n_meta;
    char meta[RQLI_TRANSFER_META_SIZE]; /* name, value, ..., each with its 0 */

    /* Of the releaser, constant from its choice on. */
    int64_t token;
    int64_t ts_us;       /* the server's clock, about */
    int64_t begun_us;    /* before it was sent */
    int64_t until_us;    /* the releaser's own end: relied on until then, while it is not settled */
    uint64_t generation; /* of the connection that carries it first */
    int n_chained;       /* hand-overs in a row without the server, with this one */
    int64_t chain_us;    /* begin of the first of them */

    /* Once it is done; under the mutex of the leases. */
    int64_t sent_us;
    int64_t left_ms;
};

/* For a request that waits in its turn for one lock. NULL: none is to be made. */
struct rqli_transfer *rqli_transfer_offer(rql_lock *lock, const rql_lock_options *options);

/* NULL is fine. */
void rqli_transfer_give(rql_client *client, struct rqli_transfer *self);

static inline bool rqli_transfer_is_open(const struct rqli_transfer *self)
{
    return self && atomic_load_explicit(&self->state, memory_order_acquire) == RQLI_TRANSFER_SENT;
}

/* A lock that is about to be released: who is next, if that is known and it may be handed the lock.
 * NULL: the server finds out. Otherwise *chosen sleeps until it is told by one of the two behind.
 */
struct rqli_transfer *rqli_transfer_choose(const rql_lock *lock, struct rqli_waiter **chosen);
/* The call is in the stream. */
void rqli_transfer_place(struct rqli_transfer *self, const rql_lock *lock,
                         struct rqli_waiter *chosen);
/* It could not be put there: the waiter polls. Ends the releaser's reference. */
void rqli_transfer_abandon(struct rqli_transfer *self, const rql_lock *lock,
                           struct rqli_waiter *chosen);

void rqli_transfer_write(const struct rqli_transfer *self, const rql_lock *lock,
                         struct rqli_call *call);

/* The server's answer, to what was sent at sent_us. */
void rqli_transfer_on_done(struct rqli_transfer *self, const rql_lock *lock, int64_t sent_us,
                           int64_t left_ms);
/* The new owner loses the lock. may_be_there: something of its request may be on the server. */
void rqli_transfer_on_failed(struct rqli_transfer *self, const rql_lock *lock, bool may_be_there);

/* The new owner is about to ask the server about its lock: waits until the hand-over is settled, or
 * until until_us. */
void rqli_transfer_await(const struct rqli_transfer *self, int64_t until_us);

#endif
