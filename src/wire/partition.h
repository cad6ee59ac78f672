#ifndef RQLI_PARTITION_H
#define RQLI_PARTITION_H

/* Where there are several servers, locks lie in partitions, each with keys of its own. Which one a
 * lock is in follows from its name: a part of the protocol, for two clients that do not agree about
 * it exclude nobody. partitions.def has their tags. */

#include "base/text.h"

enum { RQLI_PARTITIONS = 128, RQLI_KEYSLOTS = 16384 };

/* The slot that a cluster has for a key of this name: of its first {tag}, if it has one that is not
 * empty. */
unsigned rqli_keyslot(struct rqli_slice name);

/* From 0 to RQLI_PARTITIONS - 1. */
unsigned rqli_partition_of(struct rqli_slice name);

#endif
