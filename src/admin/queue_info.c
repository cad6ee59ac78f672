#include "admin/info.h"

#include "base/error.h"
#include "base/must.h"
#include "base/random.h"
#include "base/result.h"
#include "base/text.h"
#include "wire/answer.h"
#include "wire/command.h"
#include "wire/number.h"

#include <stdlib.h>

/*
 * Reads a queue's sorted set into a list of requests, in their order, with the times of their
 * scores. First come its pages, then the records of the requests that were found: hosts.item[i]
 * belongs to requests.item[i]. The pages are of different times, and so are the records: a request
 * that left in between is listed, without a host.
 */

/* SHARE_BASE: above any limit, to keep units and limit in one number. */
enum { WORDS_BEFORE_ACCESS = 4, SHARE_BASE = RQL_SHARE_MAX + 1 };

/* The first page begins at "-inf", with no request seen yet. */
void rqli_queue_reading_init(struct rqli_queue_reading *self, struct rqli_slice key, int64_t limit)
{
    RQLI_MUST(limit > 0 && limit <= RQLI_QUEUE_PAGE);
    *self = (struct rqli_queue_reading){
        .key = key,
        .status = rqli_is_plain(key) ? RQL_KEY_ALIVE : RQL_KEY_MALFORMED,
        .limit = limit,
        .has_more = true,
        .last_score = "-inf",
        .server_us = -1,
    };
}

void rqli_queue_reading_fini(struct rqli_queue_reading *self)
{
    rqli_list_fini_p(&self->requests);
    rqli_list_fini_p(&self->hosts);
    rqli_list_fini_p(&self->metadata);
}

/* Asks for the page from the last score that was seen, past the requests that have that score
 * and were seen. */
void rqli_queue_reading_ask(const struct rqli_queue_reading *self, struct rqli_command *command)
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

/* Checks {member, score, ...}. A score is sent back in the next command, so a text that is
 * longer than any score is refused. */
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

/* A full page may not be the last. The next page begins after the requests with the last score
 * that were seen. Counting them is enough, because requests with one score have a fixed order in
 * the set. */
rql_status rqli_queue_reading_take(struct rqli_queue_reading *self, const struct rqli_reply *reply,
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
    for (size_t i = 0; i < reply->count; i += 2) {
        struct rqli_slice acquirer = reply->items[i].text;
        struct rqli_slice score = reply->items[i + 1].text;
        bool is_tie = rqli_slice_is(score, self->last_score);
        int64_t score_us = -1;

        if (!rqli_gem_seconds(score, &score_us) || !rqli_is_plain(acquirer)) {
            self->status = RQL_KEY_MALFORMED;
        }
        rqli_list_add(&self->requests, acquirer, score_us);
        self->n_ties = is_tie ? self->n_ties + 1 : 1;
        memcpy(self->last_score, score.data, score.length);
        self->last_score[score.length] = '\0';
    }
    self->has_more = reply->count / 2 == (size_t)self->limit;
    return self->requests.failed ? rqli_fail_nomem(error) : RQL_OK;
}

/* If a name is too long for librql, its queue has no requests of ours and no record of them. Its
 * records are not asked for, so the keys fit into `memory`. */
size_t rqli_queue_reading_ask_hosts(struct rqli_queue_reading *self, struct rqli_command *command,
                                    size_t limit)
{
    const struct rqli_slice name = rqli_name_in(self->key, RQLI_KEY_QUEUE);
    const struct rqli_key_set *set = rqli_key_set_in(self->key);
    const size_t unknown =
        set && name.length <= RQL_NAME_MAX ? self->requests.count - self->hosts.count : 0;
    char memory[RQLI_KEYS_ROOM];
    struct rqli_keys keys;

    self->n_asked = unknown < limit ? unknown : limit;
    if (self->n_asked == 0) {
        return 0;
    }
    rqli_keys_init(&keys, memory, set, name);
    rqli_command_begin(command, 2 + self->n_asked);
    rqli_command_text(command, "HMGET");
    rqli_command_slice(command, keys.requests);
    for (size_t i = 0; i < self->n_asked; i++) {
        rqli_command_slice(command, self->requests.item[self->hosts.count + i].text);
    }
    return self->n_asked;
}

