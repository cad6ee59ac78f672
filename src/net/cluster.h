#ifndef RQLI_CLUSTER_H
#define RQLI_CLUSTER_H

/*
 * What a client of several servers does by itself: it reads the map of a cluster, from a node that
 * answers, when it is first needed, when a node has moved keys or fallen silent, and now and then;
 * says what it is called, which is kept with the first partition alone; and closes what nobody
 * uses. A thread of its own does it, so that neither a caller nor a loop waits for a node that is
 * not the one it asks.
 */

#include "base/worker.h"
#include "net/fleet.h"

struct rqli_cluster {
    struct rqli_worker worker; /* first */
    struct rqli_fleet *fleet;
    int64_t refresh_ms;
    int64_t tell_ms;           /* for each node that is told of keys (net/map.h) */
    bool is_told;              /* each was, by the last map */
    int64_t name_us;           /* when its name is to be said again */
    _Atomic int64_t unused_us; /* connections that nobody has used for so long are closed */
    atomic_bool shall_stop;
};

/* The nodes that the fleet's first endpoint names are added. refresh_ms: 0: there is no map, each
 * of them has its share of the partitions. NULL: no memory. */
struct rqli_cluster *rqli_cluster_new(struct rqli_fleet *fleet, int64_t refresh_ms);
bool rqli_cluster_start(struct rqli_cluster *self); /* false: no thread */
struct rqli_cluster *rqli_cluster_free(struct rqli_cluster *self);

#endif
