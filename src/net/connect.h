#ifndef RQLI_CONNECT_H
#define RQLI_CONNECT_H

/* A connected socket to an endpoint, before an absolute deadline, signals or not: resolves the name
 * afresh, tries all addresses. In blocking mode, close-on-exec. */

#include "net/url.h"

/* Not for RQLI_ENDPOINT_LOCAL. RQL_OK: *out_fd is the caller's, no delay, keep-alive. RQL_E_IO:
 * "cannot connect to <where>: <reason>". RQL_E_NOMEM. */
rql_status rqli_connect(const struct rqli_endpoint *endpoint, int64_t deadline_us, int *out_fd,
                        rql_error *error);

/* -1 with errno, ETIMEDOUT after the deadline. */
int rqli_connect_unix(const char *path, int64_t deadline_us);

#endif
