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

/* False: a grant that is no re-entry, and bears the nonce of another request (F-19). */
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

#endif
