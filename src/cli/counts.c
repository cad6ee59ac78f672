#include "counts.h"

#include "exit.h"
#include "format.h"
#include "names.h"

#include <stdlib.h>
#include <string.h>

bool cli_is_damaged(rql_key_status status)
{
    return status == RQL_KEY_WRONG_TYPE || status == RQL_KEY_MALFORMED;
}

int64_t cli_count_dead(const rql_host_info_list *hosts)
{
    int64_t n_dead = 0;

    for (size_t i = 0; i < hosts->count; i++) {
        n_dead += hosts->item[i]->is_zombie;
    }
    return n_dead;
}

/* Returns whether the lock or queue is on this node; NULL stands for any. */
static bool is_on(const char *node, const char *where)
{
    return !node || strcmp(node, where) == 0;
}

/* Notes a host. NULL: there is none, or it is not known. */
static void add_host(struct cli_counts *counts, const char **hosts, const char *host)
{
    if (host) {
        hosts[counts->hosts++] = host;
    }
}

/* Counts each host once, even if it holds or waits more than once: all are noted and sorted, and
 * counted where one differs from the one before. */
static void count_hosts(struct cli_counts *counts, const char **hosts)
{
    int64_t distinct = 0;

    qsort(hosts, (size_t)counts->hosts, sizeof *hosts, cli_compare_texts);
    for (int64_t i = 0; i < counts->hosts; i++) {
        distinct += i == 0 || strcmp(hosts[i], hosts[i - 1]) != 0;
    }
    counts->hosts = distinct;
}

/* `holders` are those of a lock of several. */
static void count_lock(struct cli_counts *counts, const char **hosts, const rql_lock_info *info,
                       const rql_holder_list *holders)
{
    const bool is_alive = info->status == RQL_KEY_ALIVE;

    counts->locks += is_alive;
    counts->damaged += cli_is_damaged(info->status);
    for (size_t i = 0; holders && i < holders->count; i++) {
        add_host(counts, hosts, holders->item[i]->host_id);
    }
    /* The host of a lock that cannot be read may be anything, and a kept lock has none. */
    if (is_alive && !info->is_kept && !cli_is_of_several(info)) {
        add_host(counts, hosts, info->host_id);
    }
}

static void count_queue(struct cli_counts *counts, const char **hosts, const rql_queue_info *info)
{
    counts->queues += info->status == RQL_KEY_ALIVE;
    counts->damaged += cli_is_damaged(info->status);
    counts->requests += (int64_t)info->n_requests;
    for (size_t i = 0; i < info->n_requests; i++) {
        add_host(counts, hosts, info->requests[i]->host_id);
    }
}

/* Asks for the holders of each lock that several share. Another program's lock may have a name that
 * the library does not take. */
static rql_status read_holders(struct cli_reading *self, rql_client *client, rql_error *error)
{
    rql_status status = RQL_OK;

    self->holders = cli_must(calloc(self->locks->count + 1, sizeof(void *)));
    for (size_t i = 0; status == RQL_OK && i < self->locks->count; i++) {
        const rql_lock_info *info = self->locks->item[i];

        if (info->status == RQL_KEY_ALIVE && cli_is_of_several(info)) {
            status = rql_lock_holders(client, info->name, &self->holders[i], error);
            status = status == RQL_E_INVALID ? RQL_OK : status;
        }
    }
    return status;
}

rql_status cli_reading_read(struct cli_reading *self, rql_client *client, rql_error *error)
{
    rql_status status = rql_locks_inspect(client, &self->locks, error);

    status = status ? status : rql_queues_inspect(client, &self->queues, error);
    return status ? status : read_holders(self, client, error);
}

void cli_reading_free_p(struct cli_reading *self)
{
    for (size_t i = 0; self->holders && i < self->locks->count; i++) {
        (void)rql_free(self->holders[i]);
    }
    free(self->holders);
    (void)rql_free(self->locks);
    (void)rql_free(self->queues);
}

struct cli_counts cli_count(const struct cli_reading *reading, const char *node)
{
    const rql_lock_info_list *locks = reading->locks;
    const rql_queue_info_list *queues = reading->queues;
    struct cli_counts counts = {.locks = 0};
    size_t most = locks->count;
    const char **hosts;

    for (size_t i = 0; i < locks->count; i++) {
        most += reading->holders[i] ? reading->holders[i]->count : 0;
    }
    for (size_t i = 0; i < queues->count; i++) {
        most += queues->item[i]->n_requests;
    }
    /* One more than needed, because calloc() of 0 elements may return NULL. */
    hosts = cli_must(calloc(most + 1, sizeof *hosts));
    for (size_t i = 0; i < locks->count; i++) {
        if (is_on(node, locks->item[i]->node)) {
            count_lock(&counts, hosts, locks->item[i], reading->holders[i]);
        }
    }
    for (size_t i = 0; i < queues->count; i++) {
        if (is_on(node, queues->item[i]->node)) {
            count_queue(&counts, hosts, queues->item[i]);
        }
    }
    count_hosts(&counts, hosts);
    free(hosts);
    return counts;
}
