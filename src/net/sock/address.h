#ifndef RQLI_ADDRESS_H
#define RQLI_ADDRESS_H

/* The TCP address at which a server listens. */

#include "base/text.h"

#include <rql/status.h>
#include <stdbool.h>

/* A DNS name has at most 253 bytes. The text also has brackets, a colon and a port. */
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

/* The address, of those that a name has, to which a connection leads. The owner keeps it from one
 * attempt to the next, so that an attempt can begin after an address whose server was of no use.
 * Zeroed at first. */
struct rqli_peer {
    uint8_t at[16];      /* of the last connection; IPv4 as ::ffff:a.b.c.d */
    int n_addresses;     /* of the name at that time; 0: no connection was made */
    uint8_t refused[16]; /* set by the owner: attempts begin after this address; 0: there is none */
};

/* Prints the address without a port. Returns out. */
const char *rqli_peer_print(const struct rqli_peer *self, char out[RQLI_PEER_TEXT_SIZE]);

/* Returns true if host and port are the same text. Two names of one server count as two
 * addresses. */
bool rqli_address_is(const struct rqli_address *self, const struct rqli_address *other);

/* Prints "host:port", or "[host]:port" for IPv6. Returns out. */
const char *rqli_address_print(const struct rqli_address *self, char out[RQLI_ADDRESS_TEXT_SIZE]);

/* Sets *out to the address by which one server names another: a name, or an address without
 * brackets. Returns false, with *out untouched, if the host or the port is not valid. */
bool rqli_address_set(struct rqli_address *out, struct rqli_slice host, int64_t port);

/* Takes "host[:port]" from the front of *rest: a name, an IPv4 address or an IPv6 address in
 * brackets; an empty host is this machine. The remaining text is left in *rest. The message of
 * RQL_E_INVALID begins with "url:" and contains no byte of the text. */
rql_status rqli_address_take(struct rqli_address *out, struct rqli_slice *rest, int default_port,
                             rql_error *error);

#endif
