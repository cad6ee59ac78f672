#include "admin/scan.h"

#include "base/error.h"
#include "wire/pack.h"

#include <stdlib.h>

enum { FIRST_CAPACITY = 64, PATTERN_SIZE = 64 };

/* Memory of the keys of one reply. Never moved, so that keys may point into it. */
struct rqli_scan_page {
    struct rqli_scan_page *next;
    char text[];
};

void rqli_scan_init(struct rqli_scan *self, const char *prefix)
{
    *self = (struct rqli_scan){.prefix = rqli_slice_of(prefix), .cursor = "0"};
}

void rqli_scan_fini(struct rqli_scan *self)
{
    while (self->pages) {
        struct rqli_scan_page *page = self->pages;

        self->pages = page->next;
        free(page);
    }
    free(self->keys);
    *self = (struct rqli_scan){0};
}

void rqli_scan_ask(const struct rqli_scan *self, struct rqli_command *command, int64_t count)
{
    char pattern[PATTERN_SIZE];

    memcpy(pattern, self->prefix.data, self->prefix.length);
    pattern[self->prefix.length] = '*';
    rqli_command_begin(command, 6);
    rqli_command_text(command, "SCAN");
    rqli_command_text(command, self->cursor);
    rqli_command_text(command, "MATCH");
    rqli_command_slice(command, (struct rqli_slice){pattern, self->prefix.length + 1});
    rqli_command_text(command, "COUNT");
    rqli_command_int(command, count);
}

static bool is_text_array(const struct rqli_reply *reply)
{
    if (reply->type != RQLI_REPLY_ARRAY) {
        return false;
    }
    for (size_t i = 0; i < reply->count; i++) {
        if (reply->items[i].type != RQLI_REPLY_TEXT) {
            return false;
        }
    }
    return true;
}

static bool is_scan_reply(const struct rqli_reply *reply)
{
    const struct rqli_reply *cursor = reply->items;

    return reply->type == RQLI_REPLY_ARRAY && reply->count == 2 &&
           cursor->type == RQLI_REPLY_TEXT && cursor->text.length > 0 &&
           cursor->text.length < RQLI_CURSOR_SIZE && rqli_is_plain(cursor->text) &&
           is_text_array(&reply->items[1]);
}

static bool reserve(struct rqli_scan *self, size_t more)
{
    size_t needed = self->count + more;
    size_t capacity = self->capacity > 0 ? self->capacity : FIRST_CAPACITY;
    struct rqli_slice *keys;

    while (capacity < needed) {
        capacity *= 2;
    }
    if (capacity == self->capacity) {
        return true;
    }
    keys = reallocarray(self->keys, capacity, sizeof *keys);
    if (!keys) {
        return false;
    }
    self->keys = keys;
    self->capacity = capacity;
    return true;
}

static struct rqli_scan_page *new_page(const struct rqli_reply *found)
{
    struct rqli_scan_page *page = NULL;
    size_t size = sizeof *page;

    for (size_t i = 0; i < found->count; i++) {
        size += found->items[i].text.length + 1;
    }
    page = malloc(size);
    return page;
}

static bool add_keys(struct rqli_scan *self, const struct rqli_reply *found)
{
    struct rqli_scan_page *page = reserve(self, found->count) ? new_page(found) : NULL;
    char *cursor;

    if (!page) {
        return false;
    }
    page->next = self->pages;
    self->pages = page;
    cursor = page->text;
    for (size_t i = 0; i < found->count; i++) {
        struct rqli_slice key = found->items[i].text;

        if (rqli_has_prefix(key, self->prefix)) {
            key.data = rqli_pack(&cursor, key);
            self->keys[self->count++] = key;
        }
    }
    return true;
}

static int compare(const void *a, const void *b)
{
    const struct rqli_slice *left = a;
    const struct rqli_slice *right = b;
    size_t common = left->length < right->length ? left->length : right->length;
    int order = memcmp(left->data, right->data, common);

    if (order != 0) {
        return order;
    }
    return (left->length > right->length) - (left->length < right->length);
}

static void keep_each_once(struct rqli_scan *self)
{
    size_t kept = 0;

    if (self->count == 0) {
        return;
    }
    qsort(self->keys, self->count, sizeof *self->keys, compare);
    for (size_t i = 1; i < self->count; i++) {
        if (compare(&self->keys[kept], &self->keys[i]) != 0) {
            self->keys[++kept] = self->keys[i];
        }
    }
    self->count = kept + 1;
}

rql_status rqli_scan_take(struct rqli_scan *self, const struct rqli_reply *reply, rql_error *error)
{
    if (!is_scan_reply(reply)) {
        return rqli_reply_fault(reply, "SCAN", self->prefix.data, error);
    }
    if (reply->items[1].count > 0 && !add_keys(self, &reply->items[1])) {
        return rqli_fail_nomem(error);
    }
    memcpy(self->cursor, reply->items[0].text.data, reply->items[0].text.length);
    self->cursor[reply->items[0].text.length] = '\0';
    self->is_done = strcmp(self->cursor, "0") == 0;
    if (self->is_done) {
        keep_each_once(self);
    }
    return RQL_OK;
}

rql_status rqli_scan_texts(const struct rqli_scan *self, rql_text_list **out, rql_error *error)
{
    rql_text_list *list = NULL;
    size_t size = sizeof *list + self->count * sizeof *list->item;
    char *cursor;

    for (size_t i = 0; i < self->count; i++) {
        size += self->keys[i].length + 1;
    }
    list = malloc(size);
    if (!list) {
        return rqli_fail_nomem(error);
    }
    list->count = 0;
    list->item = (const char **)(list + 1);
    cursor = (char *)(list->item + self->count);
    for (size_t i = 0; i < self->count; i++) {
        if (rqli_is_plain(self->keys[i])) {
            list->item[list->count++] = rqli_pack(&cursor, self->keys[i]);
        }
    }
    *out = list;
    return RQL_OK;
}
