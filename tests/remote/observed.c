#include "remote.h"

#include <stdlib.h>
#include <unistd.h>

/* What a client tells of itself: events, log lines, statistics. */

int64_t this_thread(void)
{
    return gettid();
}

static void add_texts(cJSON *line, const rql_event *event)
{
    cJSON *keys = cJSON_AddArrayToObject(line, "lock_keys");

    add_text(line, "lock_key", event->lock_key);
    add_text(line, "lock_queue", event->lock_queue);
    add_text(line, "acq_id", event->acq_id);
    add_text(line, "hst_id", event->hst_id);
    add_text(line, "instrument", event->instrument);
    add_text(line, "element", event->element);
    add_text(line, "server", event->server);
    add_text(line, "master", event->master);
    for (size_t i = 0; i < event->n_lock_keys; i++) {
        (void)cJSON_AddItemToArray(keys, cJSON_CreateString(event->lock_keys[i]));
    }
}

static void add_figures(cJSON *line, const rql_event *event)
{
    const struct number numbers[] = {
        {"status", event->status},
        {"ttl_ms", event->ttl_ms},
        {"ts_us", event->ts_us},
        {"acq_time_us", event->acq_time_us},
        {"hold_time_us", event->hold_time_us},
        {"rel_time_us", event->rel_time_us},
        {"rel_key_cnt", event->rel_key_cnt},
        {"tch_queue_cnt", event->tch_queue_cnt},
        {"at_us", event->at_us},
        {"token", event->token},
        {"server_token", event->server_token},
        {"share_units", event->share_units},
        {"host_cnt", event->host_cnt},
        {"rem_request_cnt", event->rem_request_cnt},
        {"handed_over_cnt", event->handed_over_cnt},
    };

    add_numbers(line, numbers, sizeof numbers / sizeof numbers[0]);
}

void say_event(const rql_event *event, void *client)
{
    cJSON *line = cJSON_CreateObject();

    (void)cJSON_AddStringToObject(line, "event", event->name);
    (void)cJSON_AddStringToObject(line, "client", client);
    (void)cJSON_AddNumberToObject(line, "thread", (double)this_thread());
    add_texts(line, event);
    add_figures(line, event);
    say(line);
}

void say_log_line(const rql_log_record *record, void *client)
{
    cJSON *line = cJSON_CreateObject();
    char text[1024];

    (void)rql_log_text(record, text, sizeof text);
    (void)cJSON_AddStringToObject(line, "log", text);
    (void)cJSON_AddStringToObject(line, "line", record->name);
    (void)cJSON_AddStringToObject(line, "client", client);
    say(line);
}

/* Each member of what rql_stats_json() writes, and all of it as OpenMetrics. */
void add_stats(cJSON *reply, const rql_stats *stats)
{
    char text[RQL_STATS_TEXT_SIZE];
    cJSON *all;

    (void)rql_stats_openmetrics(stats, text, sizeof text);
    (void)cJSON_AddStringToObject(reply, "openmetrics", text);
    (void)rql_stats_json(stats, text, sizeof text);
    all = cJSON_Parse(text);
    while (all && all->child) {
        cJSON *one = cJSON_DetachItemViaPointer(all, all->child);

        (void)cJSON_AddItemToObject(reply, one->string, one);
    }
    cJSON_Delete(all);
}
