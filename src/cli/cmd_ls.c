#include "glob.h"
#include "output.h"
#include "scope.h"
#include "text.h"
#include "view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char lock_prefix[] = "rql:lock:";
static const char queue_prefix[] = "rql:lock_queue:";

static const struct cli_flag flags[] = {
    {"queues", NULL, "queues instead of locks", CLI_FIELD(queues), CLI_ON, 'q'},
    {"keys", NULL, "full names of all keys, of locks and queues", CLI_FIELD(keys), CLI_ON, 'k'},
    {"long", NULL, "details of each", CLI_FIELD(details), CLI_ON, 'l'},
    CLI_JSON_FLAG,
    {.name = NULL},
};

static int compare_texts(const void *a, const void *b)
{
    const char *const *left = a;
    const char *const *right = b;

    return strcmp(*left, *right);
}

static const char *without_prefix(const char *key, const char *prefix)
{
    const size_t length = strlen(prefix);

    return strncmp(key, prefix, length) == 0 ? key + length : key;
}

/* Of the lock that a key is about. */
static const char *name_in(const char *key)
{
    const char *name = without_prefix(key, lock_prefix);

    return name != key ? name : without_prefix(key, queue_prefix);
}

static void print_texts(const struct cli_args *args, rql_text_list *list, const char *prefix)
{
    CLI_AUTO_TABLE struct cli_table table = {.n_columns = 1};
    cJSON *const array = args->json ? cli_json_array() : NULL;
    size_t i;

    if (list->count > 1) {
        qsort(list->item, list->count, sizeof(const char *), compare_texts);
    }
    for (i = 0; i < list->count; i++) {
        const char *text = without_prefix(list->item[i], prefix);

        if (!cli_glob_matches(args, name_in(list->item[i]))) {
            continue;
        }
        if (array) {
            cli_json_append(array, cli_json_text(text));
        } else {
            cli_table_add(&table, text);
        }
    }
    if (array) {
        cli_json_print(array);
    } else {
        cli_table_print(&table, false);
    }
}

static int list_names(const struct cli_args *args, rql_client *client)
{
    CLI_AUTO(rql_text_list_free) rql_text_list *list = NULL;
    rql_error error = {.status = RQL_OK};
    const char *prefix = "";
    rql_status status;

    if (args->keys) {
        status = rql_list_keys(client, &list, &error);
    } else if (args->queues) {
        prefix = queue_prefix;
        status = rql_list_queues(client, &list, &error);
    } else {
        prefix = lock_prefix;
        status = rql_list_locks(client, &list, &error);
    }
    if (status != RQL_OK) {
        return cli_fault(&error);
    }
    print_texts(args, list, prefix);
    return CLI_DONE;
}

static void print_locks(const rql_lock_info_list *list)
{
    CLI_AUTO_TABLE struct cli_table table = {.n_columns = 6};
    size_t i;

    cli_table_add_pair(&table, "LOCK", "STATUS");
    cli_table_add_pair(&table, "AGE", "LEFT");
    cli_table_add_pair(&table, "TOKEN", "HOLDER");
    for (i = 0; i < list->count; i++) {
        const rql_lock_info *info = list->item[i];

        cli_table_add_pair(&table, info->name, cli_key_status_text(info->status));
        cli_table_add_duration(&table, cli_age_ms(info->ts_us));
        cli_add_left(&table, info);
        if (info->token > 0) {
            cli_table_add_int(&table, info->token);
        } else {
            cli_table_add(&table, NULL);
        }
        cli_table_add(&table, info->acq_id);
    }
    cli_table_print(&table, true);
}

static int list_locks(const struct cli_args *args, rql_client *client)
{
    CLI_AUTO(rql_lock_info_list_free) rql_lock_info_list *list = NULL;
    rql_error error = {.status = RQL_OK};
    cJSON *array;
    size_t i;

    if (rql_list_locks_info(client, &list, &error) != RQL_OK) {
        return cli_fault(&error);
    }
    cli_glob_locks(args, list);
    cli_sort_locks(list);
    if (!args->json) {
        print_locks(list);
        return CLI_DONE;
    }
    array = cli_json_array();
    for (i = 0; i < list->count; i++) {
        cli_json_append(array, cli_lock_to_json(list->item[i]));
    }
    cli_json_print(array);
    return CLI_DONE;
}

static void print_queues(const rql_queue_info_list *list)
{
    CLI_AUTO_TABLE struct cli_table table = {.n_columns = 4};
    size_t i;

    cli_table_add_pair(&table, "QUEUE", "STATUS");
    cli_table_add_pair(&table, "WAITING", "FIRST");
    for (i = 0; i < list->count; i++) {
        const rql_queue_info *info = list->item[i];

        cli_table_add_pair(&table, info->name, cli_key_status_text(info->status));
        cli_table_add_int(&table, (int64_t)info->n_requests);
        cli_table_add(&table, info->n_requests > 0 ? info->requests[0].acq_id : NULL);
    }
    cli_table_print(&table, true);
}

static int list_queues(const struct cli_args *args, rql_client *client)
{
    CLI_AUTO(rql_queue_info_list_free) rql_queue_info_list *list = NULL;
    rql_error error = {.status = RQL_OK};
    cJSON *array;
    size_t i;

    if (rql_list_queues_info(client, &list, &error) != RQL_OK) {
        return cli_fault(&error);
    }
    cli_glob_queues(args, list);
    cli_sort_queues(list);
    if (!args->json) {
        print_queues(list);
        return CLI_DONE;
    }
    array = cli_json_array();
    for (i = 0; i < list->count; i++) {
        cli_json_append(array, cli_queue_to_json(list->item[i]));
    }
    cli_json_print(array);
    return CLI_DONE;
}

static int prepare(struct cli_args *args)
{
    if (args->keys && (args->queues || args->details)) {
        cli_say("ls: --keys goes with neither --queues nor --long; see rql ls --help");
        return CLI_USAGE;
    }
    return CLI_DONE;
}

static int run(const struct cli_args *args, rql_client *client)
{
    if (!args->details) {
        return list_names(args, client);
    }
    return args->queues ? list_queues(args, client) : list_locks(args, client);
}

const struct cli_command cli_ls = {
    .name = "ls",
    .usage = "[GLOB] [--queues | --keys] [--long]",
    .summary = "List locks, queues or keys",
    .examples = "  rql ls 'orders:*' --long\n",
    .notes = "GLOB is matched with the names of the locks: * ? [a-z] [!a].\n",
    .flags = flags,
    .takes_glob = true,
    .prepare = prepare,
    .run = run,
};
