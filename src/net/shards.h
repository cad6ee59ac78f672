#ifndef RQLI_SHARDS_H
#define RQLI_SHARDS_H

/* Which of several servers has a partition, where no server says it: rendezvous hashing. A part of
 * the protocol, as the partition of a name is. */

#include "wire/reply.h"

#include <rql/status.h>
#include <stddef.h>

struct rqli_endpoint;

/* Names are "host:port" in lower case, or those of masters; each is another, and their order does
 * not matter. Of a server that is added or taken away, only its own partitions move. */
size_t rqli_shard_of(const char *const *names, size_t count, unsigned partition);

/* The names, sorted, with commas between them: what each of the servers is told, so that clients
 * with other lists find out. Owned by the caller; NULL: no memory. */
char *rqli_shards_ring(const char *const *names, size_t count);

/* What a server answers to GET of its ring's key, and why it could not be set; zeroed: it could.
 * RQL_E_INVALID: others have another list. */
rql_status rqli_shards_check(const struct rqli_endpoint *endpoint, const struct rqli_reply *reply,
                             const rql_error *refused, rql_error *error);

#endif
