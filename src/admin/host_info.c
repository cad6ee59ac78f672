#include "admin/host_info.h"

#include "admin/info.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/result.h"
#include "base/scope.h"
#include "base/text.h"
#include "wire/command.h"

#include <rql/inspect.h>
#include <stdio.h>
#include <string.h>

/*
 * Reads the swarm from the server's keys: its hosts, which of them are dead, what the dead hosts
 * hold, and which client flushes. Changes nothing.
 *
 * A host counts as dead here if it has been silent for longer than the caller's TTL. A flusher must
 * see that twice (lua/README.md 32), so not every host that is listed here as dead is flushed.
 *
 * With partitions, a host is in each partition in which it holds a lock or waits for one. It is
 * listed once, with its latest sign of life. It is a zombie if it is dead in any of them, and only
 * the locks that it holds there count as a zombie's.
 */

/* A year, as for the option of the same name. */
#define TTL_MAX_MS INT64_C(31536000000)

enum {
    HOSTS_PAGE = 500, /* COUNT of one HSCAN */
};

/* Reads the identity of the elected client. Without the key no client is elected, because an
 * election expires with its TTL. */
static rql_status read_flusher(const struct rqli_batch *batch, char out[RQL_ID_SIZE],
                               rql_error *error)
{
    const struct rqli_reply *reply = batch->reply;

    if (reply->type == RQLI_REPLY_NIL) {
        return rqli_fail(error, RQL_NOT_FOUND,
                         "no client is elected to remove dead hosts at the moment");
    }
    if (reply->type != RQLI_REPLY_TEXT) {
        return rqli_batch_fault(batch, reply, "GET", RQLI_KEY_FLUSHER, error);
    }
    (void)snprintf(out, RQL_ID_SIZE, "%s", reply->text.data);
    return RQL_OK;
}

rql_status rql_swarm_flusher(rql_client *client, char out[RQL_ID_SIZE], rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = NULL;
    rql_status status = rqli_client_check(client, error);
    struct rqli_keys keys;

    if (!status && !out) {
        status = rqli_fail(error, RQL_E_INVALID, "out is NULL");
    }
    if (status) {
        return status;
    }
    keys.set = rqli_client_nth_set(client, 0);
    status = rqli_query_about(client, &keys, &batch, error, "GET", keys.set->flusher.data, NULL);
    status = rqli_reader_status(status, rqli_client_node(client, &keys), error);
    return status ? status : read_flusher(batch, out, error);
}

/* Checks the arguments of each call that takes a TTL. */
static rql_status check(const rql_client *client, int64_t zombie_ttl_ms, const void *out,
                        rql_error *error)
{
    rql_status status = rqli_client_check(client, error);

    if (!status && !out) {
        status = rqli_fail(error, RQL_E_INVALID, "out is NULL");
    }
    if (!status && (zombie_ttl_ms < 1 || zombie_ttl_ms > TTL_MAX_MS)) {
        status =
            rqli_fail(error, RQL_E_INVALID, "zombie_ttl_ms is %lld; it must be 1 to 31536000000",
                      (long long)zombie_ttl_ms);
    }
    return status;
}

/* The hosts of all sets of keys. */
struct hosts {
    struct rqli_list all;  /* with their last heartbeats; -1: the host has no time */
    struct rqli_list dead; /* those hosts that are dead */
    struct rqli_list dead_in[RQLI_PARTITIONS]; /* the same, by the set of keys; each is sorted */
    int64_t server_us; /* the latest time at which a server was asked for its hosts */
};

static void hosts_fini_p(struct hosts *self)
{
    rqli_list_fini_p(&self->all);
    rqli_list_fini_p(&self->dead);
    for (size_t i = 0; i < RQLI_PARTITIONS; i++) {
        rqli_list_fini_p(&self->dead_in[i]);
    }
}

/* Says whether the last heartbeat is that long ago, by the server's clock when it sent the last
 * page. A host without a time is no zombie: an unreadable value is never a reason to call a host
 * dead. */
static bool is_dead(const struct rqli_walk *hosts, size_t i, int64_t zombie_ttl_ms)
{
    int64_t last_us = hosts->found.item[i].number;

    return last_us >= 0 && last_us < hosts->server_us - zombie_ttl_ms * 1000;
}

