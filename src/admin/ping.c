#include "admin/info.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/result.h"
#include "lock/client.h"
#include "net/conn/conn_threads.h"
#include "net/login/sentinels.h"

#include <rql/client.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The server's replies about itself, for rql_client_ping(). All questions go out at once, and an
 * error as an answer fails nothing: a user may lack rights, and a server may have renamed commands.
 */

enum { PINGS = 5 };

/* The questions, in the order in which they are sent. From CLIENT_INFO on it only matters
 * whether the user may send them. */
enum question {
    SERVER,
    REPLICATION,
    MIN_REPLICAS,
    HELLO,
    CLIENT_INFO,
    CLIENT_KILL,
    CLIENT_TRACKING,
    CLIENT_CACHING,
    MEMORY_USAGE,
    QUESTIONS
};

/* The server checks rights before arguments: a command that is allowed, but has an argument
 * without meaning, gets an error of another kind and does nothing. No client has the id 0. */
static void write_questions(struct rqli_command *command)
{
    rqli_command_words(command, "INFO", "server", NULL);
    rqli_command_words(command, "INFO", "replication", NULL);
    rqli_command_words(command, "CONFIG", "GET", "min-replicas-*", NULL);
    rqli_command_words(command, "HELLO", NULL);
    rqli_command_words(command, "CLIENT", "INFO", NULL);
    rqli_command_words(command, "CLIENT", "KILL", "ID", "0", NULL);
    rqli_command_words(command, "CLIENT", "TRACKING", "-", NULL);
    rqli_command_words(command, "CLIENT", "CACHING", "-", NULL);
    rqli_command_words(command, "MEMORY", "USAGE", RQLI_KEY_LIVE, NULL);
}

static void take_refused(rql_server_info *info, const struct rqli_reply *replies)
{
    static const char *const names[QUESTIONS] = {
        [SERVER] = "INFO",
        [CLIENT_INFO] = "CLIENT INFO",
        [CLIENT_KILL] = "CLIENT KILL",
        [CLIENT_TRACKING] = "CLIENT TRACKING",
        [CLIENT_CACHING] = "CLIENT CACHING",
        [MEMORY_USAGE] = "MEMORY USAGE",
    };

    for (size_t i = 0; i < QUESTIONS; i++) {
        if (names[i] && rqli_reply_is_refused(&replies[i])) {
            info->refused[info->n_refused++] = names[i];
        }
    }
}

/* Valkey also reports the version of Redis that it is compatible with. */
static void take_server(rql_server_info *info, const struct rqli_reply *reply)
{
    if (reply->type != RQLI_REPLY_TEXT) {
        return;
    }
    rqli_reply_copy_between(info->version, sizeof info->version, reply, "\nvalkey_version:", "\r");
    (void)snprintf(info->product, sizeof info->product, "%s", *info->version ? "valkey" : "redis");
    if (!*info->version) {
        rqli_reply_copy_between(info->version, sizeof info->version, reply,
                                "\nredis_version:", "\r");
    }
}

/* The server shows the number of good replicas only while it requires at least one. */
static void take_replication(rql_server_info *info, const struct rqli_reply *reply)
{
    if (reply->type != RQLI_REPLY_TEXT) {
        return;
    }
    rqli_reply_copy_between(info->role, sizeof info->role, reply, "\nrole:", "\r");
    info->replicas = rqli_info_number(reply, "\nconnected_slaves:");
    if (rqli_info_number(reply, "\nmin_slaves_good_slaves:") < 0) {
        info->min_replicas_to_write = 0;
    }
}

static void copy_field(char out[RQL_SERVER_WORD_SIZE], const struct rqli_reply *hello,
                       const char *name)
{
    const struct rqli_reply *field = rqli_reply_field(hello, name, RQLI_REPLY_TEXT);

    if (field && !*out) {
        (void)snprintf(out, RQL_SERVER_WORD_SIZE, "%s", field->text.data);
    }
}

/* Fills in what INFO did not tell, because every user that may log in may send HELLO. */
static void take_hello(rql_server_info *info, const struct rqli_reply *reply)
{
    if (reply->type == RQLI_REPLY_ARRAY && reply->count % 2 == 0) {
        copy_field(info->product, reply, "server");
        copy_field(info->version, reply, "version");
        copy_field(info->role, reply, "role");
    }
    if (strcmp(info->role, "slave") == 0) {
        (void)snprintf(info->role, sizeof info->role, "replica");
    }
}

/* CONFIG GET answers with names and texts. The requirement is off if either of the two numbers
 * is 0. */
static void take_min_replicas(rql_server_info *info, const struct rqli_reply *reply)
{
    const struct rqli_reply *least;
    const struct rqli_reply *lag;

    if (reply->type != RQLI_REPLY_ARRAY || reply->count % 2 != 0) {
        return;
    }
    least = rqli_reply_field(reply, "min-replicas-to-write", RQLI_REPLY_TEXT);
    lag = rqli_reply_field(reply, "min-replicas-max-lag", RQLI_REPLY_TEXT);
    if (!least || !lag || !rqli_parse_int(least->text, &info->min_replicas_to_write) ||
        !rqli_parse_int(lag->text, &info->min_replicas_max_lag_s)) {
        return;
    }
    if (info->min_replicas_max_lag_s == 0) {
        info->min_replicas_to_write = 0;
    }
}

