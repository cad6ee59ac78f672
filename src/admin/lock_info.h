#ifndef RQLI_LOCK_INFO_H
#define RQLI_LOCK_INFO_H

/* A lock's hash as rql_lock_info in one allocation. Whatever is under the key becomes a status,
 * never a fault of ours. Texts with a NUL end there. */

#include "admin/pages.h"

#include <rql/inspect.h>

/* Replies that rqli_lock_info_ask() leads to. */
enum { RQLI_LOCK_INFO_REPLIES = 2 };

void rqli_lock_info_ask(struct rqli_command *command, struct rqli_slice key);

/* Reads RQLI_LOCK_INFO_REPLIES replies. Only replies that say nothing about the key (no rights, no
 * memory, another shape) are faults; `where` is for their message. No I/O. */
rql_status rqli_lock_info_read(const struct rqli_reply *replies, struct rqli_slice key,
                               const char *where, rql_lock_info **out, rql_error *error);

/* `out` has room for n, all NULL before, and after a fault it may be filled in part. Of a key that
 * is gone the status says so; one that holds more than an exchange can carry is RQL_KEY_MALFORMED,
 * unread. */
rql_status rqli_read_locks(const struct rqli_reader *reader, const struct rqli_item *keys, size_t n,
                           rql_lock_info **out);

#endif
