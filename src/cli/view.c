#include "view.h"

#include <stdlib.h>
#include <string.h>

const char *cli_key_status_text(rql_key_status status)
{
    switch (status) {
    case RQL_KEY_ALIVE:
        return "alive";
    case RQL_KEY_RELEASED:
        return "released";
    case RQL_KEY_WRONG_TYPE:
        return "wrong type";
    case RQL_KEY_MALFORMED:
        return "malformed";
    }
    return "unknown";
}

void cli_add_left(struct cli_table *table, const rql_lock_info *info)
{
    if (info->status == RQL_KEY_ALIVE && info->rem_ttl_ms == RQL_FOREVER) {
        cli_table_add(table, "forever");
    } else {
        cli_table_add_duration(table, info->rem_ttl_ms);
    }
}

static cJSON *meta_to_json(const rql_lock_info *info)
{
    cJSON *meta = cli_json_object();
    size_t i;

    for (i = 0; i < info->n_meta; i++) {
        cli_json_add_text(meta, info->meta[i].name, info->meta[i].value);
    }
    return meta;
}

cJSON *cli_lock_to_json(const rql_lock_info *info)
{
    cJSON *object = cli_json_object();

    cli_json_add_text(object, "name", info->name);
    cli_json_add_text(object, "lock_key", info->lock_key);
    cli_json_add_text(object, "status", cli_key_status_text(info->status));
    cli_json_add_text(object, "acq_id", info->acq_id);
    cli_json_add_text(object, "hst_id", info->hst_id);
    cli_json_add_count(object, "ts_us", info->ts_us);
    cli_json_add_count(object, "ini_ttl_ms", info->ini_ttl_ms);
    cli_json_add_count(object, "rem_ttl_ms", info->rem_ttl_ms);
    cli_json_add_count(object, "spc_cnt", info->spc_cnt);
    cli_json_add_count(object, "l_spc_ts_us", info->l_spc_ts_us);
    cli_json_add_count(object, "spc_ext_ttl_ms", info->spc_ext_ttl_ms);
    cli_json_add_count(object, "l_spc_ext_ts_us", info->l_spc_ext_ts_us);
    cli_json_add_count(object, "l_spc_ext_ini_ttl_ms", info->l_spc_ext_ini_ttl_ms);
    cli_json_add_count(object, "token", info->token);
    cli_json_add(object, "meta", meta_to_json(info));
    return object;
}

static cJSON *request_to_json(const rql_request_info *request)
{
    cJSON *object = cli_json_object();

    cli_json_add_int(object, "position", request->position);
    cli_json_add_text(object, "acq_id", request->acq_id);
    cli_json_add_text(object, "hst_id", request->hst_id);
    cli_json_add_count(object, "score_us", request->score_us);
    return object;
}

cJSON *cli_queue_to_json(const rql_queue_info *info)
{
    cJSON *object = cli_json_object();
    cJSON *requests = cli_json_array();
    size_t i;

    cli_json_add_text(object, "name", info->name);
    cli_json_add_text(object, "lock_queue", info->lock_queue);
    cli_json_add_text(object, "status", cli_key_status_text(info->status));
    for (i = 0; i < info->n_requests; i++) {
        cli_json_append(requests, request_to_json(&info->requests[i]));
    }
    cli_json_add(object, "requests", requests);
    return object;
}

static int compare_locks(const void *a, const void *b)
{
    const rql_lock_info *const *left = a;
    const rql_lock_info *const *right = b;

    return strcmp((*left)->lock_key, (*right)->lock_key);
}

static int compare_queues(const void *a, const void *b)
{
    const rql_queue_info *const *left = a;
    const rql_queue_info *const *right = b;

    return strcmp((*left)->lock_queue, (*right)->lock_queue);
}

void cli_sort_locks(rql_lock_info_list *list)
{
    if (list->count > 1) {
        qsort(list->item, list->count, sizeof(rql_lock_info *), compare_locks);
    }
}

void cli_sort_queues(rql_queue_info_list *list)
{
    if (list->count > 1) {
        qsort(list->item, list->count, sizeof(rql_queue_info *), compare_queues);
    }
}
