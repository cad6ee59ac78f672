#include "cmd.h"
#include "output.h"
#include "scope.h"
#include "sweep.h"

static const struct cli_flag flags[] = {
    {"older-than", "DURATION", "only requests of this age or more; else --dead-request-ttl-ms",
     CLI_FIELD(older_than_ms), CLI_DURATION, 0},
    CLI_DRY_RUN_FLAG,
    CLI_JSON_FLAG,
    {.name = NULL},
};

static void print_json(const struct cli_sweep *sweep, const rql_text_list *queues)
{
    cJSON *root = cli_sweep_to_json(sweep);
    cJSON *array = cli_json_array();
    size_t i;

    for (i = 0; queues && i < queues->count; i++) {
        cli_json_append(array, cli_json_text(queues->item[i]));
    }
    cli_json_add(root, "processed_queues", array);
    cli_json_print(root);
}

static int clear(const struct cli_args *args, rql_client *client)
{
    CLI_AUTO(rql_text_list_free) rql_text_list *queues = NULL;
    CLI_AUTO_SWEEP struct cli_sweep sweep;
    int code;

    cli_sweep_init(&sweep, args, client);
    (void)!rql_clear_dead_requests(client, &sweep.options, &sweep.result, &queues, &sweep.error);
    code = cli_sweep_end(&sweep);
    if (sweep.shows && args->json) {
        print_json(&sweep, queues);
    } else if (sweep.shows) {
        cli_sweep_print(&sweep, NULL);
    }
    return code;
}

const struct cli_command cli_dead = {
    .name = "dead",
    .usage = "[--older-than DURATION] [--dry-run]",
    .summary = "Remove the requests of dead waiters from all queues",
    .notes =
        "Waiters of librql that live keep their places. Those of the gem show no sign of life:\n"
        "they are taken for dead by their age, and put themselves back if they are not.\n",
    .flags = flags,
    .run = clear,
};
