#ifndef RQLI_WAITERS_H
#define RQLI_WAITERS_H

/*
 * Those of one connection who wait for a lock: by lock, the oldest in front, who leads; by the
 * nonces that pushes are for; and by acquirer. What comes for them is noted here, and they are
 * roused. Allocates nothing for up to a few; nothing is searched for one by one.
 *
 * No mutex, no thread: push_threads.c has them under its mutex, or on the thread of a loop.
 */

#include "base/dlist.h"
#include "base/futex.h"
#include "base/hash_map.h"
#include "wire/answer.h"

#include <rql/status.h>

struct rqli_conn;
struct rqli_waiter;
struct rqli_transfer;

/* A request of a waiter, for one lock. The first two are set by its owner. */
struct rqli_waiter_nonce {
    const char *digits; /* 32 */
    struct rqli_slice lock_key;
    struct rqli_waiter *waiter;
    struct rqli_hash_entry by_digits;
    struct rqli_hash_entry by_acquirer;
};

/* One that waits. The seven behind the link are set by its owner, and outlive its stay. */
struct rqli_waiter {
    struct rqli_dlink link;         /* first; of all, in the order they came */
    const struct rqli_key_set *set; /* where what it waits for is, and so its channel */
    struct rqli_slice lock_key;     /* empty: it waits for several locks, and leads itself */
    const char *acquirer;           /* may be there once for each lock */
    struct rqli_waiter_nonce *nonces;
    size_t n_nonces;
    int64_t deadline_us; /* of a thread: it connects for all no longer than that */
    /* Of a thread: over which it asks. Behind others it is that of who leads: what is asked of one
     * lock at a time goes together. */
    struct rqli_conn *conn;

    /* Hand-overs inside the client: lock/hand_over.h. Its owner sets in_front and may_be_handed
     * while it does not sleep. */
    uint64_t in_front; /* rqli_waiter_hash() of whose release makes it the next; 0: not known */
    struct rqli_transfer *handed; /* by which it was handed the lock; else NULL */
    bool keeps_conn;              /* its own: it stays at that, and the others at theirs */
    bool may_be_handed;
    bool is_chosen; /* it is about to be handed the lock, and sleeps on until it is told */

    bool pushed;
    bool hinted;           /* something changed: should poll */
    bool watches;          /* a lock of Ruby's: is to be notified of its next change */
    struct rqli_push push; /* what has come, if it was pushed */

    bool has_joined;
    bool is_first; /* of its bucket: those for the same lock, in a ring */
    bool succeeds; /* it has come to lead since it slept, and was not told */
    bool sleeps;   /* asks nothing, and can be called */
    rqli_signal wait_word;
    struct rqli_waiter *ring_next;
    struct rqli_waiter *ring_previous;
    struct rqli_hash_entry by_lock; /* of the first */
};

struct rqli_waiters {
    /* Something has come for it. May end its stay, but of no other. */
    void (*rouse)(struct rqli_waiters *self, struct rqli_waiter *waiter);
    struct rqli_dlist all; /* the oldest first */
    struct rqli_hash_map by_lock;
    struct rqli_hash_map by_digits;
    struct rqli_hash_map by_acquirer;
};

static inline struct rqli_waiter *rqli_waiters_first(const struct rqli_waiters *self)
{
    return (struct rqli_waiter *)self->all.first;
}

static inline struct rqli_waiter *rqli_waiter_next(const struct rqli_waiter *waiter)
{
    return (struct rqli_waiter *)waiter->link.next;
}

void rqli_waiters_fini(struct rqli_waiters *self);

/* RQL_E_BUSY (not raised): this acquirer waits for one of these locks already. */
rql_status rqli_waiters_join(struct rqli_waiters *self, struct rqli_waiter *waiter);

/* Who leads from now on, if that was the one; else NULL. */
struct rqli_waiter *rqli_waiters_leave(struct rqli_waiters *self, struct rqli_waiter *waiter);

/* The first for its lock; who waits for several locks always does. */
static inline bool rqli_waiter_leads(const struct rqli_waiter *waiter)
{
    return waiter->is_first || waiter->lock_key.length == 0;
}

/* Of an acquirer's id; 0 of none. Two that happen to have the same cost order, and nothing else. */
uint64_t rqli_waiter_hash(struct rqli_slice acquirer);

/* Who sleeps for this lock and may be handed it, directly behind the acquirer of this hash. It is
 * chosen, and is to be told one of the two below. NULL: nobody. Only the longest waiting are looked
 * at: who is next is among them. */
struct rqli_waiter *rqli_waiters_choose(struct rqli_waiters *self, struct rqli_slice lock_key,
                                        uint64_t in_front);
/* The lock is its own; what is pushed for it is no grant any more. */
void rqli_waiters_hand_over(struct rqli_waiters *self, struct rqli_waiter *chosen,
                            struct rqli_transfer *transfer);
/* It is not, and it polls: what was pushed meanwhile is lost. */
void rqli_waiters_pass_by(struct rqli_waiters *self, struct rqli_waiter *chosen);

/* What the server pushed: noted for those whom it concerns. */
void rqli_waiters_deliver(struct rqli_waiters *self, const struct rqli_pushed *pushed,
                          int64_t received_us);

/* All whose locks are there shall poll: what was pushed to any of them before a new subscription is
 * lost. set: NULL is everywhere. */
void rqli_waiters_hint_all(struct rqli_waiters *self, const struct rqli_key_set *set);

/* Those who lead there shall poll, for all others as well. */
void rqli_waiters_hint_leaders(struct rqli_waiters *self, const struct rqli_key_set *set);

/* Those shall poll who have come to lead and were not told. */
void rqli_waiters_hint_successors(struct rqli_waiters *self);

/* It leads, and was found to have been out of the queue: all others for its lock shall poll; all
 * others, if it waits for several. Nothing if it does not lead. */
void rqli_waiters_hint_others(struct rqli_waiters *self, const struct rqli_waiter *waiter);

#endif
