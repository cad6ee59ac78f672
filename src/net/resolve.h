#ifndef RQLI_RESOLVE_H
#define RQLI_RESOLVE_H

/* Host names to addresses, before an absolute deadline. getaddrinfo() cannot be interrupted, so it
 * runs in a thread of its own that a caller whose deadline passed leaves behind. */

#include <rql/status.h>
#include <stdint.h>

struct addrinfo;
struct rqli_endpoint;

/* Any thread. RQL_OK: *out is released with freeaddrinfo(). RQL_E_IO: "cannot connect to <where>:
 * <reason>". RQL_E_NOMEM. */
rql_status rqli_resolve(struct addrinfo **out, const struct rqli_endpoint *endpoint,
                        int64_t deadline_us, rql_error *error);

#endif