static void add_hosts(struct hosts *self, size_t set, const struct rqli_walk *found,
                      int64_t zombie_ttl_ms)
{
    self->server_us = found->server_us > self->server_us ? found->server_us : self->server_us;
    for (size_t i = 0; i < found->found.count; i++) {
        struct rqli_slice id = found->found.item[i].text;

        rqli_list_add(&self->all, id, found->found.item[i].number);
        if (is_dead(found, i, zombie_ttl_ms)) {
            rqli_list_add(&self->dead, id, 0);
            rqli_list_add(&self->dead_in[set], id, 0);
        }
    }
    self->all.failed |= self->dead_in[set].failed;
}

/* Reads the hosts of one set. The caller frees the lists, after a fault as well. */
static rql_status read_set(const struct rqli_reader *reader, size_t number, struct hosts *out,
                           int64_t zombie_ttl_ms)
{
    const struct rqli_key_set *set = rqli_client_nth_set(reader->client, number);
    RQLI_AUTO(rqli_walk_fini) struct rqli_walk walk = {0};
    struct rqli_reader of_set = *reader;
    rql_status status;

    of_set.set = set;
    rqli_walk_init(&walk, NULL, set->hosts.data);
    status = rqli_walk_read_all(&of_set, &walk, HOSTS_PAGE);
    if (!status) {
        add_hosts(out, number, &walk, zombie_ttl_ms);
    }
    return status;
}

/* Reads all hosts, sorted, each once. */
static rql_status read_hosts(rql_client *client, int64_t zombie_ttl_ms, struct hosts *out,
                             rql_error *error)
{
    const struct rqli_reader reader = {.client = client, .where = RQLI_KEY_HOSTS, .error = error};
    rql_status status = RQL_OK;

    for (size_t number = 0; !status && number < rqli_client_n_sets(client); number++) {
        status = read_set(&reader, number, out, zombie_ttl_ms);
    }
    rqli_list_sort(&out->all);
    rqli_list_sort(&out->dead);
    if (!status && (out->all.failed || out->dead.failed)) {
        status = rqli_fail_nomem(error);
    }
    return status;
}

/* Makes one allocation: the list, the pointers to its items, the items, then the ids. */
rql_status rql_swarm_hosts(rql_client *client, int64_t zombie_ttl_ms, rql_host_info_list **out,
                           rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(hosts_fini) struct hosts hosts = {.all = {0}};
    rql_status status = check(client, zombie_ttl_ms, out, error);
    const struct rqli_list *all = &hosts.all;
    rql_host_info_list *list;
    rql_host_info *item;
    char *cursor;

    status = status ? status : read_hosts(client, zombie_ttl_ms, &hosts, error);
    if (status) {
        return status;
    }
    list = rqli_result_new(sizeof *list + all->count * (sizeof(void *) + sizeof *item) +
                           rqli_list_size(all));
    if (!list) {
        return rqli_fail_nomem(error);
    }
    *list = (rql_host_info_list){
        .count = all->count, .item = (rql_host_info **)(list + 1), .server_us = hosts.server_us};
    item = (rql_host_info *)(list->item + all->count);
    cursor = (char *)(item + all->count);
    for (size_t i = 0; i < all->count; i++) {
        list->item[i] = &item[i];
        item[i] = (rql_host_info){
            .host_id = rqli_pack(&cursor, all->item[i].text),
            .is_zombie = rqli_list_has(&hosts.dead, all->item[i].text),
            .last_probe_us = all->item[i].number,
        };
    }
    *out = list;
    return RQL_OK;
}

/* Notes the acquirer of a holder if its host is dead where the lock is. Returns whether it is. */
static bool note_if_dead(const struct hosts *hosts, size_t set, const rql_holder_info *holder,
                         struct rqli_zombies *found)
{
    if (!holder->host_id || !rqli_list_has(&hosts->dead_in[set], rqli_slice_of(holder->host_id))) {
        return false;
    }
    rqli_list_add(&found->acquirers, rqli_slice_of(holder->acquirer_id ? holder->acquirer_id : ""),
                  0);
    return true;
}

/* Notes a lock of several if the host of a sharer is dead. A lock that has changed meanwhile may
 * have other holders; they are judged in the same way. */
