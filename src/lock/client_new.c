#include "lock/client_new.h"

#include "base/error.h"
#include "base/secret.h"
#include "lock/client.h"
#include "lock/history_others.h"
#include "lock/hosts.h"
#include "lock/leases.h"
#include "lock/lost_writes.h"
#include "lock/master_watch.h"
#include "lock/notify.h"
#include "net/conn/subscription.h"
#include "net/op/cluster.h"
#include "observe/stats.h"
#include "options/options.h"

#include <stdlib.h>

/* The parts that a client is made of, from its making to its end. */

/* In a fork child: each object with a descriptor closes its copy, and nothing else is touched. */
static void abandon(void *self)
{
    rql_client *client = self;

    rqli_fleet_abandon(&client->fleet);
    rqli_sentinels_abandon(client->sentinels);
    rqli_master_watch_abandon(client->master_watch);
}

/* Fills in what all connections of the client share, and where the first of them lead. TLS options
 * in the URL's query take precedence, and are for this server alone: a swarm may have another
 * one. */
static rql_status set_up_session(rql_client *client, rql_error *error)
{
    const rql_options *options = &client->options;
    rql_options here = client->options;
    rql_status status;

    if (options->client_names) {
        rqli_client_name_init(&client->name,
                              &rqli_key_sets[client->is_partitioned ? 0 : RQLI_WHOLE],
                              client->identity, options->client_label);
    }
    client->of_connections = rqli_subject_of_client(client);
    client->session = (struct rqli_session){
        .url = &client->url,
        .local_start = options->local_start,
        .is_bare = options->bare_login,
        .connect_timeout_ms = options->connect_timeout_ms,
        .io_timeout_ms = options->io_timeout_ms,
        .spin_us = options->spin_us,
        .identity = client->identity,
        .name = options->client_names ? &client->name : NULL,
        .credentials = options->credentials,
        .credentials_data = options->credentials_data,
        .refused = &client->refused,
        .eras = client->eras,
        .stats = client->stats,
        .subject = &client->of_connections,
        .resolver = &client->resolver,
    };
    status = rqli_options_set_of_url(&here, client->url.query, error);
    if (!status) {
        status = rqli_session_use_tls(&client->session, &here, error);
    }
    return status ? status
                  : rqli_site_init_first(&client->fleet.first.site, &client->session, error);
}

/* Sets up the sentinels, if they find the masters. The first node has the first of these. */
static rql_status set_up_sentinels(rql_client *client, rql_error *error)
{
    struct rqli_site *site = &client->fleet.first.site;

    if (client->url.arrangement != RQLI_SENTINEL) {
        return RQL_OK;
    }
    client->sentinels = rqli_sentinels_new(site);
    if (!client->sentinels) {
        return rqli_fail(error, RQL_E_NOMEM, "client: no memory or descriptor");
    }
    site->master = client->sentinels->masters;
    site->master->site = site;
    return RQL_OK;
}

/* Starts to watch the masters, when all nodes exist. */
static rql_status watch_masters(rql_client *client, rql_error *error)
{
    if (!client->sentinels) {
        return RQL_OK;
    }
    client->master_watch = rqli_master_watch_new(client, client->sentinels);
    if (!client->master_watch) {
        return rqli_fail(error, RQL_E_NOMEM, "client: no memory or thread");
    }
    return RQL_OK;
}

/* Sets up the cluster, if several servers have keys: its map says which node has which. */
static rql_status set_up_cluster(rql_client *client, rql_error *error)
{
    bool has_map = client->url.arrangement == RQLI_CLUSTER;

    if (!client->is_partitioned) {
        return RQL_OK;
    }
    rqli_node_name(&client->fleet.first);
    client->cluster =
        rqli_cluster_new(&client->fleet, has_map ? client->options.topology_refresh_ms : 0);
    if (!client->cluster || !rqli_cluster_start(client->cluster)) {
        return rqli_fail(error, RQL_E_NOMEM, "client: no memory or thread");
    }
    return RQL_OK;
}

static rql_status set_up_history(rql_client *client, rql_error *error)
{
    if (client->options.history == RQL_HISTORY_OFF) {
        return RQL_OK;
    }
    client->history = rqli_history_new(client);
    client->history_others = rqli_history_others_new(client);
    return client->history && client->history_others ? RQL_OK : rqli_fail_nomem(error);
}

/* Makes the parts. Nothing is sent: the first connection is made by the first call, or by
 * rql_client_connect(). So the parts can get a pointer to the identity before the identity exists.
 * The client joins the members of fork last, when all parts exist that abandon() touches. */
static rql_status make_parts(rql_client *client, rql_error *error)
{
    bool has_fleet;
    rql_status status;

    client->stats = rqli_stats_new();
    status = set_up_session(client, error);
    if (status) {
        return status;
    }
    has_fleet = rqli_fleet_init(&client->fleet, (unsigned)client->options.connections);
    client->background = rqli_background_new(client);
    if (!has_fleet || !client->background) {
        return rqli_fail_nomem(error);
    }
    client->lost_writes = rqli_lost_writes_new(client);
    client->leases = rqli_leases_new(client, client->background);
    client->hosts = rqli_hosts_new();
    if (!client->lost_writes || !client->leases || !client->stats || !client->hosts) {
        return rqli_fail_nomem(error);
    }
    if (!rqli_random_hex(client->identity)) {
        return rqli_fail(error, RQL_E_NOMEM, "client: the system returned no random numbers");
    }
    status = set_up_history(client, error);
    status = status ? status : set_up_sentinels(client, error);
    status = status ? status : set_up_cluster(client, error);
    status = status ? status : watch_masters(client, error);
    if (status) {
        return status;
    }
    client->is_member = rqli_fork_join(&client->fork, abandon, client);
    return client->is_member ? RQL_OK : rqli_fail_nomem(error);
}

