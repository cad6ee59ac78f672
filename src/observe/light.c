/* A light build: nobody hears anything, and nothing is counted. In place of all that observes. */

#include "base/error.h"
#include "observe/observe.h"
#include "observe/observe_series.h"
#include "observe/stats.h"
#include "options/options.h"

#include <stdlib.h>

static rql_status fail_light(rql_error *error)
{
    return rqli_fail(error, RQL_E_UNSUPPORTED,
                     "librql was built without logs, events and statistics; nothing was sent");
}

rql_status rqli_listeners_check(rql_log_fn logger, rql_event_fn instrumenter, rql_error *error)
{
    return logger || instrumenter ? fail_light(error) : RQL_OK;
}

rql_status rqli_stats_read(const struct rqli_stats *self, rql_stats *out)
{
    (void)self;
    (void)out;
    return RQL_E_UNSUPPORTED;
}

void rqli_stats_count(struct rqli_stats *self, rqli_stats_shard shard, enum rqli_stat what,
                      int64_t n)
{
    (void)self;
    (void)shard;
    (void)what;
    (void)n;
}

/* There is nothing to keep; but NULL is said to mean that memory ran out. */
struct rqli_stats *rqli_stats_new(void)
{
    return malloc(1);
}

struct rqli_stats *rqli_stats_free(struct rqli_stats *self)
{
    free(self);
    return NULL;
}

void rqli_observe_init(struct rqli_listeners *self, const rql_client *client,
                       const rql_lock_options *options)
{
    (void)self;
    (void)client;
    (void)options;
}

bool rqli_observe_tells(const rql_lock *lock)
{
    (void)lock;
    return false;
}

void rqli_observe_started(const rql_lock *lock)
{
    (void)lock;
}

void rqli_observe_try(const rql_lock *lock)
{
    (void)lock;
}

void rqli_observe_answer(const rql_lock *lock, const struct rqli_answer *answer)
{
    (void)lock;
    (void)answer;
}

void rqli_observe_queued(const rql_lock *lock, const struct rqli_answer *answer,
                         int64_t known_score_us)
{
    (void)lock;
    (void)answer;
    (void)known_score_us;
}

void rqli_observe_asked(const rql_lock *lock, const struct rqli_acquire_result *result)
{
    (void)lock;
    (void)result;
}

void rqli_observe_obtained(const rql_lock *lock)
{
    (void)lock;
}

void rqli_observe_refused(const rql_lock *lock, const struct rqli_acquire_result *result,
                          rql_status status)
{
    (void)lock;
    (void)result;
    (void)status;
}

void rqli_observe_extended(const rql_lock *lock, int64_t ttl_ms)
{
    (void)lock;
    (void)ttl_ms;
}

void rqli_observe_renewed(const rql_lock *lock)
{
    (void)lock;
}

void rqli_observe_lost(const rql_lock *lock)
{
    (void)lock;
}

void rqli_observe_ending(const rql_lock *lock)
{
    (void)lock;
}

void rqli_observe_decreasing(const rql_lock *lock, int64_t unused_ms)
{
    (void)lock;
    (void)unused_ms;
}

void rqli_observe_ended(const rql_lock *lock, rql_status status)
{
    (void)lock;
    (void)status;
}

void rqli_observe_unlocked(rql_client *client, const struct rqli_keys *keys,
                           const rql_unlock_result *result)
{
    (void)client;
    (void)keys;
    (void)result;
}

void rqli_observe_swept(const struct rqli_sweep *sweep, rql_event_kind kind, rql_status status)
{
    (void)sweep;
    (void)kind;
    (void)status;
}

void rqli_observe_series_init(rql_series *series, const struct rqli_series_plan *plan)
{
    (void)series;
    (void)plan;
}

void rqli_observe_series_started(const rql_series *series, const struct rqli_series_plan *plan)
{
    (void)series;
    (void)plan;
}

void rqli_observe_series_member(const rql_series *series, rql_lock_options *options)
{
    (void)series;
    (void)options;
}

void rqli_observe_series_members(rql_series *series)
{
    (void)series;
}

void rqli_observe_series_taken(const rql_series *series)
{
    (void)series;
}

void rqli_observe_series_obtained(const rql_series *series)
{
    (void)series;
}

void rqli_observe_series_refused(const rql_series *series, const struct rqli_acquire_result *result,
                                 rql_status status)
{
    (void)series;
    (void)result;
    (void)status;
}

void rqli_observe_series_returned(const rql_series *series, rql_status status)
{
    (void)series;
    (void)status;
}

void rqli_observe_series_ending(const rql_series *series)
{
    (void)series;
}

void rqli_observe_series_ended(const rql_series *series, rql_status status)
{
    (void)series;
    (void)status;
}

void rqli_observe_swarm(rql_client *client, const struct rqli_swarm_news *news)
{
    (void)client;
    (void)news;
}

void rqli_observe_probed(rql_client *client)
{
    (void)client;
}

void rqli_observe_step_failed(rql_client *client)
{
    (void)client;
}
