#include "net/connect.h"

#include "base/clock.h"
#include "net/fd.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { WAIT_MS_MAX = 60000 };

static int fail_with(int code)
{
    errno = code;
    return -1;
}

/* Rounded up, so that a wait never ends before its deadline. */
static int wait_ms(int64_t deadline_us)
{
    int64_t left_us = deadline_us - rqli_now_us();

    if (left_us <= 0) {
        return 0;
    }
    return left_us / 1000 >= WAIT_MS_MAX ? WAIT_MS_MAX : (int)((left_us + 999) / 1000);
}

static int await_connected(int fd, int64_t deadline_us)
{
    struct pollfd wanted = {.fd = fd, .events = POLLOUT};
    int code = 0;
    socklen_t size = sizeof code;
    int ready;

    do {
        ready = poll(&wanted, 1, wait_ms(deadline_us));
    } while ((ready < 0 && errno == EINTR) || (ready == 0 && rqli_now_us() < deadline_us));
    if (ready == 0) {
        return fail_with(ETIMEDOUT);
    }
    if (ready < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0) {
        return -1;
    }
    return code == 0 ? 0 : fail_with(code);
}

int rqli_connect_tcp(const struct addrinfo *address, int64_t deadline_us)
{
    RQLI_AUTO(rqli_fd_close)
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int flags;

    if (fd < 0) {
        return -1;
    }
    /* An interrupted connect goes on in the background like one in progress. */
    if (connect(fd, address->ai_addr, address->ai_addrlen) != 0 &&
        ((errno != EINPROGRESS && errno != EINTR) || await_connected(fd, deadline_us) != 0)) {
        return -1;
    }
    flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0) {
        return -1;
    }
    return rqli_fd_give(&fd);
}

static int limit_send_ms(int fd, int ms)
{
    const struct timeval limit = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * INT64_C(1000)};

    return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/* A full backlog cannot be polled for: a blocking connect waits for it, as long as SO_SNDTIMEO. */
static int connect_path(int fd, const struct sockaddr_un *address, int64_t deadline_us)
{
    for (;;) {
        int left_ms = wait_ms(deadline_us);

        if (left_ms == 0) {
            return fail_with(ETIMEDOUT);
        }
        if (limit_send_ms(fd, left_ms) != 0) {
            return -1;
        }
        if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0) {
            return limit_send_ms(fd, 0);
        }
        if (errno != EINTR && errno != EAGAIN) {
            return -1;
        }
    }
}

int rqli_connect_unix(const char *path, int64_t deadline_us)
{
    RQLI_AUTO(rqli_fd_close) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (fd < 0) {
        return -1;
    }
    if (strlen(path) >= sizeof address.sun_path) {
        return fail_with(ENAMETOOLONG);
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (connect_path(fd, &address, deadline_us) != 0) {
        return -1;
    }
    return rqli_fd_give(&fd);
}
