#include "wait.h"

#include "stall.h"

#include <poll.h>
#include <stdlib.h>
#include <time.h>

enum { PAUSE_US = 500, QUIET_STALL_US = 10000, STRETCH_MAX = 10 };

int64_t wait_clock_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

int64_t wait_slowness(void)
{
    const char *text = getenv("RQL_TEST_SLOW");
    int64_t factor = text ? strtoll(text, NULL, 10) : 1;

    return (factor < 1 ? 1 : factor) * (1 + stall_worst_us() / QUIET_STALL_US);
}

int64_t wait_stretched(int64_t ms)
{
    int64_t slowness = wait_slowness();

    return ms * (slowness < STRETCH_MAX ? slowness : STRETCH_MAX);
}

bool wait_until(bool (*holds)(void *data), void *data, int64_t within_ms)
{
    const struct timespec pause = {.tv_nsec = PAUSE_US * 1000L};
    int64_t begun_us = wait_clock_us();

    while (!holds(data)) {
        if (wait_clock_us() - begun_us > wait_stretched(within_ms) * 1000) {
            return false;
        }
        (void)nanosleep(&pause, NULL);
    }
    return true;
}

bool wait_readable(int fd, int64_t within_ms)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};

    return poll(&poller, 1, (int)wait_stretched(within_ms)) == 1;
}
