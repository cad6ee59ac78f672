#include "names.h"

#include <stdio.h>
#include <string.h>

/* RUBY_DIGITS: digits of the identity at the end of an id of the gem; ours has twice as many. */
enum { RUBY_DIGITS = 16 };

void cli_names_read(struct cli_names *self, struct cli_session *session)
{
    self->shows_ids = session->args->ids;
    if (rql_clients_list(session->client, &self->clients, NULL) != RQL_OK) {
        self->clients = NULL;
    }
}

void cli_names_free_p(struct cli_names *self)
{
    self->clients = rql_free(self->clients);
}

/* Finds a part of "rql:acq:<pid>/..." or "rql:hst:<pid>/<thread>/...". Returns its length, 0 for
 * other texts. */
static int part_of(const char *id, int index, const char **start)
{
    const char *at = strrchr(id, ':');

    *start = at ? at + 1 : id;
    for (int i = 0; i < index && *start; i++) {
        at = strchr(*start, '/');
        *start = at ? at + 1 : "";
    }
    return (int)strspn(*start, "0123456789");
}

const char *cli_meta_value(const rql_meta *meta, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(meta[i].name, name) == 0) {
            return meta[i].value;
        }
    }
    return NULL;
}

/* Writes the name of the client. Returns false if it is not known. */
static bool write_name(const struct cli_names *names, const char *id, bool with_thread,
                       char out[CLI_NAME_SIZE])
{
    const rql_client_info *client = rql_clients_find(names->clients, id);
    const char *slash = strrchr(id, '/');
    const char *thread;
    const char *pid;
    const int pid_length = part_of(id, 0, &pid);
    const int thread_length = part_of(id, 1, &thread);
    char behind[CLI_NAME_SIZE / 4] = "";

    if (with_thread && thread_length > 0 &&
        (thread_length != pid_length || strncmp(thread, pid, (size_t)pid_length) != 0)) {
        (void)snprintf(behind, sizeof behind, "/%.*s", thread_length, thread);
    }
    if (client) {
        (void)snprintf(out, CLI_NAME_SIZE, "%.64s %.64s[%lld%s]%s%.64s", client->host,
                       client->program, (long long)client->pid, behind,
                       client->label[0] != '\0' ? " " : "", client->label);
        return true;
    }
    if (slash && strlen(slash + 1) == RUBY_DIGITS && pid_length > 0) {
        (void)snprintf(out, CLI_NAME_SIZE, "ruby[%.*s%s]", pid_length, pid, behind);
        return true;
    }
    return false;
}

bool cli_is_of_several(const rql_lock_info *info)
{
    static const char shared[] = "rql:acq:shared/";

    return info->acquirer_id && strncmp(info->acquirer_id, shared, sizeof shared - 1) == 0;
}

const char *cli_acquirer_name(const struct cli_names *names, const char *id, const char *holder,
                              char out[CLI_NAME_SIZE])
{
    const rql_client_info *client;

    if (names->shows_ids) {
        return id;
    }
    if (!holder) {
        return write_name(names, id, false, out) ? out : id;
    }
    client = rql_clients_find(names->clients, id);
    (void)snprintf(out, CLI_NAME_SIZE, "%.64s%s%.160s", client ? client->host : "",
                   client ? " " : "", holder);
    return out;
}

const char *cli_request_name(const struct cli_names *names, const rql_request_info *request,
                             char out[CLI_NAME_SIZE])
{
    return cli_acquirer_name(names, request->acquirer_id,
                             cli_holder_in(request->meta, request->n_meta), out);
}

const char *cli_holder_name(const struct cli_names *names, const rql_holder_info *holder,
                            char out[CLI_NAME_SIZE])
{
    return cli_acquirer_name(names, holder->acquirer_id,
                             cli_holder_in(holder->meta, holder->n_meta), out);
}

const char *cli_lock_holder(const struct cli_names *names, const rql_lock_info *lock,
                            char out[CLI_NAME_SIZE])
{
    if (!lock || !lock->acquirer_id) {
        return "-";
    }
    if (lock->is_kept) {
        return "kept";
    }
    if (cli_is_of_several(lock)) {
        (void)snprintf(out, CLI_NAME_SIZE, "%lld holders", (long long)lock->n_holders);
        return out;
    }
    return cli_acquirer_name(names, lock->acquirer_id, cli_holder_in(lock->meta, lock->n_meta),
                             out);
}

void cli_print_client(struct out *out, const struct cli_names *names, const char *id)
{
    const rql_client_info *client = rql_clients_find(names->clients, id);

    if (!client) {
        out_text(out, NULL, "client", NULL);
        return;
    }
    out_begin(out, "client");
    out_text(out, NULL, "host", client->host);
    out_number(out, NULL, "pid", OUT_COUNT, client->pid);
    out_text(out, NULL, "program", client->program);
    out_text(out, NULL, "user", client->user);
    out_text(out, NULL, "version", client->version);
    out_text(out, NULL, "label", client->label);
    out_number(out, NULL, "since_us", OUT_COUNT, client->since_us);
    out_end(out);
}

void cli_print_acquirer(struct out *out, const struct cli_names *names, const char *heading,
                        const char *id, const char *holder)
{
    char name[CLI_NAME_SIZE];

    out_text(out, heading, NULL, id ? cli_acquirer_name(names, id, holder, name) : NULL);
    out_text(out, NULL, "acquirer_id", id);
    cli_print_client(out, names, id);
}

const char *cli_host_name(const struct cli_names *names, const char *id, char out[CLI_NAME_SIZE])
{
    return id && !names->shows_ids && write_name(names, id, true, out) ? out : id;
}

void cli_print_host(struct out *out, const struct cli_names *names, const char *heading,
                    const char *id)
{
    char name[CLI_NAME_SIZE];

    out_text(out, heading, NULL, cli_host_name(names, id, name));
    out_text(out, NULL, "host_id", id);
}

void cli_print_swarm_host(struct out *out, const struct cli_names *names, const rql_host_info *host,
                          int64_t server_us)
{
    out_begin(out, NULL);
    cli_print_host(out, names, "HOST", host->host_id);
    cli_print_client(out, names, host->host_id);
    out_bool(out, "zombie", host->is_zombie);
    out_text(out, "STATE", NULL, host->is_zombie ? "dead" : "alive");
    out_age(out, "SILENT", "last_probe_us", host->last_probe_us, server_us);
    out_end(out);
}
