#include "admin/pages.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/result.h"
#include "base/text.h"
#include "wire/answer.h"
#include "wire/number.h"

#include <stdio.h>
#include <stdlib.h>

/*
 * Readers of large data for operators' calls: keys and hosts page by page (rqli_walk), texts into a
 * list that grows (rqli_list), and the contents of keys in batches that fit a connection
 * (rqli_key_batch). A server with a million keys gets small questions only, and a reply is believed
 * only if it has the shape and size that were asked for.
 */

enum {
    FIRST_ITEMS = 64,
    FIRST_BLOCK = 1024,
    LARGEST_BLOCK = 65536,
    PATTERN_SIZE = 64,
};

/* These calls change nothing, so a lost reply leaves no doubt: it is only a fault of the
 * connection. */
rql_status rqli_reader_status(rql_status status, const struct rqli_node *node, rql_error *error)
{
    if (status != RQL_E_UNKNOWN) {
        return status;
    }
    return rqli_fail(error, RQL_E_IO,
                     "%s: no answer; the connection broke or the server was silent",
                     rqli_node_where(node));
}

struct rqli_batch *rqli_reader_take(const struct rqli_reader *self)
{
    return rqli_client_batch(self->client, self->set,
                             rqli_client_until_us(self->client, rqli_now_us()));
}

const char *rqli_reader_node(const struct rqli_reader *self)
{
    struct rqli_fleet *fleet = &self->client->fleet;

    return rqli_node_where(self->set ? rqli_fleet_node(fleet, self->set) : &fleet->first);
}

/* Each batch has the time of a single command, so a listing as a whole has no limit. If keys
 * of a batch have moved, retries->again_us tells the batch to read them again. */
rql_status rqli_reader_send(const struct rqli_reader *self, struct rqli_batch *batch)
{
    rql_status status = rqli_client_run(
        self->client, batch, rqli_client_until_us(self->client, rqli_now_us()), self->error);

    status = rqli_reader_status(status, rqli_client_node_of(self->client, batch), self->error);
    for (int i = 0; !status && i < batch->command.n_commands; i++) {
        if (self->retries &&
            rqli_client_follows(self->client, self->set, &batch->reply[i], self->retries)) {
            status = rqli_batch_fault(batch, &batch->reply[i], "reading", self->where, self->error);
        }
    }
    return status;
}

/* The texts of many items. A block never moves, so that items may point into it. The newest
 * block is the first in the list, and the only one that gets more texts. */
struct rqli_list_block {
    struct rqli_list_block *next;
    size_t size;
    size_t used;
    char text[];
};

void rqli_list_fini_p(struct rqli_list *self)
{
    while (self->blocks) {
        struct rqli_list_block *block = self->blocks;

        self->blocks = block->next;
        free(block);
    }
    free(self->item);
    *self = (struct rqli_list){0};
}

/* The capacity doubles: a listing of a million keys is copied some fourteen times, not a
 * million. */
static bool reserve_item(struct rqli_list *self)
{
    size_t capacity = self->capacity > 0 ? 2 * self->capacity : FIRST_ITEMS;
    struct rqli_item *item;

    if (self->count < self->capacity) {
        return true;
    }
    item = reallocarray(self->item, capacity, sizeof *item);
    if (!item) {
        return false;
    }
    self->item = item;
    self->capacity = capacity;
    return true;
}

/* Returns room for `size` bytes of text, or NULL. Blocks double up to LARGEST_BLOCK; a text that
 * is longer gets a block of its size. */
static char *reserve_text(struct rqli_list *self, size_t size)
{
    struct rqli_list_block *block = self->blocks;

    if (!block || block->size - block->used < size) {
        size_t room = block ? 2 * block->size : FIRST_BLOCK;

        room = room < LARGEST_BLOCK ? room : LARGEST_BLOCK;
        room = room > size ? room : size;
        block = malloc(sizeof *block + room);
        if (!block) {
            return NULL;
        }
        block->next = self->blocks;
        block->size = room;
        block->used = 0;
        self->blocks = block;
    }
    block->used += size;
    return block->text + block->used - size;
}

