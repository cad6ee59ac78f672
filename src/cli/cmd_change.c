#include "cmd.h"
#include "format.h"
#include "messages.h"
#include "names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* unlock, extend: change one lock, by its secret or by force. clear, clear-of, dead: sweep all
 * locks. */

/* Room for a line feed after the secret. A longer line is still read as too long, and refused. */
enum { SECRET_LINE_SIZE = RQL_SECRET_SIZE + 1, PROGRESS_MS = 100 };

/* Returns the secret. "-" reads it from stdin, which keeps it out of the list of processes. */
static const char *read_secret(const char *given, char line[SECRET_LINE_SIZE])
{
    if (strcmp(given, "-") != 0) {
        return given;
    }
    if (!fgets(line, SECRET_LINE_SIZE, stdin)) {
        /* Empty input is an empty secret, which the library refuses. */
        line[0] = '\0';
    }
    line[strcspn(line, "\r\n")] = '\0';
    return line;
}

/* Releases the lock and empties its queue, as the unlock of the gem does. */
static int unlock_by_force(struct cli_session *self)
{
    struct out *out = &self->out;
    rql_unlock_result result = {.lock_released = false};

    if (rql_lock_force_unlock(self->client, self->args->name, &result, &self->error) != RQL_OK) {
        return cli_fault(&self->error);
    }
    out_begin(out, NULL);
    out_text(out, NULL, "name", self->args->name);
    /* A lock that was free is no refusal: after force the lock is free either way. */
    out_bool(out, "lock_released", result.lock_released);
    out_bool(out, "queue_released", result.queue_released);
    out_number(out, NULL, "duration_us", OUT_INT, result.duration_us);
    out_end(out);
    out_line(out, "lock: %s, queue: %s", result.lock_released ? "released" : "was free",
             result.queue_released ? "emptied" : "was empty");
    return CLI_DONE;
}

/* Ends one grant. The queue stays, and its first waiter is served. */
static int unlock_grant(struct cli_session *self)
{
    const int64_t token = strtoll(self->args->token, NULL, 10);
    const rql_status status =
        rql_lock_end_grant(self->client, self->args->name, token, &self->error);

    if (status < 0) {
        return cli_fault(&self->error);
    }
    out_begin(&self->out, NULL);
    out_text(&self->out, NULL, "name", self->args->name);
    out_bool(&self->out, "lock_released", status == RQL_OK);
    out_end(&self->out);
    if (status != RQL_OK) {
        return cli_refuse(self, "not released: no grant with this token is in force");
    }
    out_line(&self->out, "lock: released");
    return CLI_DONE;
}

/* Releases the lock by its secret. The result is in the output before the refusal: with --json a
 * script sees `false`, and exit code 1. */
static int unlock_by_secret(struct cli_session *self)
{
    struct out *out = &self->out;
    char line[SECRET_LINE_SIZE];
    const char *secret = read_secret(self->args->secret, line);
    const rql_status status =
        rql_lock_release_by_secret(self->client, self->args->name, secret, &self->error);

    if (status < 0) {
        return cli_fault(&self->error);
    }
    out_begin(out, NULL);
    out_text(out, NULL, "name", self->args->name);
    out_bool(out, "lock_released", status == RQL_OK);
    out_end(out);
    if (status != RQL_OK) {
        return cli_refuse(self, "not released: no grant with this secret is in force");
    }
    out_line(out, "lock: released");
    return CLI_DONE;
}

static int unlock(struct cli_session *self)
{
    if (self->args->token) {
        return unlock_grant(self);
    }
    return self->args->force ? unlock_by_force(self) : unlock_by_secret(self);
}

/* Requires one of both flags, so that a forgotten secret never means force. */
static int check_unlock(struct cli_args *args)
{
    if (args->force == (args->secret != NULL)) {
        return cli_misused(&cli_unlock, "one of --secret and --force is needed", "");
    }
    if (args->token && (!args->force || strspn(args->token, "0123456789") == 0 ||
                        args->token[strspn(args->token, "0123456789")] != '\0')) {
        return cli_misused(&cli_unlock, "--token goes with --force, and is a number, not ",
                           args->token);
    }
    return CLI_DONE;
}

