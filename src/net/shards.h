#ifndef RQLI_SHARDS_H
#define RQLI_SHARDS_H

/* Which of several servers has a partition, where no server says it: rendezvous hashing. A part of
 * the protocol, as the partition of a name is. */

#include <stddef.h>

/* Names are "host:port" in lower case, or those of masters; each is another, and their order does
 * not matter. Of a server that is added or taken away, only its own partitions move. */
size_t rqli_shard_of(const char *const *names, size_t count, unsigned partition);

#endif
