#ifndef RQLI_QUERY_H
#define RQLI_QUERY_H

/* Plain commands over a client's connection, one at a time. */

#include "base/scope.h"
#include "lock/client.h"
#include "net/conn_threads.h"
#include "wire/keys.h"

RQLI_DEFINE_AUTO(struct rqli_exchange *, rqli_exchange_give);

/* Runs one command of texts, NULL behind the last, within the time of a single command. RQL_OK:
 * *out holds its reply, which is no error, and is to be given back. Otherwise *out stays as it was.
 */
__attribute__((sentinel)) rql_status rqli_query(rql_client *client, struct rqli_exchange **out,
                                                rql_error *error, ...);

/* The keys of a name that a caller gave. It is not moved: they are in it. */
struct rqli_named {
    struct rqli_keys keys;
    char memory[RQLI_KEYS_ROOM];
};

/* Checks the client and the name first. */
rql_status rqli_named_init(struct rqli_named *self, const rql_client *client, const char *name,
                           rql_error *error);

#endif
