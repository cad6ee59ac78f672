#ifndef RQLI_FUTEX_H
#define RQLI_FUTEX_H

/* A word that threads sleep on: the kernel's futex, with our clock for the deadline. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef _Atomic int32_t rqli_signal;

/* Sleeps while *signal is `seen`, at most until until_us (rqli_now_us() time), and not after the
 * call is cancelled (base/cancel_fd.h). May wake early. */
void rqli_signal_wait(rqli_signal *signal, int32_t seen, int64_t until_us);

/* Wakes every sleeper. Only the address is used: the object in which a thread slept may be gone. */
void rqli_signal_wake(rqli_signal *signal);

/* Sleepers that are noted while a mutex is held and woken after it is released. If a waker still
 * holds the mutex, the sleeper runs into it and sleeps again. */

enum { RQLI_WAKE_LIST = 128 };

struct rqli_wake_list {
    rqli_signal *signals[RQLI_WAKE_LIST]; /* guarded by the mutex */
    size_t count;
};

/* Caller holds the mutex. Wakes the sleeper at once when the list is full. */
void rqli_wake_list_add(struct rqli_wake_list *self, rqli_signal *signal);

/* Unlocks the mutex, then wakes the sleepers, the last one first. A sleeper may be gone by then: a
 * thread that sleeps at the same address by now is woken once without cause. */
void rqli_wake_list_unlock(struct rqli_wake_list *self, pthread_mutex_t *mutex);

/* Sleeps until a time of our clock; no thread wakes it, but a cancellation of the call ends it. 0:
 * does not sleep. */
void rqli_sleep_until(int64_t until_us);

#endif
