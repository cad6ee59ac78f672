#ifndef RQLI_CLIENT_LIST_H
#define RQLI_CLIENT_LIST_H

#include "base/text.h"

#include <rql/inspect.h>

/* Reads an entry of the list of clients into one allocation, to be freed with free(). NULL:
 * there is no memory, or no client has written the entry. */
rql_client_info *rqli_client_info_read(struct rqli_slice identity, struct rqli_slice entry);

#endif
