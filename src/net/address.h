#ifndef RQLI_ADDRESS_H
#define RQLI_ADDRESS_H

/* Where a server listens by TCP. */

#include "base/text.h"

#include <rql/status.h>
#include <stdbool.h>

/* No name of DNS is longer than 253 bytes. The text has brackets, a colon and a port, too. */
enum {
    RQLI_HOST_SIZE = 254,
    RQLI_ADDRESS_TEXT_SIZE = RQLI_HOST_SIZE + 8,
    RQLI_PEER_TEXT_SIZE = 46, /* INET6_ADDRSTRLEN */
    RQLI_PORT_MAX = 65535,
};

struct rqli_address {
    char host[RQLI_HOST_SIZE]; /* a name, or an address without brackets; "": none */
    int port;
};

/* Which address of a name a connection leads to. Its owner keeps it from one attempt to the next,
 * so that an attempt begins behind an address whose server was of no use. Zeroed at first. */
struct rqli_peer {
    uint8_t at[16];  /* of the last connection; IPv4 as ::ffff:a.b.c.d */
    int n_addresses; /* that the name had then; 0: no connection was made */
    uint8_t
        refused[16]; /* its owner sets it: attempts begin behind this address; 0: there is none */
};

/* Prints the address without a port. Returns out. */
const char *rqli_peer_print(const struct rqli_peer *self, char out[RQLI_PEER_TEXT_SIZE]);

/* The same text; two names of one server are two. */
bool rqli_address_is(const struct rqli_address *self, const struct rqli_address *other);

/* "host:port", or "[host]:port" of IPv6. Returns out. */
const char *rqli_address_print(const struct rqli_address *self, char out[RQLI_ADDRESS_TEXT_SIZE]);

/* What a server says of another: a name or an address without brackets. False: it is none, or has
 * no port, and *out is untouched. */
bool rqli_address_set(struct rqli_address *out, struct rqli_slice host, int64_t port);

/* Takes "host[:port]" from the front of *rest: a name, an IPv4 address or an IPv6 address in
 * brackets; nothing is this machine. What follows is left in *rest. RQL_E_INVALID, with a message
 * that begins with "url:" and has no byte of the text. */
rql_status rqli_address_take(struct rqli_address *out, struct rqli_slice *rest, int default_port,
                             rql_error *error);

#endif
