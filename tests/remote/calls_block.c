#include "remote.h"

/* "do": "with": a block that runs under a lock or a series. Meanwhile its thread does what it is
 * told, until "leave". */

static int in_lock(rql_lock *lock, void *actor)
{
    (void)lock;
    (void)actor_work(actor);
    return 0;
}

static int in_series(rql_series *series, void *actor)
{
    (void)series;
    (void)actor_work(actor);
    return 0;
}

void run_block(struct actor *actor, cJSON *words)
{
    rql_client *client = actor_client(actor);
    rql_block block = {.run = in_lock, .user_data = actor};
    rql_series_block series_block = {.run = in_series, .user_data = actor};
    struct hold hold = {.lock = NULL};
    struct settings settings;
    rql_refusal refusal = {0};
    rql_error error = {0};
    rql_status status;
    cJSON *reply;

    read_settings(client, words, &settings);
    settings.lock.refusal = &refusal;
    settings.series.result = &hold.result;
    status = settings.is_series
                 ? rql_with_series(client, &settings.series, &series_block, &error)
                 : rql_with_lock(client, settings.names[0], &settings.lock, &block, &error);
    reply = answer_to(words, status, &error);
    add_result(reply, &hold);
    if (status > 0) {
        add_refusal(reply, &refusal);
    }
    rql_refusal_clear(&refusal);
    say(reply);
    cJSON_Delete(words);
}
