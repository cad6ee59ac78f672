#include "net/login/sentinel.h"

#include "base/error.h"
#include "net/login/ask.h"
#include "net/login/credentials.h"
#include "net/sock/site.h"

#include <stdio.h>
#include <string.h>

void rqli_sentinel_init(struct rqli_sentinel *self, const struct rqli_site *site)
{
    *self = (struct rqli_sentinel){.sock = {.site = site, .fd = -1}};
}

void rqli_sentinel_close(struct rqli_sentinel *self)
{
    rqli_socket_close(&self->sock);
    rqli_arena_reset(&self->arena);
}

void rqli_sentinel_fini(struct rqli_sentinel *self)
{
    rqli_sentinel_close(self);
    rqli_command_fini(&self->command);
}

/* ---- questions ---- */

static struct rqli_command *begin_question(struct rqli_sentinel *self)
{
    rqli_command_reset(&self->command);
    rqli_arena_reset(&self->arena);
    return &self->command;
}

/* Reads a reply. An error reply counts as one, too. */
static rql_status read_reply(struct rqli_sentinel *self, struct rqli_reply *reply,
                             int64_t deadline_us, rql_error *error)
{
    rql_status status = rqli_ask_read(&self->sock, &self->arena, reply, deadline_us, error);

    if (status) {
        rqli_sentinel_close(self);
    }
    return status;
}

/* Reports a fault that ends the whole conversation. */
static rql_status fail_conversation(struct rqli_sentinel *self, const struct rqli_reply *reply,
                                    const char *what, rql_error *error)
{
    rql_status status = rqli_reply_fault(reply, what, self->sock.site->where, error);

    rqli_sentinel_close(self);
    return status;
}

static rql_status log_in(struct rqli_sentinel *self, int64_t deadline_us, rql_error *error)
{
    const struct rqli_url *url = self->sock.site->session->url;
    struct rqli_command *command = begin_question(self);
    struct rqli_reply reply = {0};
    rql_status status;

    if (!url->password) {
        return RQL_OK;
    }
    rqli_credentials_write(url->user, url->password, command);
    status = rqli_ask_send(&self->sock, command, deadline_us, error);
    if (command->data) {
        explicit_bzero(command->data, command->capacity); /* the password was in it */
    }
    if (!status) {
        status = read_reply(self, &reply, deadline_us, error);
    }
    return !status && reply.type == RQLI_REPLY_ERROR
               ? fail_conversation(self, &reply, "AUTH", error)
               : status;
}

rql_status rqli_sentinel_open(struct rqli_sentinel *self, const struct rqli_address *address,
                              int64_t deadline_us, rql_error *error)
{
    rql_status status;

    rqli_sentinel_close(self);
    self->sock.node = *address;
    status = rqli_ask_open(&self->sock, deadline_us, error);
    if (!status) {
        status = log_in(self, deadline_us, error);
    }
    if (status) {
        rqli_sentinel_close(self);
    }
    return status;
}

/* ---- answers ---- */

/* Returns the text of a field; empty if the field is missing. */
static struct rqli_slice text_of_field(const struct rqli_reply *reply, const char *name)
{
    const struct rqli_reply *value = rqli_reply_field(reply, name, RQLI_REPLY_TEXT);

    return value ? value->text : (struct rqli_slice){"", 0};
}

static bool read_address(struct rqli_address *out, struct rqli_slice host, struct rqli_slice port)
{
    int64_t number;

    return rqli_parse_int(port, &number) && rqli_address_set(out, host, number);
}

/* Reads the reply to GET-MASTER-ADDR-BY-NAME: a host and a port, or nil. This address changes
 * before that of SENTINEL MASTER does. */
