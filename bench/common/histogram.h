#ifndef RQLB_HISTOGRAM_H
#define RQLB_HISTOGRAM_H

/* Counts of durations with a relative error below 1 %, from 0 to 68 s, in fixed memory. Plain data:
 * zero is empty, and it may live in shared memory. */

#include <stdint.h>

enum {
    HISTOGRAM_STEPS = 128, /* per power of two */
    HISTOGRAM_POWERS = 30,
    HISTOGRAM_BUCKETS = HISTOGRAM_STEPS * HISTOGRAM_POWERS,
};

struct histogram {
    uint64_t total;
    uint32_t count[HISTOGRAM_BUCKETS];
};

void histogram_clear(struct histogram *self);

/* Below 0 counts as 0, beyond the range as its end. */
void histogram_add(struct histogram *self, int64_t value_ns);

void histogram_merge(struct histogram *self, const struct histogram *other);

/* The value that `share` (0 to 1) of all values do not exceed; 0 when empty. */
int64_t histogram_quantile(const struct histogram *self, double share);

#endif
