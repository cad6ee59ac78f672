#include "cmd.h"
#include "format.h"
#include "messages.h"
#include "release.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* clear, clear-of, dead: the commands that sweep all locks and queues. */

enum { PROGRESS_MS = 100 };

/* One call of the library, and its line on stderr that is written over and over, on a terminal. */
struct sweep {
    struct cli_session *session;
    rql_sweep_options options;
    rql_sweep_result result;
    bool has_progress;
    int64_t next_ms; /* no progress is written before that */
    size_t n_swept;
    char **swept; /* of a dry run: keys that would be swept */
};

/* True: go on. */
static bool show_progress(int64_t done, int64_t found, void *user_data)
{
    struct sweep *self = user_data;
    const int64_t now_ms = cli_now_ms();

    if (now_ms >= self->next_ms) {
        self->next_ms = now_ms + PROGRESS_MS;
        self->has_progress = true;
        (void)fprintf(stderr, "\rrql: %lld of %lld keys ", (long long)done, (long long)found);
        (void)fflush(stderr);
    }
    return true;
}

static bool is_wanted(const char *name, void *user_data)
{
    const struct sweep *self = user_data;

    return cli_glob_matches(self->session->args, name);
}

/* The library names them as it finds them; they are shown sorted, when all are known. */
static void note_swept(const char *key, void *user_data)
{
    struct sweep *self = user_data;

    self->swept = cli_must(reallocarray(self->swept, self->n_swept + 1, sizeof *self->swept));
    self->swept[self->n_swept++] = cli_must(strdup(key));
}

/* It stays where it is: the options lead back to it. */
static void init(struct sweep *self, struct cli_session *session)
{
    const struct cli_args *args = session->args;

    *self = (struct sweep){.session = session, .next_ms = cli_now_ms() + PROGRESS_MS};
    rql_sweep_options_init(session->client, &self->options);
    self->options.dry_run = args->dry_run;
    if (args->older_than_ms != CLI_UNSET) {
        self->options.dead_ttl_ms = args->older_than_ms;
    }
    self->options.user_data = self;
    self->options.wants = is_wanted;
    self->options.on_swept = args->dry_run ? note_swept : NULL;
    self->options.on_progress = isatty(STDERR_FILENO) == 1 ? show_progress : NULL;
}

/* `what` is released; NULL: nothing is, by `dead`. */
static void print(const struct sweep *self, const char *what, const rql_text_list *queues)
{
    struct out *out = &self->session->out;
    const rql_sweep_result *result = &self->result;
    const char *would_be = self->options.dry_run ? " would be" : "";

    out_begin(out, NULL);
    out_bool(out, "dry_run", self->options.dry_run);
    out_number(out, NULL, "rel_key_cnt", OUT_INT, result->rel_key_cnt);
    out_number(out, NULL, "tch_queue_cnt", OUT_INT, result->tch_queue_cnt);
    out_number(out, NULL, "rem_request_cnt", OUT_INT, result->rem_request_cnt);
    out_number(out, NULL, "handed_over_cnt", OUT_INT, result->handed_over_cnt);
    out_number(out, NULL, "foreign_key_cnt", OUT_INT, result->foreign_key_cnt);
    out_number(out, NULL, "rel_time_us", OUT_INT, result->rel_time_us);
    if (self->options.dry_run) {
        out_begin_list(out, "keys");
        for (size_t i = 0; i < self->n_swept; i++) {
            out_item(out, self->swept[i]);
        }
        out_end(out);
    }
    if (what) {
        out_line(out, "%s:%s released: %lld", what, would_be, (long long)result->rel_key_cnt);
    } else {
        out_list(out, "processed_queues", queues);
    }
    out_end(out);
    out_line(out, "requests:%s removed: %lld from %lld queues", would_be,
             (long long)result->rem_request_cnt, (long long)result->tch_queue_cnt);
    if (result->handed_over_cnt > 0) {
        out_line(out, "locks handed to waiters: %lld", (long long)result->handed_over_cnt);
    }
    if (result->foreign_key_cnt > 0) {
        out_line(out, "keys left alone, neither lock nor queue: %lld",
                 (long long)result->foreign_key_cnt);
    }
}

