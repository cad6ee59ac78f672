#ifndef RQLI_ANSWER_H
#define RQLI_ANSWER_H

/* What the scripts say, in their replies and in what they publish, decoded. The numbers are those
 * of the head comments in lua/. Pure. */

#include "base/random.h"
#include "wire/command.h"
#include "wire/reply.h"

#include <rql/base.h>

/* Far beyond any clock, and far enough from the end of int64_t to reckon with. */
#define RQLI_SERVER_US_MAX (INT64_MAX / 4)

enum rqli_answer_kind {
    RQLI_ANSWER_QUEUED = 0,
    RQLI_ANSWER_GRANTED = 1,
    RQLI_ANSWER_FAIL_FAST_NO_TRY = 2,
    RQLI_ANSWER_FAIL_FAST_AFTER_TRY = 3,
    RQLI_ANSWER_CONFLICT = 4,
    RQLI_ANSWER_STALE = 5,  /* came after not_after */
    RQLI_ANSWER_AGAIN = 6,  /* too much to do for one call */
    RQLI_ANSWER_PAUSED = 7, /* nothing is granted, and it may not wait; left_ms: until when */
};

/* acquire.lua */
struct rqli_answer {
    enum rqli_answer_kind kind;
    int64_t server_us;
    int64_t token;           /* granted */
    int64_t left_ms;         /* granted: of the lease; else of the lock, < 0 if it has no ttl */
    int64_t process;         /* granted: as rql_lock_process */
    struct rqli_slice nonce; /* granted: of the grant, which a re-entry shares */
    bool was_handed_over;    /* granted: by a release, and this is the first sign of its owner */
    int64_t rank;            /* queued */
    int64_t score_us;        /* queued */
    bool is_first;           /* queued: no other waiter of ours in front */
    bool was_restored;       /* queued: somebody had removed it; granted: it was not in the queue */
    int64_t of_ruby;         /* queued: from 1, the lock that is Ruby's or will be */
    /* queued: the acquirer directly in front, for the first the owner; empty: not known */
    struct rqli_slice in_front;
};

/* False: not what acquire.lua answers. */
bool rqli_answer_read(const struct rqli_reply *reply, struct rqli_answer *out);

/* False: a grant that is no re-entry, and bears the nonce of another request: the
 * answers are out of step. */
bool rqli_answer_is_for(const struct rqli_answer *self, const char *nonce);

/* The others answer at least two numbers; {what, now_us, left_ms}, or shorter. */
struct rqli_outcome {
    int64_t what;
    int64_t second;
    int64_t third;
};

/* What transfer.lua has done, else what leave.lua would have; but nothing where several were
 * joined. */
enum { RQLI_TRANSFERRED = 4, RQLI_NOT_TOGETHER = 5 };

bool rqli_outcome_read(const struct rqli_reply *reply, struct rqli_outcome *out);

/* The second number of the scripts that end in serve_queue.lua. */
enum rqli_served {
    RQLI_SERVED_NOBODY = 0,
    RQLI_SERVED_ONE = 1,   /* the lock was handed over */
    RQLI_SERVED_PARTLY = 2 /* the call of rqli_serve_write() is due */
};

bool rqli_serve_is_due(const struct rqli_reply *reply);

/* What TIME answers, in microseconds. */
bool rqli_time_read(const struct rqli_reply *reply, int64_t *out_us);

/* ---- acquire_series.lua ---- */

enum rqli_obstacle {
    RQLI_OBSTACLE_NONE = 0,
    RQLI_OBSTACLE_HELD = 1,  /* by another */
    RQLI_OBSTACLE_QUEUE = 2, /* free, others are in front */
    RQLI_OBSTACLE_OWN = 3,   /* held by the acquirer itself */
};

/* Of `count` locks. A grant: kind and server_us only, the rest is in its parts; all others as those
 * of acquire.lua. False: not what acquire_series.lua answers. */
bool rqli_series_answer_read(const struct rqli_reply *reply, size_t count, struct rqli_answer *out);

/* The index-th lock of a grant that was read, as if it were granted alone. */
struct rqli_answer rqli_series_answer_grant(const struct rqli_reply *reply, size_t index);

/* What stands against the index-th lock, when the answer (read) is no grant. */
enum rqli_obstacle rqli_series_answer_obstacle(const struct rqli_reply *reply, size_t index);

/* ---- what comes by the push connection ---- */

/* A grant that another's release has made for us. */
struct rqli_push {
    int64_t token;
    int64_t server_us;   /* when it was granted */
    int64_t lease_ms;    /* how long it lives unless claimed */
    int64_t received_us; /* when it arrived here */
};

enum rqli_pushed_kind {
    RQLI_PUSHED_NOTHING,      /* not for us: ignored */
    RQLI_PUSHED_CONFIRMATION, /* of a subscription */
    RQLI_PUSHED_END,          /* of one: what belongs to the channel's slot is elsewhere by now */
    RQLI_PUSHED_GRANT,        /* a lock was handed over */
    RQLI_PUSHED_HINT,         /* the request of this nonce should poll: a series */
    RQLI_PUSHED_CHANGE,       /* a tracked key changed; all of them if lock_key is empty */
};

struct rqli_pushed {
    enum rqli_pushed_kind kind;
    struct rqli_push push;
    struct rqli_slice lock_key;     /* in the reply */
    const struct rqli_key_set *set; /* of a partition whose channel it is; else NULL */
    char nonce[RQLI_HEX_SIZE];
};

struct rqli_pushed rqli_push_read(const struct rqli_reply *reply);

/* Subscribes to the client's own channel for these keys: one command for those of a partition. For
 * all keys of a server, with hears_changes, a second one: to what CLIENT TRACKING says, as Ruby's
 * locks are there. */
void rqli_push_subscribe(struct rqli_command *command, const struct rqli_key_set *set,
                         const char *identity, bool hears_changes);

/* One command: a message to that channel that says nothing. How many hear it is the answer. */
void rqli_push_ping(struct rqli_command *command, const struct rqli_key_set *set,
                    const char *identity);

#endif
