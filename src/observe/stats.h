#ifndef RQLI_STATS_H
#define RQLI_STATS_H

/* What a client counts. Any thread, without a mutex: relaxed atomics in a few shards, so that
 * threads that work at the same time seldom write to the same cache line. A light build has none of
 * it: observe/light.c. */

#include <rql/stats.h>

struct rqli_stats;

enum rqli_stat {
    RQLI_STAT_ACQUISITIONS,
    RQLI_STAT_HAND_OVERS,
    RQLI_STAT_REENTRIES,
    RQLI_STAT_TRIES,
    RQLI_STAT_POLLS,
    RQLI_STAT_REQUEUED,
    RQLI_STAT_RESTORED,
    RQLI_STAT_RELEASES,
    RQLI_STAT_RELEASES_NOT_HELD,
    RQLI_STAT_RELEASES_FAILED,
    RQLI_STAT_EXTENSIONS,
    RQLI_STAT_RENEWALS,
    RQLI_STAT_LOST,
    RQLI_STAT_SWEPT_KEYS,
    RQLI_STAT_PROBES,
    RQLI_STAT_HOSTS_DECLARED_DEAD,
    RQLI_STAT_SWARM_FAILURES,
    RQLI_STAT_SWARM_RESTARTS,
    RQLI_STAT_ZOMBIE_HOSTS,
    RQLI_STAT_ZOMBIE_LOCKS,
    RQLI_STAT_ZOMBIE_REQUESTS,
    RQLI_STAT_ZOMBIE_HAND_OVERS,
    RQLI_STAT_TIMED_OUT, /* in the order of rql_status */
    RQLI_STAT_RETRY_LIMIT,
    RQLI_STAT_FAIL_FAST_NO_TRY,
    RQLI_STAT_FAIL_FAST_AFTER_TRY,
    RQLI_STAT_CONFLICTS,
    RQLI_STAT_CANCELLED,
    RQLI_STAT_FAULTS, /* and the statuses that follow */
    RQLI_STAT_COUNT = RQLI_STAT_FAULTS + RQL_STATS_FAULTS,
};

enum rqli_stat_time {
    RQLI_STAT_WAIT,
    RQLI_STAT_HOLD,
    RQLI_STAT_HAND_OFF,
    RQLI_STAT_TIME_COUNT,
};

/* NULL: out of memory. */
struct rqli_stats *rqli_stats_new(void);
struct rqli_stats *rqli_stats_free(struct rqli_stats *self);

/* Which shard a thread counts in; any number will do. */
typedef unsigned rqli_stats_shard;

void rqli_stats_count(struct rqli_stats *self, rqli_stats_shard shard, enum rqli_stat what,
                      int64_t n);
void rqli_stats_time(struct rqli_stats *self, rqli_stats_shard shard, enum rqli_stat_time what,
                     int64_t time_us);

/* An acquisition ended with this outcome or fault. */
void rqli_stats_refusal(struct rqli_stats *self, rqli_stats_shard shard, rql_status status);

/* The sum of all shards, of what is counted here. */
void rqli_stats_read(const struct rqli_stats *self, rql_stats *out);

#endif
