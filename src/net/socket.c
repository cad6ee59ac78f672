#include "net/socket.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { READ_BYTES = 16384, EXACT_US = 20000, LONGEST_US = 60000000 };

bool rqli_socket_begin(struct rqli_socket *self, int fd)
{
    self->fd = fd;
    self->read_limit_us = 0;
    self->seat = (struct rqli_seat){0};
    self->is_read_only = false;
    if (!rqli_decoder_init(&self->decoder)) {
        rqli_socket_close(self);
        return false;
    }
    return true;
}

void rqli_socket_close(struct rqli_socket *self)
{
    int fd = self->fd;

    /* First forgotten, then closed: a fork in between must not have the child close the number,
     * which may be the host's by then. */
    self->fd = -1;
    if (fd >= 0) {
        (void)close(fd);
    }
    rqli_decoder_fini(&self->decoder);
}

bool rqli_socket_has_bytes(const struct rqli_socket *self)
{
    char byte;

    return recv(self->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

bool rqli_socket_is_quiet(const struct rqli_socket *self)
{
    char byte;

    return recv(self->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* After a send() that took nothing; errno says why. */
static bool may_send_again(int fd, int64_t deadline_us)
{
    struct pollfd wanted = {.fd = fd, .events = POLLOUT};
    int64_t left_us = deadline_us - rqli_now_us();

    if (errno != EAGAIN) {
        return errno == EINTR;
    }
    if (left_us <= 0) {
        errno = EAGAIN;
        return false;
    }
    return poll(&wanted, 1, (int)(left_us / 1000 < 60000 ? left_us / 1000 + 1 : 60000)) >= 0 ||
           errno == EINTR;
}

ssize_t rqli_socket_send_some(struct rqli_socket *self, const char *bytes, size_t length)
{
    ssize_t sent = send(self->fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);

    return sent < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : sent;
}

bool rqli_socket_send(struct rqli_socket *self, const char *bytes, size_t length,
                      int64_t deadline_us)
{
    while (length > 0) {
        ssize_t sent = rqli_socket_send_some(self, bytes, length);

        if (sent > 0) {
            bytes += sent;
            length -= (size_t)sent;
        } else if (sent < 0 || !may_send_again(self->fd, deadline_us)) {
            return false;
        }
    }
    return true;
}

void rqli_socket_await_room(const struct rqli_socket *self, int64_t until_us)
{
    struct pollfd wanted = {.fd = self->fd, .events = POLLIN | POLLOUT};
    int64_t left_us = until_us - rqli_now_us();
    struct timespec left;

    if (left_us > 0) {
        left = (struct timespec){.tv_sec = (time_t)(left_us / 1000000),
                                 .tv_nsec = (long)(left_us % 1000000) * 1000};
        (void)ppoll(&wanted, 1, &left, NULL);
    }
}

void rqli_socket_abandon(struct rqli_socket *self)
{
    int nothing = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (nothing >= 0) {
        (void)dup3(nothing, self->fd, O_CLOEXEC);
        (void)close(nothing);
    } else {
        (void)close(self->fd);
    }
}

/* Sets the socket's own limit, so that one recv() is the whole wait. The kernel's timer is late by
 * up to an eighth: the limit is well before left_us, and the reader comes again. */
static void limit_read(struct rqli_socket *self, int64_t left_us)
{
    struct timeval limit;
    int64_t limit_us = left_us / 8 * 5;

    if (self->read_limit_us >= left_us / 2 && self->read_limit_us <= left_us / 4 * 3) {
        return;
    }
    limit.tv_sec = (time_t)(limit_us / 1000000);
    limit.tv_usec = (suseconds_t)(limit_us % 1000000);
    if (setsockopt(self->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0) {
        self->read_limit_us = limit_us;
    }
}

/* May end early, never late: what has to be reported by a deadline waits here. */
static ssize_t await_bytes(struct rqli_socket *self, char *buffer, int64_t left_us)
{
    struct pollfd wanted = {.fd = self->fd, .events = POLLIN};
    const struct timespec left = {.tv_nsec = (long)left_us * 1000};

    if (left_us > EXACT_US) {
        limit_read(self, left_us < LONGEST_US ? left_us : LONGEST_US);
        return recv(self->fd, buffer, READ_BYTES, 0);
    }
    (void)ppoll(&wanted, 1, &left, NULL);
    return recv(self->fd, buffer, READ_BYTES, MSG_DONTWAIT);
}

enum rqli_socket_read rqli_socket_read(struct rqli_socket *self, int64_t until_us, int64_t spin_us)
{
    char buffer[READ_BYTES];
    int64_t left_us = until_us == RQLI_NEVER_US ? LONGEST_US : until_us - rqli_now_us();
    ssize_t got = -1;

    errno = EAGAIN;
    if (left_us <= 0) {
        got = recv(self->fd, buffer, sizeof buffer, MSG_DONTWAIT);
    } else if (spin_us > 0) {
        int64_t end_us = rqli_now_us() + spin_us;

        do {
            got = recv(self->fd, buffer, sizeof buffer, MSG_DONTWAIT);
        } while (got < 0 && errno == EAGAIN && rqli_now_us() < end_us);
    }
    if (left_us > 0 && got < 0 && errno == EAGAIN) {
        got = await_bytes(self, buffer, left_us);
    }
    if (got > 0) {
        return rqli_decoder_feed(&self->decoder, buffer, (size_t)got) ? RQLI_SOCKET_BYTES
                                                                      : RQLI_SOCKET_BROKEN;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return RQLI_SOCKET_NOTHING;
    }
    if (got == 0) {
        errno = ECONNRESET;
    }
    return RQLI_SOCKET_BROKEN;
}
