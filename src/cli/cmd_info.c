#include "cmd.h"
#include "output.h"
#include "scope.h"
#include "text.h"
#include "view.h"

#include <stdio.h>

enum { LABEL_SIZE = 256 };

static const struct cli_flag flags[] = {
    CLI_JSON_FLAG,
    {.name = NULL},
};

static void add_times(struct cli_table *table, const rql_lock_info *info)
{
    cli_table_add(table, "age");
    cli_table_add_duration(table, cli_age_ms(info->ts_us));
    cli_table_add(table, "ttl");
    cli_table_add_duration(table, info->ini_ttl_ms);
    cli_table_add(table, "left");
    cli_add_left(table, info);
}

static void add_reentries(struct cli_table *table, const rql_lock_info *info)
{
    if (info->spc_cnt <= 0) {
        return;
    }
    cli_table_add(table, "re-entries");
    cli_table_add_int(table, info->spc_cnt);
    cli_table_add(table, "extended by");
    cli_table_add_duration(table, info->spc_ext_ttl_ms);
}

static void print_text(const rql_lock_info *info)
{
    CLI_AUTO_TABLE struct cli_table table = {.n_columns = 2};
    char label[LABEL_SIZE];
    size_t i;

    cli_table_add_pair(&table, "name", info->name);
    cli_table_add_pair(&table, "status", cli_key_status_text(info->status));
    cli_table_add_pair(&table, "holder", info->acq_id);
    cli_table_add_pair(&table, "host", info->hst_id);
    add_times(&table, info);
    add_reentries(&table, info);
    if (info->token > 0) {
        cli_table_add(&table, "token");
        cli_table_add_int(&table, info->token);
    }
    for (i = 0; i < info->n_meta; i++) {
        (void)snprintf(label, sizeof label, "meta %s", info->meta[i].name);
        cli_table_add_pair(&table, label, info->meta[i].value);
    }
    cli_table_print(&table, false);
}

static int show(const struct cli_args *args, rql_client *client)
{
    CLI_AUTO(rql_lock_info_free) rql_lock_info *info = NULL;
    rql_error error = {.status = RQL_OK};
    const rql_status status = rql_get_lock_info(client, args->name, &info, &error);

    if (status < 0) {
        return cli_fault(&error);
    }
    if (args->json) {
        cli_json_print(info ? cli_lock_to_json(info) : cli_json_text(NULL));
    } else if (info) {
        print_text(info);
    }
    if (!info) {
        cli_say("%s: nobody holds it", args->name);
    }
    return info ? CLI_DONE : CLI_REFUSED;
}

const struct cli_command cli_info = {
    .name = "info",
    .usage = "NAME",
    .summary = "Show who holds a lock, since when and how long still",
    .notes = "Prints null with --json, and exits with 1, when nobody holds it.\n",
    .flags = flags,
    .needs_name = true,
    .run = show,
};
