#ifndef RQLI_ANSWER_H
#define RQLI_ANSWER_H

/* Decodes the replies of the scripts, and the messages that they publish. The numbers are those of
 * the head comments in lua/. Pure. */

#include "base/random.h"
#include "wire/command.h"
#include "wire/reply.h"

#include <rql/base.h>

/* Far beyond any clock, and far enough from the end of int64_t to calculate with. */
#define RQLI_SERVER_US_MAX (INT64_MAX / 4)

enum rqli_answer_kind {
    RQLI_ANSWER_QUEUED = 0,
    RQLI_ANSWER_GRANTED = 1,
    RQLI_ANSWER_FAIL_FAST_NO_TRY = 2,
    RQLI_ANSWER_FAIL_FAST_AFTER_TRY = 3,
    RQLI_ANSWER_CONFLICT = 4,
    RQLI_ANSWER_STALE = 5,  /* arrived after not_after */
    RQLI_ANSWER_AGAIN = 6,  /* too much to do for one call */
    RQLI_ANSWER_PAUSED = 7, /* nothing is granted, and it may not wait; left_ms: until then */
    RQLI_ANSWER_FULL = 8,   /* as many requests wait as it allows */
};

/* The answer of acquire.lua. */
struct rqli_answer {
    enum rqli_answer_kind kind;
    int64_t server_us;
    int64_t token;           /* granted */
    int64_t left_ms;         /* granted: of the lease; else of the lock, < 0 if it has no ttl */
    int64_t process;         /* granted: as rql_lock_process */
    struct rqli_slice nonce; /* granted: of the grant, which a re-entry shares */
    struct rqli_slice slots; /* granted: of a share, as in "0,3"; empty: the first ones, or none */
    bool was_handed_over;    /* granted: by a release, and this is the first sign of its owner */
    int64_t rank;            /* queued */
    int64_t score_us;        /* queued */
    bool is_first;           /* queued: no other librql waiter in front; Ruby's do not count */
    bool was_restored;       /* queued: it had been removed; granted: it was not in the queue */
    int64_t of_ruby;         /* queued: number, from 1, of the lock that Ruby has or will have */
    /* queued: the acquirer directly in front, or the owner if the request is first; empty: not
     * known */
    struct rqli_slice in_front;
};

/* Reads an answer. Returns false if it is not one of acquire.lua. */
bool rqli_answer_read(const struct rqli_reply *reply, struct rqli_answer *out);

/* Reads `units` slots, each below limit and above the one before it. "": the first ones. */
bool rqli_share_read_slots(struct rqli_slice text, const struct rqli_share *share, int *out);

/* Returns false for a grant that is not a re-entry and has the nonce of another request: then the
 * answers are out of step. */
bool rqli_answer_is_for(const struct rqli_answer *self, const char *nonce);

/* The other scripts answer two to five numbers: {what, served, left_ms} as a rule. */
struct rqli_outcome {
    int64_t what;
    int64_t second;
    int64_t third;
    int64_t fourth;
    int64_t fifth;
};

/* Results of transfer.lua: handed on, or several were joined and nothing was done. Otherwise it
 * answers as leave.lua does. */
enum { RQLI_TRANSFERRED = 4 };

bool rqli_outcome_read(const struct rqli_reply *reply, struct rqli_outcome *out);

/* The second number in the answer of a script that ends in serve_queue.lua. */
enum rqli_served {
    RQLI_SERVED_NOBODY = 0,
    RQLI_SERVED_ONE = 1,   /* the lock was handed over */
    RQLI_SERVED_PARTLY = 2 /* the call of rqli_serve_write() is due */
};

bool rqli_serve_is_due(const struct rqli_reply *reply);

/* Reads the answer of TIME, in microseconds. */
bool rqli_time_read(const struct rqli_reply *reply, int64_t *out_us);

/* ---- acquire_series.lua ---- */

enum rqli_obstacle {
    RQLI_OBSTACLE_NONE = 0,
    RQLI_OBSTACLE_HELD = 1,  /* by another */
    RQLI_OBSTACLE_QUEUE = 2, /* free, but other waiters are in front */
    RQLI_OBSTACLE_OWN = 3,   /* held by the acquirer itself */
};

/* Reads an answer about `count` locks. Of a grant only kind and server_us are set, the rest is in
 * its parts; all other answers are as those of acquire.lua. Returns false if it is not an answer of
 * acquire_series.lua. */
bool rqli_series_answer_read(const struct rqli_reply *reply, size_t count, struct rqli_answer *out);

/* Returns the index-th lock of a grant that was read, as if it were granted alone. */
struct rqli_answer rqli_series_answer_grant(const struct rqli_reply *reply, size_t index);

/* Returns the obstacle of the index-th lock, if the answer that was read is not a grant. */
enum rqli_obstacle rqli_series_answer_obstacle(const struct rqli_reply *reply, size_t index);

/* ---- pushes ---- */

/* A grant that the release of another holder has made for a waiter of this client. */
struct rqli_push {
    int64_t token;
    int64_t server_us;   /* when it was granted */
    int64_t lease_ms;    /* how long it lives unless claimed */
    int64_t received_us; /* when the push was received here */
};

enum rqli_pushed_kind {
    RQLI_PUSHED_NOTHING,      /* not for this client: ignored */
    RQLI_PUSHED_CONFIRMATION, /* of a subscription */
    RQLI_PUSHED_END,          /* end of one: the channel's slot is on another node by now */
    RQLI_PUSHED_GRANT,        /* a lock was handed over */
    RQLI_PUSHED_HINT,         /* the request of this nonce should poll: a series */
    RQLI_PUSHED_CHANGE,       /* a tracked key changed; all of them if lock_key is empty */
};

struct rqli_pushed {
    enum rqli_pushed_kind kind;
    struct rqli_push push;
    struct rqli_slice lock_key;     /* in the reply */
    const struct rqli_key_set *set; /* set of the partition whose channel it is; otherwise NULL */
    char nonce[RQLI_HEX_SIZE];
};

struct rqli_pushed rqli_push_read(const struct rqli_reply *reply);

/* Writes a subscription to the client's own channel for these keys: one command for the keys of a
 * partition. For all keys of a server, with hears_changes, a second command subscribes to the
 * messages of CLIENT TRACKING, because Ruby's locks are there. */
void rqli_push_subscribe(struct rqli_command *command, const struct rqli_key_set *set,
                         const char *identity, bool hears_changes);

/* Writes one command: an empty message to that channel. The answer is the number of clients that
 * receive it. */
void rqli_push_ping(struct rqli_command *command, const struct rqli_key_set *set,
                    const char *identity);

#endif
