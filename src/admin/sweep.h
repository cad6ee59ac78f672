#ifndef RQLI_SWEEP_H
#define RQLI_SWEEP_H

/* A sweep finds keys by SCAN, inspects them in batches, calls one script for each that its rule
 * wants and counts. The script repeats the condition where it matters, so what has changed since
 * the inspection is kept. Runs on its caller's thread. */

#include "admin/pages.h"

#include <rql/sweep.h>

enum { RQLI_SWEEP_PARTS_MAX = 2, RQLI_SWEEP_SECONDS_SIZE = 32 };

struct rqli_sweep_rule;

/* Age of requests: those up to oldest_us (server time) may be dead. */
struct rqli_sweep_age {
    int64_t oldest_us;
    char seconds[RQLI_SWEEP_SECONDS_SIZE]; /* the same as scores are written */
};

void rqli_sweep_age_init(struct rqli_sweep_age *self, int64_t server_us, int64_t dead_ttl_ms);

/* All keys of one rule. */
struct rqli_sweep_part {
    struct rqli_sweep *sweep;
    const struct rqli_sweep_rule *rule;
    int64_t batch_size; /* COUNT of SCAN, and keys in a batch as far as that allows */
    struct rqli_walk walk;
};

struct rqli_sweep {
    rql_client *client;
    rql_sweep_options options;
    rql_error *error;

    /* Whom or what the rules are about; each needs one of them at most. */
    const rql_sweep_owner *owner;
    struct rqli_sweep_age age;
    const struct rqli_list *dead_hosts; /* sorted */

    struct rqli_list *locks;     /* gets the keys of the locks that were removed; or NULL */
    struct rqli_list *acquirers; /* and gets who held them */
    rql_sweep_result result;
    int64_t done; /* keys that were inspected */
    int64_t found;
    struct rqli_sweep_part parts[RQLI_SWEEP_PARTS_MAX];
    size_t n_parts;
};

/* Before the run. The options say how large a batch is. */
void rqli_sweep_add(struct rqli_sweep *self, const struct rqli_sweep_rule *rule,
                    int64_t batch_size);

/* Any thread. Finds the keys of all parts, then sweeps part after part. RQL_STOPPED, or a fault
 * where it ended; the result has what was done by then. */
rql_status rqli_sweep_run(struct rqli_sweep *self);
void rqli_sweep_fini_p(struct rqli_sweep *self);

#endif
