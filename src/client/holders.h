#ifndef RQLI_HOLDERS_H
#define RQLI_HOLDERS_H

/* How many locks of a client each of its acquirers holds. Who asks for a lock while it holds
 * another may be waited for by those who wait in front of it: the server is told so. Any thread. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { RQLI_HOLDERS = 256 };

struct rqli_holders {
    _Atomic uint32_t all;
    _Atomic uint32_t of[RQLI_HOLDERS]; /* those who share a place count for each other */
};

/* Where the thread or task is counted that is the acquirer; from 1. */
uint32_t rqli_holder_of(uint64_t thread_or_task);

/* What a request on a loop is, which is an acquirer of its own: it is counted among all only, and
 * whatever its client holds may be held for it. */
enum { RQLI_HOLDER_ANY = 0 };

static inline void rqli_holders_count(struct rqli_holders *self, uint32_t holder, uint32_t change)
{
    (void)atomic_fetch_add_explicit(&self->all, change, memory_order_relaxed);
    if (holder != RQLI_HOLDER_ANY) {
        (void)atomic_fetch_add_explicit(&self->of[holder - 1], change, memory_order_relaxed);
    }
}

static inline bool rqli_holders_has(const struct rqli_holders *self, uint32_t holder)
{
    return atomic_load_explicit(holder == RQLI_HOLDER_ANY ? &self->all : &self->of[holder - 1],
                                memory_order_relaxed) > 0;
}

#endif
