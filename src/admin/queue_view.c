#include "admin/queue_view.h"

#include "base/error.h"
#include "base/must.h"
#include "base/random.h"
#include "wire/keys.h"
#include "wire/number.h"
#include "wire/pack.h"

#include <stdlib.h>

#define NO_HOST SIZE_MAX

enum { FIRST_ROWS = 16, FIRST_TEXT = 1024 };

void rqli_queue_view_init(struct rqli_queue_view *self, struct rqli_slice key, int64_t limit)
{
    RQLI_MUST(limit > 0 && limit <= RQLI_QUEUE_PAGE);
    *self = (struct rqli_queue_view){
        .key = key,
        .status = rqli_is_plain(key) ? RQL_KEY_ALIVE : RQL_KEY_MALFORMED,
        .limit = limit,
        .has_more = true,
        .last_score = "-inf",
    };
}

void rqli_queue_view_fini(struct rqli_queue_view *self)
{
    free(self->rows);
    free(self->text);
    self->rows = NULL;
    self->text = NULL;
}

void rqli_queue_view_ask(const struct rqli_queue_view *self, struct rqli_command *command)
{
    rqli_command_begin(command, 9);
    rqli_command_text(command, "ZRANGE");
    rqli_command_slice(command, self->key);
    rqli_command_text(command, self->last_score);
    rqli_command_text(command, "+inf");
    rqli_command_text(command, "BYSCORE");
    rqli_command_text(command, "LIMIT");
    rqli_command_int(command, self->n_ties);
    rqli_command_int(command, self->limit);
    rqli_command_text(command, "WITHSCORES");
}

static bool is_page(const struct rqli_reply *reply, size_t limit)
{
    if (reply->type != RQLI_REPLY_ARRAY || reply->count % 2 != 0 || reply->count / 2 > limit) {
        return false;
    }
    for (size_t i = 0; i < reply->count; i++) {
        const struct rqli_reply *item = &reply->items[i];

        if (item->type != RQLI_REPLY_TEXT ||
            (i % 2 == 1 && item->text.length >= RQLI_QUEUE_SCORE_SIZE)) {
            return false;
        }
    }
    return true;
}

static bool reserve_rows(struct rqli_queue_view *self, size_t more)
{
    size_t capacity = self->rows_capacity > 0 ? self->rows_capacity : FIRST_ROWS;
    struct rqli_queue_row *rows;

    while (capacity < self->n_rows + more) {
        capacity *= 2;
    }
    if (capacity == self->rows_capacity) {
        return true;
    }
    rows = reallocarray(self->rows, capacity, sizeof *rows);
    if (!rows) {
        return false;
    }
    self->rows = rows;
    self->rows_capacity = capacity;
    return true;
}

static bool reserve_text(struct rqli_queue_view *self, size_t more)
{
    size_t capacity = self->text_capacity > 0 ? self->text_capacity : FIRST_TEXT;
    char *text;

    while (capacity - self->text_length < more) {
        capacity *= 2;
    }
    if (capacity == self->text_capacity) {
        return true;
    }
    text = realloc(self->text, capacity);
    if (!text) {
        return false;
    }
    self->text = text;
    self->text_capacity = capacity;
    return true;
}

/* Where the text now is, the room must be there. */
static size_t add_text(struct rqli_queue_view *self, struct rqli_slice text)
{
    size_t at = self->text_length;
    char *cursor = self->text + at;

    (void)rqli_pack(&cursor, text);
    self->text_length += text.length + 1;
    return at;
}

static void count_ties(struct rqli_queue_view *self, struct rqli_slice score)
{
    bool is_tie = strlen(self->last_score) == score.length &&
                  memcmp(self->last_score, score.data, score.length) == 0;

    self->n_ties = is_tie ? self->n_ties + 1 : 1;
    memcpy(self->last_score, score.data, score.length);
    self->last_score[score.length] = '\0';
}

static bool add_row(struct rqli_queue_view *self, struct rqli_slice member, struct rqli_slice score)
{
    struct rqli_queue_row row = {
        .acq_length = member.length,
        .hst_at = NO_HOST,
        .score_us = -1,
    };

    if (!reserve_text(self, member.length + 1)) {
        return false;
    }
    if (!rqli_gem_seconds(score, &row.score_us) || !rqli_is_plain(member)) {
        self->status = RQL_KEY_MALFORMED;
    }
    row.acq_at = add_text(self, member);
    self->rows[self->n_rows++] = row;
    count_ties(self, score);
    return true;
}

rql_status rqli_queue_view_take(struct rqli_queue_view *self, const struct rqli_reply *reply,
                                const char *where, rql_error *error)
{
    self->has_more = false;
    if (reply->type == RQLI_REPLY_ERROR && rqli_reply_class(reply) == RQL_E_WRONG_TYPE) {
        self->status = RQL_KEY_WRONG_TYPE;
        return RQL_OK;
    }
    if (!is_page(reply, (size_t)self->limit)) {
        return rqli_reply_fault(reply, "ZRANGE", where, error);
    }
    if (!reserve_rows(self, reply->count / 2)) {
        return rqli_fail_nomem(error);
    }
    for (size_t i = 0; i < reply->count; i += 2) {
        if (!add_row(self, reply->items[i].text, reply->items[i + 1].text)) {
            return rqli_fail_nomem(error);
        }
    }
    self->has_more = reply->count / 2 == (size_t)self->limit;
    return RQL_OK;
}

/* A name that is too long for us has no requests of ours, nor a record of them. */
static size_t count_unknown(const struct rqli_queue_view *self)
{
    bool may_have = rqli_name_in(self->key, RQLI_KEY_QUEUE).length <= RQL_NAME_MAX;

    return may_have ? self->n_rows - self->n_looked_up : 0;
}

