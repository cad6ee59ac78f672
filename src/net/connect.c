#include "net/connect.h"

#include "base/clock.h"
#include "base/error.h"
#include "net/fd.h"
#include "net/resolve.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
    WAIT_MS_MAX = 60000,
    ADDRESSES_MAX = 16, /* of one name; more would leave too little time for each */
    KEEP_IDLE_S = 5,
    KEEP_INTERVAL_S = 2,
    KEEP_PROBES = 2,
};

RQLI_DEFINE_AUTO(struct addrinfo *, freeaddrinfo);

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

static int connect_address(const struct addrinfo *address, int64_t deadline_us)
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

/* Each address gets its share of the time that is left, so a dead one cannot use up all of it. */
static int connect_any(const struct addrinfo *list, int64_t deadline_us)
{
    int n_left = 0;
    int fd = -1;

    for (const struct addrinfo *at = list; at && n_left < ADDRESSES_MAX; at = at->ai_next) {
        n_left++;
    }
    for (; n_left > 0 && fd < 0; list = list->ai_next) {
        int64_t now_us = rqli_now_us();

        fd = connect_address(list, now_us + (deadline_us - now_us) / n_left);
        n_left--;
    }
    return fd;
}

static int set_option(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof value);
}

/* Keep-alive, so that a peer that vanished without a word is noticed. */
static bool set_up_tcp(int fd, int64_t io_timeout_ms)
{
    return set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1) == 0 &&
           set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1) == 0 &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S) == 0 &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL_S) == 0 &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_PROBES) == 0 &&
           set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)io_timeout_ms) == 0;
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

rql_status rqli_connect(const struct rqli_endpoint *endpoint, int64_t deadline_us, int *out_fd,
                        rql_error *error)
{
    RQLI_AUTO(freeaddrinfo) struct addrinfo *list = NULL;
    RQLI_AUTO(rqli_fd_close) int fd = -1;
    rql_status status = RQL_OK;
    char text[128];

    if (endpoint->kind == RQLI_ENDPOINT_UNIX) {
        fd = rqli_connect_unix(endpoint->path, deadline_us);
    } else {
        status = rqli_resolve(&list, endpoint, deadline_us, error);
        if (status) {
            return status;
        }
        fd = connect_any(list, deadline_us);
    }
    if (fd < 0 ||
        (endpoint->kind == RQLI_ENDPOINT_TCP && !set_up_tcp(fd, endpoint->io_timeout_ms))) {
        return rqli_fail(error, RQL_E_IO, "cannot connect to %.150s: %s", endpoint->where,
                         strerror_r(errno, text, sizeof text));
    }
    *out_fd = rqli_fd_give(&fd);
    return RQL_OK;
}
