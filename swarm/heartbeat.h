#ifndef RQLI_HEARTBEAT_H
#define RQLI_HEARTBEAT_H

/* One heartbeat for the hosts of a client, whatever their number. */

#include "admin/pages.h"
#include "lock/client.h"
#include "lock/hosts.h"

#include <rql/swarm.h>

struct rqli_probe {
    rql_client *client; /* whose hosts */
    rql_client *via;    /* whose connection */
    enum rqli_hosts_who who;
    int64_t zombie_ttl_ms;  /* that the client's leases are bound by; 0: they are not */
    struct rqli_list *told; /* the hosts that were told, or NULL */
    int64_t server_us;      /* out: with this time; 0: there was nothing to tell */
    int64_t n_dead;         /* out: that were declared dead meanwhile */
};

/* Any thread. RQL_OK: the server knows. */
rql_status rqli_probe_run(struct rqli_probe *self, rql_error *error);

#endif