static rql_status find_sharers(const struct rqli_reader *reader, const struct hosts *hosts,
                               const rql_lock_info *info, struct rqli_zombies *found)
{
    RQLI_AUTO(rql_free) rql_holder_list *list = NULL;
    const struct rqli_slice name = rqli_slice_of(info->name);
    const size_t set =
        rqli_client_number_of(reader->client, rqli_client_key_set(reader->client, info->name));
    rql_status status = rqli_read_holders(reader, rqli_slice_of(info->key), &list);
    bool is_dead = false;

    for (size_t i = 0; !status && i < list->count; i++) {
        is_dead |= note_if_dead(hosts, set, list->item[i], found);
    }
    if (is_dead) {
        rqli_list_add(&found->locks, name, 0);
    }
    return status;
}

/* Finds locks by the host that they name, as the flusher's rule does, if that host is dead where
 * the lock is. The hosts of sharers are those of a lock of several. An acquirer that holds several
 * locks is listed once; locks come in the order of their keys. */
static rql_status find_locks(rql_client *client, const struct hosts *hosts,
                             struct rqli_zombies *found, rql_error *error)
{
    const struct rqli_reader reader = {
        .client = client, .where = RQLI_KEY_LOCK "*", .error = error};
    RQLI_AUTO(rql_free) rql_lock_info_list *locks = NULL;
    rql_status status;

    if (hosts->dead.count == 0) {
        return RQL_OK;
    }
    status = rql_locks_inspect(client, &locks, error);
    for (size_t i = 0; !status && i < locks->count; i++) {
        const rql_lock_info *info = locks->item[i];
        const rql_holder_info owner = {.acquirer_id = info->acquirer_id, .host_id = info->host_id};
        size_t set = rqli_client_number_of(client, rqli_client_key_set(client, info->name));

        if (rqli_lock_info_is_of_several(info)) {
            status = find_sharers(&reader, hosts, info, found);
        } else if (note_if_dead(hosts, set, &owner, found)) {
            rqli_list_add(&found->locks, rqli_slice_of(info->name), 0);
        }
    }
    rqli_list_sort(&found->acquirers);
    return status;
}

void rqli_zombies_fini_p(struct rqli_zombies *self)
{
    rqli_list_fini_p(&self->hosts);
    rqli_list_fini_p(&self->acquirers);
    rqli_list_fini_p(&self->locks);
}

/* Adds a list of texts to the result. */
static rql_status give_list(rql_zombies *zombies, const struct rqli_list *found,
                            rql_text_list **out, rql_error *error)
{
    rql_status status = rqli_list_give(found, out, error);

    if (!status) {
        rqli_result_adopt(zombies, *out);
    }
    return status;
}

/* A list that lacks a
 * text because memory ran out is detected here, as RQL_E_NOMEM. */
rql_status rqli_zombies_give(struct rqli_zombies *found, rql_zombies **out, rql_error *error)
{
    RQLI_AUTO(rql_free) rql_zombies *zombies = rqli_result_new(sizeof *zombies);
    rql_status status;

    if (!zombies) {
        return rqli_fail_nomem(error);
    }
    zombies->requests = found->removed;
    zombies->handed_over = found->handed_over;
    status = give_list(zombies, &found->hosts, &zombies->hosts, error);
    status = status ? status : give_list(zombies, &found->acquirers, &zombies->acquirers, error);
    status = status ? status : give_list(zombies, &found->locks, &zombies->locks, error);
    if (!status) {
        *out = RQLI_GIVE(zombies);
    }
    return status;
}

/* This takes no lock on the data: a host may come back while its locks are listed. */
rql_status rql_swarm_zombies(rql_client *client, int64_t zombie_ttl_ms, rql_zombies **out,
                             rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(hosts_fini) struct hosts hosts = {.all = {0}};
    RQLI_AUTO(rqli_zombies_fini) struct rqli_zombies found = {.removed = 0};
    rql_status status = check(client, zombie_ttl_ms, out, error);

    status = status ? status : read_hosts(client, zombie_ttl_ms, &hosts, error);
    status = status ? status : find_locks(client, &hosts, &found, error);
    found.hosts = hosts.dead;
    hosts.dead = (struct rqli_list){0};
    return status ? status : rqli_zombies_give(&found, out, error);
}
