#ifndef RQLI_CLOCK_H
#define RQLI_CLOCK_H

/* The one clock that decisions are based on: CLOCK_BOOTTIME, which runs through suspend, as a lease
 * does. Wall clocks are never read, because they jump; server time comes from the server. */

#include <stdint.h>

#define RQLI_NEVER_US INT64_MAX

int64_t rqli_now_us(void);

/* Returns now + ms without overflow; RQL_FOREVER becomes RQLI_NEVER_US. */
int64_t rqli_after_ms(int64_t now_us, int64_t ms);

static inline int64_t rqli_earlier(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

static inline int64_t rqli_later(int64_t a_us, int64_t b_us)
{
    return a_us > b_us ? a_us : b_us;
}

#endif