/* Makes a record (era) of what the client has seen of each set of keys. */
static rql_status make_eras(rql_client *client, rql_error *error)
{
    client->eras = calloc(rqli_client_n_sets(client), sizeof *client->eras);
    for (size_t i = 0; client->eras && i < rqli_client_n_sets(client); i++) {
        client->eras[i].pause_ms = client->options.recovery_delay_ms;
    }
    return client->eras ? RQL_OK : rqli_fail_nomem(error);
}

/* Reads the options and what they say about the server. */
static rql_status take_options(rql_client *client, const rql_options *options, rql_error *error)
{
    rql_status status = rqli_options_read(RQLI_OF_CLIENT, &client->options, NULL, options, error);

    if (status) {
        return status;
    }
    client->texts = rqli_options_keep_texts(&client->options);
    if (!client->texts) {
        return rqli_fail_nomem(error);
    }
    rqli_options_fill(RQLI_OF_LOCK, &client->of_calls, &client->options);
    status = rqli_url_parse(&client->url, client->options.url, error);
    if (status) {
        return status;
    }
    client->is_partitioned = rqli_url_is_partitioned(&client->url);
    return make_eras(client, error);
}

/* Makes a client. After a failure, the parts made by then are freed; a zeroed member was not
 * made. */
rql_status rqli_client_make(rql_client **out, const rql_options *options, rql_error *error)
{
    RQLI_AUTO(rqli_client_free) rql_client *client = NULL;
    rql_status status;

    client = calloc(1, sizeof *client);
    if (!client) {
        return rqli_fail_nomem(error);
    }
    rqli_resolver_init(&client->resolver);
    status = take_options(client, options, error);
    if (!status) {
        status = make_parts(client, error);
    }
    if (status) {
        return status;
    }
    *out = RQLI_GIVE(client);
    return RQL_OK;
}

/* Returns a connection to this node that is up, or NULL; none is made for this. */
static struct rqli_conn *find_conn(struct rqli_node *node)
{
    struct rqli_conn *conn = rqli_conns_find_up(&node->conns);
    bool is_background_up = !conn && node->background && rqli_conn_is_up(node->background);

    return is_background_up ? node->background : conn;
}

/* Takes the client off the list of clients, if that costs no wait: the answer is not awaited, and
 * without a connection the entry stays until it is old. The entry also stays if the client leaves
 * locks behind, because a person who looks at the locks wants to know whose they are. A client that
 * was never complete is on no list. */
static void leave_list(rql_client *client)
{
    struct rqli_batch *batch = NULL;
    struct rqli_conn *conn = NULL;

    if (client->is_member && rqli_client_name_is_said(&client->name) && !client->has_left_locks) {
        conn = find_conn(rqli_client_node(client, &client->name.keys));
    }
    batch = conn ? rqli_batch_take(conn) : NULL;
    if (batch) {
        rqli_client_name_write_end(&client->name, &batch->command);
        (void)!rqli_batch_send(batch, 0, NULL);
        rqli_batch_give(batch);
    }
}

/* Frees a client. The leases come first, after the master watch alone, because their thread uses
 * all the rest and gives back handles. Before that the client leaves the members of fork, because
 * abandon() must not meet freed parts. */
rql_client *rqli_client_free(rql_client *client)
{
    /* In a fork child, threads that no longer exist may have been changing the client: it stays. */
    if (!client || (client->is_member && rqli_fork_is_foreign(&client->fork))) {
        return NULL;
    }
    if (client->is_member) {
        rqli_fork_leave(&client->fork);
    }
    client->master_watch = rqli_master_watch_free(client->master_watch);
    if (client->is_member && client->history) {
        rqli_history_others_hurry(client->history_others);
        rqli_history_hurry(client->history);
    }
    if (client->background) {
        rqli_background_stop(client->background);
        client->leases = rqli_leases_free(client->leases);
        client->background = rqli_background_free(client->background);
        client->history_others = rqli_history_others_free(client->history_others);
        client->history = rqli_history_free(client->history);
        free(client->lost_writes);
    }
    leave_list(client);
    client->cluster = rqli_cluster_free(client->cluster);
    rqli_fleet_fini(&client->fleet);
    client->sentinels = rqli_sentinels_free(client->sentinels);
    rqli_stats_free(client->stats);
    rqli_hosts_free(client->hosts);
    rqli_freelist_fini(&client->handles);
    rqli_freelist_fini(&client->transfers);
    rqli_resolver_fini(&client->resolver);
    rqli_site_fini(&client->fleet.first.site);
    rqli_url_fini(&client->url);
    client->texts = rqli_secret_free(client->texts);
    free(client->eras);
    free(client);
    return NULL;
}
