#ifndef RQLI_CONNECT_H
#define RQLI_CONNECT_H

/* Connected sockets, before an absolute deadline, signals or not: in blocking mode, close-on-exec.
 */

#include "base/scope.h"
#include "net/url.h"

#include <errno.h>
#include <unistd.h>

/* To a server: by TCP to this address, or by the Unix socket of the endpoint. Resolves the name
 * afresh and tries all addresses, so that a server which has moved is found at the next attempt.
 * Returns a descriptor without delay, with keep-alive. -1: *error has RQL_E_IO, "cannot connect to
 * <where>: <reason>", or RQL_E_NOMEM; it is not NULL. */
int rqli_connect(const struct rqli_endpoint *endpoint, const struct rqli_address *to,
                 struct rqli_peer *peer, int64_t deadline_us, rql_error *error);

/* -1 with errno, ETIMEDOUT after the deadline. */
int rqli_connect_unix(const char *path, int64_t deadline_us);

/*
 * To the private server of `local:` (local.c): one redis-server or valkey-server per user, on a
 * Unix socket in a directory that only the user can enter, without persistence, `noeviction`. A
 * guard ends it when it has had no client and no lock for a while.
 *
 * Makes sure that a server answers at `path`, starting one if needed. RQL_OK, or RQL_E_IO with one
 * line that says what is missing ("no redis-server or valkey-server in PATH"), what failed and
 * where, or RQL_E_NOMEM. Several processes at once start one server (file lock).
 */
rql_status rqli_local_join(const char *path, int64_t deadline_us, int *out_fd, rql_error *error);

/* Scope-bound descriptors: RQLI_AUTO(rqli_fd_close) int fd = -1; and rqli_fd_give() moves out. */

/* Keeps errno: it runs while a failure is on its way out. */
static inline void rqli_fd_close_p(const int *slot)
{
    int saved = errno;

    if (*slot >= 0) {
        (void)close(*slot);
    }
    errno = saved;
}

static inline int rqli_fd_give(int *slot)
{
    int fd = *slot;

    *slot = -1;
    return fd;
}

/* Now; the owner has none any more. -1 is fine. */
static inline void rqli_fd_drop(int *slot)
{
    int fd = rqli_fd_give(slot);

    rqli_fd_close_p(&fd);
}

/* As poll() of one descriptor, for so long and no shorter unless there is a signal. */
int rqli_fd_await(int fd, short events, int64_t left_us);

#endif
