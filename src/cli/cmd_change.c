#include "cmd.h"
#include "messages.h"
#include "scope.h"

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

static int unlock_by_force(const struct cli_args *args, rql_client *client)
{
    struct out out = out_fields(cli_out_form(args));
    rql_unlock_result result = {.lock_released = false};
    rql_error error = {.status = RQL_OK};

    if (rql_force_unlock(client, args->name, &result, &error) != RQL_OK) {
        return cli_fault(&error);
    }
    out_begin(&out, NULL);
    out_text(&out, NULL, "name", args->name);
    out_bool(&out, "lock_released", result.lock_released);
    out_bool(&out, "queue_released", result.queue_released);
    out_number(&out, NULL, "rel_time_us", OUT_INT, result.rel_time_us);
    out_end(&out);
    out_line(&out, "lock: %s, queue: %s", result.lock_released ? "released" : "was free",
             result.queue_released ? "emptied" : "was empty");
    out_print(&out);
    return CLI_DONE;
}

static int unlock_by_secret(const struct cli_args *args, rql_client *client)
{
    struct out out = out_fields(cli_out_form(args));
    char line[SECRET_LINE_SIZE];
    const char *secret = read_secret(args->secret, line);
    rql_error error = {.status = RQL_OK};
    const rql_status status = rql_release_by_secret(client, args->name, secret, &error);

    if (status < 0) {
        return cli_fault(&error);
    }
    out_begin(&out, NULL);
    out_text(&out, NULL, "name", args->name);
    out_bool(&out, "lock_released", status == RQL_OK);
    out_end(&out);
    if (status == RQL_OK) {
        out_line(&out, "lock: released");
    }
    out_print(&out);
    if (status != RQL_OK) {
        cli_say("%s: not released: no grant with this secret is in force", args->name);
    }
    return status == RQL_OK ? CLI_DONE : CLI_REFUSED;
}

static int check_unlock(struct cli_args *args)
{
    if (args->force == (args->secret != NULL)) {
        cli_say("unlock: one of --secret and --force is needed; see rql unlock --help");
        return CLI_USAGE;
    }
    return CLI_DONE;
}

static int unlock(const struct cli_args *args, rql_client *client)
{
    return args->force ? unlock_by_force(args, client) : unlock_by_secret(args, client);
}

/* The library extends to a time from now on, never shortens, and checks the secret itself: what
 * changes between reading the ttl and that does no harm. The most there is is left, as by force. */
static rql_status extend_by_secret(const struct cli_args *args, rql_client *client,
                                   rql_error *error)
{
    CLI_AUTO(rql_lock_info_free) rql_lock_info *info = NULL;
    char line[SECRET_LINE_SIZE];
    const char *secret = read_secret(args->secret, line);
    rql_status status = rql_get_lock_info(client, args->name, &info, error);
    int64_t left_ms = info && info->rem_ttl_ms > 0 ? info->rem_ttl_ms : 0;

    if (status < 0) {
        return status;
    }
    left_ms = left_ms < RQL_TTL_MAX_MS - args->add_ms ? left_ms : RQL_TTL_MAX_MS - args->add_ms;
    return rql_extend_by_secret(client, args->name, secret, left_ms + args->add_ms, error);
}

static int extend(const struct cli_args *args, rql_client *client)
{
    struct out out = out_fields(cli_out_form(args));
    rql_error error = {.status = RQL_OK};
    const rql_status status = args->force
                                  ? rql_force_extend(client, args->name, args->add_ms, &error)
                                  : extend_by_secret(args, client, &error);

    if (status < 0) {
        return cli_fault(&error);
    }
    out_begin(&out, NULL);
    out_text(&out, NULL, "name", args->name);
    out_bool(&out, "extended", status == RQL_OK);
    out_number(&out, NULL, "add_ms", OUT_INT, args->add_ms);
    out_end(&out);
    if (status == RQL_OK) {
        out_line(&out, "ttl: changed");
    }
    out_print(&out);
    if (status != RQL_OK) {
        cli_say("%s: not extended: %s", args->name,
                args->force ? "nobody holds it" : "no grant with this secret is in force");
    }
    return status == RQL_OK ? CLI_DONE : CLI_REFUSED;
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

static const struct cli_flag unlock_flags[] = {
    {"secret", "SECRET", "release the grant with this secret; - reads it from stdin",
     CLI_FIELD(secret), CLI_TEXT, 's'},
    {"force", NULL, "release the lock whoever holds it, and empty its queue", CLI_FIELD(force),
     CLI_ON, 0},
    CLI_JSON_FLAG,
    {.name = NULL},
};

static const struct cli_flag extend_flags[] = {
    {"add", "DURATION", "add this to the remaining ttl; -5s shortens it, by force only",
     CLI_FIELD(add_ms), CLI_CHANGE, 'a'},
    {"secret", "SECRET", "of the grant with this secret; - reads it from stdin", CLI_FIELD(secret),
     CLI_TEXT, 's'},
    {"force", NULL, "whoever holds the lock", CLI_FIELD(force), CLI_ON, 0},
    CLI_JSON_FLAG,
    {.name = NULL},
};

const struct cli_command cli_unlock = {
    .name = "unlock",
    .usage = "NAME --secret SECRET | NAME --force",
    .summary = "Release a lock by its secret, or by force",
    .notes = "--force asks nobody and tells nobody: the holder finds out at its next renewal or\n"
             "release, live waiters put themselves back.\n",
    .flags = unlock_flags,
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
    .flags = extend_flags,
    .needs_name = true,
    .prepare = check_extend,
    .run = extend,
};
