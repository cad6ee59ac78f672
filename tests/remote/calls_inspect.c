#include "remote.h"

#include <stdlib.h>
#include <string.h>

/* What the library tells of the server: "do": "inspect", with "of" one of locks, queues, keys
 * (their names), possible_hosts, acquired_locks, lock, holders, queue, is_locked, is_queued (with
 * "name"), locks_info, queues_info (of those in "names", or of all), or command: the type of the
 * reply to one of its own. */

/* A list without items is NULL. */
static void check_list(const void *items, size_t count)
{
    if ((items != NULL) != (count > 0)) {
        abort();
    }
}

static cJSON *meta_of(const rql_meta *meta, size_t count)
{
    cJSON *pairs = cJSON_CreateArray();

    check_list(meta, count);
    for (size_t i = 0; i < count; i++) {
        cJSON *pair = cJSON_CreateArray();

        (void)cJSON_AddItemToArray(pair, cJSON_CreateString(meta[i].name));
        (void)cJSON_AddItemToArray(pair, cJSON_CreateString(meta[i].value));
        (void)cJSON_AddItemToArray(pairs, pair);
    }
    return pairs;
}

static cJSON *lock_of(const rql_lock_info *info)
{
    const struct number numbers[] = {
        {"status", info->status},
        {"ts_us", info->acquired_at_us},
        {"ini_ttl_ms", info->ttl_ms},
        {"rem_ttl_ms", info->remaining_ms},
        {"spc_cnt", info->reentries},
        {"l_spc_ts_us", info->reentered_at_us},
        {"spc_ext_ttl_ms", info->extended_ms},
        {"l_spc_ext_ts_us", info->extended_at_us},
        {"l_spc_ext_ini_ttl_ms", info->last_extension_ms},
        {"token", info->token},
        {"n_holders", info->n_holders},
        {"used_units", info->used_units},
        {"share_limit", info->share_limit},
    };
    cJSON *lock = cJSON_CreateObject();

    add_text(lock, "lock_key", info->key);
    add_text(lock, "node", info->node);
    add_text(lock, "name", info->name);
    add_text(lock, "acq_id", info->acquirer_id);
    add_text(lock, "hst_id", info->host_id);
    add_numbers(lock, numbers, sizeof numbers / sizeof numbers[0]);
    (void)cJSON_AddBoolToObject(lock, "is_kept", info->is_kept);
    (void)cJSON_AddItemToObject(lock, "meta", meta_of(info->meta, info->n_meta));
    return lock;
}

static cJSON *holder_of(const rql_holder_info *info)
{
    const struct number numbers[] = {
        {"token", info->token},
        {"ts_us", info->acquired_at_us},
        {"ini_ttl_ms", info->ttl_ms},
        {"rem_ttl_ms", info->remaining_ms},
        {"share_units", info->share_units},
        {"share_limit", info->share_limit},
    };
    cJSON *holder = cJSON_CreateObject();
    cJSON *slots = cJSON_CreateArray();

    check_list(info->slots, info->n_slots);
    add_text(holder, "acq_id", info->acquirer_id);
    add_text(holder, "hst_id", info->host_id);
    add_numbers(holder, numbers, sizeof numbers / sizeof numbers[0]);
    for (size_t i = 0; i < info->n_slots; i++) {
        (void)cJSON_AddItemToArray(slots, cJSON_CreateNumber(info->slots[i]));
    }
    (void)cJSON_AddItemToObject(holder, "slots", slots);
    (void)cJSON_AddItemToObject(holder, "meta", meta_of(info->meta, info->n_meta));
    return holder;
}

static cJSON *holders_of(const rql_holder_list *list)
{
    cJSON *whole = cJSON_CreateObject();
    cJSON *holders = cJSON_CreateArray();

    check_list(list->item, list->count);
    (void)cJSON_AddNumberToObject(whole, "status", list->status);
    for (size_t i = 0; i < list->count; i++) {
        (void)cJSON_AddItemToArray(holders, holder_of(list->item[i]));
    }
    (void)cJSON_AddItemToObject(whole, "holders", holders);
    return whole;
}

static cJSON *queue_of(const rql_queue_info *info)
{
    cJSON *queue = cJSON_CreateObject();
    cJSON *requests = cJSON_CreateArray();

    check_list(info->requests, info->n_requests);
    (void)cJSON_AddNumberToObject(queue, "status", info->status);
    add_text(queue, "lock_queue", info->key);
    add_text(queue, "name", info->name);
    for (size_t i = 0; i < info->n_requests; i++) {
        const rql_request_info *request = info->requests[i];
        cJSON *added = cJSON_CreateObject();

        add_text(added, "acq_id", request->acquirer_id);
        add_text(added, "hst_id", request->host_id);
        (void)cJSON_AddNumberToObject(added, "score_us", (double)request->score_us);
        (void)cJSON_AddNumberToObject(added, "position", (double)request->position);
        (void)cJSON_AddNumberToObject(added, "share_units", (double)request->share_units);
        (void)cJSON_AddNumberToObject(added, "share_limit", (double)request->share_limit);
        (void)cJSON_AddItemToArray(requests, added);
    }
    (void)cJSON_AddItemToObject(queue, "requests", requests);
    return queue;
}

/* Each adds what it found to the array. */

typedef rql_status list_fn(rql_client *client, rql_text_list **out, rql_error *error);

