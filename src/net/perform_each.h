#ifndef RQLI_PERFORM_EACH_H
#define RQLI_PERFORM_EACH_H

/* Carries one script call for each of several locks in one exchange: one write, as many replies. */

#include "net/conn_threads.h"
#include "wire/call.h"

struct rqli_calls {
    size_t count;
    void (*write)(void *context, size_t index, struct rqli_call *call); /* all of one script */
    void *context;
    bool is_repeated; /* out: some of it was done twice; the second time is answered */
};

/* RQL_OK: *out holds a reply for each, which may be an error; give it back. Any other status:
 * nothing to give back. The script must be safe to repeat. */
rql_status rqli_perform_each(struct rqli_conn *conn, struct rqli_calls *calls, int64_t deadline_us,
                             struct rqli_exchange **out, rql_error *error);

#endif