/* Returns the share that a record asks for, as one number; 0: it asks for the lock alone. The share
 * is the first pair of the metadata. */
static int64_t share_number(struct rqli_slice access, struct rqli_slice packed)
{
    struct rqli_packed metadata = rqli_packed_begin(packed);
    struct rqli_slice text;
    struct rqli_share share;

    if (!(rqli_slice_is(access, "h") || rqli_slice_is(access, "H")) ||
        !rqli_packed_next(&metadata, &text) || !rqli_slice_is(text, RQLI_SHARE_FIELD) ||
        !rqli_packed_next(&metadata, &text) || !rqli_share_read(text, &share)) {
        return 0;
    }
    return share.units * (int64_t)SHARE_BASE + share.limit;
}

/* The words in front of the metadata are host, ttl, nonce, end, access and score. The host is
 * without the client's identity. The identity also ends the acquirer's id, and is appended from
 * there. The host is "" if the record has no valid host id. */
static void add_record(struct rqli_queue_reading *self, struct rqli_slice record)
{
    struct rqli_slice access;
    const struct rqli_slice unknown = {"", 0};
    const struct rqli_slice acquirer = self->requests.item[self->hosts.count].text;
    const size_t left_out = RQLI_HEX_SIZE - 1;
    const char *end = record.length > 0 ? memchr(record.data, ' ', record.length) : NULL;
    struct rqli_slice host = {record.data, end ? (size_t)(end - record.data) : record.length};
    char memory[RQL_ID_SIZE];

    if (host.length > 0 && host.data[host.length - 1] == '/' && acquirer.length >= left_out &&
        host.length + left_out < RQL_ID_SIZE) {
        memcpy(memory, host.data, host.length);
        memcpy(memory + host.length, acquirer.data + acquirer.length - left_out, left_out);
        host = (struct rqli_slice){memory, host.length + left_out};
    }
    for (int i = 0; i < WORDS_BEFORE_ACCESS; i++) {
        (void)rqli_slice_word(&record);
    }
    access = rqli_slice_word(&record);
    (void)rqli_slice_word(&record); /* the score */
    rqli_list_add(&self->hosts, host.length < RQL_ID_SIZE && rqli_is_plain(host) ? host : unknown,
                  share_number(access, record));
    rqli_list_add(&self->metadata, record, 0);
}

/* Records of another type name no host. Nor does nil: that is a request of Ruby's, or one that
 * has left. Each record that was asked for gets an item, because otherwise none would match its
 * request. */
rql_status rqli_queue_reading_take_hosts(struct rqli_queue_reading *self,
                                         const struct rqli_reply *reply, const char *where,
                                         rql_error *error)
{
    bool are_foreign =
        reply->type == RQLI_REPLY_ERROR && rqli_reply_class(reply) == RQL_E_WRONG_TYPE;

    if (!are_foreign && (reply->type != RQLI_REPLY_ARRAY || reply->count != self->n_asked)) {
        return rqli_reply_fault(reply, "HMGET", where, error);
    }
    for (size_t i = 0; i < self->n_asked && !self->hosts.failed; i++) {
        const struct rqli_reply *record = are_foreign ? NULL : &reply->items[i];
        const bool is_text = record && record->type == RQLI_REPLY_TEXT;

        add_record(self, is_text ? record->text : (struct rqli_slice){"", 0});
    }
    return self->hosts.failed || self->metadata.failed ? rqli_fail_nomem(error) : RQL_OK;
}

