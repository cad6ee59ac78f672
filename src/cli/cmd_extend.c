#include "cmd.h"
#include "output.h"

#include <stdio.h>

static const struct cli_flag flags[] = {
    {"add", "DURATION", "add this to the remaining ttl; -5s shortens it", CLI_FIELD(add_ms),
     CLI_CHANGE, 'a'},
    {"force", NULL, "needed: it is done whoever holds the lock", CLI_FIELD(force), CLI_ON, 0},
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

static int extend(const struct cli_args *args, rql_client *client)
{
    rql_error error = {.status = RQL_OK};
    const rql_status status = rql_force_extend(client, args->name, args->add_ms, &error);

    if (status < 0) {
        return cli_fault(&error);
    }
    print(args, status == RQL_OK);
    if (status != RQL_OK) {
        cli_say("%s: not extended: nobody holds it", args->name);
    }
    return status == RQL_OK ? CLI_DONE : CLI_REFUSED;
}

static int prepare(struct cli_args *args)
{
    if (args->add_ms == CLI_UNSET || !args->force) {
        cli_say("extend: --add DURATION and --force are needed; see rql extend --help");
        return CLI_USAGE;
    }
    return CLI_DONE;
}

const struct cli_command cli_extend = {
    .name = "extend",
    .usage = "NAME --add DURATION --force",
    .summary = "Change the remaining ttl of a lock, whoever holds it",
    .notes =
        "A lock that is shortened to nothing ends at once. One without a ttl has DURATION left.\n",
    .flags = flags,
    .needs_name = true,
    .prepare = prepare,
    .run = extend,
};
