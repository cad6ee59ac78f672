#ifndef RQLI_HOLDERS_H
#define RQLI_HOLDERS_H

/* Counts the locks that each acquirer of a client holds. If an acquirer asks for a lock while it
 * holds another, the waiters in front of it may be waiting for that other lock. So the server has
 * to know. Any thread. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { RQLI_HOLDERS = 256 };

struct rqli_holders {
    _Atomic uint32_t all;
    _Atomic uint32_t of[RQLI_HOLDERS]; /* acquirers that share a place count for each other */
    _Atomic int64_t left_until_us[1 + RQLI_HOLDERS]; /* of all, and of each: a lock that was left to
                                                        its ttl counts as held until then */
};

/* Returns the place at which a task, or a thread that has none, is counted as an acquirer; from 1.
 * task 0: none. */
uint32_t rqli_holder_of(uint64_t thread, uint64_t task);

/* The place of a request on a loop, which is an acquirer of its own: it is counted among all only,
 * and any lock of its client may be held for it. */
enum { RQLI_HOLDER_ANY = 0 };

static inline void rqli_holders_count(struct rqli_holders *self, uint32_t holder, uint32_t change)
{
    (void)atomic_fetch_add_explicit(&self->all, change, memory_order_relaxed);
    if (holder != RQLI_HOLDER_ANY) {
        (void)atomic_fetch_add_explicit(&self->of[holder - 1], change, memory_order_relaxed);
    }
}

/* Counts a lock that the client no longer looks after: its acquirer holds it until until_us. */
void rqli_holders_leave(struct rqli_holders *self, uint32_t holder, int64_t until_us);

static inline bool rqli_holders_has(const struct rqli_holders *self, uint32_t holder,
                                    int64_t now_us)
{
    return atomic_load_explicit(holder == RQLI_HOLDER_ANY ? &self->all : &self->of[holder - 1],
                                memory_order_relaxed) > 0 ||
           atomic_load_explicit(&self->left_until_us[holder], memory_order_relaxed) > now_us;
}

#endif
