#include "base/clock.h"

#include "base/must.h"
#include "base/os.h"

#include <rql/base.h>
#include <time.h>

/* This clock goes on while the machine is suspended, as the server's does. So after a long sleep
 * our leases have expired here, too. */
int64_t rqli_now_us(void)
{
    struct timespec now;

    RQLI_MUST(clock_gettime(RQLI_OS_CLOCK, &now) == 0);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Saturates: a timeout that reaches beyond the clock means no timeout. */
int64_t rqli_after_ms(int64_t now_us, int64_t ms)
{
    if (ms == RQL_FOREVER || ms > (RQLI_NEVER_US - now_us) / 1000) {
        return RQLI_NEVER_US;
    }
    return now_us + ms * 1000;
}
