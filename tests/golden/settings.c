#include "golden.h"

#include <stdlib.h>

/* The gem's calls about ids and configuration. */

/* Keys of the gem's configuration, the library's options, and how many of ours are one of theirs.
 */
static const struct {
    const char *key;
    const char *option;
    int64_t factor;
} options[] = {
    {"retry_count", "retry_count", 1},
    {"retry_delay", "retry_delay_ms", 1},
    {"retry_jitter", "retry_jitter_ms", 1},
    {"try_to_lock_timeout", "try_to_lock_timeout_ms", 1000},
    {"default_lock_ttl", "default_lock_ttl_ms", 1},
    {"default_queue_ttl", "default_queue_ttl_ms", 1000},
    {"detailed_acq_timeout_error", "detailed_acq_timeout_error", 1},
    {"is_timed_by_default", "is_timed_by_default", 1},
    {"default_conflict_strategy", "default_conflict_strategy", 1},
    {"default_access_strategy", "default_access_strategy", 1},
    {"key_extraction_batch_size", "key_extraction_batch_size", 1},
    {"lock_release_batch_size", "lock_release_batch_size", 1},
    {"clear_locks_of__lock_scan_size", "clear_locks_of_lock_scan_size", 1},
    {"clear_locks_of__queue_scan_size", "clear_locks_of_queue_scan_size", 1},
    {"dead_request_ttl", "dead_request_ttl_ms", 1},
    {"log_lock_try", "log_lock_try", 1},
    {"log_sampling_enabled", "log_sampling_enabled", 1},
    {"log_sampling_percent", "log_sampling_percent", 1},
    {"instr_sampling_enabled", "instr_sampling_enabled", 1},
    {"instr_sampling_percent", "instr_sampling_percent", 1},
};

static cJSON *text_outcome(const char *text)
{
    cJSON *outcome = cJSON_CreateObject();

    (void)cJSON_AddStringToObject(outcome, "result", text);
    return outcome;
}

static const rql_option_row *row_of(const char *option)
{
    const rql_option_row *row;

    for (size_t i = 0; (row = rql_option_row_at(i)) != NULL; i++) {
        if (strcmp(row->name, option) == 0) {
            return row;
        }
    }
    return NULL;
}

/* The default as the gem has it: a number, a truth or a word. */
static cJSON *default_of(const rql_option_row *row, int64_t factor)
{
    char *end = NULL;
    long long number = strtoll(row->default_value, &end, 10);

    if (*end == '\0' && end != row->default_value) {
        return cJSON_CreateNumber((double)number / (double)factor);
    }
    if (strcmp(row->default_value, "true") == 0 || strcmp(row->default_value, "false") == 0) {
        return cJSON_CreateBool(row->default_value[0] == 't');
    }
    return cJSON_CreateString(row->default_value);
}

static cJSON *config_all(void)
{
    cJSON *outcome = cJSON_CreateObject();
    cJSON *result = cJSON_AddObjectToObject(outcome, "result");

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        const rql_option_row *row = row_of(options[i].option);

        if (row) {
            (void)cJSON_AddItemToObject(result, options[i].key, default_of(row, options[i].factor));
        }
    }
    return outcome;
}

/* nil means no limit; fractions stay what they are. */
static void text_of(const cJSON *value, int64_t factor, char out[64])
{
    if (cJSON_IsNull(value)) {
        (void)snprintf(out, 64, "forever");
    } else if (cJSON_IsNumber(value) && factor == 1) {
        (void)snprintf(out, 64, "%.15g", value->valuedouble);
    } else if (cJSON_IsNumber(value)) {
        (void)snprintf(out, 64, "%.15g", value->valuedouble * (double)factor);
    } else {
        (void)snprintf(out, 64, "%s", cJSON_IsString(value) ? value->valuestring : "");
    }
}

static cJSON *config_set(const struct run *self)
{
    const cJSON *args = cJSON_GetObjectItem(self->call, "args");
    const char *key = calls_argument(self);
    rql_options changed;
    rql_status status;
    char text[64];
    cJSON *outcome;

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        if (strcmp(options[i].key, key) != 0) {
            continue;
        }
        rql_options_init(&changed);
        text_of(cJSON_GetArrayItem(args, 1), options[i].factor, text);
        status = rql_options_set(&changed, options[i].option, text, NULL);
        if (status) {
            return calls_error("RedisQueuedLocks::ConfigValidationError", NULL);
        }
        outcome = cJSON_CreateObject();
        (void)cJSON_AddItemToObject(outcome, "result",
                                    cJSON_Duplicate(cJSON_GetArrayItem(args, 1), true));
        return outcome;
    }
    rql_options_init(&changed);
    status = rql_options_set(&changed, key, "1", NULL);
    return status ? calls_error("RedisQueuedLocks::ConfigNotFoundError", NULL)
                  : text_outcome("set");
}

/* One host id a thread: how many this process has at the moment is its own affair. */
static bool is_of_other_thread(const char *host, const char *current)
{
    const char *identity = strrchr(current, '/');

    return strcmp(host, current) != 0 && strrchr(host, '/') &&
           strcmp(strrchr(host, '/'), identity) == 0;
}

static cJSON *possible_host_ids(const struct run *self)
{
    char current[RQL_ID_SIZE];
    rql_text_list *list = NULL;
    rql_error error = {0};
    rql_status status = rql_possible_host_ids(self->client, &list, &error);
    cJSON *outcome;
    cJSON *result;

    if (status) {
        return calls_fault(status, &error);
    }
    outcome = cJSON_CreateObject();
    result = cJSON_AddArrayToObject(outcome, "result");
    (void)rql_current_host_id(self->client, current);
    for (size_t i = 0; i < list->count; i++) {
        if (!is_of_other_thread(list->item[i], current)) {
            (void)cJSON_AddItemToArray(result, cJSON_CreateString(list->item[i]));
        }
    }
    (void)rql_text_list_free(list);
    return outcome;
}

cJSON *settings_run(const struct run *self, const char *op)
{
    char id[RQL_ID_SIZE];
    uint64_t task = cJSON_HasObjectItem(self->call, "fiber") ? 1 : 0;

    if (strcmp(op, "current_acquirer_id") == 0) {
        return text_outcome(rql_current_acquirer_id(self->client, task, id));
    }
    if (strcmp(op, "current_host_id") == 0) {
        return text_outcome(rql_current_host_id(self->client, id));
    }
    if (strcmp(op, "uniq_identity") == 0) {
        return text_outcome(rql_client_identity(self->client));
    }
    if (strcmp(op, "possible_host_ids") == 0) {
        return possible_host_ids(self);
    }
    if (strcmp(op, "config_all") == 0) {
        return config_all();
    }
    return strcmp(op, "config_set") == 0 ? config_set(self) : NULL;
}
