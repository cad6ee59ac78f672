#include "cmd.h"
#include "output.h"
#include "scope.h"
#include "secret.h"

#include <stdio.h>

static const struct cli_flag flags[] = {
    {"add", "DURATION", "add this to the remaining ttl; -5s shortens it, by force only",
     CLI_FIELD(add_ms), CLI_CHANGE, 'a'},
    {"secret", "SECRET", "of the grant with this secret; - reads it from stdin", CLI_FIELD(secret),
     CLI_TEXT, 's'},
    {"force", NULL, "whoever holds the lock", CLI_FIELD(force), CLI_ON, 0},
    CLI_JSON_FLAG,
    {.name = NULL},
};

static void print(const struct cli_args *args, bool is_extended)
{
    cJSON *root;

    if (!args->json) {
        if (is_extended) {
            (void)puts("ttl: changed");
        }
        return;
    }
    root = cli_json_object();
    cli_json_add_text(root, "name", args->name);
    cli_json_add_bool(root, "extended", is_extended);
    cli_json_add_int(root, "add_ms", args->add_ms);
    cli_json_print(root);
}

/* The library extends to a time from now on, never shortens, and looks at the secret itself: what
 * changes between the look at the ttl and that does no harm. The most there is is left, as by
 * force. */
static rql_status extend_by_secret(const struct cli_args *args, rql_client *client,
                                   rql_error *error)
{
    CLI_AUTO(rql_lock_info_free) rql_lock_info *info = NULL;
    char line[CLI_SECRET_LINE_SIZE];
    const char *secret = cli_secret_read(args->secret, line);
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
    rql_error error = {.status = RQL_OK};
    const rql_status status = args->force
                                  ? rql_force_extend(client, args->name, args->add_ms, &error)
                                  : extend_by_secret(args, client, &error);

    if (status < 0) {
        return cli_fault(&error);
    }
    print(args, status == RQL_OK);
    if (status != RQL_OK) {
        cli_say("%s: not extended: %s", args->name,
                args->force ? "nobody holds it" : "no grant with this secret is in force");
    }
    return status == RQL_OK ? CLI_DONE : CLI_REFUSED;
}

static int prepare(struct cli_args *args)
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

const struct cli_command cli_extend = {
    .name = "extend",
    .usage = "NAME --add DURATION (--secret SECRET | --force)",
    .summary = "Change the remaining ttl of a lock, by its secret or by force",
    .notes =
        "By force a lock that is shortened to nothing ends at once, and one without a ttl has\n"
        "DURATION left. The secret is what rql lock has printed.\n",
    .flags = flags,
    .needs_name = true,
    .prepare = prepare,
    .run = extend,
};
