#include "counts.h"

#include "exit.h"
#include "format.h"
#include "names.h"
#include "signals.h"

#include <pthread.h>
#include <stdatomic.h>
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

/* ---- the holders of shared locks ---- */

/* The holders of a lock take two round trips. So several threads ask, and the client sends their
 * calls together. */
enum { READERS = 32 };

struct readers {
    struct cli_reading *reading;
    rql_client *client;
    atomic_size_t next; /* the index of the lock that is read next */
};

struct reader {
    struct readers *all;
    pthread_t thread;
    rql_status status;
    rql_error error;
};

static bool has_sharers(const rql_lock_info *info)
{
    return info->status == RQL_KEY_ALIVE && cli_is_of_several(info);
}

/* Reads the holders of one lock after the other, up to the first fault. Another program's lock may
 * have a name that the library does not take. */
static void *run_reader(void *data)
{
    struct reader *self = data;
    struct readers *all = self->all;
    const rql_lock_info_list *locks = all->reading->locks;

    while (self->status == RQL_OK) {
        const size_t i = atomic_fetch_add(&all->next, 1);

        if (i >= locks->count) {
            return NULL;
        }
        if (has_sharers(locks->item[i])) {
            self->status = rql_lock_holders(all->client, locks->item[i]->name,
                                            &all->reading->holders[i], &self->error);
            self->status = self->status == RQL_E_INVALID ? RQL_OK : self->status;
        }
    }
    atomic_store(&all->next, locks->count); /* the others end, too */
    return NULL;
}

/* Runs so many readers, this thread as the first. If the system refuses a thread, the others read
 * its locks. */
static rql_status run_readers(struct readers *all, size_t count, rql_error *error)
{
    struct reader readers[READERS] = {{.all = all}};
    rql_status status = RQL_OK;
    size_t n_running = 1;

    while (n_running < count) {
        readers[n_running].all = all;
        if (!cli_start_thread(&readers[n_running].thread, run_reader, &readers[n_running])) {
            break;
        }
        n_running++;
    }
    (void)run_reader(&readers[0]);
    for (size_t i = 0; i < n_running; i++) {
        if (i > 0) {
            (void)pthread_join(readers[i].thread, NULL);
        }
        if (status == RQL_OK && readers[i].status != RQL_OK) {
            status = readers[i].status;
            *error = readers[i].error;
        }
    }
    return status;
}

static rql_status read_holders(struct cli_reading *self, rql_client *client, rql_error *error)
{
    struct readers all = {.reading = self, .client = client};
    size_t n_shared = 0;

    self->holders = cli_must(calloc(self->locks->count + 1, sizeof(void *)));
    for (size_t i = 0; i < self->locks->count; i++) {
        n_shared += has_sharers(self->locks->item[i]);
    }
    return n_shared > 0 ? run_readers(&all, n_shared < READERS ? n_shared : READERS, error)
                        : RQL_OK;
}

/* ---- a reading ---- */

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
