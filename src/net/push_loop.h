#ifndef RQLI_PUSH_LOOP_H
#define RQLI_PUSH_LOOP_H

/* Those who wait on a loop, and the connection that pushes come by. A push is a hint, as
 * push_threads.h says of those of threads. One thread: the loop's. */

#include "net/conn_loop.h"
#include "net/push_threads.h"
#include "net/subscription.h"

struct rqli_push_loop {
    struct rqli_conn_loop *conn;
    struct rqli_conn_loop_listener listener;
    struct rqli_subscription subscription;
    struct rqli_waiters waiters;
    void (*on_read)(void *owner); /* all that has come was taken */
    void *owner;
};

/* rouse: as in struct rqli_waiters. endpoint is borrowed; it is not moved afterwards. False: no
 * memory. */
bool rqli_push_loop_init(struct rqli_push_loop *self, struct uv_loop_s *loop,
                         const struct rqli_endpoint *endpoint,
                         void (*rouse)(struct rqli_waiters *waiters, struct rqli_waiter *waiter));
void rqli_push_loop_fini(struct rqli_push_loop *self); /* the connection is closed */

/* Is the connection wanted? */
static inline bool rqli_push_loop_has_waiters(const struct rqli_push_loop *self)
{
    return self->waiters.first != NULL;
}

struct rqli_push_view rqli_push_loop_view(const struct rqli_push_loop *self,
                                          const struct rqli_waiter *waiter);

/* As rqli_push_threads_wants_ping(); by whoever has asked the server. */
bool rqli_push_loop_wants_ping(struct rqli_push_loop *self);
void rqli_push_loop_on_pinged(struct rqli_push_loop *self, int64_t n_received);

#endif
