#ifndef RQLI_MAP_H
#define RQLI_MAP_H

/*
 * Applies a new map of a cluster: which node has which keys.
 *
 * With a pause (recovery_delay_ms, lua/README.md 46) a node is notified of what this client has
 * seen before it is asked for the keys of a partition. Its login does that for the partitions that
 * it has by then. For partitions that come later it is done here, over an open connection, and the
 * node is given their keys when it has answered; until then calls go to the previous node, where
 * they do nothing. So threads and loops need no check of their own.
 */

#include "net/fleet/fleet.h"
#include "net/login/slots.h"

/* Gives the keys to the nodes that have them by the map. With a pause it blocks: each node that is
 * asked has ask_ms, and once shall_stop is set no further one is asked. False: a node that is to be
 * given keys has not confirmed all of them. */
bool rqli_map_apply(struct rqli_fleet *fleet, const struct rqli_slots *slots, int64_t ask_ms,
                    const atomic_bool *shall_stop);

/* The first map was read, or cannot be. With a pause, calls about keys that were given to no node
 * go to the first node, whose next login notifies it of them. */
void rqli_map_settle(struct rqli_fleet *fleet);

#endif
