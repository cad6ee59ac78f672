#ifndef RQLI_SUBSCRIPTION_H
#define RQLI_SUBSCRIPTION_H

/*
 * The second connection of a client to a server, and of each loop, opened at the first wait: what
 * the server pushes to those who wait. A push is a hint: every wait has an end at which the waiter
 * polls.
 *
 * One channel is for all locks of a single server. Where there are several each partition has its
 * own: it is subscribed to when somebody is found to wait for one of its locks. In a cluster it
 * moves with its slot, and the server says so when that leaves. Until it has confirmed the channel,
 * and where it refuses it, waiters poll.
 *
 * Waiting threads read it in turn: one of them, the longest waiting, sleeps in recv() and wakes
 * straight from the kernel; the others sleep on their own wait word. On a loop it is watched as any
 * connection of a loop is.
 */

#include "net/conn_loop.h"
#include "net/waiters.h"
#include "observe/stats.h"

/* ---- what is the same for threads and on a loop; no lock ---- */

/* A bit for each. */
struct rqli_partition_bits {
    uint64_t words[RQLI_PARTITIONS / 64];
};

struct rqli_subscription {
    struct rqli_waiters waiters; /* of threads: the oldest reads */
    uint64_t generation;         /* how often it was opened; for CLIENT TRACKING */
    int64_t client_id;           /* of the push connection; to redirect to */
    int64_t heard_us;            /* when a push came, last; 0: none since it was opened */
    int64_t pinged_us;           /* when it was last put to the test; 0: not yet */
    int64_t silent_us;           /* if nothing is heard by then, it was in vain; 0: no answer yet */
    int64_t answer_us;           /* by when the first of what was asked below is answered; or 0 */
    struct rqli_partition_bits wanted;    /* somebody has waited for a lock there */
    struct rqli_partition_bits asked;     /* over this connection, and not refused */
    struct rqli_partition_bits confirmed; /* it brings what is pushed there */
    bool is_refused; /* the last attempt to open it, or to subscribe to a channel, has failed */
};

/*
 * A connection may stand and yet bring nothing: the other end is gone, or another server is behind
 * it than behind the commands. So what is new, or has been quiet for long, is put to the test, by
 * whoever has polled.
 *
 * True: rqli_push_ping() is to be sent on the command connection, and how many received it to be
 * passed on.
 */
bool rqli_subscription_wants_ping(struct rqli_subscription *self, int64_t now_us);
void rqli_subscription_on_pinged(struct rqli_subscription *self, int64_t n_received,
                                 int64_t io_timeout_ms, int64_t now_us);

/* The test was in vain: connect anew, unless something has come that was not read yet. */
bool rqli_subscription_is_silent(const struct rqli_subscription *self, int64_t now_us);

/* It has brought something since it was opened, and since it was last put to the test. */
bool rqli_subscription_delivers(const struct rqli_subscription *self);

/* It is open, or open again: polls are due. Then rqli_subscription_write() is. */
void rqli_subscription_on_opened(struct rqli_subscription *self, const struct rqli_socket *sock);

/* It could not be opened. */
void rqli_subscription_on_failed(struct rqli_subscription *self);

/* Somebody waits for locks of this set. True: its channel was not asked for over this connection,
 * so that rqli_subscription_write() is due while it is open. */
bool rqli_subscription_want(struct rqli_subscription *self, const struct rqli_key_set *set);

/* Subscribes to the channels that are wanted and were not asked for: perhaps none. What is answered
 * comes as pushes do. */
void rqli_subscription_write(struct rqli_subscription *self, const struct rqli_endpoint *endpoint,
                             struct rqli_command *command);

/* These locks are another server's by now: all who wait for them here shall poll. */
void rqli_subscription_forget(struct rqli_subscription *self, const struct rqli_key_set *set);

/* While it is open: what is pushed for this waiter is brought. */
bool rqli_subscription_hears(const struct rqli_subscription *self,
                             const struct rqli_waiter *waiter);

/* A push has come. */
void rqli_subscription_take(struct rqli_subscription *self, const struct rqli_endpoint *endpoint,
                            rqli_stats_shard shard, const struct rqli_reply *reply,
                            int64_t heard_us);

/* The test was in vain, and nothing has come that was not read yet, which would be our fault; or
 * its login is to be renewed. */
bool rqli_subscription_is_lost(const struct rqli_subscription *self, const struct rqli_socket *sock,
                               int64_t now_us);

enum rqli_wake {
    RQLI_WAKE_TIME, /* until_us came */
    RQLI_WAKE_PUSH, /* waiter->push is ours */
    RQLI_WAKE_HINT, /* something changed: poll */
};

