#include "guess.h"
#include "output.h"
#include "scope.h"
#include "swarm.h"
#include "text.h"

#include <stdio.h>
#include <string.h>

static const struct cli_flag flags[] = {
    CLI_JSON_FLAG,
    CLI_LOG_FLAG,
    {.name = NULL},
};

static void add_texts(cJSON *root, const char *key, const rql_text_list *list)
{
    cJSON *array = cli_json_array();

    for (size_t i = 0; i < list->count; i++) {
        cli_json_append(array, cli_json_text(list->item[i]));
    }
    cli_json_add(root, key, array);
}

static int64_t count_zombies(const rql_host_info_list *hosts)
{
    int64_t zombies = 0;

    for (size_t i = 0; i < hosts->count; i++) {
        zombies += hosts->item[i].is_zombie;
    }
    return zombies;
}

static void print_status(const struct cli_args *args, const rql_host_info_list *hosts,
                         const char *flusher)
{
    cJSON *root;

    if (!args->json) {
        (void)printf("hosts: %zu, of them dead: %lld\nflusher: %s\n", hosts->count,
                     (long long)count_zombies(hosts), flusher ? flusher : "none");
        return;
    }
    root = cli_json_object();
    cli_json_add_int(root, "swarm_hosts", (int64_t)hosts->count);
    cli_json_add_int(root, "zombie_hosts", count_zombies(hosts));
    cli_json_add_text(root, "flusher", flusher);
    cli_json_print(root);
}

static int show_status(const struct cli_args *args, rql_client *client)
{
    CLI_AUTO(rql_host_info_list_free) rql_host_info_list *hosts = NULL;
    rql_error error = {.status = RQL_OK};
    char flusher[RQL_ID_SIZE];
    rql_status status = rql_swarm_info(client, args->options.zombie_ttl_ms, &hosts, &error);

    if (status == RQL_OK) {
        status = rql_swarm_flusher(client, flusher, &error);
    }
    if (status < 0) {
        return cli_fault(&error);
    }
    print_status(args, hosts, status == RQL_OK ? flusher : NULL);
    return CLI_DONE;
}

static void print_hosts(const rql_host_info_list *hosts)
{
    CLI_AUTO_TABLE struct cli_table table = {.n_columns = 3};

    cli_table_add(&table, "HOST");
    cli_table_add_pair(&table, "SILENT", "STATE");
    for (size_t i = 0; i < hosts->count; i++) {
        cli_table_add(&table, hosts->item[i].hst_id);
        cli_table_add_duration(&table, cli_age_ms(hosts->item[i].last_probe_us));
        cli_table_add(&table, hosts->item[i].is_zombie ? "dead" : "alive");
    }
    cli_table_print(&table, true);
}

static void print_hosts_json(const rql_host_info_list *hosts)
{
    cJSON *array = cli_json_array();

    for (size_t i = 0; i < hosts->count; i++) {
        cJSON *object = cli_json_object();

        cli_json_add_text(object, "hst_id", hosts->item[i].hst_id);
        cli_json_add_bool(object, "zombie", hosts->item[i].is_zombie);
        cli_json_add_count(object, "last_probe_us", hosts->item[i].last_probe_us);
        cli_json_append(array, object);
    }
    cli_json_print(array);
}

static int show_hosts(const struct cli_args *args, rql_client *client)
{
    CLI_AUTO(rql_host_info_list_free) rql_host_info_list *hosts = NULL;
    rql_error error = {.status = RQL_OK};

    if (rql_swarm_info(client, args->options.zombie_ttl_ms, &hosts, &error) != RQL_OK) {
        return cli_fault(&error);
    }
    if (args->json) {
        print_hosts_json(hosts);
    } else {
        print_hosts(hosts);
    }
    return CLI_DONE;
}

static int probe(const struct cli_args *args, rql_client *client)
{
    CLI_AUTO(rql_text_list_free) rql_text_list *hosts = NULL;
    rql_error error = {.status = RQL_OK};
    int64_t at_us = 0;

    if (rql_probe_hosts(client, &hosts, &at_us, &error) != RQL_OK) {
        return cli_fault(&error);
    }
    if (args->json) {
        cJSON *root = cli_json_object();

        add_texts(root, "hosts", hosts);
        cli_json_add_int(root, "at_us", at_us);
        cli_json_print(root);
    } else {
        (void)printf("hosts told: %zu\n", hosts->count);
    }
    return CLI_DONE;
}

