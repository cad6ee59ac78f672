#include "common/histogram.h"

#include <stddef.h>

enum { STEP_BITS = 7 };

/* Values below one power of steps have a bucket each; above, each power of two has STEPS. */
static size_t bucket_of(int64_t value_ns)
{
    uint64_t value = value_ns > 0 ? (uint64_t)value_ns : 0;
    unsigned shift;
    size_t bucket;

    if (value < HISTOGRAM_STEPS) {
        return (size_t)value;
    }
    shift = 63U - (unsigned)__builtin_clzll(value) - STEP_BITS;
    bucket = (size_t)shift * HISTOGRAM_STEPS + (size_t)(value >> shift);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

static int64_t middle_of(size_t bucket)
{
    size_t shift;

    if (bucket < (size_t)HISTOGRAM_STEPS * 2) {
        return (int64_t)bucket;
    }
    shift = bucket / HISTOGRAM_STEPS - 1;
    return ((int64_t)(bucket - shift * HISTOGRAM_STEPS) << shift) + (INT64_C(1) << (shift - 1));
}

void histogram_clear(struct histogram *self)
{
    *self = (struct histogram){0};
}

void histogram_add(struct histogram *self, int64_t value_ns)
{
    self->count[bucket_of(value_ns)]++;
    self->total++;
}

void histogram_merge(struct histogram *self, const struct histogram *other)
{
    size_t i;

    for (i = 0; i < HISTOGRAM_BUCKETS; i++) {
        self->count[i] += other->count[i];
    }
    self->total += other->total;
}

int64_t histogram_quantile(const struct histogram *self, double share)
{
    uint64_t wanted = (uint64_t)(share * (double)self->total + 0.5);
    uint64_t passed = 0;
    size_t i;

    if (self->total == 0) {
        return 0;
    }
    for (i = 0; i < HISTOGRAM_BUCKETS - 1; i++) {
        passed += self->count[i];
        if (passed > 0 && passed >= wanted) {
            break;
        }
    }
    return middle_of(i);
}