static struct rqli_slice records_key(struct rqli_slice name, char memory[RQLI_KEY_SIZE])
{
    const size_t prefix_length = sizeof RQLI_KEY_REQUESTS - 1;

    memcpy(memory, RQLI_KEY_REQUESTS, prefix_length);
    memcpy(memory + prefix_length, name.data, name.length);
    return (struct rqli_slice){memory, prefix_length + name.length};
}

size_t rqli_queue_view_ask_hosts(struct rqli_queue_view *self, struct rqli_command *command,
                                 size_t limit)
{
    size_t unknown = count_unknown(self);
    char memory[RQLI_KEY_SIZE];

    self->n_asked = unknown < limit ? unknown : limit;
    if (self->n_asked == 0) {
        return 0;
    }
    rqli_command_begin(command, 2 + self->n_asked);
    rqli_command_text(command, "HMGET");
    rqli_command_slice(command, records_key(rqli_name_in(self->key, RQLI_KEY_QUEUE), memory));
    for (size_t i = 0; i < self->n_asked; i++) {
        const struct rqli_queue_row *row = &self->rows[self->n_looked_up + i];

        rqli_command_slice(command, (struct rqli_slice){self->text + row->acq_at, row->acq_length});
    }
    return self->n_asked;
}

/* The first word of a record. */
static struct rqli_slice host_in(struct rqli_slice record)
{
    const char *end = record.length > 0 ? memchr(record.data, ' ', record.length) : NULL;

    if (end) {
        record.length = (size_t)(end - record.data);
    }
    return record;
}

/* A record leaves out the identity, which ends the acquirer's id too. */
static struct rqli_slice whole_host(struct rqli_slice host, struct rqli_slice acquirer,
                                    char memory[RQL_ID_SIZE])
{
    const size_t left_out = RQLI_HEX_SIZE - 1;
    size_t length = host.length + left_out;

    if (host.length == 0 || host.data[host.length - 1] != '/' || acquirer.length < left_out ||
        length >= RQL_ID_SIZE) {
        return host;
    }
    memcpy(memory, host.data, host.length);
    memcpy(memory + host.length, acquirer.data + acquirer.length - left_out, left_out);
    return (struct rqli_slice){memory, length};
}

/* None, if what the record has cannot be a host id. */
static bool set_host(struct rqli_queue_view *self, struct rqli_queue_row *row,
                     const struct rqli_reply *record)
{
    struct rqli_slice acquirer = {self->text + row->acq_at, row->acq_length};
    struct rqli_slice host = {0};
    char memory[RQL_ID_SIZE];

    if (record->type == RQLI_REPLY_TEXT) {
        host = whole_host(host_in(record->text), acquirer, memory);
    }
    if (host.length == 0 || host.length >= RQL_ID_SIZE || !rqli_is_plain(host)) {
        return true;
    }
    if (!reserve_text(self, host.length + 1)) {
        return false;
    }
    row->hst_at = add_text(self, host);
    return true;
}

rql_status rqli_queue_view_take_hosts(struct rqli_queue_view *self, const struct rqli_reply *reply,
                                      const char *where, rql_error *error)
{
    size_t first = self->n_looked_up;

    self->n_looked_up += self->n_asked;
    if (reply->type == RQLI_REPLY_ERROR && rqli_reply_class(reply) == RQL_E_WRONG_TYPE) {
        return RQL_OK;
    }
    if (reply->type != RQLI_REPLY_ARRAY || reply->count != self->n_asked) {
        return rqli_reply_fault(reply, "HMGET", where, error);
    }
    for (size_t i = 0; i < reply->count; i++) {
        if (!set_host(self, &self->rows[first + i], &reply->items[i])) {
            return rqli_fail_nomem(error);
        }
    }
    return RQL_OK;
}

static void fill(rql_request_info *requests, const struct rqli_queue_view *self, const char *text)
{
    for (size_t i = 0; i < self->n_rows; i++) {
        const struct rqli_queue_row *row = &self->rows[i];

        requests[i] = (rql_request_info){
            .acq_id = text + row->acq_at,
            .hst_id = row->hst_at == NO_HOST ? NULL : text + row->hst_at,
            .score_us = row->score_us,
            .position = (int64_t)i + 1,
        };
    }
}

rql_status rqli_queue_view_finish(const struct rqli_queue_view *self, rql_queue_info **out,
                                  rql_error *error)
{
    bool is_gone = self->status == RQL_KEY_ALIVE && self->n_rows == 0;
    rql_queue_info *info = NULL;
    rql_request_info *requests;
    char *cursor;

    info = malloc(sizeof *info + self->n_rows * sizeof *requests + self->key.length + 1 +
                  self->text_length);
    if (!info) {
        return rqli_fail_nomem(error);
    }
    requests = (rql_request_info *)(info + 1);
    cursor = (char *)(requests + self->n_rows);
    *info = (rql_queue_info){
        .status = is_gone ? RQL_KEY_RELEASED : self->status,
        .lock_queue = rqli_pack(&cursor, self->key),
        .n_requests = self->n_rows,
        .requests = self->n_rows > 0 ? requests : NULL,
    };
    info->name =
        info->lock_queue + (self->key.length - rqli_name_in(self->key, RQLI_KEY_QUEUE).length);
    if (self->n_rows > 0) {
        memcpy(cursor, self->text, self->text_length);
        fill(requests, self, cursor);
    }
    *out = info;
    return RQL_OK;
}
