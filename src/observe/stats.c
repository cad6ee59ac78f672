#include "observe/stats.h"
#include "observe/histogram.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/*
 * Counters of a client. Threads count in shards by their number, on cache lines of their own,
 * without a lock. A reader adds the shards up, so a sum may be a few counts old.
 */

/* More shards would only cost memory: two processors seldom use one of four at the same time, and a
 * count takes some nanoseconds even then. */
enum { SHARDS = 4, LINE_BYTES = 64 };

/* Has no number of times, because the buckets add up to it. */
struct times {
    _Atomic int64_t sum_us;
    _Atomic int64_t bucket[RQL_HISTOGRAM_BUCKETS];
};

/* One shard. A client has an array of them. */
struct rqli_stats {
    _Alignas(LINE_BYTES) _Atomic int64_t count[RQLI_STAT_COUNT];
    struct times times[RQLI_STAT_TIME_COUNT];
};

struct rqli_stats *rqli_stats_new(void)
{
    /* The size is a multiple of the alignment, as aligned_alloc() requires. */
    struct rqli_stats *self = aligned_alloc(LINE_BYTES, SHARDS * sizeof *self);

    if (self) {
        memset(self, 0, SHARDS * sizeof *self);
    }
    return self;
}

struct rqli_stats *rqli_stats_free(struct rqli_stats *self)
{
    free(self);
    return NULL;
}

static void add(_Atomic int64_t *counter, int64_t n)
{
    (void)atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static int64_t load(const _Atomic int64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void rqli_stats_count(struct rqli_stats *self, rqli_stats_shard shard, enum rqli_stat what,
                      int64_t n)
{
    add(&self[shard % SHARDS].count[what], n);
}

void rqli_stats_time(struct rqli_stats *self, rqli_stats_shard shard, enum rqli_stat_time what,
                     int64_t time_us)
{
    struct times *times = &self[shard % SHARDS].times[what];

    /* As in the histogram, a time below 0 counts as 0. */
    add(&times->sum_us, time_us > 0 ? time_us : 0);
    add(&times->bucket[rqli_histogram_bucket(time_us)], 1);
}

/* The counters of refusals and faults are in the order of their statuses, faults by their number
 * without its sign. Other statuses are not counted. */
void rqli_stats_refusal(struct rqli_stats *self, rqli_stats_shard shard, rql_status status)
{
    if (status >= RQL_TIMED_OUT && status <= RQL_CONFLICT) {
        add(&self[shard % SHARDS].count[RQLI_STAT_TIMED_OUT + status - RQL_TIMED_OUT], 1);
    } else if (status == RQL_CANCELLED) {
        add(&self[shard % SHARDS].count[RQLI_STAT_CANCELLED], 1);
    } else if (status == RQL_QUEUE_FULL) {
        add(&self[shard % SHARDS].count[RQLI_STAT_QUEUE_FULL], 1);
    } else if (status < 0 && status > -RQL_STATS_FAULTS) {
        add(&self[shard % SHARDS].count[RQLI_STAT_FAULTS - status], 1);
    }
}

static int64_t sum(const struct rqli_stats *self, size_t what)
{
    int64_t total = 0;

    for (size_t i = 0; i < SHARDS; i++) {
        total += load(&self[i].count[what]);
    }
    return total;
}

static void read_times(const struct rqli_stats *self, enum rqli_stat_time what, rql_histogram *out)
{
    *out = (rql_histogram){.count = 0};
    for (size_t i = 0; i < SHARDS; i++) {
        const struct times *times = &self[i].times[what];

        out->sum_us += load(&times->sum_us);
        for (size_t j = 0; j < RQL_HISTOGRAM_BUCKETS; j++) {
            int64_t n = load(&times->bucket[j]);

            out->bucket[j] += n;
            out->count += n;
        }
    }
}

/* counters.def names the field of each counter. */
rql_status rqli_stats_read(const struct rqli_stats *self, rql_stats *out)
{
    *out = (rql_stats){.size = sizeof *out};
#define COUNTER(constant, field, help) out->field = sum(self, RQLI_STAT_##constant);
#define PART(constant, field, family, help, label, value) COUNTER(constant, field, help)
#define TIMES(constant, field, help) read_times(self, RQLI_STAT_##constant, &out->field);
#include "observe/counters.def"
    for (size_t i = 0; i < RQL_STATS_FAULTS; i++) {
        out->faults[i] = sum(self, RQLI_STAT_FAULTS + i);
    }
    return RQL_OK;
}
