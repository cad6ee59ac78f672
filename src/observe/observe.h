#ifndef RQLI_OBSERVE_H
#define RQLI_OBSERVE_H

/*
 * Events inside the library, reported with plain data: each is counted, and logged and sent if
 * there is a listener. moments.def has all moments, and what each of them counts, logs and sends.
 * The code that reports makes no decision by it.
 *
 * Reports are made on the thread where the event happens, without a mutex except where noted. A
 * light build does nothing: light.c.
 */

#include "base/random.h"
#include "observe/stats.h"

#include <rql/lock.h>
#include <rql/observe.h>

enum rqli_moment {

#define MOMENT(name) RQLI_ON_##name,
#include "observe/moments.def"
};

/* The subject of a report: a lock, a series, a call for operators, a swarm, connections. A lock and
 * a series keep theirs: the listeners are chosen once, and are constant once the acquisition has
 * begun. */
struct rqli_subject {
    struct rqli_stats *stats;
    const char *const *keys; /* the keys of locks: 1, of a series up to 64; NULL: none */
    size_t n_keys;
    const char *acquirer;
    const char *host;
    rql_log_fn logger; /* NULL: there is none, or it was not sampled */
    void *logger_data;
    rql_event_fn instrumenter; /* the same */
    void *instrumenter_data;
    void *instrument;
    int64_t ttl_ms;
    int64_t queue_ttl_ms;
    rql_access_strategy access_strategy;
    rqli_stats_shard shard;
    bool is_series;
    bool logs_tries;
};

/* Only the figures that the moment needs, named as in rql_event; see moments.def. */
struct rqli_figures {
    rql_status status;
    bool is_handed_over;
    bool is_local; /* handed over inside the client */
    int64_t tries;
    int64_t asked;       /* how often the server was asked */
    int64_t hand_off_us; /* from the grant to its arrival by push, at most; -1: none */
    int64_t ttl_ms;
    int64_t ts_us;
    int64_t acq_time_us;
    int64_t hold_time_us;
    int64_t rel_time_us;
    int64_t at_us;
    int64_t token;
    int64_t share_units;
    int64_t server_token;
    int64_t rel_key_cnt;
    int64_t tch_queue_cnt;
    int64_t host_cnt;
    int64_t rem_request_cnt;
    int64_t handed_over_cnt;
    const char *lock_queue;
    const char *element;
    const char *server; /* as messages call it */
    const char *master;
    const char *error;
};

/* Asks a sampler, or draws by the gem's weights: 15 means 16 of 101, and 0 still means 1 of 101;
 * 100 means all. */
static inline bool rqli_is_drawn(rql_sampler_fn sampler, void *data, int64_t percent)
{
    return sampler ? sampler(percent, data) : percent >= rqli_random_below(101);
}

/* Sets the listeners, as given in the options of the client and of the call; asks the samplers. */
void rqli_subject_listen(struct rqli_subject *self, const rql_options *client,
                         const rql_lock_options *options);

/* Logs the moment and sends its event, where there is a listener. */
void rqli_publish(enum rqli_moment moment, const struct rqli_subject *s,
                  const struct rqli_figures *f);

/* Reports a moment. f: NULL if the moment needs no figures. Inline: if the moment is known at
 * compile time, only the counting is left, and in a light build nothing. */
static inline void rqli_observe(enum rqli_moment moment, const struct rqli_subject *s,
                                const struct rqli_figures *f)
{
#if RQLI_LIGHT
    (void)moment, (void)s, (void)f;
#else
    switch (moment) {
#define MOMENT(name)                                                                               \
    break;                                                                                         \
    case RQLI_ON_##name:
#define COUNT(counter, n)                                                                          \
    if ((n) > 0) {                                                                                 \
        rqli_stats_count(s->stats, s->shard, RQLI_STAT_##counter, (n));                            \
    }
#define TIME(histogram, time_us)                                                                   \
    if ((time_us) >= 0) {                                                                          \
        rqli_stats_time(s->stats, s->shard, RQLI_STAT_##histogram, (time_us));                     \
    }
#define COUNT_REFUSAL(status) rqli_stats_refusal(s->stats, s->shard, (status));
    default: /* NOLINT(bugprone-branch-clone): most moments count nothing */
#include "observe/moments.def"
        break;
    }
    if (s->logger || s->instrumenter) {
        rqli_publish(moment, s, f);
    }
#endif
}

#endif
