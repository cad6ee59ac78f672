#include "cmd.h"
#include "output.h"
#include "scope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct cli_flag flags[] = {
    CLI_JSON_FLAG,
    {.name = "openmetrics",
     .help = "print gauges in the OpenMetrics text format",
     .offset = CLI_FIELD(openmetrics),
     .kind = CLI_ON},
    {.name = NULL},
};

/* What a server shows of all clients together. */
struct fleet {
    int64_t locks;
    int64_t queues;
    int64_t requests;
    int64_t hosts;       /* that hold or wait; of the gem's waiters no host is known */
    int64_t swarm_hosts; /* that give signs of life, or did */
    int64_t zombies;     /* of these: the dead */
    int64_t damaged;
};

struct gauge {
    const char *name;
    const char *label;
    const char *help;
    size_t offset;
};

static const struct gauge gauges[] = {
    {"locks", "locks held", "Locks that are held.", offsetof(struct fleet, locks)},
    {"queues", "queues", "Queues that somebody waits in.", offsetof(struct fleet, queues)},
    {"requests", "requests waiting", "Requests that wait.", offsetof(struct fleet, requests)},
    {"hosts", "hosts", "Hosts that hold or wait.", offsetof(struct fleet, hosts)},
    {"swarm_hosts", "hosts of the swarm", "Hosts of the swarm.",
     offsetof(struct fleet, swarm_hosts)},
    {"zombie_hosts", "of them dead", "Hosts of the swarm that are dead.",
     offsetof(struct fleet, zombies)},
    {"damaged_keys", "damaged keys", "Keys under the prefixes that are no locks or queues.",
     offsetof(struct fleet, damaged)},
};

enum { N_GAUGES = sizeof gauges / sizeof gauges[0] };

static int64_t value_of(const struct fleet *fleet, size_t index)
{
    int64_t value;

    memcpy(&value, (const char *)fleet + gauges[index].offset, sizeof value);
    return value;
}

static bool is_damaged(rql_key_status status)
{
    return status == RQL_KEY_WRONG_TYPE || status == RQL_KEY_MALFORMED;
}

static void count_locks(struct fleet *fleet, const rql_lock_info_list *locks, const char **hosts)
{
    for (size_t i = 0; i < locks->count; i++) {
        const rql_lock_info *info = locks->item[i];

        fleet->locks += info->status == RQL_KEY_ALIVE;
        fleet->damaged += is_damaged(info->status);
        if (info->status == RQL_KEY_ALIVE && info->hst_id) {
            hosts[fleet->hosts++] = info->hst_id;
        }
    }
}

static void count_requests(struct fleet *fleet, const rql_queue_info *queue, const char **hosts)
{
    fleet->requests += (int64_t)queue->n_requests;
    for (size_t i = 0; i < queue->n_requests; i++) {
        if (queue->requests[i].hst_id) {
            hosts[fleet->hosts++] = queue->requests[i].hst_id;
        }
    }
}

static void count_queues(struct fleet *fleet, const rql_queue_info_list *queues, const char **hosts)
{
    for (size_t i = 0; i < queues->count; i++) {
        const rql_queue_info *info = queues->item[i];

        fleet->queues += info->status == RQL_KEY_ALIVE;
        fleet->damaged += is_damaged(info->status);
        count_requests(fleet, info, hosts);
    }
}

static int by_text(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static int64_t count_distinct(const char **texts, size_t count)
{
    int64_t distinct = 0;

    qsort(texts, count, sizeof texts[0], by_text);
    for (size_t i = 0; i < count; i++) {
        distinct += i == 0 || strcmp(texts[i], texts[i - 1]) != 0;
    }
    return distinct;
}

static struct fleet count_all(const rql_lock_info_list *locks, const rql_queue_info_list *queues)
{
    struct fleet fleet = {.locks = 0};
    size_t most = locks->count;
    const char **hosts;

    for (size_t i = 0; i < queues->count; i++) {
        most += queues->item[i]->n_requests;
    }
    hosts = cli_must(calloc(most + 1, sizeof *hosts));
    count_locks(&fleet, locks, hosts);
    count_queues(&fleet, queues, hosts);
    fleet.hosts = count_distinct(hosts, (size_t)fleet.hosts);
    free(hosts);
    return fleet;
}

static void count_swarm(struct fleet *fleet, const rql_host_info_list *hosts)
{
    fleet->swarm_hosts = (int64_t)hosts->count;
    for (size_t i = 0; i < hosts->count; i++) {
        fleet->zombies += hosts->item[i].is_zombie;
    }
}

static void print_text(const struct fleet *fleet)
{
    CLI_AUTO_TABLE struct cli_table table = {.n_columns = 2};

    for (size_t i = 0; i < N_GAUGES; i++) {
        cli_table_add(&table, gauges[i].label);
        cli_table_add_int(&table, value_of(fleet, i));
    }
    cli_table_print(&table, false);
}

static void print_json(const struct fleet *fleet)
{
    cJSON *object = cli_json_object();

    for (size_t i = 0; i < N_GAUGES; i++) {
        cli_json_add_int(object, gauges[i].name, value_of(fleet, i));
    }
    cli_json_print(object);
}

static void print_openmetrics(const struct fleet *fleet)
{
    for (size_t i = 0; i < N_GAUGES; i++) {
        const char *name = gauges[i].name;

        (void)printf("# TYPE rql_%s gauge\n# HELP rql_%s %s\nrql_%s %lld\n", name, name,
                     gauges[i].help, name, (long long)value_of(fleet, i));
    }
    (void)puts("# EOF");
}

static int show(const struct cli_args *args, rql_client *client)
{
    CLI_AUTO(rql_lock_info_list_free) rql_lock_info_list *locks = NULL;
    CLI_AUTO(rql_queue_info_list_free) rql_queue_info_list *queues = NULL;
    CLI_AUTO(rql_host_info_list_free) rql_host_info_list *hosts = NULL;
    rql_error error = {.status = RQL_OK};
    struct fleet fleet;

    if (rql_list_locks_info(client, &locks, &error) != RQL_OK ||
        rql_list_queues_info(client, &queues, &error) != RQL_OK ||
        rql_swarm_info(client, args->options.zombie_ttl_ms, &hosts, &error) != RQL_OK) {
        return cli_fault(&error);
    }
    fleet = count_all(locks, queues);
    count_swarm(&fleet, hosts);
    if (args->openmetrics) {
        print_openmetrics(&fleet);
    } else if (args->json) {
        print_json(&fleet);
    } else {
        print_text(&fleet);
    }
    return CLI_DONE;
}

static int prepare(struct cli_args *args)
{
    if (args->json && args->openmetrics) {
        cli_say("stats: one of --json and --openmetrics is enough; see rql stats --help");
        return CLI_USAGE;
    }
    return CLI_DONE;
}

const struct cli_command cli_stats = {
    .name = "stats",
    .usage = "[--json | --openmetrics]",
    .summary = "Count locks, queues, waiting requests and hosts",
    .notes = "What the server shows of all programs together. What one program has done, it tells\n"
             "itself: rql_client_stats() of the library.\n",
    .flags = flags,
    .prepare = prepare,
    .run = show,
};
