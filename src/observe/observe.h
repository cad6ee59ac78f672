#ifndef RQLI_OBSERVE_H
#define RQLI_OBSERVE_H

/*
 * Every moment that somebody may want to hear of: one function each, which counts it, and logs and
 * tells it if somebody listens. The calls say what happened and decide nothing.
 *
 * On the thread that it happened on, without a mutex, except where said. A light build has empty
 * functions: light.c.
 */

#include "observe/listeners.h"

#include <rql/lock.h>
#include <rql/observe.h>

struct rqli_answer;
struct rqli_acquire_result;
struct rqli_keys;
struct rqli_sweep;

/* Asks the samplers. */
void rqli_observe_init(struct rqli_listeners *self, const rql_client *client,
                       const rql_lock_options *options);

/* An acquisition. */
void rqli_observe_started(const rql_lock *lock);
void rqli_observe_try(const rql_lock *lock);
void rqli_observe_answer(const rql_lock *lock, const struct rqli_answer *answer);
/* known_score_us: its place before, or 0. */
void rqli_observe_queued(const rql_lock *lock, const struct rqli_answer *answer,
                         int64_t known_score_us);
/* The server was asked for the last time: result->tries, result->asked. */
void rqli_observe_asked(const rql_lock *lock, const struct rqli_acquire_result *result);
void rqli_observe_obtained(const rql_lock *lock);
void rqli_observe_refused(const rql_lock *lock, const struct rqli_acquire_result *result,
                          rql_status status);

/* A hold. */
void rqli_observe_extended(const rql_lock *lock, int64_t ttl_ms);
void rqli_observe_renewed(const rql_lock *lock); /* under the keeper's mutex: only counts */
void rqli_observe_lost(const rql_lock *lock);
void rqli_observe_ending(const rql_lock *lock);
void rqli_observe_decreasing(const rql_lock *lock, int64_t unused_ms);
void rqli_observe_ended(const rql_lock *lock, rql_status status);
/* Only counts: it ended as part of something else. */
void rqli_observe_end_of_part(const rql_lock *lock, int64_t now_us, rql_status status);

/* Is there anything to do for rqli_observe_lost() but to count? */
bool rqli_observe_tells(const rql_lock *lock);

/* For operators. kind: which of the events of a sweep; a dry run is none. */
void rqli_observe_unlocked(rql_client *client, const struct rqli_keys *keys,
                           const rql_unlock_result *result);
void rqli_observe_swept(const struct rqli_sweep *sweep, rql_event_kind kind, rql_status status);

/* What a swarm has to tell; `kind` says which of the figures count. */
struct rqli_swarm_news {
    rql_event_kind kind;
    const char *element; /* static */
    rql_status status;
    int64_t hosts;
    int64_t locks;
    int64_t requests;
    int64_t handed_over;
    int64_t took_us;
};

/* On the thread of an element, or of who did it by hand. Never sampled. */
void rqli_observe_swarm(rql_client *client, const struct rqli_swarm_news *news);
/* These only count. */
void rqli_observe_probed(rql_client *client);
void rqli_observe_step_failed(rql_client *client);

#endif
