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

rql_status end_block(struct call *call)
{
    struct stay *block = take_object(A_BLOCK, call->words, "lock");

    block->value = (int)number_or(call->words, "value", 0);
    if (block->hold) {
        (void)rql_hold_end(block->hold, block->value);
    } else {
        (void)sem_post(&block->may_end);
    }
    return RQL_OK;
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

/* Runs one of the two under the line's locks, and says its value. */
static rql_status run_under(struct call *call, rql_block *of_lock, rql_series_block *of_series)
{
    struct hold hold = {.lock = NULL};
    struct settings settings;
    rql_refusal refusal = {0};
    rql_status status;

    read_settings(call->client, call->words, &settings);
    settings.lock.refusal = &refusal;
    settings.series.result = &hold.result;
    status =
        settings.is_series
            ? rql_with_series(call->client, &settings.series, of_series, &call->error)
            : rql_with_lock(call->client, settings.names[0], &settings.lock, of_lock, &call->error);
    (void)cJSON_AddNumberToObject(call->reply, "value",
                                  settings.is_series ? of_series->value : of_lock->value);
    add_result(call->reply, &hold);
    end_refusal(call->reply, status, &refusal);
    return status;
}

rql_status run_block(struct call *call)
{
    struct block self = {.words = call->words};
    rql_block of_lock = {.run = run_under_lock, .user_data = &self};
    rql_series_block of_series = {.run = run_under_series, .user_data = &self};

    return run_under(call, &of_lock, &of_series);
}

/* {"do": "with", "as": "a", "names": ["x"]}: within the block the thread of the actor does what it
 * is told, until {"do": "leave"}. */

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

rql_status run_with(struct call *call)
{
    rql_block of_lock = {.run = work_under_lock, .user_data = call->actor};
    rql_series_block of_series = {.run = work_under_series, .user_data = call->actor};

    return run_under(call, &of_lock, &of_series);
}
