#include "link/login.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "link/endpoint.h"
#include "link/push.h"
#include "script/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The words of a login in the order they are sent; a word that is not needed is left out. */
enum word { AUTH, SELECT, TIME, CLIENT_ID, PUBLISH, SETNAME, KILL, WORDS };

struct login {
    struct rqli_wire *wire;
    struct rqli_command command;
    struct rqli_arena arena;
    enum word sent[WORDS];
    struct rqli_clock_reading *reading;
};

static void login_free(struct login *self)
{
    rqli_command_fini(&self->command);
    rqli_arena_reset(&self->arena);
    free(self);
}

RQLI_DEFINE_AUTO(struct login *, login_free);

static struct rqli_command *open_word(struct login *self, enum word word, size_t argc)
{
    self->sent[self->command.n_commands] = word;
    rqli_command_begin(&self->command, argc);
    return &self->command;
}

static void write_credentials(struct login *self)
{
    const struct rqli_endpoint *endpoint = self->wire->endpoint;
    struct rqli_command *command;

    if (endpoint->password) {
        command = open_word(self, AUTH, endpoint->user ? 3 : 2);
        rqli_command_text(command, "AUTH");
        if (endpoint->user) {
            rqli_command_text(command, endpoint->user);
        }
        rqli_command_text(command, endpoint->password);
    }
    if (endpoint->database != 0) {
        command = open_word(self, SELECT, 2);
        rqli_command_text(command, "SELECT");
        rqli_command_int(command, endpoint->database);
    }
}

static void write_words(struct login *self, int64_t predecessor_id)
{
    char name[64];
    struct rqli_command *command;

    write_credentials(self);
    rqli_command_text(open_word(self, TIME, 1), "TIME");
    command = open_word(self, CLIENT_ID, 2);
    rqli_command_text(command, "CLIENT");
    rqli_command_text(command, "ID");

    self->sent[self->command.n_commands] = PUBLISH;
    rqli_push_call(&self->command, self->wire->endpoint->identity);

    (void)snprintf(name, sizeof name, "rql-%s", self->wire->endpoint->identity);
    command = open_word(self, SETNAME, 3);
    rqli_command_text(command, "CLIENT");
    rqli_command_text(command, "SETNAME");
    rqli_command_text(command, name);
    if (predecessor_id > 0) {
        command = open_word(self, KILL, 4);
        rqli_command_text(command, "CLIENT");
        rqli_command_text(command, "KILL");
        rqli_command_text(command, "ID");
        rqli_command_int(command, predecessor_id);
    }
}

static rql_status take_time(struct login *self, const struct rqli_reply *reply, rql_error *error)
{
    int64_t seconds;
    int64_t us;

    if (reply->type != RQLI_REPLY_ARRAY || reply->count != 2 ||
        !rqli_parse_int(reply->items[0].text, &seconds) ||
        !rqli_parse_int(reply->items[1].text, &us)) {
        return rqli_reply_fault(reply, "TIME", self->wire->endpoint->where, error);
    }
    self->reading->server_us = seconds * 1000000 + us;
    self->reading->received_us = rqli_now_us();
    return RQL_OK;
}

/* SETNAME and KILL may be refused: one is a courtesy, the other has not_after behind it (F-15). */
static rql_status take_reply(struct login *self, enum word word, const struct rqli_reply *reply,
                             rql_error *error)
{
    static const char *const names[WORDS] = {"AUTH",    "SELECT",         "TIME",       "CLIENT ID",
                                             "PUBLISH", "CLIENT SETNAME", "CLIENT KILL"};

    if (word == SETNAME || word == KILL) {
        return RQL_OK;
    }
    if (reply->type == RQLI_REPLY_ERROR) {
        return rqli_reply_fault(reply, names[word], self->wire->endpoint->where, error);
    }
    if (word == TIME) {
        return take_time(self, reply, error);
    }
    if (word == CLIENT_ID) {
        self->wire->client_id = reply->integer;
    }
    return RQL_OK;
}

static rql_status broken(const struct login *self, const char *why, rql_error *error)
{
    return rqli_fail(error, RQL_E_IO, "cannot log in to %s: %s", self->wire->endpoint->where, why);
}

static rql_status broken_by_errno(const struct login *self, rql_error *error)
{
    char text[128];

    return broken(self, strerror_r(errno, text, sizeof text), error);
}

static rql_status read_reply(struct login *self, int64_t deadline_us, struct rqli_reply *reply,
                             rql_error *error)
{
    for (;;) {
        int state = rqli_decoder_next(&self->wire->decoder, &self->arena, reply);

        if (state < 0) {
            return rqli_fail(error, RQL_E_PROTOCOL, "%s: what answers there is no Redis or Valkey",
                             self->wire->endpoint->where);
        }
        if (state > 0) {
            return RQL_OK;
        }
        if (rqli_wire_read(self->wire, deadline_us, 0) == RQLI_WIRE_BROKEN) {
            return broken_by_errno(self, error);
        }
        if (rqli_now_us() >= deadline_us) {
            errno = ETIMEDOUT;
            return broken(self, "no answer in time", error);
        }
    }
}

rql_status rqli_login(struct rqli_wire *wire, int64_t predecessor_id, int64_t deadline_us,
                      struct rqli_clock_reading *reading_out, rql_error *error)
{
    RQLI_AUTO(login_free) struct login *self = calloc(1, sizeof *self);
    rql_status status = RQL_OK;
    int i;

    if (!self) {
        return rqli_fail_nomem(error);
    }
    self->wire = wire;
    self->reading = reading_out;
    write_words(self, predecessor_id);
    if (self->command.failed) {
        return rqli_fail_nomem(error);
    }
    reading_out->sent_us = rqli_now_us();
    if (!rqli_wire_send(wire, self->command.data, self->command.length, deadline_us)) {
        return broken_by_errno(self, error);
    }
    for (i = 0; !status && i < self->command.n_commands; i++) {
        struct rqli_reply reply = {0};

        status = read_reply(self, deadline_us, &reply, error);
        if (!status) {
            status = take_reply(self, self->sent[i], &reply, error);
        }
    }
    explicit_bzero(self->command.data, self->command.length);
    if (!status && !rqli_decoder_is_empty(&wire->decoder)) {
        status = rqli_fail(error, RQL_E_PROTOCOL, "%s: more answers than questions at login",
                           wire->endpoint->where);
    }
    return status;
}
