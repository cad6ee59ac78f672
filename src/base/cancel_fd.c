#include "base/cancel_fd.h"

#include <poll.h>
#include <time.h>
#include <unistd.h>

static _Thread_local struct rqli_cancel_fd *of_thread;

struct rqli_cancel_fd *rqli_cancel_fd(void)
{
    return of_thread;
}

struct rqli_cancel_fd *rqli_cancel_fd_swap(struct rqli_cancel_fd *self)
{
    struct rqli_cancel_fd *before = of_thread;

    of_thread = self;
    return before;
}

bool rqli_is_cancelled(void)
{
    const struct rqli_cancel_fd *self = of_thread;

    return self && self->is_readable;
}

bool rqli_cancel_fd_check(void)
{
    if (of_thread) {
        (void)rqli_poll(NULL, 0, 0);
    }
    return rqli_is_cancelled();
}

void rqli_cancel_fd_begin(struct rqli_cancel_fd *self, int fd)
{
    *self = (struct rqli_cancel_fd){.fd = fd, .wake_fd = -1};
    if (fd >= 0) {
        (void)rqli_cancel_fd_swap(self);
        (void)rqli_cancel_fd_check();
    }
}

void rqli_cancel_fd_end(struct rqli_cancel_fd *self)
{
    if (self->fd >= 0) {
        (void)rqli_cancel_fd_swap(NULL);
    }
    if (self->wake_fd >= 0) {
        (void)close(self->wake_fd);
    }
}

/* The descriptor stands behind the others. Every event of it counts as readable: the other end of a
 * pipe may be closed, and no wait may last for ever because a descriptor is not open. */
int rqli_poll(struct pollfd *wanted, size_t count, int64_t left_us)
{
    struct rqli_cancel_fd *cancel = of_thread;
    struct pollfd all[RQLI_POLL_MAX + 1];
    struct timespec left = {0};
    int n_ready;

    if (left_us > 0 && !rqli_is_cancelled()) {
        left_us = rqli_earlier(left_us, INT32_MAX * INT64_C(1000000)); /* time_t may have 32 bits */
        left.tv_sec = (time_t)(left_us / 1000000);
        left.tv_nsec = (long)(left_us % 1000000) * 1000;
    }
    if (!cancel) {
        return ppoll(wanted, count, &left, NULL);
    }
    for (size_t i = 0; i < count; i++) {
        all[i] = wanted[i];
    }
    all[count] = (struct pollfd){.fd = cancel->fd, .events = POLLIN};
    n_ready = ppoll(all, count + 1, &left, NULL);
    for (size_t i = 0; i < count; i++) {
        wanted[i].revents = all[i].revents;
    }
    if (n_ready > 0 && all[count].revents != 0) {
        cancel->is_readable = true;
        n_ready--;
    }
    return n_ready;
}
