#ifndef RQLI_ANSWER_H
#define RQLI_ANSWER_H

/* What the scripts answer, decoded. The numbers are those of the head comments in lua/. */

#include "wire/reply.h"

/* Far beyond any clock, and far enough from the end of int64_t to reckon with. */
#define RQLI_SERVER_US_MAX (INT64_MAX / 4)

enum rqli_answer_kind {
    RQLI_ANSWER_QUEUED = 0,
    RQLI_ANSWER_GRANTED = 1,
    RQLI_ANSWER_FAIL_FAST_NO_TRY = 2,
    RQLI_ANSWER_FAIL_FAST_AFTER_TRY = 3,
    RQLI_ANSWER_CONFLICT = 4,
    RQLI_ANSWER_STALE = 5, /* came after not_after */
    RQLI_ANSWER_AGAIN = 6, /* too much to do for one call */
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
    bool was_restored;       /* queued: somebody had removed it */
    int64_t of_ruby;         /* queued: from 1, the lock that is Ruby's or will be */
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

bool rqli_outcome_read(const struct rqli_reply *reply, struct rqli_outcome *out);

/* What TIME answers, in microseconds. */
bool rqli_time_read(const struct rqli_reply *reply, int64_t *out_us);

/* What acquire_series.lua answers, decoded. The numbers are those of its head comment. */

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

#endif
