#ifndef RQLI_CLUSTER_H
#define RQLI_CLUSTER_H

/*
 * Reads the map of a cluster: from a node that answers, when it is first needed, when a node has
 * moved keys or fallen silent, and now and then. A thread of its own does it, so that neither a
 * caller nor a loop waits for a node that is not the one it asks.
 */

#include "base/worker.h"
#include "net/fleet.h"

struct rqli_cluster {
    struct rqli_worker worker; /* first */
    struct rqli_fleet *fleet;
    int64_t refresh_ms;
    atomic_bool shall_stop;
};

/* The fleet's first endpoint names more nodes, which are added. NULL: no memory. */
struct rqli_cluster *rqli_cluster_new(struct rqli_fleet *fleet, int64_t refresh_ms);
bool rqli_cluster_start(struct rqli_cluster *self); /* false: no thread */
struct rqli_cluster *rqli_cluster_free(struct rqli_cluster *self);

#endif
