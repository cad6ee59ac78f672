#include "acquire.h"
#include "output.h"
#include "scope.h"

#include <stdio.h>

enum { NUMBER_SIZE = 24 };

static const struct cli_flag flags[] = {
    {"ttl", "DURATION", "life of the lock", CLI_FIELD(ttl_ms), CLI_DURATION, 0},
    {"wait", "LIMIT", "give up after this long; default forever", CLI_FIELD(wait_ms), CLI_LIMIT,
     'w'},
    {"try", NULL, "do not wait at all", CLI_FIELD(fail_fast), CLI_ON, 'n'},
    {"meta", "NAME=VALUE", "keep this in the lock, readable by all; may be repeated", 0, CLI_META,
     'm'},
    {"conflict-exit-code", "CODE", "exit code when not acquired; default 1",
     CLI_FIELD(conflict_exit_code), CLI_CODE, 'E'},
    CLI_LOG_FLAG,
    CLI_JSON_FLAG,
    {.name = NULL},
};

static void print_json(const rql_lock *lock)
{
    const rql_lock_facts facts = rql_lock_describe(lock);
    cJSON *root = cli_json_object();

    cli_json_add_text(root, "name", facts.name);
    cli_json_add_text(root, "lock_key", facts.lock_key);
    cli_json_add_int(root, "token", rql_lock_token(lock));
    cli_json_add_text(root, "secret", rql_lock_secret(lock));
    cli_json_add_text(root, "acq_id", facts.acq_id);
    cli_json_add_text(root, "hst_id", facts.hst_id);
    cli_json_add_int(root, "ts_us", facts.ts_us);
    cli_json_add_int(root, "ttl_ms", facts.ttl_ms);
    cli_json_add_int(root, "remaining_ms", rql_lock_remaining_ms(lock));
    cli_json_add_int(root, "waited_us", facts.waited_us);
    cli_json_add_int(root, "tries", facts.tries);
    cli_json_add_bool(root, "handed_over", facts.handed_over);
    cli_json_print(root);
}

static void print_text(const rql_lock *lock)
{
    CLI_AUTO_TABLE struct cli_table table = {.n_columns = 2};
    const rql_lock_facts facts = rql_lock_describe(lock);

    cli_table_add_pair(&table, "name", facts.name);
    cli_table_add(&table, "token");
    cli_table_add_int(&table, rql_lock_token(lock));
    cli_table_add_pair(&table, "secret", rql_lock_secret(lock));
    cli_table_add(&table, "left");
    cli_table_add_duration(&table, rql_lock_remaining_ms(lock));
    cli_table_print(&table, false);
}

static int run(const struct cli_args *args, rql_client *client)
{
    struct cli_held held = {.label = args->name};
    const int code = cli_acquire(args, client, &held);

    if (!held.lock) {
        return code;
    }
    if (args->json) {
        print_json(held.lock);
    } else {
        print_text(held.lock);
    }
    (void)rql_lock_forget(held.lock);
    return CLI_DONE;
}

const struct cli_command cli_lock = {
    .name = "lock",
    .usage = "NAME [flags]",
    .summary = "Take a lock and leave it to its ttl",
    .notes =
        "Prints the token, and the secret that `rql unlock NAME --secret` accepts. Nobody renews\n"
        "the lock: it ends after its ttl. Waits for ever unless told otherwise. Prints null with\n"
        "--json when it was not acquired.\n",
    .flags = flags,
    .needs_name = true,
    .run = run,
};
