#ifndef RQLI_READER_H
#define RQLI_READER_H

/* Reads keys, locks and queues over the client's connection: in exchanges that stay below the caps
 * of the link whatever is stored under the keys, each with its own deadline. Any thread. */

#include "admin/scan.h"

#include <rql/inspect.h>

/* What all calls need; lives as long as one public call. */
struct rqli_reader {
    rql_client *client;
    const char *where; /* for messages: a name or a pattern */
    rql_error *error;
};

rql_status rqli_read_exists(const struct rqli_reader *self, struct rqli_slice key, bool *out);

/* One step of a scan, with this COUNT. */
rql_status rqli_read_page(const struct rqli_reader *self, struct rqli_scan *scan, int64_t count);

/* Finds all keys with the prefix of the scan. */
rql_status rqli_read_scan(const struct rqli_reader *self, struct rqli_scan *scan);

/* `out` has room for n, all NULL before, and after a fault it may be filled in part. Of a key that
 * is gone the status says so; one that holds more than an exchange can carry is RQL_KEY_MALFORMED,
 * unread. */
rql_status rqli_read_locks(const struct rqli_reader *self, const struct rqli_slice *keys, size_t n,
                           rql_lock_info **out);
rql_status rqli_read_queues(const struct rqli_reader *self, const struct rqli_slice *keys, size_t n,
                            rql_queue_info **out);

#endif
