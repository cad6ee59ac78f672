#ifndef RQLB_CLOCK_H
#define RQLB_CLOCK_H

/* Time for measuring: CLOCK_MONOTONIC in nanoseconds, comparable between processes. */

#include <stdint.h>
#include <time.h>

#define RQLB_US INT64_C(1000)
#define RQLB_MS INT64_C(1000000)
#define RQLB_SECOND INT64_C(1000000000)

static inline int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * RQLB_SECOND + now.tv_nsec;
}

/* Microseconds since 1970: CLOCK_REALTIME, as a server on this machine has it. */
static inline int64_t real_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (now.tv_sec * RQLB_SECOND + now.tv_nsec) / RQLB_US;
}

static inline void sleep_until_ns(int64_t when_ns)
{
    const struct timespec when = {.tv_sec = when_ns / RQLB_SECOND,
                                  .tv_nsec = when_ns % RQLB_SECOND};

    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
}

#endif
