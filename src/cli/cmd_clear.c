#include "cmd.h"
#include "sweep.h"

static const struct cli_flag flags[] = {
    {"force", NULL, "release them whoever holds them, and empty their queues", CLI_FIELD(force),
     CLI_ON, 0},
    CLI_DRY_RUN_FLAG,
    CLI_JSON_FLAG,
    {.name = NULL},
};

static int clear(const struct cli_args *args, rql_client *client)
{
    CLI_AUTO_SWEEP struct cli_sweep sweep;
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
    .usage = "[GLOB] (--dry-run | --force)",
    .summary = "Release locks and empty queues: all, or those that match",
    .examples = "  rql clear 'orders:*' --dry-run\n",
    .notes =
        "GLOB is matched with the names of the locks: * ? [a-z] [!a].\n"
        "Asks no holder: each finds out at its next renewal or release. Waiters that live put\n"
        "themselves back.\n",
    .flags = flags,
    .takes_glob = true,
    .prepare = prepare,
    .run = clear,
};
