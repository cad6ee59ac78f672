#include "cmd.h"
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
    struct cli_sweep sweep;
    int code;

    cli_sweep_init(&sweep, args, client);
    (void)!rql_clear_locks(client, &sweep.options, &sweep.result, &sweep.error);
    code = cli_sweep_end(&sweep);
    cli_sweep_show(&sweep, "locks and queues");
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
