#include "admin/client_list.h"

#include "admin/pages.h"
#include "base/cancel.h"
#include "base/error.h"
#include "net/login/client_name.h"

#include <stdlib.h>
#include <string.h>

/* The list of clients (lua/README.md 51). An entry that cannot be read is left out, because
 * another program has written it. */

enum { CLIENTS_PAGE = 1000 /* COUNT of one HSCAN */, CLIENTS_MAX = 100000, FIRST_ITEMS = 64 };

static const int64_t hour_us = INT64_C(3600000000);

rql_client_info *rqli_client_info_read(struct rqli_slice identity, struct rqli_slice entry)
{
    static const char *const marks[] = {
        "\"host\":", "\"program\":", "\"user\":", "\"version\":", "\"label\":"};

    enum { HOST, PROGRAM, USER, VERSION, LABEL, N_TEXTS };

    /* A text is shorter than its field, and its terminating NUL takes the place of a quote. */
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
        texts[i] = rqli_pack(&cursor, rqli_client_entry_text(entry, marks[i]));
    }
    info->host = texts[HOST];
    info->program = texts[PROGRAM];
    info->user = texts[USER];
    info->version = texts[VERSION];
    info->label = texts[LABEL];
    info->pid = rqli_client_entry_number(entry, "\"pid\":");
    info->since_us = rqli_client_entry_number(entry, "\"since_us\":");
    info->at_us = rqli_client_entry_number(entry, "\"at_us\":");
    info->zombie_ttl_ms = rqli_client_entry_number(entry, "\"zombie_ttl_ms\":");
    info->probe_period_ms = rqli_client_entry_number(entry, "\"probe_period_ms\":");
    info->flush_period_ms = rqli_client_entry_number(entry, "\"flush_period_ms\":");
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
    /* The array is full at each power of two. */
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

/* A walk through the list, and the clients that it finds. */
struct listing {
    struct rqli_walk walk; /* first */
    rql_client_info_list *list;
};

/* Leaves out an entry that is older than an hour: its client has ended, because a living client
 * renews its entry three times in an hour. */
static void take_client(struct rqli_walk *walk, struct rqli_slice identity, struct rqli_slice entry)
{
    const struct listing *self = (const struct listing *)walk;
    rql_client_info *info =
        self->list->count < CLIENTS_MAX ? rqli_client_info_read(identity, entry) : NULL;

    if (!info || info->at_us < walk->server_us - hour_us) {
        free(info);
    } else if (!add(self->list, info)) {
        free(info);
        walk->found.failed = true;
    }
}

static int compare(const void *a, const void *b)
{
    const rql_client_info *const *left = a;
    const rql_client_info *const *right = b;

    return strcmp((*left)->identity, (*right)->identity);
}

/* HSCAN may return a field more than once. */
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

static rql_status read_all(rql_client *client, rql_client_info_list *list, rql_error *error)
{
    const struct rqli_key_set *set = &rqli_key_sets[client->is_partitioned ? 0 : RQLI_WHOLE];
    const struct rqli_reader reader = {
        .client = client, .where = set->clients.data, .error = error, .set = set};
    struct listing listing = {.list = list};
    rql_status status;

    rqli_walk_init(&listing.walk, NULL, set->clients.data);
    listing.walk.take_field = take_client;
    status = rqli_walk_read_all(&reader, &listing.walk, CLIENTS_PAGE);
    rqli_walk_fini_p(&listing.walk);
    sort(list);
    return status;
}

rql_status rql_clients_list(rql_client *client, rql_client_info_list **out, rql_error *error)
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
const rql_client_info *rql_clients_find(const rql_client_info_list *list, const char *id)
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