static rql_status list_texts(list_fn *list, rql_client *client, cJSON **found, rql_error *error)
{
    rql_text_list *texts = NULL;
    rql_status status = list(client, &texts, error);

    *found = texts ? texts_of(texts) : NULL;
    (void)rql_free(texts);
    return status;
}

/* The names of "names", in an array that the caller frees; NULL: all locks or queues are meant. */
static const char **names_in(const cJSON *words, size_t *count)
{
    const cJSON *array = cJSON_GetObjectItem(words, "names");
    const char **names =
        array ? calloc((size_t)cJSON_GetArraySize(array) + 1, sizeof *names) : NULL;
    const cJSON *item;

    *count = 0;
    cJSON_ArrayForEach(item, array)
    {
        names[(*count)++] = cJSON_GetStringValue(item);
    }
    return names;
}

static rql_status list_locks_info(const struct call *call, cJSON **found, rql_error *error)
{
    rql_lock_info_list *list = NULL;
    size_t count;
    const char **names = names_in(call->words, &count);
    rql_status status = names ? rql_locks_read(call->client, names, count, &list, error)
                              : rql_locks_inspect(call->client, &list, error);

    *found = list ? cJSON_CreateArray() : NULL;
    for (size_t i = 0; list && i < list->count; i++) {
        (void)cJSON_AddItemToArray(*found, lock_of(list->item[i]));
    }
    (void)rql_free(list);
    free(names);
    return status;
}

static rql_status list_queues_info(const struct call *call, cJSON **found, rql_error *error)
{
    rql_queue_info_list *list = NULL;
    size_t count;
    const char **names = names_in(call->words, &count);
    rql_status status = names ? rql_queues_read(call->client, names, count, &list, error)
                              : rql_queues_inspect(call->client, &list, error);

    *found = list ? cJSON_CreateArray() : NULL;
    for (size_t i = 0; list && i < list->count; i++) {
        (void)cJSON_AddItemToArray(*found, queue_of(list->item[i]));
    }
    (void)rql_free(list);
    free(names);
    return status;
}

static rql_status get_lock(rql_client *client, const char *name, cJSON **found, rql_error *error)
{
    rql_lock_info *info = NULL;
    rql_status status = rql_lock_inspect(client, name, &info, error);

    *found = info ? lock_of(info) : NULL;
    (void)rql_free(info);
    return status;
}

static rql_status get_holders(rql_client *client, const char *name, cJSON **found, rql_error *error)
{
    rql_holder_list *list = NULL;
    rql_status status = rql_lock_holders(client, name, &list, error);

    *found = list ? holders_of(list) : NULL;
    (void)rql_free(list);
    return status;
}

static rql_status get_queue(rql_client *client, const char *name, cJSON **found, rql_error *error)
{
    rql_queue_info *info = NULL;
    rql_status status = rql_queue_inspect(client, name, &info, error);

    *found = info ? queue_of(info) : NULL;
    (void)rql_free(info);
    return status;
}

/* Sends a command of its own, and finds the type of the reply. */
static rql_status send_command(rql_client *client, cJSON **found, rql_error *error)
{
    static const char *const words[] = {"TIME"};
    const rql_command command = {.argc = 1, .argv = words};
    rql_reply *reply = NULL;
    rql_status status = rql_client_command(client, 0, &command, &reply, error);

    *found = reply ? cJSON_CreateNumber(rql_reply_get_type(reply)) : NULL;
    (void)rql_free(reply);
    return status;
}

typedef rql_status ask_fn(rql_client *client, const char *name, bool *out, rql_error *error);

static rql_status answer_of(ask_fn *ask, rql_client *client, const char *name, cJSON **found,
                            rql_error *error)
{
    bool holds = false;
    rql_status status = ask(client, name, &holds, error);

    *found = cJSON_CreateBool(holds);
    return status;
}

rql_status inspect(struct call *call)
{
    static const struct {
        const char *of;
        list_fn *list;
    } lists[] = {
        {"acquired_locks", rql_client_held_locks},
        {"keys", rql_keys_list},
        {"locks", rql_locks_list},
        {"possible_hosts", rql_client_host_ids},
        {"queues", rql_queues_list},
    };

    const char *of = text_in(call->words, "of");
    const char *name = text_or(call->words, "name", "");
    rql_client *client = call->client;
    list_fn *list = NULL;
    cJSON *found = NULL;
    rql_status status;

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        list = strcmp(of, lists[i].of) == 0 ? lists[i].list : list;
    }
    if (list) {
        status = list_texts(list, client, &found, &call->error);
    } else if (strcmp(of, "locks_info") == 0) {
        status = list_locks_info(call, &found, &call->error);
    } else if (strcmp(of, "queues_info") == 0) {
        status = list_queues_info(call, &found, &call->error);
    } else if (strcmp(of, "lock") == 0) {
        status = get_lock(client, name, &found, &call->error);
    } else if (strcmp(of, "holders") == 0) {
        status = get_holders(client, name, &found, &call->error);
    } else if (strcmp(of, "queue") == 0) {
        status = get_queue(client, name, &found, &call->error);
    } else if (strcmp(of, "command") == 0) {
        status = send_command(client, &found, &call->error);
    } else if (strcmp(of, "is_locked") == 0) {
        status = answer_of(rql_lock_exists, client, name, &found, &call->error);
    } else if (strcmp(of, "is_queued") == 0) {
        status = answer_of(rql_queue_exists, client, name, &found, &call->error);
    } else {
        wrong(call->words, "of");
    }
    (void)cJSON_AddItemToObject(call->reply, "found", found ? found : cJSON_CreateNull());
    return status;
}
