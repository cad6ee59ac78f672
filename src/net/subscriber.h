#ifndef RQLI_SUBSCRIBER_H
#define RQLI_SUBSCRIBER_H

/*
 * The second connection of a client, opened at the first wait: what the server pushes to waiters.
 *
 * The waiting threads read it in turn: one of them, the longest waiting, sleeps in recv() and wakes
 * straight from the kernel; the others sleep on their own signal (architecture.md section 3). A
 * push is a hint: every wait has an end at which the waiter looks for itself.
 */

#include "base/signal.h"
#include "wire/push.h"

#include <rql/status.h>

struct rqli_endpoint;
struct rqli_subscriber;

/* One waiting request; on the stack of its caller. The first six are set by the caller. */
struct rqli_waiter {
    struct rqli_slice lock_key; /* of a series: its nonces, which no key is like */
    bool waits_for_several;     /* a series */
    const char *name;           /* of the lock */
    const char *acquirer;       /* who waits */
    const char *nonce;          /* 32 digits; of a series: those of all its requests in a row */
    int64_t deadline_us;        /* of its call: it connects for all no longer than that */
    struct rqli_waiter *next;
    struct rqli_waiter *previous;
    const struct rqli_waiter *outer; /* of the same thread, which called again from a callback */
    struct rqli_push push;
    bool pushed;
    bool nudged; /* should look for itself */
    bool has_joined;
    bool watches; /* a lock of Ruby's: has asked to be told of its next change */
    bool sleeps;  /* in rqli_subscriber_wait(): can be called to read */
    rqli_signal mark;
};

struct rqli_subscriber *rqli_subscriber_new(const struct rqli_endpoint *endpoint);
struct rqli_subscriber *rqli_subscriber_free(struct rqli_subscriber *self);
void rqli_subscriber_abandon(struct rqli_subscriber *self); /* as rqli_conn_abandon() */

/* False: nobody of this client has waited yet, or the connection is down. */
bool rqli_subscriber_is_listening(struct rqli_subscriber *self);

/* Join before the request is sent whenever the subscriber listens: a grant may be pushed before the
 * answer to the request is read. RQL_E_BUSY (not raised): this acquirer waits for this lock
 * already. */
rql_status rqli_subscriber_join(struct rqli_subscriber *self, struct rqli_waiter *waiter);
void rqli_subscriber_leave(struct rqli_subscriber *self, struct rqli_waiter *waiter);

enum rqli_wake {
    RQLI_WAKE_TIME, /* until_us came */
    RQLI_WAKE_PUSH, /* waiter->push is ours */
    RQLI_WAKE_LOOK, /* something changed: ask the server */
};

/* Sleeps, reading for all when it is our turn; connects and subscribes when that is needed. */
enum rqli_wake rqli_subscriber_wait(struct rqli_subscriber *self, struct rqli_waiter *waiter,
                                    int64_t until_us);

/* What a waiter should know when it decides how often to look (protocol.md 13). */
struct rqli_waiter_view {
    bool leads;          /* the first of this client for this lock */
    bool is_listening;   /* pushes arrive */
    uint64_t generation; /* of the subscription; for CLIENT TRACKING (protocol.md 22) */
    int64_t client_id;   /* of the subscriber connection; to redirect to */
};

struct rqli_waiter_view rqli_subscriber_view(struct rqli_subscriber *self,
                                             const struct rqli_waiter *waiter);

/* The same for one that has the next change of a lock told: it looks when there is one.
 * *is_new_out: it has not asked for that before, or was told since. */
struct rqli_waiter_view rqli_subscriber_watch(struct rqli_subscriber *self,
                                              struct rqli_waiter *waiter, bool *is_new_out);

/* Whether it still hears, asked by whoever has asked the server (F-43). True: send
 * rqli_push_call() on the command connection, and tell how many heard it. */
bool rqli_subscriber_wants_call(struct rqli_subscriber *self);
void rqli_subscriber_on_called(struct rqli_subscriber *self, int64_t n_heard);

/* Takes what has come while no thread waits: all of a client are told on one channel, and what is
 * for a loop comes here too. By whoever reads for a loop, or the server would keep it. Any thread;
 * next to nothing where no thread has waited. */
void rqli_subscriber_drain(struct rqli_subscriber *self);

/* All other waiters for the same lock shall look for themselves (protocol.md 5); all others, if it
 * waits for several. */
void rqli_subscriber_nudge(struct rqli_subscriber *self, const struct rqli_waiter *waiter);

#endif
