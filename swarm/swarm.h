#ifndef RQLI_SWARM_H
#define RQLI_SWARM_H

/* A swarm, as what it does and what asks it share it. */

#include "flush.h"
#include "lock/hosts.h"
#include "supervise.h"

#include <rql/swarm.h>

struct rql_swarm {
    rql_client *client;
    rql_swarm_options options;
    rql_client *prober_client; /* connections of their own; NULL: not enabled */
    rql_client *flusher_client;
    struct rqli_element supervisor;
    struct rqli_element prober;
    struct rqli_element flusher;
    _Atomic int who;        /* enum rqli_hosts_who: for whom the prober speaks */
    atomic_bool is_flusher; /* elected, at the last step */
    atomic_bool is_running; /* not stopped */
};

/* What was found becomes a result; it ends here. */
rql_status rqli_zombies_give(struct rqli_flush *found, rql_zombies **out, rql_error *error);

/* A round by hand, with these settings. */
void rqli_flush_init(struct rqli_flush *self, rql_client *via, const rql_swarm_options *options);

#endif
