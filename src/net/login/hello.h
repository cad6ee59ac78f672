#ifndef RQLI_HELLO_H
#define RQLI_HELLO_H

/* Checks by a server's answer to HELLO that it is what the URL takes it for. */

#include "wire/reply.h"

#include <rql/status.h>

struct rqli_site;

/* RQL_E_UNSUPPORTED: the server is of another arrangement, or too old for the one of the URL. */
rql_status rqli_hello_check(const struct rqli_site *site, const struct rqli_reply *reply,
                            rql_error *error);

/* The same for a server that does not know HELLO. */
rql_status rqli_hello_check_unknown(const struct rqli_site *site, rql_error *error);

#endif
