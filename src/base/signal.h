#ifndef RQLI_SIGNAL_H
#define RQLI_SIGNAL_H

/* A word that threads sleep on: the kernel's futex, with our clock for the deadline. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef _Atomic int32_t rqli_signal;

/* Sleeps while *signal is `seen`, at most until until_us (rqli_now_us() time). May wake early. */
void rqli_signal_wait(rqli_signal *signal, int32_t seen, int64_t until_us);

/* Wakes every sleeper. The address alone counts: what slept there may be gone. */
void rqli_signal_wake(rqli_signal *signal);

#endif
