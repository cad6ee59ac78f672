#ifndef RQLI_HANDLE_H
#define RQLI_HANDLE_H

/* The memory of lock handles. A client keeps a few that were given back, so that an acquisition
 * costs no allocation; without a mutex, because every acquisition comes by here. */

#include <rql/client.h>
#include <stddef.h>

enum { RQLI_HANDLES = 32 }; /* that are kept at most */

struct rqli_handles {
    rql_lock *_Atomic spare[RQLI_HANDLES];
};

/* Zeroed, with `room` bytes of memory behind it. NULL: out of memory. */
rql_lock *rqli_handle_take(struct rqli_handles *self, size_t room);
void rqli_handle_give(struct rqli_handles *self, rql_lock *lock);

void rqli_handles_fini(struct rqli_handles *self);

#endif