static void print_zombies(const struct cli_args *args, const rql_zombies *zombies, bool are_flushed)
{
    cJSON *root;

    if (!args->json) {
        (void)printf("dead hosts: %zu\nlocks%s: %zu\n", zombies->hosts->count,
                     are_flushed ? " released" : "", zombies->locks->count);
        if (are_flushed) {
            (void)printf("requests removed: %lld\nlocks handed to waiters: %lld\n",
                         (long long)zombies->rem_request_cnt, (long long)zombies->handed_over_cnt);
        }
        return;
    }
    root = cli_json_object();
    add_texts(root, "hosts", zombies->hosts);
    add_texts(root, "acquirers", zombies->acquirers);
    add_texts(root, "locks", zombies->locks);
    if (are_flushed) {
        cli_json_add_int(root, "rem_request_cnt", zombies->rem_request_cnt);
        cli_json_add_int(root, "handed_over_cnt", zombies->handed_over_cnt);
    }
    cli_json_print(root);
}

static int flush(const struct cli_args *args, rql_client *client)
{
    CLI_AUTO(rql_zombies_free) rql_zombies *zombies = NULL;
    rql_error error = {.status = RQL_OK};

    if (rql_flush_zombies(client, NULL, &zombies, &error) != RQL_OK) {
        return cli_fault(&error);
    }
    print_zombies(args, zombies, true);
    return CLI_DONE;
}

static int show_zombies(const struct cli_args *args, rql_client *client)
{
    CLI_AUTO(rql_zombies_free) rql_zombies *zombies = NULL;
    rql_error error = {.status = RQL_OK};

    if (rql_zombies_info(client, args->options.zombie_ttl_ms, &zombies, &error) != RQL_OK) {
        return cli_fault(&error);
    }
    print_zombies(args, zombies, false);
    return CLI_DONE;
}

static const struct action {
    const char *name;
    int (*prepare)(struct cli_args *args); /* or NULL */
    int (*run)(const struct cli_args *args, rql_client *client);
} actions[] = {
    {"run", cli_swarm_prepare, cli_swarm_run},
    {"status", NULL, show_status},
    {"info", NULL, show_hosts},
    {"probe", NULL, probe},
    {"flush", NULL, flush},
    {"zombies", NULL, show_zombies},
};

static const struct action *find_action(const char *name)
{
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        if (strcmp(name, actions[i].name) == 0) {
            return &actions[i];
        }
    }
    return NULL;
}

static void say_unknown(const char *name)
{
    struct cli_guess guess;
    char meant[CLI_GUESS_SIZE];

    cli_guess_init(&guess, name, strlen(name));
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        cli_guess_propose(&guess, actions[i].name);
    }
    cli_say("swarm: unknown action %s%s; see rql swarm --help", name,
            cli_guess_text(&guess, "", false, meant));
}

static int prepare(struct cli_args *args)
{
    const struct action *action = find_action(args->name);

    if (!action) {
        say_unknown(args->name);
        return CLI_USAGE;
    }
    return action->prepare ? action->prepare(args) : CLI_DONE;
}

static int run(const struct cli_args *args, rql_client *client)
{
    const struct action *action = find_action(args->name);

    return action ? action->run(args, client) : CLI_USAGE;
}

const struct cli_command cli_swarm = {
    .name = "swarm",
    .usage = "run|status|info|probe|flush|zombies",
    .summary = "Find dead hosts and free what they held",
    .notes =
        "  run      until SIGTERM: flush what the dead held, if elected; a service of systemd;\n"
        "           --json prints at the end how its parts were\n"
        "  status   how many hosts there are, and who is elected to flush\n"
        "  info     all hosts and how long they have been silent\n"
        "  probe    one sign of life, for this very process\n"
        "  flush    now and at first sight, without an election\n"
        "  zombies  the dead and their locks; changes nothing\n"
        "What dead is: --zombie-ttl-ms, the same for all swarms of a server.\n",
    .flags = flags,
    .name_is = "which action? ",
    .needs_name = true,
    .prepare = prepare,
    .run = run,
};
