#include "handle.h"

#include "base/ident.h"
#include "lock.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { ROOM = 512 }; /* of a handle that is kept: names of up to 160 bytes */

static rql_lock *_Atomic *own_spare(struct rqli_handles *self)
{
    return &self->spare[(unsigned)rqli_thread_id() % RQLI_HANDLES];
}

rql_lock *rqli_handle_take(struct rqli_handles *self, size_t room)
{
    rql_lock *lock = NULL;

    if (room <= ROOM) {
        lock = atomic_exchange_explicit(own_spare(self), NULL, memory_order_acquire);
        room = ROOM;
    }
    if (!lock) {
        lock = malloc(sizeof *lock + room);
    }
    if (lock) {
        *lock = (rql_lock){.room = room};
    }
    return lock;
}

void rqli_handle_give(struct rqli_handles *self, rql_lock *lock)
{
    if (lock->room == ROOM) {
        lock = atomic_exchange_explicit(own_spare(self), lock, memory_order_acq_rel);
    }
    free(lock);
}

void rqli_handles_fini(struct rqli_handles *self)
{
    for (size_t i = 0; i < RQLI_HANDLES; i++) {
        free(atomic_load_explicit(&self->spare[i], memory_order_acquire));
    }
}
