#ifndef RQLI_PUSH_THREADS_H
#define RQLI_PUSH_THREADS_H

/* The push connection of a client's threads, which take turns reading it. Any thread may call these
 * functions. */

#include "net/subscription.h"

struct rqli_push_threads;

struct rqli_push_threads *rqli_push_threads_new(const struct rqli_endpoint *endpoint);
struct rqli_push_threads *rqli_push_threads_free(struct rqli_push_threads *self);
/* Closes the connection if no thread waits; the next waiter opens it again. */
void rqli_push_threads_end_if_unused(struct rqli_push_threads *self);
void rqli_push_threads_abandon(struct rqli_push_threads *self); /* like rqli_conn_abandon() */

/* Returns false if no thread of this client has waited yet. Takes no mutex, because every
 * acquisition calls it. */
bool rqli_push_threads_is_used(const struct rqli_push_threads *self);

/* Adds a waiter: see rqli_waiters_join(). If the connection is used, call this before the request
 * is sent: a grant may be pushed before the reply to the request is read. *is_listening_out: pushes
 * have been coming already. */
rql_status rqli_push_threads_join(struct rqli_push_threads *self, struct rqli_waiter *waiter,
                                  bool *is_listening_out);
void rqli_push_threads_leave(struct rqli_push_threads *self, struct rqli_waiter *waiter);
/* Makes waiters poll: see rqli_subscription_forget(). */
void rqli_push_threads_forget(struct rqli_push_threads *self, const struct rqli_key_set *set);

/* These two hand a lock over from one thread to another: see waiters.h. */
struct rqli_waiter *rqli_push_threads_choose(struct rqli_push_threads *self,
                                             struct rqli_slice lock_key, uint64_t in_front);
/* transfer: NULL passes the waiter by. */
void rqli_push_threads_hand_over(struct rqli_push_threads *self, struct rqli_waiter *chosen,
                                 struct rqli_transfer *transfer);

/* Sleeps, and reads for all when it is this thread's turn; connects and subscribes if needed. */
enum rqli_wake rqli_push_threads_wait(struct rqli_push_threads *self, struct rqli_waiter *waiter,
                                      int64_t until_us);

struct rqli_push_view rqli_push_threads_view(struct rqli_push_threads *self,
                                             const struct rqli_waiter *waiter);

/* Returns the same for a waiter that is to be notified of the next change of a lock, and then
 * polls. *is_new_out: it was not watching before, or was notified since. */
struct rqli_push_view rqli_push_threads_watch(struct rqli_push_threads *self,
                                              struct rqli_waiter *waiter, bool *is_new_out);

/* Called by a waiter that has polled, and continues to wait. Subscribes to its channel if that was
 * not done before, and checks whether pushes still come. True: send rqli_push_ping() for its keys
 * on the command connection, and pass on how many received it. */
bool rqli_push_threads_wants_ping(struct rqli_push_threads *self, const struct rqli_waiter *waiter);
void rqli_push_threads_on_pinged(struct rqli_push_threads *self, int64_t n_received);

/* Takes what has come while no thread waits. All waiters of a client are notified on one channel,
 * so what is for a loop comes here too, and the server would have to keep it. Called by the code
 * that reads for a loop. Any thread; costs next to nothing if no thread has waited. */
void rqli_push_threads_drain(struct rqli_push_threads *self);

/* Hints other waiters: see rqli_waiters_hint_others(). True: one of them reads and cannot be
 * called. It wakes when something comes, so the caller is to send rqli_push_ping(). */
bool rqli_push_threads_hint_others(struct rqli_push_threads *self,
                                   const struct rqli_waiter *waiter);

#endif
