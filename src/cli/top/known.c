#include "known.h"

#include "cost.h"
#include "format.h"

#include <stdlib.h>
#include <string.h>

/* PASS_SPARING: the server works for passes at most one part of so many. */
enum { PASS_EVERY_MS = 10000, PASS_SPARING = 100 };

/* Keeps the names in the keys. A lock and its queue have the same. */
static void take(struct top_known *self, rql_text_list *keys, const char *glob)
{
    size_t count = 0;

    (void)rql_free(self->keys);
    free(self->names);
    self->keys = keys;
    self->names = cli_must(calloc(keys->count + 1, sizeof *self->names));
    for (size_t i = 0; i < keys->count; i++) {
        const char *name = cli_name_of_key(keys->item[i]);

        if (cli_glob_matches(glob, name)) {
            self->names[count++] = name;
        }
    }
    if (count > 1) {
        qsort(self->names, count, sizeof *self->names, cli_compare_texts);
    }
    self->count = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(self->names[i], self->names[self->count - 1]) != 0) {
            self->names[self->count++] = self->names[i];
        }
    }
}

rql_status top_known_update(struct top_known *self, struct cli_session *session, rql_error *error)
{
    const int64_t begun_ms = cli_now_ms();
    rql_text_list *keys = NULL;
    struct top_cost cost;
    rql_status status;
    int64_t pause_ms;

    if (self->keys && begun_ms < self->next_ms) {
        return RQL_OK;
    }
    cost = top_cost_begin(session->client);
    status = rql_keys_list(session->client, &keys, error);
    if (status == RQL_OK) {
        take(self, keys, session->args->name);
        pause_ms = PASS_SPARING * top_cost_end(&cost, session->client);
        self->next_ms = begun_ms + (pause_ms > PASS_EVERY_MS ? pause_ms : PASS_EVERY_MS);
    }
    return status;
}

void top_known_free_p(struct top_known *self)
{
    (void)rql_free(self->keys);
    free(self->names);
    *self = (struct top_known){.count = 0};
}
