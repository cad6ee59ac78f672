#include "base/fd.h"

#include <fcntl.h>
#include <poll.h>
#include <time.h>

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
    struct timespec left = {0};

    if (left_us > 0) {
        left.tv_sec = (time_t)(left_us / 1000000);
        left.tv_nsec = (long)(left_us % 1000000) * 1000;
    }
    return ppoll(&wanted, 1, &left, NULL);
}
