#ifndef SWARM_CHILDREN_H
#define SWARM_CHILDREN_H

/* Processes with a swarm, to be stopped and killed, and how long the others may take to see it.
 * RQL_TEST_LONG: the gem's periods, and as much of everything as the guarantees say. */

#include "swarm_fixture.h"

#include "children.h"

enum { GRACE_MS = 1000 };

static inline bool is_long(void)
{
    return getenv("RQL_TEST_LONG") != NULL;
}

static inline rql_swarm_options paced(const rql_client *of)
{
    rql_swarm_options options = quick(of);

    if (is_long()) {
        rql_swarm_options_init(of, &options);
    }
    return options;
}

/* Until what a dead host held must be free. */
static inline int64_t bound_ms(const rql_swarm_options *options)
{
    return options->zombie_ttl_ms + options->zombie_flush_period_ms + GRACE_MS * wait_slowness();
}

static inline void start_prober_in_child(rql_client *own)
{
    rql_swarm_options options = paced(own);
    rql_swarm *swarm = NULL;

    options.flush_zombies = false;
    must(rql_swarm_start(own, &options, &swarm, NULL) == RQL_OK, 30);
}

struct bound {
    const char *text;
    int64_t value;
};

static inline bool holds_now(void *data)
{
    const struct bound *bound = data;
    redisReply *reply = ask_reply(bound->text);
    bool holds = number_of(reply) == bound->value;

    freeReplyObject(reply);
    return holds;
}

/* wait_until() stretches by what wait_slowness() also knows: enough, and never too short. */
static inline void await_within(int64_t value, const char *text, int64_t within_ms)
{
    struct bound bound = {text, value};

    if (!wait_until(holds_now, &bound, within_ms)) {
        fail_msg("%s did not become %lld", text, (long long)value);
    }
}

static inline void sleep_ms(int64_t ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    (void)nanosleep(&time, NULL);
}

#endif
