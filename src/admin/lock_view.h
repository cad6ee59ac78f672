#ifndef RQLI_LOCK_VIEW_H
#define RQLI_LOCK_VIEW_H

/* A lock hash (wire.md 3) as rql_lock_info in one allocation. Whatever is under the key becomes a
 * status, never a fault of ours. Texts with a NUL end there. No I/O here. */

#include "wire/command.h"
#include "wire/reply.h"

#include <rql/inspect.h>

/* Replies that rqli_lock_view_ask() leads to. */
enum { RQLI_LOCK_VIEW_REPLIES = 2 };

void rqli_lock_view_ask(struct rqli_command *command, struct rqli_slice key);

/* Looks at RQLI_LOCK_VIEW_REPLIES replies. Only replies that say nothing about the key (no rights,
 * no memory, another shape) are faults; `where` is for their message. */
rql_status rqli_lock_view_read(const struct rqli_reply *replies, struct rqli_slice key,
                               const char *where, rql_lock_info **out, rql_error *error);

/* A lock of which only the key and this status are known. */
rql_status rqli_lock_view_bare(struct rqli_slice key, rql_key_status status, rql_lock_info **out,
                               rql_error *error);

#endif
