#include "sweep.h"

#include "glob.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAUSE_MS = 100 };

static bool show_progress(int64_t done, int64_t found, void *user_data)
{
    struct cli_sweep *self = user_data;
    const int64_t now_ms = cli_now_ms();

    if (now_ms >= self->next_ms) {
        self->next_ms = now_ms + PAUSE_MS;
        self->has_line = true;
        (void)fprintf(stderr, "\rrql: %lld of %lld keys ", (long long)done, (long long)found);
        (void)fflush(stderr);
    }
    return true;
}

static bool is_wanted(const char *name, void *user_data)
{
    const struct cli_sweep *self = user_data;

    return cli_glob_matches(self->args, name);
}

static void note_swept(const char *key, void *user_data)
{
    struct cli_sweep *self = user_data;

    if (self->args->json) {
        cli_table_add_raw(&self->named, key);
    } else {
        cli_table_add(&self->named, key);
    }
}

void cli_sweep_init(struct cli_sweep *self, const struct cli_args *args, const rql_client *client)
{
    *self = (struct cli_sweep){.args = args, .next_ms = cli_now_ms() + PAUSE_MS};
    rql_sweep_options_init(client, &self->options);
    self->options.dry_run = args->dry_run;
    if (args->older_than_ms != CLI_UNSET) {
        self->options.dead_ttl_ms = args->older_than_ms;
    }
    self->options.user_data = self;
    self->options.wants = is_wanted;
    self->named.n_columns = 1;
    if (args->dry_run) {
        self->options.on_swept = note_swept;
    }
    if (isatty(STDERR_FILENO) == 1) {
        self->options.on_progress = show_progress;
    }
}

void cli_sweep_fini_p(struct cli_sweep *self)
{
    cli_table_fini_p(&self->named);
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

bool cli_sweep_is_meant(const struct cli_args *args, const char *command)
{
    if (args->force == args->dry_run) {
        cli_say("%s: one of --dry-run and --force is needed; see rql %s --help", command, command);
    }
    return args->force != args->dry_run;
}

static bool has_done_something(const rql_sweep_result *result)
{
    return result->rel_key_cnt > 0 || result->rem_request_cnt > 0;
}

int cli_sweep_end(struct cli_sweep *self)
{
    if (self->has_line) {
        (void)fputs("\r                                                    \r", stderr);
    }
    if (self->named.n_cells > 1) {
        qsort(self->named.cells, self->named.n_cells, sizeof self->named.cells[0], compare_keys);
    }
    self->shows = self->error.status == RQL_OK || has_done_something(&self->result);
    return self->error.status == RQL_OK ? CLI_DONE : cli_fault(&self->error);
}

static void add_named(cJSON *root, const struct cli_table *named)
{
    cJSON *array = cli_json_array();

    for (size_t i = 0; i < named->n_cells; i++) {
        cli_json_append(array, cli_json_text(named->cells[i]));
    }
    cli_json_add(root, "keys", array);
}

cJSON *cli_sweep_to_json(const struct cli_sweep *self)
{
    const rql_sweep_result *result = &self->result;
    cJSON *root = cli_json_object();

    cli_json_add_bool(root, "dry_run", self->options.dry_run);
    cli_json_add_int(root, "rel_key_cnt", result->rel_key_cnt);
    cli_json_add_int(root, "tch_queue_cnt", result->tch_queue_cnt);
    cli_json_add_int(root, "rem_request_cnt", result->rem_request_cnt);
    cli_json_add_int(root, "handed_over_cnt", result->handed_over_cnt);
    cli_json_add_int(root, "foreign_key_cnt", result->foreign_key_cnt);
    cli_json_add_int(root, "rel_time_us", result->rel_time_us);
    if (self->options.dry_run) {
        add_named(root, &self->named);
    }
    return root;
}

void cli_sweep_print(const struct cli_sweep *self, const char *what)
{
    const rql_sweep_result *result = &self->result;
    const char *would_be = self->options.dry_run ? " would be" : "";

    cli_table_print(&self->named, false);
    if (what) {
        (void)printf("%s:%s released: %lld\n", what, would_be, (long long)result->rel_key_cnt);
    }
    (void)printf("requests:%s removed: %lld from %lld queues\n", would_be,
                 (long long)result->rem_request_cnt, (long long)result->tch_queue_cnt);
    if (result->handed_over_cnt > 0) {
        (void)printf("locks handed to waiters: %lld\n", (long long)result->handed_over_cnt);
    }
    if (result->foreign_key_cnt > 0) {
        (void)printf("keys left alone, neither lock nor queue: %lld\n",
                     (long long)result->foreign_key_cnt);
    }
}

void cli_sweep_show(const struct cli_sweep *self, const char *what)
{
    if (self->shows && self->args->json) {
        cli_json_print(cli_sweep_to_json(self));
    } else if (self->shows) {
        cli_sweep_print(self, what);
    }
}
