#ifndef RQLI_CONNECT_H
#define RQLI_CONNECT_H

/* Makes connected sockets, before an absolute deadline even if signals arrive: in blocking mode,
 * close-on-exec. */

#include "base/scope.h"
#include "net/url.h"

#include <errno.h>
#include <unistd.h>

/* Connects to a server: by TCP to this address, or by the Unix socket of the endpoint. Resolves the
 * name each time and tries all addresses, so that a server that has moved is found at the next
 * attempt. Returns a descriptor with no delay and with keep-alive. -1: *error, which must not be
 * NULL, has RQL_E_IO, "cannot connect to <where>: <reason>", or RQL_E_NOMEM. */
int rqli_connect(const struct rqli_endpoint *endpoint, const struct rqli_address *to,
                 struct rqli_peer *peer, int64_t deadline_us, rql_error *error);

/* Returns a descriptor, or -1 with errno: ETIMEDOUT after the deadline. */
int rqli_connect_unix(const char *path, int64_t deadline_us);

/*
 * Connects to the private server of `local:` (local.c): one redis-server or valkey-server per user,
 * on a Unix socket in a directory that only the user can enter, without persistence, `noeviction`.
 * A guard ends the server when it has had no client and no lock for a while.
 *
 * Makes sure that a server answers at `path`, and starts one if needed. RQL_OK, or RQL_E_IO with
 * one line that says which program is missing ("no redis-server or valkey-server in PATH"), or
 * which step failed and where, or RQL_E_NOMEM. Several processes together start one server (file
 * lock).
 */
rql_status rqli_local_join(const char *path, int64_t deadline_us, int *out_fd, rql_error *error);

/* Scope-bound descriptors: RQLI_AUTO(rqli_fd_close) int fd = -1; and rqli_fd_give() moves out. */

/* Keeps errno, because it runs while a failure is on its way out. */
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

/* Closes the descriptor now; its owner has none afterwards. -1 is fine. */
static inline void rqli_fd_drop(int *slot)
{
    int fd = rqli_fd_give(slot);

    rqli_fd_close_p(&fd);
}

/* Does as poll() for one descriptor, for this long, and not less unless a signal arrives. */
int rqli_fd_await(int fd, short events, int64_t left_us);

#endif
