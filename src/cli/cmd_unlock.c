#include "cmd.h"
#include "output.h"
#include "secret.h"

#include <stdio.h>

static const struct cli_flag flags[] = {
    {"secret", "SECRET", "release the grant with this secret; - reads it from stdin",
     CLI_FIELD(secret), CLI_TEXT, 's'},
    {"force", NULL, "release the lock whoever holds it, and empty its queue", CLI_FIELD(force),
     CLI_ON, 0},
    CLI_JSON_FLAG,
    {.name = NULL},
};

static void print_forced(const struct cli_args *args, const rql_unlock_result *result)
{
    cJSON *root;

    if (!args->json) {
        (void)printf("lock: %s, queue: %s\n", result->lock_released ? "released" : "was free",
                     result->queue_released ? "emptied" : "was empty");
        return;
    }
    root = cli_json_object();
    cli_json_add_text(root, "name", args->name);
    cli_json_add_bool(root, "lock_released", result->lock_released);
    cli_json_add_bool(root, "queue_released", result->queue_released);
    cli_json_add_int(root, "rel_time_us", result->rel_time_us);
    cli_json_print(root);
}

static int unlock_by_force(const struct cli_args *args, rql_client *client)
{
    rql_unlock_result result = {.lock_released = false};
    rql_error error = {.status = RQL_OK};

    if (rql_force_unlock(client, args->name, &result, &error) != RQL_OK) {
        return cli_fault(&error);
    }
    print_forced(args, &result);
    return CLI_DONE;
}

static void print_released(const struct cli_args *args, bool is_released)
{
    cJSON *root;

    if (!args->json) {
        if (is_released) {
            (void)puts("lock: released");
        }
        return;
    }
    root = cli_json_object();
    cli_json_add_text(root, "name", args->name);
    cli_json_add_bool(root, "lock_released", is_released);
    cli_json_print(root);
}

static int unlock_by_secret(const struct cli_args *args, rql_client *client, const char *secret)
{
    rql_error error = {.status = RQL_OK};
    const rql_status status = rql_release_by_secret(client, args->name, secret, &error);

    if (status < 0) {
        return cli_fault(&error);
    }
    print_released(args, status == RQL_OK);
    if (status != RQL_OK) {
        cli_say("%s: not released: no grant with this secret is in force", args->name);
    }
    return status == RQL_OK ? CLI_DONE : CLI_REFUSED;
}

static int prepare(struct cli_args *args)
{
    if (args->force == (args->secret != NULL)) {
        cli_say("unlock: one of --secret and --force is needed; see rql unlock --help");
        return CLI_USAGE;
    }
    return CLI_DONE;
}

static int run(const struct cli_args *args, rql_client *client)
{
    char line[CLI_SECRET_LINE_SIZE];

    return args->force ? unlock_by_force(args, client)
                       : unlock_by_secret(args, client, cli_secret_read(args->secret, line));
}

const struct cli_command cli_unlock = {
    .name = "unlock",
    .usage = "NAME --secret SECRET | NAME --force",
    .summary = "Release a lock by its secret, or by force",
    .notes = "--force asks nobody and tells nobody: the holder finds out at its next renewal or\n"
             "release, live waiters put themselves back.\n",
    .flags = flags,
    .needs_name = true,
    .prepare = prepare,
    .run = run,
};
