/*
 * Everything here is given an absolute deadline, and none of the system's calls takes one. So a
 * name is resolved in a thread that can be left behind (net/sock/resolve.h), TCP connects without
 * blocking, and a Unix socket connects with SO_SNDTIMEO, because a full backlog cannot be polled
 * for.
 */

#include "net/sock/connect.h"

#include "base/cancel_fd.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/os.h"
#include "base/scope.h"
#include "net/sock/resolve.h"
#include "net/sock/site.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* WAIT_MS_MAX: the limit of one connect() to a path, which is then repeated. CANCEL_MS: the same if
 * the call can be cancelled, because connect() to a path cannot be polled. KEEP_*: after this
 * much silence TCP probes the peer, then again at this interval. If a user timeout is set, the
 * timeout decides when TCP gives up, and not the number of probes. */
enum {
    WAIT_MS_MAX = 60000,
    CANCEL_MS = 20,
    ADDRESSES_MAX = 16, /* of one name; more would leave too little time for each */
    KEEP_IDLE_S = 5,
    KEEP_INTERVAL_S = 2,
    KEEP_PROBES = 2,
};

RQLI_DEFINE_AUTO(struct rqli_lookup *, rqli_lookup_leave);

static int fail_with(int code)
{
    errno = code;
    return -1;
}

/* Waits for a connect that is in progress. Returns 0, or -1 with errno. A socket has room to send
 * even after a failed connect, so SO_ERROR has to tell. */
static int await_connected(int fd, int64_t deadline_us)
{
    int code = 0;
    socklen_t size = sizeof code;
    int ready;

    do {
        ready = rqli_fd_await(fd, POLLOUT, deadline_us - rqli_now_us());
    } while ((ready < 0 && errno == EINTR) || (ready == 0 && !rqli_time_is_up(deadline_us)));
    if (ready == 0) {
        return fail_with(ETIMEDOUT);
    }
    if (ready < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0) {
        return -1;
    }
    return code == 0 ? 0 : fail_with(code);
}

/* Copies the bytes of an address; IPv4 as ::ffff:a.b.c.d. */
static void copy_bytes(uint8_t out[16], const struct addrinfo *address)
{
    struct sockaddr_in6 v6;
    struct sockaddr_in v4;

    if (address->ai_family == AF_INET6) {
        memcpy(&v6, address->ai_addr, sizeof v6);
        memcpy(out, &v6.sin6_addr, 16);
    } else {
        memcpy(&v4, address->ai_addr, sizeof v4);
        memcpy(out, (const uint8_t[12]){[10] = 0xff, [11] = 0xff}, 12);
        memcpy(out + 12, &v4.sin_addr, 4);
    }
}

/* Returns the descriptor, or -1 with errno. It is non-blocking only while it connects, because its
 * later users sleep in recv(). */
static int connect_address(const struct addrinfo *address, int64_t deadline_us)
{
    RQLI_AUTO(rqli_fd_close)
    int fd = rqli_fd_lift(rqli_os_socket(address->ai_family, false));
    int flags;

    if (fd < 0) {
        return -1;
    }
    /* An interrupted connect continues in the background, like one in progress. */
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

static bool is_refused(const struct rqli_peer *self, const struct addrinfo *address)
{
    uint8_t bytes[sizeof self->at];

    copy_bytes(bytes, address);
    return memcmp(bytes, self->refused, sizeof bytes) == 0;
}

/* Tries the addresses in turn, beginning with the first, or after a refused one. Each gets its
 * share of the time that is left, so a dead one cannot use up all of it. -1: errno is that of the
 * last one. */
static int connect_any(const struct addrinfo *list, struct rqli_peer *peer, int64_t deadline_us)
{
    const struct addrinfo *all[ADDRESSES_MAX];
    int count = 0;
    int first = 0;
    int fd = -1;

    for (const struct addrinfo *at = list; at && count < ADDRESSES_MAX; at = at->ai_next) {
        all[count] = at;
        count++;
        if (is_refused(peer, at)) {
            first = count;
        }
    }
    peer->n_addresses = 0;
    for (int i = 0; i < count && fd < 0; i++) {
        const struct addrinfo *next = all[(first + i) % count];
        int64_t now_us = rqli_now_us();

        fd = connect_address(next, now_us + (deadline_us - now_us) / (count - i));
        if (fd >= 0) {
            peer->n_addresses = count;
            copy_bytes(peer->at, next);
        }
    }
    return fd;
}

static int set_option(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof value);
}

