#ifndef RQLI_CLIENT_LIST_H
#define RQLI_CLIENT_LIST_H

#include "base/text.h"

#include <rql/inspect.h>

/* An entry of the list of clients, in one allocation: free() it. NULL: no memory, or nothing that a
 * client has written. */
rql_client_info *rqli_client_info_read(struct rqli_slice identity, struct rqli_slice entry);

#endif
