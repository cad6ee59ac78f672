#ifndef RQLI_HOLDERS_H
#define RQLI_HOLDERS_H

/* How many locks of a client each of its acquirers holds. Who asks for a lock while it holds
 * another may be waited for by those who wait in front of it: so the server has to know. Any
 * thread. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { RQLI_HOLDERS = 256 };

struct rqli_holders {
    _Atomic uint32_t all;
    _Atomic uint32_t of[RQLI_HOLDERS]; /* those who share a place count for each other */
    _Atomic int64_t left_until_us[1 + RQLI_HOLDERS]; /* of all, and of each: what was left to its
                                                        ttl is held until then */
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

/* Nobody looks after such a lock any more, and its acquirer holds it until then. */
void rqli_holders_leave(struct rqli_holders *self, uint32_t holder, int64_t until_us);

static inline bool rqli_holders_has(const struct rqli_holders *self, uint32_t holder,
                                    int64_t now_us)
{
    return atomic_load_explicit(holder == RQLI_HOLDER_ANY ? &self->all : &self->of[holder - 1],
                                memory_order_relaxed) > 0 ||
           atomic_load_explicit(&self->left_until_us[holder], memory_order_relaxed) > now_us;
}

#endif