/* Sets keep-alive, so that a peer that vanished silently is noticed; the user timeout, so that
 * bytes that the peer does not acknowledge are not sent again for many minutes; and no delay,
 * because our commands are complete when they are sent, and a caller waits for the answer. */
static bool set_up_tcp(int fd, int64_t io_timeout_ms)
{
    return set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1) == 0 &&
           set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1) == 0 &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S) == 0 &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL_S) == 0 &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_PROBES) == 0 &&
           set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)io_timeout_ms) == 0;
}

/* Limits the time of each send. 0: no limit. */
static int limit_send_ms(int fd, int ms)
{
    const struct timeval limit = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * INT64_C(1000)};

    return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/* Connects; EAGAIN means that the server's backlog was full all the time. The limit is removed at
 * the end, because SO_SNDTIMEO would hold for every send. */
static int connect_path(int fd, const struct sockaddr_un *address, int64_t deadline_us)
{
    int longest_ms = rqli_cancel_fd() ? CANCEL_MS : WAIT_MS_MAX;

    for (;;) {
        int64_t left_ms = (deadline_us - rqli_now_us() + 999) / 1000; /* 0 would be no limit */

        if (left_ms <= 0 || rqli_cancel_fd_check()) {
            return fail_with(ETIMEDOUT);
        }
        if (limit_send_ms(fd, left_ms < longest_ms ? (int)left_ms : longest_ms) != 0) {
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
    RQLI_AUTO(rqli_fd_close) int fd = rqli_fd_lift(rqli_os_socket(AF_UNIX, true));
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

/* Sets the message for a failure of getaddrinfo(). errno keeps the reason. */
static rql_status fail_resolving(const char *where, int code, rql_error *error)
{
    char text[128];

    if (code == EAI_MEMORY || (code == EAI_SYSTEM && errno == ENOMEM)) {
        return rqli_fail_nomem(error);
    }
    return rqli_fail(error, RQL_E_IO, "cannot connect to %.150s: %s", where,
                     code == EAI_SYSTEM ? rqli_os_strerror(errno, text, sizeof text)
                                        : gai_strerror(code));
}

/* Not for `local:`, for which rqli_local_join() finds the server and connects. */
int rqli_connect(const struct rqli_site *site, const struct rqli_address *to,
                 struct rqli_peer *peer, int64_t deadline_us, rql_error *error)
{
    RQLI_AUTO(rqli_lookup_leave) struct rqli_lookup *lookup = NULL;
    RQLI_AUTO(rqli_fd_close) int fd = -1;
    char text[128];
    int code;

    if (site->path) {
        fd = rqli_connect_unix(site->path, deadline_us);
    } else {
        lookup = rqli_resolve(site->session->resolver, to, deadline_us, &code);
        if (!lookup) {
            (void)fail_resolving(site->where, code, error);
            return -1;
        }
        fd = connect_any(rqli_lookup_addresses(lookup), peer, deadline_us);
    }
    if (fd < 0 || (!site->path && !set_up_tcp(fd, site->session->io_timeout_ms))) {
        (void)rqli_fail(error, RQL_E_IO, "cannot connect to %.150s: %s", site->where,
                        rqli_os_strerror(errno, text, sizeof text));
        return -1;
    }
    return rqli_fd_give(&fd);
}
