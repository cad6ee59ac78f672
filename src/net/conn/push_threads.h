#ifndef RQLI_PUSH_THREADS_H
#define RQLI_PUSH_THREADS_H

/* The push connection of a client's threads, which take turns reading it. Any thread may call these
 * functions. */

#include "net/conn/pushes.h"

struct rqli_push_threads;

struct rqli_push_threads *rqli_push_threads_new(const struct rqli_site *site);
struct rqli_push_threads *rqli_push_threads_free(struct rqli_push_threads *self);
/* Closes the connection if no thread waits; the next waiter opens it again. */
void rqli_push_threads_end_if_unused(struct rqli_push_threads *self);
void rqli_push_threads_abandon(struct rqli_push_threads *self); /* like rqli_conn_abandon() */

/* Returns what its waiters join. It is used as soon as a thread of this client has waited. */
struct rqli_pushes *rqli_push_threads_pushes(struct rqli_push_threads *self);

/* Sleeps, and reads for all when it is this thread's turn; connects and subscribes if needed. */
enum rqli_wake rqli_push_threads_wait(struct rqli_push_threads *self, struct rqli_waiter *waiter,
                                      int64_t until_us);

/* Returns what the waiter should know, as it is to be notified of the next change of a lock, and
 * then polls. *is_new_out: it was not watching before, or was notified since. */
struct rqli_push_view rqli_push_threads_watch(struct rqli_push_threads *self,
                                              struct rqli_waiter *waiter, bool *is_new_out);

/* Called by a waiter that has polled, and continues to wait. Subscribes to its channel if that was
 * not done before, and checks whether pushes still come. True: send rqli_push_ping() for its keys
 * on the command connection, and pass on how many received it. */
bool rqli_push_threads_wants_ping(struct rqli_push_threads *self, const struct rqli_waiter *waiter);
void rqli_push_threads_on_pinged(struct rqli_push_threads *self, int64_t n_received);

/* Makes all waiters poll. The reader, if it cannot be woken, within the time after which it looks
 * around. */
void rqli_push_threads_hint_all(struct rqli_push_threads *self);

/* Takes what has come while no thread waits. All waiters of a client are notified on one channel,
 * so what is for a loop comes here too, and the server would have to keep it. Called by the code
 * that reads for a loop. Any thread; costs next to nothing if no thread has waited. */
void rqli_push_threads_drain(struct rqli_push_threads *self);

#endif
