#include "base/futex.h"

#include "base/clock.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * Threads sleep on a futex instead of a condition variable: a thread never sleeps on a word that a
 * waker has changed, and a waker needs no mutex. The deadline is a time of our own clock, but the
 * kernel counts the remaining time without the time that the machine is suspended. A sleeper is
 * then late by that much.
 */

/* Returns the number of the system call that reads this program's struct timespec. A 32-bit kernel
 * interface has two: `futex` reads a 32-bit time_t, `futex_time64` a 64-bit one. The size of time_t
 * decides, because headers name both numbers whichever size was chosen. The wrong call takes the
 * upper half of the seconds for the nanoseconds, and waits for no time at all. */
static long futex_number(void)
{
#ifdef SYS_futex_time64
    if (sizeof(time_t) > sizeof(long)) {
        return SYS_futex_time64;
    }
#endif
#ifdef SYS_futex
    return SYS_futex;
#else
    return SYS_futex_time64; /* newer 32-bit systems have this one only */
#endif
}

/* May return early, for example after a signal: the caller checks its condition again. */
void rqli_signal_wait(rqli_signal *signal, int32_t seen, int64_t until_us)
{
    struct timespec left;
    int64_t left_us;

    if (until_us == RQLI_NEVER_US) {
        (void)syscall(futex_number(), signal, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
        return;
    }
    left_us = until_us - rqli_now_us();
    if (left_us > 0) {
        left.tv_sec = (time_t)(left_us / 1000000);
        left.tv_nsec = (long)(left_us % 1000000) * 1000;
        (void)syscall(futex_number(), signal, FUTEX_WAIT_PRIVATE, seen, &left, NULL, 0);
    }
}

void rqli_signal_wake(rqli_signal *signal)
{
    (void)syscall(futex_number(), signal, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* There are usually one or two. A signal that does not fit is woken at once, which is only
 * slower. */
void rqli_wake_list_add(struct rqli_wake_list *self, rqli_signal *signal)
{
    if (self->count == RQLI_WAKE_LIST) {
        rqli_signal_wake(signal);
    } else {
        self->signals[self->count++] = signal;
    }
}

void rqli_wake_list_unlock(struct rqli_wake_list *self, pthread_mutex_t *mutex)
{
    rqli_signal *signals[RQLI_WAKE_LIST];
    size_t count = self->count;

    memcpy(signals, self->signals, count * sizeof signals[0]);
    self->count = 0;
    (void)pthread_mutex_unlock(mutex);
    while (count > 0) {
        rqli_signal_wake(signals[--count]);
    }
}
