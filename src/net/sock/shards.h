#ifndef RQLI_SHARDS_H
#define RQLI_SHARDS_H

/* Decides which of several servers has a partition if no server says so: rendezvous hashing. It is
 * a part of the protocol, as the partition of a name is. */

#include "wire/reply.h"

#include <rql/status.h>
#include <stddef.h>

/* Returns the index of the partition's server. Names are "host:port" in lower case, or those of
 * masters; all are different, and their order does not matter. If a server is added or removed,
 * only its own partitions move. */
size_t rqli_shard_of(const char *const *names, size_t count, unsigned partition);

/* Returns the names, sorted, with commas between them. Each of the servers stores this text, so
 * that clients with other lists find out. Owned by the caller; NULL: no memory. */
char *rqli_shards_ring(const char *const *names, size_t count);

/* Checks a server's reply to GET of its ring's key against the client's own ring. refused: why the
 * key could not be set; zeroed if it could. RQL_E_INVALID: other clients have another list. */
rql_status rqli_shards_check(const char *where, const char *ring, const struct rqli_reply *reply,
                             const rql_error *refused, rql_error *error);

#endif
