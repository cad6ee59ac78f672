#ifndef RQLI_FUTEX_H
#define RQLI_FUTEX_H

/* A word that threads sleep on: the kernel's futex, with our clock for the deadline. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef _Atomic int32_t rqli_signal;

/* Sleeps while *signal is `seen`, at most until until_us (rqli_now_us() time). May wake early. */
void rqli_signal_wait(rqli_signal *signal, int32_t seen, int64_t until_us);

/* Wakes every sleeper. The address alone counts: what slept there may be gone. */
void rqli_signal_wake(rqli_signal *signal);

/* Sleepers that were called under a mutex and are woken without it: who wakes into a held mutex has
 * the sleeper run into it and sleep again. */

enum { RQLI_WAKE_LIST = 128 };

struct rqli_wake_list {
    rqli_signal *signals[RQLI_WAKE_LIST]; /* under the mutex */
    size_t count;
};

/* Under the mutex. Wakes at once when there is no place left. */
void rqli_wake_list_add(struct rqli_wake_list *self, rqli_signal *signal);

/* Unlocks the mutex, then wakes them, the last one first. Who slept there may be gone by then: what
 * has come to be in that place wakes once in vain. */
void rqli_wake_list_unlock(struct rqli_wake_list *self, pthread_mutex_t *mutex);

/* Nobody wakes it: a sleep by our clock. 0: none. */
static inline void rqli_sleep_until(int64_t until_us)
{
    rqli_signal never = 0;

    if (until_us > 0) {
        rqli_signal_wait(&never, 0, until_us);
    }
}

#endif
