#ifndef RQLI_ARRIVAL_H
#define RQLI_ARRIVAL_H

/* What a login for commands says of the keys of its server before anything is asked of them: what
 * the client has seen there (net/era.h). Of each set of keys that the server has; and of those that
 * come to it later, where that matters (net/map.h). */

#include "net/era.h"
#include "net/socket.h"
#include "wire/partition.h"

/* Those of one write, in their order. Zeroed: none. */
struct rqli_arrivals {
    struct {
        struct rqli_era *era;
        int64_t floor; /* that was told */
        bool is_heard; /* by the server, which has these keys */
    } each[RQLI_PARTITIONS];

    struct rqli_slice masters; /* as in rqli_era_write() */
    size_t count;
    size_t n_read;
};

/* Of one set, to the server that is called run_id. */
void rqli_arrivals_add(struct rqli_arrivals *self, const struct rqli_endpoint *endpoint,
                       const struct rqli_key_set *set, const char *run_id,
                       struct rqli_command *command);

/* Of all that a login has to say. RQL_E_UNSUPPORTED: the server cannot be told from another. */
rql_status rqli_arrivals_write(struct rqli_arrivals *self, const struct rqli_socket *sock,
                               struct rqli_command *command, rql_error *error);

/* The next answer. RQL_E_UNAVAILABLE: the cluster is down, or with a pause: the keys move. */
rql_status rqli_arrivals_read(struct rqli_arrivals *self, const struct rqli_endpoint *endpoint,
                              const struct rqli_reply *reply, rql_error *error);

/* There was no answer. */
void rqli_arrivals_on_silence(const struct rqli_arrivals *self);

/* The login is over: what had no answer is doubtful, and who logged in has met the server. */
void rqli_arrivals_end(const struct rqli_arrivals *self, const struct rqli_socket *sock,
                       rql_status status);

#endif
