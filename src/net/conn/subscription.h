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

#include "net/conn/waiters.h"
#include "net/sock/socket.h"
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
void rqli_subscription_write(struct rqli_subscription *self, const struct rqli_site *site,
                             struct rqli_command *command);

/* Makes all waiters for these locks poll: another server has the locks by now. */
void rqli_subscription_forget(struct rqli_subscription *self, const struct rqli_key_set *set);

/* Returns true if the connection, while it is open, brings what is pushed for this waiter. */
bool rqli_subscription_hears(const struct rqli_subscription *self,
                             const struct rqli_waiter *waiter);

/* Takes a push that has come. */
void rqli_subscription_take(struct rqli_subscription *self, const struct rqli_site *site,
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

#endif