/* What a waiter should know when it decides how often to poll. */
struct rqli_push_view {
    bool leads;          /* the first of this client for this lock */
    bool is_listening;   /* it is subscribed */
    bool is_refused;     /* the last attempt to subscribe has failed */
    bool delivers;       /* and seen to bring what is pushed */
    uint64_t generation; /* of the subscription */
    int64_t client_id;
};

struct rqli_push_view rqli_subscription_view(const struct rqli_subscription *self, bool is_open,
                                             const struct rqli_waiter *waiter);

/* ---- of threads: any thread ---- */

struct rqli_push_threads;

struct rqli_push_threads *rqli_push_threads_new(const struct rqli_endpoint *endpoint);
struct rqli_push_threads *rqli_push_threads_free(struct rqli_push_threads *self);
/* Nobody waits: it is closed, and opened again by who does. */
void rqli_push_threads_end_if_unused(struct rqli_push_threads *self);
void rqli_push_threads_abandon(struct rqli_push_threads *self); /* as rqli_conn_abandon() */

/* False: no thread of this client has waited yet. Takes no mutex: every acquisition asks. */
bool rqli_push_threads_is_used(const struct rqli_push_threads *self);

/* As rqli_waiters_join(). Before the request is sent, whenever it is used: a grant may be pushed
 * before the answer to the request is read. *is_listening_out: pushes have been coming already. */
rql_status rqli_push_threads_join(struct rqli_push_threads *self, struct rqli_waiter *waiter,
                                  bool *is_listening_out);
void rqli_push_threads_leave(struct rqli_push_threads *self, struct rqli_waiter *waiter);
/* As rqli_subscription_forget(). */
void rqli_push_threads_forget(struct rqli_push_threads *self, const struct rqli_key_set *set);

/* The hand-overs of waiters.h, from one thread to another. */
struct rqli_waiter *rqli_push_threads_choose(struct rqli_push_threads *self,
                                             struct rqli_slice lock_key, uint64_t in_front);
/* NULL: it is passed by. */
void rqli_push_threads_hand_over(struct rqli_push_threads *self, struct rqli_waiter *chosen,
                                 struct rqli_transfer *transfer);

/* Sleeps, reading for all when it is our turn; connects and subscribes when that is needed. */
enum rqli_wake rqli_push_threads_wait(struct rqli_push_threads *self, struct rqli_waiter *waiter,
                                      int64_t until_us);

struct rqli_push_view rqli_push_threads_view(struct rqli_push_threads *self,
                                             const struct rqli_waiter *waiter);

/* The same for one that is to be notified of the next change of a lock: it polls when there is one.
 * *is_new_out: it has not watched before, or was notified since. */
struct rqli_push_view rqli_push_threads_watch(struct rqli_push_threads *self,
                                              struct rqli_waiter *waiter, bool *is_new_out);

/* Called by whoever has polled, and waits on: what is pushed for it is listened to from now on, if
 * that was not so. And whether pushes still come. True: send rqli_push_ping() for its keys on the
 * command connection, and pass on how many received it. */
bool rqli_push_threads_wants_ping(struct rqli_push_threads *self, const struct rqli_waiter *waiter);
void rqli_push_threads_on_pinged(struct rqli_push_threads *self, int64_t n_received);

/* Takes what has come while no thread waits: all of a client are notified on one channel, and what
 * is for a loop comes here too. By whoever reads for a loop, or the server would keep it. Any
 * thread; next to nothing where no thread has waited. */
void rqli_push_threads_drain(struct rqli_push_threads *self);

/* As rqli_waiters_hint_others(). True: one of them reads, and nobody can call it: it wakes when
 * something comes, for which rqli_push_ping() is to be sent. */
bool rqli_push_threads_hint_others(struct rqli_push_threads *self,
                                   const struct rqli_waiter *waiter);

/* ---- of a loop: its thread ---- */

struct rqli_push_loop {
    struct rqli_conn_loop *conn;
    struct rqli_conn_loop_listener listener;
    struct rqli_subscription subscription;
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
    return self->subscription.waiters.all.first != NULL;
}

struct rqli_push_view rqli_push_loop_view(const struct rqli_push_loop *self,
                                          const struct rqli_waiter *waiter);

/* As rqli_subscription_forget(). */
void rqli_push_loop_forget(struct rqli_push_loop *self, const struct rqli_key_set *set);

/* As rqli_push_threads_wants_ping(). */
bool rqli_push_loop_wants_ping(struct rqli_push_loop *self, const struct rqli_waiter *waiter);
void rqli_push_loop_on_pinged(struct rqli_push_loop *self, int64_t n_received);

#endif
