#ifndef SWARM_FIXTURE_H
#define SWARM_FIXTURE_H

/* What the tests of the swarm share: settings with small periods, hosts by raw commands. */

#include "clients.h"

enum {
    ZOMBIE_TTL_MS = 1000,
    FLUSH_PERIOD_MS = 400,
    PROBE_PERIOD_MS = 100,
    DAY_MS = 86400000,
    SLOWNESS_MAX = 5
};

/* Of the times that are lived through, not only allowed for: a stall must not make tests last. */
static inline int64_t swarm_slowness(void)
{
    return wait_slowness() < SLOWNESS_MAX ? wait_slowness() : SLOWNESS_MAX;
}

static inline rql_swarm_options quick(const rql_client *of)
{
    rql_swarm_options options;

    rql_swarm_options_init(of, &options);
    options.liveness_probing_period_ms = 100;
    options.probe_period_ms = PROBE_PERIOD_MS;
    options.zombie_ttl_ms = ZOMBIE_TTL_MS * swarm_slowness();
    options.zombie_flush_period_ms = FLUSH_PERIOD_MS * swarm_slowness();
    return options;
}

static inline rql_swarm *swarm_with(rql_client *of, const rql_swarm_options *options)
{
    rql_swarm *swarm = NULL;
    rql_error error = {0};

    if (rql_swarm_start(of, options, &swarm, &error)) {
        fail_msg("%s", error.message);
    }
    return swarm;
}

static inline rql_swarm *swarm_of(rql_client *of)
{
    rql_swarm_options options = quick(of);

    return swarm_with(of, &options);
}

/* A host whose last heartbeat is `age_s` seconds old. */
static inline void raw_host(const char *host, int64_t age_s)
{
    ask("EVAL "
        "return(redis.call('hset','rql:swarm:hsts',ARGV[1],redis.call('time')[1]-ARGV[2]..'.5'))"
        " 0 %s %lld",
        host, (long long)age_s);
}

/* A lock as Ruby writes it, for a day. */
static inline void raw_lock(const char *name, const char *acquirer, const char *host)
{
    ask("HSET rql:lock:%s acq_id %s hst_id %s ts 1795254268.4681 ini_ttl 86400000", name, acquirer,
        host);
    ask("PEXPIRE rql:lock:%s 86400000", name);
}

static inline rql_swarm_status status_of(rql_client *of)
{
    rql_swarm_status status;

    CHECK_OK(rql_get_swarm_status(of, &status, NULL));
    return status;
}

static inline void await_hosts(int64_t count)
{
    await_int(count, "HLEN rql:swarm:hsts");
}

#endif