/* Extends the lock by its secret. The library extends to a time from now on, never shortens, and
 * checks the secret itself, so a change between reading the ttl and extending does no harm. The
 * result is limited to the longest ttl, as by force. */
static rql_status extend_by_secret(struct cli_session *self, const rql_lock_info *info)
{
    const struct cli_args *args = self->args;
    const int64_t most_ms = RQL_TTL_MAX_MS - args->add_ms;
    char line[SECRET_LINE_SIZE];
    const char *secret = read_secret(args->secret, line);
    /* A free lock, or one without a ttl, has nothing left. The library says what that means. */
    int64_t left_ms = info && info->remaining_ms > 0 ? info->remaining_ms : 0;

    left_ms = left_ms < most_ms ? left_ms : most_ms;
    return rql_lock_extend_by_secret(self->client, args->name, secret, left_ms + args->add_ms,
                                     &self->error);
}

/* An acquirer that acquires a lock of the gem's again has no other token, but another time. */
static bool is_same_grant(const rql_lock_info *lock, const rql_lock_info *other)
{
    return lock->token == other->token && lock->acquired_at_us == other->acquired_at_us &&
           strcmp(lock->acquirer_id ? lock->acquirer_id : "",
                  other->acquirer_id ? other->acquirer_id : "") == 0;
}

/* Prints the remaining ttl. The change is already done, so a ttl that cannot be read is not
 * shown. before: the lock before the change, or NULL. A lock that the change has ended may have
 * gone to a waiter already, and the ttl of that grant is not what the caller has asked about. */
static void print_left(struct cli_session *self, const rql_lock_info *before)
{
    CLI_AUTO(rql_free) rql_lock_info *info = NULL;
    char left[CLI_DURATION_SIZE];
    rql_error ignored;
    const rql_status status = rql_lock_inspect(self->client, self->args->name, &info, &ignored);

    if (status == RQL_OK && before && !is_same_grant(before, info)) {
        out_line(&self->out, "ttl: ended; the lock has been acquired again");
    } else if (status == RQL_OK) {
        out_line(&self->out, "ttl: %s left", cli_format_duration(info->remaining_ms, left));
    } else {
        out_line(&self->out, "ttl: %s", status == RQL_NOT_FOUND ? "ended" : "changed");
    }
}

/* Extends the lock. If several share it, each has a TTL of its own, and the server tells that of
 * the longest only. Each way has one refusal more: by force there is no lock, by secret there is no
 * such grant. */
static int extend(struct cli_session *self)
{
    const struct cli_args *args = self->args;
    CLI_AUTO(rql_free) rql_lock_info *info = NULL;
    rql_status status = rql_lock_inspect(self->client, args->name, &info, &self->error);
    const bool is_of_several = status == RQL_OK && cli_is_of_several(info);

    if (status >= 0 && !is_of_several) {
        status = args->force
                     ? rql_lock_force_extend(self->client, args->name, args->add_ms, &self->error)
                     : extend_by_secret(self, info);
    }
    if (status < 0) {
        return cli_fault(&self->error);
    }
    out_begin(&self->out, NULL);
    out_text(&self->out, NULL, "name", args->name);
    out_bool(&self->out, "extended", status == RQL_OK && !is_of_several);
    out_number(&self->out, NULL, "add_ms", OUT_INT, args->add_ms);
    out_end(&self->out);
    if (is_of_several) {
        return cli_refuse(self, "not changed: several share the lock, each for a time of its own");
    }
    if (status != RQL_OK) {
        return cli_refuse(self, args->force
                                    ? "not extended: the lock is free"
                                    : "not extended: no grant with this secret is in force");
    }
    if (self->out.form == OUT_TABLE) {
        print_left(self, info);
    }
    return CLI_DONE;
}

static int check_extend(struct cli_args *args)
{
    if (args->add_ms == CLI_UNSET || args->force == (args->secret != NULL)) {
        return cli_misused(&cli_extend, "--add DURATION and one of --secret and --force are needed",
                           "");
    }
    /* With force the library checks the range, which includes negative changes. */
    if (args->secret && (args->add_ms <= 0 || args->add_ms > RQL_TTL_MAX_MS)) {
        return cli_misused(&cli_extend, "--secret adds 1ms to 30d", "");
    }
    return CLI_DONE;
}

