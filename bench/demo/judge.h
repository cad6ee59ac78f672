#ifndef RQLB_JUDGE_H
#define RQLB_JUDGE_H

/* Decides from what was written down whether the lock kept its promises. */

#include "common/histogram.h"
#include "demo/watch.h"

/* The holder that was killed. */
struct killing {
    int process;         /* or NOBODY: it did not come to that */
    int worker;          /* held the lock */
    int64_t killed_ns;   /* when the process was gone */
    int64_t moved_on_ns; /* when the next holder had the lock; 0: never */
    int next_worker;
};

struct verdict {
    size_t holds;
    size_t outlived;        /* holds whose holder stood still until the lease was over */
    size_t overlaps;        /* holds that began before an earlier one had ended */
    int64_t counter;        /* what the unprotected counter says */
    int64_t counter_wanted; /* holds that came to their end */
    size_t token_faults;    /* tokens not above all earlier ones */
    size_t waits_seen;      /* requests that were seen in the queue */
    size_t waits_granted;
    size_t waits_moved;        /* others, during which the lock went to another server */
    size_t waits_still;        /* others, during which their process stood still */
    size_t waits_passed;       /* granted after a request that had come later */
    const struct hold *passed; /* what the first of those got */
    int64_t passed_us;         /* how long it had waited */
    int passed_by;             /* whose request came later */
    size_t waits_forgotten;    /* never granted, though their process lived on */
    size_t least, most;        /* holds per worker of the processes that lived on */
    struct histogram hand_offs;
};

/* The first hold after `since_ns`, or NULL. */
const struct hold *next_hold(const struct stage *stage, int64_t since_ns);

/* Adds the hand-offs of holds [from, to): a holder's call of release to the next holder's return
 * from acquire. */
void count_hand_offs(const struct stage *stage, size_t from, size_t to, struct histogram *out);

/* All workers have ended without a fault; *out is zeroed memory. Sorts what was seen. False: no
 * memory.
 */
bool judge(const struct stage *stage, struct watch *watch, const struct killing *killing,
           struct verdict *out);

#endif
