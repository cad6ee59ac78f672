#ifndef RQLI_PUSH_LOOP_H
#define RQLI_PUSH_LOOP_H

/* The push connection of a loop, and those who wait there. A push is a hint, as push_threads.h says
 * of that of threads. One thread: the loop's. */

#include "net/push_threads.h"

struct rqli_push_loop;
struct uv_loop_s;

struct rqli_push_loop_listener {
    /* Something has come for it, if it waits. May end its stay, but of no other. */
    void (*rouse)(struct rqli_waiter *waiter);
    void (*on_read)(void *self); /* all that has come was taken */
    void *self;
};

/* endpoint and listener are borrowed. NULL: no memory. */
struct rqli_push_loop *rqli_push_loop_new(struct uv_loop_s *loop,
                                          const struct rqli_endpoint *endpoint,
                                          const struct rqli_push_loop_listener *listener);
void rqli_push_loop_close(struct rqli_push_loop *self, void (*closed)(void *data), void *data);
struct rqli_push_loop *rqli_push_loop_free(struct rqli_push_loop *self);
void rqli_push_loop_abandon(struct rqli_push_loop *self); /* as rqli_uv_socket_abandon() */

/* As rqli_waiters_join(), rqli_waiters_leave() and rqli_waiters_hint_others(). */
rql_status rqli_push_loop_join(struct rqli_push_loop *self, struct rqli_waiter *waiter);
struct rqli_waiter *rqli_push_loop_leave(struct rqli_push_loop *self, struct rqli_waiter *waiter);
void rqli_push_loop_hint_others(struct rqli_push_loop *self, const struct rqli_waiter *waiter);

struct rqli_push_view rqli_push_loop_view(const struct rqli_push_loop *self,
                                          const struct rqli_waiter *waiter);

/* As rqli_push_threads_wants_ping(); by whoever has asked the server. */
bool rqli_push_loop_wants_ping(struct rqli_push_loop *self);
void rqli_push_loop_on_pinged(struct rqli_push_loop *self, int64_t n_received);

void rqli_push_loop_read(struct rqli_push_loop *self); /* what has come */

/* Nobody will read for a while: hangs up, so that the server keeps nothing for it. */
void rqli_push_loop_rest(struct rqli_push_loop *self);

/* When to connect, if it is `wanted` and somebody waits. */
int64_t rqli_push_loop_due_us(const struct rqli_push_loop *self, bool wanted);
void rqli_push_loop_tend(struct rqli_push_loop *self, int64_t now_us, bool wanted);

#endif
