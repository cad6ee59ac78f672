#include "golden.h"

/* lock_series and lock_series!: the library's series in the gem's mode. */

struct block {
    struct run *run;
    cJSON *nested;
};

struct names_of {
    const char *names[RQL_SERIES_MAX];
    size_t count;
};

static struct names_of read_names(const struct run *self)
{
    struct names_of names = {.count = 0};
    const cJSON *name;

    cJSON_ArrayForEach(name, cJSON_GetObjectItem(self->call, "args"))
    {
        names.names[names.count++] = name->valuestring;
    }
    return names;
}

static bool wants(const struct run *self, const char *option)
{
    return cJSON_IsTrue(cJSON_GetObjectItem(cJSON_GetObjectItem(self->call, "options"), option));
}

static cJSON *texts(const struct names_of *names, const char *prefix)
{
    cJSON *list = cJSON_CreateArray();
    char text[GOLDEN_TEXT_SIZE];

    for (size_t i = 0; i < names->count; i++) {
        (void)snprintf(text, sizeof text, "%s%s", prefix, names->names[i]);
        (void)cJSON_AddItemToArray(list, cJSON_CreateString(text));
    }
    return list;
}

/* As the gem reports a series that failed. A name that was got is not missing, also if it was asked
 * for twice. */
static cJSON *refusal_of(const struct names_of *names, const rql_series_result *found,
                         cJSON *reason)
{
    cJSON *outcome = cJSON_CreateObject();
    cJSON *result = cJSON_AddObjectToObject(outcome, "result");
    cJSON *acquired = texts(&(struct names_of){.count = 0}, "");
    cJSON *missing = cJSON_CreateArray();
    cJSON *inner;

    for (size_t i = 0; i < found->n_acquired; i++) {
        (void)cJSON_AddItemToArray(acquired, cJSON_CreateString(names->names[i]));
    }
    for (size_t i = found->n_acquired; i < names->count; i++) {
        bool was_got = false;

        for (size_t j = 0; j < found->n_acquired; j++) {
            was_got = was_got || strcmp(names->names[i], names->names[j]) == 0;
        }
        if (!was_got) {
            (void)cJSON_AddItemToArray(missing, cJSON_CreateString(names->names[i]));
        }
    }
    (void)cJSON_AddBoolToObject(result, "ok", false);
    inner = cJSON_AddObjectToObject(result, "result");
    (void)cJSON_AddStringToObject(inner, "error", "failed_to_acquire_lock_series");
    (void)cJSON_AddItemToObject(cJSON_AddObjectToObject(inner, "detailed_errors"),
                                names->names[found->failed_on], reason);
    (void)cJSON_AddItemToObject(inner, "lock_series", texts(names, ""));
    (void)cJSON_AddItemToObject(inner, "acquired_locks", acquired);
    (void)cJSON_AddItemToObject(inner, "missing_locks", missing);
    (void)cJSON_AddStringToObject(inner, "failed_on_lock", names->names[found->failed_on]);
    return outcome;
}

static cJSON *failed(struct run *self, rql_status status, const rql_series_options *options,
                     const struct call_settings *settings, const rql_error *error)
{
    const char *op = cJSON_GetObjectItem(self->call, "op")->valuestring;
    bool raises = strcmp(op, "lock_series!") == 0 || wants(self, "raise_errors");
    const struct names_of names = read_names(self);
    cJSON *outcome = calls_refusal(status, raises, settings->refusal.message);
    cJSON *reason;

    if (!outcome) {
        return calls_fault(status, error);
    }
    if (raises) {
        return outcome;
    }
    reason = cJSON_DetachItemFromObject(outcome, "result");
    cJSON_Delete(outcome);
    return refusal_of(&names, options->result, reason);
}

static cJSON *detailed(const struct run *self, const rql_series_result *found, cJSON *value)
{
    static const char *const strategies[] = {"", "redis_key_ttl", "immediate_release_after_yield"};
    const struct names_of names = read_names(self);
    bool is_released = found->ending == RQL_SERIES_BY_RELEASE;
    cJSON *result = cJSON_CreateObject();

    (void)cJSON_AddItemToObject(result, "yield_result", value);
    (void)cJSON_AddStringToObject(result, "locks_release_strategy", strategies[found->ending]);
    (void)cJSON_AddNullToObject(result, "locks_released_at");
    (void)cJSON_AddNumberToObject(result, "locks_acq_time", (double)found->acq_time_us / 1000);
    (void)cJSON_AddItemToObject(result, "locks_hold_time",
                                is_released ? cJSON_CreateNumber((double)found->hold_time_us / 1000)
                                            : cJSON_CreateNull());
    (void)cJSON_AddItemToObject(result, "lock_series", texts(&names, ""));
    (void)cJSON_AddItemToObject(result, "rql_lock_series", texts(&names, "rql:lock:"));
    return result;
}

/* With detailed_result the value is only a part of the result. */
static cJSON *succeeded(const struct run *self, const rql_series_result *found, cJSON *outcome)
{
    cJSON *value;

    if (wants(self, "detailed_result") && !cJSON_HasObjectItem(outcome, "error")) {
        value = cJSON_DetachItemFromObject(outcome, "result");
        (void)cJSON_AddItemToObject(outcome, "result", detailed(self, found, value));
    }
    return outcome;
}

static int run_block(rql_series *series, void *data)
{
    struct block *self = data;

    (void)series;
    calls_play_block(self->run, self->nested);
    return 0;
}

static cJSON *run_with_block(struct run *self, const rql_series_options *options,
                             const struct call_settings *settings)
{
    struct block state = {.run = self, .nested = cJSON_CreateArray()};
    rql_series_block block = {.run = run_block, .user_data = &state};
    rql_error error = {0};
    rql_status status = rql_with_series(self->client, options, &block, &error);
    cJSON *outcome = status == RQL_OK ? succeeded(self, options->result, calls_block_outcome(self))
                                      : failed(self, status, options, settings, &error);

    calls_add_nested(outcome, state.nested);
    return outcome;
}

static cJSON *run_without_block(struct run *self, const rql_series_options *options,
                                const struct call_settings *settings)
{
    rql_series *series = NULL;
    rql_error error = {0};
    rql_status status = rql_series_acquire(self->client, options, &series, &error);
    cJSON *outcome;

    if (status) {
        return failed(self, status, options, settings, &error);
    }
    options->result->ending = RQL_SERIES_BY_TTL;
    (void)rql_series_forget(series);
    outcome = cJSON_CreateObject();
    (void)cJSON_AddNullToObject(outcome, "result");
    return succeeded(self, options->result, outcome);
}

cJSON *series_run(struct run *self)
{
    const struct names_of names = read_names(self);
    struct call_settings settings;
    rql_series_options options;
    rql_series_result found = {0};
    cJSON *outcome;

    calls_read(self, &settings);
    rql_series_options_init(&options);
    options.mode = RQL_SERIES_GEM;
    options.names = names.names;
    options.n_names = names.count;
    options.lock = &settings.options;
    options.result = &found;
    outcome = cJSON_HasObjectItem(self->call, "block")
                  ? run_with_block(self, &options, &settings)
                  : run_without_block(self, &options, &settings);
    rql_refusal_clear(&settings.refusal);
    return outcome;
}
