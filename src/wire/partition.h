#ifndef RQLI_PARTITION_H
#define RQLI_PARTITION_H

/* If there are several servers, locks are in partitions, each with keys of its own. The partition
 * of a lock follows from its name. This is a part of the protocol, because two clients that
 * disagree about it do not exclude each other. partitions.def has their tags. */

#include "base/text.h"

enum { RQLI_PARTITIONS = 128, RQLI_KEYSLOTS = 16384 };

/* Returns the slot of a key of this name in a cluster: that of its first {tag}, if it has one that
 * is not empty. */
unsigned rqli_keyslot(struct rqli_slice name);

/* Returns the partition of a lock, from 0 to RQLI_PARTITIONS - 1. */
unsigned rqli_partition_of(struct rqli_slice name);

#endif
