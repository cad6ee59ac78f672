#include "cmd.h"
#include "counts.h"
#include "format.h"
#include "messages.h"
#include "names.h"
#include "serve/serve.h"
#include "service.h"
#include "systemd.h"

#include <stdio.h>
#include <string.h>

static int prepare_service(struct cli_args *args)
{
    cli_service_prepare();
    /* The command starts the swarm itself, and a client can have only one. */
    args->options.auto_swarm = false;
    return CLI_DONE;
}

/* Returns whether no element hangs or is dead. */
static bool is_well(void *data)
{
    const struct cli_session *self = data;
    rql_swarm_status status;

    /* Off counts as well: any element may be switched off, except the supervisor. */
    return rql_swarm_get_status(self->client, &status, NULL) == RQL_OK &&
           status.supervisor.state == RQL_ELEMENT_RUNNING &&
           status.probe_hosts.state <= RQL_ELEMENT_RUNNING &&
           status.flush_zombies.state <= RQL_ELEMENT_RUNNING;
}

/* Writes "flusher; 38 hosts, 1 dead". */
static void describe(void *data, char *out, size_t size)
{
    CLI_AUTO(rql_free) rql_host_info_list *hosts = NULL;
    struct cli_session *self = data;
    const int64_t zombie_ttl_ms = self->args->options.zombie_ttl_ms;
    rql_swarm_status swarm;

    if (rql_swarm_hosts(self->client, zombie_ttl_ms, &hosts, &self->error) == RQL_OK &&
        rql_swarm_get_status(self->client, &swarm, &self->error) == RQL_OK) {
        (void)snprintf(out, size, "%s; %zu host%s, %lld dead",
                       swarm.is_flusher ? "flusher" : "standby", hosts->count,
                       hosts->count == 1 ? "" : "s", (long long)cli_count_dead(hosts));
    } else {
        (void)snprintf(out, size, "%s", self->error.message);
    }
}

/* Prints an element at the end of `run`, in JSON only, for a reader that wants to know what went
 * wrong. */
static void print_element(struct out *out, const char *key, const rql_element_status *element)
{
    /* Indexed by the values of rql_element_state and rql_breaker_state. */
    static const char *const states[] = {"off", "running", "hung", "dead"};
    static const char *const breakers[] = {"closed", "open", "half_open"};

    out_begin(out, key);
    out_bool(out, "enabled", element->enabled);
    out_text(out, NULL, "state", states[element->state]);
    out_text(out, NULL, "breaker", breakers[element->breaker]);
    out_number(out, NULL, "steps", OUT_INT, element->steps);
    out_number(out, NULL, "failures", OUT_INT, element->failures);
    out_number(out, NULL, "restarts", OUT_INT, element->restarts);
    out_end(out);
}

static const char *what_is_wrong(void *data)
{
    return is_well(data) ? NULL : "a part of the swarm hangs or is dead";
}

/* Runs the service. For systemd it has started when the swarm runs, not when the server was
 * found. */
static int run_service(struct cli_session *self)
{
    CLI_AUTO(rql_swarm_free) rql_swarm *swarm = NULL;
    const char *listen = self->args->listen;
    struct serve *serve = NULL;
    rql_swarm_status status;
    int code = CLI_DONE;

    if (rql_swarm_start(self->client, NULL, &swarm, &self->error) != RQL_OK) {
        return cli_fault(&self->error);
    }
    if (listen) {
        code = serve_start(
            &(struct serve_wish){
                .args = self->args, .listen = listen, .what_is_wrong = what_is_wrong, .data = self},
            &serve);
    }
    if (code != CLI_DONE) {
        rql_swarm_stop(swarm);
        return code;
    }
    cli_systemd_notify("READY=1\nSTATUS=Looking for dead hosts");
    cli_service_wait(&(struct cli_service){.data = self, .is_well = is_well, .describe = describe});
    cli_systemd_notify("STOPPING=1");
    serve_stop(serve);
    if (rql_swarm_get_status(self->client, &status, NULL) == RQL_OK) {
        out_begin(&self->out, NULL);
        print_element(&self->out, "supervisor", &status.supervisor);
        print_element(&self->out, "probe_hosts", &status.probe_hosts);
        print_element(&self->out, "flush_zombies", &status.flush_zombies);
        out_end(&self->out);
    }
    /* Steps down, so that another host is elected without delay. The status was read before,
     * because this call turns all elements off. */
    rql_swarm_stop(swarm);
    return CLI_DONE;
}

/* Shows the status. A missing flusher is no error: no host was elected yet, or the term is over. */
static int show_status(struct cli_session *self)
{
    CLI_AUTO(rql_free) rql_host_info_list *hosts = NULL;
    char flusher[RQL_ID_SIZE];
    CLI_AUTO(cli_names_free) struct cli_names names = {.clients = NULL};
    char name[CLI_NAME_SIZE];
    rql_status status =
        rql_swarm_hosts(self->client, self->args->options.zombie_ttl_ms, &hosts, &self->error);
    long long n_dead;

    if (status == RQL_OK) {
        status = rql_swarm_flusher(self->client, flusher, &self->error);
    }
    if (status < 0) {
        return cli_fault(&self->error);
    }
    cli_names_read(&names, self);
    n_dead = cli_count_dead(hosts);
    out_begin(&self->out, NULL);
    out_number(&self->out, NULL, "swarm_hosts", OUT_INT, (int64_t)hosts->count);
    out_number(&self->out, NULL, "zombie_hosts", OUT_INT, n_dead);
    out_text(&self->out, NULL, "flusher", status == RQL_OK ? flusher : NULL);
    out_end(&self->out);
    out_line(&self->out, "hosts: %zu, of them dead: %lld", hosts->count, n_dead);
    out_line(&self->out, "flusher: %s",
             status == RQL_OK ? cli_host_name(&names, flusher, name) : "none");
    return CLI_DONE;
}

