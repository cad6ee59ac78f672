#ifndef RQLI_STATS_H
#define RQLI_STATS_H

/* The counters of a client; counters.def has the list. Any thread may count, without a mutex:
 * relaxed atomics in a few shards, so that threads that work at the same time seldom write to the
 * same cache line. A light build has none of it: light.c. */

#include <rql/stats.h>

struct rqli_stats;

enum rqli_stat {

#define COUNTER(constant, field, help) RQLI_STAT_##constant,
#define PART(constant, field, family, help, label, value) RQLI_STAT_##constant,
#include "observe/counters.def"
    RQLI_STAT_FAULTS, /* and the statuses that follow */
    RQLI_STAT_COUNT = RQLI_STAT_FAULTS + RQL_STATS_FAULTS,
};

enum rqli_stat_time {

#define TIMES(constant, field, help) RQLI_STAT_##constant,
#include "observe/counters.def"
    RQLI_STAT_TIME_COUNT,
};

/* Returns new counters. NULL: out of memory. */
struct rqli_stats *rqli_stats_new(void);
struct rqli_stats *rqli_stats_free(struct rqli_stats *self);

/* The shard that a thread counts in; any number will do. */
typedef unsigned rqli_stats_shard;

void rqli_stats_count(struct rqli_stats *self, rqli_stats_shard shard, enum rqli_stat what,
                      int64_t n);
void rqli_stats_time(struct rqli_stats *self, rqli_stats_shard shard, enum rqli_stat_time what,
                     int64_t time_us);

/* Counts an acquisition that ended with this outcome or fault. */
void rqli_stats_refusal(struct rqli_stats *self, rqli_stats_shard shard, rql_status status);

/* Reads the sum of all shards. RQL_E_UNSUPPORTED: a light build; *out is untouched. */
rql_status rqli_stats_read(const struct rqli_stats *self, rql_stats *out);

#endif
