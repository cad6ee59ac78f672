#ifndef RQLI_CLUSTER_H
#define RQLI_CLUSTER_H

/*
 * The background work of a client of several servers. It reads the map of a cluster, from a node
 * that answers: when the map is first needed, when a node has moved keys or fallen silent, and now
 * and then. It writes the client's name, which is kept with the first partition alone, and closes
 * unused connections. A thread of its own does all this, so that neither a caller nor a loop waits
 * for a node other than the one it asks.
 */

#include "base/worker.h"
#include "net/fleet/fleet.h"

struct rqli_cluster {
    struct rqli_worker worker; /* first */
    struct rqli_fleet *fleet;
    int64_t refresh_ms;
    int64_t tell_ms;           /* for each node that is notified of keys (net/fleet/map.h) */
    bool is_told;              /* each of them was, for the last map */
    rql_error fault;           /* of the present reading of the map; all zero: none */
    int64_t name_us;           /* when the client's name is to be written again */
    _Atomic int64_t unused_us; /* connections that were unused for this long are closed */
    atomic_bool shall_stop;
};

/* Adds the nodes that the URL names. refresh_ms: 0 if there is no map, and each node has its share
 * of the partitions. Returns NULL if there is no memory. */
struct rqli_cluster *rqli_cluster_new(struct rqli_fleet *fleet, int64_t refresh_ms);
bool rqli_cluster_start(struct rqli_cluster *self); /* false: no thread */
struct rqli_cluster *rqli_cluster_free(struct rqli_cluster *self);

#endif
