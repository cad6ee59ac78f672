#include "net/login.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "net/endpoint.h"
#include "wire/command.h"
#include "wire/keys.h"
#include "wire/push.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The words of a login in the order they are sent; a word that is not needed is left out. */
enum word {
    AUTH,
    SELECT,
    TIME,
    CLIENT_ID,
    PUBLISH,
    SETNAME,
    WRITE,
    CLIENT_INFO,
    INFO,
    KILL,
    WORDS
};

struct login {
    struct rqli_socket *sock;
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
    const struct rqli_endpoint *endpoint = self->sock->endpoint;
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

void rqli_login_write_probe(struct rqli_command *command)
{
    rqli_command_begin(command, 3);
    rqli_command_text(command, "ZREM");
    rqli_command_text(command, RQLI_KEY_LIVE);
    rqli_command_text(command, "-");
}

/* What nothing fails without: it may be refused. */
static void write_questions(struct login *self)
{
    struct rqli_command *command;

    self->sent[self->command.n_commands] = WRITE;
    rqli_login_write_probe(&self->command);
    command = open_word(self, CLIENT_INFO, 2);
    rqli_command_text(command, "CLIENT");
    rqli_command_text(command, "INFO");
    command = open_word(self, INFO, 2);
    rqli_command_text(command, "INFO");
    rqli_command_text(command, "server");
}

static void write_words(struct login *self, bool is_for_commands)
{
    char name[64];
    struct rqli_command *command;

    write_credentials(self);
    rqli_command_text(open_word(self, TIME, 1), "TIME");
    command = open_word(self, CLIENT_ID, 2);
    rqli_command_text(command, "CLIENT");
    rqli_command_text(command, "ID");

    self->sent[self->command.n_commands] = PUBLISH;
    rqli_push_call(&self->command, self->sock->endpoint->identity);

    (void)snprintf(name, sizeof name, "rql-%s", self->sock->endpoint->identity);
    command = open_word(self, SETNAME, 3);
    rqli_command_text(command, "CLIENT");
    rqli_command_text(command, "SETNAME");
    rqli_command_text(command, name);
    if (is_for_commands) {
        write_questions(self);
    }
}

static rql_status take_time(struct login *self, const struct rqli_reply *reply, rql_error *error)
{
    int64_t seconds;
    int64_t us;

    if (reply->type != RQLI_REPLY_ARRAY || reply->count != 2 ||
        !rqli_parse_int(reply->items[0].text, &seconds) ||
        !rqli_parse_int(reply->items[1].text, &us)) {
        return rqli_reply_fault(reply, "TIME", self->sock->endpoint->where, error);
    }
    self->reading->server_us = seconds * 1000000 + us;
    self->reading->received_us = rqli_now_us();
    return RQL_OK;
}

/* The text between two marks, if it fits. */
static void copy_between(char *out, size_t size, const struct rqli_reply *reply, const char *begin,
                         const char *end)
{
    struct rqli_slice rest = reply->text;
    const char *from = memmem(rest.data, rest.length, begin, strlen(begin));
    const char *to;

    if (!from) {
        return;
    }
    from += strlen(begin);
    rest.length -= (size_t)(from - rest.data);
    to = memmem(from, rest.length, end, strlen(end));
    if (to && (size_t)(to - from) < size) {
        memcpy(out, from, (size_t)(to - from));
    }
}

static void take_answer(struct login *self, enum word word, const struct rqli_reply *reply)
{
    struct rqli_seat *seat = &self->sock->seat;

    if (reply->type == RQLI_REPLY_ERROR) {
        self->sock->is_read_only = word == WRITE && rqli_reply_says(reply, "READONLY");
    } else if (reply->type == RQLI_REPLY_TEXT && word == CLIENT_INFO) {
        copy_between(seat->address, sizeof seat->address, reply, " addr=", " laddr=");
    } else if (reply->type == RQLI_REPLY_TEXT && word == INFO) {
        copy_between(seat->run_id, sizeof seat->run_id, reply, "\nrun_id:", "\r");
    }
}

static rql_status take_reply(struct login *self, enum word word, const struct rqli_reply *reply,
                             rql_error *error)
{
    static const char *const names[WRITE] = {"AUTH",      "SELECT",  "TIME",
                                             "CLIENT ID", "PUBLISH", "CLIENT SETNAME"};

    if (word >= SETNAME) {
        take_answer(self, word, reply);
        return RQL_OK;
    }
    if (reply->type == RQLI_REPLY_ERROR) {
        return rqli_reply_fault(reply, names[word], self->sock->endpoint->where, error);
    }
    if (word == TIME) {
        return take_time(self, reply, error);
    }
    if (word == CLIENT_ID) {
        self->sock->seat.client_id = reply->integer;
    }
    return RQL_OK;
}

static rql_status broken(const struct login *self, const char *why, rql_error *error)
{
    return rqli_fail(error, RQL_E_IO, "cannot log in to %s: %s", self->sock->endpoint->where, why);
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
        int state = rqli_decoder_next(&self->sock->decoder, &self->arena, reply);

        if (state < 0) {
            return rqli_fail(error, RQL_E_PROTOCOL, "%s: what answers there is no Redis or Valkey",
                             self->sock->endpoint->where);
        }
        if (state > 0) {
            return RQL_OK;
        }
        if (rqli_socket_read(self->sock, deadline_us, 0) == RQLI_SOCKET_BROKEN) {
            return broken_by_errno(self, error);
        }
        if (rqli_now_us() >= deadline_us) {
            errno = ETIMEDOUT;
            return broken(self, "no answer in time", error);
        }
    }
}

