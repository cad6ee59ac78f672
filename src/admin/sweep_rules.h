#ifndef RQLI_SWEEP_RULES_H
#define RQLI_SWEEP_RULES_H

/* What the public sweeps look for, and what they do with it. Pure: no I/O here. */

#include "admin/sweep_run.h"

enum { RQLI_SWEEP_SECONDS_SIZE = 32 };

/* Age of requests: those up to oldest_us (server time) may be dead. */
struct rqli_sweep_age {
    int64_t oldest_us;
    char seconds[RQLI_SWEEP_SECONDS_SIZE]; /* the same as scores are written */
};

void rqli_sweep_age_init(struct rqli_sweep_age *self, int64_t server_us, int64_t dead_ttl_ms);

extern const struct rqli_sweep_rule rqli_sweep_all_queues;  /* remove them; no subject */
extern const struct rqli_sweep_rule rqli_sweep_all_locks;   /* end them; no subject */
extern const struct rqli_sweep_rule rqli_sweep_locks_of;    /* subject: rql_sweep_owner */
extern const struct rqli_sweep_rule rqli_sweep_requests_of; /* subject: rql_sweep_owner */
extern const struct rqli_sweep_rule rqli_sweep_dead;        /* subject: rqli_sweep_age */

#endif
