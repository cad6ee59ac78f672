#include "cmd.h"
#include "output.h"
#include "scope.h"
#include "text.h"
#include "view.h"

static const struct cli_flag flags[] = {
    CLI_JSON_FLAG,
    {.name = NULL},
};

static void print_text(const rql_queue_info *info)
{
    CLI_AUTO_TABLE struct cli_table table = {.n_columns = 4};
    size_t i;

    cli_table_add_pair(&table, "POSITION", "AGE");
    cli_table_add_pair(&table, "ACQUIRER", "HOST");
    for (i = 0; i < info->n_requests; i++) {
        cli_table_add_int(&table, info->requests[i].position);
        cli_table_add_duration(&table, cli_age_ms(info->requests[i].score_us));
        cli_table_add_pair(&table, info->requests[i].acq_id, info->requests[i].hst_id);
    }
    cli_table_print(&table, true);
}

static int show(const struct cli_args *args, rql_client *client)
{
    CLI_AUTO(rql_queue_info_free) rql_queue_info *info = NULL;
    rql_error error = {.status = RQL_OK};
    const rql_status status = rql_get_queue_info(client, args->name, &info, &error);

    if (status < 0) {
        return cli_fault(&error);
    }
    if (args->json) {
        cli_json_print(info ? cli_queue_to_json(info) : cli_json_text(NULL));
    } else if (info && info->status == RQL_KEY_ALIVE) {
        print_text(info);
    } else if (info) {
        cli_say("%s: its queue cannot be read: %s", args->name, cli_key_status_text(info->status));
    }
    if (!info) {
        cli_say("%s: nobody waits", args->name);
    }
    return info ? CLI_DONE : CLI_REFUSED;
}

const struct cli_command cli_queue = {
    .name = "queue",
    .usage = "NAME",
    .summary = "Show who waits for a lock, first in line first",
    .notes = "Prints null with --json, and exits with 1, when nobody waits.\n",
    .flags = flags,
    .needs_name = true,
    .run = show,
};
