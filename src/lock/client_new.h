#ifndef RQLI_CLIENT_NEW_H
#define RQLI_CLIENT_NEW_H

/* Makes a client of its parts, and frees it. A client made here has no swarm. */

#include "base/scope.h"

#include <rql/client.h>

/* Sends nothing: the first call connects. */
rql_status rqli_client_make(rql_client **out, const rql_options *options, rql_error *error);

/* Returns NULL. NULL, and a client of another process, stay as they are. */
rql_client *rqli_client_free(rql_client *client);

RQLI_DEFINE_AUTO(rql_client *, rqli_client_free);

#endif
