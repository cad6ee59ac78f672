#include "cmd.h"
#include "messages.h"
#include "release.h"

#include <stdio.h>
#include <string.h>

/* unlock, extend: the commands that change one lock, by its secret or by force. */

enum { SECRET_LINE_SIZE = RQL_SECRET_SIZE + 1 };

/* "-" reads it from stdin, which keeps it out of the list of processes. */
static const char *read_secret(const char *given, char line[SECRET_LINE_SIZE])
{
    if (strcmp(given, "-") != 0) {
        return given;
    }
    if (!fgets(line, SECRET_LINE_SIZE, stdin)) {
        line[0] = '\0';
    }
    line[strcspn(line, "\r\n")] = '\0';
    return line;
}

static int unlock_by_force(struct cli_session *self)
{
    struct out *out = &self->out;
    rql_unlock_result result = {.lock_released = false};

    if (rql_force_unlock(self->client, self->args->name, &result, &self->error) != RQL_OK) {
        return cli_fault(&self->error);
    }
    out_begin(out, NULL);
    out_text(out, NULL, "name", self->args->name);
    out_bool(out, "lock_released", result.lock_released);
    out_bool(out, "queue_released", result.queue_released);
    out_number(out, NULL, "rel_time_us", OUT_INT, result.rel_time_us);
    out_end(out);
    out_line(out, "lock: %s, queue: %s", result.lock_released ? "released" : "was free",
             result.queue_released ? "emptied" : "was empty");
    return CLI_DONE;
}

static int unlock_by_secret(struct cli_session *self)
{
    struct out *out = &self->out;
    char line[SECRET_LINE_SIZE];
    const char *secret = read_secret(self->args->secret, line);
    const rql_status status =
        rql_release_by_secret(self->client, self->args->name, secret, &self->error);

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
    return self->args->force ? unlock_by_force(self) : unlock_by_secret(self);
}

/* Force is never what happens when a secret was forgotten. */
static int check_unlock(struct cli_args *args)
{
    if (args->force == (args->secret != NULL)) {
        cli_say("unlock: one of --secret and --force is needed; see rql unlock --help");
        return CLI_USAGE;
    }
    return CLI_DONE;
}

/* The library extends to a time from now on, never shortens, and checks the secret itself: what
 * changes between reading the ttl and that does no harm. The most there is is left, as by force. */
static rql_status extend_by_secret(struct cli_session *self)
{
    CLI_AUTO(rql_lock_info_free) rql_lock_info *info = NULL;
    const struct cli_args *args = self->args;
    const int64_t most_ms = RQL_TTL_MAX_MS - args->add_ms;
    char line[SECRET_LINE_SIZE];
    const char *secret = read_secret(args->secret, line);
    rql_status status = rql_get_lock_info(self->client, args->name, &info, &self->error);
    int64_t left_ms = info && info->rem_ttl_ms > 0 ? info->rem_ttl_ms : 0;

    if (status < 0) {
        return status;
    }
    left_ms = left_ms < most_ms ? left_ms : most_ms;
    return rql_extend_by_secret(self->client, args->name, secret, left_ms + args->add_ms,
                                &self->error);
}

static int extend(struct cli_session *self)
{
    const struct cli_args *args = self->args;
    const rql_status status =
        args->force ? rql_force_extend(self->client, args->name, args->add_ms, &self->error)
                    : extend_by_secret(self);

    if (status < 0) {
        return cli_fault(&self->error);
    }
    out_begin(&self->out, NULL);
    out_text(&self->out, NULL, "name", args->name);
    out_bool(&self->out, "extended", status == RQL_OK);
    out_number(&self->out, NULL, "add_ms", OUT_INT, args->add_ms);
    out_end(&self->out);
    if (status != RQL_OK) {
        return cli_refuse(self, args->force
                                    ? "not extended: nobody holds it"
                                    : "not extended: no grant with this secret is in force");
    }
    out_line(&self->out, "ttl: changed");
    return CLI_DONE;
}

static int check_extend(struct cli_args *args)
{
    if (args->add_ms == CLI_UNSET || args->force == (args->secret != NULL)) {
        cli_say("extend: --add DURATION and one of --secret and --force are needed; see rql extend "
                "--help");
        return CLI_USAGE;
    }
    if (args->secret && (args->add_ms <= 0 || args->add_ms > RQL_TTL_MAX_MS)) {
        cli_say("extend: --secret adds 1ms to 30d; see rql extend --help");
        return CLI_USAGE;
    }
    return CLI_DONE;
}

const struct cli_command cli_unlock = {
    .name = "unlock",
    .usage = "NAME --secret SECRET | NAME --force",
    .summary = "Release a lock by its secret, or by force",
    .notes =
        "--force asks no holder and notifies nobody: the holder finds out at its next renewal or\n"
        "release, live waiters put themselves back.\n",
    .needs_name = true,
    .prepare = check_unlock,
    .run = unlock,
};

const struct cli_command cli_extend = {
    .name = "extend",
    .usage = "NAME --add DURATION (--secret SECRET | --force)",
    .summary = "Change the remaining ttl of a lock, by its secret or by force",
    .notes =
        "By force a lock that is shortened to nothing ends at once, and one without a ttl has\n"
        "DURATION left. The secret is what rql lock has printed.\n",
    .needs_name = true,
    .prepare = check_extend,
    .run = extend,
};
