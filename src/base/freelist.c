#include "base/freelist.h"

#include "base/threads.h"

#include <stdatomic.h>
#include <stdlib.h>

/*
 * A few blocks that are kept for reuse, without a lock: each place is taken and filled by one
 * atomic exchange.
 */

/* Each thread begins its search at a place of its own, where it finds the block that it gave back
 * last. */
static void *_Atomic *place(struct rqli_freelist *self, unsigned step)
{
    return &self->place[((unsigned)rqli_thread_number() + step) % RQLI_FREELIST];
}

void *rqli_freelist_take(struct rqli_freelist *self)
{
    void *block = NULL;

    for (unsigned i = 0; i < RQLI_FREELIST && !block; i++) {
        void *_Atomic *spare = place(self, i);

        /* A read is cheap while no thread writes; an exchange takes the cache line away from the
         * other threads. If the block is gone by then, the exchange returns NULL and the search
         * goes on. */
        if (atomic_load_explicit(spare, memory_order_relaxed)) {
            block = atomic_exchange_explicit(spare, NULL, memory_order_acquire);
        }
    }
    return block;
}

bool rqli_freelist_keep(struct rqli_freelist *self, void *block)
{
    bool is_kept = false;

    for (unsigned i = 0; i < RQLI_FREELIST && !is_kept; i++) {
        void *none = NULL;

        is_kept = atomic_compare_exchange_strong_explicit(
            place(self, i), &none, block, memory_order_release, memory_order_relaxed);
    }
    return is_kept;
}

void rqli_freelist_fini(struct rqli_freelist *self)
{
    for (size_t i = 0; i < RQLI_FREELIST; i++) {
        free(atomic_load_explicit(&self->place[i], memory_order_acquire));
    }
}
