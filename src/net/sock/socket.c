/* Sends and reads on one descriptor. It is in blocking mode: a thread that reads sleeps in recv(),
 * and is woken by the kernel itself. */

#include "net/sock/socket.h"

#include "base/cancel_fd.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/os.h"
#include "net/sock/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* Waits of up to EXACT_US use ppoll(), whose timer is exact; longer ones use recv() with a limit,
 * which is one system call less, unless the call can be cancelled: recv() watches one descriptor.
 * LONGEST_US limits one wait; after it the caller waits again. */
enum { READ_BYTES = 16384, EXACT_US = 20000, LONGEST_US = 60000000 };

void rqli_socket_close(struct rqli_socket *self)
{
    int fd = self->fd;

    rqli_master_leave(&self->of_master);
    /* Forget the descriptor before it is closed: if a fork comes in between, the child must not
     * close the number, which may be the host's by then. */
    self->fd = -1;
    if (fd >= 0) {
        (void)close(fd);
    }
    self->tls = rqli_tls_free(self->tls);
    rqli_decoder_fini(&self->decoder);
}

bool rqli_socket_has_bytes(const struct rqli_socket *self)
{
    char byte;

    return recv(self->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* Messages of TLS itself, such as a ticket, are no text and do not count. */
bool rqli_socket_is_quiet(struct rqli_socket *self)
{
    char byte;

    if (self->tls) {
        return rqli_socket_read(self, 0, 0) == RQLI_SOCKET_NOTHING;
    }
    return recv(self->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

ssize_t rqli_socket_send_some(struct rqli_socket *self, const char *bytes, size_t length)
{
    ssize_t sent;

    if (self->tls) {
        return rqli_tls_send_some(self->tls, self->fd, bytes, length);
    }
    sent = send(self->fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : sent;
}

bool rqli_socket_send(struct rqli_socket *self, const char *bytes, size_t length,
                      int64_t deadline_us)
{
    while (length > 0) {
        ssize_t sent = rqli_socket_send_some(self, bytes, length);

        if (sent < 0) {
            return false;
        }
        if (sent == 0 && rqli_time_is_up(deadline_us)) {
            errno = EAGAIN;
            return false;
        }
        if (sent == 0) {
            (void)rqli_fd_await(self->fd, POLLOUT, deadline_us - rqli_now_us());
        }
        bytes += sent;
        length -= (size_t)sent;
    }
    return true;
}

void rqli_socket_await_room(const struct rqli_socket *self, int64_t until_us)
{
    (void)rqli_fd_await(self->fd, POLLIN | POLLOUT, until_us - rqli_now_us());
}

void rqli_socket_await_bytes_or(const struct rqli_socket *self, int event, int64_t until_us)
{
    struct pollfd wanted[] = {{.fd = self->fd, .events = POLLIN}, {.fd = event, .events = POLLIN}};

    if (rqli_poll(wanted, 2, until_us - rqli_now_us()) > 0 && wanted[1].revents != 0) {
        rqli_os_event_clear(event);
    }
}

void rqli_socket_abandon(struct rqli_socket *self)
{
    int nothing = rqli_os_event();

    if (nothing >= 0) {
        (void)dup3(nothing, self->fd, O_CLOEXEC);
        (void)close(nothing);
    } else {
        (void)close(self->fd);
    }
}

/* Sets the socket's own limit, so that one recv() is the whole wait. The kernel's timer is late by
 * up to an eighth, so the limit is well before left_us, and the reader calls again. */
static void limit_read(struct rqli_socket *self, int64_t left_us)
{
    struct timeval limit;
    int64_t limit_us = left_us / 8 * 5; /* further waits of about this length need no system call */

    if (self->read_limit_us >= left_us / 2 && self->read_limit_us <= left_us / 4 * 3) {
        return;
    }
    limit.tv_sec = (time_t)(limit_us / 1000000);
    limit.tv_usec = (suseconds_t)(limit_us % 1000000);
    if (setsockopt(self->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0) {
        self->read_limit_us = limit_us;
    }
}

/* Gives received bytes to the decoder. Bytes that belong to TLS alone are nothing to the reader. */
static enum rqli_socket_read feed_decoder(struct rqli_socket *self, const char *bytes,
                                          size_t length)
{
    int got = self->tls ? rqli_tls_read(self->tls, bytes, length, &self->decoder)
                        : (rqli_decoder_feed(&self->decoder, bytes, length) ? 1 : -1);

    if (got < 0) {
        return RQLI_SOCKET_BROKEN;
    }
    return got > 0 ? RQLI_SOCKET_BYTES : RQLI_SOCKET_NOTHING;
}

enum rqli_socket_read rqli_socket_read(struct rqli_socket *self, int64_t until_us, int64_t spin_us)
{
    char buffer[READ_BYTES];
    int64_t left_us = until_us == RQLI_NEVER_US ? LONGEST_US : until_us - rqli_now_us();
    ssize_t got = -1;

    /* Try without sleeping: once if no time is left, or as long as the caller spins. */
    errno = EAGAIN;
    if (left_us <= 0 || spin_us > 0) {
        int64_t end_us = left_us > 0 ? rqli_now_us() + spin_us : 0;

        do {
            got = recv(self->fd, buffer, sizeof buffer, MSG_DONTWAIT);
        } while (got < 0 && errno == EAGAIN && rqli_now_us() < end_us);
    }
    /* This may end early but never late, because callers that must report by a deadline wait
     * here. */
    if (left_us > EXACT_US && !rqli_cancel_fd() && got < 0 && errno == EAGAIN) {
        limit_read(self, left_us < LONGEST_US ? left_us : LONGEST_US);
        got = recv(self->fd, buffer, sizeof buffer, 0);
    } else if (left_us > 0 && got < 0 && errno == EAGAIN) {
        (void)rqli_fd_await(self->fd, POLLIN, left_us);
        got = recv(self->fd, buffer, sizeof buffer, MSG_DONTWAIT);
    }
    if (got > 0) {
        return feed_decoder(self, buffer, (size_t)got);
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return RQLI_SOCKET_NOTHING;
    }
    if (got == 0) {
        errno = ECONNRESET;
    }
    return RQLI_SOCKET_BROKEN;
}
