#include "glob.h"
#include "output.h"
#include "scope.h"
#include "text.h"
#include "view.h"

#include <stdlib.h>
#include <string.h>

static const struct cli_flag flags[] = {
    CLI_JSON_FLAG,
    {.name = NULL},
};

static int compare_to_queue(const void *key, const void *element)
{
    const rql_queue_info *const *queue = element;

    return strcmp(key, (*queue)->name);
}

/* Both lists are sorted by name. */
static int64_t count_waiting(const rql_queue_info_list *queues, const char *name)
{
    rql_queue_info *const *found =
        queues->count > 0
            ? bsearch(name, queues->item, queues->count, sizeof(rql_queue_info *), compare_to_queue)
            : NULL;

    return found ? (int64_t)(*found)->n_requests : 0;
}

static void print_text(const rql_lock_info_list *locks, const rql_queue_info_list *queues)
{
    CLI_AUTO_TABLE struct cli_table table = {.n_columns = 7};
    size_t i;

    cli_table_add(&table, "LOCK");
    cli_table_add_pair(&table, "AGE", "LEFT");
    cli_table_add_pair(&table, "RE-ENTRIES", "WAITING");
    cli_table_add_pair(&table, "HOLDER", "HOST");
    for (i = 0; i < locks->count; i++) {
        const rql_lock_info *info = locks->item[i];

        cli_table_add(&table, info->name);
        cli_table_add_duration(&table, cli_age_ms(info->ts_us));
        cli_add_left(&table, info);
        cli_table_add_int(&table, info->spc_cnt > 0 ? info->spc_cnt : 0);
        cli_table_add_int(&table, count_waiting(queues, info->name));
        cli_table_add_pair(&table,
                           info->status == RQL_KEY_ALIVE ? info->acq_id
                                                         : cli_key_status_text(info->status),
                           info->hst_id);
    }
    cli_table_print(&table, true);
}

static void print_json(const rql_lock_info_list *locks, const rql_queue_info_list *queues)
{
    cJSON *array = cli_json_array();
    size_t i;

    for (i = 0; i < locks->count; i++) {
        cJSON *object = cli_lock_to_json(locks->item[i]);

        cli_json_add_count(object, "age_ms", cli_age_ms(locks->item[i]->ts_us));
        cli_json_add_int(object, "waiting", count_waiting(queues, locks->item[i]->name));
        cli_json_append(array, object);
    }
    cli_json_print(array);
}

static int show(const struct cli_args *args, rql_client *client)
{
    CLI_AUTO(rql_lock_info_list_free) rql_lock_info_list *locks = NULL;
    CLI_AUTO(rql_queue_info_list_free) rql_queue_info_list *queues = NULL;
    rql_error error = {.status = RQL_OK};

    if (rql_list_locks_info(client, &locks, &error) != RQL_OK ||
        rql_list_queues_info(client, &queues, &error) != RQL_OK) {
        return cli_fault(&error);
    }
    cli_glob_locks(args, locks);
    cli_sort_locks(locks);
    cli_sort_queues(queues);
    if (args->json) {
        print_json(locks, queues);
    } else {
        print_text(locks, queues);
    }
    return CLI_DONE;
}

const struct cli_command cli_who = {
    .name = "who",
    .usage = "[GLOB] [--json]",
    .summary = "Show who holds what, since when, and how many wait",
    .notes = "GLOB is matched with the names of the locks: * ? [a-z] [!a].\n"
             "AGE is counted by this machine's clock, the times in --json by the server's.\n",
    .flags = flags,
    .takes_glob = true,
    .run = show,
};
