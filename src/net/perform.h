#ifndef RQLI_PERFORM_H
#define RQLI_PERFORM_H

/* Carries one script call: by digest, once more with the text if the server does not know it
 * (F-22), and turns error replies into faults. */

#include "net/conn_threads.h"
#include "wire/call.h"

/* RQL_OK: *out holds the reply; give it back. Any other status: nothing to give back.
 * A fault in the reply is rqli_exchange_fault().
 * With call->pushes_first a PING goes ahead, in the same write: a server sends what it owes to the
 * connection last that it heard first, and so tells whom the script hands the lock to before us. */
rql_status rqli_perform(struct rqli_conn *conn, const struct rqli_call *call, int64_t deadline_us,
                        struct rqli_exchange **out, rql_error *error);

#endif
