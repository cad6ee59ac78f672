#include "output.h"
#include "run.h"
#include "scope.h"

#include <stdio.h>
#include <string.h>

static const struct cli_flag flags[] = {
    {.name = "gem",
     .help = "take one after the other, in the given order, as the gem's lock_series",
     .offset = CLI_FIELD(gem),
     .kind = CLI_ON},
    {.name = NULL},
};

/* "a, b, c", malloc'd. */
static char *join_names(const struct cli_args *args)
{
    size_t size = 1;
    char *text;
    size_t i;

    for (i = 0; i < args->n_names; i++) {
        size += strlen(args->names[i]) + 2;
    }
    text = cli_must(calloc(1, size));
    for (i = 0; i < args->n_names; i++) {
        const size_t length = strlen(text);

        (void)snprintf(text + length, size - length, "%s%s", i > 0 ? ", " : "", args->names[i]);
    }
    return text;
}

static int run(const struct cli_args *args, rql_client *client)
{
    CLI_AUTO(cli_free) char *label = join_names(args);
    struct cli_held held = {.label = label};
    struct cli_args own = *args;
    int code;

    own.name = label;
    code = cli_acquire(&own, client, &held);
    return held.series ? cli_run_held(&own, &held) : code;
}

const struct cli_command cli_series = {
    .name = "series",
    .usage = "NAME... [flags] -- COMMAND [ARGUMENT ...]",
    .summary = "Run a command under several locks: all or none",
    .examples = "  rql series disk net -- ./migrate.sh\n",
    .notes =
        "As rql run, but for up to 64 locks at once. While it waits it holds none of them, and it\n"
        "cannot deadlock with another series, in whatever order their names are given. The "
        "command\n"
        "finds names in RQL_LOCK and tokens in RQL_TOKEN, one a line, in the given order.\n"
        "A free lock is kept for the series that is first in line, from others that wait: for 2 s\n"
        "at most, and twice as long each time that one of them was let past, up to 60 s. An rql\n"
        "under rql run or rql series holds a lock already, and is let past at once.\n"
        "With --gem a series holds what it has got so far while it waits for the next, and two in\n"
        "opposite orders wait for each other; the ttl of each lock grows with those that follow.\n"
        "What it has got when it is killed is held until that ttl is over.\n",
    .flags = cli_run_flags,
    .more_flags = flags,
    .needs_name = true,
    .takes_names = true,
    .takes_command = true,
    .run = run,
};