static size_t count_pairs(const struct rqli_list *metadata)
{
    size_t count = 0;

    for (size_t i = 0; i < metadata->count; i++) {
        count += rqli_packed_count_pairs(metadata->item[i].text);
    }
    return count;
}

/* Makes one allocation: the struct, the pointers to its requests, the requests, their metadata,
 * then all texts. There may be fewer hosts than requests, because the records of a name that is too
 * long are not read. */
rql_status rqli_queue_reading_finish(const struct rqli_queue_reading *self, rql_queue_info **out,
                                     rql_error *error)
{
    const size_t count = self->requests.count;
    bool is_gone = self->status == RQL_KEY_ALIVE && count == 0;
    rql_request_info **place;
    rql_request_info *request;
    rql_queue_info *info;
    size_t n_pairs = count_pairs(&self->metadata);
    rql_meta *meta;
    char *cursor;

    info = rqli_result_new(sizeof *info + count * (sizeof(void *) + sizeof *request) +
                           n_pairs * sizeof *meta + self->key.length + 1 +
                           rqli_list_size(&self->requests) + rqli_list_size(&self->hosts) +
                           rqli_list_size(&self->metadata));
    if (!info) {
        return rqli_fail_nomem(error);
    }
    place = (rql_request_info **)(info + 1);
    request = (rql_request_info *)(place + count);
    meta = (rql_meta *)(request + count);
    cursor = (char *)(meta + n_pairs);
    *info = (rql_queue_info){
        .status = is_gone ? RQL_KEY_RELEASED : self->status,
        .key = rqli_pack(&cursor, self->key),
        .n_requests = count,
        .requests = count > 0 ? place : NULL,
        .server_us = self->server_us,
    };
    info->name = info->key + (self->key.length - rqli_name_in(self->key, RQLI_KEY_QUEUE).length);
    for (size_t i = 0; i < count; i++) {
        bool is_read = i < self->hosts.count;
        bool has_host = is_read && self->hosts.item[i].text.length > 0;
        int64_t share = is_read ? self->hosts.item[i].number : 0;

        place[i] = &request[i];
        request[i] = (rql_request_info){
            .acquirer_id = rqli_pack(&cursor, self->requests.item[i].text),
            .host_id = has_host ? rqli_pack(&cursor, self->hosts.item[i].text) : NULL,
            .score_us = self->requests.item[i].number,
            .position = (int64_t)i + 1,
            .share_units = share / SHARE_BASE,
            .share_limit = share % SHARE_BASE,
            .n_meta =
                is_read ? rqli_packed_read_meta(self->metadata.item[i].text, meta, &cursor) : 0,
        };
        request[i].meta = request[i].n_meta > 0 ? meta : NULL;
        meta += request[i].n_meta;
    }
    *out = info;
    return RQL_OK;
}

/* Queues that are read together; n readings have been begun, and must be ended. */
struct readings {
    size_t n;
    struct rqli_queue_reading of[];
};

/* Reads one page of each queue. */
static rql_status read_pages(const struct rqli_reader *reader, struct rqli_queue_reading *of,
                             size_t n)
{
    RQLI_AUTO(rqli_batch_give)
    struct rqli_batch *batch = rqli_reader_take(reader);
    rql_status status;

    for (size_t i = 0; batch && i < n; i++) {
        rqli_queue_reading_ask(&of[i], &batch->command);
    }
    if (batch) {
        rqli_command_words(&batch->command, "TIME", NULL);
    }
    status = rqli_reader_run(reader, batch);
    for (size_t i = 0; !status && i < n; i++) {
        (void)rqli_time_read(&batch->reply[n], &of[i].server_us);
        status = rqli_queue_reading_take(&of[i], &batch->reply[i], reader->where, reader->error);
    }
    return status;
}

/* Reads the next records of all queues together: as many as one batch may ask for, in the
 * order of the queues. *has_more: that room was used up, so there may be some left. */
