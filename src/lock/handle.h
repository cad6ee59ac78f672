#ifndef RQLI_HANDLE_H
#define RQLI_HANDLE_H

/* The memory of lock handles. A client keeps a few that were given back, so that an acquisition
 * costs no allocation. */

#include "base/freelist.h"

#include <rql/client.h>
#include <stddef.h>

/* Zeroed, with `room` bytes of memory behind it. NULL: out of memory. */
rql_lock *rqli_handle_take(struct rqli_freelist *kept, size_t room);
/* The same, and of no more memory than that: for one of many. */
rql_lock *rqli_handle_make(size_t room);
void rqli_handle_give(struct rqli_freelist *kept, rql_lock *lock);

#endif
