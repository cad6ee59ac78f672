#ifndef RQLI_SERIES_ANSWER_H
#define RQLI_SERIES_ANSWER_H

/* What acquire_series.lua answers, decoded. The numbers are those of its head comment. */

#include "wire/answer.h"

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
