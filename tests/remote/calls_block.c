#include "remote.h"

/* Blocks: {"do": "block", "as": "a", "lock": "b", "names": ["x"]} says {"runs": "b"} when it has
 * its locks. Within the block a thread performs further calls, until {"do": "leave", "as": "a",
 * "value": 7}; a loop ends the block with {"do": "end_block", "lock": "b", "value": 7}. */

void say_running(const cJSON *words)
{
    cJSON *line = cJSON_CreateObject();

    (void)cJSON_AddStringToObject(line, "runs", text_in(words, "lock"));
    say(line);
}

/* On a loop. */
rql_status end_block(struct call *call)
{
    rql_hold *hold = take_object(A_BLOCK, call->words, "lock");

    return rql_hold_end(hold, (int)number_or(call->words, "value", 0));
}

static int work_under_lock(rql_lock *lock, void *data)
{
    const struct call *call = data;
    int value = 0;

    (void)lock;
    say_running(call->words);
    (void)actor_work(call->actor, &value);
    return value;
}

static int work_under_series(rql_series *series, void *data)
{
    (void)series;
    return work_under_lock(NULL, data);
}

/* On a thread. */
rql_status run_block(struct call *call)
{
    rql_block of_lock = {.run = work_under_lock, .user_data = call};
    rql_series_block of_series = {.run = work_under_series, .user_data = call};
    struct hold hold = {.lock = NULL};
    struct settings settings;
    rql_refusal refusal;
    rql_status status;

    read_settings(call->client, call->words, &settings);
    rql_result_init(&refusal);
    rql_result_init(&hold.result);
    settings.lock.refusal = &refusal;
    settings.series.result = &hold.result;
    status =
        settings.is_series
            ? rql_series_run(call->client, &settings.series, &of_series, &call->error)
            : rql_lock_run(call->client, settings.names[0], &settings.lock, &of_lock, &call->error);
    (void)cJSON_AddNumberToObject(call->reply, "value",
                                  settings.is_series ? of_series.value : of_lock.value);
    add_result(call->reply, &hold);
    end_refusal(call->reply, status, &refusal);
    return status;
}
