#ifndef RQLI_PUSH_LOOP_H
#define RQLI_PUSH_LOOP_H

/* The push connection of a loop. Only its thread may call these functions. */

#include "net/conn/conn_loop.h"
#include "net/conn/pushes.h"

struct rqli_push_loop {
    struct rqli_pushes pushes; /* what its waiters join; it is always used */
    struct rqli_conn_loop *conn;
    struct rqli_conn_loop_listener listener;
    struct rqli_subscription subscription;
    void (*on_read)(struct rqli_push_loop *self); /* called when all that has come was taken */
    void (*on_lead)(struct rqli_waiter *waiter);  /* called when it leads from now on */
};

/* The caller sets `subscription.waiters.rouse`, `on_read` and `on_lead`. The site is borrowed;
 * *self must not be moved afterwards. False: no memory. */
bool rqli_push_loop_init(struct rqli_push_loop *self, struct uv_loop_s *loop,
                         const struct rqli_site *site);
void rqli_push_loop_fini(struct rqli_push_loop *self); /* the connection is closed already */

/* Returns whether the connection is wanted. */
static inline bool rqli_push_loop_has_waiters(const struct rqli_push_loop *self)
{
    return self->subscription.waiters.all.first != NULL;
}

/* Do the same as rqli_push_threads_wants_ping() and rqli_push_threads_on_pinged(). */
bool rqli_push_loop_wants_ping(struct rqli_push_loop *self, const struct rqli_waiter *waiter);
void rqli_push_loop_on_pinged(struct rqli_push_loop *self, int64_t n_received);

#endif
