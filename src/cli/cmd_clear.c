#include "cmd.h"
#include "output.h"
#include "sweep.h"

static const struct cli_flag flags[] = {
    {"force", NULL, "release all locks whoever holds them, and empty all queues", CLI_FIELD(force),
     CLI_ON, 0},
    CLI_DRY_RUN_FLAG,
    CLI_JSON_FLAG,
    {.name = NULL},
};

static int clear(const struct cli_args *args, rql_client *client)
{
    rql_sweep_options options;
    rql_sweep_result result = {.rel_key_cnt = 0};
    rql_error error = {.status = RQL_OK};
    struct cli_sweep sweep;
    bool shows;
    int code;

    cli_sweep_init(&sweep, args, client, &options);
    (void)!rql_clear_locks(client, &options, &result, &error);
    code = cli_sweep_end(&sweep, &error, &result, &shows);
    if (shows && args->json) {
        cli_json_print(cli_sweep_to_json(args, &result));
    } else if (shows) {
        cli_sweep_print(args, &result, "locks and queues");
    }
    return code;
}

static int prepare(struct cli_args *args)
{
    return cli_sweep_is_meant(args, "clear") ? CLI_DONE : CLI_USAGE;
}

const struct cli_command cli_clear = {
    .name = "clear",
    .usage = "--dry-run | --force",
    .summary = "Release all locks and empty all queues",
    .notes =
        "Asks no holder: each finds out at its next renewal or release. Waiters that live put\n"
        "themselves back.\n",
    .flags = flags,
    .prepare = prepare,
    .run = clear,
};
