#include "base/fd.h"

#include "base/cancel_fd.h"

#include <fcntl.h>
#include <poll.h>

int rqli_fd_lift(int fd)
{
    int lifted = fd;

    if (fd >= 0 && fd < RQLI_FD_LEAST) {
        lifted = fcntl(fd, F_DUPFD_CLOEXEC, RQLI_FD_LEAST);
        rqli_fd_close_p(&fd);
    }
    return lifted;
}

int rqli_fd_await(int fd, short events, int64_t left_us)
{
    struct pollfd wanted = {.fd = fd, .events = events};

    return rqli_poll(&wanted, 1, left_us);
}
