#include "admin/host_info.h"

#include "base/cancel.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/text.h"
#include "wire/command.h"

#include <rql/inspect.h>
#include <stdio.h>
#include <string.h>

/*
 * The swarm as the server's keys show it: its hosts, which of them are dead, what those hold, and
 * who flushes. Changes nothing.
 *
 * Dead is here who is silent for longer than the caller's ttl. A flusher wants to see that twice
 * (lua/README.md 32), so not all that is listed here is flushed.
 */

/* A year, as for the option of this name. */
#define TTL_MAX_MS INT64_C(31536000000)

enum { HOSTS_PAGE = 500 /* COUNT of one HSCAN */ };

RQLI_DEFINE_AUTO(rql_lock_info_list *, rql_lock_info_list_free);
RQLI_DEFINE_AUTO(rql_zombies *, rql_zombies_free);

/* The value is the identity of the elected. Without the key nobody is: an election ends by its
 * ttl. */
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

/* In front of each call that takes a ttl. */
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

rql_host_info_list *rql_host_info_list_free(rql_host_info_list *list)
{
    free(list);
    return NULL;
}

/* All hosts, sorted by id, each with its last heartbeat as its number (-1: no time). The caller
 * ends the walk, also after a fault. */
static rql_status read_hosts(rql_client *client, struct rqli_walk *hosts, rql_error *error)
{
    const struct rqli_reader reader = {client, RQLI_KEY_HOSTS, error};

    rqli_walk_init(hosts, NULL, RQLI_KEY_HOSTS);
    return rqli_walk_read_all(&reader, hosts, HOSTS_PAGE);
}

/* Its last heartbeat is that long ago by the server's clock, as of the last page. One without a
 * time is no zombie: what cannot be read is never a reason to call anybody dead. */
static bool is_zombie(const struct rqli_walk *hosts, size_t i, int64_t zombie_ttl_ms)
{
    int64_t last_us = hosts->found.item[i].number;

    return last_us >= 0 && last_us < hosts->server_us - zombie_ttl_ms * 1000;
}

/* One allocation: the list, its items, then the ids. */
rql_status rql_swarm_info(rql_client *client, int64_t zombie_ttl_ms, rql_host_info_list **out,
                          rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_walk_fini) struct rqli_walk hosts = {0};
    rql_status status = check(client, zombie_ttl_ms, out, error);
    const struct rqli_list *found = &hosts.found;
    rql_host_info_list *list;
    rql_host_info *item;
    char *cursor;

    status = status ? status : read_hosts(client, &hosts, error);
    if (status) {
        return status;
    }
    list = malloc(sizeof *list + found->count * sizeof *item + rqli_list_size(found));
    if (!list) {
        return rqli_fail_nomem(error);
    }
    item = (rql_host_info *)(list + 1);
    cursor = (char *)(item + found->count);
    for (size_t i = 0; i < found->count; i++) {
        item[i] = (rql_host_info){
            .hst_id = rqli_pack(&cursor, found->item[i].text),
            .is_zombie = is_zombie(&hosts, i, zombie_ttl_ms),
            .last_probe_us = found->item[i].number,
        };
    }
    *list = (rql_host_info_list){.count = found->count, .item = item};
    *out = list;
    return RQL_OK;
}

rql_zombies *rql_zombies_free(rql_zombies *zombies)
{
    if (zombies) {
        (void)rql_text_list_free(zombies->hosts);
        (void)rql_text_list_free(zombies->acquirers);
        (void)rql_text_list_free(zombies->locks);
        free(zombies);
    }
    return NULL;
}

/* Adds in the order of the walk: the list is sorted, as rqli_list_has() needs it. */
static rql_status find_hosts(rql_client *client, int64_t zombie_ttl_ms, struct rqli_list *zombies,
                             rql_error *error)
{
    RQLI_AUTO(rqli_walk_fini) struct rqli_walk hosts = {0};
    rql_status status = read_hosts(client, &hosts, error);

    for (size_t i = 0; !status && i < hosts.found.count; i++) {
        if (is_zombie(&hosts, i, zombie_ttl_ms)) {
            rqli_list_add(zombies, hosts.found.item[i].text, 0);
        }
    }
    return status;
}

