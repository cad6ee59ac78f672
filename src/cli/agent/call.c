#include "call.h"

#include "exit.h"
#include "locks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RELEASES_AT_ONCE = 2,
    LOOKS_AT_ONCE = 1,
    TEXT_MAX = 960 * 1024, /* less than a client may leave unread */
};

struct agent_call {
    struct agent *agent;
    struct agent_call *next;
    enum agent_call_kind kind;
    struct agent_conn *conn; /* NULL: it is closed, or there is none */
    char *text;              /* what a look has found: JSON; or NULL */
    size_t size;
    int64_t token;      /* of the holder that is looked for */
    bool is_found;      /* that holder */
    const char *secret; /* of a release; or "" */
    char name[];
};

static void go_on(struct agent *agent, enum agent_call_kind kind);

/* Looks do not hold up releases. */
static struct agent_lane *lane_of(struct agent *agent, enum agent_call_kind kind)
{
    return kind == AGENT_CALL_RELEASE ? &agent->releases : &agent->looks;
}

/* Prints as `rql who --json` and `rql queue --json` do, without blanks. */
static rql_status look(struct agent_call *self, rql_error *error)
{
    const struct cli_args args = {.name = self->name};
    struct cli_session session = {
        .args = &args, .client = self->agent->client, .out = out_fields(OUT_JSON)};
    rql_key_status of_key; /* JSON has it */
    rql_status status;

    session.out.is_line = true;
    session.out.to = cli_must(open_memstream(&self->text, &self->size));
    status =
        self->kind == AGENT_CALL_WHO ? cli_show_who(&session) : cli_show_queue(&session, &of_key);
    out_print(&session.out);
    (void)fclose(session.out.to);
    *error = session.error;
    return status;
}

static rql_status find_holder(struct agent_call *self, rql_error *error)
{
    CLI_AUTO(rql_free) rql_holder_list *list = NULL;
    const rql_status status = rql_lock_holders(self->agent->client, self->name, &list, error);

    for (size_t i = 0; status == RQL_OK && i < list->count; i++) {
        self->is_found |= list->item[i]->token == self->token;
    }
    return status;
}

/* Runs on a thread of libuv's pool. */
static rql_status run(void *data, rql_error *error)
{
    struct agent_call *self = data;

    switch (self->kind) {
    case AGENT_CALL_RELEASE:
        return rql_lock_release_by_secret(self->agent->client, self->name, self->secret, error);
    case AGENT_CALL_HOLDER:
        return find_holder(self, error);
    case AGENT_CALL_WHO:
    case AGENT_CALL_QUEUE:
        break;
    }
    return look(self, error);
}

static void reply(struct agent_call *self, rql_status status, const rql_error *error)
{
    struct agent_reply *out = &self->conn->out;

    if (status < 0) {
        agent_reply_fault(out, status, error->message);
    } else if (self->kind == AGENT_CALL_RELEASE) {
        agent_reply_number(out, status == RQL_OK);
    } else if (self->kind == AGENT_CALL_HOLDER) {
        agent_reply_number(out, self->is_found);
    } else if (status == RQL_OK && self->size > TEXT_MAX) {
        agent_reply_error(out, "ERR", "the answer is too long: more than %d KiB; %s",
                          TEXT_MAX / 1024,
                          self->kind == AGENT_CALL_QUEUE ? "rql queue shows all of it"
                                                         : "ask for fewer locks, or run rql who");
    } else if (status == RQL_OK) {
        agent_reply_text(out, self->text);
    } else {
        agent_reply_null_text(out, self->conn->is_resp3);
    }
}

static void drop(struct agent_call *self)
{
    free(self->text);
    free(self);
}

static void on_done(rql_status status, const rql_error *error, void *data)
{
    struct agent_call *self = data;
    const enum agent_call_kind kind = self->kind;
    struct agent_conn *conn = self->conn;
    struct agent *agent = self->agent;

    if (conn) {
        reply(self, status, error);
    }
    if (kind == AGENT_CALL_RELEASE && status == RQL_OK) {
        agent_tasks_on_released(&agent->tasks, self->secret);
    }
    lane_of(agent, kind)->n_running--;
    drop(self);
    if (conn) {
        agent_conn_go_on(conn);
    }
    go_on(agent, kind);
    agent->ops->on_released(agent);
}

/* Begins the next ones of a lane. A look is of no use once its connection has been closed. */
static void go_on(struct agent *agent, enum agent_call_kind kind)
{
    const size_t most = kind == AGENT_CALL_RELEASE ? RELEASES_AT_ONCE : LOOKS_AT_ONCE;
    struct agent_lane *lane = lane_of(agent, kind);

    while (lane->first && lane->n_running < most) {
        struct agent_call *next = lane->first;
        const rql_work work = {.run = run, .done = on_done, .user_data = next};

        lane->first = next->next;
        if (!next->conn && kind != AGENT_CALL_RELEASE) {
            drop(next);
        } else if (rql_loop_run(agent->loop, &work, NULL) == RQL_OK) {
            lane->n_running++;
        } else {
            cli_die_nomem(); /* no other fault is left: the loop is open */
        }
    }
}

/* Queues a call with these texts, in front if no connection waits for it. */
static void begin(struct agent_call call, const char *name, const char *secret)
{
    const size_t name_size = strlen(name) + 1;
    const size_t secret_size = strlen(secret) + 1;
    struct agent_call *self = cli_must(malloc(sizeof *self + name_size + secret_size));
    struct agent_call **at = &lane_of(call.agent, call.kind)->first;

    *self = call;
    memcpy(self->name, name, name_size);
    self->secret = memcpy(self->name + name_size, secret, secret_size);
    while (self->conn && *at) {
        at = &(*at)->next;
    }
    self->next = *at;
    *at = self;
    if (self->conn) {
        self->conn->phase = AGENT_CONN_BUSY;
        self->conn->caller = &self->conn;
    }
    go_on(call.agent, call.kind);
}

void agent_call_release(struct agent *agent, struct agent_conn *conn, const char *name,
                        const char *secret)
{
    begin((struct agent_call){.agent = agent, .kind = AGENT_CALL_RELEASE, .conn = conn}, name,
          secret);
}

void agent_call_look(struct agent_conn *conn, enum agent_call_kind kind, const char *name)
{
    begin((struct agent_call){.agent = conn->agent, .kind = kind, .conn = conn}, name, "");
}

void agent_call_find_holder(struct agent_conn *conn, const char *name, int64_t token)
{
    begin(
        (struct agent_call){
            .agent = conn->agent, .kind = AGENT_CALL_HOLDER, .conn = conn, .token = token},
        name, "");
}

static void end(struct agent_lane *lane)
{
    while (lane->first) {
        struct agent_call *next = lane->first;

        lane->first = next->next;
        drop(next);
    }
}

bool agent_calls_are_due(const struct agent *agent)
{
    return agent->releases.first || agent->releases.n_running > 0;
}

void agent_calls_end(struct agent *agent)
{
    end(&agent->releases);
    end(&agent->looks);
}
