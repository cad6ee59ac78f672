#include "admin/client_list.h"

#include "admin/infos.h"
#include "admin/pages.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/result.h"
#include "net/login/client_name.h"

#include <stdlib.h>
#include <string.h>

/* The list of clients (lua/README.md 51). An entry that cannot be read is left out, because
 * another program has written it. */

enum { CLIENTS_PAGE = 1000 /* COUNT of one HSCAN */, CLIENTS_MAX = 100000 };

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
    info = rqli_result_new(sizeof *info + identity.length + entry.length + N_TEXTS + 1);
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

/* A walk through the list, and the clients that it finds. */
struct listing {
    struct rqli_walk walk; /* first */
    struct rqli_infos clients;
};

/* Leaves out an entry that is older than an hour: its client has ended, because a living client
 * renews its entry three times in an hour. */
static void take_client(struct rqli_walk *walk, struct rqli_slice identity, struct rqli_slice entry)
{
    struct listing *self = (struct listing *)walk;
    rql_client_info *info =
        self->clients.count < CLIENTS_MAX ? rqli_client_info_read(identity, entry) : NULL;

    if (!info || info->at_us < walk->server_us - hour_us) {
        (void)rql_free(info);
    } else {
        rqli_infos_add(&self->clients, info);
    }
}

static int compare(const void *a, const void *b)
{
    const rql_client_info *const *left = a;
    const rql_client_info *const *right = b;

    return strcmp((*left)->identity, (*right)->identity);
}

rql_status rql_clients_list(rql_client *client, rql_client_info_list **out, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rql_free) rql_client_info_list *list = NULL;
    struct rqli_reader reader = {.client = client, .error = error};
    struct listing listing = {.clients = {0}};
    rql_status status = rqli_client_check(client, error);

    if (status) {
        return status;
    }
    if (!out) {
        return rqli_fail(error, RQL_E_INVALID, "out is NULL");
    }
    reader.set = &rqli_key_sets[client->is_partitioned ? 0 : RQLI_WHOLE];
    reader.where = reader.set->clients.data;
    rqli_walk_init(&listing.walk, NULL, reader.where);
    listing.walk.take_field = take_client;
    status = rqli_walk_read_all(&reader, &listing.walk, CLIENTS_PAGE);
    rqli_walk_fini_p(&listing.walk);
    /* HSCAN may return a field more than once. */
    list = rqli_infos_give(&listing.clients, sizeof *list, compare, compare);
    if (!status && !list) {
        status = rqli_fail_nomem(error);
    }
    if (!status) {
        *out = RQLI_GIVE(list);
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
