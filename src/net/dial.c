#include "net/dial.h"

#include "base/clock.h"
#include "base/error.h"
#include "net/connect.h"
#include "net/fd.h"
#include "net/local.h"
#include "net/resolve.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

enum {
    ADDRESSES_MAX = 16, /* of one name; more would leave too little time for each */
    KEEP_IDLE_S = 5,
    KEEP_INTERVAL_S = 2,
    KEEP_PROBES = 2,
};

RQLI_DEFINE_AUTO(struct addrinfo *, freeaddrinfo);

static rql_status fail_connecting(const struct rqli_endpoint *endpoint, rql_error *error)
{
    char text[128];

    return rqli_fail(error, RQL_E_IO, "cannot connect to %.150s: %s", endpoint->where,
                     strerror_r(errno, text, sizeof text));
}

static int set_option(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof value);
}

/* So that a peer that vanished without a word is noticed (F-67). */
static bool set_up_tcp(int fd, int64_t io_timeout_ms)
{
    return set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1) == 0 &&
           set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1) == 0 &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S) == 0 &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL_S) == 0 &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_PROBES) == 0 &&
           set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)io_timeout_ms) == 0;
}

static int count(const struct addrinfo *list)
{
    int n = 0;

    for (; list && n < ADDRESSES_MAX; list = list->ai_next) {
        n++;
    }
    return n;
}

/* Each address gets its share of the time that is left, so a dead one cannot use up all of it. */
static int connect_any(const struct addrinfo *list, int64_t deadline_us)
{
    int n_left = count(list);
    int fd = -1;

    for (; n_left > 0 && fd < 0; list = list->ai_next) {
        int64_t now_us = rqli_now_us();

        fd = rqli_connect_tcp(list, now_us + (deadline_us - now_us) / n_left);
        n_left--;
    }
    return fd;
}

static rql_status dial_tcp(const struct rqli_endpoint *endpoint, int64_t deadline_us, int *out_fd,
                           rql_error *error)
{
    RQLI_AUTO(freeaddrinfo) struct addrinfo *list = NULL;
    RQLI_AUTO(rqli_fd_close) int fd = -1;
    rql_status status = rqli_resolve(&list, endpoint, deadline_us, error);

    if (status) {
        return status;
    }
    fd = connect_any(list, deadline_us);
    if (fd < 0 || !set_up_tcp(fd, endpoint->io_timeout_ms)) {
        return fail_connecting(endpoint, error);
    }
    *out_fd = rqli_fd_give(&fd);
    return RQL_OK;
}

static rql_status dial_unix(const struct rqli_endpoint *endpoint, int64_t deadline_us, int *out_fd,
                            rql_error *error)
{
    int fd = rqli_connect_unix(endpoint->path, deadline_us);

    if (fd < 0) {
        return fail_connecting(endpoint, error);
    }
    *out_fd = fd;
    return RQL_OK;
}

rql_status rqli_dial(const struct rqli_endpoint *endpoint, int64_t deadline_us, int *out_fd,
                     rql_error *error)
{
    switch (endpoint->kind) {
    case RQLI_ENDPOINT_TCP:
        return dial_tcp(endpoint, deadline_us, out_fd, error);
    case RQLI_ENDPOINT_UNIX:
        return dial_unix(endpoint, deadline_us, out_fd, error);
    case RQLI_ENDPOINT_LOCAL:
        break;
    }
    return rqli_local_join(endpoint->path, deadline_us, out_fd, error);
}
