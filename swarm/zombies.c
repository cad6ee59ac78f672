#include "base/cancel.h"
#include "base/error.h"
#include "base/scope.h"
#include "flush.h"
#include "host_table.h"
#include "lock/client.h"
#include "swarm_inside.h"
#include "wire/pack.h"

#include <rql/inspect.h>
#include <string.h>

#define TTL_MAX_MS INT64_C(31536000000)

RQLI_DEFINE_AUTO(rql_lock_info_list *, rql_lock_info_list_free);
RQLI_DEFINE_AUTO(rql_zombies *, rql_zombies_free);

static rql_status check(const rql_client *client, int64_t zombie_ttl_ms, const void *out,
                        rql_error *error)
{
    rql_status status = rqli_client_check(client, error);

    if (!status && !out) {
        status = rqli_fail(error, RQL_E_INVALID, "no place for the result");
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

static rql_host_info_list *lay_out(const struct rqli_host_table *rows, int64_t zombie_ttl_ms)
{
    size_t size = sizeof(rql_host_info_list) + rows->count * sizeof(rql_host_info);
    rql_host_info_list *list;
    rql_host_info *item;
    char *cursor;

    for (size_t i = 0; i < rows->count; i++) {
        size += strlen(rows->item[i].host) + 1;
    }
    list = malloc(size);
    if (!list) {
        return NULL;
    }
    item = (rql_host_info *)(list + 1);
    cursor = (char *)(item + rows->count);
    for (size_t i = 0; i < rows->count; i++) {
        item[i] = (rql_host_info){
            .hst_id = rqli_pack(&cursor, rqli_slice_of(rows->item[i].host)),
            .is_zombie = rqli_host_table_is_zombie(rows, &rows->item[i], zombie_ttl_ms),
            .last_probe_us = rows->item[i].last_us,
        };
    }
    *list = (rql_host_info_list){.count = rows->count, .item = item};
    return list;
}

rql_status rql_swarm_info(rql_client *client, int64_t zombie_ttl_ms, rql_host_info_list **out,
                          rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_host_table_fini) struct rqli_host_table rows = {0};
    rql_status status = check(client, zombie_ttl_ms, out, error);
    rql_host_info_list *list;

    status = status ? status : rqli_host_table_read(client, &rows, error);
    if (status) {
        return status;
    }
    list = lay_out(&rows, zombie_ttl_ms);
    if (!list) {
        return rqli_fail_nomem(error);
    }
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

static rql_status find_hosts(rql_client *client, int64_t zombie_ttl_ms, struct rqli_texts *hosts,
                             rql_error *error)
{
    RQLI_AUTO(rqli_host_table_fini) struct rqli_host_table rows = {0};
    rql_status status = rqli_host_table_read(client, &rows, error);

    for (size_t i = 0; !status && i < rows.count; i++) {
        if (rqli_host_table_is_zombie(&rows, &rows.item[i], zombie_ttl_ms)) {
            rqli_texts_add(hosts, rows.item[i].host);
        }
    }
    return status;
}

/* As the flusher would find them: hosts are sorted. */
static rql_status find_locks(rql_client *client, struct rqli_flush *found, rql_error *error)
{
    RQLI_AUTO(rql_lock_info_list_free) rql_lock_info_list *locks = NULL;
    rql_status status;

    if (found->hosts.count == 0) {
        return RQL_OK;
    }
    status = rql_list_locks_info(client, &locks, error);
    for (size_t i = 0; !status && i < locks->count; i++) {
        const rql_lock_info *info = locks->item[i];

        if (info->hst_id && rqli_texts_has(&found->hosts, info->hst_id)) {
            rqli_texts_add(&found->locks, info->lock_key);
            rqli_texts_add(&found->acquirers, info->acq_id ? info->acq_id : "");
        }
    }
    rqli_texts_sort(&found->acquirers);
    return status;
}

rql_status rqli_zombies_give(struct rqli_flush *found, rql_zombies **out, rql_error *error)
{
    RQLI_AUTO(rql_zombies_free) rql_zombies *zombies = calloc(1, sizeof *zombies);
    rql_status status;

    if (!zombies) {
        return rqli_fail_nomem(error);
    }
    zombies->rem_request_cnt = found->removed;
    zombies->handed_over_cnt = found->handed_over;
    status = rqli_texts_give(&found->hosts, &zombies->hosts, error);
    status = status ? status : rqli_texts_give(&found->acquirers, &zombies->acquirers, error);
    status = status ? status : rqli_texts_give(&found->locks, &zombies->locks, error);
    if (!status) {
        *out = RQLI_GIVE(zombies);
    }
    return status;
}

rql_status rql_zombies_info(rql_client *client, int64_t zombie_ttl_ms, rql_zombies **out,
                            rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_flush_fini) struct rqli_flush found = {.me = ""};
    rql_status status = check(client, zombie_ttl_ms, out, error);

    status = status ? status : find_hosts(client, zombie_ttl_ms, &found.hosts, error);
    status = status ? status : find_locks(client, &found, error);
    return status ? status : rqli_zombies_give(&found, out, error);
}

rql_status rql_zombie_hosts(rql_client *client, int64_t zombie_ttl_ms, rql_text_list **out,
                            rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_texts_fini) struct rqli_texts hosts = {0};
    rql_status status = check(client, zombie_ttl_ms, out, error);

    status = status ? status : find_hosts(client, zombie_ttl_ms, &hosts, error);
    return status ? status : rqli_texts_give(&hosts, out, error);
}

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
