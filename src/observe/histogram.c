#include "observe/histogram.h"

#include <string.h>

/*
 * Calculations with statistics that were read. Times are in log-linear buckets: eight to a power of
 * two, so a bucket is at most 12.5 % wide.
 */

/* The last bucket ends before 2^42 us, which is 50 days; longer times count in it. */
enum { STEPS = 8, STEP_BITS = 3, TOP_BIT = 41 };

_Static_assert(RQL_HISTOGRAM_BUCKETS == STEPS * (TOP_BIT - STEP_BITS + 2), "stats.h says so");

/* The highest bit chooses the power of two, the three bits after it one of its eight buckets. A
 * time below eight has a bucket of its own. */
size_t rqli_histogram_bucket(int64_t time_us)
{
    unsigned bit;
    unsigned step;

    if (time_us < STEPS) {
        return time_us < 0 ? 0 : (size_t)time_us;
    }
    if (time_us >> (TOP_BIT + 1)) {
        return RQL_HISTOGRAM_BUCKETS - 1;
    }
    /* The leading bit is known, so only the three bits after it distinguish the buckets. */
    bit = 63U - (unsigned)__builtin_clzll((unsigned long long)time_us);
    step = (unsigned)(time_us >> (bit - STEP_BITS)) % STEPS;
    return (size_t)(bit - STEP_BITS + 1) * STEPS + step;
}

/* The inverse: returns one less than the shortest time of the next bucket. */
int64_t rqli_histogram_upper(size_t bucket)
{
    unsigned shift;

    if (bucket >= RQL_HISTOGRAM_BUCKETS) {
        bucket = RQL_HISTOGRAM_BUCKETS - 1;
    }
    if (bucket < STEPS) {
        return (int64_t)bucket;
    }
    shift = (unsigned)bucket / STEPS - 1;
    return ((int64_t)(STEPS + bucket % STEPS + 1) << shift) - 1;
}

/* Returns the upper bound of the bucket that the quantile falls into: never less than the true
 * value. */
int64_t rql_stats_quantile(const rql_histogram *histogram, double share)
{
    int64_t total = 0;
    int64_t below = 0;
    double wanted;
    size_t last = 0;

    for (size_t i = 0; i < RQL_HISTOGRAM_BUCKETS; i++) {
        total += histogram->bucket[i];
    }
    /* -1: there are no times, or the share is not a number. */
    if (total == 0 || share != share) {
        return -1;
    }
    share = share < 0 ? 0 : share;
    wanted = share > 1 ? (double)total : share * (double)total;
    /* Goes on until some time lies below, so that a share of 0 gives the shortest time that was
     * counted. */
    for (size_t i = 0; i < RQL_HISTOGRAM_BUCKETS && (below == 0 || (double)below < wanted); i++) {
        below += histogram->bucket[i];
        last = i;
    }
    return rqli_histogram_upper(last);
}

_Static_assert(sizeof(rql_stats) % sizeof(int64_t) == 0, "all but the size are counts");

void rql_stats_add(rql_stats *into, const rql_stats *from)
{
    char *to_bytes = (char *)into;
    const char *from_bytes = (const char *)from;
    /* Each is as long as its writer knew the struct: a field that one of them lacks stays
     * unchanged. */
    size_t end = into->size < from->size ? into->size : from->size;

    /* Every field after the size is a count. */
    for (size_t at = sizeof into->size; at + sizeof(int64_t) <= end; at += sizeof(int64_t)) {
        int64_t a;
        int64_t b;

        memcpy(&a, to_bytes + at, sizeof a);
        memcpy(&b, from_bytes + at, sizeof b);
        a += b;
        memcpy(to_bytes + at, &a, sizeof a);
    }
}
