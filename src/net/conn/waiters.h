#ifndef RQLI_WAITERS_H
#define RQLI_WAITERS_H

/*
 * The waiters of one connection. They are found by lock (the oldest is the first, and leads), by
 * the nonces that pushes name, and by acquirer. A push is recorded here for its waiter, and the
 * waiter is roused. Allocates nothing while there are only a few; no lookup goes through all of
 * them.
 *
 * Has no mutex and no thread: push_threads.c uses it under its mutex, a loop on its thread.
 */

#include "base/dlist.h"
#include "base/futex.h"
#include "base/hash_map.h"
#include "wire/answer.h"

#include <rql/status.h>

struct rqli_conn;
struct rqli_waiter;
struct rqli_transfer;

/* A waiter's request for one lock. The owner of the waiter sets the first two members. */
struct rqli_waiter_nonce {
    const char *digits; /* 32 */
    struct rqli_slice lock_key;
    struct rqli_waiter *waiter;
    struct rqli_hash_entry by_digits;
    struct rqli_hash_entry by_acquirer;
};

enum rqli_waiter_stay {
    RQLI_WAITER_AWAY,   /* it has not joined */
    RQLI_WAITER_ASKS,   /* its owner is at work for it, and looks at it by itself */
    RQLI_WAITER_SLEEPS, /* it sends no request, and can be woken */
    RQLI_WAITER_CHOSEN, /* it sleeps until it is handed the lock, or passed by */
};

/* A waiter. Its owner sets the eight members after the link, and they outlive its stay. */
struct rqli_waiter {
    struct rqli_dlink link;         /* first member; of all, in the order they came */
    const struct rqli_key_set *set; /* where its locks are, and so its channel */
    struct rqli_slice lock_key;     /* empty: it waits for several locks, and leads itself */
    const char *acquirer;           /* can wait once for each lock */
    struct rqli_waiter_nonce *nonces;
    size_t n_nonces;
    int64_t deadline_us; /* of a thread: it does not connect for all longer than that */
    int64_t connect_us;  /* of a thread: until then it may connect although it would poll; or 0 */
    /* Of a thread: the connection that it polls over. A waiter that joins behind others takes the
     * leader's, because simultaneous calls about one lock are then sent together. */
    struct rqli_conn *conn;

    /* Hand-overs inside the client: lock/hand_over.h. The owner sets in_front and may_be_handed
     * while the waiter does not sleep. */
    uint64_t in_front; /* rqli_waiter_hash() of the acquirer directly in front; 0: not known */
    struct rqli_transfer *handed; /* the transfer that handed it the lock; else NULL */
    bool keeps_conn;              /* it keeps its own `conn`, and the other waiters keep theirs */
    bool may_be_handed;
    bool shares; /* it waits for a share: a waiter that wants the lock alone polls for none */

    bool pushed;
    bool hinted;           /* something changed: it should poll */
    bool watches;          /* a lock of Ruby's: it wants to be notified of the next change */
    struct rqli_push push; /* the push that has come, if `pushed` */

    enum rqli_waiter_stay stay;
    bool is_first; /* of its bucket: the waiters for the same lock, in a ring */
    bool succeeds; /* it became the leader since it last woke, and was not notified */
    rqli_signal wait_word;
    struct rqli_waiter *ring_next;
    struct rqli_waiter *ring_previous;
    struct rqli_hash_entry by_lock; /* used for the first only */
};

struct rqli_waiters {
    /* Called when something has come for a waiter. May end the stay of this waiter, but of no
     * other. */
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

/* Adds a waiter. RQL_E_BUSY (not raised): this acquirer already waits for one of these locks. */
rql_status rqli_waiters_join(struct rqli_waiters *self, struct rqli_waiter *waiter);

/* Removes a waiter. If it was the leader, returns the waiter that leads from now on; else NULL. */
struct rqli_waiter *rqli_waiters_leave(struct rqli_waiters *self, struct rqli_waiter *waiter);

static inline bool rqli_waiter_has_joined(const struct rqli_waiter *waiter)
{
    return waiter->stay != RQLI_WAITER_AWAY;
}

/* Returns true for the first waiter for a lock, of those that share it or of those that want it
 * alone. A waiter for several locks always leads. */
static inline bool rqli_waiter_leads(const struct rqli_waiter *waiter)
{
    return waiter->is_first || waiter->lock_key.length == 0;
}

/* Returns the hash of an acquirer's id; 0 for none. Acquirers with equal hashes can only lose their
 * order. */
uint64_t rqli_waiter_hash(struct rqli_slice acquirer);

/* Chooses a waiter that sleeps for this lock, wants it alone, may be handed it, and is directly
 * behind the acquirer of this hash. The caller then passes it to rqli_waiters_hand_over(). NULL:
 * there is none. Only the longest waiting are examined, because the next waiter is among them. */
struct rqli_waiter *rqli_waiters_choose(struct rqli_waiters *self, struct rqli_slice lock_key,
                                        uint64_t in_front);
/* Gives the chosen waiter the lock: a push for it no longer counts as a grant. transfer: NULL gives
 * it nothing and makes it poll: a push that came meanwhile is lost. */
void rqli_waiters_hand_over(struct rqli_waiters *self, struct rqli_waiter *chosen,
                            struct rqli_transfer *transfer);

/* Records what the server pushed for the waiters concerned, and rouses them. */
void rqli_waiters_deliver(struct rqli_waiters *self, const struct rqli_pushed *pushed,
                          int64_t received_us);

/* Makes all waiters for locks of the set poll: pushes from before a new subscription are lost. set:
 * NULL means everywhere. */
void rqli_waiters_hint_all(struct rqli_waiters *self, const struct rqli_key_set *set);

/* Makes the leaders there poll, on behalf of all other waiters as well. */
void rqli_waiters_hint_leaders(struct rqli_waiters *self, const struct rqli_key_set *set);

/* Makes the waiters poll that became leaders and were not notified. */
void rqli_waiters_hint_successors(struct rqli_waiters *self);

/* Called for a waiter that was found to be missing from the queue. If it leads, makes all other
 * waiters for its lock poll; all other waiters, if it waits for several. No-op if it does not
 * lead. */
void rqli_waiters_hint_others(struct rqli_waiters *self, const struct rqli_waiter *waiter);

#endif
