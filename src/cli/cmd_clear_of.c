#include "cmd.h"
#include "output.h"
#include "sweep.h"

static const struct cli_flag flags[] = {
    {"host", "HOST", "host id of the locks, as rql who shows it", CLI_FIELD(host), CLI_TEXT, 0},
    {"acquirer", "ACQUIRER", "acquirer id of the locks and requests", CLI_FIELD(acquirer), CLI_TEXT,
     0},
    {"force", NULL, "release them although others hold them", CLI_FIELD(force), CLI_ON, 0},
    CLI_DRY_RUN_FLAG,
    CLI_JSON_FLAG,
    {.name = NULL},
};

static int clear(const struct cli_args *args, rql_client *client)
{
    const rql_sweep_owner owner = {.acq_id = args->acquirer, .hst_id = args->host};
    CLI_AUTO_SWEEP struct cli_sweep sweep;
    int code;

    cli_sweep_init(&sweep, args, client);
    (void)!rql_clear_locks_of(client, &owner, &sweep.options, &sweep.result, &sweep.error);
    code = cli_sweep_end(&sweep);
    cli_sweep_show(&sweep, "locks");
    return code;
}

static int prepare(struct cli_args *args)
{
    if (!args->host || !args->acquirer) {
        cli_say("clear-of: --host and --acquirer are needed; see rql clear-of --help");
        return CLI_USAGE;
    }
    return cli_sweep_is_meant(args, "clear-of") ? CLI_DONE : CLI_USAGE;
}

const struct cli_command cli_clear_of = {
    .name = "clear-of",
    .usage = "--host HOST --acquirer ACQUIRER (--dry-run | --force)",
    .summary = "Release the locks of one acquirer and withdraw its requests",
    .notes =
        "Locks are released where both ids match, requests are removed by the acquirer alone.\n"
        "Each lock goes to its next waiter.\n",
    .flags = flags,
    .prepare = prepare,
    .run = clear,
};
