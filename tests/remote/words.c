#include "remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a line says, as the library's structs. */

const char *text_in(const cJSON *words, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(words, name));

    if (!text) {
        wrong(words, name);
    }
    return text;
}

const char *text_or(const cJSON *words, const char *name, const char *other)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(words, name));

    return text ? text : other;
}

int64_t number_or(const cJSON *words, const char *name, int64_t other)
{
    const cJSON *item = cJSON_GetObjectItem(words, name);

    return cJSON_IsNumber(item) ? (int64_t)item->valuedouble : other;
}

bool is_set(const cJSON *words, const char *name)
{
    return cJSON_IsTrue(cJSON_GetObjectItem(words, name));
}

void *field_in(void *options, const struct field *fields, size_t count, const cJSON *item)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(item->string, fields[i].name) == 0) {
            return (char *)options + fields[i].offset;
        }
    }
    return NULL;
}

/* A number is what it is: the library has to refuse one that is none of its values. */
static int index_of(const cJSON *item, const char *const *choices)
{
    if (cJSON_IsNumber(item)) {
        return item->valueint;
    }
    for (int i = 0; choices[i]; i++) {
        if (cJSON_IsString(item) && strcmp(item->valuestring, choices[i]) == 0) {
            return i;
        }
    }
    wrong(item, "not one of its values");
}

/* By the names of the fields. "forever" is no limit. A scenario begins with the gem's defaults,
 * with which nothing happens by itself: it says what is to be renewed, and what has no end. */
void read_client_options(const cJSON *words, rql_options *out)
{
    const cJSON *item;
    rql_error error;
    char number[32];

    rql_options_init_gem(out);
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(words, "options"))
    {
        const char *text = item->valuestring;

        if (cJSON_IsNumber(item)) {
            (void)snprintf(number, sizeof number, "%.0f", item->valuedouble);
            text = number;
        } else if (cJSON_IsBool(item)) {
            text = cJSON_IsTrue(item) ? "true" : "false";
        }
        if (rql_options_set(out, item->string, text, &error) != RQL_OK) {
            wrong(words, error.message);
        }
    }
}

static const struct field numbers[] = {
    {"ttl_ms", offsetof(rql_lock_options, ttl_ms)},
    {"queue_ttl_ms", offsetof(rql_lock_options, queue_ttl_ms)},
    {"timeout_ms", offsetof(rql_lock_options, timeout_ms)},
    {"retry_count", offsetof(rql_lock_options, retry_count)},
    {"retry_delay_ms", offsetof(rql_lock_options, retry_delay_ms)},
    {"retry_jitter_ms", offsetof(rql_lock_options, retry_jitter_ms)},
    {"max_hold_ms", offsetof(rql_lock_options, max_hold_ms)},
    {"hold_at_least_ms", offsetof(rql_lock_options, hold_at_least_ms)},
    {"max_waiters", offsetof(rql_lock_options, max_waiters)},
    {"head_start_ms", offsetof(rql_lock_options, head_start_ms)},
    {"share_units", offsetof(rql_lock_options, share_units)},
    {"share_limit", offsetof(rql_lock_options, share_limit)},
    {"replicas", offsetof(rql_lock_options, replicas)},
    {"replica_timeout_ms", offsetof(rql_lock_options, replica_timeout_ms)},
};

static const struct field truths[] = {
    {"fail_fast", offsetof(rql_lock_options, fail_fast)},
    {"timed", offsetof(rql_lock_options, timed)},
    {"nested", offsetof(rql_lock_options, nested)},
    {"auto_extend", offsetof(rql_lock_options, auto_extend)},
    {"lazy_release", offsetof(rql_lock_options, lazy_release)},
    {"share_slots", offsetof(rql_lock_options, share_slots)},
    {"fsync", offsetof(rql_lock_options, fsync)},
    {"durability_is_advice", offsetof(rql_lock_options, durability_is_advice)},
    {"detailed_acq_timeout_error", offsetof(rql_lock_options, detailed_acq_timeout_error)},
    {"log_lock_try", offsetof(rql_lock_options, log_lock_try)},
    {"log_sample_this", offsetof(rql_lock_options, log_sample_this)},
    {"instr_sample_this", offsetof(rql_lock_options, instr_sample_this)},
};

static void set_meta(struct settings *out, const cJSON *meta)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, meta)
    {
        if (out->lock.n_meta == META_MAX || !cJSON_IsString(item)) {
            wrong(meta, "metadata");
        }
        out->meta[out->lock.n_meta++] = (rql_meta){item->string, item->valuestring};
    }
    out->lock.meta = out->meta;
}

static void set_option(struct settings *out, const cJSON *item)
{
    static const char *const access[] = {"queued", "random", NULL};
    static const char *const conflict[] = {"wait_for_lock", "work_through",
                                           "extendable_work_through", "dead_locking", NULL};
    static char marked[] = "marked";
    static const char *const mode[] = {"atomic", "gem", "sorted", NULL};

    int64_t *number = field_in(&out->lock, numbers, sizeof numbers / sizeof numbers[0], item);
    bool *truth = field_in(&out->lock, truths, sizeof truths / sizeof truths[0], item);

    if (number) {
        *number = cJSON_IsNumber(item) ? (int64_t)item->valuedouble : RQL_FOREVER;
    } else if (truth) {
        *truth = cJSON_IsTrue(item);
    } else if (strcmp(item->string, "access_strategy") == 0) {
        out->lock.access_strategy = (rql_access_strategy)index_of(item, access);
    } else if (strcmp(item->string, "conflict_strategy") == 0) {
        out->lock.conflict_strategy = (rql_conflict_strategy)index_of(item, conflict);
    } else if (strcmp(item->string, "task") == 0) {
        out->lock.task = (uint64_t)item->valuedouble;
    } else if (strcmp(item->string, "instrument") == 0) {
        out->lock.instrument = marked; /* a text: events say it */
    } else if (strcmp(item->string, "meta") == 0) {
        set_meta(out, item);
    } else if (strcmp(item->string, "traceparent") == 0) {
        out->lock.traceparent = item->valuestring;
    } else if (strcmp(item->string, "mode") == 0) {
        out->series.mode = (rql_series_mode)index_of(item, mode);
    } else {
        wrong(item, "no such option");
    }
}

/* One name is a lock, several are a series; "series": true makes one name a series as well. */
void read_settings(const rql_client *client, const cJSON *words, struct settings *out)
{
    const cJSON *item;

    *out = (struct settings){.is_series = is_set(words, "series")};
    rql_lock_options_init(client, &out->lock);
    rql_series_options_init(&out->series);
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(words, "names"))
    {
        if (out->series.n_names == NAMES_MAX || !cJSON_IsString(item)) {
            wrong(words, "names");
        }
        out->names[out->series.n_names++] = item->valuestring;
    }
    if (out->series.n_names == 0 && !out->is_series) {
        wrong(words, "names");
    }
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(words, "options"))
    {
        set_option(out, item);
    }
    out->is_series = out->is_series || out->series.n_names > 1;
    out->series.names = out->names;
    out->series.lock = &out->lock;
}