static rql_status read_some_hosts(const struct rqli_reader *reader, struct readings *readings,
                                  bool *has_more)
{
    RQLI_AUTO(rqli_batch_give)
    struct rqli_batch *batch = rqli_reader_take(reader);
    const struct rqli_reply *reply;
    size_t room = RQLI_QUEUE_HOSTS;
    rql_status status;

    for (size_t i = 0; batch && i < readings->n; i++) {
        room -= rqli_queue_reading_ask_hosts(&readings->of[i], &batch->command, room);
    }
    *has_more = room == 0;
    if (batch && batch->command.n_commands == 0) {
        return RQL_OK;
    }
    status = rqli_reader_run(reader, batch);
    if (status) {
        return status;
    }
    reply = batch->reply;
    for (size_t i = 0; !status && i < readings->n; i++) {
        if (readings->of[i].n_asked > 0) {
            status = rqli_queue_reading_take_hosts(&readings->of[i], reply++, reader->where,
                                                   reader->error);
        }
    }
    return status;
}

/* Reads all first pages in one batch, then the longer queues one by one: most queues are
 * short. */
static rql_status read_all(const struct rqli_reader *reader, struct readings *readings,
                           rql_queue_info **out)
{
    rql_status status = read_pages(reader, readings->of, readings->n);
    bool has_more = true;

    for (size_t i = 0; i < readings->n; i++) {
        while (!status && readings->of[i].has_more) {
            status = read_pages(reader, &readings->of[i], 1);
        }
    }
    while (!status && has_more) {
        status = read_some_hosts(reader, readings, &has_more);
    }
    for (size_t i = 0; !status && i < readings->n; i++) {
        status = rqli_queue_reading_finish(&readings->of[i], &out[i], reader->error);
        if (!status) {
            out[i]->node = rqli_reader_node(reader);
        }
    }
    return status;
}

/* A page has room for the items that the queue had when it was measured, and a few more. Then
 * the first page of a short queue is not full, and so it is the last one. */
static rql_status read_some(const struct rqli_reader *reader, const struct rqli_key_batch *self,
                            size_t first, size_t n)
{
    struct readings *readings = calloc(1, sizeof *readings + n * sizeof readings->of[0]);
    rql_status status;

    if (!readings) {
        return rqli_fail_nomem(reader->error);
    }
    for (; readings->n < n; readings->n++) {
        int64_t items = self->costs[first - self->first + readings->n].items;

        rqli_queue_reading_init(&readings->of[readings->n], self->keys[first + readings->n].text,
                                rqli_smaller(items + RQLI_SPARE_ITEMS, RQLI_QUEUE_PAGE));
    }
    status = read_all(reader, readings, (rql_queue_info **)self->context + first);
    for (size_t i = 0; i < n; i++) {
        rqli_queue_reading_fini(&readings->of[i]);
    }
    free(readings);
    return status;
}

/* Reports a queue that is too large for a batch, with a status that says that it was not
 * read. A queue is too large only by the length of its texts, because the number of its requests is
 * cut to a page. */
static rql_status report_unread(const struct rqli_reader *reader, const struct rqli_key_batch *self,
                                size_t i)
{
    rql_queue_info **out = (rql_queue_info **)self->context + i;
    struct rqli_queue_reading reading;
    rql_status status;

    rqli_queue_reading_init(&reading, self->keys[i].text, 1);
    reading.status = RQL_KEY_MALFORMED;
    status = rqli_queue_reading_finish(&reading, out, reader->error);
    if (!status) {
        (*out)->node = rqli_reader_node(reader);
    }
    return status;
}

rql_status rqli_read_queues(const struct rqli_reader *reader, const struct rqli_item *keys,
                            size_t n, rql_queue_info **out)
{
    static const struct rqli_key_batch_ops queues = {"ZCARD", RQLI_QUEUE_PAGE, read_some,
                                                     report_unread};

    return rqli_key_batch_read(reader, &queues, keys, n, out);
}
