#ifndef RQLI_FD_H
#define RQLI_FD_H

/* Scope-bound descriptors: RQLI_AUTO(rqli_fd_close) int fd = -1; and rqli_fd_give() moves out. */

#include "base/scope.h"

#include <errno.h>
#include <unistd.h>

/* Keeps errno: it runs while a failure is on its way out. */
static inline void rqli_fd_close_p(const int *slot)
{
    int saved = errno;

    if (*slot >= 0) {
        (void)close(*slot);
    }
    errno = saved;
}

static inline int rqli_fd_give(int *slot)
{
    int fd = *slot;

    *slot = -1;
    return fd;
}

#endif