const struct cli_command cli_unlock = {
    .name = "unlock",
    .usage = "NAME --secret SECRET | NAME --force [--token TOKEN]",
    .summary = "Release a lock by its secret, or by force",
    .notes = "With --force the holder is neither asked nor notified. It finds out at its next "
             "renewal or release. Live waiters put themselves back into the queue.\n"
             "With --token only the grant with this token is ended, which rql info shows, or one "
             "share; the queue stays, and its first waiter gets the lock. If another holder has "
             "the lock by now, nothing is changed, and it exits with 1.\n",
    .needs_name = true,
    .prepare = check_unlock,
    .run = unlock,
};

const struct cli_command cli_extend = {
    .name = "extend",
    .usage = "NAME --add DURATION (--secret SECRET | --force)",
    .summary = "Change the remaining TTL of a lock",
    .notes = "The secret is the one that rql lock has printed. With --force, a lock that is "
             "shortened to nothing ends at once, and one without a TTL gets DURATION.\n",
    .needs_name = true,
    .prepare = check_extend,
    .run = extend,
};

/* ---- sweeps ---- */

/* One call of the library, and on a terminal its progress line on stderr, which is rewritten
 * repeatedly. The library calls back on this thread, within that call. */
struct sweep {
    struct cli_session *session;
    rql_sweep_options options;
    rql_sweep_result result;
    bool has_progress; /* a progress line was written, and must be erased */
    int64_t next_ms;   /* no progress is written before this time */
    size_t n_swept;
    char **swept; /* in a dry run: the keys that would be swept */
};

/* Writes the progress. Returns true, so that the sweep continues. The first line comes late, so
 * that a short sweep shows none. */
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

    return cli_glob_matches(self->session->args->name, name);
}

/* Notes a key. The library reports keys as it finds them; they are shown sorted, when all are
 * known. */
static void note_swept(const char *key, void *user_data)
{
    struct sweep *self = user_data;

    self->swept = cli_must(reallocarray(self->swept, self->n_swept + 1, sizeof *self->swept));
    self->swept[self->n_swept++] = cli_must(strdup(key));
}

/* Initializes the sweep. *self must not move, because the options point to it. */
static void init(struct sweep *self, struct cli_session *session)
{
    const struct cli_args *args = session->args;

    *self = (struct sweep){.session = session, .next_ms = cli_now_ms() + PROGRESS_MS};
    rql_sweep_options_init(session->client, &self->options);
    self->options.dry_run = args->dry_run;
    /* If it is not given, the age is the --dead-request-ttl of the client. */
    if (args->older_than_ms != CLI_UNSET) {
        self->options.dead_ttl_ms = args->older_than_ms;
    }
    rql_result_init(&self->result);
    self->options.user_data = self;
    self->options.wants = args->name ? is_wanted : NULL;
    self->options.on_swept = args->dry_run ? note_swept : NULL;
    /* In a file or a pipe the lines would not overwrite each other. */
    self->options.on_progress = isatty(STDERR_FILENO) == 1 ? show_progress : NULL;
}

/* Prints the result. `what` names the things that were released. `dead` releases nothing and passes
 * NULL; it has the queues that were examined instead, NULL after an error. */
static void print(const struct sweep *self, const char *what, const rql_text_list *queues)
{
    struct out *out = &self->session->out;
    const rql_sweep_result *result = &self->result;
    const char *would_be = self->options.dry_run ? " would be" : "";

    out_begin(out, NULL);
    out_bool(out, "dry_run", self->options.dry_run);
    out_number(out, NULL, "released", OUT_INT, result->released);
    out_number(out, NULL, "queues", OUT_INT, result->queues);
    out_number(out, NULL, "requests", OUT_INT, result->requests);
    out_number(out, NULL, "handed_over", OUT_INT, result->handed_over);
    out_number(out, NULL, "foreign", OUT_INT, result->foreign);
    out_number(out, NULL, "duration_us", OUT_INT, result->duration_us);
    if (self->options.dry_run) {
        /* In a table each key is a line, above the sentences. */
        out_begin_list(out, "keys");
        for (size_t i = 0; i < self->n_swept; i++) {
            out_item(out, self->swept[i]);
        }
        out_end(out);
    }
    if (what) {
        out_line(out, "%s:%s released: %lld", what, would_be, (long long)result->released);
    } else {
        out_list(out, "processed_queues", queues);
    }
    out_end(out);
    out_line(out, "requests:%s removed: %lld from %lld queues", would_be,
             (long long)result->requests, (long long)result->queues);
    if (result->handed_over > 0) {
        out_line(out, "locks handed to waiters: %lld", (long long)result->handed_over);
    }
    if (result->foreign > 0) {
        out_line(out, "keys left alone, neither lock nor queue: %lld", (long long)result->foreign);
    }
}