/* Without memory the text is left out. The function that gives the list out reports that memory
 * was short, so callers need not check each text. */
void rqli_list_add(struct rqli_list *self, struct rqli_slice text, int64_t number)
{
    char *cursor = reserve_item(self) ? reserve_text(self, text.length + 1) : NULL;

    if (!cursor) {
        self->failed = true;
        return;
    }
    text.data = rqli_pack(&cursor, text);
    self->item[self->count++] = (struct rqli_item){text, number};
}

static int compare_texts(const void *a, const void *b)
{
    const struct rqli_slice *left = &((const struct rqli_item *)a)->text;
    const struct rqli_slice *right = &((const struct rqli_item *)b)->text;
    size_t common = left->length < right->length ? left->length : right->length;
    int order = common > 0 ? memcmp(left->data, right->data, common) : 0;

    return order != 0 ? order : (left->length > right->length) - (left->length < right->length);
}

/* If two items have the same text, the one with the larger number comes first, and is kept. */
static int compare(const void *a, const void *b)
{
    int64_t left = ((const struct rqli_item *)a)->number;
    int64_t right = ((const struct rqli_item *)b)->number;
    int order = compare_texts(a, b);

    return order != 0 ? order : (left < right) - (left > right);
}

/* SCAN may return a key more than once. */
void rqli_list_sort(struct rqli_list *self)
{
    size_t kept = 0;

    if (self->count == 0) {
        return;
    }
    qsort(self->item, self->count, sizeof *self->item, compare);
    for (size_t i = 1; i < self->count; i++) {
        if (compare_texts(&self->item[kept], &self->item[i]) != 0) {
            self->item[++kept] = self->item[i];
        }
    }
    self->count = kept + 1;
}

/* Uses a binary search, because a flush asks for each lock whether its host is dead. */
const struct rqli_item *rqli_list_find(const struct rqli_list *self, struct rqli_slice text)
{
    const struct rqli_item wanted = {.text = text};

    return self->count > 0
               ? bsearch(&wanted, self->item, self->count, sizeof *self->item, compare_texts)
               : NULL;
}

bool rqli_list_has(const struct rqli_list *self, struct rqli_slice text)
{
    return rqli_list_find(self, text) != NULL;
}

size_t rqli_list_size(const struct rqli_list *self)
{
    size_t size = 0;

    for (size_t i = 0; i < self->count; i++) {
        size += self->item[i].text.length + 1;
    }
    return size;
}

/* Makes one allocation for the caller: pointers, then texts. It may have room for texts that are
 * left out. The list itself stays. */
rql_status rqli_list_give(const struct rqli_list *self, rql_text_list **out, rql_error *error)
{
    size_t size = self->count * sizeof(char *) + rqli_list_size(self);
    rql_text_list *list = self->failed ? NULL : rqli_result_new(sizeof *list + size);
    char *cursor;

    if (!list) {
        return rqli_fail_nomem(error);
    }
    list->count = 0;
    list->item = (const char **)(list + 1);
    cursor = (char *)(list->item + self->count);
    for (size_t i = 0; i < self->count; i++) {
        if (rqli_is_plain(self->item[i].text)) {
            list->item[list->count++] = rqli_pack(&cursor, self->item[i].text);
        }
    }
    *out = list;
    return RQL_OK;
}

rql_status rqli_list_give_names(struct rqli_list *self, const char *prefix, rql_text_list **out,
                                rql_error *error)
{
    for (size_t i = 0; i < self->count; i++) {
        self->item[i].text = rqli_name_in(self->item[i].text, prefix);
    }
    rqli_list_sort(self);
    return rqli_list_give(self, out, error);
}