static int show_hosts(struct cli_session *self)
{
    static const char *const headings[] = {"HOST", "SILENT", "STATE", NULL};
    CLI_AUTO(rql_free) rql_host_info_list *hosts = NULL;
    CLI_AUTO(cli_names_free) struct cli_names names = {.clients = NULL};

    if (rql_swarm_hosts(self->client, self->args->options.zombie_ttl_ms, &hosts, &self->error) !=
        RQL_OK) {
        return cli_fault(&self->error);
    }
    cli_names_read(&names, self);
    out_columns(&self->out, headings);
    out_begin_list(&self->out, NULL);
    for (size_t i = 0; i < hosts->count; i++) {
        cli_print_swarm_host(&self->out, &names, hosts->item[i], hosts->server_us);
    }
    out_end(&self->out);
    return CLI_DONE;
}

/* Runs flush, or zombies, which changes nothing. Both go by the silence of a host alone; a running
 * swarm also waits until the host was suspected for a while. */
/* Prints each text on a line of its own, but not in JSON. */
static void print_texts(struct out *out, const rql_text_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        out_line(out, "  %s", list->item[i]);
    }
}

static int show_zombies(struct cli_session *self)
{
    CLI_AUTO(rql_free) rql_zombies *zombies = NULL;
    const bool flushes = strcmp(self->args->name, "flush") == 0;
    const rql_status status =
        flushes ? rql_swarm_flush(self->client, NULL, &zombies, &self->error)
                : rql_swarm_zombies(self->client, self->args->options.zombie_ttl_ms, &zombies,
                                    &self->error);
    struct out *out = &self->out;

    if (status != RQL_OK) {
        return cli_fault(&self->error);
    }
    out_begin(out, NULL);
    out_list(out, "hosts", zombies->hosts);
    out_list(out, "acquirers", zombies->acquirers);
    out_list(out, "locks", zombies->locks);
    out_line(out, "dead hosts: %zu", zombies->hosts->count);
    print_texts(out, zombies->hosts);
    out_line(out, "locks%s: %zu", flushes ? " released" : "", zombies->locks->count);
    print_texts(out, zombies->locks);
    if (flushes) {
        out_number(out, NULL, "requests", OUT_INT, zombies->requests);
        out_number(out, NULL, "handed_over", OUT_INT, zombies->handed_over);
        out_line(out, "requests removed: %lld", (long long)zombies->requests);
        out_line(out, "locks handed to waiters: %lld", (long long)zombies->handed_over);
    }
    out_end(out);
    return CLI_DONE;
}

/* The argument in the place of a name is the action. Flags and help are those of the command. */
static const struct action {
    const char *name;
    int (*prepare)(struct cli_args *args); /* or NULL */
    int (*run)(struct cli_session *self);
} actions[] = {
    {"run", prepare_service, run_service},
    {"status", NULL, show_status},
    {"flush", NULL, show_zombies},
    {"zombies", NULL, show_zombies},
};

/* Returns the action of this name, or NULL after reporting that there is none. */
static const struct action *find_action(const char *name)
{
    struct cli_guess guess;

    cli_guess_init(&guess, name, strlen(name));
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        if (strcmp(name, actions[i].name) == 0) {
            return &actions[i];
        }
        cli_guess_propose(&guess, actions[i].name);
    }
    cli_say("swarm: unknown action %s%s; see rql swarm --help", name, cli_guess_text(&guess, ""));
    return NULL;
}

/* Reports a wrong action before the program connects. */
static int prepare(struct cli_args *args)
{
    const struct action *action = find_action(args->name);
    int code;

    if (!action) {
        return CLI_USAGE;
    }
    if (args->listen && action->run != run_service) {
        return cli_misused(&cli_swarm, "only run can serve HTTP, not ", action->name);
    }
    code = serve_check(&cli_swarm, args, args->listen);
    return code == CLI_DONE && action->prepare ? action->prepare(args) : code;
}

static int run(struct cli_session *self)
{
    /* The action exists: prepare() has found it. */
    const struct action *action = find_action(self->args->name);

    return action ? action->run(self) : CLI_USAGE;
}

const struct cli_command cli_hosts = {
    .name = "hosts",
    .usage = "[--ids] [--json]",
    .summary = "Show which hosts are alive, and which are dead",
    .notes = "A host is a thread that has used its client while a swarm runs. It is dead after "
             "--zombie-ttl of silence.\n",
    .run = show_hosts,
};

const struct cli_command cli_swarm = {
    .name = "swarm",
    .is_worth_naming = true,
    .usage = "run|status|flush|zombies",
    .summary = "Find dead hosts and free what they held",
    .notes = "  run      until SIGTERM: free what dead hosts held, if this swarm is\n"
             "           elected; --json prints the state of its parts at the end\n"
             "  status   how many hosts there are, and which one is elected\n"
             "  flush    free what dead hosts hold now, without an election\n"
             "  zombies  the dead hosts and their locks; changes nothing\n"
             "A host is dead after --zombie-ttl of silence, which must be the same for all swarms "
             "of a server.\n",
    .name_is = "which action? ",
    .needs_name = true,
    .prepare = prepare,
    .run = run,
};
