#ifndef RQLI_DIAL_H
#define RQLI_DIAL_H

/* Opens a connected socket to an endpoint before an absolute deadline: resolves the name afresh
 * (F-63), tries all addresses, close-on-exec, no delay, keep-alive. Blocking mode on return. */

#include "net/endpoint.h"

/* RQL_OK: *out_fd is the caller's. RQL_E_IO: "cannot connect to <where>: <reason>". RQL_E_NOMEM. */
rql_status rqli_dial(const struct rqli_endpoint *endpoint, int64_t deadline_us, int *out_fd,
                     rql_error *error);

#endif
