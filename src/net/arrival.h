#ifndef RQLI_ARRIVAL_H
#define RQLI_ARRIVAL_H

/* What a login for commands says of the keys of its server before anything is asked of them: what
 * the client has seen there (net/era.h). Of each set of keys that the server has. */

#include "net/era.h"
#include "net/socket.h"
#include "wire/partition.h"

/* Those of one login, in their order. Zeroed: none. */
struct rqli_arrivals {
    struct {
        struct rqli_era *era;
        int64_t floor; /* that was told */
    } each[RQLI_PARTITIONS];

    size_t count;
    size_t n_read;
};

/* RQL_E_UNSUPPORTED: the server cannot be told from another. */
rql_status rqli_arrivals_write(struct rqli_arrivals *self, const struct rqli_socket *sock,
                               struct rqli_command *command, rql_error *error);

/* The next answer. RQL_E_UNAVAILABLE: the cluster is down. */
rql_status rqli_arrivals_read(struct rqli_arrivals *self, const struct rqli_endpoint *endpoint,
                              const struct rqli_reply *reply, rql_error *error);

/* The login is over: what had no answer is doubtful, and who logged in has met the server. */
void rqli_arrivals_end(const struct rqli_arrivals *self, const struct rqli_socket *sock,
                       rql_status status);

#endif
