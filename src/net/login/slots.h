#ifndef RQLI_SLOTS_H
#define RQLI_SLOTS_H

/* The map of a cluster, as far as it is ours: which master has the slot of each partition's tag.
 * Also reads from an error reply where a call has to go. */

#include "net/sock/address.h"
#include "wire/keys.h"
#include "wire/reply.h"

enum { RQLI_SLOT_IS_FREE = -1 };

struct rqli_slots {
    struct rqli_address masters[RQLI_PARTITIONS]; /* those that have one of our slots, each once */
    size_t n_masters;
    int owners[RQLI_PARTITIONS]; /* by partition: index of its master, or RQLI_SLOT_IS_FREE */
};

/* Reads the reply to CLUSTER SLOTS; a node without a host is the one that was asked. Returns false,
 * with *out untouched, if it is no such reply. */
bool rqli_slots_read(struct rqli_slots *out, const struct rqli_reply *reply,
                     const struct rqli_address *asked);

/* In all cases but the first, the server has done nothing. */
enum rqli_way {
    RQLI_WAY_NONE,  /* an error like any other */
    RQLI_WAY_MOVED, /* another node has the partition */
    RQLI_WAY_AGAIN, /* its slot moves: retry later, here; no script runs meanwhile */
    RQLI_WAY_DOWN,  /* no node has its slot: retry later, by a new map */
};

/* Classifies an error reply. *out is the node that MOVED names; without a host it is the one that
 * answered. */
enum rqli_way rqli_way_of(const struct rqli_reply *error_reply, const struct rqli_address *answered,
                          struct rqli_address *out);

#endif
