#include "handle.h"

#include "base/ident.h"
#include "lock.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { ROOM = 512 }; /* of a handle that is kept: names of up to 160 bytes */

/* Each thread begins its search at a place of its own, where it finds what it gave back last. */
static rql_lock *_Atomic *place(struct rqli_handles *self, unsigned step)
{
    return &self->spare[((unsigned)rqli_thread_id() + step) % RQLI_HANDLES];
}

static rql_lock *take_spare(struct rqli_handles *self)
{
    rql_lock *lock = NULL;

    for (unsigned i = 0; i < RQLI_HANDLES && !lock; i++) {
        rql_lock *_Atomic *spare = place(self, i);

        if (atomic_load_explicit(spare, memory_order_relaxed)) {
            lock = atomic_exchange_explicit(spare, NULL, memory_order_acquire);
        }
    }
    return lock;
}

static bool keep_spare(struct rqli_handles *self, rql_lock *lock)
{
    bool is_kept = false;

    for (unsigned i = 0; i < RQLI_HANDLES && !is_kept; i++) {
        rql_lock *none = NULL;

        is_kept = atomic_compare_exchange_strong_explicit(
            place(self, i), &none, lock, memory_order_release, memory_order_relaxed);
    }
    return is_kept;
}

rql_lock *rqli_handle_take(struct rqli_handles *self, size_t room)
{
    rql_lock *lock = NULL;

    if (room <= ROOM) {
        lock = take_spare(self);
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
    if (lock->room != ROOM || !keep_spare(self, lock)) {
        free(lock);
    }
}

void rqli_handles_fini(struct rqli_handles *self)
{
    for (size_t i = 0; i < RQLI_HANDLES; i++) {
        free(atomic_load_explicit(&self->spare[i], memory_order_acquire));
    }
}
