#include "secret.h"

#include "exit.h"

#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 2 };

struct agent_secret {
    struct agent *agent;
    struct agent_secret *next;
    struct agent_conn *conn; /* NULL: it is closed, or there is none */
    bool is_owed;            /* there is none: the release is due all the same */
    const char *secret;
    char name[];
};

static void go_on(struct agent *agent);

/* Runs on a thread of libuv's pool. */
static rql_status release(void *data, rql_error *error)
{
    const struct agent_secret *self = data;

    return rql_lock_release_by_secret(self->agent->client, self->name, self->secret, error);
}

static void on_released(rql_status status, const rql_error *error, void *data)
{
    struct agent_secret *self = data;
    struct agent_conn *conn = self->conn;
    struct agent *agent = self->agent;

    if (conn && status < 0) {
        agent_reply_fault(&conn->out, status, error->message);
    } else if (conn) {
        agent_reply_number(&conn->out, status == RQL_OK);
    }
    agent->n_secrets--;
    free(self);
    if (conn) {
        agent_conn_go_on(conn);
    }
    go_on(agent);
}

/* Begins the next one, unless its connection has been closed meanwhile. */
static void go_on(struct agent *agent)
{
    while (agent->secrets && agent->n_secrets < AT_ONCE) {
        struct agent_secret *next = agent->secrets;
        const rql_work work = {.run = release, .done = on_released, .user_data = next};

        agent->secrets = next->next;
        if ((next->conn || next->is_owed) && rql_loop_run(agent->loop, &work, NULL) == RQL_OK) {
            agent->n_secrets++;
        } else {
            free(next);
        }
    }
}

void agent_secret_release(struct agent *agent, struct agent_conn *conn, const char *name,
                          const char *secret)
{
    const size_t name_size = strlen(name) + 1;
    const size_t secret_size = strlen(secret) + 1;
    struct agent_secret *self = cli_must(malloc(sizeof *self + name_size + secret_size));
    struct agent_secret **at = &agent->secrets;

    *self = (struct agent_secret){.agent = agent, .conn = conn, .is_owed = !conn};
    memcpy(self->name, name, name_size);
    self->secret = memcpy(self->name + name_size, secret, secret_size);
    while (conn && *at) {
        at = &(*at)->next;
    }
    self->next = *at;
    *at = self;
    if (conn) {
        conn->phase = AGENT_CONN_BUSY;
        conn->caller = &self->conn;
    }
    go_on(agent);
}

void agent_secrets_end(struct agent *agent)
{
    while (agent->secrets) {
        struct agent_secret *next = agent->secrets;

        agent->secrets = next->next;
        free(next);
    }
}
