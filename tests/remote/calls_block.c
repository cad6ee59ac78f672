#include "remote.h"

#include <stdio.h>
#include <stdlib.h>

/* Blocks: {"do": "block", "as": "a", "lock": "b", "names": ["x"]} says {"runs": "b"} when it has
 * its locks, and runs until {"do": "end_block", "lock": "b", "value": 7}. */

void stay_begin(struct stay *self, const cJSON *words, rql_hold *hold)
{
    cJSON *line = cJSON_CreateObject();

    self->hold = hold;
    (void)sem_init(&self->may_end, 0, 0);
    add_object(A_BLOCK, words, "lock", self);
    (void)cJSON_AddStringToObject(line, "runs", text_in(words, "lock"));
    say(line);
}

void end_block(cJSON *words)
{
    struct stay *block = take_object(A_BLOCK, words, "lock");

    block->value = (int)number_or(words, "value", 0);
    if (block->hold) {
        (void)rql_hold_end(block->hold, block->value);
    } else {
        (void)sem_post(&block->may_end);
    }
    answer(words, RQL_OK, NULL);
}

/* On a thread. */
struct block {
    struct stay stay;
    const cJSON *words;
};

static int stay(struct block *self)
{
    stay_begin(&self->stay, self->words, NULL);
    while (sem_wait(&self->stay.may_end)) { /* a signal came */
    }
    (void)sem_destroy(&self->stay.may_end);
    return self->stay.value;
}

static int run_under_lock(rql_lock *lock, void *data)
{
    (void)lock;
    return stay(data);
}

static int run_under_series(rql_series *series, void *data)
{
    (void)series;
    return stay(data);
}

void run_block(rql_client *client, cJSON *words)
{
    struct block self = {.words = words};
    rql_block of_lock = {.run = run_under_lock, .user_data = &self};
    rql_series_block of_series = {.run = run_under_series, .user_data = &self};
    struct hold *hold = hold_new(words);
    struct settings settings;
    rql_error error = {0};
    rql_status status;
    cJSON *reply;

    read_settings(client, words, &settings);
    settings.series.result = &hold->result;
    status = settings.is_series
                 ? rql_with_series(client, &settings.series, &of_series, &error)
                 : rql_with_lock(client, settings.names[0], &settings.lock, &of_lock, &error);
    reply = answer_to(words, status, &error);
    (void)cJSON_AddNumberToObject(reply, "value",
                                  settings.is_series ? of_series.value : of_lock.value);
    add_result(reply, hold);
    free(hold);
    say(reply);
    cJSON_Delete(words);
}

/* {"do": "with", "as": "a", "names": ["x"]}: within the block the thread of the actor does what it
 * is told, until
 * {"do": "leave"}. */

static int work_under_lock(rql_lock *lock, void *actor)
{
    (void)lock;
    (void)actor_work(actor);
    return 0;
}

static int work_under_series(rql_series *series, void *actor)
{
    (void)series;
    (void)actor_work(actor);
    return 0;
}

void run_with(struct actor *actor, cJSON *words)
{
    rql_client *client = actor_client(actor);
    rql_block block = {.run = work_under_lock, .user_data = actor};
    rql_series_block series_block = {.run = work_under_series, .user_data = actor};
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
