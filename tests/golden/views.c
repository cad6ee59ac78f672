#include "golden.h"

/* The gem's calls that look at locks and queues, or act on them whoever holds them. */

static cJSON *outcome_of(cJSON *result)
{
    cJSON *outcome = cJSON_CreateObject();

    (void)cJSON_AddItemToObject(outcome, "result", result);
    return outcome;
}

static void add_seconds(cJSON *out, const char *name, int64_t us)
{
    if (us >= 0) {
        (void)cJSON_AddNumberToObject(out, name, (double)us / 1e6);
    }
}

static void add_number(cJSON *out, const char *name, int64_t value)
{
    if (value >= 0) {
        (void)cJSON_AddNumberToObject(out, name, (double)value);
    }
}

static cJSON *lock_of(const rql_lock_info *info)
{
    cJSON *out = cJSON_CreateObject();

    (void)cJSON_AddStringToObject(out, "acq_id", info->acq_id);
    (void)cJSON_AddStringToObject(out, "hst_id", info->hst_id);
    add_seconds(out, "ts", info->ts_us);
    add_number(out, "ini_ttl", info->ini_ttl_ms);
    for (size_t i = 0; i < info->n_meta; i++) {
        (void)cJSON_AddStringToObject(out, info->meta[i].name, info->meta[i].value);
    }
    add_number(out, "spc_cnt", info->spc_cnt);
    add_seconds(out, "l_spc_ts", info->l_spc_ts_us);
    add_number(out, "spc_ext_ttl", info->spc_ext_ttl_ms);
    add_seconds(out, "l_spc_ext_ts", info->l_spc_ext_ts_us);
    add_number(out, "l_spc_ext_ini_ttl", info->l_spc_ext_ini_ttl_ms);
    if (info->rem_ttl_ms == RQL_FOREVER) {
        (void)cJSON_AddStringToObject(out, "rem_ttl", "Infinity");
    } else {
        (void)cJSON_AddNumberToObject(out, "rem_ttl", (double)info->rem_ttl_ms);
    }
    return out;
}

/* Where Ruby raises, the library says what it found. */
static cJSON *odd_outcome(rql_key_status status)
{
    return status == RQL_KEY_WRONG_TYPE ? calls_error("RedisClient::WrongTypeError", NULL)
                                        : calls_error("TypeError", NULL);
}

static cJSON *lock_info(const struct run *self)
{
    rql_lock_info *info = NULL;
    rql_error error = {0};
    rql_status status = rql_get_lock_info(self->client, calls_argument(self), &info, &error);
    cJSON *outcome;
    cJSON *result;

    if (status < 0) {
        return calls_fault(status, &error);
    }
    if (status == RQL_NOT_FOUND) {
        return outcome_of(cJSON_CreateNull());
    }
    if (info->status != RQL_KEY_ALIVE) {
        outcome = odd_outcome(info->status);
    } else {
        result = lock_of(info);
        (void)cJSON_AddStringToObject(result, "lock_key", info->lock_key);
        outcome = outcome_of(result);
    }
    (void)rql_lock_info_free(info);
    return outcome;
}

static cJSON *requests_of(const rql_queue_info *info)
{
    cJSON *requests = cJSON_CreateArray();

    for (size_t i = 0; i < info->n_requests; i++) {
        cJSON *request = cJSON_CreateObject();

        (void)cJSON_AddStringToObject(request, "acq_id", info->requests[i].acq_id);
        add_seconds(request, "score", info->requests[i].score_us);
        (void)cJSON_AddItemToArray(requests, request);
    }
    return requests;
}

static cJSON *queue_info(const struct run *self)
{
    rql_queue_info *info = NULL;
    rql_error error = {0};
    rql_status status = rql_get_queue_info(self->client, calls_argument(self), &info, &error);
    cJSON *outcome;
    cJSON *result;

    if (status < 0) {
        return calls_fault(status, &error);
    }
    if (status == RQL_NOT_FOUND) {
        return outcome_of(cJSON_CreateNull());
    }
    if (info->status != RQL_KEY_ALIVE) {
        outcome = odd_outcome(info->status);
    } else {
        result = cJSON_CreateObject();
        (void)cJSON_AddStringToObject(result, "lock_queue", info->lock_queue);
        (void)cJSON_AddItemToObject(result, "queue", requests_of(info));
        outcome = outcome_of(result);
    }
    (void)rql_queue_info_free(info);
    return outcome;
}

/* Puts an item where its name belongs: sets are compared in order. */
void views_add_sorted(cJSON *list, cJSON *item, const char *name, const char *name_field)
{
    int at = 0;
    const cJSON *other;

    cJSON_ArrayForEach(other, list)
    {
        const cJSON *text = name_field ? cJSON_GetObjectItem(other, name_field) : other;

        at += strcmp(text->valuestring, name) < 0 ? 1 : 0;
    }
    (void)cJSON_InsertItemInArray(list, at, item);
}

static cJSON *locks_info(const struct run *self)
{
    static const char *const statuses[] = {"alive", "released", "wrong type", "malformed"};
    rql_lock_info_list *list = NULL;
    rql_error error = {0};
    rql_status status = rql_list_locks_info(self->client, &list, &error);
    cJSON *result;

    if (status) {
        return calls_fault(status, &error);
    }
    result = cJSON_CreateArray();
    for (size_t i = 0; i < list->count; i++) {
        const rql_lock_info *info = list->item[i];
        cJSON *item = cJSON_CreateObject();
        bool is_alive = info->status == RQL_KEY_ALIVE;

        (void)cJSON_AddStringToObject(item, "lock", info->lock_key);
        (void)cJSON_AddStringToObject(item, "status", statuses[info->status]);
        (void)cJSON_AddItemToObject(item, "info", is_alive ? lock_of(info) : cJSON_CreateObject());
        views_add_sorted(result, item, info->lock_key, "lock");
    }
    (void)rql_lock_info_list_free(list);
    return outcome_of(result);
}

