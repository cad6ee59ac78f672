#ifndef RQLI_HELLO_H
#define RQLI_HELLO_H

/* What a server answers to HELLO says whether it is what the URL takes it for. */

#include "wire/reply.h"

#include <rql/status.h>

struct rqli_endpoint;

/* RQL_E_UNSUPPORTED: of another arrangement, or too old for the one of the URL. */
rql_status rqli_hello_check(const struct rqli_endpoint *endpoint, const struct rqli_reply *reply,
                            rql_error *error);

/* The same of one that does not know the word. */
rql_status rqli_hello_check_unknown(const struct rqli_endpoint *endpoint, rql_error *error);

#endif
