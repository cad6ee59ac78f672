#ifndef RQLI_MAP_H
#define RQLI_MAP_H

/*
 * What a new map of a cluster changes: who has which keys.
 *
 * With a pause (recovery_delay_ms, lua/README.md 46) a node is told what this client has seen
 * before it is asked for the keys of a partition. Its login says that of those that it has by then.
 * Of those that come later it is told here, over a connection that stands, and given them when it
 * has heard; until then they are asked for where they were, which does nothing. So threads and
 * loops need not look at it.
 */

#include "net/fleet.h"
#include "net/slots.h"

/* The keys are given to those that have them by the map. Blocks, with a pause: each node that is
 * asked has ask_ms. False: one that is to be given some has not heard of all. */
bool rqli_map_apply(struct rqli_fleet *fleet, const struct rqli_slots *slots, int64_t ask_ms);

/* A first map was read, or none can be. With a pause, what nobody was given is asked of the first
 * node, which its next login tells. */
void rqli_map_settle(struct rqli_fleet *fleet);

#endif
