#include "lock/handle.h"

#include "lock/lock.h"

#include <stdlib.h>

enum { ROOM = 512 }; /* of a handle that is kept: names of up to 160 bytes */

rql_lock *rqli_handle_make(size_t room)
{
    rql_lock *lock = malloc(sizeof *lock + room);

    if (lock) {
        *lock = (rql_lock){.room = room};
    }
    return lock;
}

rql_lock *rqli_handle_take(struct rqli_freelist *kept, size_t room)
{
    rql_lock *lock = NULL;

    if (room <= ROOM) {
        lock = rqli_freelist_take(kept);
        room = ROOM;
    }
    if (!lock) {
        return rqli_handle_make(room);
    }
    *lock = (rql_lock){.room = room};
    return lock;
}

void rqli_handle_give(struct rqli_freelist *kept, rql_lock *lock)
{
    if (lock->room != ROOM || !rqli_freelist_keep(kept, lock)) {
        free(lock);
    }
}
