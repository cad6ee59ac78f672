#include "admin/client_list.h"

#include "admin/pages.h"
#include "base/cancel.h"
#include "base/error.h"
#include "wire/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The list of clients (lua/README.md 51). Entries are JSON for others; ours have no escapes, so
 * that a field ends at the next quote. What cannot be read so is left out: somebody else has
 * written it.
 */

#define PAGE "1000" /* COUNT of one HSCAN */

enum { CLIENTS_MAX = 100000, FIRST_ITEMS = 64 };

static const int64_t hour_us = INT64_C(3600000000);

/* What the entry has behind this mark, "\"host\":" for one. */
static struct rqli_slice field_of(struct rqli_slice entry, const char *mark)
{
    const char *at = memmem(entry.data, entry.length, mark, strlen(mark));
    struct rqli_slice rest = {"", 0};

    if (at) {
        at += strlen(mark);
        rest = (struct rqli_slice){at, entry.length - (size_t)(at - entry.data)};
    }
    return rest;
}

static int64_t number_of(struct rqli_slice entry, const char *mark)
{
    const struct rqli_slice rest = field_of(entry, mark);
    int64_t value;

    return rqli_parse_int((struct rqli_slice){rest.data, rqli_slice_before(rest, ",}")}, &value)
               ? value
               : -1;
}

static struct rqli_slice text_of(struct rqli_slice entry, const char *mark)
{
    struct rqli_slice rest = field_of(entry, mark);

    if (!rqli_slice_skip(&rest, "\"")) {
        return (struct rqli_slice){"", 0};
    }
    return (struct rqli_slice){rest.data, rqli_slice_before(rest, "\"")};
}

rql_client_info *rqli_client_info_read(struct rqli_slice identity, struct rqli_slice entry)
{
    static const char *const marks[] = {
        "\"host\":", "\"program\":", "\"user\":", "\"version\":", "\"label\":"};

    enum { HOST, PROGRAM, USER, VERSION, LABEL, N_TEXTS };

    /* A text is shorter than its field, and an end is in place of its quote. */
    rql_client_info *info = NULL;
    const char *texts[N_TEXTS];
    char *cursor;

    if (!rqli_is_plain(identity) || !rqli_is_plain(entry)) {
        return NULL;
    }
    info = calloc(1, sizeof *info + identity.length + entry.length + N_TEXTS + 1);
    if (!info) {
        return NULL;
    }
    cursor = (char *)(info + 1);
    info->identity = rqli_pack(&cursor, identity);
    for (size_t i = 0; i < N_TEXTS; i++) {
        texts[i] = rqli_pack(&cursor, text_of(entry, marks[i]));
    }
    info->host = texts[HOST];
    info->program = texts[PROGRAM];
    info->user = texts[USER];
    info->version = texts[VERSION];
    info->label = texts[LABEL];
    info->pid = number_of(entry, "\"pid\":");
    info->since_us = number_of(entry, "\"since_us\":");
    info->at_us = number_of(entry, "\"at_us\":");
    info->zombie_ttl_ms = number_of(entry, "\"zombie_ttl_ms\":");
    info->probe_period_ms = number_of(entry, "\"probe_period_ms\":");
    info->flush_period_ms = number_of(entry, "\"flush_period_ms\":");
    return info;
}

rql_client_info_list *rql_client_info_list_free(rql_client_info_list *list)
{
    for (size_t i = 0; list && i < list->count; i++) {
        free(list->item[i]);
    }
    free(list ? list->item : NULL);
    free(list);
    return NULL;
}

static bool add(rql_client_info_list *list, rql_client_info *info)
{
    /* Full at each power of two. */
    const bool is_full = list->count >= FIRST_ITEMS && (list->count & (list->count - 1)) == 0;
    rql_client_info **item = list->item;

    if (list->count == 0 || is_full) {
        item = reallocarray(item, list->count == 0 ? FIRST_ITEMS : 2 * list->count, sizeof(void *));
    }
    if (!item) {
        return false;
    }
    list->item = item;
    list->item[list->count++] = info;
    return true;
}

/* What is older than an hour is left out: its client says it three times in that time, or has
 * ended. */
