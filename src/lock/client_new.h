#ifndef RQLI_CLIENT_NEW_H
#define RQLI_CLIENT_NEW_H

/* A client from new to free, for those who are part of one. */

#include "lock/client.h"

/* rql_client_new() in steps: a client that starts no swarm. */
rql_status rqli_client_make(rql_client **out, const rql_options *options, rql_error *error);

#endif
