/* Several servers behind one name, such as a headless service of Kubernetes: all of them accept
 * connections, and one is the master. */

#include "net/login_any.h"

#include "base/clock.h"
#include "net/socket.h"
#include "net/url.h"

#include <stdio.h>
#include <string.h>

/* A replica is of no use, nor is a server that does not answer, or is loading. A wrong password is
 * wrong everywhere. In a cluster replicas know the masters; sentinels name one server. */
static bool wants_other_address(const struct rqli_socket *sock, rql_status status)
{
    const struct rqli_endpoint *endpoint = sock->endpoint;
    const bool is_useless = status == RQL_E_IO || status == RQL_E_UNAVAILABLE ||
                            (status == RQL_OK && sock->is_read_only);

    return is_useless && sock->peer.n_addresses > 1 && !endpoint->master &&
           endpoint->arrangement != RQLI_CLUSTER;
}

/* A connection to a replica that is kept while better ones are looked for. */
struct spare {
    struct rqli_socket sock;
    struct rqli_clock_reading reading;
};

/* Moves the socket out. The caller's is closed then, and knows which address was tried. */
static void keep_spare(struct spare *self, struct rqli_socket *sock,
                       const struct rqli_clock_reading *reading)
{
    if (self->sock.fd >= 0) {
        rqli_socket_close(sock);
        return;
    }
    *self = (struct spare){*sock, *reading};
    sock->fd = -1;
    sock->tls = NULL;
    sock->decoder = (struct rqli_decoder){0};
}

/* Of a name with several addresses: which of them is meant. */
static void name_address(const struct rqli_socket *sock, rql_error *error)
{
    char text[RQLI_PEER_TEXT_SIZE];
    size_t length;

    if (error) {
        length = strlen(error->message);
        (void)snprintf(error->message + length, sizeof error->message - length, " (%s)",
                       rqli_peer_print(&sock->peer, text));
    }
}

/* The addresses are tried in turn. If no server there is a master, the first replica is taken:
 * locks can be inspected there. */
rql_status rqli_login_any(struct rqli_socket *sock, const struct rqli_seat *predecessor,
                          int64_t deadline_us, struct rqli_clock_reading *reading_out,
                          rql_error *error)
{
    struct spare replica = {.sock = {.fd = -1}};
    rql_status status = rqli_login(sock, predecessor, deadline_us, reading_out, error);
    int n_left = sock->peer.n_addresses;

    while (wants_other_address(sock, status)) {
        memcpy(sock->peer.refused, sock->peer.at, sizeof sock->peer.refused);
        if (!status) {
            keep_spare(&replica, sock, reading_out);
        }
        if (--n_left == 0 || rqli_now_us() >= deadline_us) {
            break;
        }
        status = rqli_login(sock, predecessor, deadline_us, reading_out, error);
    }
    if (replica.sock.fd >= 0 && sock->fd >= 0) {
        rqli_socket_close(&replica.sock);
    } else if (replica.sock.fd >= 0) {
        replica.sock.peer = sock->peer;
        *sock = replica.sock;
        *reading_out = replica.reading;
        status = RQL_OK;
    }
    if (status && sock->peer.n_addresses > 1 && !sock->endpoint->master) {
        name_address(sock, error);
    }
    return status;
}
