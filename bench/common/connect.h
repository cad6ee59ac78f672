#ifndef RQLB_CONNECT_H
#define RQLB_CONNECT_H

#include "common/fault.h"

#include <rql/client.h>

/* A client that is connected; NULL: the fault says why not. */
rql_client *connect_client(const char *url, struct fault *fault);

#endif
