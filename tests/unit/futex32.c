/* Waits on a futex in a 32-bit program whose time_t has 64 bits, which needs a system call of its
 * own. Built without cmocka, which a 64-bit system has for 64 bits only. */

#include "base/clock.h"
#include "base/futex.h"

#include <stdio.h>
#include <time.h>

enum { PAUSE_US = 20000, MOST_WAITS = 100 };

_Static_assert(sizeof(time_t) > sizeof(long), "this program is about a 64-bit time_t");

int main(void)
{
    const int64_t until_us = rqli_now_us() + PAUSE_US;
    rqli_signal signal = 0;
    int n_waits = 0;

    while (rqli_now_us() < until_us && n_waits < MOST_WAITS) {
        rqli_signal_wait(&signal, 0, until_us);
        n_waits++;
    }
    (void)printf("1..1\n%s 1 - a 32-bit program sleeps until its time # %d waits\n",
                 n_waits < MOST_WAITS ? "ok" : "not ok", n_waits);
    return n_waits < MOST_WAITS ? 0 : 1;
}
