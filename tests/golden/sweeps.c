#include "golden.h"

/* The gem's calls that clear many locks and requests. */

static cJSON *outcome_of(cJSON **result_out)
{
    cJSON *outcome = cJSON_CreateObject();
    cJSON *result = cJSON_AddObjectToObject(outcome, "result");

    (void)cJSON_AddBoolToObject(result, "ok", true);
    *result_out = cJSON_AddObjectToObject(result, "result");
    return outcome;
}

static const char *id_of(const struct run *self, const char *name)
{
    const cJSON *id = cJSON_GetObjectItem(cJSON_GetObjectItem(self->call, "options"), name);

    return id ? names_replayed_id(&self->world->names, id->valuestring) : NULL;
}

static void read_options(const struct run *self, rql_sweep_options *out)
{
    const struct {
        const char *name;
        int64_t *field;
    } numbers[] = {
        {"batch_size", &out->batch_size},
        {"scan_size", &out->batch_size},
        {"dead_ttl", &out->dead_ttl_ms},
        {"lock_scan_size", &out->lock_scan_size},
        {"queue_scan_size", &out->queue_scan_size},
    };

    const cJSON *options = cJSON_GetObjectItem(self->call, "options");

    rql_sweep_options_init(self->client, out);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const cJSON *value = cJSON_GetObjectItem(options, numbers[i].name);

        if (value) {
            *numbers[i].field = (int64_t)value->valuedouble;
        }
    }
}

static cJSON *counts_of(const rql_sweep_result *found, bool has_queues)
{
    cJSON *result;
    cJSON *outcome = outcome_of(&result);

    (void)cJSON_AddNumberToObject(result, "rel_key_cnt", (double)found->rel_key_cnt);
    if (has_queues) {
        (void)cJSON_AddNumberToObject(result, "tch_queue_cnt", (double)found->tch_queue_cnt);
    }
    (void)cJSON_AddNumberToObject(result, "rel_time", (double)found->rel_time_us / 1000);
    return outcome;
}

static cJSON *clear_locks(const struct run *self)
{
    rql_sweep_options options;
    rql_sweep_result found;
    rql_error error = {0};
    rql_status status;

    read_options(self, &options);
    status = rql_clear_locks(self->client, &options, &found, &error);
    return status ? calls_fault(status, &error) : counts_of(&found, false);
}

static cJSON *clear_locks_of(const struct run *self)
{
    const rql_sweep_owner owner = {id_of(self, "acquirer_id"), id_of(self, "host_id")};
    rql_sweep_options options;
    rql_sweep_result found;
    rql_error error = {0};
    rql_status status;

    read_options(self, &options);
    status = rql_clear_locks_of(self->client, &owner, &options, &found, &error);
    return status ? calls_fault(status, &error) : counts_of(&found, true);
}

static cJSON *clear_current_locks(const struct run *self)
{
    rql_sweep_options options;
    rql_sweep_result found;
    rql_error error = {0};
    rql_status status;

    read_options(self, &options);
    status = rql_clear_current_locks(self->client, 0, &options, &found, &error);
    return status ? calls_fault(status, &error) : counts_of(&found, true);
}

static cJSON *clear_dead_requests(const struct run *self)
{
    rql_sweep_options options;
    rql_text_list *queues = NULL;
    rql_error error = {0};
    rql_status status;
    cJSON *result;
    cJSON *outcome;
    cJSON *list;

    read_options(self, &options);
    status = rql_clear_dead_requests(self->client, &options, NULL, &queues, &error);
    if (status) {
        return calls_fault(status, &error);
    }
    outcome = outcome_of(&result);
    list = cJSON_AddArrayToObject(result, "processed_queues");
    for (size_t i = 0; i < queues->count; i++) {
        views_add_sorted(list, cJSON_CreateString(queues->item[i]), queues->item[i], NULL);
    }
    (void)rql_text_list_free(queues);
    return outcome;
}

cJSON *sweeps_run(const struct run *self, const char *op)
{
    static const struct {
        const char *op;
        cJSON *(*run)(const struct run *self);
    } calls[] = {
        {"clear_locks", clear_locks},
        {"release_locks", clear_locks},
        {"clear_locks_of", clear_locks_of},
        {"clear_current_locks", clear_current_locks},
        {"release_current_locks", clear_current_locks},
        {"clear_dead_requests", clear_dead_requests},
    };

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (strcmp(calls[i].op, op) == 0) {
            return calls[i].run(self);
        }
    }
    return NULL;
}
