#ifndef RQLI_CANCEL_H
#define RQLI_CANCEL_H

/* pthread_cancel() does not cut a call short, because that would leave its request in the queue and
 * its share of a connection unread. The cancellation takes effect after the call (lock.h). */

#include <pthread.h>

static inline int rqli_cancel_defer(void)
{
    int before = PTHREAD_CANCEL_ENABLE;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void rqli_cancel_restore(const int *before)
{
    (void)pthread_setcancelstate(*before, NULL);
}

/* Stands first in every public call that talks to the server, waits or takes a mutex, and holds
 * until the end of the call. A block runs under the cancel state of its caller (lock/block.c). */
#define RQLI_DEFER_CANCEL                                                                          \
    __attribute__((cleanup(rqli_cancel_restore), unused)) const int cancel_before =                \
        rqli_cancel_defer()

#endif
