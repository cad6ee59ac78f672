#include "base/spares.h"

#include "base/ident.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Each thread begins its search at a place of its own, where it finds what it gave back last. */
static void *_Atomic *place(struct rqli_spares *self, unsigned step)
{
    return &self->place[((unsigned)rqli_thread_id() + step) % RQLI_SPARES];
}

void *rqli_spares_take(struct rqli_spares *self)
{
    void *block = NULL;

    for (unsigned i = 0; i < RQLI_SPARES && !block; i++) {
        void *_Atomic *spare = place(self, i);

        if (atomic_load_explicit(spare, memory_order_relaxed)) {
            block = atomic_exchange_explicit(spare, NULL, memory_order_acquire);
        }
    }
    return block;
}

bool rqli_spares_keep(struct rqli_spares *self, void *block)
{
    bool is_kept = false;

    for (unsigned i = 0; i < RQLI_SPARES && !is_kept; i++) {
        void *none = NULL;

        is_kept = atomic_compare_exchange_strong_explicit(
            place(self, i), &none, block, memory_order_release, memory_order_relaxed);
    }
    return is_kept;
}

void rqli_spares_fini(struct rqli_spares *self)
{
    for (size_t i = 0; i < RQLI_SPARES; i++) {
        free(atomic_load_explicit(&self->place[i], memory_order_acquire));
    }
}
