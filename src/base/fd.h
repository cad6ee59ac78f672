#ifndef RQLI_FD_H
#define RQLI_FD_H

/* Descriptors. Numbers 0 to 2 belong to the program, even if it has closed them: code that writes
 * to standard error would write into a connection, and libuv aborts when it closes one of them. */

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

enum { RQLI_FD_LEAST = 3 };

/* Moves a new descriptor above 0 to 2 if it is one of these, and returns its number. Takes -1 as
 * well. Returns -1 and sets errno if it fails. */
int rqli_fd_lift(int fd);

/* Does as poll() for one descriptor, for this long, and not less unless a signal arrives or
 * the call is cancelled. If no time is left, it checks once. */
int rqli_fd_await(int fd, short events, int64_t left_us);

/* Scope-bound descriptors: RQLI_AUTO(rqli_fd_close) int fd = -1; and rqli_fd_give() moves out. */

/* Keeps errno, because it runs while a failure is on its way out. */
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

/* Closes the descriptor now; its owner has none afterwards. -1 is fine. */
static inline void rqli_fd_drop(int *slot)
{
    int fd = rqli_fd_give(slot);

    rqli_fd_close_p(&fd);
}

#endif
