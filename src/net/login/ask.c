#include "net/login/ask.h"

#include "base/cancel_fd.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/os.h"
#include "net/sock/connect.h"
#include "net/sock/decode.h"
#include "net/sock/local.h"
#include "net/sock/site.h"
#include "net/sock/socket.h"
#include "net/sock/tls.h"

#include <errno.h>
#include <string.h>

/* Returns the fault. The reason is that of TLS, if there is one, because a server refuses our
 * certificate only after the handshake; else `why`; else that of errno. */
static rql_status broken(const struct rqli_socket *sock, const char *why, rql_error *error)
{
    const char *reason = rqli_tls_reason(sock->tls);
    char text[128];

    if (reason) {
        return rqli_tls_fail(error, RQL_E_TLS, sock->site->where, reason);
    }
    return rqli_fail(error, RQL_E_IO, "cannot log in to %s: %s", sock->site->where,
                     why ? why : rqli_os_strerror(errno, text, sizeof text));
}

/* Opens a connected socket. After RQL_OK the caller owns *out_fd. */
static rql_status open_socket(struct rqli_socket *sock, int64_t deadline_us, int *out_fd,
                              rql_error *error)
{
    const struct rqli_site *site = sock->site;
    rql_error fault = {0};

    if (site->path && site->session->url->arrangement == RQLI_LOCAL) {
        return rqli_local_join(site->path, site->session->local_start, deadline_us, out_fd, error);
    }
    *out_fd = rqli_connect(site, &sock->node, &sock->peer, deadline_us, &fault);
    if (*out_fd < 0 && error) {
        *error = fault;
    }
    return fault.status;
}

/* Connects, with TLS if the site has it. */
static rql_status connect_socket(struct rqli_socket *sock, int64_t deadline_us, rql_error *error)
{
    const struct rqli_site *site = sock->site;
    int fd = -1;
    rql_status status = open_socket(sock, deadline_us, &fd, error);

    if (status) {
        return status;
    }
    sock->fd = fd;
    rqli_master_on_connected(&sock->of_master, fd);
    sock->read_limit_us = 0;
    if (site->tls) {
        status = rqli_tls_new(&sock->tls, site->tls, site->where, sock->node.host, error);
    }
    if (!status && sock->tls) {
        status = rqli_tls_shake_hands(sock->tls, fd, site->where, deadline_us, error);
    }
    return status;
}

/* Takes back what connect_socket() has done. */
static void disconnect_socket(struct rqli_socket *sock)
{
    rqli_master_on_connected(&sock->of_master, -1);
    rqli_fd_drop(&sock->fd);
    sock->tls = rqli_tls_free(sock->tls);
}

rql_status rqli_ask_open(struct rqli_socket *sock, int64_t deadline_us, rql_error *error)
{
    rql_status status = connect_socket(sock, deadline_us, error);

    if (status && rqli_tls_is_session_refused(sock->tls)) {
        disconnect_socket(sock);
        status = connect_socket(sock, deadline_us, error);
    }
    if (!status && !rqli_decoder_init(&sock->decoder)) {
        status = rqli_fail_nomem(error);
    }
    if (status) {
        rqli_socket_close(sock);
    }
    return status;
}

rql_status rqli_ask_send(struct rqli_socket *sock, const struct rqli_command *command,
                         int64_t deadline_us, rql_error *error)
{
    int sys_errno;

    if (command->failed) {
        return rqli_fail_nomem(error);
    }
    if (rqli_socket_send(sock, command->data, command->length, deadline_us)) {
        return RQL_OK;
    }
    sys_errno = errno;
    (void)rqli_socket_read(sock, 0, 0); /* the reason may be there: our certificate is refused */
    errno = sys_errno;
    return broken(sock, NULL, error);
}

/* Returns the fault when no reply could be read: there is no memory, the bytes are not the
 * protocol, or the connection is broken. */
static rql_status no_reply(const struct rqli_socket *sock, rql_error *error)
{
    if (rqli_decoder_lacks_memory(&sock->decoder)) {
        return rqli_fail_nomem(error);
    }
    if (rqli_decoder_has_failed(&sock->decoder)) {
        return rqli_fail(error, RQL_E_PROTOCOL, "%s: this server is neither Redis nor Valkey",
                         sock->site->where);
    }
    return broken(sock, NULL, error);
}

rql_status rqli_ask_read(struct rqli_socket *sock, struct rqli_arena *arena,
                         struct rqli_reply *reply, int64_t deadline_us, rql_error *error)
{
    for (;;) {
        int state = rqli_decoder_next(&sock->decoder, arena, reply);

        if (state < 0) {
            return no_reply(sock, error);
        }
        if (state > 0) {
            return RQL_OK;
        }
        if (rqli_socket_read(sock, deadline_us, 0) == RQLI_SOCKET_BROKEN) {
            return no_reply(sock, error);
        }
        if (rqli_time_is_up(deadline_us)) {
            errno = ETIMEDOUT;
            return broken(sock, "no answer in time", error);
        }
    }
}