/* By the host that a lock names, as the rule of the flusher chooses them. An acquirer who holds
 * several is listed once; locks come in the order of their keys. */
static rql_status find_locks(rql_client *client, struct rqli_zombies *found, rql_error *error)
{
    RQLI_AUTO(rql_lock_info_list_free) rql_lock_info_list *locks = NULL;
    rql_status status;

    if (found->hosts.count == 0) {
        return RQL_OK;
    }
    status = rql_list_locks_info(client, &locks, error);
    for (size_t i = 0; !status && i < locks->count; i++) {
        const rql_lock_info *info = locks->item[i];

        if (info->hst_id && rqli_list_has(&found->hosts, rqli_slice_of(info->hst_id))) {
            rqli_list_add(&found->locks, rqli_slice_of(info->lock_key), 0);
            rqli_list_add(&found->acquirers, rqli_slice_of(info->acq_id ? info->acq_id : ""), 0);
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

/* On a fault what was made so far is freed with the result. Lists that lack a text for want of
 * memory are found out here, as RQL_E_NOMEM. */
rql_status rqli_zombies_give(struct rqli_zombies *found, rql_zombies **out, rql_error *error)
{
    RQLI_AUTO(rql_zombies_free) rql_zombies *zombies = calloc(1, sizeof *zombies);
    rql_status status;

    if (!zombies) {
        return rqli_fail_nomem(error);
    }
    zombies->rem_request_cnt = found->removed;
    zombies->handed_over_cnt = found->handed_over;
    status = rqli_list_give(&found->hosts, &zombies->hosts, error);
    status = status ? status : rqli_list_give(&found->acquirers, &zombies->acquirers, error);
    status = status ? status : rqli_list_give(&found->locks, &zombies->locks, error);
    if (!status) {
        *out = RQLI_GIVE(zombies);
    }
    return status;
}

/* Nothing is locked meanwhile: a host may come back while its locks are listed. */
rql_status rql_zombies_info(rql_client *client, int64_t zombie_ttl_ms, rql_zombies **out,
                            rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_zombies_fini) struct rqli_zombies found = {.removed = 0};
    rql_status status = check(client, zombie_ttl_ms, out, error);

    status = status ? status : find_hosts(client, zombie_ttl_ms, &found.hosts, error);
    status = status ? status : find_locks(client, &found, error);
    return status ? status : rqli_zombies_give(&found, out, error);
}

rql_status rql_zombie_hosts(rql_client *client, int64_t zombie_ttl_ms, rql_text_list **out,
                            rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_list_fini) struct rqli_list hosts = {0};
    rql_status status = check(client, zombie_ttl_ms, out, error);

    status = status ? status : find_hosts(client, zombie_ttl_ms, &hosts, error);
    return status ? status : rqli_list_give(&hosts, out, error);
}

/* Finds all of it, and gives one list away: that leaves NULL, the others are freed. `out` is
 * checked here, for what is inside would only see ours. */
rql_status rql_zombie_locks(rql_client *client, int64_t zombie_ttl_ms, rql_text_list **out,
                            rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rql_zombies_free) rql_zombies *zombies = NULL;
    rql_status status = check(client, zombie_ttl_ms, out, error);

    status = status ? status : rql_zombies_info(client, zombie_ttl_ms, &zombies, error);
    if (!status) {
        *out = RQLI_GIVE(zombies->locks);
    }
    return status;
}

rql_status rql_zombie_acquirers(rql_client *client, int64_t zombie_ttl_ms, rql_text_list **out,
                                rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rql_zombies_free) rql_zombies *zombies = NULL;
    rql_status status = check(client, zombie_ttl_ms, out, error);

    status = status ? status : rql_zombies_info(client, zombie_ttl_ms, &zombies, error);
    if (!status) {
        *out = RQLI_GIVE(zombies->acquirers);
    }
    return status;
}
