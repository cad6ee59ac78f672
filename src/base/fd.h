#ifndef RQLI_FD_H
#define RQLI_FD_H

/* Descriptors 0 to 2 belong to the program, even if it has closed them: code that writes to
 * standard error would write into a connection, and libuv aborts when it closes one of them. */

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { RQLI_FD_LEAST = 3 };

/* Moves a new descriptor above 0 to 2 if it is one of these, and returns its number. Takes -1 as
 * well. Returns -1 and sets errno if it fails. */
static inline int rqli_fd_lift(int fd)
{
    int lifted = fd;

    if (fd >= 0 && fd < RQLI_FD_LEAST) {
        int saved;

        lifted = fcntl(fd, F_DUPFD_CLOEXEC, RQLI_FD_LEAST);
        saved = errno;
        (void)close(fd);
        errno = saved;
    }
    return lifted;
}

#endif