/* After the call. A fault that came after something was done has a result, too. */
static int finish(struct sweep *self, const char *what, const rql_text_list *queues)
{
    const bool has_changed = self->result.rel_key_cnt > 0 || self->result.rem_request_cnt > 0;
    int code = CLI_DONE;

    if (self->has_progress) {
        (void)fputs("\r                                                    \r", stderr);
    }
    if (self->n_swept > 1) {
        qsort(self->swept, self->n_swept, sizeof self->swept[0], cli_compare_texts);
    }
    if (self->session->error.status != RQL_OK) {
        code = cli_fault(&self->session->error);
    }
    if (code == CLI_DONE || has_changed) {
        print(self, what, queues);
    }
    if (code != CLI_DONE && has_changed) {
        out_print(&self->session->out);
    }
    for (size_t i = 0; i < self->n_swept; i++) {
        free(self->swept[i]);
    }
    free(self->swept);
    return code;
}

static int clear(struct cli_session *self)
{
    struct sweep sweep;

    init(&sweep, self);
    (void)!rql_clear_locks(self->client, &sweep.options, &sweep.result, &self->error);
    return finish(&sweep, "locks and queues", NULL);
}

static int clear_of(struct cli_session *self)
{
    const rql_sweep_owner owner = {.acq_id = self->args->acquirer, .hst_id = self->args->host};
    struct sweep sweep;

    init(&sweep, self);
    (void)!rql_clear_locks_of(self->client, &owner, &sweep.options, &sweep.result, &self->error);
    return finish(&sweep, "locks", NULL);
}

static int clear_dead(struct cli_session *self)
{
    CLI_AUTO(rql_text_list_free) rql_text_list *queues = NULL;
    struct sweep sweep;

    init(&sweep, self);
    (void)!rql_clear_dead_requests(self->client, &sweep.options, &sweep.result, &queues,
                                   &self->error);
    return finish(&sweep, NULL, queues);
}

/* Neither is the default: a sweep without a flag would be one typing error away from all locks. */
static int check_meant(const struct cli_args *args, const char *command)
{
    if (args->force == args->dry_run) {
        cli_say("%s: one of --dry-run and --force is needed; see rql %s --help", command, command);
        return CLI_USAGE;
    }
    return CLI_DONE;
}

static int check_clear(struct cli_args *args)
{
    return check_meant(args, "clear");
}

static int check_clear_of(struct cli_args *args)
{
    if (!args->host || !args->acquirer) {
        cli_say("clear-of: --host and --acquirer are needed; see rql clear-of --help");
        return CLI_USAGE;
    }
    return check_meant(args, "clear-of");
}

const struct cli_command cli_clear = {
    .name = "clear",
    .usage = "[GLOB] (--dry-run | --force)",
    .summary = "Release locks and empty queues: all, or those that match",
    .examples = "  rql clear 'orders:*' --dry-run\n",
    .notes = CLI_GLOB_NOTE
    "Asks no holder: each finds out at its next renewal or release. Waiters that live put\n"
    "themselves back.\n",
    .takes_glob = true,
    .prepare = check_clear,
    .run = clear,
};

const struct cli_command cli_clear_of = {
    .name = "clear-of",
    .usage = "--host HOST --acquirer ACQUIRER (--dry-run | --force)",
    .summary = "Release the locks of one acquirer and withdraw its requests",
    .notes =
        "Locks are released where both ids match, requests are removed by the acquirer alone.\n"
        "Each lock goes to its next waiter.\n",
    .prepare = check_clear_of,
    .run = clear_of,
};

const struct cli_command cli_dead = {
    .name = "dead",
    .usage = "[--older-than DURATION] [--dry-run]",
    .summary = "Remove the requests of dead waiters from all queues",
    .notes = "Waiters of librql that live keep their rank. Those of the gem send no heartbeats:\n"
             "they are taken for dead by their age, and put themselves back if they are not.\n",
    .run = clear_dead,
};
