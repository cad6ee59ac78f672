#include "admin/pages.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/scope.h"
#include "lock/client.h"
#include "lock/hosts.h"
#include "swarm_inside.h"
#include "wire/keys.h"

#include <stdio.h>

rql_status rql_get_swarm_status(rql_client *client, rql_swarm_status *out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_status status = rqli_client_check(client, error);
    rql_swarm_status filled = {.is_running = false};
    struct rql_swarm *swarm;

    if (status) {
        return status;
    }
    if (!out) {
        return rqli_fail(error, RQL_E_INVALID, "out is NULL");
    }
    filled.auto_swarm = client->options.auto_swarm;
    swarm = atomic_load(&client->running_swarm);
    if (swarm) {
        filled.is_running = atomic_load(&swarm->is_running);
        filled.is_flusher = atomic_load(&swarm->is_flusher);
        filled.hosts = (int64_t)rqli_hosts_known(client->hosts);
        rqli_element_describe(&swarm->supervisor, &filled.supervisor);
        rqli_element_describe(&swarm->prober, &filled.probe_hosts);
        rqli_element_describe(&swarm->flusher, &filled.flush_zombies);
    }
    *out = filled;
    return RQL_OK;
}

static rql_status read_flusher(const struct rqli_exchange *exchange, char out[RQL_ID_SIZE],
                               rql_error *error)
{
    const struct rqli_reply *reply = exchange->reply;

    if (reply->type == RQLI_REPLY_NIL) {
        return RQL_NOT_FOUND;
    }
    if (reply->type != RQLI_REPLY_TEXT) {
        return rqli_exchange_fault(exchange, reply, "GET", RQLI_KEY_FLUSHER, error);
    }
    (void)snprintf(out, RQL_ID_SIZE, "%s", reply->text.data);
    return RQL_OK;
}

rql_status rql_swarm_flusher(rql_client *client, char out[RQL_ID_SIZE], rql_error *error)
{
    RQLI_DEFER_CANCEL;
    const struct rqli_reader reader = {client, RQLI_KEY_FLUSHER, error};
    RQLI_AUTO(rqli_exchange_give) struct rqli_exchange *exchange = NULL;
    rql_status status = rqli_client_check(client, error);

    if (!status && !out) {
        status = rqli_fail(error, RQL_E_INVALID, "out is NULL");
    }
    if (!status) {
        status = rqli_query(client, &exchange, error, "GET", RQLI_KEY_FLUSHER, NULL);
    }
    return status ? rqli_reader_status(&reader, status) : read_flusher(exchange, out, error);
}