/* A value that is no time is stored as -1: such a host is listed, but never counts as dead. */
static void take_time(struct rqli_walk *self, struct rqli_slice name, struct rqli_slice value)
{
    int64_t time_us = -1;

    if (!rqli_gem_seconds(value, &time_us) || time_us < 0) {
        time_us = -1;
    }
    rqli_list_add(&self->found, name, time_us);
}

/* The server's cursor is opaque, except that "0" begins a walk, and ends it. */
void rqli_walk_init(struct rqli_walk *self, const char *prefix, const char *hash)
{
    *self =
        (struct rqli_walk){.prefix = prefix, .hash = hash, .take_field = take_time, .cursor = "0"};
}

void rqli_walk_use(struct rqli_walk *self, rql_client *client, const bool *partitions)
{
    if (client->is_partitioned && !self->hash) {
        self->fleet = &client->fleet;
        self->partitions = partitions;
        self->node = rqli_fleet_next(self->fleet, NULL, partitions);
    }
}

/* Writes the command for the next page. The values of a hash have times, so TIME goes before
 * each of its pages: only the server's clock says how long ago they are. */
void rqli_walk_ask(const struct rqli_walk *self, struct rqli_command *command, int64_t count)
{
    char digits[RQLI_CURSOR_SIZE];
    char pattern[PATTERN_SIZE];

    (void)snprintf(digits, sizeof digits, "%lld", (long long)count);
    if (self->hash) {
        rqli_command_words(command, "TIME", NULL);
        rqli_command_words(command, "HSCAN", self->hash, self->cursor, "COUNT", digits, NULL);
        return;
    }
    (void)snprintf(pattern, sizeof pattern, "%s%s*", self->fleet ? RQLI_PREFIX "{*}:" : RQLI_PREFIX,
                   self->prefix + sizeof RQLI_PREFIX - 1);
    rqli_command_words(command, "SCAN", self->cursor, "MATCH", pattern, "COUNT", digits, NULL);
}

/* Checks {cursor, texts}; a hash has two texts for each field. The cursor goes back to the
 * server in the next command, so a text that cannot be a server's cursor is refused. */
static bool is_page(const struct rqli_walk *self, const struct rqli_reply *reply)
{
    const struct rqli_reply *cursor = reply->items;
    const struct rqli_reply *found;

    if (reply->type != RQLI_REPLY_ARRAY || reply->count != 2 || cursor->type != RQLI_REPLY_TEXT ||
        cursor->text.length == 0 || cursor->text.length >= RQLI_CURSOR_SIZE ||
        !rqli_is_plain(cursor->text)) {
        return false;
    }
    found = &reply->items[1];
    for (size_t i = 0; found->type == RQLI_REPLY_ARRAY && i < found->count; i++) {
        if (found->items[i].type != RQLI_REPLY_TEXT) {
            return false;
        }
    }
    return found->type == RQLI_REPLY_ARRAY && (!self->hash || found->count % 2 == 0);
}

/* A field whose name a C program cannot read as a whole is no host and no client, whichever
 * program wrote it. */
static void add_fields(struct rqli_walk *self, const struct rqli_reply *found)
{
    for (size_t i = 0; i < found->count; i += 2) {
        if (rqli_is_plain(found->items[i].text)) {
            self->take_field(self, found->items[i].text, found->items[i + 1].text);
        }
    }
}

static bool is_wanted(const struct rqli_walk *self, struct rqli_slice key)
{
    return self->fleet ? rqli_name_in(key, self->prefix).length > 0
                       : rqli_has_prefix(key, rqli_slice_of(self->prefix));
}

/* The server has matched the pattern already. This check is for a peer that is no real server. */
static void add_keys(struct rqli_walk *self, const struct rqli_reply *found)
{
    for (size_t i = 0; i < found->count; i++) {
        if (is_wanted(self, found->items[i].text)) {
            rqli_list_add(&self->found, found->items[i].text, 0);
        }
    }
}

