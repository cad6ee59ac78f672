#include "base/signal.h"

#include "base/clock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void rqli_signal_wait(rqli_signal *signal, int32_t seen, int64_t until_us)
{
    struct timespec left;
    int64_t left_us;

    if (until_us == RQLI_NEVER_US) {
        (void)syscall(SYS_futex, signal, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
        return;
    }
    left_us = until_us - rqli_now_us();
    if (left_us > 0) {
        left.tv_sec = (time_t)(left_us / 1000000);
        left.tv_nsec = (long)(left_us % 1000000) * 1000;
        (void)syscall(SYS_futex, signal, FUTEX_WAIT_PRIVATE, seen, &left, NULL, 0);
    }
}

void rqli_signal_wake(rqli_signal *signal)
{
    (void)syscall(SYS_futex, signal, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}