static rql_status take_page(rql_client_info_list *list, const struct rqli_reply *found,
                            int64_t server_us, rql_error *error)
{
    for (size_t i = 0; i + 1 < found->count && list->count < CLIENTS_MAX; i += 2) {
        rql_client_info *info =
            rqli_client_info_read(found->items[i].text, found->items[i + 1].text);

        if (!info || info->at_us < server_us - hour_us) {
            free(info);
        } else if (!add(list, info)) {
            free(info);
            return rqli_fail_nomem(error);
        }
    }
    return RQL_OK;
}

static int compare(const void *a, const void *b)
{
    const rql_client_info *const *left = a;
    const rql_client_info *const *right = b;

    return strcmp((*left)->identity, (*right)->identity);
}

/* HSCAN may name a field more than once. */
static void sort(rql_client_info_list *list)
{
    size_t kept = 0;

    if (list->count == 0) {
        return;
    }
    qsort(list->item, list->count, sizeof(void *), compare);
    for (size_t i = 1; i < list->count; i++) {
        if (compare(&list->item[kept], &list->item[i]) == 0) {
            free(list->item[i]);
        } else {
            list->item[++kept] = list->item[i];
        }
    }
    list->count = kept + 1;
}

static rql_status read_time(rql_client *client, int64_t *out_us, rql_error *error)
{
    RQLI_AUTO(rqli_exchange_give) struct rqli_exchange *exchange = NULL;
    rql_status status = rqli_query(client, &exchange, error, "TIME", NULL);

    if (!status && !rqli_time_read(exchange->reply, out_us)) {
        status = rqli_exchange_fault(exchange, exchange->reply, "TIME", "server", error);
    }
    return status;
}

/* One page; *cursor is "0" behind the last. */
static rql_status read_page(rql_client *client, rql_client_info_list *list, int64_t server_us,
                            char cursor[RQLI_CURSOR_SIZE], rql_error *error)
{
    RQLI_AUTO(rqli_exchange_give) struct rqli_exchange *exchange = NULL;
    rql_status status = rqli_query(client, &exchange, error, "HSCAN", RQLI_KEY_CLIENTS, cursor,
                                   "COUNT", PAGE, NULL);
    const struct rqli_reply *reply = status ? NULL : exchange->reply;

    if (status) {
        return status;
    }
    if (reply->type != RQLI_REPLY_ARRAY || reply->count != 2 ||
        reply->items[0].type != RQLI_REPLY_TEXT ||
        reply->items[0].text.length >= RQLI_CURSOR_SIZE) {
        return rqli_exchange_fault(exchange, reply, "HSCAN", RQLI_KEY_CLIENTS, error);
    }
    (void)snprintf(cursor, RQLI_CURSOR_SIZE, "%s", reply->items[0].text.data);
    return take_page(list, &reply->items[1], server_us, error);
}

static rql_status read_all(rql_client *client, rql_client_info_list *list, rql_error *error)
{
    const struct rqli_reader reader = {client, RQLI_KEY_CLIENTS, error};
    char cursor[RQLI_CURSOR_SIZE] = "0";
    int64_t server_us = 0;
    rql_status status = read_time(client, &server_us, error);

    for (bool is_over = false; !status && !is_over && list->count < CLIENTS_MAX;) {
        status = read_page(client, list, server_us, cursor, error);
        is_over = strcmp(cursor, "0") == 0;
    }
    sort(list);
    return rqli_reader_status(&reader, status);
}

rql_status rql_list_clients(rql_client *client, rql_client_info_list **out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_client_info_list *list;
    rql_status status = rqli_client_check(client, error);

    if (status) {
        return status;
    }
    if (!out) {
        return rqli_fail(error, RQL_E_INVALID, "out is NULL");
    }
    list = calloc(1, sizeof *list);
    status = list ? read_all(client, list, error) : rqli_fail_nomem(error);
    if (status) {
        (void)rql_client_info_list_free(list);
    } else {
        *out = list;
    }
    return status;
}

/* An id ends with "/<identity>". */
const rql_client_info *rql_find_client(const rql_client_info_list *list, const char *id)
{
    const char *slash = id ? strrchr(id, '/') : NULL;
    const rql_client_info wanted = {.identity = slash ? slash + 1 : id};
    const rql_client_info *key = &wanted;
    rql_client_info *const *found = NULL;

    if (list && id && list->count > 0) {
        found = bsearch(&key, list->item, list->count, sizeof(void *), compare);
    }
    return found ? *found : NULL;
}
