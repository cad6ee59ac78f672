#include "observe/stats.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* More only costs memory: two processors seldom meet in one of four, and a count is some
 * nanoseconds even then. */
enum { SHARDS = 4, LINE_BYTES = 64 };

struct times {
    _Atomic int64_t sum_us;
    _Atomic int64_t bucket[RQL_HISTOGRAM_BUCKETS];
};

struct shard {
    _Alignas(LINE_BYTES) _Atomic int64_t count[RQLI_STAT_COUNT];
    struct times times[RQLI_STAT_TIME_COUNT];
};

struct rqli_stats {
    struct shard shard[SHARDS];
};

/* Where the reading of each counter goes. */
static const size_t places[] = {
    [RQLI_STAT_ACQUISITIONS] = offsetof(rql_stats, acquisitions),
    [RQLI_STAT_HAND_OVERS] = offsetof(rql_stats, hand_overs),
    [RQLI_STAT_REENTRIES] = offsetof(rql_stats, reentries),
    [RQLI_STAT_TRIES] = offsetof(rql_stats, tries),
    [RQLI_STAT_POLLS] = offsetof(rql_stats, polls),
    [RQLI_STAT_REQUEUED] = offsetof(rql_stats, requeued),
    [RQLI_STAT_RESTORED] = offsetof(rql_stats, restored),
    [RQLI_STAT_RELEASES] = offsetof(rql_stats, releases),
    [RQLI_STAT_RELEASES_NOT_HELD] = offsetof(rql_stats, releases_not_held),
    [RQLI_STAT_RELEASES_FAILED] = offsetof(rql_stats, releases_failed),
    [RQLI_STAT_EXTENSIONS] = offsetof(rql_stats, extensions),
    [RQLI_STAT_RENEWALS] = offsetof(rql_stats, renewals),
    [RQLI_STAT_LOST] = offsetof(rql_stats, lost),
    [RQLI_STAT_SWEPT_KEYS] = offsetof(rql_stats, swept_keys),
    [RQLI_STAT_PROBES] = offsetof(rql_stats, probes),
    [RQLI_STAT_HOSTS_DECLARED_DEAD] = offsetof(rql_stats, hosts_declared_dead),
    [RQLI_STAT_SWARM_FAILURES] = offsetof(rql_stats, swarm_failures),
    [RQLI_STAT_SWARM_RESTARTS] = offsetof(rql_stats, swarm_restarts),
    [RQLI_STAT_ZOMBIE_HOSTS] = offsetof(rql_stats, zombie_hosts),
    [RQLI_STAT_ZOMBIE_LOCKS] = offsetof(rql_stats, zombie_locks),
    [RQLI_STAT_ZOMBIE_REQUESTS] = offsetof(rql_stats, zombie_requests),
    [RQLI_STAT_ZOMBIE_HAND_OVERS] = offsetof(rql_stats, zombie_hand_overs),
    [RQLI_STAT_TIMED_OUT] = offsetof(rql_stats, timed_out),
    [RQLI_STAT_RETRY_LIMIT] = offsetof(rql_stats, retry_limit),
    [RQLI_STAT_FAIL_FAST_NO_TRY] = offsetof(rql_stats, fail_fast_no_try),
    [RQLI_STAT_FAIL_FAST_AFTER_TRY] = offsetof(rql_stats, fail_fast_after_try),
    [RQLI_STAT_CONFLICTS] = offsetof(rql_stats, conflicts),
    [RQLI_STAT_CANCELLED] = offsetof(rql_stats, cancelled),
};

struct rqli_stats *rqli_stats_new(void)
{
    struct rqli_stats *self = aligned_alloc(LINE_BYTES, sizeof *self);

    if (self) {
        memset(self, 0, sizeof *self);
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
    add(&self->shard[shard % SHARDS].count[what], n);
}

void rqli_stats_time(struct rqli_stats *self, rqli_stats_shard shard, enum rqli_stat_time what,
                     int64_t time_us)
{
    struct times *times = &self->shard[shard % SHARDS].times[what];

    add(&times->sum_us, time_us > 0 ? time_us : 0);
    add(&times->bucket[rql_histogram_bucket(time_us)], 1);
}

void rqli_stats_refusal(struct rqli_stats *self, rqli_stats_shard shard, rql_status status)
{
    if (status >= RQL_TIMED_OUT && status <= RQL_CONFLICT) {
        add(&self->shard[shard % SHARDS].count[RQLI_STAT_TIMED_OUT + status - RQL_TIMED_OUT], 1);
    } else if (status == RQL_CANCELLED) {
        add(&self->shard[shard % SHARDS].count[RQLI_STAT_CANCELLED], 1);
    } else if (status < 0 && status > -RQL_STATS_FAULTS) {
        add(&self->shard[shard % SHARDS].count[RQLI_STAT_FAULTS - status], 1);
    }
}

static int64_t sum(const struct rqli_stats *self, size_t what)
{
    int64_t total = 0;

    for (size_t i = 0; i < SHARDS; i++) {
        total += load(&self->shard[i].count[what]);
    }
    return total;
}

static void read_times(const struct rqli_stats *self, enum rqli_stat_time what, rql_histogram *out)
{
    *out = (rql_histogram){.count = 0};
    for (size_t i = 0; i < SHARDS; i++) {
        const struct times *times = &self->shard[i].times[what];

        out->sum_us += load(&times->sum_us);
        for (size_t j = 0; j < RQL_HISTOGRAM_BUCKETS; j++) {
            int64_t n = load(&times->bucket[j]);

            out->bucket[j] += n;
            out->count += n;
        }
    }
}

void rqli_stats_read(const struct rqli_stats *self, rql_stats *out)
{
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        int64_t total = sum(self, i);

        memcpy((char *)out + places[i], &total, sizeof total);
    }
    for (size_t i = 0; i < RQL_STATS_FAULTS; i++) {
        out->faults[i] = sum(self, RQLI_STAT_FAULTS + i);
    }
    read_times(self, RQLI_STAT_WAIT, &out->wait);
    read_times(self, RQLI_STAT_HOLD, &out->hold);
    read_times(self, RQLI_STAT_HAND_OFF, &out->hand_off);
}