static rql_status ask_all(rql_client *client, struct rqli_node *node, rql_server_info *info,
                          rql_error *error)
{
    RQLI_AUTO(rqli_batch_give)
    struct rqli_batch *batch = rqli_batch_take(rqli_conns_choose(&node->conns));
    rql_status status;

    if (!batch) {
        return rqli_fail_nomem(error);
    }
    write_questions(&batch->command);
    status = rqli_conn_run(batch, rqli_client_until_us(client, rqli_now_us()), error);
    if (status) {
        return status;
    }
    take_server(info, &batch->reply[SERVER]);
    take_replication(info, &batch->reply[REPLICATION]);
    take_min_replicas(info, &batch->reply[MIN_REPLICAS]);
    take_hello(info, &batch->reply[HELLO]);
    take_refused(info, batch->reply);
    return RQL_OK;
}

static int compare_times(const void *a, const void *b)
{
    const int64_t *left = a;
    const int64_t *right = b;

    return (*left > *right) - (*left < *right);
}

static rql_status measure(rql_client *client, struct rqli_node *node, rql_server_info *info,
                          rql_error *error)
{
    int64_t took_us[PINGS];

    for (size_t i = 0; i < PINGS; i++) {
        RQLI_AUTO(rqli_batch_give)
        struct rqli_batch *batch = rqli_batch_take(rqli_conns_choose(&node->conns));
        rql_status status;

        if (!batch) {
            return rqli_fail_nomem(error);
        }
        rqli_command_words(&batch->command, "PING", NULL);
        status = rqli_conn_run(batch, rqli_client_until_us(client, rqli_now_us()), error);
        if (status) {
            return status;
        }
        took_us[i] = batch->received_us - batch->sent_us;
    }
    qsort(took_us, PINGS, sizeof *took_us, compare_times);
    info->round_trip_us = took_us[PINGS / 2];
    return RQL_OK;
}

/* Runs after the questions, because with sentinels the address is known only then; it stays empty
 * until a sentinel has named the master. All nodes of a cluster have the URL of the whole
 * cluster. */
static void name_node(const rql_client *client, const struct rqli_node *node, rql_server_info *info)
{
    const struct rqli_site *site = &node->site;
    struct rqli_address address = site->address;
    char text[RQLI_ADDRESS_TEXT_SIZE];

    if (site->master) {
        address = rqli_master_at(site->master);
        (void)snprintf(info->master, sizeof info->master, "%s", site->master->name);
    }
    (void)snprintf(info->url, sizeof info->url, "%s",
                   client->fleet.map_reader ? client->url.where : site->where);
    if (site->path || address.host[0] != '\0') {
        (void)snprintf(info->node, sizeof info->node, "%s",
                       site->path ? site->path : rqli_address_print(&address, text));
    }
}

/* Reports the newest connection, which may belong to another thread: all lead to the same place.
 * With several servers it may lead to another server, whose certificate has the same owner. */
static void take_tls(const struct rqli_node *node, rql_server_info *info)
{
    struct rqli_tls_peer peer;

    info->is_tls = node->site.tls != NULL;
    info->tls_expires_us = -1;
    if (info->is_tls) {
        peer = rqli_tls_context_peer(node->site.tls);
        memcpy(info->tls_subject, peer.subject, sizeof peer.subject);
        info->tls_expires_us = peer.expires_us;
    }
}

static int64_t count_partitions(const rql_client *client, const struct rqli_node *node)
{
    int64_t count = 0;

    for (unsigned p = 0; p < RQLI_PARTITIONS; p++) {
        count += rqli_fleet_node(&client->fleet, &rqli_key_sets[p]) == node;
    }
    return client->is_partitioned ? count : -1;
}

/* Works like rql_client_stats_sized(): a program that was compiled with another version gets the
 * members that both versions know. */
rql_status rql_client_ping_node_sized(rql_client *client, size_t n, rql_server_info *out,
                                      size_t size, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_server_info info = {
        .round_trip_us = -1,
        .replicas = -1,
        .min_replicas_to_write = -1,
        .min_replicas_max_lag_s = -1,
    };
    struct rqli_node *node;
    rql_status status = rqli_client_check_process(client, error);

    if (status) {
        return status;
    }
    if (!out || size < sizeof out->size) {
        return rqli_fail(error, RQL_E_INVALID, "rql_client_ping: out is NULL, or too small");
    }
    status = rqli_client_find_node(client, n, &node, error);
    if (status) {
        return status;
    }
    status = ask_all(client, node, &info, error);
    if (!status) {
        status = measure(client, node, &info, error);
    }
    /* These are known of a server that does not answer, too. */
    take_tls(node, &info);
    info.is_by_sentinels = client->sentinels != NULL;
    info.partitions = count_partitions(client, node);
    name_node(client, node, &info);
    rqli_result_fill(out, size, &info, sizeof info);
    return status;
}

/* There is always a first node, if only by a guess. */
rql_status rql_client_ping_sized(rql_client *client, rql_server_info *out, size_t size,
                                 rql_error *error)
{
    return rql_client_ping_node_sized(client, 0, out, size, error);
}
