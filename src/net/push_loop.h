#ifndef RQLI_PUSH_LOOP_H
#define RQLI_PUSH_LOOP_H

/* The push connection of a loop. Only its thread may call these functions. */

#include "net/conn_loop.h"
#include "net/subscription.h"

struct rqli_push_loop {
    struct rqli_conn_loop *conn;
    struct rqli_conn_loop_listener listener;
    struct rqli_subscription subscription;
    void (*on_read)(void *owner); /* called when all that has come was taken */
    void *owner;
};

/* rouse: see struct rqli_waiters. The endpoint is borrowed; *self must not be moved afterwards.
 * False: no memory. */
bool rqli_push_loop_init(struct rqli_push_loop *self, struct uv_loop_s *loop,
                         const struct rqli_endpoint *endpoint,
                         void (*rouse)(struct rqli_waiters *waiters, struct rqli_waiter *waiter));
void rqli_push_loop_fini(struct rqli_push_loop *self); /* the connection is closed already */

/* Returns whether the connection is wanted. */
static inline bool rqli_push_loop_has_waiters(const struct rqli_push_loop *self)
{
    return self->subscription.waiters.all.first != NULL;
}

struct rqli_push_view rqli_push_loop_view(const struct rqli_push_loop *self,
                                          const struct rqli_waiter *waiter);

/* Makes waiters poll: see rqli_subscription_forget(). */
void rqli_push_loop_forget(struct rqli_push_loop *self, const struct rqli_key_set *set);

/* Do the same as rqli_push_threads_wants_ping() and rqli_push_threads_on_pinged(). */
bool rqli_push_loop_wants_ping(struct rqli_push_loop *self, const struct rqli_waiter *waiter);
void rqli_push_loop_on_pinged(struct rqli_push_loop *self, int64_t n_received);

#endif