/* MATCH and COUNT decide how long a page is, and it may be empty: only the cursor ends a walk.
 * The cursor moves last, so after a fault it is still that of the page before. A key that moves
 * from one server to another meanwhile is found at both, or at none. */
rql_status rqli_walk_take(struct rqli_walk *self, const struct rqli_batch *batch, rql_error *error)
{
    const struct rqli_reply *page = &batch->reply[self->hash ? 1 : 0];
    rql_status status = self->fleet ? rqli_fleet_check_map(self->fleet, error) : RQL_OK;

    if (status) {
        return status;
    }
    if (self->hash && !rqli_time_read(batch->reply, &self->server_us)) {
        return rqli_batch_fault(batch, batch->reply, "TIME", "server", error);
    }
    if (!is_page(self, page)) {
        return rqli_batch_fault(batch, page, self->hash ? "HSCAN" : "SCAN",
                                self->hash ? self->hash : self->prefix, error);
    }
    if (self->hash) {
        add_fields(self, &page->items[1]);
    } else {
        add_keys(self, &page->items[1]);
    }
    if (self->found.failed) {
        return rqli_fail_nomem(error);
    }
    (void)snprintf(self->cursor, sizeof self->cursor, "%s", page->items[0].text.data);
    if (strcmp(self->cursor, "0") == 0) {
        self->node =
            self->fleet ? rqli_fleet_next(self->fleet, self->node, self->partitions) : NULL;
        self->is_done = !self->node;
    }
    if (self->is_done) {
        rqli_list_sort(&self->found);
    }
    return RQL_OK;
}

static rql_status read_page_there(const struct rqli_reader *reader, struct rqli_walk *self,
                                  int64_t count)
{
    RQLI_AUTO(rqli_batch_give)
    struct rqli_batch *batch = self->node ? rqli_batch_take(rqli_conns_choose(&self->node->conns))
                                          : rqli_reader_take(reader);
    rql_status status;

    if (batch) {
        rqli_walk_ask(self, &batch->command, count);
    }
    status = rqli_reader_run(reader, batch);
    return status ? status : rqli_walk_take(self, batch, reader->error);
}

/* If a hash has moved, its walk begins again at the node that has it now: a cursor is of no use at
 * another node than its own. */
static rql_status read_next_page(const struct rqli_reader *reader, struct rqli_walk *self,
                                 int64_t count)
{
    struct rqli_retries retries = {.until_us = rqli_client_until_us(reader->client, rqli_now_us())};
    struct rqli_reader follower = *reader;
    rql_error fault = {0};
    rql_status status;

    follower.retries = &retries;
    follower.error = &fault;
    for (;;) {
        retries.again_us = 0;
        status = read_page_there(&follower, self, count);
        if (!status || retries.again_us == 0) {
            return rqli_pass(reader->error, status, &fault);
        }
        (void)snprintf(self->cursor, sizeof self->cursor, "0");
        rqli_sleep_until(retries.again_us);
    }
}

/* A walk of keys ends when the server says so, because nothing else says how many keys there
 * are. A walk of a hash that does not end is cut without a fault, with is_done false. */
rql_status rqli_walk_read_all(const struct rqli_reader *reader, struct rqli_walk *self,
                              int64_t count)
{
    rql_status status = RQL_OK;

    rqli_fleet_on_use(&reader->client->fleet);
    rqli_fleet_await_map(&reader->client->fleet,
                         rqli_client_until_us(reader->client, rqli_now_us()));
    rqli_walk_use(self, reader->client, NULL);
    for (int i = 0; !status && !self->is_done && (!self->hash || i < RQLI_WALK_ROUNDS_MAX); i++) {
        status = read_next_page(reader, self, count);
    }
    if (!self->is_done) {
        rqli_list_sort(&self->found);
    }
    return status;
}
