#ifndef RQLI_CONNECT_H
#define RQLI_CONNECT_H

/* Makes connected sockets, before an absolute deadline even if signals arrive: in blocking mode,
 * close-on-exec. */

#include "net/sock/site.h"

/* Connects to a server: by TCP to this address, or to the path of the site. Resolves the
 * name each time and tries all addresses, so that a server that has moved is found at the next
 * attempt. Returns a descriptor with no delay and with keep-alive. -1: *error, which must not be
 * NULL, has RQL_E_IO, "cannot connect to <where>: <reason>", or RQL_E_NOMEM. */
int rqli_connect(const struct rqli_site *site, const struct rqli_address *to,
                 struct rqli_peer *peer, int64_t deadline_us, rql_error *error);

/* Returns a descriptor, or -1 with errno: ETIMEDOUT after the deadline. */
int rqli_connect_unix(const char *path, int64_t deadline_us);

#endif
