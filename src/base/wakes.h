#ifndef RQLI_WAKES_H
#define RQLI_WAKES_H

/* Sleepers that were called under a mutex and are woken without it: who wakes into a held mutex has
 * the sleeper run into it and sleep again. */

#include "base/signal.h"

#include <pthread.h>
#include <stddef.h>

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

#endif
