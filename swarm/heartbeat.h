#ifndef RQLI_HEARTBEAT_H
#define RQLI_HEARTBEAT_H

/* One heartbeat for the hosts of a client, whatever their number. */

#include "admin/pages.h"
#include "lock/client.h"
#include "lock/hosts.h"
#include "net/op.h"

#include <rql/swarm.h>

struct rqli_probe {
    struct rqli_op op;  /* first */
    rql_client *client; /* whose hosts */
    rql_client *via;    /* whose connection */
    enum rqli_hosts_who who;
    int64_t zombie_ttl_ms;  /* that the client's leases are bound by; 0: they are not */
    struct rqli_list *told; /* the hosts that were told, or NULL */

    rql_error fault;
    int64_t server_us; /* out: with this time; 0: there was nothing to tell */
    int64_t n_dead;    /* out: that were declared dead meanwhile */

    bool has_begun;
    struct rqli_hosts_plan plan;
    size_t count;
    char (*names)[RQL_ID_SIZE];
    size_t at;       /* the first host of this round */
    size_t n_open;   /* calls of this round without a reply */
    int64_t sent_us; /* the first call */
};

#endif
