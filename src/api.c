/* A client together with its swarm, and its statistics. No single part of the library can make
 * these, because a swarm uses the client that starts it. */

#include "base/cancel.h"
#include "base/error.h"
#include "base/result.h"
#include "base/scope.h"
#include "lock/client.h"
#include "lock/client_new.h"
#include "observe/stats.h"

#include <rql/swarm.h>
#include <rql/version.h>
#include <string.h>

/* Makes a client, and starts its swarm if auto_swarm is set. If the swarm cannot be started the
 * client is freed again, because auto_swarm promises both or none. */
rql_status rql_client_new(const rql_options *options, rql_client **out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_client_free) rql_client *client = NULL;
    rql_status status;

    if (!out) {
        return rqli_fail(error, RQL_E_INVALID, "rql_client_new: out is NULL");
    }
    status = rqli_client_make(&client, options, error);
    if (!status && client->options.auto_swarm) {
        status = rql_swarm_start(client, NULL, &client->swarm, error);
    }
    if (status) {
        return status;
    }
    *out = RQLI_GIVE(client);
    return RQL_OK;
}

rql_status rql_client_open(const char *url, rql_client **out, rql_error *error)
{
    rql_options options;
    rql_status status;

    rql_options_init(&options);
    status = rql_options_from_env(&options, error);
    if (status) {
        return status;
    }
    if (url) {
        options.url = url;
    }
    return rql_client_new(&options, out, error);
}

/* Frees the swarm first and waits for its end, because the swarm's clients and thread use the
 * client. */
rql_client *rql_client_free(rql_client *client)
{
    RQLI_DEFER_CANCEL;

    if (client) {
        (void)rql_swarm_free(client->swarm); /* stays in a fork child, as the client does */
    }
    return rqli_client_free(client);
}

/* Reads the counters. A program that was compiled with another version has a shorter or longer
 * struct. It gets the members that both versions have, followed by zeros, and their size in
 * `size`. */
rql_status rql_client_stats_sized(rql_client *client, rql_stats *out, size_t size)
{
    RQLI_DEFER_CANCEL;
    rql_status status = rqli_client_check(client, NULL);
    rql_stats all;

    if (!status && (!out || size < sizeof out->size)) {
        status = RQL_E_INVALID;
    }
    if (!status) {
        status = rqli_stats_read(client->stats, &all);
    }
    if (status) {
        return status;
    }
    rqli_result_fill(out, size, &all, sizeof all);
    return RQL_OK;
}

const char *rql_version(void)
{
    return RQL_VERSION;
}