/* Finishes the sweep after the call. An error that came after some changes has a result, too. It is
 * printed here, because main() prints only results of commands that succeeded. */
static int finish(struct sweep *self, const char *what, const rql_text_list *queues)
{
    /* In a dry run both count the changes that would be made, so its result is printed as well. */
    const bool has_changed = self->result.released > 0 || self->result.requests > 0;
    int code = CLI_DONE;

    if (self->has_progress) {
        /* Overwrites the progress line with blanks. */
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

/* Clears the locks. An error is left in the session; finish() reports it, together with the changes
 * that were made before. */
static int clear(struct cli_session *self)
{
    struct sweep sweep;

    init(&sweep, self);
    (void)!rql_locks_clear(self->client, &sweep.options, &sweep.result, &self->error);
    return finish(&sweep, "locks and queues", NULL);
}

static int clear_of(struct cli_session *self)
{
    const rql_sweep_owner owner = {.acquirer_id = self->args->acquirer,
                                   .host_id = self->args->host};
    struct sweep sweep;

    init(&sweep, self);
    (void)!rql_locks_clear_of(self->client, &owner, &sweep.options, &sweep.result, &self->error);
    return finish(&sweep, "locks", NULL);
}

/* Removes dead requests. A request of the gem is judged by its age alone; one of librql must also
 * be dead by its heartbeat or its deadline. */
static int clear_dead(struct cli_session *self)
{
    CLI_AUTO(rql_free) rql_text_list *queues = NULL;
    struct sweep sweep;

    init(&sweep, self);
    (void)!rql_requests_clear_dead(self->client, &sweep.options, &sweep.result, &queues,
                                   &self->error);
    return finish(&sweep, NULL, queues);
}

/* Requires one of both flags. Neither is the default: otherwise one typing error could release all
 * locks. */
static int check_meant(const struct cli_args *args, const struct cli_command *command)
{
    return args->force != args->dry_run
               ? CLI_DONE
               : cli_misused(command, "one of --dry-run and --force is needed", "");
}

static int check_clear(struct cli_args *args)
{
    return check_meant(args, &cli_clear);
}

static int check_clear_of(struct cli_args *args)
{
    if (!args->host || !args->acquirer) {
        return cli_misused(&cli_clear_of, "--host and --acquirer are needed", "");
    }
    return check_meant(args, &cli_clear_of);
}

static int check_dead(struct cli_args *args)
{
    return check_meant(args, &cli_dead);
}

const struct cli_command cli_clear = {
    .name = "clear",
    .usage = "[GLOB] (--dry-run | --force)",
    .summary = "Release all locks, or those that match",
    .examples = "  rql clear 'orders:*' --dry-run\n",
    .notes = CLI_GLOB_NOTE "The holders are not asked. Each finds out at its next renewal or "
                           "release. Live waiters put themselves back into their queues.\n",
    .takes_glob = true,
    .prepare = check_clear,
    .run = clear,
};

const struct cli_command cli_clear_of = {
    .name = "clear-of",
    .usage = "--host HOST --acquirer ACQUIRER (--dry-run | --force)",
    .summary = "Release the locks of one acquirer",
    .notes = "Releases the locks and shares for which both ids match, and removes the requests of "
             "this acquirer. Each lock goes to its next waiter.\n",
    .prepare = check_clear_of,
    .run = clear_of,
};

const struct cli_command cli_dead = {
    .name = "dead",
    .usage = "[--older-than DURATION] (--dry-run | --force)",
    .summary = "Remove the requests of dead waiters from all queues",
    .notes = "Live waiters of librql keep their places. Waiters of the gem send no heartbeats: "
             "they count as dead by their age, and put themselves back if they are not.\n",
    .prepare = check_dead,
    .run = clear_dead,
};