static rql_status take_address(struct rqli_sentinel *self, const char *master,
                               const struct rqli_reply *reply, struct rqli_address *out,
                               rql_error *error)
{
    if (reply->type == RQLI_REPLY_NIL || (reply->type == RQLI_REPLY_ARRAY && reply->count == 0)) {
        return rqli_fail(error, RQL_E_UNAVAILABLE, "%s knows no master with the name \"%.64s\"",
                         self->sock.site->where, master);
    }
    if (reply->type != RQLI_REPLY_ARRAY || reply->count != 2 ||
        !read_address(out, reply->items[0].text, reply->items[1].text)) {
        return fail_conversation(self, reply, "SENTINEL GET-MASTER-ADDR-BY-NAME", error);
    }
    return RQL_OK;
}

/* Reads the reply to SENTINEL MASTER. The right to it may be missing: then the epoch is unknown. */
static void take_details(struct rqli_master_claim *out, const struct rqli_reply *reply)
{
    struct rqli_slice flags;

    out->epoch = RQLI_MASTER_NO_EPOCH;
    if (reply->type == RQLI_REPLY_ARRAY) {
        flags = text_of_field(reply, "flags");
        out->is_down = memmem(flags.data, flags.length, "down", strlen("down")) != NULL;
        (void)rqli_parse_int(text_of_field(reply, "config-epoch"), &out->epoch);
    }
}

rql_status rqli_sentinel_ask(struct rqli_sentinel *self, const char *master, int64_t deadline_us,
                             struct rqli_master_claim *out, rql_error *error)
{
    struct rqli_command *command = begin_question(self);
    struct rqli_reply replies[2] = {{0}};
    rql_status status;

    *out = (struct rqli_master_claim){0};
    rqli_command_words(command, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", master, NULL);
    rqli_command_words(command, "SENTINEL", "MASTER", master, NULL);
    status = rqli_ask_send(&self->sock, command, deadline_us, error);
    if (status) {
        rqli_sentinel_close(self);
    }
    for (size_t i = 0; !status && i < 2; i++) {
        status = read_reply(self, &replies[i], deadline_us, error);
    }
    if (!status) {
        status = take_address(self, master, &replies[0], &out->address, error);
    }
    if (!status) {
        take_details(out, &replies[1]);
    }
    return status;
}

rql_status rqli_sentinel_others(struct rqli_sentinel *self, const char *master, int64_t deadline_us,
                                struct rqli_address *out, size_t *count)
{
    struct rqli_command *command = begin_question(self);
    const size_t size = *count;
    struct rqli_reply reply = {0};
    rql_status status;

    *count = 0;
    rqli_command_words(command, "SENTINEL", "SENTINELS", master, NULL);
    status = rqli_ask_send(&self->sock, command, deadline_us, NULL);
    if (!status) {
        status = read_reply(self, &reply, deadline_us, NULL);
    }
    for (size_t i = 0; !status && i < reply.count && *count < size; i++) {
        const struct rqli_reply *other = &reply.items[i];

        *count +=
            read_address(&out[*count], text_of_field(other, "ip"), text_of_field(other, "port"));
    }
    return status;
}

rql_status rqli_sentinel_subscribe(struct rqli_sentinel *self, int64_t deadline_us)
{
    struct rqli_command *command = begin_question(self);
    struct rqli_reply reply = {0};
    rql_status status;

    rqli_command_words(command, "SUBSCRIBE", "+switch-master", NULL);
    status = rqli_ask_send(&self->sock, command, deadline_us, NULL);
    if (!status) {
        status = read_reply(self, &reply, deadline_us, NULL);
    }
    if (!status && reply.type != RQLI_REPLY_ARRAY) {
        status = RQL_E_UNSUPPORTED;
    }
    if (status) {
        rqli_sentinel_close(self);
    }
    return status;
}

void rqli_sentinel_take_news(struct rqli_sentinel *self)
{
    enum rqli_socket_read got = rqli_socket_read(&self->sock, 0, 0);
    struct rqli_reply reply = {0};
    int state = got == RQLI_SOCKET_BROKEN ? -1 : 0;

    while (got == RQLI_SOCKET_BYTES &&
           (state = rqli_decoder_next(&self->sock.decoder, &self->arena, &reply)) > 0) {
        rqli_arena_reset(&self->arena);
        reply = (struct rqli_reply){0};
    }
    if (state < 0) {
        rqli_sentinel_close(self);
    }
}
