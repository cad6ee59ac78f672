#ifndef RQLI_ARRIVAL_H
#define RQLI_ARRIVAL_H

/* The calls by which a login for commands tells its server, before it asks anything about the
 * server's keys, what the client has seen there (net/login/era.h). One call is made for each set of
 * keys that the server has; and, where that matters, for each set that it gets later
 * (net/fleet/map.h). */

#include "net/login/era.h"
#include "net/sock/socket.h"
#include "wire/keys.h"

/* The calls of one write, in their order. Zeroed: none. */
struct rqli_arrivals {
    struct {
        struct rqli_era *era;
        int64_t floor; /* when the call was written */
        bool is_heard; /* the server, which has these keys, has confirmed */
    } each[RQLI_PARTITIONS];

    struct rqli_slice masters; /* as in rqli_era_write() */
    size_t count;
    size_t n_read;
};

/* Adds the call for one set, to the server with this run id. */
void rqli_arrivals_add(struct rqli_arrivals *self, const struct rqli_site *site,
                       const struct rqli_key_set *set, const char *run_id,
                       struct rqli_command *command);

/* Adds all calls that a login has to make. RQL_E_UNSUPPORTED: the server's run id is needed and not
 * known. */
rql_status rqli_arrivals_write(struct rqli_arrivals *self, const struct rqli_socket *sock,
                               struct rqli_command *command, rql_error *error);

/* Reads the next answer. RQL_E_UNAVAILABLE: the cluster is down or, with a pause, the keys are
 * moving. */
rql_status rqli_arrivals_read(struct rqli_arrivals *self, const struct rqli_site *site,
                              const struct rqli_reply *reply, rql_error *error);

/* Notes that the calls had no answer: held locks have to be verified. */
void rqli_arrivals_on_silence(const struct rqli_arrivals *self);

/* Ends the login. If it failed, the effect of its calls is doubtful; if not, each set of keys notes
 * which server it met. */
void rqli_arrivals_end(const struct rqli_arrivals *self, const struct rqli_socket *sock,
                       rql_status status);

#endif
