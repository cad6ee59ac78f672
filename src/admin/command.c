#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/result.h"
#include "lock/client.h"
#include "net/conn/conn_threads.h"

#include <rql/command.h>
#include <string.h>

/* A caller's own command and its reply. The reply is copied into one block of memory, because the
 * original lives in a batch of the client. */

struct rql_reply {
    rql_reply_type type;
    int64_t integer;
    const char *text;
    size_t length;
    size_t count;
    const struct rql_reply *items;
};

/* ---- the copy of a reply ---- */

/* The number of replies and of bytes of text; then the places for the next ones. */
struct room {
    size_t n_replies;
    size_t n_bytes;
    struct rql_reply *replies;
    char *bytes;
};

static void add_room(struct room *self, const struct rqli_reply *reply)
{
    self->n_replies++;
    self->n_bytes += reply->text.length + 1;
    for (size_t i = 0; i < reply->count; i++) {
        add_room(self, &reply->items[i]);
    }
}

static struct rql_reply *take_replies(struct room *self, size_t count)
{
    struct rql_reply *first = self->replies;

    self->replies += count;
    return first;
}

static const char *take_text(struct room *self, struct rqli_slice text)
{
    char *copy = self->bytes;

    if (text.length > 0) {
        memcpy(copy, text.data, text.length);
    }
    copy[text.length] = '\0';
    self->bytes += text.length + 1;
    return copy;
}

static rql_reply_type type_of(const struct rqli_reply *reply)
{
    static const rql_reply_type types[] = {
        [RQLI_REPLY_NIL] = RQL_REPLY_NIL,     [RQLI_REPLY_INTEGER] = RQL_REPLY_INTEGER,
        [RQLI_REPLY_TEXT] = RQL_REPLY_TEXT,   [RQLI_REPLY_STATUS] = RQL_REPLY_STATUS,
        [RQLI_REPLY_ERROR] = RQL_REPLY_ERROR, [RQLI_REPLY_ARRAY] = RQL_REPLY_ARRAY,
    };

    return types[reply->type];
}

/* The decoder limits the depth of a reply, and thereby that of this recursion. */
static void copy_reply(struct room *room, const struct rqli_reply *reply, struct rql_reply *out)
{
    struct rql_reply *items = take_replies(room, reply->count);

    *out = (struct rql_reply){
        .type = type_of(reply),
        .integer = reply->integer,
        .text = take_text(room, reply->text),
        .length = reply->text.length,
        .count = reply->count,
        .items = items,
    };
    for (size_t i = 0; i < reply->count; i++) {
        copy_reply(room, &reply->items[i], &items[i]);
    }
}

/* Returns NULL if there is no memory. */
static rql_reply *copy_of(const struct rqli_reply *reply)
{
    struct room room = {.n_replies = 0};
    struct rql_reply *copy;

    add_room(&room, reply);
    copy = rqli_result_new(room.n_replies * sizeof *copy + room.n_bytes);
    if (copy) {
        room.replies = copy;
        room.bytes = (char *)(copy + room.n_replies);
        copy_reply(&room, reply, take_replies(&room, 1));
    }
    return copy;
}

/* ---- the call ---- */

static rql_status check(const rql_client *client, const rql_command *command, rql_reply *const *out,
                        rql_error *error)
{
    rql_status status = rqli_client_check_process(client, error);
    bool is_whole = out && command && command->argv && command->argc > 0;

    for (size_t i = 0; is_whole && i < command->argc; i++) {
        is_whole = command->argv[i] != NULL;
    }
    if (!status && !is_whole) {
        status = rqli_fail(error, RQL_E_INVALID,
                           "rql_client_command: a pointer is NULL, or there is no word");
    }
    return status;
}

static void write_words(const rql_command *command, struct rqli_command *out)
{
    rqli_command_begin(out, command->argc);
    for (size_t i = 0; i < command->argc; i++) {
        const char *word = command->argv[i];

        rqli_command_slice(out, command->argvlen ? (struct rqli_slice){word, command->argvlen[i]}
                                                 : rqli_slice_of(word));
    }
}

rql_status rql_client_command(rql_client *client, size_t n, const rql_command *command,
                              rql_reply **out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = NULL;
    rql_reply *copy = NULL;
    struct rqli_node *node;
    rql_status status = check(client, command, out, error);

    if (!status) {
        status = rqli_client_find_node(client, n, &node, error);
    }
    if (status) {
        return status;
    }
    batch = rqli_batch_take(rqli_conns_choose(&node->conns));
    if (!batch) {
        return rqli_fail_nomem(error);
    }
    write_words(command, &batch->command);
    status = rqli_conn_run(batch, rqli_client_until_us(client, rqli_now_us()), error);
    if (status) {
        return status;
    }
    copy = copy_of(batch->reply);
    if (!copy) {
        return rqli_fail_nomem(error);
    }
    *out = copy;
    return RQL_OK;
}

/* ---- the parts of a reply ---- */

rql_reply_type rql_reply_get_type(const rql_reply *reply)
{
    return reply ? reply->type : RQL_REPLY_NIL;
}

int64_t rql_reply_integer(const rql_reply *reply)
{
    return rql_reply_get_type(reply) == RQL_REPLY_INTEGER ? reply->integer : 0;
}

const char *rql_reply_text(const rql_reply *reply, size_t *out_length)
{
    if (out_length) {
        *out_length = reply ? reply->length : 0;
    }
    return reply ? reply->text : "";
}

size_t rql_reply_count(const rql_reply *reply)
{
    return reply ? reply->count : 0;
}

const rql_reply *rql_reply_item(const rql_reply *reply, size_t index)
{
    return index < rql_reply_count(reply) ? &reply->items[index] : NULL;
}
