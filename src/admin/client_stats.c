#include "base/cancel.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "lock/loop.h"
#include "net/conn_threads.h"
#include "net/subscriber.h"
#include "observe/stats.h"

#include <string.h>

/* What the connections count themselves. */
static void add_link(rql_stats *out, struct rqli_conn *conn)
{
    struct rqli_conn_counts counts = rqli_conn_counts(conn);

    out->commands += counts.commands;
    out->connections += counts.connections;
}

/* Those of its loops, open or not. */
static void add_loops(rql_stats *out, rql_client *client)
{
    struct rqli_traffic traffic;
    const rql_loop *loop;

    (void)pthread_mutex_lock(&client->shared.mutex);
    traffic = client->shared.past;
    for (loop = client->shared.loops; loop; loop = loop->next) {
        rqli_traffic_add(&traffic, loop);
    }
    (void)pthread_mutex_unlock(&client->shared.mutex);
    out->commands += traffic.commands;
    out->connections += traffic.connections;
    out->pushes += traffic.pushes;
}

static void read_all(rql_client *client, rql_stats *out)
{
    struct rqli_subscriber_counts pushes = rqli_subscriber_counts(client->subscriber);

    *out = (rql_stats){.size = sizeof *out};
    rqli_stats_read(client->stats, out);
    add_link(out, client->conn);
    add_link(out, rqli_leases_link(client->leases));
    out->connections += pushes.connections;
    out->pushes = pushes.pushes;
    add_loops(out, client);
}

rql_status rql_client_stats_sized(rql_client *client, rql_stats *out, size_t size)
{
    RQLI_DEFER_CANCEL;
    rql_status status = rqli_client_check(client, NULL);
    rql_stats all;

    if (!status && (!out || size < sizeof out->size)) {
        status = RQL_E_INVALID;
    }
    if (status) {
        return status;
    }
    read_all(client, &all);
    memset(out, 0, size);
    memcpy(out, &all, size < sizeof all ? size : sizeof all);
    out->size = size < sizeof all ? size : sizeof all;
    return RQL_OK;
}
