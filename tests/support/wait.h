#ifndef WAIT_H
#define WAIT_H

/* Waiting for a condition, never for time to pass. */

#include <stdbool.h>
#include <stdint.h>

int64_t wait_clock_us(void); /* monotonic */

/* Asks again and again until `holds` says yes; false when wait_stretched(within_ms) passed first.
 * That has a limit, so that the test fails before its program is cut off. */
bool wait_until(bool (*holds)(void *data), void *data, int64_t within_ms);

/* Waits for *fd to have something to read, for wait_stretched(within_ms). */
bool wait_readable(int fd, int64_t within_ms);

/* For bounds that a slow tool and a busy machine may stretch: 1 or more. The factor of
 * RQL_TEST_SLOW, and what this process was kept from running since its first server (stall.h). */
int64_t wait_slowness(void);

/* A time-out that is to pass while all is well, and not because this process is kept from running:
 * `ms`, longer by the slowness, ten times at most. */
int64_t wait_stretched(int64_t ms);

#endif
