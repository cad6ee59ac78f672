#ifndef RQLI_SLOTS_H
#define RQLI_SLOTS_H

/* The map of a cluster, as far as it is ours: which master has the slot of each partition's tag.
 * And what an error reply says of the way there. */

#include "net/address.h"
#include "wire/partition.h"
#include "wire/reply.h"

enum { RQLI_SLOT_IS_FREE = -1 };

struct rqli_slots {
    struct rqli_address masters[RQLI_PARTITIONS]; /* those that have a slot of ours, each once */
    size_t n_masters;
    int owners[RQLI_PARTITIONS]; /* by partition: which of them; RQLI_SLOT_IS_FREE: nobody */
};

/* Reads the reply to CLUSTER SLOTS; a node without a host is the one that was asked. False: it is
 * no such reply, and *out is untouched. */
bool rqli_slots_read(struct rqli_slots *out, const struct rqli_reply *reply,
                     const struct rqli_address *asked);

/* In all of them but the first, nothing was done. */
enum rqli_way {
    RQLI_WAY_NONE,  /* an error like any other */
    RQLI_WAY_MOVED, /* the partition is another node's */
    RQLI_WAY_AGAIN, /* its slot moves: later, here, for no script runs meanwhile */
    RQLI_WAY_DOWN,  /* nobody has its slot: later, and by a new map */
};

/* Of an error reply. *out is the node that MOVED and ASK name; without a host it is the one that
 * answered. */
enum rqli_way rqli_way_of(const struct rqli_reply *error_reply, const struct rqli_address *answered,
                          struct rqli_address *out);

#endif
