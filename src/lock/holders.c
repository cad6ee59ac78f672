#include "lock/holders.h"

/*
 * Counters in 256 places, by a hash of thread or task. Two acquirers that share a place count for
 * each other. An acquirer that holds nothing may then be let past as if it did. That costs other
 * waiters a turn and breaks no promise.
 */

/* Threads and tasks are both numbered from 1. */
uint32_t rqli_holder_of(uint64_t thread, uint64_t task)
{
    const uint64_t number = task > 0 ? ~task : thread;

    return 1 + (uint32_t)((number * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
}

static void put_off(_Atomic int64_t *left_until_us, int64_t until_us)
{
    int64_t known_us = atomic_load_explicit(left_until_us, memory_order_relaxed);

    while (known_us < until_us &&
           !atomic_compare_exchange_weak_explicit(left_until_us, &known_us, until_us,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

void rqli_holders_leave(struct rqli_holders *self, uint32_t holder, int64_t until_us)
{
    put_off(&self->left_until_us[RQLI_HOLDER_ANY], until_us);
    put_off(&self->left_until_us[holder], until_us);
}