static cJSON *queues_info(const struct run *self)
{
    rql_queue_info_list *list = NULL;
    rql_error error = {0};
    rql_status status = rql_list_queues_info(self->client, &list, &error);
    cJSON *result;

    if (status) {
        return calls_fault(status, &error);
    }
    result = cJSON_CreateArray();
    for (size_t i = 0; i < list->count; i++) {
        cJSON *item = cJSON_CreateObject();

        (void)cJSON_AddStringToObject(item, "queue", list->item[i]->lock_queue);
        (void)cJSON_AddItemToObject(item, "requests", requests_of(list->item[i]));
        views_add_sorted(result, item, list->item[i]->lock_queue, "queue");
    }
    (void)rql_queue_info_list_free(list);
    return outcome_of(result);
}

static cJSON *names_of(rql_status status, rql_text_list *list, const rql_error *error)
{
    cJSON *result;

    if (status) {
        return calls_fault(status, error);
    }
    result = cJSON_CreateArray();
    for (size_t i = 0; i < list->count; i++) {
        views_add_sorted(result, cJSON_CreateString(list->item[i]), list->item[i], NULL);
    }
    (void)rql_text_list_free(list);
    return outcome_of(result);
}

static bool wants_info(const struct run *self)
{
    return cJSON_IsTrue(
        cJSON_GetObjectItem(cJSON_GetObjectItem(self->call, "options"), "with_info"));
}

static cJSON *locks(const struct run *self)
{
    rql_text_list *list = NULL;
    rql_error error = {0};
    rql_status status;

    if (wants_info(self)) {
        return locks_info(self);
    }
    status = rql_list_locks(self->client, &list, &error);
    return names_of(status, list, &error);
}

static cJSON *queues(const struct run *self)
{
    rql_text_list *list = NULL;
    rql_error error = {0};
    rql_status status;

    if (wants_info(self)) {
        return queues_info(self);
    }
    status = rql_list_queues(self->client, &list, &error);
    return names_of(status, list, &error);
}

static cJSON *keys(const struct run *self)
{
    rql_text_list *list = NULL;
    rql_error error = {0};
    rql_status status = rql_list_keys(self->client, &list, &error);

    return names_of(status, list, &error);
}

static cJSON *truth(rql_status status, bool is_so, const rql_error *error)
{
    return status ? calls_fault(status, error) : outcome_of(cJSON_CreateBool(is_so));
}

static cJSON *is_locked(const struct run *self)
{
    bool is_so = false;
    rql_error error = {0};
    rql_status status = rql_is_locked(self->client, calls_argument(self), &is_so, &error);

    return truth(status, is_so, &error);
}

static cJSON *is_queued(const struct run *self)
{
    bool is_so = false;
    rql_error error = {0};
    rql_status status = rql_is_queued(self->client, calls_argument(self), &is_so, &error);

    return truth(status, is_so, &error);
}

static cJSON *unlock(const struct run *self)
{
    static const char *const words[] = {"nothing_to_release", "released"};
    rql_unlock_result found;
    rql_error error = {0};
    rql_status status = rql_force_unlock(self->client, calls_argument(self), &found, &error);
    char key[GOLDEN_TEXT_SIZE];
    cJSON *result;
    cJSON *inner;

    if (status) {
        return calls_fault(status, &error);
    }
    result = cJSON_CreateObject();
    (void)cJSON_AddBoolToObject(result, "ok", true);
    inner = cJSON_AddObjectToObject(result, "result");
    (void)cJSON_AddNumberToObject(inner, "rel_time", (double)found.rel_time_us / 1000);
    (void)snprintf(key, sizeof key, "rql:lock:%s", calls_argument(self));
    (void)cJSON_AddStringToObject(inner, "rel_key", key);
    (void)snprintf(key, sizeof key, "rql:lock_queue:%s", calls_argument(self));
    (void)cJSON_AddStringToObject(inner, "rel_queue", key);
    (void)cJSON_AddStringToObject(inner, "queue_res", words[found.queue_released]);
    (void)cJSON_AddStringToObject(inner, "lock_res", words[found.lock_released]);
    return outcome_of(result);
}

static cJSON *extend_lock_ttl(const struct run *self)
{
    const cJSON *add_ms = cJSON_GetArrayItem(cJSON_GetObjectItem(self->call, "args"), 1);
    rql_error error = {0};
    rql_status status =
        rql_force_extend(self->client, calls_argument(self), (int64_t)add_ms->valuedouble, &error);
    cJSON *result;

    if (status < 0) {
        return calls_fault(status, &error);
    }
    result = cJSON_CreateObject();
    (void)cJSON_AddBoolToObject(result, "ok", status == RQL_OK);
    (void)cJSON_AddStringToObject(result, "result",
                                  status == RQL_OK ? "ttl_extended" : "async_expire_or_no_lock");
    return outcome_of(result);
}

cJSON *views_run(const struct run *self, const char *op)
{
    static const struct {
        const char *op;
        cJSON *(*run)(const struct run *self);
    } calls[] = {
        {"lock_info", lock_info},
        {"queue_info", queue_info},
        {"locks_info", locks_info},
        {"queues_info", queues_info},
        {"locks", locks},
        {"queues", queues},
        {"keys", keys},
        {"locked?", is_locked},
        {"queued?", is_queued},
        {"unlock", unlock},
        {"extend_lock_ttl", extend_lock_ttl},
    };

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (strcmp(calls[i].op, op) == 0) {
            return calls[i].run(self);
        }
    }
    return NULL;
}
