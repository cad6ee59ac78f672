#include "cmd.h"
#include "format.h"
#include "messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ping: shows where the server is, its properties, and problems with it. */

enum { LINE_SIZE = 512, PARTITIONS = 128, ENDS_SOON_S = 14 * 86400, DAY_S = 86400, TTL_PARTS = 20 };

static const char *or_null(const char *text)
{
    return *text != '\0' ? text : NULL;
}

/* Prints the refused commands: a list in JSON, a line in the table. */
static void print_refused(struct out *out, const rql_server_info *info)
{
    char line[LINE_SIZE] = "nothing";
    size_t length = 0;
    const char *items[RQL_SERVER_REFUSED_MAX];
    const rql_text_list list = {.count = info->n_refused, .item = items};

    for (size_t i = 0; i < info->n_refused; i++) {
        items[i] = info->refused[i];
        length += (size_t)snprintf(line + length, sizeof line - length, "%s%s", i > 0 ? ", " : "",
                                   info->refused[i]);
    }
    out_text(out, "REFUSED", NULL, line);
    out_list(out, "refused", &list);
}

/* Prints TLS and the certificate. An expired certificate is accepted if nothing is verified. */
static void print_tls(struct out *out, const rql_server_info *info)
{
    const int64_t left_s = info->tls_expires_us / 1000000 - (int64_t)time(NULL);
    char left[CLI_DURATION_SIZE];
    char line[LINE_SIZE];

    out_text(out, "TLS", NULL, info->is_tls ? "yes" : "no");
    out_bool(out, "tls", info->is_tls);
    if (info->tls_expires_us >= 0) {
        (void)snprintf(line, sizeof line, "%s, %s%s", info->tls_subject,
                       left_s > 0 ? "ends in " : "has ended",
                       left_s > 0 ? cli_format_duration(left_s * 1000, left) : "");
        out_text(out, "CERTIFICATE", NULL, line);
    }
    out_text(out, NULL, "tls_subject", or_null(info->tls_subject));
    out_number(out, NULL, "tls_expires_us", OUT_COUNT, info->tls_expires_us);
}

void cli_print_server(struct out *out, const char *key, const rql_server_info *info)
{
    char round_trip[LINE_SIZE];

    (void)snprintf(round_trip, sizeof round_trip, "%.3fms", (double)info->round_trip_us / 1000);
    out_begin(out, key);
    out_text(out, "URL", "url", or_null(info->url));
    out_text(out, *info->master ? "MASTER" : NULL, "master", or_null(info->master));
    out_text(out, "NODE", "node", or_null(info->node));
    out_text(out, "ROLE", "role", or_null(info->role));
    out_text(out, "SERVER", "product", or_null(info->product));
    out_text(out, "VERSION", "version", or_null(info->version));
    print_tls(out, info);
    out_bool(out, "sentinels", info->is_by_sentinels);
    out_text(out, "ROUND TRIP", NULL, round_trip);
    out_number(out, NULL, "round_trip_us", OUT_COUNT, info->round_trip_us);
    out_number(out, info->replicas >= 0 ? "REPLICAS" : NULL, "replicas", OUT_COUNT, info->replicas);
    out_number(out, info->min_replicas_to_write >= 0 ? "MIN REPLICAS" : NULL,
               "min_replicas_to_write", OUT_COUNT, info->min_replicas_to_write);
    out_number(out, NULL, "min_replicas_max_lag_s", OUT_COUNT, info->min_replicas_max_lag_s);
    out_number(out, info->partitions >= 0 ? "PARTITIONS" : NULL, "partitions", OUT_COUNT,
               info->partitions);
    print_refused(out, info);
    out_end(out);
}

/* Warns of a server that allows locks, but not in the expected way, or not for long. */
static void say_warnings(const rql_server_info *info)
{
    const int64_t left_s = info->tls_expires_us / 1000000 - (int64_t)time(NULL);

    if (info->is_tls && left_s > 0 && left_s < ENDS_SOON_S) {
        cli_say("%s: the certificate ends in %lld days; after that no client can connect",
                info->node, (long long)left_s / DAY_S);
    }
    if (strcmp(info->role, "replica") == 0) {
        cli_say("%s: a replica: locks can be looked at there, not taken", info->node);
    }
    if (info->is_by_sentinels && info->min_replicas_to_write == 0) {
        cli_say("%s: an old master may go on granting after a failover: set "
                "min-replicas-to-write and min-replicas-max-lag",
                info->node);
    }
}

static bool is_one_of_several(const rql_server_info *info)
{
    return info->partitions >= 0 && info->partitions < PARTITIONS;
}

/* Says how long another connection takes, including the lookup of the server's name: a lost
 * connection has to be replaced before a lease ends. */
static void say_slow_connection(const struct cli_session *self)
{
    const rql_options *options = &self->args->options;
    CLI_AUTO(rql_client_free) rql_client *client = NULL;
    const int64_t begun_us = cli_now_us();
    int64_t took_us;

    if (rql_client_new(options, &client, NULL) != RQL_OK ||
        rql_client_connect(client, NULL) != RQL_OK) {
        return;
    }
    took_us = cli_now_us() - begun_us;
    if (took_us > options->ttl_ms * 1000 / TTL_PARTS) {
        cli_say("a new connection takes %.2f ms, more than 1/%d of the TTL of locks; check the "
                "lookup of the server's name: getent ahosts HOST",
                (double)took_us / 1000, TTL_PARTS);
    }
}

/* Pings the servers. With several servers each is a row. A server that does not answer is reported,
 * and the others are still shown. */
static int ping(struct cli_session *self)
{
    static const char *const columns[] = {
        "MASTER", "NODE", "ROLE", "SERVER", "VERSION", "ROUND TRIP", "PARTITIONS", "REFUSED", NULL};
    rql_server_info info;
    rql_status status;
    bool has_list = false;
    int code = CLI_DONE;

    self->out.wraps = true;
    for (size_t n = 0;
         (status = rql_client_ping_node(self->client, n, &info, &self->error)) != RQL_NOT_FOUND;
         n++) {
        if (status) {
            code = cli_fault(&self->error);
            continue;
        }
        if (!has_list && is_one_of_several(&info)) {
            has_list = true;
            out_columns(&self->out, info.is_by_sentinels ? columns : columns + 1);
            out_begin_list(&self->out, NULL);
        }
        cli_print_server(&self->out, NULL, &info);
        say_warnings(&info);
    }
    say_slow_connection(self);
    if (has_list) {
        out_end(&self->out);
    }
    if (has_list && code != CLI_DONE) {
        out_print(&self->out);
    }
    return code;
}

const struct cli_command cli_ping = {
    .name = "ping",
    .usage = "[URL] [--json]",
    .summary = "Show the server, its distance and missing rights",
    .examples = "  rql ping rediss://locks.example.com\n",
    .notes = "A URL with a password belongs in RQL_URL. The missing rights are optional; locks "
             "work without them. Each of several servers, as in a cluster, has a row of its own; "
             "JSON is a list then.\n",
    .takes_url = true,
    .prepare = cli_take_url,
    .run = ping,
};
