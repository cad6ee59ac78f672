#ifndef RQLI_TALK_H
#define RQLI_TALK_H

/* Calls of the swarm's scripts: many in one exchange, taught to the server when it does not know
 * them. Any thread. */

#include "lock/client.h"
#include "wire/call.h"

struct rqli_talk {
    rql_client *via;  /* whose connection and time-outs */
    const char *what; /* for messages */
    /* Writes all calls; the first of them with its text if with_text. They may run twice. */
    void (*write)(const void *context, struct rqli_command *command, bool with_text);
    const void *context;
};

/* RQL_OK: *out has the replies and is to be given back; none is an error. */
rql_status rqli_talk_run(const struct rqli_talk *self, struct rqli_exchange **out,
                         rql_error *error);

#endif
