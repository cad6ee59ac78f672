#ifndef RQLI_SUBSCRIPTION_H
#define RQLI_SUBSCRIPTION_H

/*
 * The second connection of a client to a server, and of each loop. It is opened at the first wait
 * and brings what the server pushes to waiters. A push is a hint: every wait has an end at which
 * the waiter polls.
 *
 * A single server has one channel for all locks. If there are several servers each partition has
 * its own channel, which is subscribed to as soon as a waiter for one of its locks is found. In a
 * cluster the channel moves with its slot, and the server reports when the slot leaves. Until the
 * server has confirmed the channel, and if it refuses it, waiters poll.
 *
 * Waiting threads read the connection in turn: the longest waiting one sleeps in recv() and is
 * woken directly by the kernel; all other threads sleep on their own wait words. A loop watches it
 * like any other connection of a loop.
 */

#include "net/conn_loop.h"
#include "net/waiters.h"
#include "observe/stats.h"

/* ---- common to threads and loops; no lock ---- */

/* A bit for each partition. */
struct rqli_partition_bits {
    uint64_t words[RQLI_PARTITIONS / 64];
};

struct rqli_subscription {
    struct rqli_waiters waiters; /* of threads: the oldest one reads */
    uint64_t generation;         /* how often it was opened; for CLIENT TRACKING */
    int64_t client_id;           /* of the push connection; CLIENT TRACKING redirects to it */
    int64_t heard_us;            /* when the last push came; 0: none since it was opened */
    int64_t pinged_us;           /* when the last ping was due; 0: not yet */
    int64_t silent_us;           /* when that ping times out; 0: the server has not answered it */
    int64_t answer_us; /* when the oldest request of `asked` times out; 0: none is pending */
    struct rqli_partition_bits wanted;    /* a waiter has waited for a lock there */
    struct rqli_partition_bits asked;     /* requested over this connection, and not refused */
    struct rqli_partition_bits confirmed; /* the connection brings what is pushed there */
    bool is_refused; /* the last attempt to open it, or to subscribe to a channel, has failed */
};

/*
 * A connection may be open and yet bring nothing: the other end is gone, or a different server is
 * behind it than behind the command connection. So a waiter that has polled pings a connection that
 * is new, or has been quiet for long.
 *
 * True: the caller is to send rqli_push_ping() on the command connection, and to pass on how many
 * received it.
 */
bool rqli_subscription_wants_ping(struct rqli_subscription *self, int64_t now_us);
void rqli_subscription_on_pinged(struct rqli_subscription *self, int64_t n_received,
                                 int64_t io_timeout_ms, int64_t now_us);

/* Returns true if the ping, or a request to subscribe, timed out. Reconnect then, unless unread
 * bytes are pending. */
bool rqli_subscription_is_silent(const struct rqli_subscription *self, int64_t now_us);

/* Returns true if a push has come since the connection was opened and since it was last pinged. */
bool rqli_subscription_delivers(const struct rqli_subscription *self);

/* Called when the connection is open, or open again: makes waiters poll. After that
 * rqli_subscription_write() is due. */
void rqli_subscription_on_opened(struct rqli_subscription *self, const struct rqli_socket *sock);

/* Called when the connection could not be opened. */
void rqli_subscription_on_failed(struct rqli_subscription *self);

/* Records that a waiter waits for locks of this set. True: its channel was not requested over this
 * connection, so that rqli_subscription_write() is due while it is open. */
bool rqli_subscription_want(struct rqli_subscription *self, const struct rqli_key_set *set);

/* Subscribes to the channels that are wanted and were not requested yet: perhaps none. The replies
 * come like pushes. */
void rqli_subscription_write(struct rqli_subscription *self, const struct rqli_endpoint *endpoint,
                             struct rqli_command *command);

/* Makes all waiters for these locks poll: another server has the locks by now. */
void rqli_subscription_forget(struct rqli_subscription *self, const struct rqli_key_set *set);

/* Returns true if the connection, while it is open, brings what is pushed for this waiter. */
bool rqli_subscription_hears(const struct rqli_subscription *self,
                             const struct rqli_waiter *waiter);

/* Takes a push that has come. */
void rqli_subscription_take(struct rqli_subscription *self, const struct rqli_endpoint *endpoint,
                            rqli_stats_shard shard, const struct rqli_reply *reply,
                            int64_t heard_us);

/* Returns true if the connection timed out as in rqli_subscription_is_silent() and no unread bytes
 * are pending, which would be our fault; or if its login is to be renewed. */
bool rqli_subscription_is_lost(const struct rqli_subscription *self, const struct rqli_socket *sock,
                               int64_t now_us);

enum rqli_wake {
    RQLI_WAKE_TIME, /* until_us was reached */
    RQLI_WAKE_PUSH, /* a grant: waiter->push, or waiter->handed */
    RQLI_WAKE_HINT, /* something changed: the waiter should poll */
};

/* The state that a waiter needs when it decides how often to poll. */
struct rqli_push_view {
    bool leads;          /* the first of this client for this lock */
    bool is_listening;   /* the waiter's channel is subscribed to */
    bool is_refused;     /* the last attempt to subscribe has failed */
    bool delivers;       /* and pushes have been seen to come */
    uint64_t generation; /* of the subscription */
    int64_t client_id;
};

struct rqli_push_view rqli_subscription_view(const struct rqli_subscription *self, bool is_open,
                                             const struct rqli_waiter *waiter);

/* ---- for threads; any thread may call these ---- */

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

/* ---- for a loop; only its thread may call these ---- */

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
