#ifndef RQLI_CLIENT_NEW_H
#define RQLI_CLIENT_NEW_H

/* A client from new to free, without a swarm. */

#include "lock/client.h"

rql_status rqli_client_make(rql_client **out, const rql_options *options, rql_error *error);
rql_client *rqli_client_free(rql_client *client);

#endif
