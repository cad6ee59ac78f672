#include "cmd.h"
#include "format.h"
#include "messages.h"
#include "release.h"

#include <stdlib.h>
#include <string.h>

/* What a server shows of all clients together. */
struct fleet {
    int64_t locks;
    int64_t queues;
    int64_t requests;
    int64_t hosts;       /* that hold or wait; of the gem's waiters no host is known */
    int64_t swarm_hosts; /* that send heartbeats, or did */
    int64_t zombies;     /* of these: the dead */
    int64_t damaged;
};

static bool is_damaged(rql_key_status status)
{
    return status == RQL_KEY_WRONG_TYPE || status == RQL_KEY_MALFORMED;
}

/* NULL: there is none, or it is not known. */
static void add_host(struct fleet *fleet, const char **hosts, const char *host)
{
    if (host) {
        hosts[fleet->hosts++] = host;
    }
}

static void count_locks(struct fleet *fleet, const rql_lock_info_list *locks, const char **hosts)
{
    for (size_t i = 0; i < locks->count; i++) {
        const rql_lock_info *info = locks->item[i];

        fleet->locks += info->status == RQL_KEY_ALIVE;
        fleet->damaged += is_damaged(info->status);
        add_host(fleet, hosts, info->status == RQL_KEY_ALIVE ? info->hst_id : NULL);
    }
}

static void count_queues(struct fleet *fleet, const rql_queue_info_list *queues, const char **hosts)
{
    for (size_t i = 0; i < queues->count; i++) {
        const rql_queue_info *info = queues->item[i];

        fleet->queues += info->status == RQL_KEY_ALIVE;
        fleet->damaged += is_damaged(info->status);
        fleet->requests += (int64_t)info->n_requests;
        for (size_t j = 0; j < info->n_requests; j++) {
            add_host(fleet, hosts, info->requests[j].hst_id);
        }
    }
}

/* A host that holds or waits more than once counts once. */
static struct fleet count_all(const rql_lock_info_list *locks, const rql_queue_info_list *queues,
                              const rql_host_info_list *swarm)
{
    struct fleet fleet = {.swarm_hosts = (int64_t)swarm->count};
    size_t most = locks->count;
    const char **hosts;
    int64_t distinct = 0;

    for (size_t i = 0; i < queues->count; i++) {
        most += queues->item[i]->n_requests;
    }
    hosts = cli_must(calloc(most + 1, sizeof *hosts));
    count_locks(&fleet, locks, hosts);
    count_queues(&fleet, queues, hosts);
    qsort(hosts, (size_t)fleet.hosts, sizeof *hosts, cli_compare_texts);
    for (int64_t i = 0; i < fleet.hosts; i++) {
        distinct += i == 0 || strcmp(hosts[i], hosts[i - 1]) != 0;
    }
    fleet.hosts = distinct;
    free(hosts);
    for (size_t i = 0; i < swarm->count; i++) {
        fleet.zombies += swarm->item[i].is_zombie;
    }
    return fleet;
}

static int show(struct cli_session *self)
{
    CLI_AUTO(rql_lock_info_list_free) rql_lock_info_list *locks = NULL;
    CLI_AUTO(rql_queue_info_list_free) rql_queue_info_list *queues = NULL;
    CLI_AUTO(rql_host_info_list_free) rql_host_info_list *hosts = NULL;
    struct out *out = &self->out;
    struct fleet fleet;

    if (rql_list_locks_info(self->client, &locks, &self->error) != RQL_OK ||
        rql_list_queues_info(self->client, &queues, &self->error) != RQL_OK ||
        rql_swarm_info(self->client, self->args->options.zombie_ttl_ms, &hosts, &self->error) !=
            RQL_OK) {
        return cli_fault(&self->error);
    }
    fleet = count_all(locks, queues, hosts);
    out_begin(out, NULL);
    out_gauge(out, "locks held", "locks", "Locks that are held.", fleet.locks);
    out_gauge(out, "queues", "queues", "Queues that somebody waits in.", fleet.queues);
    out_gauge(out, "requests waiting", "requests", "Requests that wait.", fleet.requests);
    out_gauge(out, "hosts", "hosts", "Hosts that hold or wait.", fleet.hosts);
    out_gauge(out, "hosts of the swarm", "swarm_hosts", "Hosts of the swarm.", fleet.swarm_hosts);
    out_gauge(out, "of them dead", "zombie_hosts", "Hosts of the swarm that are dead.",
              fleet.zombies);
    out_gauge(out, "damaged keys", "damaged_keys",
              "Keys under the prefixes that are no locks or queues.", fleet.damaged);
    out_end(out);
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
    .prepare = prepare,
    .run = show,
};
