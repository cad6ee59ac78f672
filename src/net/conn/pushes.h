#ifndef RQLI_PUSHES_H
#define RQLI_PUSHES_H

/*
 * What waiters listen to at one server: the push connection that all threads of a client share
 * (net/conn/push_threads.h), or that of a loop (net/conn/push_loop.h). An acquisition that waits,
 * and a release that hands a lock over, need not know which.
 */

#include "net/conn/subscription.h"

#include <stdatomic.h>

struct rqli_pushes;

struct rqli_pushes_ops {
    rql_status (*join)(struct rqli_pushes *self, struct rqli_waiter *waiter,
                       bool *is_listening_out);
    void (*leave)(struct rqli_pushes *self, struct rqli_waiter *waiter);
    struct rqli_push_view (*view)(struct rqli_pushes *self, const struct rqli_waiter *waiter);
    void (*forget)(struct rqli_pushes *self, const struct rqli_key_set *set);
    bool (*hint_others)(struct rqli_pushes *self, const struct rqli_waiter *waiter);
    struct rqli_waiter *(*choose)(struct rqli_pushes *self, struct rqli_slice lock_key,
                                  uint64_t in_front);
    void (*hand_over)(struct rqli_pushes *self, struct rqli_waiter *chosen,
                      struct rqli_transfer *transfer);
};

struct rqli_pushes {
    const struct rqli_pushes_ops *ops;
    atomic_bool is_used; /* a waiter has joined */
};

/* Returns whether there may be waiters, and pushes for them. Takes no mutex, because every
 * acquisition and every release calls it. While it is used, a waiter joins before its request is
 * sent: a grant may be pushed before the reply to the request is read. */
static inline bool rqli_pushes_is_used(const struct rqli_pushes *self)
{
    return atomic_load_explicit(&self->is_used, memory_order_relaxed);
}

/* Adds a waiter: see rqli_waiters_join(). *is_listening_out: pushes have been coming already. */
static inline rql_status rqli_pushes_join(struct rqli_pushes *self, struct rqli_waiter *waiter,
                                          bool *is_listening_out)
{
    return self->ops->join(self, waiter, is_listening_out);
}

static inline void rqli_pushes_leave(struct rqli_pushes *self, struct rqli_waiter *waiter)
{
    self->ops->leave(self, waiter);
}

static inline struct rqli_push_view rqli_pushes_view(struct rqli_pushes *self,
                                                     const struct rqli_waiter *waiter)
{
    return self->ops->view(self, waiter);
}

/* Makes waiters poll: see rqli_subscription_forget(). */
static inline void rqli_pushes_forget(struct rqli_pushes *self, const struct rqli_key_set *set)
{
    self->ops->forget(self, set);
}

/* Hints other waiters: see rqli_waiters_hint_others(). True: one of them reads and cannot be
 * called. It wakes when something comes, so the caller is to send rqli_push_ping(). */
static inline bool rqli_pushes_hint_others(struct rqli_pushes *self,
                                           const struct rqli_waiter *waiter)
{
    return self->ops->hint_others(self, waiter);
}

/* These two hand a lock over inside the client: see waiters.h. */
static inline struct rqli_waiter *rqli_pushes_choose(struct rqli_pushes *self,
                                                     struct rqli_slice lock_key, uint64_t in_front)
{
    return self->ops->choose(self, lock_key, in_front);
}

/* Wakes the waiter, which may be gone afterwards. transfer: NULL passes it by. */
static inline void rqli_pushes_hand_over(struct rqli_pushes *self, struct rqli_waiter *chosen,
                                         struct rqli_transfer *transfer)
{
    self->ops->hand_over(self, chosen, transfer);
}

#endif
