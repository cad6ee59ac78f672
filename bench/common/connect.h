#ifndef RQLB_CONNECT_H
#define RQLB_CONNECT_H

#include "common/fault.h"

#include <rql/client.h>

/* A client that is connected; NULL: the fault says why not. */
rql_client *connect_client(const rql_options *options, struct fault *fault);

#endif
