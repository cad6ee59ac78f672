#include "remote.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

/* Sweeps: "do": "sweep", with "of" one of all, owner (with "acq_id" and "hst_id"), current (with
 * "task") or dead; options by their fields' names. "wants" is what a name has to begin with. Where
 * "pauses_at" keys are done the sweep says so, and stands until the line "go_on"; at "stops_at" it
 * is stopped. */

struct sweep {
    const char *wants;
    int64_t id, pauses_at, stops_at;
    bool has_paused;
    cJSON *steps; /* what was found at each step, and done */
    cJSON *keys;  /* of what was swept */
};

/* One sweep at a time may stand. */
static sem_t may_go_on;

static void pause_here(struct sweep *self, int64_t done)
{
    cJSON *line = cJSON_CreateObject();

    self->has_paused = true;
    (void)sem_init(&may_go_on, 0, 0);
    (void)cJSON_AddNumberToObject(line, "pauses", (double)self->id);
    (void)cJSON_AddNumberToObject(line, "done", (double)done);
    say(line);
    while (sem_wait(&may_go_on)) { /* a signal came */
    }
    (void)sem_destroy(&may_go_on);
}

static bool on_progress(int64_t done, int64_t found, void *data)
{
    struct sweep *self = data;
    cJSON *step = cJSON_CreateArray();

    (void)cJSON_AddItemToArray(step, cJSON_CreateNumber((double)done));
    (void)cJSON_AddItemToArray(step, cJSON_CreateNumber((double)found));
    (void)cJSON_AddItemToArray(self->steps, step);
    if (self->pauses_at >= 0 && done >= self->pauses_at && !self->has_paused) {
        pause_here(self, done);
    }
    return self->stops_at < 0 || done < self->stops_at;
}

static bool wants(const char *name, void *data)
{
    const struct sweep *self = data;

    return strncmp(name, self->wants, strlen(self->wants)) == 0;
}

static void on_swept(const char *key, void *data)
{
    struct sweep *self = data;

    (void)cJSON_AddItemToArray(self->keys, cJSON_CreateString(key));
}

static rql_sweep_options options_in(const rql_client *client, const cJSON *words,
                                    struct sweep *sweep)
{
    rql_sweep_options options;

    rql_sweep_options_init(client, &options);
    options.batch_size = number_or(words, "batch_size", options.batch_size);
    options.lock_scan_size = number_or(words, "lock_scan_size", options.lock_scan_size);
    options.queue_scan_size = number_or(words, "queue_scan_size", options.queue_scan_size);
    options.dead_ttl_ms = number_or(words, "dead_ttl_ms", options.dead_ttl_ms);
    options.dry_run = is_set(words, "dry_run");
    options.wants = sweep->wants ? wants : NULL;
    options.on_swept = on_swept;
    options.on_progress = on_progress;
    options.user_data = sweep;
    return options;
}

static void add_counts(cJSON *reply, const rql_sweep_result *result)
{
    const struct number counts[] = {
        {"rel_key_cnt", result->released},     {"tch_queue_cnt", result->queues},
        {"rem_request_cnt", result->requests}, {"handed_over_cnt", result->handed_over},
        {"foreign_key_cnt", result->foreign},  {"rel_time_us", result->duration_us},
    };

    add_numbers(reply, counts, sizeof counts / sizeof counts[0]);
}

rql_status sweep(struct call *call)
{
    const cJSON *words = call->words;
    rql_client *client = call->client;
    const char *of = text_in(words, "of");
    struct sweep self = {.wants = text_or(words, "wants", NULL),
                         .id = number_or(words, "id", 0),
                         .pauses_at = number_or(words, "pauses_at", -1),
                         .stops_at = number_or(words, "stops_at", -1),
                         .steps = cJSON_CreateArray(),
                         .keys = cJSON_CreateArray()};
    const rql_sweep_options options = options_in(client, words, &self);
    rql_sweep_result result;
    rql_text_list *queues = NULL;
    rql_status status;

    rql_result_init(&result);
    result.duration_us = -1;
    if (strcmp(of, "all") == 0) {
        status = rql_locks_clear(client, &options, &result, &call->error);
    } else if (strcmp(of, "owner") == 0) {
        const rql_sweep_owner owner = {text_or(words, "acq_id", NULL),
                                       text_or(words, "hst_id", NULL)};

        status = rql_locks_clear_of(client, &owner, &options, &result, &call->error);
    } else if (strcmp(of, "current") == 0) {
        char acq_id[RQL_ID_SIZE];
        char hst_id[RQL_ID_SIZE];
        const rql_sweep_owner owner = {
            rql_client_acquirer_id(client, (uint64_t)number_or(words, "task", 0), acq_id),
            rql_client_host_id(client, hst_id)};

        status = rql_locks_clear_of(client, &owner, &options, &result, &call->error);
    } else if (strcmp(of, "dead") == 0) {
        status = rql_requests_clear_dead(client, &options, &result, &queues, &call->error);
    } else {
        wrong(words, "of");
    }
    add_counts(call->reply, &result);
    (void)cJSON_AddItemToObject(call->reply, "queues", texts_of(queues));
    (void)rql_free(queues);
    (void)cJSON_AddItemToObject(call->reply, "steps", self.steps);
    (void)cJSON_AddItemToObject(call->reply, "keys", self.keys);
    return status;
}

/* "do": "drain_host": what the host of this name or id holds, and whether it was asked. */
rql_status drain_host(struct call *call)
{
    rql_hold_list *list = NULL;
    const rql_status status =
        rql_host_drain(call->client, text_or(call->words, "host", NULL),
                       number_or(call->words, "within_ms", 0), &list, &call->error);
    cJSON *holds = cJSON_AddArrayToObject(call->reply, "holds");

    for (size_t i = 0; list && i < list->count; i++) {
        const rql_hold_info *info = list->item[i];
        cJSON *hold = cJSON_CreateObject();

        (void)cJSON_AddStringToObject(hold, "name", info->name);
        (void)cJSON_AddStringToObject(hold, "acq_id", info->holder->acquirer_id);
        (void)cJSON_AddNumberToObject(hold, "token", (double)info->holder->token);
        (void)cJSON_AddBoolToObject(hold, "is_asked", info->is_asked);
        (void)cJSON_AddItemToArray(holds, hold);
    }
    (void)rql_free(list);
    return status;
}

rql_status go_on(struct call *call)
{
    (void)call;
    (void)sem_post(&may_go_on);
    return RQL_OK;
}