/* Sends what was written, and takes the replies. */
static rql_status ask(struct login *self, int64_t deadline_us, rql_error *error)
{
    rql_status status = RQL_OK;

    if (self->command.failed) {
        return rqli_fail_nomem(error);
    }
    if (!rqli_socket_send(self->sock, self->command.data, self->command.length, deadline_us)) {
        return broken_by_errno(self, error);
    }
    for (int i = 0; !status && i < self->command.n_commands; i++) {
        struct rqli_reply reply = {0};

        status = read_reply(self, deadline_us, &reply, error);
        if (!status) {
            status = take_reply(self, self->sent[i], &reply, error);
        }
    }
    explicit_bzero(self->command.data, self->command.length);
    return status;
}

/* Only what is surely ours: a server that was started anew gives old numbers, and behind a Unix
 * socket old addresses, to strangers. Where that cannot be seen, or KILL is not allowed, what was
 * sent there has not_after behind it. */
static rql_status end_predecessor(struct login *self, const struct rqli_seat *predecessor,
                                  int64_t deadline_us, rql_error *error)
{
    struct rqli_command *command;

    if (predecessor->client_id == 0 || !*predecessor->address || !*predecessor->run_id ||
        strcmp(predecessor->run_id, self->sock->seat.run_id) != 0) {
        return RQL_OK;
    }
    rqli_command_reset(&self->command);
    command = open_word(self, KILL, 6);
    rqli_command_text(command, "CLIENT");
    rqli_command_text(command, "KILL");
    rqli_command_text(command, "ID");
    rqli_command_int(command, predecessor->client_id);
    rqli_command_text(command, "ADDR");
    rqli_command_text(command, predecessor->address);
    return ask(self, deadline_us, error);
}

rql_status rqli_login(struct rqli_socket *sock, const struct rqli_seat *predecessor,
                      int64_t deadline_us, struct rqli_clock_reading *reading_out, rql_error *error)
{
    RQLI_AUTO(login_free) struct login *self = calloc(1, sizeof *self);
    rql_status status;

    if (!self) {
        return rqli_fail_nomem(error);
    }
    self->sock = sock;
    self->reading = reading_out;
    write_words(self, predecessor != NULL);
    reading_out->sent_us = rqli_now_us();
    status = ask(self, deadline_us, error);
    if (!status && predecessor) {
        status = end_predecessor(self, predecessor, deadline_us, error);
    }
    if (!status && !rqli_decoder_is_empty(&sock->decoder)) {
        status = rqli_fail(error, RQL_E_PROTOCOL, "%s: more answers than questions at login",
                           sock->endpoint->where);
    }
    return status;
}
