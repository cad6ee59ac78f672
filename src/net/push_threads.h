#ifndef RQLI_PUSH_THREADS_H
#define RQLI_PUSH_THREADS_H

/*
 * The second connection of a client, opened at the first wait: what the server pushes to waiters.
 *
 * The waiting threads read it in turn: one of them, the longest waiting, sleeps in recv() and wakes
 * straight from the kernel; the others sleep on their own wait word. A push is a hint: every wait
 * has an end at which the waiter asks for itself.
 */

#include "net/waiters.h"

struct rqli_endpoint;
struct rqli_push_threads;

struct rqli_push_threads *rqli_push_threads_new(const struct rqli_endpoint *endpoint);
struct rqli_push_threads *rqli_push_threads_free(struct rqli_push_threads *self);
void rqli_push_threads_abandon(struct rqli_push_threads *self); /* as rqli_conn_abandon() */

/* False: nobody of this client has waited yet, or the connection is down. Takes no mutex: every
 * acquisition asks. */
bool rqli_push_threads_is_listening(const struct rqli_push_threads *self);

/* As rqli_waiters_join(). Before the request is sent, whenever it listens: a grant may be pushed
 * before the answer to the request is read. */
rql_status rqli_push_threads_join(struct rqli_push_threads *self, struct rqli_waiter *waiter);
void rqli_push_threads_leave(struct rqli_push_threads *self, struct rqli_waiter *waiter);

enum rqli_wake {
    RQLI_WAKE_TIME, /* until_us came */
    RQLI_WAKE_PUSH, /* waiter->push is ours */
    RQLI_WAKE_HINT, /* something changed: ask the server */
};

/* Sleeps, reading for all when it is our turn; connects and subscribes when that is needed. */
enum rqli_wake rqli_push_threads_wait(struct rqli_push_threads *self, struct rqli_waiter *waiter,
                                      int64_t until_us);

/* What a waiter should know when it decides how often to ask. */
struct rqli_push_view {
    bool leads;          /* the first of this client for this lock */
    bool is_listening;   /* pushes arrive */
    uint64_t generation; /* of the subscription; for CLIENT TRACKING */
    int64_t client_id;   /* of the push connection; to redirect to */
};

struct rqli_push_view rqli_push_threads_view(struct rqli_push_threads *self,
                                             const struct rqli_waiter *waiter);

/* The same for one that is to be notified of the next change of a lock: it asks when there is one.
 * *is_new_out: it has not asked for that before, or was notified since. */
struct rqli_push_view rqli_push_threads_watch(struct rqli_push_threads *self,
                                              struct rqli_waiter *waiter, bool *is_new_out);

/* Whether pushes still come, asked by whoever has asked the server. True: send rqli_push_ping() on
 * the command connection, and pass on how many received it. */
bool rqli_push_threads_wants_ping(struct rqli_push_threads *self);
void rqli_push_threads_on_pinged(struct rqli_push_threads *self, int64_t n_received);

/* Takes what has come while no thread waits: all of a client are notified on one channel, and what
 * is for a loop comes here too. By whoever reads for a loop, or the server would keep it. Any
 * thread; next to nothing where no thread has waited. */
void rqli_push_threads_drain(struct rqli_push_threads *self);

/* As rqli_waiters_hint_others(). */
void rqli_push_threads_hint_others(struct rqli_push_threads *self,
                                   const struct rqli_waiter *waiter);

#endif
