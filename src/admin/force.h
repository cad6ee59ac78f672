#ifndef RQLI_FORCE_H
#define RQLI_FORCE_H

#include "lock/history.h"

/* Ends the grant, or the share, of this nonce, as rql_lock_release_by_secret() does. The caller has
 * checked that it is the nonce of a grant. ending: how the history calls it. */
rql_status rqli_end_by_secret(rql_client *client, const char *name, const char *secret,
                              enum rqli_ending ending, rql_error *error);

/* Reads the fields of a lock. *out is NULL before; the caller gives it back, also after a fault.
 * After RQL_OK its reply is an array. */
rql_status rqli_read_fields(rql_client *client, const struct rqli_keys *keys,
                            struct rqli_batch **out, rql_error *error);

/* Runs a call that ends a grant or a request, and serves the rest if the script served only a part
 * of the queue. The library does not repeat the call. */
rql_status rqli_run_end(rql_client *client, const struct rqli_call *call, struct rqli_outcome *out,
                        rql_error *error);

#endif
