#ifndef RQLI_FD_H
#define RQLI_FD_H

/* Descriptors 0 to 2 belong to the program, also where it has closed them: what writes to standard
 * error would write into a connection, and libuv aborts when it closes one. */

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { RQLI_FD_LEAST = 3 };

/* Takes a new descriptor, or -1, and returns it under a number of its own. -1 with errno. */
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
